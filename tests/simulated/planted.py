"""Bugs that tests plant, and what finds them: a test that finds no bug proves nothing until it finds those."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pyredisson.lua import script_names
from pyredisson.net.resp import script
from tests.simulated.engine.world import Cancelled

__all__ = ["Bug", "all_of", "cases_of", "finding", "first_finding", "in_code", "in_script"]


@dataclass
class Bug:
    """A bug: how it is planted."""

    plant: Callable[[pytest.MonkeyPatch], object]


def in_script(name: str, *changes: tuple[str, str]) -> Bug:
    """A bug in a script, and in what it is to those who wait: some text becomes another."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for each in {name, f"{name}_waiting"} & {*script_names()}:
            target = script(each)
            text = target.text.decode()
            for line, other in changes:
                # Where a script attempts for those who wait, it stands further in.
                old, new = ((part if each == name else part.replace("\n", "\n    ")) for part in (line, other))
                assert old in text, f"{each} says no longer {old!r}"
                text = text.replace(old, new)
            patch.setattr(target, "text", text.encode())
            patch.setattr(target, "sha", hashlib.sha1(text.encode()).hexdigest())

    return Bug(plant)


def in_code(target: object, name: str, value: object) -> Bug:
    """A bug in the code: an attribute is another."""
    return Bug(lambda patch: patch.setattr(target, name, value))


def all_of(*bugs: Bug) -> Bug:
    """Several at once."""
    return Bug(lambda patch: [bug.plant(patch) for bug in bugs])


def finding(error: BaseException) -> str:
    """What found a planted bug; raises the error again if the test was only stopped, or the bug is planted wrongly."""
    if isinstance(error, (KeyboardInterrupt, SystemExit)) or "from pytest-timeout" in str(error):
        raise error
    if isinstance(error, (TypeError, AttributeError, NameError)):
        raise AssertionError(f"what is planted does not fit the code: {error!r}") from error
    return type(error).__name__


def cases_of(test: Callable[..., None]) -> list[dict[str, Any]]:
    """The values with which a test is called, by its marks."""
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names, values = mark.args
        rows = [{names: value} if isinstance(names, str) else dict(zip(names, value, strict=True)) for value in values]
        cases = [{**case, **row} for case in cases for row in rows]
    return cases


def first_finding(tests: dict[str, Any], new: Callable[..., Any]) -> str | None:
    """What the tests of a module find that make crowds, if they find anything."""
    for name, test in list(tests.items()):
        if not name.startswith("test_") or "make" not in getattr(test, "__annotations__", ()):
            continue
        for case in cases_of(test):
            made: list[Any] = []

            def make(*args: Any, made: list[Any] = made) -> Any:
                made.append(new(*args))
                return made[-1]

            try:
                test(make=make, **case)
            except (Exception, Cancelled) as error:
                return f"{name}, {case}: {finding(error)}"
            finally:
                for each in made:
                    each.world.end()
    return None
