"""What happens can be watched: by listeners, and in the log, where each record names the lock and its owner."""

from __future__ import annotations

import logging

import pytest

from pyredisson.core import events
from tests.contract.places import each_runtime
from tests.contract.store import CHANNEL
from tests.contract.worlds import World

pytestmark = each_runtime


def test_listeners_hear_what_happens(world: World) -> None:
    happened: list[events.Event] = []
    client = world.client(listeners=(happened.append,))
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    mine.lock()
    assert not theirs.try_lock()
    mine.unlock()
    mine.unlock()
    of_locks = [event for event in happened if isinstance(event, events.LockEvent)]
    kinds = [events.Acquired, events.Acquired, events.TimedOut, events.Released, events.Released]
    assert [type(event) for event in of_locks] == kinds
    assert [getattr(event, "holds", None) for event in of_locks] == [1, 2, None, 1, 0]
    owners = [f"{client.id}:{actor.number}" for actor in (alice, alice, bob, alice, alice)]
    assert [(event.name, event.owner) for event in of_locks] == [("orders", owner) for owner in owners]


def test_the_log_names_the_lock_and_its_owner(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.client()
    alice = world.actor()
    with caplog.at_level(logging.DEBUG, logger="pyredisson"):
        mine = alice.lock(client)
        mine.lock()
        mine.unlock()
    records = [record for record in caplog.records if record.name == "pyredisson.lock"]
    assert ["acquired" in record.getMessage() for record in records] == [True, False]
    for record in records:
        assert (record.lock, record.owner) == ("orders", f"{client.id}:{alice.number}")
        assert record.levelname == "DEBUG"
        assert "orders" in record.getMessage()


def test_what_goes_as_it_should_is_not_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.client(lock_watchdog_timeout=2.4)
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    with caplog.at_level(logging.INFO, logger="pyredisson"):
        mine.lock()
        waiting = bob.start(theirs.lock)
        world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
        world.renewed("orders", times=1)
        mine.unlock()
        waiting.result()
        theirs.unlock()
        client.close()
    assert [record for record in caplog.records if record.name.startswith("pyredisson")] == []
