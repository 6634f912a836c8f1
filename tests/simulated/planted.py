"""Bugs that tests plant, and what finds them: a test that finds no bug proves nothing until it finds those."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pytest

from pyredisson._lua import script_names
from pyredisson._net.wire import script

#: A bug: what plants it.
Bug: TypeAlias = Callable[[pytest.MonkeyPatch], object]


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

    return plant


def in_code(target: object, name: str, value: object) -> Bug:
    """A bug in the code: an attribute is another."""
    return lambda patch: patch.setattr(target, name, value)


def all_of(*bugs: Bug) -> Bug:
    """Several at once."""
    return lambda patch: [bug(patch) for bug in bugs]


def check_found(
    patch: pytest.MonkeyPatch,
    name: str,
    bug: Bug,
    tests: Iterable[tuple[str, Callable[[], object]]],
    by: type[BaseException] = BaseException,
) -> None:
    """Plant a bug, and make tests until one of them fails. Prints which.

    Args:
        patch: What plants it.
        name: What the bug is.
        bug: The bug.
        tests: The tests, each with its name.
        by: How a test may find it. Any other error is raised.

    Raises:
        AssertionError: No test has found it, or it does not fit the code.
    """
    bug(patch)
    for what, test in tests:
        try:
            test()
        except pytest.skip.Exception:
            pass
        except (TypeError, AttributeError, NameError) as error:
            raise AssertionError(f"what is planted does not fit the code: {error!r}") from error
        except by as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)) or "from pytest-timeout" in str(error):
                raise
            print(f"{name}: {what}: {type(error).__name__}: {error}")
            return
    raise AssertionError(f"nothing found this: {name}")


def cases_of(test: Callable[..., None], *but: str) -> list[dict[str, Any]]:
    """The values with which a test is called, by its marks, but for those of some parameters."""
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize" or mark.args[0] in but:
            continue
        names, values = mark.args
        rows = [{names: value} if isinstance(names, str) else dict(zip(names, value, strict=True)) for value in values]
        cases = [{**case, **row} for case in cases for row in rows]
    return cases


def crowd_tests(
    module: Mapping[str, Any], new: Callable[[str], Any], kind: str
) -> Iterator[tuple[str, Callable[[], object]]]:
    """The tests of a module that have a crowd, each with each of its cases: of this kind, where a test names none."""

    def call(test: Callable[..., None], case: dict[str, Any]) -> None:
        crowd = new(case.get("kind", kind))
        try:
            test(crowd=crowd, **{name: value for name, value in case.items() if name in parameters_of(test)})
        finally:
            crowd.world.end()

    for name, test in list(module.items()):
        if name.startswith("test_") and "crowd" in parameters_of(test):
            for case in cases_of(test):
                yield f"{name}, {case}", partial(call, test, case)


def parameters_of(test: Callable[..., None]) -> Mapping[str, object]:
    return inspect.signature(test).parameters
