"""hiredis is an extra: without it the same tests of the contract pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

#: What packing, parsing and their bounds decide about: the wire, lost and late replies, messages to waiters, pushes.
PART = [
    "tests/contract/test_exactly_once.py",
    "tests/contract/test_waiting.py",
    "tests/contract/test_wire.py",
    "tests/unit/test_bounds.py",
    "tests/unit/test_wire.py",
]

#: At the full volume these, too.
MORE = ["tests/contract/test_exactly_once_permits.py", "tests/contract/test_fenced_lock.py"]


@pytest.mark.volume
@pytest.mark.timeout(400)
def test_a_part_of_the_contract_passes_without_hiredis(volume: Callable[[int], int]) -> None:
    """Each test in one form on Valkey, on real connections, and those of packing and parsing."""
    more = MORE if volume(1000) == 1000 else []
    command = [sys.executable, "-m", "pytest", "-p", "tests.without_hiredis", "-p", "no:cacheprovider", "-q", "-n", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, "--part", "quick", "-k", "not simulated", *PART, *more],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


@pytest.mark.quick
def test_a_hiredis_that_cannot_tell_a_push_from_a_reply_is_not_used() -> None:
    """Those before 3.0: a message that nobody asked for would be taken for the reply to a request."""
    program = """
import sys, types
import redis
old = types.ModuleType("hiredis")
old.__version__, old.Reader, old.pack_command = "2.4.0", object, object
sys.modules["hiredis"] = old
from pyredisson.net import bounds, parsing
assert bounds.new_parser is parsing.Parser and bounds.pack_command is parsing.pack_command
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)


@pytest.mark.quick
def test_the_parser_in_python_serves_where_hiredis_is_missing() -> None:
    program = """
import tests.without_hiredis
import asyncio, sys
import pyredisson, pyredisson.asyncio
from pyredisson.net import bounds, parsing
assert bounds.new_parser is parsing.Parser and bounds.pack_command is parsing.pack_command
with pyredisson.Redisson.embedded() as client:
    with client.get_lock("orders").hold(wait_time=5):
        assert client.get_lock("orders").is_locked()

    async def use():
        async with pyredisson.asyncio.Redisson.from_url(client.url) as other:
            async with other.get_fenced_lock("orders").hold(wait_time=5) as lease:
                assert lease.token == 1
    asyncio.run(use())
assert "hiredis" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
