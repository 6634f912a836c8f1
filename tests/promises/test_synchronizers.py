"""Events, barriers and bounded semaphores, as those of ``threading`` and ``asyncio``, between clients.

Basic use is in CPython's own tests, which run against ours (``tests/real_servers/test_cpython_lock_tests.py``).
"""

import asyncio
import math
from threading import BrokenBarrierError
from typing import Any

import pytest
import redis.exceptions

from pyredisson import OutcomeUnknownError
from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.environments import in_virtual_time, interruptible, sync_and_async

# ---- events ----------------------------------------------------------------------------------------------------------


def test_an_event_is_a_flag(world):
    event = world.actor().get(world.client(), "event", "ready")
    assert event.wait(-1) is False
    event.set()
    event.set()
    assert event.is_set() is True
    assert event.wait() is True
    event.clear()
    event.clear()
    assert event.is_set() is False
    assert 3500 < world.redis.ttl("ready") <= 3600
    event.set()
    assert world.redis.ttl("ready") == math.inf


def test_a_waiter_returns_though_the_event_was_cleared_at_once(world, alice, bob):
    mine, theirs = (actor.get(world.client(max_wait_without_check=60), "event", "ready") for actor in (alice, bob))
    mine.set()
    mine.clear()
    for _ in range(3):
        waiting = bob.start(theirs.wait)
        world.until(lambda: world.redis.subscribers("pyredisson_event:{ready}") == 1)
        world.pass_time(0.2)
        assert not waiting.done()
        mine.set()
        mine.clear()
        assert waiting.result(within=5) is True


# ---- bounded semaphores ----------------------------------------------------------------------------------------------


def test_a_release_of_a_bounded_semaphore_too_many_is_refused(world):
    semaphore = world.actor().get(world.client(), "bounded_semaphore", "seats", 2)
    with pytest.raises(ValueError, match="released too many times: its value is 2"), semaphore:
        assert semaphore.acquire() is True
        assert semaphore.locked() is True
        semaphore.release(2)
    assert world.redis.everything()["seats"] == ("string", "2")
    semaphore.acquire()
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release(2)
    assert world.redis.everything()["seats"] == ("string", "1")


@sync_and_async
def test_a_lost_reply_of_a_bounded_semaphore(world, proxy):
    semaphore = world.actor().get(world.through(proxy.port, timeout=2.4), "bounded_semaphore", "seats", 2)
    semaphore.acquire()
    semaphore.release()
    semaphore.acquire()
    lost = proxy.drop_reply("EVALSHA")
    semaphore.release()  # The repeat is no release too many.
    assert lost.hits == 1
    assert world.redis.everything()["seats"] == ("string", "2")
    lost = proxy.drop_reply("EVALSHA")
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()
    assert lost.hits == 1
    assert world.redis.everything()["seats"] == ("string", "2")


# ---- barriers --------------------------------------------------------------------------------------------------------


def value_of(actor: Actor, barrier: Remote, value: str) -> Any:
    return actor.do(lambda: getattr(barrier.real, value))


class Party:
    """Some actors at one barrier, each with a client of its own."""

    def __init__(self, world: World, parties: int, **more: Any) -> None:
        self.world = world
        self.actors = world.actors(parties)
        clients = [world.client(max_wait_without_check=60) for _ in self.actors]
        self.barriers = [
            actor.get(client, "barrier", "start", parties, **more)
            for actor, client in zip(self.actors, clients, strict=True)
        ]

    def wait(self, *numbers: int, timeout: float | None = None) -> list[Pending]:
        """Let these begin to wait, one after the other."""
        pendings: list[Pending] = []
        observer = self.world.actor()
        for number in numbers:
            pendings.append(self.actors[number].start(self.barriers[number].wait, timeout))
            self.world.until(lambda: value_of(observer, self.barriers[0], "n_waiting") == len(pendings))
        return pendings

    def get(self, value: str) -> Any:
        return value_of(self.actors[0], self.barriers[0], value)


def test_the_last_one_opens_a_barrier(world):
    party = Party(world, 3)
    assert (party.barriers[0].real.parties, party.get("n_waiting"), party.get("broken")) == (3, 0, False)
    for call in (party.barriers[2].wait, party.barriers[2].enter):
        pendings = party.wait(0, 1)
        world.pass_time(0.2)
        assert not any(pending.done() for pending in pendings)
        pendings.append(party.actors[2].start(call))
        assert [pending.result(within=5) for pending in pendings] == [0, 1, 2]
        assert party.get("n_waiting") == 0


@pytest.mark.parametrize("how", ["abort", "reset", "a wait that times out", "a failing action"])
def test_those_who_wait_at_a_broken_barrier_receive_an_error(world, how):
    party = Party(world, 2 if "action" in how else 3, action=lambda: 1 // 0)
    pendings, last = party.wait(0), party.barriers[1]
    if how == "a failing action":
        with pytest.raises(ZeroDivisionError):
            last.wait()
    elif how == "a wait that times out":
        pendings.append(party.actors[1].start(last.wait, 0))
    else:
        getattr(last, how)()
    assert {type(pending.error(within=5)) for pending in pendings} == {BrokenBarrierError}
    assert party.get("broken") is (how != "reset")
    assert party.get("n_waiting") == 0


@in_virtual_time
def test_a_party_that_has_died_is_no_longer_counted(world, alice, bob):
    mine, theirs = (actor.get(world.client(max_wait_without_check=1), "barrier", "start", 3) for actor in (alice, bob))
    world.redis.command("HSET", "pyredisson_barrier:{start}", 1, f"{int(1000 * (1_700_000_000 + world.now()))} dead")
    pending = alice.start(mine.wait, 60)
    world.pass_time(10)
    assert value_of(bob, theirs, "n_waiting") == 1
    other = bob.start(theirs.wait, 60)
    third = world.actor()
    assert third.get(world.client(), "barrier", "start", 3).wait() == 2
    assert sorted([pending.result(), other.result()]) == [0, 1]


def test_what_the_server_has_forgotten_was_not_opened(world):
    party = Party(world, 2)
    (pending,) = party.wait(0)
    world.pass_time(0.5)  # It checks once more when its subscription is confirmed.
    world.redis.command("FLUSHALL")
    later = Party(world, 2)
    others = later.wait(0)
    others.append(later.actors[1].start(later.barriers[1].wait))
    assert [each.result(within=5) for each in others] == [0, 1]
    assert type(pending.error(within=5)) is BrokenBarrierError


@in_virtual_time
def test_one_too_many_waits_for_the_next_generation(world, alice, bob):
    mine, theirs = (actor.get(world.client(), "barrier", "start", 2) for actor in (alice, bob))
    # All are there, and the action of the last one is not over.
    ends_ms = 1000 * (int(world.redis.command("TIME")[0]) + 3600)
    for number in range(2):
        world.redis.command("HSET", "pyredisson_barrier:{start}", number, f"{ends_ms} party-{number}")
    pending = alice.start(mine.wait, 60)
    world.pass_time(20)
    assert not pending.done()
    theirs.reset()
    world.until(lambda: value_of(bob, theirs, "n_waiting") == 1)
    assert (theirs.wait(), pending.result()) == (1, 0)


@interruptible
def test_an_interrupted_party_leaves(world):
    me, bob = world.interruptible(), world.actor()
    mine, theirs = (actor.get(world.client(), "barrier", "start", 2) for actor in (me, bob))
    error = me.interrupted(mine.wait, once=lambda: members(world) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) or type(error).__name__ == "Cancelled"
    assert value_of(bob, theirs, "n_waiting") == 0
    assert value_of(bob, theirs, "broken") is False


@sync_and_async
@pytest.mark.parametrize("lost_by", [0, 1])
def test_lost_replies_of_a_barrier(world, proxy, lost_by):
    """The repeat of the one who opens it joins no second time; neither does that of the first."""
    actors = world.actors(2)
    clients = [world.through(proxy.port, timeout=2.4), world.client()]
    barriers = [actor.get(client, "barrier", "start", 2) for actor, client in zip(actors, clients, strict=True)]
    barriers[0].reset()
    first, second = (0, 1) if lost_by == 0 else (1, 0)
    lost = proxy.drop_reply("EVALSHA")
    pending = actors[first].start(barriers[first].wait)
    world.until(lambda: members(world) == 1)
    assert barriers[second].wait() == 1
    assert pending.result(within=10) == 0
    assert lost.hits == 1
    assert value_of(actors[0], barriers[0], "n_waiting") == 0


def members(world: World) -> int:
    """How many stand at the barrier."""
    return sum(field.isdigit() for field in world.redis.command("HKEYS", "pyredisson_barrier:{start}"))


@sync_and_async
@pytest.mark.parametrize("left", [True, False], ids=["once it has left", "at once"])
def test_a_party_whose_wait_has_failed_leaves_and_its_next_wait_takes_no_place_twice(world, proxy, alice, left):
    """Whether or not the background has given up the former place, alone it opens no barrier."""
    mine = alice.get(world.through(proxy.port, timeout=1.2), "barrier", "start", 2)
    pending = alice.start(mine.wait, 1.5)
    world.until(lambda: members(world) == 1)
    proxy.cut()
    assert isinstance(pending.error(within=10), (redis.exceptions.RedisError, OutcomeUnknownError))
    proxy.heal()
    if left:
        world.until(lambda: members(world) == 0)
    with pytest.raises(BrokenBarrierError):
        mine.wait(0.1)


REFUSED = {"BUSY": "BUSY a script", "OOM": "OOM command not allowed", "LOADING": "LOADING the dataset"}


@sync_and_async
@pytest.mark.parametrize("action", [False, True], ids=["plain", "with an action"])
@pytest.mark.parametrize("refusal", REFUSED)
def test_the_last_party_waits_through_a_refusal_that_passes(world, proxy, alice, bob, action, refusal):
    called: list[int] = []
    more = {"action": lambda: called.append(1)} if action else {}
    first = alice.get(world.client(), "barrier", "start", 2, **more)
    last = bob.get(world.through(proxy.port), "barrier", "start", 2, **more)
    waiting = alice.start(first.wait, 20)
    world.until(lambda: members(world) == 1)
    refused = proxy.refuse_request(lambda args: b"wait" in args and (b"now" in args or not action), REFUSED[refusal], 1)
    assert last.wait(10) == 1
    assert waiting.result(within=5) == 0
    assert (refused.hits, called) == (1, [1] * action)


@sync_and_async
def test_a_refusal_ends_a_wait_of_no_time(world, proxy, alice, bob):
    """And leaves nothing behind."""
    more = {"action": lambda: None}
    first = alice.get(world.client(), "barrier", "start", 2, **more)
    last = bob.get(world.through(proxy.port), "barrier", "start", 2, **more)
    waiting = alice.start(first.wait, 20)
    world.until(lambda: members(world) == 1)
    proxy.refuse_request(lambda args: b"now" in args, "BUSY a script", 1)
    with pytest.raises(redis.exceptions.ResponseError, match="BUSY"):
        last.wait(0)
    world.until(lambda: members(world) == 1)
    assert last.wait(0) == 1
    assert waiting.result(within=5) == 0


@sync_and_async
def test_a_failing_action_breaks_the_barrier_once_the_server_is_back(world, proxy, alice, bob):
    def fail() -> None:
        proxy.cut()
        raise ZeroDivisionError

    first = alice.get(world.client(max_wait_without_check=60), "barrier", "start", 2)
    last = bob.get(world.through(proxy.port, timeout=1.2), "barrier", "start", 2, action=fail)
    waiting = alice.start(first.wait, 30)
    world.until(lambda: members(world) == 1)
    with pytest.raises(ZeroDivisionError):
        last.wait(5)
    proxy.heal()
    assert isinstance(waiting.error(within=10), BrokenBarrierError)
