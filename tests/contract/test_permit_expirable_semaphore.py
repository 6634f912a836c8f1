"""Permits with an id each: released by it, once; and available again by themselves when their time is over."""

from __future__ import annotations

import asyncio
import math
import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError, LockLostError, LockNotOwnedError
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, in_real_time, interruptible

CHANNEL = "redisson_sc:{seats}"
TAKEN = "{seats}:timeout"
NEVER = 922337203685477


def seats(actor: Actor, client: Remote, permits: int | None = None) -> Remote:
    semaphore = actor.get(client, "permit_expirable_semaphore", "seats")
    if permits is not None:
        assert semaphore.try_set_permits(permits) is True
    return semaphore


def now_ms(world: World) -> int:
    seconds, micros = world.redis.command("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


def expire_many(world: World, count: int) -> None:
    """So many permits are taken, and their time has been over for long."""
    world.redis.command("SET", "seats", 0)
    for start in range(0, count, 500):
        words: list[str | int] = []
        for number in range(start, min(start + 500, count)):
            words += [1 + number, f"{number:016}"]
        world.redis.command("ZADD", TAKEN, *words)


def test_a_permit_has_an_id(world: World) -> None:
    mine = seats(world.actor(), world.client(), 2)
    assert mine.name == "seats"
    one, other = mine.acquire(), mine.try_acquire()
    assert one != other
    for permit in (one, other):
        assert re.fullmatch("[0-9a-f]{32}", permit)
    assert mine.try_acquire() is None
    assert mine.available_permits() == 0
    mine.release(one)
    assert mine.available_permits() == 1
    assert re.fullmatch("[0-9a-f]{32}", mine.try_acquire(0.5, 10))


def test_the_stored_state(world: World) -> None:
    actor, client = world.actor(), world.client()
    mine = seats(actor, client, 3)
    before = now_ms(world)
    leased, endless = mine.acquire(60), mine.acquire()
    everything = world.redis.everything()
    record = f"pyredisson_done:{{seats}}:{client.id}:{actor.number}"
    assert set(everything) == {"seats", TAKEN, record}
    assert everything["seats"] == ("string", "1")
    kind, scores = everything[TAKEN]
    assert kind == "zset"
    assert set(scores) == {bytes.fromhex(leased), bytes.fromhex(endless)}
    assert scores[bytes.fromhex(endless)] == NEVER
    assert before + 60_000 <= scores[bytes.fromhex(leased)] <= now_ms(world) + 60_000
    assert world.redis.ttl(TAKEN) == math.inf


def test_the_acquired_permits_live_as_long_as_the_semaphore(world: World) -> None:
    mine = seats(world.actor(), world.client(), 3)
    world.redis.expire("seats", 100)
    mine.acquire()
    assert 90 < world.redis.ttl(TAKEN) <= 100


def test_a_name_with_braces(world: World) -> None:
    mine = world.actor().get(world.client(), "permit_expirable_semaphore", "{shop}:seats")
    said = world.messages("redisson_sc:{shop}:seats")
    mine.try_set_permits(1)
    mine.acquire()
    assert said.received() == [b"1"]
    assert {"{shop}:seats", "{shop}:seats:timeout"} < set(world.redis.everything())


def test_a_permit_is_released_once(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client())
    permit = mine.acquire()
    theirs.release(permit)  # By whoever knows it.
    with pytest.raises(LockNotOwnedError) as refusal:
        mine.release(permit)
    assert refusal.value.name == "seats"
    assert permit in str(refusal.value)
    assert mine.try_release(permit) is False
    assert mine.available_permits() == 1


@pytest.mark.parametrize("permit", ["0" * 32, "f" * 31, "x" * 32, "", "nothing", "日本", "0" * 33, " " * 32])
def test_an_unknown_permit(world: World, permit: str) -> None:
    mine = seats(world.actor(), world.client(), 1)
    mine.acquire()
    assert mine.try_release(permit) is False
    with pytest.raises(LockNotOwnedError):
        mine.release(permit)
    assert mine.update_lease_time(permit, 5) is False
    assert mine.acquired_permits() == 1


def test_a_permit_of_another_semaphore(world: World) -> None:
    actor, client = world.actor(), world.client()
    mine = seats(actor, client, 1)
    other = actor.get(client, "permit_expirable_semaphore", "tables")
    other.try_set_permits(1)
    permit = other.acquire()
    assert mine.try_release(permit) is False
    assert mine.available_permits() == 1
    assert other.try_release(permit) is True


def test_an_id_in_capitals_is_the_same(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    assert mine.try_release(mine.acquire().upper()) is True


# ---- time --------------------------------------------------------------------------------------------------------


def test_a_permit_expires(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client())
    began = world.now()
    permit = mine.acquire(0.3)
    assert theirs.acquire() != permit  # Nobody says a word; the waiter knows when.
    assert 0.28 < world.now() - began < 5
    with pytest.raises(LockNotOwnedError):
        mine.release(permit)
    assert mine.available_permits() == 0
    assert mine.acquired_permits() == 1


def test_a_permit_released_too_late_is_available_once(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    permit = mine.acquire(timedelta(milliseconds=50))
    world.pass_time(0.1)
    assert mine.try_release(permit) is False
    assert mine.available_permits() == 1
    assert mine.try_release(permit) is False
    assert mine.available_permits() == 1


def test_a_permit_without_a_lease_never_expires(world: World) -> None:
    mine = seats(world.actor(), world.client(lock_watchdog_timeout=0.3), 1)
    permit = mine.acquire()
    world.pass_time(0.5)
    assert mine.available_permits() == 0
    assert mine.try_release(permit) is True


def test_a_lease_is_changed(world: World) -> None:
    mine = seats(world.actor(), world.client(), 3)
    shorter, longer, endless = mine.acquire(), mine.acquire(0.4), mine.acquire(0.4)
    assert mine.update_lease_time(shorter, 0.1) is True
    assert mine.update_lease_time(longer, 60) is True
    assert mine.update_lease_time(endless, None) is True
    world.pass_time(0.6)
    assert mine.available_permits() == 1
    assert mine.update_lease_time(shorter, 60) is False
    assert mine.try_release(longer) is True
    assert world.redis.everything()[TAKEN][1] == {bytes.fromhex(endless): NEVER}


def test_a_lease_beyond_all_time_is_one_without_end(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    permit = mine.acquire(timedelta(seconds=1e12))
    assert world.redis.everything()[TAKEN][1] == {bytes.fromhex(permit): NEVER}


@pytest.mark.parametrize("first", ["available_permits", "acquired_permits", "get_permits", "try_acquire", "release"])
def test_twenty_thousand_permits_expired_at_once(world: World, first: str) -> None:
    """Redisson's script fails from some thousands on, and with it every call."""
    expire_many(world, 20_000)
    mine = seats(world.actor(), world.client())
    said = world.messages(CHANNEL)
    if first == "try_acquire":
        permit = mine.try_acquire()
        assert permit is not None
        assert said.received() == [b"1"]
        mine.release(permit)
    elif first == "release":
        assert mine.try_release(b"0000000000000007".hex()) is False
    else:
        assert getattr(mine, first)() == {"acquired_permits": 0}.get(first, 20_000)
        assert said.received() == [b"20000"]
    assert mine.available_permits() == 20_000
    assert mine.acquired_permits() == 0
    assert mine.get_permits() == 20_000


# ---- how many ----------------------------------------------------------------------------------------------------


def test_how_many_there_are(world: World) -> None:
    mine = seats(world.actor(), world.client())
    assert (mine.available_permits(), mine.acquired_permits(), mine.get_permits()) == (0, 0, 0)
    assert mine.try_acquire() is None
    assert mine.try_set_permits(3) is True
    assert mine.try_set_permits(4) is False
    mine.acquire()
    mine.acquire(60)
    assert (mine.available_permits(), mine.acquired_permits(), mine.get_permits()) == (1, 2, 3)


def test_how_many_there_shall_be(world: World) -> None:
    mine = seats(world.actor(), world.client())
    said = world.messages(CHANNEL)
    mine.set_permits(2)
    held = [mine.acquire(), mine.acquire()]
    mine.set_permits(5)
    assert (mine.available_permits(), mine.get_permits()) == (3, 5)
    mine.set_permits(5)
    mine.set_permits(1)
    assert (mine.available_permits(), mine.get_permits()) == (-1, 1)
    mine.release(held[0])
    assert mine.try_acquire() is None
    mine.release(held[1])
    assert mine.try_acquire() is not None
    assert said.received() == [b"2", b"5", b"1", b"0", b"1"]


def test_permits_are_added_and_removed(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    said = world.messages(CHANNEL)
    mine.add_permits(2)
    mine.add_permits(-5)
    assert mine.available_permits() == -2
    mine.add_permits(3)
    assert mine.available_permits() == 1
    assert said.received() == [b"2", b"3"]  # The number added, not the total; and of fewer nobody is told.


# ---- waiting -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("give", ["release", "add_permits", "set_permits"])
def test_whatever_makes_permits_available_wakes_waiters(world: World, give: str) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client(max_wait_without_check=60))
    permit = mine.acquire()
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    assert not waiting.done()
    getattr(mine, give)(permit if give == "release" else 2)
    assert waiting.result(within=5) != permit


def test_a_wait_ends_in_time(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    mine.acquire(60)
    began = world.now()
    assert mine.try_acquire(0.3) is None
    assert 0.29 < world.now() - began < 2
    assert mine.try_acquire() is None
    assert mine.acquired_permits() == 1


def test_each_expiry_serves_a_waiter(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    mine = seats(world.actor(), world.client(), 3)
    others = [(actor, seats(actor, client)) for actor in world.actors(3)]
    began = world.now()
    for lease in (0.4, 0.7, 1.0):
        mine.acquire(lease)
    waiting = [actor.start(semaphore.acquire) for actor, semaphore in others]
    assert len({pending.result(within=5) for pending in waiting}) == 3
    assert 0.95 < world.now() - began < 5


@each_runtime
def test_a_waiter_knows_the_end_of_a_short_permit_acquired_in_its_client(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    alice, bob, carol = world.actors(3)
    mine, first, second = seats(alice, client, 1), seats(bob, client), seats(carol, client)
    permit = mine.acquire()
    one = bob.start(first.try_acquire, None, 0.5)
    world.until(lambda: world.waiting(mine) == 1)
    other = carol.start(second.acquire)
    world.until(lambda: world.waiting(mine) == 2)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    mine.release(permit)
    one.result(within=5)
    other.result(within=5)  # When the one that has just been taken expires.


@each_server
def test_waiters_survive_the_loss_of_their_subscription(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    others = [(actor, seats(actor, client)) for actor in world.actors(3)]
    waiting = [actor.start(semaphore.acquire) for actor, semaphore in others]
    world.until(lambda: world.waiting(others[0][1]) == 3)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    world.redis.command("SET", "seats", 3)
    world.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    assert len({pending.result(within=5) for pending in waiting}) == 3


@interruptible
def test_an_interrupted_waiter_acquires_nothing(world: World) -> None:
    client = world.client()
    alice, me = world.actor(), world.interruptible()
    theirs, mine = seats(alice, client, 1), seats(me, client)
    permit = theirs.acquire()
    error = me.interrupted(mine.acquire, once=lambda: world.redis.subscribers(CHANNEL) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(mine) == 0
    theirs.release(permit)
    world.pass_time(0.1)
    assert theirs.acquired_permits() == 0
    assert mine.acquire()


# ---- closing and arguments ---------------------------------------------------------------------------------------


def test_nothing_works_after_closing(world: World) -> None:
    client = world.client()
    bob = world.actor()
    mine, theirs = seats(world.actor(), client, 0), seats(bob, client)
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    client.close()
    assert isinstance(waiting.error(), ClientClosedError)
    for call in (
        mine.acquire,
        mine.try_acquire,
        mine.available_permits,
        mine.get_permits,
        mine.acquired_permits,
        partial(mine.release, "0" * 32),
        partial(mine.try_release, "nothing"),
        partial(mine.update_lease_time, "0" * 32, 5),
        partial(mine.try_set_permits, 1),
        partial(mine.set_permits, 1),
        partial(mine.add_permits, 1),
    ):
        with pytest.raises(ClientClosedError):
            call()


@each_runtime
def test_bad_arguments(world: World) -> None:
    mine = seats(world.actor(), world.client())
    for call in (mine.try_set_permits, mine.set_permits):
        with pytest.raises(ValueError, match="permits"):
            call(-1)
    no_numbers: list[Any] = ["1", 1.0, None, True]
    for call in (mine.try_set_permits, mine.set_permits, mine.add_permits):
        for value in no_numbers:
            with pytest.raises(TypeError, match="permits"):
                call(value)
    for lease in (0, -1, math.nan, math.inf, timedelta(0)):
        with pytest.raises(ValueError, match="lease_time"):
            mine.acquire(lease)
        with pytest.raises(ValueError, match="lease_time"):
            mine.try_acquire(0, lease)
        with pytest.raises(ValueError, match="lease_time"):
            mine.update_lease_time("0" * 32, lease)
    with pytest.raises(ValueError, match="wait_time"):
        mine.try_acquire(-1)
    no_ids: list[Any] = [None, 1, b"0" * 32]
    for permit in no_ids:
        for call in (mine.release, mine.try_release, partial(mine.update_lease_time, lease_time=1)):
            with pytest.raises(TypeError, match="id"):
                call(permit)
    assert world.redis.everything() == {}


@in_real_time
def test_a_key_of_another_type(world: ClockWorld) -> None:
    world.redis.command("HSET", "seats", "f", "v")
    mine = seats(world.actor(), world.client())
    for call in (mine.acquire, mine.available_permits, partial(mine.set_permits, 1), partial(mine.add_permits, 1)):
        with pytest.raises(LockError, match="holds a hash"):
            call()


def test_a_late_release_is_no_loss(world: World) -> None:
    """Nobody watches over permits: to be late is to be unknown."""
    mine = seats(world.actor(), world.client(), 1)
    permit = mine.acquire(0.05)
    world.pass_time(0.1)
    with pytest.raises(LockNotOwnedError) as refusal:
        mine.release(permit)
    assert not isinstance(refusal.value, LockLostError)
