"""A lock that is not reentrant: an error where its holder would count, and all else as with a lock."""

from __future__ import annotations

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError
from tests.worlds.base import World
from tests.worlds.store import CHANNEL


def test_its_holder_cannot_acquire_it_twice(world: World) -> None:
    mine = world.actor().get(world.client(), "non_reentrant_lock")
    mine.lock()
    for take in (mine.lock, mine.try_lock, mine.acquire, lambda: mine.try_lock(1, 5), mine.hold().enter):
        with pytest.raises(LockError, match="not reentrant") as refusal:
            take()
        assert not isinstance(refusal.value, LockNotOwnedError)
        assert refusal.value.name == "orders"
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert mine.try_lock()


def test_another_handle_is_the_same_lock(world: World) -> None:
    client = world.client()
    alice = world.actor()
    alice.get(client, "non_reentrant_lock").lock()
    with pytest.raises(LockError, match="not reentrant"):
        alice.get(client, "non_reentrant_lock").try_lock()


def test_others_wait_as_for_any_lock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "non_reentrant_lock"), bob.get(client, "non_reentrant_lock")
    said = world.messages(CHANNEL)
    mine.lock()
    assert not theirs.try_lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.waiting(mine) == 1)
    mine.unlock()
    waiting.result(within=5)
    world.until(lambda: said.received() == [b"0"])


def test_it_is_stored_as_a_lock_is(world: World) -> None:
    client = world.client()
    alice = world.actor()
    with alice.get(client, "non_reentrant_lock"):
        assert world.redis.everything() == {"orders": ("hash", {f"{client.id}:{alice.number}": "1"})}
    assert world.redis.everything() == {}


def test_a_plain_lock_of_the_same_owner_may_join(world: World) -> None:
    client = world.client()
    alice = world.actor()
    mine, plain = alice.get(client, "non_reentrant_lock"), alice.lock(client)
    mine.lock()
    plain.lock()
    assert mine.get_hold_count() == 2
    with pytest.raises(LockError, match="not reentrant"):
        mine.lock()


def test_a_lost_hold_is_lost_first(world: World) -> None:
    mine = world.actor().get(world.client(), "non_reentrant_lock")
    mine.lock()
    world.redis.delete("orders")
    with pytest.raises(LockLostError):
        mine.unlock()
    mine.lock()
    assert mine.get_hold_count() == 1


def test_a_lease_that_is_over_is_no_hold(world: World) -> None:
    mine = world.actor().get(world.client(), "non_reentrant_lock")
    mine.lock(0.05)
    world.pass_time(0.1)
    assert mine.try_lock()
