"""The subscriber's connection is killed, falls silent, or is dropped by the server: no waiter misses its turn."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis

from pyredisson.core.names import LockNames
from pyredisson.events import ConnectionDown
from tests.proxy import Proxy
from tests.real_servers.observation import await_waiter, listeners, nothing_left
from tests.servers import REDIS_6, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# Nothing here is served by the regular look: that comes later than any of these waits may last.
NEVER = {"max_wait_without_check": 60.0}


class HandOver:
    """A lock that one client holds, and that an owner of another client waits for.

    Attributes:
        acquired: The call of the one who waits.
    """

    def __init__(self, world: ClockWorld, url: str, holder_url: str, name: str, **config: float) -> None:
        self.client = world.from_url(url, **NEVER, **config)
        self._lock, self._theirs = self.client.get_lock(name), world.from_url(holder_url).get_lock(name)
        self._holder, self._waiter = world.actor(), world.actor()
        self._holder.do(self._theirs.lock)

    def begin_to_wait(self) -> None:
        self.acquired = self._waiter.start(self._lock.lock)

    def finish(self, direct: redis.Redis) -> None:
        """Release it, which the other one notices."""
        self._holder.do(self._theirs.unlock)
        self.acquired.result(20)
        self._waiter.do(self._lock.unlock)
        nothing_left(direct, self.client, self._lock.name)


def test_silent_and_found_out_by_a_ping_without_an_answer(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    hand_over = HandOver(world, proxy.url, valkey.url, unique_name, ping_interval=0.2, ping_timeout=1.2)
    hand_over.begin_to_wait()
    await_waiter(direct, hand_over.client, unique_name)
    # From the next ping on, nothing comes back on that connection, and nobody says that it has ended.
    silent = proxy.drop_reply("PING", 1, then="hang")
    silent.wait()
    began = time.monotonic()
    hand_over.finish(direct)
    assert 0.1 < time.monotonic() - began < 8.0


def test_the_confirmation_never_comes(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    hand_over = HandOver(world, proxy.url, valkey.url, unique_name, ping_interval=0.2, ping_timeout=0.3)
    silent = [proxy.drop_reply("SUBSCRIBE", 1, then="hang"), proxy.hold_request("SUBSCRIBE", 2)]
    hand_over.begin_to_wait()
    for each in silent:
        each.wait()
    hand_over.finish(direct)


def test_dropped_for_its_output_buffer(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    # Valkey counts no buffer for a payload that it need not copy.
    server = fresh_server(REDIS_6)
    server.config_set("client-output-buffer-limit", "pubsub 32kb 16kb 1")
    hand_over = HandOver(world, server.url, server.url, unique_name)
    hand_over.begin_to_wait()
    with server.client(decode_responses=True) as direct:
        await_waiter(direct, hand_over.client, unique_name)
        for round_ in range(1, 4):
            direct.publish(LockNames(unique_name).channel, "x" * 1_000_000)
            until(lambda round_=round_: len(world.heard(ConnectionDown)) >= round_, what="dropped")
            until(lambda: listeners(direct, unique_name) == 1, what="back")
        assert not hand_over.acquired.done()
        hand_over.finish(direct)
