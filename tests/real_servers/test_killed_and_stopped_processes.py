"""Processes that hold or wait for locks of each kind, and for semaphores and latches, and are killed or stopped then.

What becomes of a killed process does not depend on its runtime: here it has threads, and the surviving one has tasks.
What a stopped process finds when it continues is tested in both forms.
"""

from __future__ import annotations

import time

import pytest
import redis

from tests.real_servers.kind_table import FAIR, LOCK, PERMITS, READ, SEMAPHORE, WRITE
from tests.real_servers.lock_process import Peer, PeerError
from tests.real_servers.observation import await_waiting, load_scripts
from tests.servers import Server
from tests.waiting import until

LEASE = 1.5  # Longer than a busy machine stands still at times.
#: For such a machine, too. What is bounded here would take 10 s and more if nobody saw to it.
MARGIN = 5.0
LOCKS = (LOCK, FAIR, READ, WRITE)

by_a_task = pytest.mark.parametrize("world", ["asyncio"], indirect=True)


def within(began: float, seconds: float) -> bool:
    return time.monotonic() - began < seconds + MARGIN


def scripts_run(direct: redis.Redis) -> int:
    """How many scripts the server has run."""
    return int(direct.info("commandstats")["cmdstat_evalsha"]["calls"])


def stored(server: Server, name: str) -> dict[bytes, bytes | None]:
    """What Redis holds for something of this name, but for what only this library writes."""
    with server.client() as raw:
        found = [key for key in raw.keys(f"*{name}*") if not key.startswith(b"pyredisson_")]
        return {key: raw.dump(key) for key in found}


# --- killed ---


@by_a_task
@pytest.mark.parametrize("lease", [None, LEASE])
@pytest.mark.parametrize("kind", LOCKS, ids=str)
def test_a_waiter_acquires_within_the_lease_of_a_killed_holder(world, valkey, direct, unique_name, kind, lease):
    client = world.from_url(valkey.url)
    theirs, actor = kind.blocking_handle(client, unique_name), world.actor()
    with Peer("threads", valkey.url, unique_name, kind.name, lock_watchdog_timeout=LEASE) as peer:
        peer.do("lock", lease)
        peer.do("lock", lease)
        taken = actor.start(theirs.lock)
        await_waiting(direct, theirs)
        peer.kill()
        began = time.monotonic()
        taken.result(20)
        assert within(began, LEASE)
    actor.do(theirs.unlock)
    kind.await_rest(direct, client, unique_name, 0)


# --- stopped ---


@pytest.mark.parametrize("kind", LOCKS, ids=str)
def test_a_holder_that_was_stopped_past_its_lease_learns_of_the_loss_before_it_writes(
    world, valkey, direct, unique_name, kind
):
    client = world.from_url(valkey.url)
    theirs, actor = kind.blocking_handle(client, unique_name), world.actor()
    with Peer(world.runtime, valkey.url, unique_name, kind.name, lock_watchdog_timeout=LEASE) as peer:
        peer.do("enter")
        peer.do("ensure_held")
        assert actor.do(theirs.try_lock) is False
        peer.stop()
        began = time.monotonic()
        actor.do(theirs.lock)
        assert within(began, LEASE)
        # What it asks first when it goes on is answered with the truth, whatever its watchdog has done by then.
        peer.send("ensure_held")
        peer.go_on()
        with pytest.raises(PeerError, match="LockLostError"):
            peer.result()
        with pytest.raises(PeerError, match="LockLostError"):
            peer.do("leave")
        until(lambda: peer.do("losses") == [[unique_name, peer.number]], what="called back")
        assert actor.do(theirs.is_held_by_current_thread), "and takes nothing from the next one"
        assert peer.do("try_lock") is False
        actor.do(theirs.unlock)
        peer.do("lock")
        peer.do("unlock")
    kind.await_rest(direct, client, unique_name, 0)


def test_a_permit_that_ran_out_while_its_holder_was_stopped_is_anothers(world, valkey, direct, unique_name):
    client = world.from_url(valkey.url)
    permits, actor = PERMITS.handle(client, unique_name), world.actor()
    actor.do(permits.try_set_permits, 1)
    with Peer(world.runtime, valkey.url, unique_name, PERMITS.name) as peer:
        permit = peer.do("acquire", LEASE)
        peer.stop()
        began = time.monotonic()
        mine = actor.do(permits.acquire)
        assert within(began, LEASE)
        peer.send("update_lease_time", permit, 60)
        peer.send("try_release", permit)
        peer.send("release", permit)
        peer.go_on()
        assert peer.result() is False
        assert peer.result() is False
        with pytest.raises(PeerError, match="LockNotOwnedError"):
            peer.result()
        assert peer.do("try_acquire") is None
        actor.do(permits.release, mine)
        peer.do("release", peer.do("acquire"))
    PERMITS.await_rest(direct, client, unique_name, 1)


@pytest.mark.parametrize("kind", [LOCK, READ, WRITE, SEMAPHORE, PERMITS], ids=str)
def test_a_stopped_waiter_acquires_nothing_held_by_another(world, valkey, direct, unique_name, kind):
    load_scripts(valkey)
    client, holder = world.from_url(valkey.url), world.actor()
    let_in = kind.block(holder, client, unique_name)
    with Peer(world.runtime, valkey.url, unique_name, kind.name) as peer:
        before_it = scripts_run(direct)
        peer.send(kind.acquire)
        # Once before it listens, and once after: nothing that it asked is still to be answered when it is stopped.
        until(lambda: scripts_run(direct) >= before_it + 2, what="it waits")
        peer.stop()
        let_in()
        again = kind.block(holder, client, unique_name)
        before, asked = stored(valkey, unique_name), scripts_run(direct)
        peer.go_on()
        until(lambda: scripts_run(direct) > asked, what="it hears that it was let in, and asks")
        assert stored(valkey, unique_name) == before
        again()
        taken = peer.result()
        peer.do(kind.release, *([taken] if isinstance(taken, str) else []))
    kind.await_rest(direct, client, unique_name, 1)
