"""The owner is the thread, or the task: told from all others, alive or dead, by a number that is never used again."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

import pyredisson
import pyredisson.asyncio
from pyredisson import LockNotOwnedError
from tests.servers import HOST
from tests.waiting import soon
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import Actor
from tests.worlds.environments import asyncio_only


def test_each_owner_has_a_number_of_its_own(alice: Actor, bob: Actor) -> None:
    assert alice.number == alice.number
    assert alice.number != bob.number


@asyncio_only
def test_a_child_task_is_another_owner(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")

    async def parent() -> tuple[bool, bool, int]:
        async with lock:
            got = await asyncio.create_task(lock.try_lock())
            held = await asyncio.create_task(lock.is_held_by_current_task())
            return got, held, await lock.get_hold_count()

    assert world.actor().do(parent) == (False, False, 1)


@asyncio_only
def test_without_a_task_there_is_no_owner(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")
    for call in (lock.lock, lock.try_lock, lock.unlock):
        coroutine = call()
        with pytest.raises(RuntimeError):
            coroutine.send(None)
        coroutine.close()


# ---- event loops -------------------------------------------------------------------------------------------------


@asyncio_only
def test_a_client_does_not_serve_two_loops_at_once(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")
    world.actor().do(lock.lock)
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(lock.try_lock())
    assert world.redis.everything() != {}


@asyncio_only
def test_an_event_loop_after_a_closed_one_has_new_owners(world: AsyncioWorld) -> None:
    client = pyredisson.asyncio.Redisson(redis.asyncio.Redis(host=HOST, port=world.port))
    lock = client.get_lock("orders")

    async def take() -> None:
        assert await lock.try_lock(lease_time=30)

    async def find_it_lost() -> None:
        assert await lock.get_hold_count() == 0
        assert not await lock.try_lock()
        with pytest.raises(LockNotOwnedError):
            await lock.unlock()
        assert await lock.force_unlock()
        async with lock:
            other = asyncio.create_task(lock.try_lock(5))
            await soon(lambda: "1 waiting here" in repr(lock))
        assert await other
        await client.close()

    asyncio.run(take())
    asyncio.run(find_it_lost())
