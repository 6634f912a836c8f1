"""Whoever waits gets the lock in time, is told instead of asking, and leaves nothing behind when it goes away."""

from __future__ import annotations

import pytest

from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, interruptible
from tests.worlds.store import CHANNEL


def test_a_waiter_acquires_a_lock_whose_lease_expires_without_a_message(world: World, alice: Actor, bob: Actor) -> None:
    mine, theirs = alice.lock(world.client()), bob.lock(world.client())
    said = world.messages(CHANNEL)
    mine.lock(0.4)
    began = world.now()
    bob.start(theirs.lock).result(within=5)
    assert world.now() - began < 3
    assert said.received() == []


def test_twenty_waiters_are_all_served_one_after_another(world: World) -> None:
    clients = [world.client(), world.client()]
    mine = world.actor().lock(clients[0])
    mine.lock()
    locks = [(actor, actor.lock(clients[number % 2])) for number, actor in enumerate(world.actors(20))]
    waiting = {lock: actor.start(lock.lock) for actor, lock in locks}
    world.until(lambda: world.waiting(locks[0][1]) + world.waiting(locks[1][1]) == 20)
    mine.unlock()
    while waiting:
        world.until(lambda: any(pending.done() for pending in waiting.values()))
        [served] = [lock for lock, pending in waiting.items() if pending.done()]
        waiting.pop(served).result()
        served.unlock()
    assert not mine.is_locked()


@each_server
def test_an_unlock_wakes_one_waiter_of_each_client(world: ClockWorld) -> None:
    clients = [world.client(), world.client()]
    alice = world.actor()
    mine = alice.lock(world.client())
    mine.lock()
    theirs = [(actor, actor.lock(clients[n % 2])) for n, actor in enumerate(world.actors(6))]
    pendings = [actor.start(lock.lock) for actor, lock in theirs]
    world.until(lambda: sum(world.waiting(theirs[n][1]) for n in (0, 1)) == 6)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 2)
    world.pass_time(0.3)  # for the attempts that follow the confirmation of the subscriptions
    before = world.redis.calls("evalsha")
    mine.unlock()
    world.until(lambda: any(pending.done() for pending in pendings))
    world.pass_time(0.2)
    # The unlock, the one who got it, and the one of the other client who did not.
    assert world.redis.calls("evalsha") - before <= 3
    assert sum(pending.done() for pending in pendings) == 1


@each_server
def test_waiting_asks_nothing(world: ClockWorld, client: Remote) -> None:
    alice, *others = world.actors(11)
    mine = alice.lock(client)
    mine.lock(60)
    pendings = [other.start(other.lock(client).lock) for other in others]
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.until(lambda: world.waiting(mine) == 10)
    world.pass_time(0.3)
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
def test_the_first_to_give_up_hands_on_its_duties(world: World) -> None:
    """The first waiter checks for all. When it leaves, the next one has to, or would sleep for ever."""
    client = world.client(max_wait_without_check=60)
    alice, bob, carol = world.actors(3)
    mine, first, second = alice.lock(world.client()), bob.lock(client), carol.lock(client)
    mine.lock(1.0)
    leaving = bob.start(first.try_lock, 0.7)
    world.until(lambda: world.waiting(first) == 1)
    staying = carol.start(second.lock)
    world.until(lambda: world.waiting(first) == 2)
    assert leaving.result() is False
    staying.result(within=5)  # By the end of the lease: nobody says a word.


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
