"""Those who wait at a condition have given up its lock, and have it again when they return."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from pyredisson import LockNotOwnedError
from tests.proxy import Proxy
from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, interruptible, sync_and_async

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
def test_a_lost_message_is_found_out(world: World) -> None:
    bob = world.actor()
    theirs = condition(bob, world.client(max_wait_without_check=0.5))
    pending = waits(world, bob, theirs)
    world.pass_time(0.2)
    world.redis.command("DEL", WAITERS)
    assert pending.result(within=5) is True


@each_runtime
def test_a_client_that_is_gone_takes_no_notification(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = (condition(actor, world.client(max_wait_without_check=60)) for actor in (alice, bob))
    world.redis.command("ZADD", WAITERS, 1, "gone:1")
    pending = waits(world, bob, theirs)
    world.pass_time(0.2)
    with mine:
        mine.notify()
    assert pending.result(within=5) is True
    assert world.redis.command("EXISTS", WAITERS) == 0


@each_runtime
def test_only_a_holder_waits_and_notifies(world: World) -> None:
    """Basic use is in CPython's own tests, which run against ours."""
    alice, bob = world.actors(2)
    client = world.client()
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


@sync_and_async
@kinds
@pytest.mark.parametrize("then", ["hang", "reset"])
def test_lost_replies(world: ClockWorld, proxy: Proxy, kind: str, then: Literal["hang", "reset"]) -> None:
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
