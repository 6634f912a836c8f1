"""Waiting for each kind that is waited for: in time, by messages instead of requests, and leaving nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyredisson import ClientClosedError
from tests.promises.kinds import handle, rival, wait
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_server, interruptible
from tests.worlds.store import CHANNEL

LATCH = "count_down_latch"
KINDS = ["lock", "fair_lock", "read_lock", "write_lock", "semaphore", "permit_expirable_semaphore", LATCH]
each_kind = pytest.mark.parametrize("kind", KINDS)


def channel(actor: Actor, client: Remote, kind: str) -> str:
    """Where a waiter listens."""
    if kind == "fair_lock":
        return f"{CHANNEL}:{client.id}:{actor.number}"
    both = "redisson_rwlock:{orders}"
    channels = {"lock": CHANNEL, "read_lock": both, "write_lock": both}
    return channels.get(kind, "redisson_countdownlatch__channel__{orders}" if kind == LATCH else "redisson_sc:{orders}")


def occupied(actor: Actor, client: Remote, kind: str) -> Remote:
    """What the others have to wait for."""
    held = rival(actor, client, kind)
    if "lock" in kind:
        held.lock(60)
    elif kind == LATCH:
        held.try_set_count(1)
    else:
        held.try_set_permits(0)
    return held


def free(held: Remote, kind: str) -> None:
    """Let one waiter in."""
    if "lock" in kind:
        held.unlock()
    elif kind == LATCH:
        held.count_down()
    else:
        held.add_permits(1)


def free_silently(world: World, kind: str, permits: int) -> None:
    """Free it without a message."""
    if "semaphore" in kind:
        world.redis.command("SET", "orders", permits)
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
        self.channel = channel(self.actor, self.client, kind)

    def start(self, seconds: float | None = None) -> Any:
        """Begin to wait, and listen."""
        pending = self.actor.start(wait(self.handle, seconds))
        self.world.until(self.listens, what="it listens")
        return pending

    def listens(self) -> bool:
        return self.world.redis.subscribers(self.channel) == 1


@each_kind
def test_a_waiter_goes_on_when_it_is_notified_and_listens_no_longer(world: World, kind: str) -> None:
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind, max_wait_without_check=60)
    waiting = waiter.start()
    assert "1 waiting here" in repr(waiter.handle)
    assert not waiting.done()
    free(held, kind)
    assert waiting.result(within=5)
    assert world.waiting(waiter.handle) == 0
    world.until(lambda: not waiter.listens())


@each_kind
def test_one_attempt_neither_waits_nor_listens(world: World, kind: str) -> None:
    occupied(world.actor(), world.client(), kind)
    waiter = Waiter(world, kind)
    began = world.now()
    for nothing in (0, timedelta(0)):
        assert not waiter.actor.do(wait(waiter.handle, nothing))
    assert world.now() - began < 2
    assert not waiter.listens()


@each_kind
@pytest.mark.parametrize("time", [0.3, timedelta(seconds=0.3)], ids=["seconds", "timedelta"])
def test_a_wait_ends_in_time_and_leaves_no_subscription(world: World, kind: str, time: float | timedelta) -> None:
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind)
    before = contents(world)
    began = world.now()
    assert not waiter.actor.do(wait(waiter.handle, time))
    assert 0.29 < world.now() - began < 2
    assert world.waiting(waiter.handle) == 0
    world.until(lambda: not waiter.listens())
    assert contents(world) == before
    free(held, kind)


@each_kind
@pytest.mark.parametrize("payload", ["0", "1", "-7", "hello", "", "99999999999999999999"])
def test_a_message_is_no_promise(world: World, kind: str, payload: str) -> None:
    held, waiter = occupied(world.actor(), world.client(), kind), Waiter(world, kind)
    waiting = waiter.start()
    assert world.redis.publish(waiter.channel, payload) == 1
    world.pass_time(0.1)
    assert not waiting.done()
    free(held, kind)
    assert waiting.result(within=5)


@pytest.mark.unheard
@each_kind
def test_waiters_go_on_without_a_message(world: World, kind: str) -> None:
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
@each_kind
def test_a_waiter_survives_the_loss_of_its_subscription(world: World, kind: str) -> None:
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
    ],
)
def test_an_interrupted_waiter_leaves_nothing_behind(world: World, kind: str, call: str) -> None:
    held, me = occupied(world.actor(), world.client(), kind), Waiter(world, kind, world.interruptible())
    before = contents(world)
    error = me.actor.interrupted(CALLS[call](me.handle), once=me.listens)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(me.handle) == 0
    world.until(lambda: not me.listens())
    assert contents(world) == before
    free(held, kind)
    assert me.actor.do(wait(me.handle, 5))


@each_kind
def test_a_waiter_of_a_client_that_is_closed_is_woken(world: World, kind: str) -> None:
    occupied(world.actor(), world.client(), kind)
    waiter = Waiter(world, kind)
    waiting = waiter.start()
    waiter.client.close()
    assert isinstance(waiting.error(), ClientClosedError)
