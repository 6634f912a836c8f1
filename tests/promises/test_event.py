"""Those who wait for an event return when it is set, also if it is cleared at once."""

from __future__ import annotations

import asyncio
import math

import pytest

from tests.proxy import Proxy
from tests.worlds.base import World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, interruptible, sync_and_async

CHANNEL = "pyredisson_event:{ready}"


def test_a_flag(world: World) -> None:
    event = world.actor().get(world.client(), "event", "ready")
    assert event.name == "ready"
    assert event.is_set() is False
    assert event.wait(0) is False
    assert event.wait(-1) is False
    event.set()
    event.set()
    assert event.is_set() is True
    assert event.wait() is True
    event.clear()
    event.clear()
    assert event.is_set() is False
    assert event.wait(0.1) is False
    assert 3500 < world.redis.ttl("ready") <= 3600
    event.set()
    assert world.redis.ttl("ready") == math.inf


def test_all_waiters_return(world: World) -> None:
    alice, *others = world.actors(5)
    mine, client = alice.get(world.client(), "event", "ready"), world.client(max_wait_without_check=60)
    theirs = [actor.get(client, "event", "ready") for actor in others]
    waiting = [actor.start(event.wait) for actor, event in zip(others, theirs, strict=True)]
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1 and world.waiting(theirs[0]) == 4)
    world.pass_time(0.2)
    mine.set()
    assert all(pending.result(within=5) for pending in waiting)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)


def test_a_waiter_returns_though_the_event_was_cleared_at_once(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = (actor.get(world.client(max_wait_without_check=60), "event", "ready") for actor in (alice, bob))
    mine.set()
    mine.clear()
    for _ in range(3):
        waiting = bob.start(theirs.wait)
        world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
        world.pass_time(0.2)
        assert not waiting.done()
        mine.set()
        mine.clear()
        assert waiting.result(within=5) is True


@pytest.mark.unheard
@each_runtime
def test_a_waiter_finds_out_without_a_message(world: World) -> None:
    bob = world.actor()
    event = bob.get(world.client(max_wait_without_check=0.5), "event", "ready")
    waiting = bob.start(event.wait)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.2)
    world.redis.command("SET", "ready", "7")
    assert waiting.result(within=5) is True


@each_server
def test_one_check_serves_all_waiters_of_a_client(world: ClockWorld) -> None:
    client = world.client(max_wait_without_check=60, timeout=30)
    mine, actors = world.actor().get(world.client(), "event", "ready"), world.actors(50)
    theirs = [actor.get(client, "event", "ready") for actor in actors]
    waiting = [actor.start(event.wait) for actor, event in zip(actors, theirs, strict=True)]
    world.until(lambda: world.waiting(theirs[0]) == 50 and world.redis.subscribers(CHANNEL) == 1, within=30)
    world.pass_time(0.3)
    before = world.redis.calls("get")
    mine.set()
    mine.clear()
    assert all(pending.result(within=30) for pending in waiting)
    assert world.redis.calls("get") - before <= 10  # The script's own are among them.


@interruptible
def test_an_interrupted_waiter_leaves_nothing_behind(world: World) -> None:
    me = world.interruptible()
    event = me.get(world.client(), "event", "ready")
    error = me.interrupted(event.wait, once=lambda: world.redis.subscribers(CHANNEL) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    assert world.waiting(event) == 0


@sync_and_async
def test_a_lost_reply(world: ClockWorld, proxy: Proxy) -> None:
    event = world.actor().get(world.through(proxy.port, timeout=2.4), "event", "ready")
    event.set()
    event.clear()
    lost = proxy.drop_reply("EVALSHA")
    event.set()
    assert lost.hits == 1
    assert world.redis.command("GET", "ready") in (b"3", "3")
