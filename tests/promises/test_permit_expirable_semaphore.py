"""Permits with an id each: released by it, once; and available again by themselves when their time is over."""

import math
import re
from datetime import timedelta

import pytest

from pyredisson import LockLostError, LockNotOwnedError
from tests.worlds.base import Actor, Remote, World

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


def test_a_permit_has_an_id(world):
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


def test_the_stored_state(world):
    actor, client = world.actor(), world.client()
    mine = seats(actor, client, 5)
    before = now_ms(world)
    leased, *more, endless = mine.acquire(60), *mine.acquire(60, permits=2), mine.acquire()
    everything = world.redis.everything()
    record = f"pyredisson_done:{{seats}}:{client.id}:{actor.number}"
    assert set(everything) == {"seats", TAKEN, record}
    assert everything["seats"] == ("string", "1")
    kind, scores = everything[TAKEN]
    assert kind == "zset"
    assert set(scores) == {bytes.fromhex(permit) for permit in (leased, *more, endless)}
    assert scores[bytes.fromhex(endless)] == NEVER
    assert scores[bytes.fromhex(more[0])] == scores[bytes.fromhex(more[1])] != NEVER
    assert before + 60_000 <= scores[bytes.fromhex(leased)] <= now_ms(world) + 60_000
    assert world.redis.ttl(TAKEN) == math.inf


@pytest.mark.parametrize("permit", ["0" * 32, "f" * 31, "x" * 32, "", "nothing", "日本", "0" * 33, " " * 32])
def test_an_unknown_permit(world, permit):
    mine = seats(world.actor(), world.client(), 1)
    mine.acquire()
    assert mine.try_release(permit) is False
    with pytest.raises(LockNotOwnedError):
        mine.release(permit)
    assert mine.update_lease_time(permit, 5) is False
    assert mine.acquired_permits() == 1


def test_an_id_in_capitals_is_the_same(world):
    mine = seats(world.actor(), world.client(), 1)
    assert mine.try_release(mine.acquire().upper()) is True


# ---- several at once ---------------------------------------------------------------------------------------------


def test_several_permits_are_acquired_all_or_none(world):
    mine = seats(world.actor(), world.client(), 3)
    two = mine.acquire(permits=2)
    assert len(set(two)) == 2
    for permit in two:
        assert re.fullmatch("[0-9a-f]{32}", permit)
    assert mine.try_acquire(permits=2) is None
    assert (mine.available_permits(), mine.acquired_permits()) == (1, 2)
    (one,) = mine.try_acquire(permits=1)
    assert one not in two
    assert mine.available_permits() == 0


def test_a_list_of_permits_is_released_whichever_way_they_were_acquired(world, alice, bob):
    mine, theirs = seats(alice, world.client(), 4), seats(bob, world.client())
    permits = [mine.acquire(), *mine.acquire(60, permits=2)]
    theirs.release(permits)
    assert (mine.available_permits(), mine.acquired_permits()) == (4, 0)
    assert mine.try_release([mine.acquire()]) is True
    two = mine.acquire(permits=2)
    mine.release(two[0])
    assert mine.try_release(two[1]) is True
    assert mine.available_permits() == 4


@pytest.mark.parametrize("unknown", ["0" * 32, "nothing"])
def test_of_a_list_with_an_unknown_permit_none_is_released(world, unknown):
    mine = seats(world.actor(), world.client(), 3)
    one, two = mine.acquire(permits=2)
    permits = [one, unknown, two]
    assert mine.try_release(permits) is False
    with pytest.raises(LockNotOwnedError, match=f"permit {unknown} of 'seats' .*none of the 3 permits was released"):
        mine.release(permits)
    assert mine.acquired_permits() == 2
    assert mine.try_release([one, two]) is True


def test_a_waiter_gets_several_permits_when_there_are_enough(world, alice, bob):
    mine, theirs = seats(alice, world.client(), 3), seats(bob, world.client())
    permits = mine.acquire(permits=3)
    waiting = bob.start(theirs.acquire, permits=2)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.release(permits[0])
    assert mine.available_permits() == 1
    assert not waiting.done()
    mine.release(permits[1])
    assert len(waiting.result(within=5)) == 2
    assert mine.available_permits() == 0


def test_as_many_as_can_be_acquired_at_once(world):
    mine = seats(world.actor(), world.client(), 1000)
    permits = mine.try_acquire(permits=1000)
    assert len(set(permits)) == 1000
    assert mine.available_permits() == 0
    mine.release(permits)
    assert (mine.available_permits(), mine.acquired_permits()) == (1000, 0)


# ---- time --------------------------------------------------------------------------------------------------------


def test_the_time_until_a_permit_expires(world):
    mine = seats(world.actor(), world.client(), 3)
    leased, short, endless = mine.acquire(60), mine.acquire(0.1), mine.acquire()
    assert 50 < mine.get_lease_time(leased) <= 60
    assert mine.get_lease_time(endless) == math.inf
    mine.update_lease_time(endless, 600)
    assert 590 < mine.get_lease_time(endless) <= 600
    world.until(lambda: mine.acquired_permits() == 2)
    for unknown in (short, "0" * 32, "nothing"):
        with pytest.raises(LockNotOwnedError, match=f"permit {unknown} of 'seats' does not exist"):
            mine.get_lease_time(unknown)


def test_a_permit_expires(world, alice, bob):
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client())
    began = world.now()
    permit = mine.acquire(0.3)
    assert theirs.acquire() != permit  # Nobody says a word; the waiter knows when.
    assert 0.28 < world.now() - began < 5
    with pytest.raises(LockNotOwnedError) as refusal:
        mine.release(permit)
    assert not isinstance(refusal.value, LockLostError), "nothing watches permits: to be late is to be unknown"
    assert refusal.value.name == "seats"
    assert permit in str(refusal.value)
    assert mine.available_permits() == 0
    assert mine.acquired_permits() == 1


def test_a_lease_beyond_all_time_is_one_without_end(world):
    mine = seats(world.actor(), world.client(), 1)
    permit = mine.acquire(timedelta(seconds=1e12))
    assert world.redis.everything()[TAKEN][1] == {bytes.fromhex(permit): NEVER}


def test_how_many_there_are(world):
    mine = seats(world.actor(), world.client())
    assert (mine.available_permits(), mine.acquired_permits(), mine.get_permits()) == (0, 0, 0)
    mine.try_set_permits(3)
    mine.acquire()
    assert (mine.available_permits(), mine.acquired_permits(), mine.get_permits()) == (2, 1, 3)
