"""Bad arguments are errors before anything is sent: over a connection that leads nowhere, they show first."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import redis.exceptions

from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async

NO_TIMES = ["5", b"5", True, False, [5], 5j, Decimal(1), object()]
NO_WAITS = [-1, -0.001, math.nan, math.inf, -math.inf, 10**400, timedelta(seconds=-1)]
NO_LEASES = [0, 0.0, -1, math.nan, math.inf, -math.inf, 10**400, 1e300, timedelta(0), timedelta(seconds=-1)]


def enter(block: Remote) -> None:
    with block:
        pytest.fail("the block was run")


#: Each with its name in errors, and with the values that it may not have.
CALLS: dict[str, tuple[str, list[Any], Callable[[Remote, Any], object]]] = {
    "lock": ("lease_time", NO_LEASES, lambda lock, lease: lock.lock(lease)),
    "lock by name": ("lease_time", NO_LEASES, lambda lock, lease: lock.lock(lease_time=lease)),
    "try_lock for a lease": ("lease_time", NO_LEASES, lambda lock, lease: lock.try_lock(0, lease)),
    "try_lock by names": ("lease_time", NO_LEASES, lambda lock, lease: lock.try_lock(wait_time=5, lease_time=lease)),
    "hold for a lease": ("lease_time", NO_LEASES, lambda lock, lease: enter(lock.hold(lease_time=lease))),
    "try_lock": ("wait_time", NO_WAITS, lambda lock, wait: lock.try_lock(wait)),
    "try_lock with a lease": ("wait_time", NO_WAITS, lambda lock, wait: lock.try_lock(wait_time=wait, lease_time=5)),
    "hold": ("wait_time", NO_WAITS, lambda lock, wait: enter(lock.hold(wait))),
}


def lock_out_of_reach(world: ClockWorld) -> Remote:
    return world.actor().lock(world.client(redis=world.unreachable()))


@sync_and_async
@pytest.mark.parametrize("call", CALLS)
def test_an_invalid_time_is_refused(world: ClockWorld, call: str) -> None:
    lock = lock_out_of_reach(world)
    name, wrong, make = CALLS[call]
    for time in NO_TIMES:
        with pytest.raises(TypeError):
            make(lock, time)
    for time in wrong:
        with pytest.raises(ValueError, match=name):
            make(lock, time)
    for time in (0 if name == "wait_time" else None, 0.001, 1, timedelta(days=1)):
        with pytest.raises(redis.exceptions.ConnectionError):
            make(lock, time)


@sync_and_async
def test_an_invalid_thread_id_is_refused(world: ClockWorld) -> None:
    lock = lock_out_of_reach(world)
    for number in ("7", 7.0, None, True):
        with pytest.raises(TypeError):
            lock.is_held_by_thread(number)
    with pytest.raises(redis.exceptions.ConnectionError):
        lock.is_held_by_thread(7)


@sync_and_async
def test_an_invalid_name_is_refused(world: ClockWorld) -> None:
    client = world.client(redis=world.unreachable()).real
    for name in (None, 5, b"orders", ["orders"], object()):
        with pytest.raises(TypeError):
            client.get_lock(name)
    for name in ("", "\ud800", "orders\udfff", "x" * 65_537, "é" * 32_769):
        with pytest.raises(ValueError):
            client.get_lock(name)


@pytest.mark.parametrize(
    "name",
    ["x" * 65_536, "é" * 32_768, " ", "0", "a b\tc\r\nd\0e", "{shop}orders", "a{b", "a}b", "{}", "}{", "💥", "*"],
    ids=lambda name: ascii(name[:12]).strip("'"),
)
def test_any_other_name_is_one(world: World, client: Remote, alice: Actor, bob: Actor, name: str) -> None:
    mine, theirs = alice.lock(client, name), bob.lock(client, name)
    assert mine.name == name
    mine.lock()
    assert set(world.redis.everything()) == {name}
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.unlock()
    waiting.result(within=5)
    theirs.unlock()
    assert world.redis.everything() == {}
