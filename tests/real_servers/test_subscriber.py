"""The subscriber's connection is killed, falls silent, or is dropped by the server: no waiter misses its turn."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis

from pyredisson.core.names import LockNames
from pyredisson.events import ConnectionDown, ConnectionUp
from tests.proxy import Proxy
from tests.real_servers.observation import await_waiter, listeners, nothing_left
from tests.servers import REDIS_6, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# Nothing here is served by the regular look: that comes later than any of these waits may last.
NEVER = {"max_wait_without_check": 60.0}


def test_silent_and_found_out_by_a_ping_without_an_answer(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, ping_interval=0.2, ping_timeout=1.2, **NEVER)
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock)
    taken = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name)
    # From the next ping on, nothing comes back on that connection, and nobody says that it has ended.
    silent = proxy.drop_reply("PING", 1, then="hang")
    silent.wait()
    began = time.monotonic()
    holder.do(theirs.unlock)

    taken.result(20)

    assert 0.1 < time.monotonic() - began < 8.0
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_the_confirmation_never_comes(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, ping_interval=0.2, ping_timeout=0.3, **NEVER)
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock)
    silent = [proxy.drop_reply("SUBSCRIBE", 1, then="hang"), proxy.hold_request("SUBSCRIBE", 2)]
    taken = waiter.start(lock.lock)
    for each in silent:
        each.wait()
    holder.do(theirs.unlock)
    taken.result(20)
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_healthy_but_quiet_subscription_is_kept(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, ping_interval=0.1, ping_timeout=20.0, **NEVER)
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock)
    taken = waiter.start(lock.lock)
    until(lambda: proxy.commands["PING"] >= 5, what="five pings")
    assert len(world.heard(ConnectionUp)) == 1
    assert not world.heard(ConnectionDown)
    holder.do(theirs.unlock)
    taken.result(20)
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_dropped_for_its_output_buffer(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    # Valkey counts no buffer for a payload that it need not copy.
    server = fresh_server(REDIS_6)
    server.config_set("client-output-buffer-limit", "pubsub 32kb 16kb 1")
    client = world.from_url(server.url, **NEVER)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    theirs = world.from_url(server.url).get_lock(unique_name)
    holder.do(theirs.lock)
    taken = waiter.start(lock.lock)
    with server.client(decode_responses=True) as direct:
        await_waiter(direct, client, unique_name)
        for round_ in range(1, 4):
            direct.publish(LockNames(unique_name).channel, "x" * 1_000_000)
            until(lambda round_=round_: len(world.heard(ConnectionDown)) >= round_, what="dropped")
            until(lambda: listeners(direct, unique_name) == 1, what="back")
        assert not taken.done()
        holder.do(theirs.unlock)
        taken.result(20)
        waiter.do(lock.unlock)
        nothing_left(direct, client, unique_name)
