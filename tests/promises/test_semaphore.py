"""A semaphore has so many permits: each is taken once, given back once, and nobody who waits is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions

import pyredisson.asyncio
from pyredisson.core.driver import Progress, run
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import (
    asyncio_only,
    each_server,
    threads_only,
)

CHANNEL = "redisson_sc:{seats}"


def seats(actor: Actor, client: Remote, permits: int | None = None) -> Remote:
    semaphore = actor.get(client, "semaphore", "seats")
    if permits is not None:
        assert semaphore.try_set_permits(permits) is True
    return semaphore


# ---- waiting -----------------------------------------------------------------------------------------------------


@each_server
def test_a_crowd_is_served_with_few_commands(world: ClockWorld) -> None:
    """A thousand tasks, or two hundred threads, on one permit: an attempt each, then one for each hand-over."""
    crowd = 200 if world.runtime == "threads" else 1000
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    handle = client.real.get_semaphore("seats")
    boss = world.actor()
    semaphore = Remote(handle, boss)
    semaphore.try_set_permits(0)
    actors = world.actors(crowd)
    served: list[int] = []

    def done(number: int) -> Callable[[], Any]:
        if world.runtime == "threads":

            def use() -> None:
                assert handle.acquire()
                served.append(number)
                handle.release()

            return use

        async def use_task() -> None:
            assert await handle.acquire()
            served.append(number)
            await handle.release()

        return use_task

    pendings = [actor.start(done(number)) for number, actor in enumerate(actors)]
    world.until(lambda: world.waiting(semaphore) == crowd, within=30)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("evalsha", "eval")
    semaphore.release()
    for pending in pendings:
        pending.result(within=60)
    assert sorted(served) == list(range(crowd))
    assert semaphore.available_permits() == 1
    # An acquire and a release each, and now and then a look by somebody who was told of a permit that was gone.
    assert world.redis.calls("evalsha", "eval") - before <= 3 * crowd


# ---- ended waits leave nothing in Redis --------------------------------------------------------------------------


@asyncio_only
def test_handles_serve_one_event_loop_after_another(world: ClockWorld) -> None:
    """On a new loop the client is another one: with a new id, and with nothing left of the old one's requests."""
    client = pyredisson.asyncio.Redisson(redis.asyncio.Redis(port=world.port))
    semaphore, permits = client.get_semaphore("seats"), client.get_permit_expirable_semaphore("leased")
    latch = client.get_count_down_latch("ready")
    ids = set()

    async def use(*, last: bool) -> None:
        await semaphore.add_permits(1)
        assert await semaphore.acquire(timeout=1)
        assert not await semaphore.try_acquire(1, 0.05)
        await permits.add_permits(1)
        assert await permits.try_acquire(1)
        assert await permits.try_acquire(0.05) is None
        await latch.try_set_count(1)
        assert not await latch.wait(0.05)
        ids.add(client.id)
        if last:
            await client.close()

    for last in (False, False, True):
        asyncio.run(use(last=last))
    assert len(ids) == 3
    records = {key.split(":", 2)[2].rsplit(":", 1)[0] for key in world.redis.everything() if "done:{seats}" in key}
    assert records == ids


# ---- arguments ---------------------------------------------------------------------------------------------------


@threads_only
def test_a_release_interrupted_before_it_began_is_done_once(world: World) -> None:
    class Interrupting(Progress):
        def __setattr__(self, name: str, value: object) -> None:
            raise KeyboardInterrupt

    semaphore = world.client().real.get_semaphore("seats", permits=3)
    assert semaphore.acquire()
    with pytest.raises(KeyboardInterrupt):
        run(semaphore._core.release(1, Interrupting()))
    assert semaphore.available_permits() == 2  # Whoever called it calls it again.
