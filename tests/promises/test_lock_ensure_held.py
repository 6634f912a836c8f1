"""``lock.ensure_held()``: for the code that is called under a lock. It is plain in both forms, and asks no server."""

import math

import pytest

from pyredisson import LockLostError, LockNotOwnedError
from tests.promises.kinds import LOCKS, handle, members, over, raises_lost
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import each_runtime, sync_and_async

pytestmark = each_runtime

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def refused(lock, error=LockNotOwnedError, match="."):
    """It raises this very error, in its owner's thread or task."""
    with pytest.raises(LockNotOwnedError, match=match) as refusal:
        lock.ensure_held()
    assert type(refusal.value) is error
    assert refusal.value.name == lock.real.name
    return refusal.value


@pytest.mark.parametrize("kind", LOCKS)
def test_only_the_holder_passes(client, alice, bob, kind):
    mine, theirs = handle(alice, client, kind), handle(bob, client, kind)
    refused(mine, match="acquire it first, in the same thread or task")
    with mine.hold():
        assert mine.ensure_held() is None
        handle(alice, client, kind).ensure_held()
        error = refused(theirs)
        assert "release" not in str(error)
        if kind == "read_lock":
            return  # Bob may read as well.
        assert ": it is held by " in str(error)
        assert error.holder is not None
        assert error.holder.thread_id == alice.number
    refused(mine)
    mine.lock()
    mine.ensure_held()
    mine.unlock()
    refused(mine)


@sync_and_async
def test_it_asks_no_server(world, alice, bob, proxy):
    client = world.through(proxy.port)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    before = proxy.requests
    for _ in range(100):
        mine.ensure_held()
        refused(theirs)
    assert proxy.requests == before
    mine.unlock()


@pytest.mark.parametrize("how", ["with", "hold"])
def test_a_lock_that_was_taken_away_is_lost(world, alice, how):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    mine = alice.lock(client)
    with pytest.raises(LockLostError), mine if how == "with" else mine.hold():
        mine.ensure_held()
        world.redis.delete("orders")
        world.until(lambda: world.losses)
        refused(mine, LockLostError, "was lost by")
    refused(mine)


def test_a_fixed_lease_that_has_run_out_is_lost(world, client, mine):
    mine.lock(lease_time=2)
    mine.ensure_held()
    world.pass_time(2.01)
    refused(mine, LockLostError, "its lease expired")
    raises_lost(mine.unlock)
    refused(mine)


def test_what_another_owner_forced_open_is_lost(client, mine, theirs):
    mine.lock()
    theirs.force_unlock()
    refused(mine, LockLostError, "it was force-unlocked by this client")
    raises_lost(mine.unlock)


def test_a_made_owner_is_asked_and_not_the_thread(client, alice, bob):
    owner = client.real.new_owner()
    first, second = (actor.get(client, "lock", owner=owner) for actor in (alice, bob))
    with first.hold():
        second.ensure_held()
        refused(alice.lock(client))
    owner.close()


@pytest.mark.parametrize("nodes", [1, 3])
def test_of_a_multi_lock_enough_members_must_be_certain(world, alice, bob, nodes):
    locks, stores = members(world, nodes, lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    mine, theirs = (over(actor, locks) for actor in (alice, bob))
    refused(mine, match="multi-lock .* acquire it first")
    with pytest.raises(LockLostError), mine.hold():
        mine.ensure_held()
        Remote(locks[0], alice).ensure_held()  # A member that is held through the multi-lock alone.
        refused(theirs, match="it is held by")
        stores[0].delete("a")
        if nodes > 1:
            world.pass_time(SHORT)
            mine.ensure_held()  # Two of three are there.
            stores[1].delete("a")
        world.until(lambda: world.losses)
        refused(mine, LockLostError)
    refused(mine)


def test_a_re_entry_and_the_block_around_it(world, mine):
    with mine.hold():
        with mine:
            mine.ensure_held()
        mine.ensure_held()
    refused(mine)


def test_extending_what_is_not_held_speaks_of_no_release(mine, theirs):
    theirs.lock()
    with pytest.raises(LockNotOwnedError, match="it is held by") as refusal:
        mine.extend(math.ceil(KEPT))
    assert "release" not in str(refusal.value)
    theirs.unlock()
