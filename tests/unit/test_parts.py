"""What ``make test`` runs: enough to see each kind work, with threads and with asyncio, on a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: The files of ``tests/promises/`` that are about one kind.
KINDS = {
    "count_down_latch",
    "fair_lock",
    "fenced_lock",
    "multi_lock",
    "non_reentrant_lock",
    "permit_expirable_semaphore",
    "read_write_lock",
    "reentrancy",
    "semaphore",
    "spin_lock",
    "token_lock",
}


@pytest.fixture(scope="module")
def quick_tests() -> list[str]:
    """The ids of the tests of ``make test``, of those about one kind."""
    files = [f"tests/promises/test_{kind}.py" for kind in sorted(KINDS)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q", "--part", "quick"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize("form", ["threads", "asyncio"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_runs_on_a_real_server_in_each_form(quick_tests: list[str], kind: str, form: str) -> None:
    assert [test for test in quick_tests if f"test_{kind}.py" in test and f"{form}-valkey" in test]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_runs_on_the_simulator(quick_tests: list[str], kind: str) -> None:
    assert [test for test in quick_tests if f"test_{kind}.py" in test and "simulated" in test]
