"""Whoever waits gets the lock in time, is told instead of asking, and leaves nothing behind when it goes away."""

from __future__ import annotations

import pytest

from pyredisson import LockLostError
from tests.promises.kinds import handle
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, interruptible
from tests.worlds.store import CHANNEL


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "write_lock"])
def test_a_waiter_acquires_when_the_lease_expires_without_a_message(
    world: World, alice: Actor, bob: Actor, kind: str
) -> None:
    mine, theirs = handle(alice, world.client(), kind), handle(bob, world.client(), kind)
    said = world.messages(CHANNEL)
    began = world.now()
    mine.lock(0.5)
    theirs.lock(30)
    assert 0.45 < world.now() - began < 3
    assert said.received() == []
    with pytest.raises(LockLostError):
        mine.unlock()
    assert theirs.is_held_by_current_thread(), "a late unlock must not free another's hold"


@each_server
@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
def test_waiting_asks_nothing(world: ClockWorld, client: Remote, kind: str) -> None:
    alice, *others = world.actors(11)
    mine = alice.get(client, kind)
    mine.lock(60)
    pendings = [other.start(other.get(client, kind).lock) for other in others]
    world.until(lambda: world.waiting(mine) == 10)
    world.pass_time(0.5)  # for the subscriptions, and the attempts that follow
    asked = world.redis.calls("evalsha", "eval", "pttl", "exists", "ping")
    world.pass_time(0.7)
    assert world.redis.calls("evalsha", "eval", "pttl", "exists", "ping") == asked
    assert not any(pending.done() for pending in pendings)


# ---- foreign messages on the channel -----------------------------------------------------------------------------


@pytest.mark.parametrize("ttl", [30, None], ids=["lease", "no-ttl"])
def test_a_lock_of_redissons_is_waited_for(world: World, ttl: int | None) -> None:
    world.redis.command("HSET", "orders", "8743c9c0-0795-4907-87fd-6c719a6b4586:7", "1")
    if ttl is not None:
        world.redis.expire("orders", ttl)
    bob = world.actor()
    theirs = bob.lock(world.client())
    assert not theirs.try_lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.redis.delete("orders")
    world.redis.publish(CHANNEL, "0")
    waiting.result(within=5)
    assert theirs.get_hold_count() == 1


# ---- ended waits leave nothing in Redis --------------------------------------------------------------------------


@interruptible
def test_an_interrupted_waiter_that_was_rung_passes_it_on(world: World) -> None:
    """Interrupted at the very moment of the release: somebody gets the lock, and soon."""
    client = world.client(max_wait_without_check=60)
    alice, bob, me = world.actor(), world.actor(), world.interruptible()
    theirs, others, mine = alice.lock(client), bob.lock(client), me.lock(client)
    for _ in range(5):
        theirs.lock(120)
        waiting = []

        def once(waiting: list = waiting) -> bool:
            if world.waiting(theirs) == 1:  # I am the first, and shall be rung.
                waiting.append(bob.start(others.lock))
                world.until(lambda: world.waiting(theirs) == 2)
                theirs.unlock()
            return bool(waiting)

        error = me.interrupted(mine.lock, once=once)
        if error is None:
            mine.unlock()  # I had it before I could be interrupted.
        waiting[0].result(within=5)
        others.unlock()
        assert not mine.is_locked()


@each_runtime
def test_a_wait_can_begin_again_at_once(world: World) -> None:
    """Where a subscription is being given up, the next waiter must not be forgotten."""
    client = world.client(max_wait_without_check=60)
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(world.client()), bob.lock(client)
    for pause in (0.0, 0.09, 0.1, 0.11):
        mine.lock(60)
        assert not theirs.try_lock(0.02)
        world.pass_time(pause)
        waiting = bob.start(theirs.lock)
        world.until(lambda: world.waiting(theirs) == 1)
        mine.unlock()
        waiting.result(within=5)
        theirs.unlock()
