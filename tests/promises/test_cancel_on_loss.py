"""``hold(cancel_on_loss=True)``: the body of a block is cancelled when its lock is lost."""

from __future__ import annotations

import asyncio

import pytest

from pyredisson import LockLostError
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.environments import asyncio_only

pytestmark = asyncio_only

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def test_a_block_that_was_left_is_not_cancelled_any_more(world: AsyncioWorld) -> None:
    lost = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    lock = client.real.get_lock("orders")
    left = []

    async def body() -> str:
        async with lock.hold():
            async with lock.hold(cancel_on_loss=True):
                pass
            left.append(True)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), SHORT)
            return "not cancelled"

    running = world.actor().start(body)
    world.until(lambda: left)
    world.redis.delete("orders")
    world.until(lambda: lost)
    assert isinstance(running.error(), LockLostError)  # Of the outer block, which waited for its own end.
