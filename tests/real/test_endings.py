"""Clients that are closed, and threads and tasks that end, while there is something going on."""

from __future__ import annotations

import threading
import time

import pytest
import redis

from pyredisson.core.names import LockNames
from pyredisson.errors import ClientClosedError
from pyredisson.events import HolderGone
from tests.proxy import Proxy
from tests.real.observation import ACQUIRE, await_waiter, calls, held, listeners, nothing_left, waiting
from tests.servers import Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.clock import ClockWorld


def test_a_holder_that_ends_frees_its_lock_within_the_lease(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.connected(valkey.url, lock_watchdog_timeout=1.8)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(lock.lock)
    holder.do(lock.lock)
    taken = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name)
    began = time.monotonic()
    holder.end()
    taken.result(20)
    assert time.monotonic() - began < 7.0, "it was not its lease that ended: it looked by itself, after 10 s"
    assert held(direct, lock, waiter) == 1
    until(lambda: len(world.heard(HolderGone)) == 1, what="its end is told")
    (told,) = world.heard(HolderGone)
    assert told.name == unique_name
    assert ("wait_for" in told.hint) == (world.runtime == "asyncio")
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_successor_does_not_walk_into_the_lock_of_the_dead(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.connected(valkey.url, lock_watchdog_timeout=1.5)
    lock = client.get_lock(unique_name)
    dead = world.actor()
    numbers = {dead.number}
    locked_at = time.monotonic()
    dead.do(lock.lock)
    dead.end()
    for _ in range(19):
        successor = world.actor()
        numbers.add(successor.number)
        if successor.do(lock.try_lock):
            assert time.monotonic() > locked_at + 1.5, "the dead one's lease is not over"
        else:
            assert successor.do(lock.get_hold_count) == 0
        successor.end()
    assert len(numbers) == 20
    until(lambda: not direct.exists(unique_name), what="run out")


# --- close() ---


def test_close_wakes_waiters(world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str) -> None:
    client, other = world.from_url(valkey.url), world.from_url(valkey.url)
    theirs = other.get_lock(unique_name)
    lock, holder = client.get_lock(unique_name), world.actor()
    waiters = [world.actor() for _ in range(4)]
    holder.do(theirs.lock)
    calls = [
        waiters[0].start(lock.lock),
        waiters[1].start(lock.try_lock, 60),
        waiters[2].start(world.enter(lock)),
        waiters[3].start(world.enter(lock.hold())),
    ]
    await_waiter(direct, client, unique_name, 4)
    began = time.monotonic()
    world.run(client.close)
    for call in calls:
        with pytest.raises(ClientClosedError):
            call.result(10)
    assert time.monotonic() - began < 5.0
    until(lambda: listeners(direct, unique_name) == 0, what="nobody listens")
    assert held(direct, theirs, holder) == 1
    holder.do(theirs.unlock)
    for call in (lock.lock, lock.try_lock, lock.unlock, lock.is_locked, lock.force_unlock, lock.get_hold_count):
        with pytest.raises(ClientClosedError):
            holder.do(call)
    world.run(client.close)


def test_close_leaves_what_is_held_to_its_lease(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client, other = world.connected(valkey.url, lock_watchdog_timeout=1.5), world.from_url(valkey.url)
    lock, theirs = client.get_lock(unique_name), other.get_lock(unique_name)
    holder, waiter = world.actor(), world.actor()
    holder.do(lock.lock)
    world.run(client.close)
    assert held(direct, lock, holder) == 1
    began = time.monotonic()
    waiter.do(theirs.lock)
    assert time.monotonic() - began < 7.0, "it was not the lease that ended: it looked by itself, after 10 s"
    waiter.do(theirs.unlock)


def test_close_removes_the_client_from_the_list_of_waiting_clients(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    """The request of a waiter that acquires leaves its client there for another waiter, which is interrupted then."""
    client, names = world.connected(proxy.url), LockNames(unique_name)
    lock, first, second = client.get_lock(unique_name), world.actor(), world.interruptible()
    in_flight, interrupted = threading.Event(), threading.Event()
    by_waiter = calls("lock_acquire_waiting")

    def delay(args: list[bytes]) -> bool:
        another_waits = by_waiter(args) and args[-4] != b"-1"
        if another_waits and not in_flight.is_set():
            in_flight.set()
            assert interrupted.wait(5)
            direct.delete(unique_name)
        return False

    def acquires() -> bool:
        direct.publish(names.channel, "0")
        return in_flight.is_set()

    direct.hset(unique_name, "another:1", "1")
    direct.pexpire(unique_name, 60_000)
    proxy.drop_reply(delay)
    acquired = first.start(lock.lock)
    until(lambda: direct.exists(names.waiting), what="the client is on the list")
    assert second.interrupted(lock.lock, once=acquires) is not None
    interrupted.set()
    acquired.result(10)
    world.run(client.close)
    assert not direct.exists(names.waiting)
    assert held(direct, lock, first) == 1
    direct.delete(unique_name)


def test_close_in_the_middle_of_an_acquire(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, timeout=0.9)
    lock, actor = client.get_lock(unique_name), world.actor()
    late = proxy.hold_request(ACQUIRE, None)
    call = actor.start(lock.lock, 0.5)
    late.wait()
    world.run(client.close)
    # It may have been taken by then, or not; nobody hangs, and nothing outlives the lease.
    assert call.exception(10) is not None
    until(lambda: not direct.exists(unique_name), what="free")


def test_close_while_others_come_and_go(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, volume: Volume
) -> None:
    for index in range(volume(1, full=50)):
        client = world.from_url(valkey.url, lock_watchdog_timeout=1.0)
        lock = client.get_lock(f"{unique_name}-{index}")
        actors = [world.actor() for _ in range(4)]
        calls = [actor.start(call) for actor in actors for call in (lock.lock, lock.unlock) * 5]
        until(lambda calls=calls, least=index % 7: sum(call.done() for call in calls) >= least)
        world.run(client.close)
        for call in calls:
            error = call.exception(10)
            assert error is None or isinstance(error, (ClientClosedError, RuntimeError)), error
        for actor in actors:
            actor.end()
        assert waiting(client, lock.name) == 0
    for index in range(volume(1, full=50)):
        until(lambda index=index: not direct.exists(f"{unique_name}-{index}"), what="free within the lease")


def test_threads_and_descriptors_do_not_grow_with_the_clients(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    def use() -> None:
        client = world.from_url(valkey.url)
        lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
        holder.do(lock.lock)
        assert waiter.do(lock.try_lock, 0.05) is False
        holder.do(lock.unlock)
        world.run(client.close)
        holder.end()
        waiter.end()

    use()
    threads = threading.active_count()
    before = len(direct.client_list())
    for _ in range(8):
        use()
    until(lambda: threading.active_count() <= threads, what="as many threads as before")
    until(lambda: len(direct.client_list()) <= before + 1, what="as many connections as before")
