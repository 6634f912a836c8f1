"""A URL's server is no longer the master: its name leads to another one by now, or will soon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis.exceptions as rx

from tests.proxy import Proxy
from tests.real_servers.client_settings import renewed_every
from tests.real_servers.observation import await_waiter, held, load_scripts, nothing_left
from tests.servers import HOST, Build, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld


class Service:
    """A name that leads to one of two servers, of which one is the master."""

    def __init__(self, old: Server, new: Server, proxy: Proxy) -> None:
        self.old = old
        self.new = new
        self.proxy = proxy
        self.direct = new.client(decode_responses=True)
        self.direct.replicaof(HOST, old.port)
        until(lambda: new.info("replication")["master_link_status"] == "up", 20, what="the replica is in step")

    def fail_over(self, *, stale: bool = False) -> None:
        """Let the servers change their parts; connections to the old one stay. ``stale``: it answers nothing else."""
        with self.old.client() as former:
            offset = former.info("replication")["master_repl_offset"]
            until(lambda: self.new.info("replication")["slave_repl_offset"] >= offset, what="the replica is in step")
            self.direct.replicaof("NO", "ONE")
            if stale:
                former.config_set("replica-serve-stale-data", "no")
                former.replicaof(HOST, 1)
            else:
                former.replicaof(HOST, self.new.port)

    def move(self) -> None:
        """From now on the name leads to the new one."""
        self.proxy.upstream_port = self.new.port


@pytest.fixture
def service(build: Build, fresh_server: Callable[..., Server]) -> Iterator[Service]:
    at_once = "--repl-diskless-sync-delay", "0"
    old, new = fresh_server(build, *at_once), fresh_server(build, *at_once)
    load_scripts(old)
    load_scripts(new)
    with Proxy(old.port) as proxy:
        yield Service(old, new, proxy)


MADE = ("from_url", "client", "subclass")


def client_of(world: ClockWorld, service: Service, made: str, **config: Any) -> Any:
    """A client by a URL, of a client of redis-py, or of one with connections of the user's own class."""
    if made == "from_url":
        return world.from_url(service.proxy.url, **config)
    module = world.redis_py
    theirs: Any = world.look_after(module.Redis(host=HOST, port=service.proxy.port))
    if made == "subclass":
        theirs.connection_pool.connection_class = type("Theirs", (module.Connection,), {})
    config = {"listeners": (world._listen,), "on_lock_lost": world.on_lock_lost, "timeout": 6.0, **config}
    return world.close_at_end(world.api.Redisson(theirs, config=world.api.Config(**config)))


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("stale", [False, True], ids=["READONLY", "MASTERDOWN"])
def test_the_name_is_resolved_again(world, service, unique_name, stale, made):
    client = client_of(world, service, made, max_wait_without_check=60.0)
    renewed_every(client, 0.3)
    lock, holder, waiter, other = client.get_lock(unique_name), world.actor(), world.actor(), world.actor()
    free = client.get_lock(f"{unique_name}-2")
    holder.do(lock.lock)
    waiting = waiter.start(lock.try_lock, 60)
    until(lambda: client._core.subscriptions.messages_of(f"redisson_lock__channel:{{{unique_name}}}") is not None)
    for _ in range(3):
        other.do(free.lock)
        other.do(free.unlock)
    service.fail_over(stale=stale)
    acquiring = other.start(free.lock)
    time.sleep(0.5)
    service.move()
    acquiring.result(20)
    other.do(free.unlock)
    until(lambda: service.direct.pubsub_channels("redisson_lock__channel*"), what="the subscriber has moved")
    service.direct.pexpire(unique_name, 15_000)
    until(lambda: service.direct.pttl(unique_name) > 20_000, what="the hold is renewed there")
    assert held(service.direct, lock, holder) == 1
    began = time.monotonic()
    holder.do(lock.unlock)
    assert waiting.result(20) is True
    assert time.monotonic() - began < 5, "by message"
    waiter.do(lock.unlock)
    nothing_left(service.direct, client, unique_name, free.name)
    assert not world.losses


def test_a_call_ends_when_no_other_server_is_found(world, service, unique_name):
    client = client_of(world, service, "from_url", timeout=1.0)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    service.fail_over()
    before = service.old.info("stats")["total_connections_received"]
    began = time.monotonic()
    with pytest.raises(rx.ReadOnlyError):
        actor.do(lock.unlock)
    assert 0.5 < time.monotonic() - began < 4
    assert service.old.info("stats")["total_connections_received"] - before < 30
    service.move()
    actor.do(lock.unlock)
    nothing_left(service.direct, client, unique_name)


def test_a_subscription_that_is_refused_for_a_moment(world, proxy, direct, unique_name):
    """It is requested again, at intervals."""
    client = world.from_url(proxy.url, max_wait_without_check=60.0)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    refusal = proxy.refuse_request("SUBSCRIBE", "BUSY Redis is busy running a script.")
    holder.do(lock.lock)
    waiting = waiter.start(lock.try_lock, 60)
    until(lambda: refusal.hits >= 3, what="it is refused")
    time.sleep(0.5)
    assert refusal.hits < 20
    refusal.remove()
    await_waiter(direct, client, unique_name)
    holder.do(lock.unlock)
    assert waiting.result(5) is True
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)
