"""What callers left open is settled in the background: each lock on its own."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
import redis

from pyredisson.errors import OutcomeUnknownError
from tests.clusters import RunningCluster
from tests.proxy import Proxy
from tests.real.looking import RELEASE
from tests.waiting import until
from tests.worlds.clock import ClockWorld

LEASE = 20.0  # seconds; what is left to its lease is free that late


def freed_in(direct: Any, name: str) -> float:
    began = time.monotonic()
    until(lambda: not direct.exists(name), LEASE + 5, what=f"{name} is free")
    return time.monotonic() - began


def test_a_key_of_another_type_keeps_no_other_lock_from_being_freed(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.connected(proxy.url, timeout=1.2, lock_watchdog_timeout=LEASE)
    names = [f"{unique_name}-{index}" for index in range(2)]
    locks, actors = [client.get_lock(name) for name in names], [world.actor() for _ in names]
    for lock, actor in zip(locks, actors, strict=True):
        actor.do(lock.lock)
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    for lock, actor in zip(locks, actors, strict=True):
        with pytest.raises(OutcomeUnknownError):
            actor.do(lock.unlock)
    direct.delete(names[0])
    direct.set(names[0], "something else's")
    swallowed.remove()

    assert freed_in(direct, names[1]) < LEASE / 4

    assert direct.get(names[0]) == "something else's"


def test_a_node_that_is_stopped_keeps_no_lock_on_the_others_from_being_freed(
    world: ClockWorld, fresh_cluster: RunningCluster
) -> None:
    fresh_cluster.be_patient()
    client, owner, other = (
        world.from_url(fresh_cluster.url, timeout=1.5, lock_watchdog_timeout=LEASE),
        *(world.actor() for _ in range(2)),
    )
    names = iter(lambda: f"test-{uuid.uuid4().hex}", "")
    away = next(names)
    stopped = fresh_cluster.master_of(away)
    here = next(name for name in names if fresh_cluster.master_of(name) is not stopped)
    until(lambda: _connects(owner, client, away), 20, what="connected")
    locks = [client.get_lock(name) for name in (away, here)]
    owner.do(locks[0].lock)
    other.do(locks[1].lock)
    stopped.pause()
    try:
        with pytest.raises(OutcomeUnknownError):
            owner.do(locks[0].unlock)
        # What a block owes whose end could not wait.
        core = client._core
        (ownership,) = core.ownerships.of(here)
        assert ownership.release_later(block=True)

        async def settle() -> None:
            core.watchdog.settle(ownership)

        world.run(settle if world.runtime == "asyncio" else lambda: core.watchdog.settle(ownership))
        with fresh_cluster.client(here, decode_responses=True) as direct:
            assert freed_in(direct, here) < LEASE / 4
    finally:
        stopped.resume()


def _connects(actor: Any, client: Any, name: str) -> bool:
    try:
        actor.do(client.get_lock(name).is_locked)
    except redis.RedisError:
        return False
    return True
