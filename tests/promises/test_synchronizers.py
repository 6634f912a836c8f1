"""Events, conditions, barriers and bounded semaphores, as those of ``threading`` and ``asyncio``, between clients.

Basic use is in CPython's own tests, which run against ours (``tests/real_servers/test_cpython_lock_tests.py``).
"""

from __future__ import annotations

import asyncio
import math
from threading import BrokenBarrierError
from typing import Any, Literal, TypeAlias

import pytest

from pyredisson import Config, LockNotOwnedError
from pyredisson.asyncio import Redisson
from tests.proxy import Proxy
from tests.waiting import soon
from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, each_runtime, in_virtual_time, interruptible, sync_and_async

# ---- events ----------------------------------------------------------------------------------------------------------


def test_an_event_is_a_flag(world: World) -> None:
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


def test_a_waiter_returns_though_the_event_was_cleared_at_once(world: World, alice: Actor, bob: Actor) -> None:
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


def test_a_release_of_a_bounded_semaphore_too_many_is_refused(world: World) -> None:
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
def test_a_lost_reply_of_a_bounded_semaphore(world: ClockWorld, proxy: Proxy) -> None:
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


def test_the_last_one_opens_a_barrier(world: World) -> None:
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
def test_those_who_wait_at_a_broken_barrier_receive_an_error(world: World, how: str) -> None:
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
def test_a_party_that_has_died_is_no_longer_counted(world: World, alice: Actor, bob: Actor) -> None:
    mine, theirs = (actor.get(world.client(max_wait_without_check=1), "barrier", "start", 3) for actor in (alice, bob))
    world.redis.command("HSET", "pyredisson_barrier:{start}", 1, f"{int(1000 * (1_700_000_000 + world.now()))} dead")
    pending = alice.start(mine.wait, 60)
    world.pass_time(10)
    assert value_of(bob, theirs, "n_waiting") == 1
    other = bob.start(theirs.wait, 60)
    third = world.actor()
    assert third.get(world.client(), "barrier", "start", 3).wait() == 2
    assert sorted([pending.result(), other.result()]) == [0, 1]


@in_virtual_time
def test_one_too_many_waits_for_the_next_generation(world: World, alice: Actor, bob: Actor) -> None:
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
def test_an_interrupted_party_leaves(world: World) -> None:
    me, bob = world.interruptible(), world.actor()
    mine, theirs = (actor.get(world.client(), "barrier", "start", 2) for actor in (me, bob))
    error = me.interrupted(mine.wait, once=lambda: world.redis.command("HLEN", "pyredisson_barrier:{start}") == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) or type(error).__name__ == "Cancelled"
    assert value_of(bob, theirs, "n_waiting") == 0
    assert value_of(bob, theirs, "broken") is False


@sync_and_async
@pytest.mark.parametrize("lost_by", [0, 1])
def test_lost_replies_of_a_barrier(world: ClockWorld, proxy: Proxy, lost_by: int) -> None:
    """The repeat of the one who opens it joins no second time; neither does that of the first."""
    actors = world.actors(2)
    clients = [world.through(proxy.port, timeout=2.4), world.client()]
    barriers = [actor.get(client, "barrier", "start", 2) for actor, client in zip(actors, clients, strict=True)]
    barriers[0].reset()
    first, second = (0, 1) if lost_by == 0 else (1, 0)
    lost = proxy.drop_reply("EVALSHA")
    pending = actors[first].start(barriers[first].wait)
    world.until(lambda: world.redis.command("HLEN", "pyredisson_barrier:{start}") == 1)
    assert barriers[second].wait() == 1
    assert pending.result(within=10) == 0
    assert lost.hits == 1
    assert value_of(actors[0], barriers[0], "n_waiting") == 0


# ---- conditions ------------------------------------------------------------------------------------------------------


How: TypeAlias = Literal["hang", "reset"]

#: Kinds of locks that have conditions.
kinds = pytest.mark.parametrize("kind", ["lock", "fair_lock"])
WAITERS = "pyredisson_condition:{orders}"


def condition(actor: Actor, client: Remote, kind: str = "lock") -> Remote:
    return Remote(client.real.get_condition(getattr(client.real, f"get_{kind}")("orders")), actor)


def waits(world: World, actor: Actor, mine: Remote, timeout: float | None = None) -> Pending:
    """Let an actor acquire the lock, and begin to wait."""
    before = world.redis.command("ZCARD", WAITERS)
    mine.acquire()
    pending = actor.start(mine.wait, timeout)
    world.until(lambda: world.redis.command("ZCARD", WAITERS) == before + 1)
    return pending


@kinds
def test_a_notification_wakes_the_one_who_has_waited_longest(world: World, kind: str) -> None:
    alice, *others = world.actors(4)
    one, two = world.client(max_wait_without_check=60), world.client(max_wait_without_check=60)
    mine = condition(alice, one, kind)
    theirs = [condition(actor, client, kind) for actor, client in zip(others, (one, two, one), strict=True)]
    pendings = [waits(world, actor, each) for actor, each in zip(others, theirs, strict=True)]
    world.pass_time(0.2)
    mine.acquire()
    mine.notify()
    world.pass_time(0.2)
    assert not pendings[0].done()  # It has no lock yet.
    mine.release()
    assert pendings[0].result(within=5) is True
    assert theirs[0].locked() is True
    assert [pending.done() for pending in pendings] == [True, False, False]
    theirs[0].release()
    with mine:
        mine.notify_all()
    left = dict(zip(pendings[1:], theirs[1:], strict=True))
    while left:  # Any of them may have the lock first.
        pending = world.until(lambda: next((each for each in left if each.done()), None))
        assert pending.result() is True
        left.pop(pending).release()
    assert mine.locked() is False
    assert world.redis.command("EXISTS", WAITERS) == 0


@kinds
def test_all_holds_are_given_up_and_taken_again(world: World, kind: str) -> None:
    alice, bob = world.actors(2)
    client = world.client()
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    lock = alice.get(client, kind)
    lock.lock(60)
    lock.lock()
    pending = waits(world, alice, mine)  # The third one.
    assert world.redis.command("EXISTS", "orders") == 0
    with theirs:
        theirs.notify()
    assert pending.result(within=5) is True
    assert lock.get_hold_count() == 3
    for _ in range(3):
        mine.release()
    assert lock.is_locked() is False


@pytest.mark.unheard
@each_runtime
def test_a_lost_notification_is_found_out(world: World, bob: Actor) -> None:
    theirs = condition(bob, world.client(max_wait_without_check=0.5))
    pending = waits(world, bob, theirs)
    world.pass_time(0.2)
    world.redis.command("DEL", WAITERS)
    assert pending.result(within=5) is True


@each_runtime
def test_a_client_that_is_gone_takes_no_notification(world: World, alice: Actor, bob: Actor) -> None:
    mine, theirs = (condition(actor, world.client(max_wait_without_check=60)) for actor in (alice, bob))
    world.redis.command("ZADD", WAITERS, 1, "gone:1")
    pending = waits(world, bob, theirs)
    world.pass_time(0.2)
    with mine:
        mine.notify()
    assert pending.result(within=5) is True
    assert world.redis.command("EXISTS", WAITERS) == 0


@each_runtime
def test_only_a_holder_waits_and_notifies(world: World, alice: Actor, bob: Actor, client: Remote) -> None:
    mine, theirs = condition(alice, client), condition(bob, client)
    theirs.acquire()
    for call in (mine.wait, mine.notify, mine.notify_all, mine.release):
        with pytest.raises(LockNotOwnedError):
            call()
    with pytest.raises(ValueError, match="n must not be negative"):
        theirs.notify(-1)
    assert theirs.wait(0) is False
    assert theirs.wait_for(lambda: 0, 0.1) == 0
    theirs.release()
    assert world.redis.command("EXISTS", WAITERS) == 0


@interruptible
def test_an_interrupted_wait_has_the_lock_again(world: World) -> None:
    me, bob = world.interruptible(), world.actor()
    mine, theirs = condition(me, world.client()), condition(bob, world.client())
    mine.acquire()
    mine.acquire()
    error = me.interrupted(mine.wait, once=lambda: world.redis.command("ZCARD", WAITERS) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) or type(error).__name__ == "Cancelled"
    assert theirs.locked() is True
    mine.release()
    mine.release()
    assert theirs.acquire(False) is True
    theirs.release()
    assert world.redis.command("EXISTS", WAITERS) == 0


@asyncio_only
def test_a_task_that_is_cancelled_again_and_again_has_the_lock_when_it_raises(world: ClockWorld) -> None:
    """And its notification goes to the next one."""

    async def main() -> None:
        async with Redisson.from_url(
            f"redis://127.0.0.1:{world.port}", config=Config(max_wait_without_check=60)
        ) as client:
            condition = client.get_condition("orders")

            async def wait() -> bool:
                async with condition:
                    try:
                        return await condition.wait(timeout=30)
                    finally:
                        await condition.notify(0)  # Only a holder may.

            waiters: list[asyncio.Task[bool]] = []
            for number in (1, 2):
                waiters.append(asyncio.create_task(wait()))
                await soon(lambda number=number: world.redis.command("ZCARD", WAITERS) == number)
            async with condition:
                await condition.notify()
                for _ in range(3):
                    waiters[0].cancel()
                    assert not (await asyncio.wait(waiters, timeout=0.1))[0]
            assert isinstance((await asyncio.gather(*waiters, return_exceptions=True))[0], asyncio.CancelledError)
            assert waiters[1].result() is True

    asyncio.run(main())


@sync_and_async
@kinds
@pytest.mark.parametrize("then", ["hang", "reset"])
def test_lost_replies_of_a_condition(
    world: ClockWorld, proxy: Proxy, kind: str, then: Literal["hang", "reset"]
) -> None:
    alice, bob, carol = world.actors(3)
    mine = condition(alice, world.through(proxy.port, timeout=2.4), kind)
    theirs, other = (condition(actor, world.client(), kind) for actor in (bob, carol))
    for _ in range(2):  # Let the server know the scripts, so that each request is one.
        with mine:
            assert mine.wait(0.01) is False
            mine.notify()
    mine.acquire()
    lost = proxy.drop_reply("EVALSHA", then=then)
    pending = alice.start(mine.wait, 20)
    world.until(lambda: world.redis.command("ZCARD", WAITERS) == 1)
    with theirs:
        theirs.notify()
    assert pending.result(within=15) is True
    assert lost.hits == 1
    mine.release()
    pendings = [waits(world, bob, theirs), waits(world, carol, other)]
    mine.acquire()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.notify()
    assert lost.hits == 1
    mine.release()
    assert pendings[0].result(within=5) is True
    theirs.release()
    assert world.redis.command("ZCARD", WAITERS) == 1  # The repeat has notified no one else.
    with mine:
        mine.notify()
    assert pendings[1].result(within=5) is True
    other.release()


@each_runtime
def test_other_locks_have_no_condition(world: World) -> None:
    client = world.client().real
    sides = client.get_read_write_lock("orders")
    for lock in (client.get_spin_lock("orders"), sides, sides.write_lock(), sides.read_lock(), 5, None):
        with pytest.raises(TypeError, match="a Lock or a FairLock, not"):
            client.get_condition(lock)
    with pytest.raises(ValueError, match="name"):
        client.get_condition("")
