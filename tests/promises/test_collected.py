"""A client that is garbage-collected while it holds: the log names the locks, and their holders' callback is called."""

import asyncio
import gc
import logging
from typing import Any

import pytest

from tests.worlds.base import Actor
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async

pytestmark = sync_and_async


def forgotten_client(world: ClockWorld, **config: Any) -> Any:
    """A client that nobody but the test looks after."""
    return world.api.Redisson(world.redis_client(), config=world.api.Config(**config))


def collected(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "garbage-collected" in record.getMessage()]


def collect(alice: Actor) -> None:
    alice.do(int)  # It lets go of what it did last.
    alice.do(gc.collect)


@pytest.mark.parametrize("form", ["plain", "coroutine"])
def test_a_client_that_is_collected_while_it_holds_tells_what(world, alice, form, caplog):
    lost = []

    async def later(*told):
        await asyncio.sleep(0)
        lost.append(told)

    def at_once(*told):
        lost.append(told)

    happened = []
    with caplog.at_level(logging.WARNING, logger="pyredisson"):
        client = forgotten_client(
            world, on_lock_lost=later if form == "coroutine" else at_once, listeners=(happened.append,)
        )
        alice.do(client.get_lock("job").lock)
        alice.do(client.get_fair_lock("turn").lock)
        alice.do(client.get_multi_lock(client.get_lock("one"), client.get_lock("other")).lock)
        alice.do(client.get_permit_expirable_semaphore("seats").try_set_permits, 1)
        del client
        collect(alice)
        world.until(lambda: collected(caplog))
        world.until(lambda: len(lost) == 3)
    assert sorted(lost) == [(name, alice.number) for name in ("job", "one + other", "turn")]
    (said,) = collected(caplog)
    assert said.startswith("pyredisson: client ")
    assert "'job', 'turn', 'one + other', which can no longer be released: each expires with its lease" in said
    world.until(lambda: any(type(event).__name__ == "ClientCollected" for event in happened))
    (event,) = [event for event in happened if type(event).__name__ == "ClientCollected"]
    assert event.names == ("job", "turn", "one + other")
    assert event.held == 3


def test_the_list_of_names_is_bounded(world, alice, caplog):
    with caplog.at_level(logging.WARNING, logger="pyredisson"):
        client = forgotten_client(world)
        for number in range(30):
            alice.do(client.get_lock(f"job-{number:02}").lock)
        del client
        collect(alice)
        world.until(lambda: collected(caplog))
    (said,) = collected(caplog)
    assert "'job-09' and 20 more" in said
    assert "job-10" not in said


@pytest.mark.parametrize("how", ["released", "closed", "a fixed lease", "unused"])
def test_otherwise_nothing_is_said(world, how, caplog, alice):
    with caplog.at_level(logging.WARNING, logger="pyredisson"):
        client = forgotten_client(world, on_lock_lost=world.on_lock_lost)
        lock = client.get_lock("job")
        if how != "unused":
            alice.do(lock.lock, *([5] if how == "a fixed lease" else []))
        if how == "released":
            alice.do(lock.unlock)
        if how == "closed":
            alice.do(client.close)
        del client, lock
        collect(alice)
        world.pass_time(0.2)
    assert collected(caplog) == []
    assert world.losses == []
