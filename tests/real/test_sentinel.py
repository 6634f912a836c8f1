"""A master that sentinels watch: found by them, and found again after each failover."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.exceptions as rx
import redis.sentinel

import pyredisson
import pyredisson.asyncio
from pyredisson.asyncio import connections as asyncio_connections
from pyredisson.core.runtime import run
from pyredisson.errors import NoSyncedSlavesError
from pyredisson.sentinel import parse_sentinel_url
from pyredisson.threads import connections as threads_connections
from tests.real.contenders import Contenders
from tests.real.worlds import World
from tests.sentinels import SERVICE, SentinelSet
from tests.servers import HOST, VALKEY, Server, free_port
from tests.waiting import until


@pytest.fixture
def watched(fresh_server: Callable[..., Server]) -> Iterator[SentinelSet]:
    """One master, two replicas, three sentinels."""
    servers = SentinelSet(fresh_server, VALKEY)
    yield servers
    servers.stop()


def eventually(call: Callable[[], Any], within: float = 15.0) -> Any:
    """What a call returns once it no longer meets a failover."""
    done: list[Any] = []

    def tried() -> bool:
        try:
            done.append(call())
        except (rx.RedisError, NoSyncedSlavesError):
            return False
        return True

    until(tried, within=within)
    return done[0]


def test_the_master_is_found_though_a_sentinel_is_dead(world: World, watched: SentinelSet, unique_name: str) -> None:
    watched.sentinels[0].kill()
    client, actor = world.client(watched.url), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    assert client._core.server.facts.run_id == watched.servers[0].info()["run_id"]
    assert client._core.server.facts.replicas == 2
    assert client.url == f"{watched.url}/0"
    actor.do(lock.unlock)


def test_nobody_knows_the_service(world: World, watched: SentinelSet, unique_name: str) -> None:
    client, actor = world.client(watched.url.replace(f"/{SERVICE}", "/others")), world.actor()
    with pytest.raises(rx.ConnectionError, match="knows no 'others'"):
        actor.do(client.get_lock(unique_name).lock)
    nobody = world.client(f"redis+sentinel://:s3cret@{HOST}:{free_port()}/{SERVICE}")
    with pytest.raises(rx.ConnectionError, match="no sentinel tells") as caught:
        actor.do(nobody.get_lock(unique_name).lock)
    assert "s3cret" not in str(caught.value) + repr(nobody)


@pytest.mark.parametrize("how", ["kill", "fail over"])
def test_a_held_lock_goes_on_and_waiters_get_it(world: World, watched: SentinelSet, unique_name: str, how: str) -> None:
    client = world.client(watched.url, lock_watchdog_timeout=6.0, max_wait_without_check=2.0, min_replicas=2)
    holder, waiter = world.actor(), world.actor()
    lock = client.get_lock(unique_name)
    holder.do(lock.lock)
    waiting = waiter.start(lock.lock)
    until(lambda: client._core.wakeups.waiting(lock._core.names.channel))
    before = watched.master()
    if how == "kill":
        watched.kill_master()
    else:
        watched.fail_over()
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 7.0, within=20)  # More than one lease: renewed on the new master.
    assert not waiting.done()
    assert not world.losses
    now = watched.master()
    assert now.port != before.port
    with now.client() as direct:
        assert direct.pttl(unique_name) > 0
    eventually(lambda: holder.do(lock.unlock))
    if how == "kill":
        # Two replicas are demanded, and one is left: whoever waited is told, and nothing stays behind.
        with pytest.raises(NoSyncedSlavesError):
            waiting.result(20)
        with now.client() as direct:
            until(lambda: not direct.exists(unique_name))
    else:
        try:
            waiting.result(20)
        except NoSyncedSlavesError:  # The old master may still be on its way to being a replica.
            eventually(lambda: waiter.do(lock.lock))
        waiter.do(lock.unlock)


def test_under_load_nobody_is_in_at_once(world: World, watched: SentinelSet, unique_name: str) -> None:
    """With an acknowledgement of both replicas, whichever is promoted knows of each hold."""
    contenders = Contenders(watched, [world], unique_name, min_replicas=2, slaves_sync_timeout=0.5)
    try:
        contenders.progress()
        watched.fail_over()
        contenders.progress()
    finally:
        contenders.stop()
    assert contenders.counter == contenders.written >= 40


def test_a_master_that_was_replaced_is_left_before_it_knows(
    world: World, watched: SentinelSet, unique_name: str
) -> None:
    """The sentinels tell the old one after seconds; until then it would go on locking."""
    client, actor = world.client(watched.url, check_lock_synced_slaves=False), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    watched.fail_over()

    def taken_on_the_new_one() -> bool:
        if not eventually(lambda: actor.do(lock.try_lock)):
            return False
        with watched.master().client() as direct:
            there = bool(direct.exists(unique_name))
        eventually(lambda: actor.do(lock.unlock))
        return there

    began = time.monotonic()
    until(taken_on_the_new_one, within=5)
    assert time.monotonic() - began < 5


class Told:
    """Tells where the master is, as the test has it."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def locate(self, timeout: float) -> tuple[str, int]:
        return HOST, self.server.port

    async def locate_async(self, timeout: float) -> tuple[str, int]:
        return self.locate(timeout)


def test_all_connections_go_where_one_of_them_has_found_the_master(
    world: World, fresh_server: Callable[..., Server]
) -> None:
    """The subscriber is led to the new one, say; the old one goes on, cut off, and does not know that it is none."""
    old, new = fresh_server(), fresh_server()
    told = Told(old)

    async def use() -> list[str]:
        link: Any = (
            threads_connections.OwnLink(redis.Connection, {}, told)
            if world.colour == "threads"
            else asyncio_connections.AsyncOwnLink(redis.asyncio.Connection, {}, told)
        )
        asked = []
        for server in (old, old, new):
            if server is not told.server:
                told.server = server
                (await link.stream(3.0)).close()
            info = await link.ask(("INFO", "server"), 3.0)
            asked.append(re.findall(r"tcp_port:(\d+)", info.decode())[0])
        link.close()
        return asked

    asked = run(use()) if world.colour == "threads" else world.run(use)
    assert asked == [str(old.port), str(old.port), str(new.port)]


def test_a_client_of_the_users_that_sentinels_lead(world: World, watched: SentinelSet, unique_name: str) -> None:
    addresses = [(HOST, each.port) for each in watched.sentinels]
    kinds: dict[str, Any] = {"threads": redis.sentinel.Sentinel, "asyncio": redis.asyncio.sentinel.Sentinel}
    theirs = kinds[world.colour](addresses)
    master = theirs.master_for(SERVICE)
    redisson: Any = {"threads": pyredisson.Redisson, "asyncio": pyredisson.asyncio.Redisson}[world.colour]
    client = world.adopt(redisson(master))
    try:
        actor = world.actor()
        lock = client.get_lock(unique_name)
        actor.do(lock.lock)
        assert client._core.server.facts.replicas == 2
        actor.do(lock.unlock)
        world.run(client.close)
    finally:
        for each in (master, *theirs.sentinels):
            world.run(getattr(each, "aclose", each.close))


@pytest.mark.parametrize(
    ("url", "sentinels", "service", "masked"),
    [
        ("redis+sentinel://a/locks", [("a", 26379)], "locks", "redis+sentinel://a:26379/locks/0"),
        (
            "redis+sentinel://ann:pw@a:1,b:2,[::1]:3/my%20locks/4?protocol=2",
            [("a", 1), ("b", 2), ("::1", 3)],
            "my locks",
            "redis+sentinel://ann:***@a:1,b:2,[::1]:3/my%20locks/4",
        ),
    ],
)
def test_a_url_is_read(url: str, sentinels: list[tuple[str, int]], service: str, masked: str) -> None:
    found = parse_sentinel_url(url)
    assert found is not None
    assert (list(found.sentinels), found.service, found.masked) == (sentinels, service, masked)
    assert parse_sentinel_url("redis://a") is None


@pytest.mark.parametrize("rest", ["", "a", "a/", "/locks", "a:b/locks", "a:0/locks", "a,/locks", "a/locks/x"])
def test_a_bad_url_is_an_error(rest: str) -> None:
    with pytest.raises(ValueError, match=r"redis\+sentinel|database"):
        pyredisson.Redisson.from_url(f"redis+sentinel://{rest}")
