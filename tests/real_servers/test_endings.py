"""Clients that are closed, and threads and tasks that end, while there is something going on."""

from __future__ import annotations

import threading

import redis

from pyredisson.core.names import LockNames
from pyredisson.errors import ClientClosedError
from tests.proxy import Proxy
from tests.real_servers.observation import ACQUIRE, calls, held, waiting
from tests.servers import Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# --- close() ---


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
