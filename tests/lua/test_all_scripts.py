"""No script is left without cases."""

from __future__ import annotations

import importlib
import pkgutil

import tests.lua
from tests.lua.harness import Case
from tests.lua.random_steps import SCRIPTS


def test_every_script_has_cases() -> None:
    names = [module.name for module in pkgutil.iter_modules(tests.lua.__path__) if module.name.endswith("_scripts")]
    cases: list[Case] = []
    for name in names:
        cases += getattr(importlib.import_module(f"tests.lua.{name}"), "CASES", [])
    assert {case.call.script for case in cases} == set(SCRIPTS)
