"""pytest-asyncio: a fixture that holds a lock is entered in one task, and left in another."""

from __future__ import annotations

from tests.frameworks.common import Surroundings, require


def test_a_fixture_holds_a_lock(surroundings: Surroundings) -> None:
    require("pytest_asyncio")
    program = surroundings.program(
        *("-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider", "-p", "no:xdist"),
        *("-o", "asyncio_default_fixture_loop_scope=function", "tests/frameworks/apps/fixtures.py"),
        *("--noconftest",),
        environment={"PYTEST_ADDOPTS": "", "PYTEST_XDIST_WORKER": ""},
    )
    assert program.wait(40) == 0, program.output()
    assert "3 passed" in program.output()
    surroundings.check_exclusion(3)
    surroundings.check_nothing_left()
