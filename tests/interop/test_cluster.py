"""On a Redis Cluster: both languages have to choose the same way of telling each other, and do, by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.clusters import RunningCluster
from tests.interop.clients import Side
from tests.interop.conftest import Sides
from tests.interop.counting import count_up, crowd
from tests.interop.supported_kinds import CURRENT, LAST_3, LOCKS, OLD, OTHERS, VERSIONS
from tests.interop.waiters import Everywhere, until_it_waits
from tests.interop.wake_up_checks import SOON, check_wake_ups
from tests.servers import REDIS_6
from tests.waiting import until

LEASE = 2.5

KINDS = ("lock", "fair_lock", "fenced_lock", "write_lock", "semaphore", "permit_expirable_semaphore")
SHARED = {**LOCKS, **OTHERS}


def mode_with(version: str) -> str:
    """The ``sharded_subscription_mode`` of ours to share locks with this Redisson: it has shards from 3.22 on."""
    return "OFF" if version == OLD else "AUTO"


@pytest.fixture
def open_there(open_sides: Callable[..., Sides], cluster: RunningCluster) -> Callable[[str], Sides]:
    """``open_there(version)``: clients on the cluster."""
    return lambda version: open_sides(version, cluster.url)


@pytest.mark.volume
@pytest.mark.parametrize(
    ("version", "kind"),
    [*((CURRENT, kind) for kind in KINDS), (LAST_3, "lock"), (LAST_3, "fair_lock"), (OLD, "lock"), (OLD, "fair_lock")],
)
def test_only_one_owner_holds_the_lock_at_a_time(open_there, cluster, version, kind, unique_name, volume):
    owners = crowd(open_there(version), sharded_subscription_mode=mode_with(version))
    count_up(owners, cluster.url, kind, unique_name, volume(20, full=1000), about=f"Redisson {version}, in a cluster")


@pytest.mark.volume
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (version, kind)
        for kind in (*KINDS, "count_down_latch", "readers")
        for version in SHARED[kind.replace("readers", "read_lock")]
    ],
)
def test_a_message_ends_the_wait(open_there, cluster, version, kind, unique_name, volume):
    about = f"Redisson {version}, in a cluster"
    everywhere, mode = Everywhere(cluster), mode_with(version)
    check_wake_ups(open_there(version), everywhere, kind, unique_name, volume(1, full=30), about=about, mode=mode)


@pytest.mark.parametrize("version", [CURRENT, LAST_3])
def test_both_choose_the_channels_of_shards(open_there, cluster, version, unique_name):
    sides, everywhere = open_there(version), Everywhere(cluster)
    holder = sides.python().owner().get("lock", unique_name)
    holder.lock()
    for side in (sides.java(), sides.python()):
        waiter = side.owner().get("lock", unique_name)
        waits = waiter.start("lock")
        until_it_waits(everywhere, waiter)
        assert any(unique_name in channel for channel in everywhere.shards())
        assert not any(unique_name in channel for channel in everywhere.plain())
        holder.unlock()
        waits.result(10)
        holder = waiter
        until(
            lambda: not any(unique_name in channel for channel in everywhere.pubsub_channels()),
            what="nobody listens any more",
        )
    holder.unlock()


def waited(everywhere: Everywhere, holds: Side, waits: Side, name: str) -> float:
    """For how many seconds one waited for a lock that was free."""
    mine, theirs = holds.owner().get("lock", name), waits.owner().get("lock", name)
    mine.lock(LEASE)
    asked = everywhere.scripts()
    waiting = theirs.start("lock")
    # Whoever has yet to look for the second time, after it began to listen, would find it free.
    until(lambda: everywhere.scripts() >= asked + 2, what="it has looked twice")
    until_it_waits(everywhere, theirs)
    mine.unlock()
    began = time.monotonic()
    waiting.result(10)
    theirs.unlock()
    return time.monotonic() - began


def test_the_oldest_does_not_hear_the_channels_of_shards(open_there, cluster, unique_name):
    """Who waits gets the lock when the lease is over that it was told of, and not when it is free."""
    sides, everywhere = open_there(OLD), Everywhere(cluster)
    java, python = sides.java(), sides.python(sharded_subscription_mode="AUTO")
    for holds, waits in ((java, python), (python, java)):
        assert waited(everywhere, holds, waits, f"{unique_name}-{holds.language}") > LEASE / 4


def test_the_newest_redisson_can_be_configured_to_use_plain_channels(open_there, cluster, unique_name):
    """So that it shares locks with the oldest, and with ours that do."""
    sides, everywhere = open_there(CURRENT), Everywhere(cluster)
    java, python = sides.java(sharded="OFF"), sides.python(sharded_subscription_mode="OFF")
    for holds, waits in ((java, python), (python, java)):
        name = f"{unique_name}-{holds.language}"
        mine, theirs = holds.owner().get("lock", name), waits.owner().get("lock", name)
        mine.lock()
        waiting = theirs.start("lock")
        until_it_waits(everywhere, theirs)
        assert not any(name in channel for channel in everywhere.shards())
        mine.unlock()
        waiting.result(SOON)
        theirs.unlock()


@pytest.mark.volume
@pytest.mark.parametrize("version", VERSIONS)
def test_servers_that_have_no_shards_for_messages(open_sides, shared_clusters, version, unique_name, volume):
    """On Redis 6.2 all choose plain channels."""
    REDIS_6.require()
    cluster = shared_clusters.get(REDIS_6)
    sides, about = open_sides(version, cluster.url), f"Redisson {version}, in a cluster of Redis 6.2"
    check_wake_ups(sides, Everywhere(cluster), "lock", unique_name, volume(1, full=30), about=about)
    count_up(crowd(sides), cluster.url, "lock", unique_name, volume(20, full=1000), about=about)
