"""A semaphore has as many permits as the last resize says, whatever is acquired."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyredisson import LockError, events
from tests.worlds.base import Remote, World
from tests.worlds.environments import each_runtime

each_kind = pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
RECORD = "pyredisson_permits:{seats}"


def release(mine: Remote, permit: Any) -> None:
    """Release a permit of either kind."""
    mine.release(*([] if permit is True else [permit]))


@each_kind
def test_the_total_is_set_whatever_is_acquired(world: World, kind: str) -> None:
    mine = world.actor().get(world.client(), kind, "seats", permits=3)
    acquired = [mine.acquire(), mine.acquire()]
    mine.resize(5)
    assert mine.available_permits() == 3
    mine.resize(1)
    assert mine.available_permits() == -1
    release(mine, acquired.pop())
    assert mine.available_permits() == 0
    assert not mine.try_acquire()
    release(mine, acquired.pop())
    assert mine.available_permits() == 1
    mine.resize(0)
    assert mine.available_permits() == 0


@each_kind
def test_permits_that_were_added_count(world: World, kind: str) -> None:
    mine = world.actor().get(world.client(), kind, "seats", permits=3)
    assert mine.acquire()
    mine.add_permits(4)
    mine.add_permits(-1)
    mine.resize(4)
    assert mine.available_permits() == 3


@each_kind
def test_a_waiter_is_woken_if_the_number_grows(world: World, kind: str) -> None:
    alice, bob = world.actors(2)
    client = world.client(max_wait_without_check=60)
    mine, theirs = alice.get(client, kind, "seats", permits=1), bob.get(client, kind, "seats")
    assert mine.acquire()
    pending = bob.start(theirs.acquire)
    world.until(lambda: world.waiting(mine) == 1)
    mine.resize(2)
    assert pending.result(within=5)
    assert mine.available_permits() == 0


@each_kind
def test_a_resize_sets_permits_where_there_are_none(world: World, kind: str) -> None:
    mine = world.actor().get(world.client(), kind, "seats", permits=3)
    mine.resize(5)
    assert mine.available_permits() == 5


@each_kind
def test_a_handle_resizes_at_its_first_use(world: World, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    client, alice = world.client(), world.actor()
    before = alice.get(client, kind, "seats", permits=3)
    assert before.acquire()
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        mine = alice.get(client, kind, "seats", permits=5, resize=True)
        assert before.available_permits() == 2
        assert mine.available_permits() == 4
    assert caplog.records == []
    before.resize(3)
    assert mine.available_permits() == 2  # Once.


def test_what_redisson_adds_stays_until_it_is_seen(world: World) -> None:
    mine = world.actor().get(world.client(), "semaphore", "seats", permits=3)
    assert mine.acquire(2)
    world.redis.command("SET", "seats", 2)  # As RSemaphore.addPermits(1) does: there are four.
    mine.resize(5)
    assert mine.available_permits() == 4
    mine.release(2)
    mine.resize(5)
    assert mine.available_permits() == 5


def test_a_number_that_is_not_recorded_is_not_guessed(world: World) -> None:
    client, alice = world.client(), world.actor()
    world.redis.command("SET", "seats", 1)  # Redisson has set three, and two are acquired.
    for mine in (
        alice.get(client, "semaphore", "seats"),
        alice.get(client, "semaphore", "seats", permits=5, resize=True),
    ):
        with pytest.raises(
            LockError, match=r"not recorded.*get_semaphore\('seats', permits=n\)\.resize\(5\)"
        ) as refusal:
            mine.resize(5)
        assert refusal.value.name == "seats"
    assert world.redis.command("GET", "seats") in (b"1", "1")
    alice.get(client, "semaphore", "seats", permits=3).resize(5)
    assert mine.available_permits() == 3


def test_the_record_goes_with_the_semaphore(world: World) -> None:
    mine = world.actor().get(world.client(), "semaphore", "seats", permits=3)
    mine.expire(60)
    mine.resize(5)
    assert 50 < world.redis.ttl(RECORD) <= 60
    assert mine.delete()
    assert RECORD not in world.redis.everything()
    mine.add_permits(2)
    mine.resize(4)
    assert mine.available_permits() == 4


@each_runtime
def test_two_prefixes_have_two_records(world: World) -> None:
    for prefix in ("", "shop:"):
        world.actor().get(world.client(prefix=prefix), "semaphore", "seats", permits=3).resize(4)
    assert {RECORD, "pyredisson_permits:{shop:seats}"} <= set(world.redis.everything())


def test_a_bounded_semaphore_is_compared_with_its_value(world: World) -> None:
    happened: list[events.Event] = []
    client, alice = world.client(listeners=(happened.append,)), world.actor()
    assert alice.get(client, "bounded_semaphore", "seats", value=3).acquire()
    assert alice.get(client, "bounded_semaphore", "seats", value=2).acquire()
    (differ,) = (each for each in happened if isinstance(each, events.PermitsDiffer))
    assert (differ.wanted, differ.permits) == (2, 3)
