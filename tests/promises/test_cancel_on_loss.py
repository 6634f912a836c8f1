"""``hold(cancel_on_loss=True)``: the body of a block is cancelled when its lock is lost."""

from __future__ import annotations

import asyncio

import pytest

from pyredisson import LockLostError
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.environments import asyncio_only

pytestmark = asyncio_only

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def test_the_body_is_cancelled_when_the_lock_is_lost(world: AsyncioWorld) -> None:
    lock = world.client(lock_watchdog_timeout=SHORT).real.get_lock("orders")
    reached = []

    async def body() -> None:
        async with lock.hold(cancel_on_loss=True):
            reached.append("inside")
            await asyncio.sleep(60)
            reached.append("end of the body")

    alice = world.actor()
    running = alice.start(body)
    world.until(lambda: reached)
    world.redis.delete("orders")
    assert isinstance(running.error(), LockLostError)
    assert reached == ["inside"]
    assert alice.do(asyncio.sleep, 0.01, "alive") == "alive"


def test_a_cancellation_from_outside_stays_one(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")
    alice = world.actor()
    inside = []

    async def body() -> None:
        async with lock.hold(cancel_on_loss=True):
            inside.append(True)
            await asyncio.sleep(60)

    error = alice.interrupted(body, once=lambda: inside)
    assert isinstance(error, asyncio.CancelledError)
    assert alice.do(lock.is_locked) is False


def test_a_body_that_outlives_its_cancellation_may_end_in_peace(world: AsyncioWorld) -> None:
    lock = world.client(lock_watchdog_timeout=SHORT).real.get_lock("orders")
    inside, after = [], []

    async def body() -> None:
        try:
            async with lock.hold(cancel_on_loss=True):
                inside.append(True)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    after.append("cleaned up")
        finally:
            await asyncio.sleep(0.01)
            after.append("awaited")

    running = world.actor().start(body)
    world.until(lambda: inside)
    world.redis.delete("orders")
    assert isinstance(running.error(), LockLostError)
    assert after == ["cleaned up", "awaited"]


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
