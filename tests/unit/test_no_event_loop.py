"""What is said where no event loop of asyncio runs: in plain code, under trio, in subinterpreters."""

from collections.abc import Callable
from typing import Any

import pytest

import pyredisson.asyncio
from pyredisson.asyncio import Redisson
from tests.command_line import run_python

CALLS: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("x").lock(),
    "is_locked": lambda client: client.get_lock("x").is_locked(),
    "hold": lambda client: client.get_lock("x").hold().__aenter__(),
    "acquire": lambda client: client.get_semaphore("x").acquire(),
    "multi": lambda client: client.get_multi_lock(client.get_lock("x")).lock(),
    "id": lambda client: _current_id(),
}


async def _current_id() -> int:
    return pyredisson.asyncio.current_thread_id()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_under_trio(call):
    trio = pytest.importorskip("trio")

    async def main():
        with pytest.raises(RuntimeError, match=r"this is trio: .*trio\.to_thread"):
            await call(Redisson.from_url("redis://localhost:1"))

    trio.run(main)


def test_in_an_isolated_subinterpreter():
    """There hiredis cannot be imported; that is said here as it says it there."""
    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] == 'hiredis':\n"
        "            raise ImportError('module hiredis.hiredis does not support loading in subinterpreters')\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from pyredisson import Redisson\n"
    )
    ended = run_python(program, exit_code=1)
    assert "pyredisson cannot run in an isolated subinterpreter: use threads or processes" in ended.stderr
