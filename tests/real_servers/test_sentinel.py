"""A master that sentinels watch: found by them, and found again after each failover."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis
import redis.exceptions as rx

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, Redisson
from pyredisson._core.names import LockNames
from pyredisson._net.urls import client_at, parse_sentinel_url, url_of_endpoint
from pyredisson.errors import LockLostError, NoSyncedSlavesError
from pyredisson.events import Renewed
from tests.real_servers.client_settings import await_renewals, renewed_every
from tests.real_servers.observation import busy, listens
from tests.sentinels import SERVICE
from tests.servers import HOST, NOBODYS_PORT, Server
from tests.waiting import until


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


def test_the_master_is_found_though_a_sentinel_is_dead(world, watched, unique_name):
    watched.sentinels[0].kill()
    client, actor = world.from_url(watched.url, slaves_sync_timeout=10.0), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    assert client._core.server.facts.run_id == watched.servers[0].info()["run_id"]
    assert client._core.server.facts.replicas == 2
    assert client.url == f"{watched.url}/0"
    actor.do(lock.unlock)


def test_no_sentinel_knows_the_service(world, watched, unique_name):
    client, actor = world.from_url(watched.url.replace(f"/{SERVICE}", "/others"), timeout=15.0), world.actor()
    with pytest.raises(rx.ConnectionError, match="does not know 'others'"):
        actor.do(client.get_lock(unique_name).lock)
    nobody = world.from_url(f"redis+sentinel://:s3cret@{HOST}:{NOBODYS_PORT}/{SERVICE}")
    with pytest.raises(rx.ConnectionError, match="no sentinel knows") as caught:
        actor.do(nobody.get_lock(unique_name).lock)
    assert "s3cret" not in str(caught.value) + repr(nobody)


@pytest.mark.parametrize("how", ["kill", "fail over"])
def test_a_held_lock_goes_on_and_waiters_get_it(world, watched, unique_name, how):
    config = {"max_wait_without_check": 2.0, "min_replicas": 2, "slaves_sync_timeout": 3.0}
    client = world.from_url(watched.url, lock_watchdog_timeout=60.0, **config)
    renewed_every(client, 1.0)
    holder, waiter = world.actor(), world.actor()
    lock = client.get_lock(unique_name)
    holder.do(lock.lock)
    waiting = waiter.start(lock.lock)
    until(lambda: client._core.subscriptions.waiting(lock._core.names.channel))
    before = watched.master()
    if how == "kill":
        watched.kill_master()
    else:
        watched.fail_over()
    now = watched.master()
    assert now.port != before.port
    with now.client() as direct:
        await_renewals(direct, unique_name, within=20.0)
    assert not waiting.done()
    assert not world.losses
    eventually(lambda: holder.do(lock.unlock))
    if how == "kill":
        # Two replicas are demanded, and one is left: whoever waited is told, and nothing stays behind.
        with pytest.raises(NoSyncedSlavesError):
            waiting.result(20)
        with now.client() as direct:
            # Unless a busy machine lets the sentinels replace this one as well: what it was told last is lost with it.
            until(lambda: not direct.exists(unique_name) or watched.master().port != now.port, within=20)
    else:
        try:
            waiting.result(20)
        except NoSyncedSlavesError:  # The old master may still be on its way to being a replica.
            eventually(lambda: waiter.do(lock.lock))
        waiter.do(lock.unlock)


def test_a_master_that_was_replaced_is_left_before_it_knows(world, watched, unique_name):
    """The sentinels tell the old one after seconds; until then it would go on locking."""
    client, actor = world.from_url(watched.url, check_lock_synced_slaves=False), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    _, new = watched.set_aside()

    def taken_on_the_new_one():
        if not eventually(lambda: actor.do(lock.try_lock)):
            return False
        with new.client() as direct:
            there = bool(direct.exists(unique_name))
        with suppress(LockLostError):  # Taken at the old one, and the new one knows nothing of it.
            eventually(lambda: actor.do(lock.unlock))
        return there

    until(taken_on_the_new_one, within=20)


def test_a_lock_of_a_master_that_returned_is_lost_when_it_becomes_a_replica(watched, unique_name):
    """Until the sentinels reach it, it grants locks to clients that have its own address; others ask the new one."""
    old = watched.kill_master()
    old.restart()
    lost = []
    config = Config(check_lock_synced_slaves=False)
    of_late = Config(check_lock_synced_slaves=False, on_lock_lost=lambda name, _: lost.append(name))
    with Redisson.from_url(old.url, config=of_late) as late, Redisson.from_url(watched.url, config=config) as client:
        assert late.get_lock(unique_name).try_lock()
        assert eventually(client.get_lock(unique_name).try_lock)  # Both hold it.
        until(lambda: lost, within=60, what="the lock of the old one is lost")
        assert client.get_lock(unique_name).is_held_by_current_thread()


# ---- a replaced master whose connections stay open -------------------------------------------------------------------


@pytest.fixture
def asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentinels are asked for new connections only, so that nothing else leads to the new master."""
    for module in ("topology", "subscriber"):
        monkeypatch.setattr(f"pyredisson._net.{module}.QUERY_AGAIN", 600.0)


@pytest.mark.parametrize("synced", [False, True], ids=["alone", "with replicas"])
@pytest.mark.parametrize("behind", [False, True], ids=["sentinels know", "sentinels learn later"])
def test_a_demoted_master_says_so_and_the_new_one_is_asked(world, watched, unique_name, asked_seldom, behind, synced):
    """``READONLY`` was surely not executed, so it is nobody's error: the same call goes on at the new master."""
    config = {"timeout": 15.0, "check_lock_synced_slaves": synced, "slaves_sync_timeout": 10.0}
    client, actor = world.from_url(watched.url, **config), world.actor()
    held, other = client.get_lock(f"{unique_name}-held"), client.get_lock(unique_name)
    for lock in (held, other):
        actor.do(lock.lock)
    actor.do(other.unlock)
    watched.in_step()
    old, new = watched.hand_over()
    if not behind:
        watched.tell(new)
    refused = refusals(old)
    calls = [actor.start(other.lock), actor.start(held.unlock)]
    until(lambda: refusals(old) > refused, 15, what="it was refused by the old one")
    if behind:
        assert not any(call.done() for call in calls)
        watched.tell(new)
    for call in calls:
        call.result(20)
    with new.client(decode_responses=True) as direct:
        assert direct.hvals(unique_name) == ["1"]
        assert not direct.exists(held.name)
    actor.do(other.unlock)
    assert not busy(client)
    assert not world.losses


def refusals(server: Server) -> int:
    """How often a server has said READONLY."""
    found = server.info("errorstats").get("errorstat_READONLY", {"count": 0})
    return int(found["count"])


def test_a_renewal_finds_the_new_master(world, watched, unique_name, asked_seldom):
    """Also in a client that does nothing else."""
    client, actor = world.from_url(watched.url, slaves_sync_timeout=10.0), world.actor()
    renewed_every(client, 0.5)
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    refused = refusals(watched.master())
    old, new = watched.hand_over()
    watched.tell(new)
    until(lambda: refusals(old) > refused, 15, what="a renewal was refused")
    renewed = len(world.heard(Renewed))
    until(lambda: len(world.heard(Renewed)) > renewed, 15, what="it is renewed at the new one")
    actor.do(lock.unlock)
    assert not world.losses


def test_a_sentinel_that_reports_an_old_master_is_not_asked_forever(world, watched, unique_name, asked_seldom):
    client, actor = world.from_url(watched.url, timeout=15.0, slaves_sync_timeout=10.0), world.actor()
    lock = client.get_lock(unique_name)
    old, new = watched.hand_over()
    behind, *others = watched.sentinels
    watched.sentinels = others
    watched.tell(new)
    watched.sentinels = [behind, *others]
    actor.do(lock.lock)  # The one that is behind stands first in the URL.
    with new.client() as direct:
        assert direct.exists(unique_name)
    assert watched.master() is old
    actor.do(lock.unlock)


@pytest.mark.parametrize("who", ["the same client", "another client"])
def test_a_waiter_hears_of_a_release_at_the_new_master(world, watched, unique_name, who):
    """The old one is cut off with its connections open: a subscriber that waited for their end would hear nothing."""
    config = {
        "timeout": 10.0,
        "max_wait_without_check": 300.0,
        "ping_interval": 300.0,
        "ping_timeout": 300.0,
        "lock_watchdog_timeout": 300.0,  # Nor does the end of a lease wake anybody.
        "check_lock_synced_slaves": False,
    }
    client = world.from_url(watched.url, **config)
    theirs = client if who == "the same client" else world.from_url(watched.url, **config)
    holder, waiter = world.actor(), world.actor()
    holder.do(theirs.get_lock(unique_name).lock)
    watched.in_step()  # Else the failover could lose the hold, and wake nobody.
    waiting = waiter.start(client.get_lock(unique_name).lock)
    channel = LockNames(unique_name).channel
    until(lambda: listens(client, unique_name), what="it listens")
    stopped = watched.isolate_master()
    try:
        new = watched.master()
        with new.client(decode_responses=True) as direct:
            if who == "another client":  # Nothing but the subscriber itself can find out.
                until(lambda: dict(direct.pubsub_numsub(channel))[channel], 20, what="it listens there")
            assert not waiting.done()
            eventually(lambda: holder.do(theirs.get_lock(unique_name).unlock))
            waiting.result(20)
            assert direct.exists(unique_name)
            waiter.do(client.get_lock(unique_name).unlock)
    finally:
        stopped.resume()
    assert not world.losses


def test_a_subscriber_of_a_users_client_follows(world, watched, unique_name):
    """As soon as their client has found the new master for a request."""
    addresses = [(HOST, each.port) for each in watched.sentinels]
    theirs = world.redis_py.sentinel.Sentinel(addresses)
    master = theirs.master_for(SERVICE, socket_timeout=2.0)
    patient = {"max_wait_without_check": 300.0, "ping_interval": 300.0, "ping_timeout": 300.0, "timeout": 10.0}
    config = pyredisson.Config(lock_watchdog_timeout=300.0, check_lock_synced_slaves=False, **patient)
    client = world.close_at_end(world.api.Redisson(master, config=config))
    try:
        holder, waiter = world.actor(), world.actor()
        lock = client.get_lock(unique_name)
        holder.do(lock.lock)
        watched.in_step()
        waiting = waiter.start(lock.lock)
        until(lambda: listens(client, unique_name), what="it listens")
        stopped = watched.isolate_master()
        try:
            eventually(lambda: holder.do(lock.unlock))
            waiting.result(20)
            waiter.do(lock.unlock)
        finally:
            stopped.resume()
        world.run(client.close)
    finally:
        for each in (master, *theirs.sentinels):
            world.run(getattr(each, "aclose", each.close))


@pytest.mark.parametrize(
    ("url", "sentinels", "service", "shown"),
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
def test_a_url_is_read(url, sentinels, service, shown):
    found = parse_sentinel_url(url)
    assert found is not None
    assert (list(found.sentinels), found.service) == (sentinels, service)
    assert url_of_endpoint(client_at(url, {}, redis)) == shown
    assert parse_sentinel_url("redis://a") is None


@pytest.mark.parametrize("rest", ["", "a", "a/", "/locks", "a:b/locks", "a:0/locks", "a,/locks", "a/locks/x"])
def test_a_bad_url_is_an_error(rest):
    with pytest.raises(ValueError, match=r"redis\+sentinel|database"):
        pyredisson.Redisson.from_url(f"redis+sentinel://{rest}")
