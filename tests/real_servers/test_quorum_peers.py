"""Token locks on five nodes exclude, and are excluded by, other libraries' Redlock on the same nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest
import redis

from tests.real_servers.fleets import Fleet
from tests.waiting import until
from tests.worlds.clock import ClockWorld

LEASE = 20


def needs(module: str, wanted: str) -> None:
    """Skip the test, or fail it under ``PYREDISSON_REQUIRE_ALL=1``, without this module."""
    if find_spec(module) is None:
        reason = f"no module {module}: {wanted}"
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)


class Pottery:
    """Its keys begin with ``redlock:``."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        needs("pottery", "pip install pottery")
        from pottery import Redlock

        masters: set[redis.Redis] = {server.client() for server in fleet.servers}
        self.key = f"redlock:{name}"
        self._lock = Redlock(key=name, masters=masters, auto_release_time=LEASE)

    def take(self) -> bool:
        return bool(self._lock.acquire(blocking=False))

    def release(self) -> None:
        self._lock.release()


class RedlockNg:
    """Its keys are the names."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        needs("redlock", "pip install --no-deps redlock-ng, whose requirements exclude today's redis-py")
        needs("pydantic", "redlock-ng needs it: pip install pydantic")
        from redlock import Redlock, RedlockConfig

        self.key = name
        # Its own 100 ms are few on a machine at work.
        config = RedlockConfig(masters=fleet.urls(), socket_timeout=2.0, socket_connect_timeout=2.0)
        self._all = Redlock(config, retry_count=0)
        self._lock: Any = None

    def take(self) -> bool:
        self._lock = self._all.acquire(self.key, LEASE * 1000)
        return self._lock is not None

    def release(self) -> None:
        self._all.release(self._lock)
        for instance in self._all.client.instances:
            instance.close()


@pytest.mark.parametrize("peer", [Pottery, RedlockNg])
def test_they_exclude_each_other(
    world: ClockWorld, fleet: Fleet, unique_name: str, peer: Callable[[Fleet, str], Any]
) -> None:
    theirs, alice = peer(fleet, unique_name), world.actor()
    mine = fleet.lock(world, theirs.key, "token_lock")

    alice.do(mine.lock)
    assert all(fleet.holders(theirs.key))
    assert not theirs.take()
    assert all(fleet.holders(theirs.key)), "what was refused gave back what is another's"
    alice.do(mine.unlock)

    assert theirs.take()
    until(lambda: all(fleet.holders(theirs.key)), what="held everywhere; pottery goes on with a majority")
    assert alice.do(mine.try_lock) is False
    assert alice.do(mine.try_lock, 0.3) is False
    assert all(fleet.holders(theirs.key))
    waiting = alice.start(mine.lock)
    theirs.release()
    waiting.result(20)
    alice.do(mine.unlock)
    until(lambda: not any(fleet.holders(theirs.key)), what="free")


@pytest.mark.parametrize("peer", [Pottery, RedlockNg])
def test_they_share_nodes_of_which_two_are_down(
    world: ClockWorld, fleet: Fleet, unique_name: str, peer: Callable[[Fleet, str], Any]
) -> None:
    theirs, alice = peer(fleet, unique_name), world.actor()
    mine = fleet.lock(world, theirs.key, "token_lock")
    for server in fleet.servers[3:]:
        server.kill()
    alice.do(mine.lock)
    assert not theirs.take()
    alice.do(mine.unlock)
    assert theirs.take()
    assert alice.do(mine.try_lock) is False
    theirs.release()
