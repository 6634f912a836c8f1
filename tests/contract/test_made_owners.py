"""``client.new_owner()``: an owner that is no thread and no task, and may be used from any of them."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest

from pyredisson import LockError, LockNotOwnedError
from tests.worlds.base import Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async

KINDS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "non_reentrant_lock", "non_reentrant_fair_lock", "token_lock"]


def handle(actor: Any, client: Remote, kind: str, owner: object) -> Remote:
    return Remote(getattr(client.real, f"get_{kind}")("orders", owner=owner), actor)


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_acquires_here_and_releases_there(world: World, kind: str) -> None:
    client = world.client()
    owner = client.real.new_owner()
    alice, bob, carol = world.actors(3)
    mine, theirs = handle(alice, client, kind, owner), handle(bob, client, kind, owner)
    other = carol.get(client, kind)
    mine.lock()
    assert theirs.is_held_by_current_thread()
    assert theirs.get_hold_count() == 1
    assert not other.try_lock()
    with pytest.raises(LockNotOwnedError):
        other.unlock()
    theirs.unlock()
    assert other.try_lock()


def test_an_owner_re_enters_from_any_thread_or_task(world: World) -> None:
    client = world.client()
    owner = client.real.new_owner()
    alice, bob = world.actors(2)
    mine, theirs = handle(alice, client, "lock", owner), handle(bob, client, "lock", owner)
    with mine, theirs.hold():
        assert mine.get_hold_count() == 2
        assert world.redis.hash("orders") == {f"{client.real.id}:{owner.number}": "2"}
    assert world.redis.ttl("orders") is None


@sync_and_async
def test_both_sides_of_a_read_write_lock_are_the_owners(world: ClockWorld) -> None:
    client = world.client()
    owner = client.real.new_owner()
    alice, bob = world.actors(2)
    pair = client.real.get_read_write_lock("prices", owner=owner)
    writing, reading = Remote(pair.write_lock(), alice), Remote(pair.read_lock(), bob)
    writing.lock()
    reading.lock()
    writing.unlock()
    assert reading.is_held_by_current_thread()
    reading.unlock()


@sync_and_async
def test_a_multi_lock_of_an_owners_locks_is_the_owners(world: ClockWorld) -> None:
    client = world.client()
    owner = client.real.new_owner()
    alice, bob = world.actors(2)

    def multi(actor: Any) -> Remote:
        locks = [client.real.get_lock(name, owner=owner) for name in ("a", "b")]
        return Remote(world.api.MultiLock(*locks), actor)

    mine, theirs = multi(alice), multi(bob)
    mine.lock()
    assert theirs.get_hold_count() == 1
    theirs.unlock()
    assert not world.redis.command("EXISTS", "a", "b")
    with pytest.raises(ValueError, match="one owner"):
        world.api.MultiLock(client.real.get_lock("a", owner=owner), client.real.get_lock("b"))


@sync_and_async
def test_an_owner_makes_one_call_at_a_time(world: ClockWorld) -> None:
    client = world.client()
    owner = client.real.new_owner()
    alice, bob, carol = world.actors(3)
    other = carol.lock(client)
    mine, theirs = handle(alice, client, "lock", owner), handle(bob, client, "lock", owner)
    other.lock()
    waiting = alice.start(mine.try_lock, 10)
    world.until(lambda: world.waiting(mine) == 1)
    with pytest.raises(LockError, match="in the middle of another call"):
        theirs.try_lock()
    other.unlock()
    assert waiting.result()
    theirs.unlock()


@sync_and_async
def test_the_lock_of_an_owner_is_renewed_after_its_thread_or_task_has_ended(world: ClockWorld) -> None:
    client = world.client(lock_watchdog_timeout=3.0)
    owner = client.real.new_owner()
    alice, bob = world.actors(2)
    handle(alice, client, "lock", owner).lock()
    alice.end()
    world.renewed("orders")
    handle(bob, client, "lock", owner).unlock()
    assert world.redis.ttl("orders") is None


@sync_and_async
@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_the_lock_of_a_closed_or_collected_owner_is_renewed_no_longer(
    world: ClockWorld, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client(lock_watchdog_timeout=4.0)
    owner = client.real.new_owner()
    with caplog.at_level(logging.WARNING, "pyredisson"):
        handle(world.actor(), client, "lock", owner).lock()
        if end == "closed":
            owner.close()
        else:
            del owner
            gc.collect()
        world.until(lambda: world.redis.ttl("orders") is None)
    assert f"owner was {end} without releasing it" in caplog.text


@sync_and_async
def test_an_invalid_or_closed_owner_is_refused_at_once(world: ClockWorld) -> None:
    client = world.client().real
    with pytest.raises(TypeError, match="new_owner"):
        client.get_lock("orders", owner="me")
    owner = client.new_owner()
    with owner:
        assert not owner.closed
    assert owner.closed
    with pytest.raises(LockError, match="closed"):
        client.get_lock("orders", owner=owner)
    assert "closed" in repr(owner)
