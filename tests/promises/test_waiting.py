"""Waiters acquire in time, are notified instead of asking, and leave nothing behind, whatever they wait for."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyredisson import ClientClosedError
from tests.forms import ended
from tests.promises.kinds import each_of, handle, raises_lost, rival, wait
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime, each_server, interruptible
from tests.worlds.store import CHANNEL

LATCH = "count_down_latch"
SEMAPHORES = ["semaphore", "permit_expirable_semaphore"]
KINDS = ["lock", "fair_lock", "read_lock", "write_lock", *SEMAPHORES, LATCH, "event"]
kind = each_of(*KINDS)

#: Where waiters listen.
CHANNELS = {
    "lock": CHANNEL,
    **dict.fromkeys(["read_lock", "write_lock"], "redisson_rwlock:{orders}"),
    **dict.fromkeys(SEMAPHORES, "redisson_sc:{orders}"),
    LATCH: "redisson_countdownlatch__channel__{orders}",
    "event": "pyredisson_event:{orders}",
}
#: How one waiter is let in.
FREE: dict[str, Callable[[Remote], object]] = {
    **dict.fromkeys(SEMAPHORES, lambda held: held.add_permits(1)),
    LATCH: lambda held: held.count_down(),
    "event": lambda held: held.set(),
}


def occupied(actor: Actor, client: Remote, kind: str) -> Remote:
    """What the others have to wait for."""
    held = rival(actor, client, kind)
    if "lock" in kind:
        held.lock(60)
    elif kind == LATCH:
        held.try_set_count(1)
    elif kind in SEMAPHORES:
        held.try_set_permits(0)
    return held


def free(held: Remote, kind: str) -> None:
    """Let one waiter in."""
    FREE.get(kind, lambda held: held.unlock())(held)


def free_silently(world: World, kind: str, permits: int) -> None:
    """Free it without a message."""
    if kind in SEMAPHORES:
        world.redis.command("SET", "orders", permits)
    elif kind == "event":
        world.redis.command("SET", "orders", 7)
    else:
        world.redis.delete("orders")


def contents(world: World) -> dict[str, Any]:
    """What is in the database, but for records that stand for a minute: late copies of requests are told by them."""
    records = ("pyredisson_done:", "pyredisson_epoch:")
    return {key: value for key, value in world.redis.everything().items() if not key.startswith(records)}


class Waiter:
    """An actor that waits, and where it listens."""

    def __init__(self, world: World, kind: str, actor: Actor | None = None, **config: Any) -> None:
        self.world = world
        self.actor = actor or world.actor()
        self.client = world.client(**config)
        self.handle = handle(self.actor, self.client, kind)
        self.channel = CHANNELS.get(kind) or f"{CHANNEL}:{self.client.id}:{self.actor.number}"

    def start(self, seconds: float | None = None) -> Any:
        """Begin to wait, and listen."""
        pending = self.actor.start(wait(self.handle, seconds))
        self.world.until(self.listens, what="it listens")
        return pending

    def listens(self) -> bool:
        return self.world.redis.subscribers(self.channel) == 1


# ---- one waiter ------------------------------------------------------------------------------------------------------


def test_a_waiter_goes_on_when_it_is_notified_and_listens_no_longer(world, kind):
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind, max_wait_without_check=60)
    waiting = waiter.start()
    assert "1 waiting here" in repr(waiter.handle)
    assert not waiting.done()
    free(held, kind)
    assert waiting.result(within=5)
    assert world.waiting(waiter.handle) == 0
    world.until(lambda: not waiter.listens())


def test_a_wait_ends_in_time_and_leaves_nothing(world, kind):
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind)
    before = contents(world)
    for seconds in (0, 0.3):
        for time in (seconds, timedelta(seconds=seconds)):
            began = world.now()
            assert not waiter.actor.do(wait(waiter.handle, time))
            assert seconds - 0.01 < world.now() - began < 2
            assert seconds or not waiter.listens(), "a single attempt neither waits nor listens"
    assert world.waiting(waiter.handle) == 0
    world.until(lambda: not waiter.listens())
    assert contents(world) == before
    free(held, kind)


def test_a_message_is_no_promise(world, kind):
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind)
    waiting = waiter.start()
    for payload in ("0", "1", "-7", "hello", "", "99999999999999999999"):
        assert world.redis.publish(waiter.channel, payload) == 1
        world.pass_time(0.1)
        assert not waiting.done(), payload
    free(held, kind)
    assert waiting.result(within=5)


@pytest.mark.unheard
def test_waiters_go_on_without_a_message(world, kind):
    """A message may be lost. The first to check lets the others of its client know, where it leaves something."""
    occupied(world.actor(), world.client(), kind)
    client = world.client(max_wait_without_check=0.5)
    handles = [(actor, handle(actor, client, kind)) for actor in world.actors(1 if "lock" in kind else 12)]
    waiting = [actor.start(wait(each)) for actor, each in handles]
    world.until(lambda: world.waiting(handles[0][1]) == len(handles))
    world.pass_time(0.2)  # for the attempt that follows the subscription
    assert not any(pending.done() for pending in waiting)
    free_silently(world, kind, len(handles))
    began = world.now()
    assert all(pending.result(within=5) for pending in waiting)
    assert world.now() - began < 4  # One after the other would take six.


@each_server
def test_a_waiter_survives_the_loss_of_its_subscription(world, kind):
    """What was published while no client listened is made up for by looking again after each reconnect."""
    occupied(world.actor(), world.client(), kind)
    waiter = Waiter(world, kind, max_wait_without_check=60)
    waiting = waiter.start()
    world.pass_time(0.2)  # for the attempt that follows the subscription
    free_silently(world, kind, 1)
    world.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    assert waiting.result(within=5)


CALLS: dict[str, Callable[[Remote], Callable[[], object]]] = {
    "lock": lambda lock: lock.lock,
    "acquire": lambda lock: partial(lock.acquire.method, timeout=9),
    "block": lambda lock: lock.enter,
    "hold": lambda lock: lock.hold().enter,
    "wait": wait,
}


@interruptible
@pytest.mark.parametrize(
    ("kind", "call"),
    [
        *((kind, call) for kind in ("lock", "fair_lock") for call in CALLS),
        *((kind, call) for kind in ("semaphore", "permit_expirable_semaphore") for call in ("wait", "hold")),
        (LATCH, "wait"),
        ("event", "wait"),
    ],
)
def test_an_interrupted_waiter_leaves_nothing_behind(world, kind, call):
    held, me = occupied(world.actor(), world.client(), kind), Waiter(world, kind, world.interruptible())
    before = contents(world)
    error = me.actor.interrupted(CALLS[call](me.handle), once=me.listens)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(me.handle) == 0
    world.until(lambda: not me.listens())
    assert contents(world) == before
    free(held, kind)
    assert me.actor.do(wait(me.handle, 5))


def test_a_waiter_of_a_client_that_is_closed_is_woken(world, kind):
    occupied(world.actor(), world.client(), kind)
    waiter = Waiter(world, kind)
    waiting = waiter.start()
    waiter.client.close()
    assert isinstance(waiting.error(), ClientClosedError)


# ---- several waiters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "write_lock"])
def test_a_waiter_acquires_when_the_lease_expires_without_a_message(world, alice, bob, kind):
    mine, theirs = handle(alice, world.client(), kind), handle(bob, world.client(), kind)
    said = world.messages(CHANNEL)
    began = world.now()
    mine.lock(0.5)
    theirs.lock(30)
    assert 0.45 < world.now() - began < 3
    assert said.received() == []
    raises_lost(mine.unlock)
    assert theirs.is_held_by_current_thread(), "a late unlock must not free another's hold"


@each_server
@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
def test_waiting_asks_nothing(world, client, kind):
    alice, *others = world.actors(11)
    mine = alice.get(client, kind)
    mine.lock(60)
    pendings = [other.start(other.get(client, kind).lock) for other in others]
    world.until(lambda: world.waiting(mine) == 10)
    world.quiet_for(0.7, "evalsha", "eval", "pttl", "exists", "ping")  # After the subscriptions, and their attempts.
    assert not any(pending.done() for pending in pendings)


@pytest.mark.parametrize("ttl", [30, None], ids=["lease", "no-ttl"])
def test_a_lock_of_redissons_is_waited_for(world, ttl, bob):
    world.redis.command("HSET", "orders", "8743c9c0-0795-4907-87fd-6c719a6b4586:7", "1")
    if ttl is not None:
        world.redis.expire("orders", ttl)
    theirs = bob.lock(world.client())
    assert not theirs.try_lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.redis.delete("orders")
    world.redis.publish(CHANNEL, "0")
    waiting.result(within=5)
    assert theirs.get_hold_count() == 1


@interruptible
def test_an_interrupted_waiter_that_was_rung_passes_it_on(world):
    """Interrupted at the very moment of the release: somebody gets the lock, and soon."""
    client = world.client(max_wait_without_check=60)
    alice, bob, me = world.actor(), world.actor(), world.interruptible()
    theirs, others, mine = alice.lock(client), bob.lock(client), me.lock(client)
    for _ in range(5):
        theirs.lock(120)
        waiting = []

        def once(waiting=waiting):
            if world.waiting(theirs) == 1:  # I am the first, and shall be notified.
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
def test_a_wait_can_begin_again_at_once(world, alice, bob):
    """Where a subscription is being given up, the next waiter must not be forgotten."""
    client = world.client(max_wait_without_check=60)
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


@each_server
@pytest.mark.parametrize(("kind", "crowd"), [(LATCH, 1000), ("event", 50)])
def test_one_request_serves_all_waiters(world, kind, crowd):
    held = occupied(world.actor(), world.client(), kind)
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    theirs = handle(world.actor(), client, kind)
    actors = world.actors(min(crowd, 200) if world.runtime == "threads" else crowd)
    pendings = [actor.start(theirs.real.wait) for actor in actors]
    world.until(lambda: world.waiting(theirs) == len(actors), within=30)
    world.until(lambda: world.redis.subscribers(CHANNELS[kind]) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("get")
    free(held, kind)
    assert all(pending.result(within=60) for pending in pendings)
    assert world.redis.calls("get") - before <= 10  # The script's own are among them.


@each_server
def test_a_crowd_is_served_with_few_commands(world):
    """A thousand tasks, or two hundred threads, on one permit: an attempt each, then one for each hand-over."""
    crowd = 200 if world.runtime == "threads" else 1000
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    handle = client.real.get_semaphore("orders")
    boss = world.actor()
    semaphore = Remote(handle, boss)
    semaphore.try_set_permits(0)
    actors = world.actors(crowd)
    served = []

    async def use(number):
        assert await ended(handle.acquire())
        served.append(number)
        await ended(handle.release())

    pendings = [actor.start(use, number) for number, actor in enumerate(actors)]
    world.until(lambda: world.waiting(semaphore) == crowd, within=30)
    world.until(lambda: world.redis.subscribers(CHANNELS["semaphore"]) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("evalsha", "eval")
    semaphore.release()
    for pending in pendings:
        pending.result(within=60)
    assert sorted(served) == list(range(crowd))
    assert semaphore.available_permits() == 1
    # An acquire and a release each, and now and then a look by somebody who was told of a permit that was gone.
    assert world.redis.calls("evalsha", "eval") - before <= 3 * crowd
