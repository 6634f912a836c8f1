"""A lease that was asked for ends by itself; a plain hold whose lease ran out is over, without a word."""

from __future__ import annotations

import logging
import math
from datetime import timedelta

import pytest

from tests.worlds.base import Remote, World
from tests.worlds.environments import each_runtime


@pytest.mark.parametrize("lease", [20, 20.0, timedelta(seconds=20)], ids=["int", "float", "timedelta"])
def test_a_lease_may_be_any_kind_of_time(world: World, mine: Remote, lease: float | timedelta) -> None:
    assert mine.try_lock(lease_time=lease)
    assert 15 < world.redis.ttl("orders") <= 20
    mine.unlock()
    mine.lock(lease)
    assert 15 < world.redis.ttl("orders") <= 20
    mine.unlock()
    with mine.hold(lease_time=lease):
        assert 15 < world.redis.ttl("orders") <= 20


def test_the_time_to_live_is_in_seconds(world: World, mine: Remote, theirs: Remote) -> None:
    assert mine.remain_time_to_live() is None
    mine.lock(20)
    assert 15 < mine.remain_time_to_live() <= 20
    assert 15 < theirs.remain_time_to_live() <= 20
    world.redis.command("PERSIST", "orders")
    assert theirs.remain_time_to_live() == math.inf


@each_runtime
def test_a_plain_lease_that_ran_out_is_over_in_silence(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lost = []
    client = world.client(on_lock_lost=lambda *told: lost.append(told), lock_watchdog_timeout=1.8)
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    with caplog.at_level(logging.INFO, logger="pyredisson"):
        mine.lock(0.3)
        mine.lock(0.3)
        world.until(lambda: world.redis.ttl("orders") is None)
        theirs.lock()  # So that the watchdog is awake.
        world.renewed("orders", times=1)
    assert lost == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
