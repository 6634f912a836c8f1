"""What callers left open is settled in the background: each lock on its own."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from pyredisson.errors import OutcomeUnknownError
from tests.proxy import Proxy
from tests.real_servers.observation import RELEASE
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
