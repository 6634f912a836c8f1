"""Semaphores and latches exist until they are deleted or expire, with all their keys."""

import math
from datetime import timedelta
from functools import partial

import pytest

from pyredisson import LockLostError
from tests.promises.kinds import each_of
from tests.worlds.base import Remote, World

KINDS = ("semaphore", "permit_expirable_semaphore", "count_down_latch")
kind = each_of(*KINDS)

#: The keys of each kind once one permit was acquired.
KEYS = {
    "semaphore": {"seats", "pyredisson_permits:{seats}"},
    "permit_expirable_semaphore": {"seats", "{seats}:timeout"},
    "count_down_latch": {"seats"},
}


def begin(mine: Remote, kind: str) -> None:
    """Let it have all its keys."""
    if kind == "count_down_latch":
        assert mine.try_set_count(3)
    else:
        assert mine.try_set_permits(3)
        assert mine.acquire()


def keys(world: World) -> set[str]:
    return {key for key in world.redis.everything() if not key.startswith("pyredisson_done:")}


def test_it_exists_with_all_its_keys_until_it_is_deleted(world, kind):
    mine = world.actor().get(world.client(), kind, "seats")
    for call in (mine.exists, mine.delete, partial(mine.expire, 60), mine.clear_expire):
        assert call() is False
    begin(mine, kind)
    assert mine.exists() is True
    assert keys(world) == KEYS[kind]
    assert mine.clear_expire() is False
    assert mine.expire(timedelta(seconds=60)) is True
    assert all(50 < world.redis.ttl(key) <= 60 for key in KEYS[kind])
    assert mine.clear_expire() is True
    assert all(world.redis.ttl(key) == math.inf for key in KEYS[kind])
    assert mine.delete() is True
    assert keys(world) == set()
    assert mine.exists() is False


def test_it_expires(world, kind):
    mine = world.actor().get(world.client(), kind, "seats")
    begin(mine, kind)
    assert mine.expire(0.2) is True
    world.until(lambda: not mine.exists())
    assert keys(world) == set()


@pytest.mark.parametrize("end", ["delete", "expire"])
def test_the_waiters_of_a_latch_that_is_gone_return(world, end, alice, bob):
    client = world.client(max_wait_without_check=60)
    mine, theirs = (actor.get(client, "count_down_latch", "seats") for actor in (alice, bob))
    mine.try_set_count(3)
    pending = bob.start(theirs.wait, None if end == "delete" else 3.0)
    world.until(lambda: world.waiting(mine) == 1)
    assert mine.delete() if end == "delete" else mine.expire(0.2)
    assert pending.result(within=5) is True, "also where only the end of the wait shows it"


@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_waiters_of_a_deleted_semaphore_wait_for_new_permits(world, alice, bob, kind):
    client = world.client(max_wait_without_check=60)
    mine, theirs = alice.get(client, kind, "seats"), bob.get(client, kind, "seats")
    mine.try_set_permits(0)
    pending = bob.start(theirs.acquire)
    world.until(lambda: world.waiting(mine) == 1)
    assert mine.delete() is True
    assert mine.try_set_permits(1) is True
    assert pending.result(within=5)


def test_a_permit_of_a_deleted_semaphore_is_lost(world):
    mine = world.actor().get(world.client(), "permit_expirable_semaphore", "seats", permits=1)
    with pytest.raises(LockLostError), mine.hold():
        assert mine.delete() is True
    assert mine.exists() is False
