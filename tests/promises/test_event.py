"""Those who wait for an event return when it is set, also if it is cleared at once."""

from __future__ import annotations

import math

from tests.worlds.base import World

CHANNEL = "pyredisson_event:{ready}"


def test_a_flag(world: World) -> None:
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
