"""No script is left without cases, and none touches a key that is not in ``KEYS``."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from random import Random

import pytest

import tests.lua
from tests.lua.compared_servers import Model
from tests.lua.harness import Case
from tests.lua.random_steps import SCRIPTS, script_steps


def test_every_script_has_cases() -> None:
    names = [module.name for module in pkgutil.iter_modules(tests.lua.__path__) if module.name.endswith("_scripts")]
    cases: list[Case] = []
    for name in names:
        cases += getattr(importlib.import_module(f"tests.lua.{name}"), "CASES", [])
    assert {case.call.script for case in cases} == set(SCRIPTS)


@pytest.mark.parametrize("seed", range(4))
def test_scripts_touch_no_key_that_they_are_not_given(seed: int) -> None:
    model = Model()
    model.server.only_declared_keys = True  # It raises AssertionError, which Lua does not catch.
    called: set[bytes] = set()
    for step in itertools.islice(script_steps(Random(seed), model.server, model.version), 5000):
        if step.out_of_memory is None:
            reply = model.call(*step.command)
            assert "arguments must be strings" not in str(reply), step  # A key that is missing was used.
            called.update(step.command[1:2])
        else:
            model.out_of_memory(step.out_of_memory)
    assert called >= {text.encode() for text in SCRIPTS.values()}
