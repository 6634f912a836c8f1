"""A semaphore has so many permits: each is taken once, given back once, and nobody who waits is forgotten."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions

import pyredisson.asyncio
from pyredisson import ClientClosedError, LockError
from pyredisson.core.driver import Progress, run
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import (
    asyncio_only,
    each_runtime,
    each_server,
    in_real_time,
    interruptible,
    threads_only,
)

CHANNEL = "redisson_sc:{seats}"


def seats(actor: Actor, client: Remote, permits: int | None = None) -> Remote:
    semaphore = actor.get(client, "semaphore", "seats")
    if permits is not None:
        assert semaphore.try_set_permits(permits) is True
    return semaphore


def stored(world: World) -> str | None:
    value = world.redis.command("GET", "seats")
    return None if value is None else value.decode()


def test_permits_are_set_once(world: World) -> None:
    mine = seats(world.actor(), world.client())
    assert mine.name == "seats"
    assert mine.available_permits() == 0
    assert mine.try_set_permits(3) is True
    assert mine.try_set_permits(5) is False
    assert mine.available_permits() == 3
    assert stored(world) == "3"


def test_permits_are_acquired_and_released(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 3), seats(bob, world.client())
    assert mine.acquire() is True
    assert theirs.try_acquire(2) is True
    assert mine.try_acquire() is False
    assert mine.available_permits() == 0
    theirs.release()
    assert mine.try_acquire(2) is False
    assert mine.try_acquire() is True
    mine.release(3)
    assert theirs.available_permits() == 3


def test_a_permit_has_no_owner(world: World) -> None:
    """Whoever wants may release, and there may be more than at first; that is Redisson's semaphore."""
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client())
    mine.acquire()
    theirs.release()
    theirs.release()
    assert mine.available_permits() == 2


def test_a_semaphore_without_permits_has_none(world: World) -> None:
    mine = seats(world.actor(), world.client())
    assert mine.try_acquire() is False
    assert stored(world) is None
    mine.release(2)
    assert stored(world) == "2"


def test_more_permits_than_there_are(world: World) -> None:
    mine = seats(world.actor(), world.client(), 2)
    assert mine.try_acquire(3) is False
    assert mine.acquire(3, timeout=0.2) is False
    assert mine.available_permits() == 2


def test_no_permits_at_all(world: World) -> None:
    mine = seats(world.actor(), world.client())
    said = world.messages(CHANNEL)
    assert mine.acquire(0) is True
    assert mine.try_acquire(0) is True
    mine.release(0)
    assert world.redis.everything() == {}
    assert said.received() == []


def test_draining(world: World) -> None:
    mine = seats(world.actor(), world.client())
    assert mine.drain_permits() == 0
    assert stored(world) is None
    mine.try_set_permits(4)
    mine.acquire()
    assert mine.drain_permits() == 3
    assert mine.drain_permits() == 0
    assert stored(world) == "0"


def test_permits_are_added_and_removed(world: World) -> None:
    mine = seats(world.actor(), world.client(), 2)
    mine.add_permits(3)
    assert mine.available_permits() == 5
    mine.add_permits(-7)
    assert mine.available_permits() == -2
    assert mine.try_acquire() is False
    mine.release(2)
    assert mine.try_acquire() is False
    mine.release(1)
    assert mine.try_acquire() is True
    mine.add_permits(-3)
    assert mine.drain_permits() == -3  # A debt is forgiven, as in Redisson.
    assert mine.available_permits() == 0


def test_a_block_acquires_one_permit(world: World) -> None:
    mine = seats(world.actor(), world.client(), 1)
    with mine as entered:
        assert entered is True
        assert mine.available_permits() == 0
    assert mine.available_permits() == 1
    with pytest.raises(ZeroDivisionError), mine:
        1 / 0  # noqa: B018
    assert mine.available_permits() == 1


def test_return_values_and_stored_state(world: World) -> None:
    """Redisson's messages: the new total, or the number set. Beside the permits there is our record, for a minute."""
    actor = world.actor()
    client = world.client()
    mine = seats(actor, client)
    said = world.messages(CHANNEL)
    mine.try_set_permits(3)
    mine.try_set_permits(4)
    mine.acquire(2)
    mine.release()
    mine.release(5)
    mine.add_permits(1)
    mine.add_permits(-15)
    mine.drain_permits()
    mine.add_permits(0)
    assert said.received() == [b"3", b"2", b"7", b"8", b"-7", b"0"]
    record = f"pyredisson_done:{{seats}}:{client.id}:{actor.number}"
    assert set(world.redis.everything()) == {"seats", record}
    assert 50 < world.redis.ttl(record) <= 60
    assert world.redis.ttl("seats") == math.inf


def test_a_name_with_braces(world: World) -> None:
    actor, client = world.actor(), world.client()
    mine = actor.get(client, "semaphore", "{shop}:seats")
    said = world.messages("redisson_sc:{shop}:seats")
    mine.try_set_permits(1)
    assert said.received() == [b"1"]
    record = f"pyredisson_done:{{shop}}:seats:{client.id}:{actor.number}"
    assert set(world.redis.everything()) == {"{shop}:seats", record}


@pytest.mark.parametrize("name", ["a b", "{", "x}{y", "日本", "\x00", "a:b"])
def test_odd_names(world: World, name: str) -> None:
    alice, bob = world.actors(2)
    mine, theirs = (each.get(world.client(), "semaphore", name) for each in (alice, bob))
    mine.try_set_permits(0)
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.release()
    assert waiting.result(within=5) is True


# ---- waiting -----------------------------------------------------------------------------------------------------


def test_a_waiter_gets_what_another_gives_back(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 1), seats(bob, world.client())
    mine.acquire()
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.waiting(theirs) == 1)
    assert "1 waiting here" in repr(theirs)
    assert not waiting.done()
    mine.release()
    assert waiting.result(within=5) is True
    assert mine.available_permits() == 0
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)


@pytest.mark.parametrize("give", ["try_set_permits", "add_permits", "release"])
def test_whatever_makes_permits_available_wakes_waiters(world: World, give: str) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client()), seats(bob, world.client(max_wait_without_check=60))
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)  # for the attempt that follows the subscription
    getattr(mine, give)(2)
    assert waiting.result(within=5) is True


@pytest.mark.parametrize("wait", [0.3, timedelta(seconds=0.3)], ids=["seconds", "timedelta"])
def test_a_wait_ends_in_time(world: World, wait: Any) -> None:
    mine = seats(world.actor(), world.client(), 0)
    for call in (partial(mine.acquire, timeout=wait), partial(mine.try_acquire, 1, wait)):
        began = world.now()
        assert call() is False
        assert 0.29 < world.now() - began < 2
    assert world.waiting(mine) == 0


def test_one_attempt_neither_waits_nor_listens(world: World) -> None:
    mine = seats(world.actor(), world.client(), 0)
    assert mine.acquire(timeout=0) is False
    assert mine.try_acquire() is False
    assert world.redis.subscribers(CHANNEL) == 0


def test_a_waiter_for_fewer_permits_is_not_held_up_by_one_for_more(world: World) -> None:
    """A refusal of three is no refusal of one; and one permit wakes nobody who wants three."""
    client = world.client(max_wait_without_check=60)
    alice, bob, carol = world.actors(3)
    mine, many, one = seats(alice, world.client(), 0), seats(bob, client), seats(carol, client)
    for_many = bob.start(many.acquire, 3)
    world.until(lambda: world.waiting(many) == 1)
    for_one = carol.start(one.acquire)
    world.until(lambda: world.waiting(many) == 2)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    mine.release()
    assert for_one.result(within=5) is True
    mine.release(2)
    world.pass_time(0.2)
    assert not for_many.done()
    mine.release()
    assert for_many.result(within=5) is True
    assert mine.available_permits() == 0


def test_many_permits_wake_many(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    mine = seats(world.actor(), world.client(), 0)
    others = [(actor, seats(actor, client)) for actor in world.actors(8)]
    waiting = [actor.start(semaphore.acquire) for actor, semaphore in others]
    world.until(lambda: world.waiting(others[0][1]) == 8)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    mine.release(5)
    world.until(lambda: sum(pending.done() for pending in waiting) == 5)
    world.pass_time(0.2)
    assert sum(pending.done() for pending in waiting) == 5
    assert mine.available_permits() == 0
    mine.release(3)
    assert all(pending.result(within=5) for pending in waiting)


@pytest.mark.unheard
def test_a_waiter_acquires_without_a_message(world: World) -> None:
    """Permits come without a word; the first to look finds them, and lets the others know."""
    client = world.client(max_wait_without_check=0.5)
    others = [(actor, seats(actor, client)) for actor in world.actors(12)]
    waiting = [actor.start(semaphore.acquire) for actor, semaphore in others]
    world.until(lambda: world.waiting(others[0][1]) == 12)
    world.pass_time(0.2)
    world.redis.command("SET", "seats", 12)
    began = world.now()
    assert all(pending.result(within=5) for pending in waiting)
    assert world.now() - began < 4  # One after the other would take six.
    assert stored(world) == "0"


@pytest.mark.parametrize("payload", ["0", "-7", "5", "hello", "", "99999999999999999999"])
def test_a_message_is_no_promise(world: World, payload: str) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), 0), seats(bob, world.client())
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    assert world.redis.publish(CHANNEL, payload) == 1
    world.pass_time(0.1)
    assert not waiting.done()
    mine.release()
    assert waiting.result(within=5) is True


@each_server
def test_a_message_of_no_permits_wakes_no_waiter(world: ClockWorld) -> None:
    bob = world.actor()
    theirs = seats(bob, world.client(), 0)
    mine = seats(world.actor(), world.client())
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.3)
    asked = world.redis.calls("evalsha", "eval")
    for payload in ("0", "-3", "x"):
        world.redis.publish(CHANNEL, payload)
    world.pass_time(0.3)
    assert world.redis.calls("evalsha", "eval") == asked
    mine.release()
    assert waiting.result() is True


@each_server
def test_waiters_survive_the_loss_of_their_subscription(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    others = [(actor, seats(actor, client)) for actor in world.actors(3)]
    waiting = [actor.start(semaphore.acquire) for actor, semaphore in others]
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.until(lambda: world.waiting(others[0][1]) == 3)
    world.pass_time(0.2)
    world.redis.command("SET", "seats", 3)
    world.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    assert all(pending.result(within=5) for pending in waiting)


@each_server
def test_a_crowd_is_served_with_few_commands(world: ClockWorld) -> None:
    """A thousand tasks, or two hundred threads, on one permit: an attempt each, then one for each hand-over."""
    crowd = 200 if world.runtime == "threads" else 1000
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    handle = client.real.get_semaphore("seats")
    boss = world.actor()
    semaphore = Remote(handle, boss)
    semaphore.try_set_permits(0)
    actors = world.actors(crowd)
    served: list[int] = []

    def done(number: int) -> Callable[[], Any]:
        if world.runtime == "threads":

            def use() -> None:
                assert handle.acquire()
                served.append(number)
                handle.release()

            return use

        async def use_task() -> None:
            assert await handle.acquire()
            served.append(number)
            await handle.release()

        return use_task

    pendings = [actor.start(done(number)) for number, actor in enumerate(actors)]
    world.until(lambda: world.waiting(semaphore) == crowd, within=30)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("evalsha", "eval")
    semaphore.release()
    for pending in pendings:
        pending.result(within=60)
    assert sorted(served) == list(range(crowd))
    assert semaphore.available_permits() == 1
    # An acquire and a release each, and now and then a look by somebody who was told of a permit that was gone.
    assert world.redis.calls("evalsha", "eval") - before <= 3 * crowd


# ---- ended waits leave nothing in Redis --------------------------------------------------------------------------


@interruptible
def test_an_interrupted_waiter_acquires_nothing(world: World) -> None:
    client = world.client()
    alice, me = world.actor(), world.interruptible()
    theirs, mine = seats(alice, client, 0), seats(me, client)
    error = me.interrupted(mine.acquire, once=lambda: world.redis.subscribers(CHANNEL) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(mine) == 0
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)
    theirs.release()
    world.pass_time(0.1)
    assert theirs.available_permits() == 1
    assert mine.acquire() is True


def test_closing_the_client_wakes_its_waiters(world: World) -> None:
    client = world.client()
    bob = world.actor()
    theirs = seats(bob, client, 0)
    waiting = bob.start(theirs.acquire)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    client.close()
    assert isinstance(waiting.error(), ClientClosedError)


def test_nothing_works_after_closing(world: World) -> None:
    client = world.client()
    mine = seats(world.actor(), client, 2)
    client.close()
    for call in (
        mine.acquire,
        mine.try_acquire,
        mine.release,
        mine.available_permits,
        mine.drain_permits,
        mine.enter,
        partial(mine.acquire, 0),
        partial(mine.release, 0),
        partial(mine.try_set_permits, 1),
        partial(mine.add_permits, 1),
    ):
        with pytest.raises(ClientClosedError):
            call()
    with pytest.raises(ClientClosedError):
        client.get_semaphore("seats")
    assert stored(world) == "2"


@asyncio_only
def test_handles_serve_one_event_loop_after_another(world: ClockWorld) -> None:
    """On a new loop the client is another one: with a new id, and with nothing left of the old one's requests."""
    client = pyredisson.asyncio.Redisson(redis.asyncio.Redis(port=world.port))
    semaphore, permits = client.get_semaphore("seats"), client.get_permit_expirable_semaphore("leased")
    latch = client.get_count_down_latch("ready")
    ids = set()

    async def use(*, last: bool) -> None:
        await semaphore.add_permits(1)
        assert await semaphore.acquire(timeout=1)
        assert not await semaphore.try_acquire(1, 0.05)
        await permits.add_permits(1)
        assert await permits.try_acquire(1)
        assert await permits.try_acquire(0.05) is None
        await latch.try_set_count(1)
        assert not await latch.wait(0.05)
        ids.add(client.id)
        if last:
            await client.close()

    for last in (False, False, True):
        asyncio.run(use(last=last))
    assert len(ids) == 3
    records = {key.split(":", 2)[2].rsplit(":", 1)[0] for key in world.redis.everything() if "done:{seats}" in key}
    assert records == ids


# ---- arguments ---------------------------------------------------------------------------------------------------


@each_runtime
@pytest.mark.parametrize("permits", [-1, -(2**70), 2**53 + 1])
def test_more_permits_than_possible_are_refused(world: World, permits: int) -> None:
    mine = seats(world.actor(), world.client())
    for call in (mine.acquire, mine.try_acquire, mine.release, mine.try_set_permits):
        with pytest.raises(ValueError, match="permits"):
            call(permits)
    assert world.redis.everything() == {}


@each_runtime
@pytest.mark.parametrize("permits", ["1", 1.0, None, True, b"1", [1]], ids=repr)
def test_an_invalid_number_of_permits_is_refused(world: World, permits: Any) -> None:
    mine = seats(world.actor(), world.client())
    for call in (mine.acquire, mine.try_acquire, mine.release, mine.try_set_permits, mine.add_permits):
        with pytest.raises(TypeError, match="permits"):
            call(permits)
    assert world.redis.everything() == {}


@each_runtime
@pytest.mark.parametrize("wait", [-1, math.nan, math.inf, timedelta(seconds=-1)])
def test_an_invalid_wait_time_is_refused(world: World, wait: Any) -> None:
    mine = seats(world.actor(), world.client())
    with pytest.raises(ValueError, match="timeout"):
        mine.acquire(timeout=wait)
    with pytest.raises(ValueError, match="wait_time"):
        mine.try_acquire(1, wait)
    assert world.redis.everything() == {}


@in_real_time
def test_a_key_of_another_type(world: ClockWorld) -> None:
    world.redis.command("HSET", "seats", "f", "v")
    mine = seats(world.actor(), world.client())
    for call in (mine.acquire, mine.try_acquire, mine.release, mine.drain_permits, mine.available_permits):
        with pytest.raises(LockError, match="holds a hash"):
            call()
    for call in (mine.try_set_permits, mine.add_permits):
        with pytest.raises(LockError, match="holds a hash"):
            call(1)
    assert world.redis.hash("seats") == {"f": "v"}


@threads_only
def test_a_release_interrupted_before_it_began_is_done_once(world: World) -> None:
    class Interrupting(Progress):
        def __setattr__(self, name: str, value: object) -> None:
            raise KeyboardInterrupt

    semaphore = world.client().real.get_semaphore("seats", permits=3)
    assert semaphore.acquire()
    with pytest.raises(KeyboardInterrupt):
        run(semaphore._core.release(1, Interrupting()))
    assert semaphore.available_permits() == 2  # Whoever called it calls it again.
