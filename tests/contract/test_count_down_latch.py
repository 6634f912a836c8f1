"""Whoever waits at a latch goes on when it has been counted down, and not before."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, in_real_time, interruptible

CHANNEL = "redisson_countdownlatch__channel__{ready}"


def ready(actor: Actor, client: Remote, count: int | None = None) -> Remote:
    latch = actor.get(client, "count_down_latch", "ready")
    if count is not None:
        assert latch.try_set_count(count) is True
    return latch


def test_a_count_is_set_once(world: World) -> None:
    mine = ready(world.actor(), world.client())
    assert mine.name == "ready"
    assert mine.get_count() == 0
    assert mine.try_set_count(2) is True
    assert mine.try_set_count(3) is False
    assert mine.get_count() == 2
    mine.count_down()
    mine.count_down()
    assert mine.get_count() == 0
    assert mine.try_set_count(3) is True


def test_a_latch_without_a_count_is_open(world: World) -> None:
    mine = ready(world.actor(), world.client())
    assert mine.wait() is True
    assert mine.wait(0) is True
    assert mine.wait(timedelta(seconds=1)) is True
    assert world.redis.subscribers(CHANNEL) == 0


def test_a_count_of_nothing(world: World) -> None:
    """As in Redisson: the key is there, so that the count can be set again only after it was counted down."""
    mine = ready(world.actor(), world.client(), 0)
    assert mine.wait() is True
    assert mine.try_set_count(1) is False
    mine.count_down()
    assert mine.try_set_count(1) is True


def test_counting_down_an_open_latch_does_nothing(world: World) -> None:
    mine = ready(world.actor(), world.client())
    said = world.messages(CHANNEL)
    mine.count_down()
    assert mine.get_count() == 0
    assert said.received() == []
    assert "ready" not in world.redis.everything()


def test_return_values_and_stored_state(world: World) -> None:
    actor, client = world.actor(), world.client()
    mine = ready(actor, client)
    said = world.messages(CHANNEL)
    mine.try_set_count(2)
    mine.try_set_count(2)
    mine.count_down()
    assert world.redis.everything()["ready"] == ("string", "1")
    assert said.received() == [b"1"]
    mine.count_down()
    assert said.received() == [b"1", b"0"]
    record = f"pyredisson_done:{{ready}}:{client.id}:{actor.number}"
    assert set(world.redis.everything()) == {record}
    assert 50 < world.redis.ttl(record) <= 60


def test_the_channel_is_always_in_braces(world: World) -> None:
    mine = world.actor().get(world.client(), "count_down_latch", "{shop}:ready")
    said = world.messages("redisson_countdownlatch__channel__{{shop}:ready}")
    mine.try_set_count(1)
    assert said.received() == [b"1"]


def test_a_waiter_goes_on_at_zero(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = ready(alice, world.client(), 2), ready(bob, world.client(max_wait_without_check=60))
    waiting = bob.start(theirs.wait)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    assert "1 waiting here" in repr(theirs)
    mine.count_down()
    world.pass_time(0.1)
    assert not waiting.done()
    mine.count_down()
    assert waiting.result(within=5) is True
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)


@pytest.mark.parametrize("timeout", [0.3, timedelta(seconds=0.3)], ids=["seconds", "timedelta"])
def test_a_wait_ends_in_time(world: World, timeout: Any) -> None:
    mine = ready(world.actor(), world.client(), 1)
    assert mine.wait(0) is False
    began = world.now()
    assert mine.wait(timeout) is False
    assert 0.29 < world.now() - began < 2
    assert mine.get_count() == 1


@pytest.mark.unheard
def test_a_waiter_returns_without_a_message(world: World) -> None:
    client = world.client(max_wait_without_check=0.5)
    others = [(actor, ready(actor, client)) for actor in world.actors(12)]
    ready(world.actor(), world.client(), 1)
    waiting = [actor.start(latch.wait) for actor, latch in others]
    world.until(lambda: world.waiting(others[0][1]) == 12)
    world.pass_time(0.2)
    world.redis.delete("ready")
    began = world.now()
    assert all(pending.result(within=5) for pending in waiting)
    assert world.now() - began < 4


@pytest.mark.parametrize("payload", ["0", "1", "7", "hello"])
def test_a_message_is_no_promise(world: World, payload: str) -> None:
    alice, bob = world.actors(2)
    mine, theirs = ready(alice, world.client(), 1), ready(bob, world.client())
    waiting = bob.start(theirs.wait)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    assert world.redis.publish(CHANNEL, payload) == 1
    world.pass_time(0.1)
    assert not waiting.done()
    mine.count_down()
    assert waiting.result(within=5) is True


def test_a_latch_that_was_set_again_blocks_new_waiters(world: World) -> None:
    alice, bob, carol = world.actors(3)
    client = world.client(max_wait_without_check=60)
    mine, early, late = ready(alice, world.client(), 1), ready(bob, client), ready(carol, client)
    first = bob.start(early.wait)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    mine.count_down()
    assert first.result(within=5) is True
    assert mine.try_set_count(1) is True
    second = carol.start(late.wait)
    world.until(lambda: world.waiting(late) == 1)
    world.pass_time(0.2)
    assert not second.done()
    mine.count_down()
    assert second.result(within=5) is True


@each_server
def test_one_request_serves_all_waiters(world: ClockWorld) -> None:
    crowd = 200 if world.runtime == "threads" else 1000
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    handle = client.real.get_count_down_latch("ready")
    theirs = Remote(handle, world.actor())
    mine = ready(world.actor(), world.client(), 1)
    pendings = [actor.start(handle.wait) for actor in world.actors(crowd)]
    world.until(lambda: world.waiting(theirs) == crowd, within=30)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("get")
    mine.count_down()
    assert all(pending.result(within=60) for pending in pendings)
    assert world.redis.calls("get") - before <= 10  # The script's own are among them.


@each_server
def test_waiters_survive_the_loss_of_their_subscription(world: World) -> None:
    client = world.client(max_wait_without_check=60)
    ready(world.actor(), world.client(), 1)
    others = [(actor, ready(actor, client)) for actor in world.actors(3)]
    waiting = [actor.start(latch.wait) for actor, latch in others]
    world.until(lambda: world.waiting(others[0][1]) == 3)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    world.redis.delete("ready")
    world.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    assert all(pending.result(within=5) for pending in waiting)


@interruptible
def test_an_interrupted_waiter_leaves_nothing_behind(world: World) -> None:
    client = world.client()
    me = world.interruptible()
    mine = ready(me, client, 1)
    error = me.interrupted(mine.wait, once=lambda: world.redis.subscribers(CHANNEL) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(mine) == 0
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)
    assert mine.get_count() == 1


def test_nothing_works_after_closing(world: World) -> None:
    client = world.client()
    bob = world.actor()
    mine, theirs = ready(world.actor(), client, 1), ready(bob, client)
    waiting = bob.start(theirs.wait)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    client.close()
    assert isinstance(waiting.error(), ClientClosedError)
    for call in (mine.wait, mine.count_down, mine.get_count, partial(mine.try_set_count, 1), partial(mine.wait, 0)):
        with pytest.raises(ClientClosedError):
            call()


@each_runtime
def test_bad_arguments(world: World) -> None:
    mine = ready(world.actor(), world.client())
    for count in (-1, 2**53 + 1):
        with pytest.raises(ValueError, match="count"):
            mine.try_set_count(count)
    no_counts: list[Any] = ["1", 1.0, None, True]
    for count in no_counts:
        with pytest.raises(TypeError, match="count"):
            mine.try_set_count(count)
    for timeout in (-1, math.nan, math.inf):
        with pytest.raises(ValueError, match="timeout"):
            mine.wait(timeout)
    with pytest.raises(TypeError, match="timeout"):
        mine.wait("5")
    assert world.redis.everything() == {}


@in_real_time
def test_a_key_of_another_type(world: ClockWorld) -> None:
    mine = ready(world.actor(), world.client())
    world.redis.command("SET", "ready", "a token")
    for call in (mine.wait, mine.get_count):
        with pytest.raises(LockError, match="not an integer"):
            call()
    world.redis.command("DEL", "ready")
    world.redis.command("HSET", "ready", "f", "v")
    for call in (mine.wait, mine.count_down, partial(mine.try_set_count, 1)):
        with pytest.raises(LockError, match="holds a hash"):
            call()
    assert world.redis.hash("ready") == {"f": "v"}
