"""What happens can be watched: by listeners, and in the log, where each record names the lock and its owner."""

import logging
from typing import TypeAlias

import pytest

from pyredisson import events
from pyredisson.errors import ClientClosedError, LockError
from tests.promises.kinds import handle
from tests.worlds.base import KEPT, Remote, World
from tests.worlds.environments import each_runtime
from tests.worlds.store import CHANNEL

pytestmark = each_runtime


Happened: TypeAlias = list[events.Event]


@pytest.fixture
def happened() -> Happened:
    """What the client's listener has heard."""
    return []


@pytest.fixture
def client(world: World, happened: Happened) -> Remote:
    return world.client(listeners=(happened.append,))


def test_listeners_and_the_log_tell_what_happens(client, alice, bob, mine, theirs, happened, caplog):
    with caplog.at_level(logging.DEBUG, logger="pyredisson"):
        mine.lock()
        mine.lock(7)
        assert not theirs.try_lock()
        mine.unlock()
        mine.unlock()
    of_locks = [event for event in happened if isinstance(event, events.LockEvent)]
    of_log = [record for record in caplog.records if record.name == "pyredisson.lock"]
    assert ["released" in record.getMessage() for record in of_log] == [False, False, False, True, True]
    for event, record in zip(of_locks, of_log, strict=True):
        assert (record.lock, record.owner, record.levelname) == (event.name, event.owner, "DEBUG")
        assert "orders" in record.getMessage()
    kinds = [events.Acquired, events.Acquired, events.TimedOut, events.Released, events.Released]
    assert [type(event) for event in of_locks] == kinds
    assert [getattr(event, "holds", None) for event in of_locks] == [1, 2, None, 1, 0]
    assert [event.lease for event in happened if isinstance(event, events.Acquired)] == [None, 7]
    owners = [f"{client.id}:{actor.number}" for actor in (alice, alice, bob, alice, alice)]
    assert [(event.name, event.owner) for event in of_locks] == [("orders", owner) for owner in owners]


def test_a_multi_lock_tells_its_lease_and_how_long_it_was_held(world, client, happened):
    multi = handle(world.actor(), client, "multi_lock")
    multi.lock(5)
    world.pass_time(0.2)
    multi.unlock()
    assert [event.lease for event in happened if isinstance(event, events.Acquired)] == [5]
    (held,) = [event.held for event in happened if isinstance(event, events.Released) and event.held > 0.1]
    assert 0.2 <= held < 10


def test_normal_use_is_not_logged(world, caplog, alice, bob):
    client = world.client(lock_watchdog_timeout=KEPT)
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


def test_a_wait_is_announced_when_it_begins_and_when_it_ends(world, client, alice, bob, mine, theirs, happened):
    began = world.now()
    mine.lock()
    took = world.now() - began
    waiting = bob.start(theirs.lock)
    world.until(lambda: any(isinstance(event, events.WaitBegan) for event in happened))
    assert not any(isinstance(event, events.WaitEnded) for event in happened)
    world.pass_time(0.2)
    mine.lock()
    world.pass_time(0.1)
    mine.unlock()
    mine.unlock()
    waiting.result()
    assert not alice.do(mine.try_lock, 0.5)  # Of which the first attempt takes some.
    theirs.unlock()
    owners = {f"{client.id}:{actor.number}": actor for actor in (alice, bob)}
    waits = [event for event in happened if isinstance(event, (events.WaitBegan, events.WaitEnded))]
    assert [(type(event), owners[event.owner]) for event in waits] == [
        (events.WaitBegan, bob),
        (events.WaitEnded, bob),
        (events.WaitBegan, alice),
        (events.WaitEnded, alice),
    ]
    first, second = [event for event in waits if isinstance(event, events.WaitEnded)]
    assert (first.acquired, second.acquired) == (True, False)
    assert 0.29 < first.waited < 10
    assert 0.05 <= second.waited < 10
    inner, outer, last = [event.held for event in happened if isinstance(event, events.Released)]
    assert 0.1 <= inner < outer - 0.19
    assert 0.3 <= outer < 10
    assert 0 < last < 10
    alone, _, after_the_wait = [event.waited for event in happened if isinstance(event, events.Acquired)]
    assert alone <= took
    assert after_the_wait > 0.29


def test_a_wait_that_fails_is_announced_as_ended(world, client, alice, bob, mine, theirs, happened):
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    client.close()
    with pytest.raises(ClientClosedError):
        waiting.result()
    (ended,) = [event for event in happened if isinstance(event, events.WaitEnded)]
    assert not ended.acquired


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
def test_listeners_hear_of_acquires_of_permits(alice, bob, client, happened, kind):
    mine, theirs = alice.get(client, kind, "seats", permits=1), bob.get(client, kind, "seats")
    with mine.hold():
        assert not theirs.try_acquire()
        assert not theirs.try_acquire(wait_time=0.2)
    of_permits = [event for event in happened if isinstance(event, events.LockEvent)]
    kinds = [events.Acquired, events.TimedOut, events.WaitBegan, events.WaitEnded, events.TimedOut]
    assert [type(event) for event in of_permits] == kinds
    owners = [f"{client.id}:{actor.number}" for actor in (alice, bob, bob, bob, bob)]
    assert [(event.name, event.owner) for event in of_permits] == [("seats", owner) for owner in owners]
    acquired, refused, _, ended, timed_out = of_permits
    assert (acquired.holds, acquired.lease, acquired.kind) == (0, None, kind)
    assert (timed_out.kind, ended.acquired) == (kind, False)
    assert timed_out.waited >= max(0.2, refused.waited)


def test_an_acquire_whose_wait_would_never_end_has_failed(world, client, happened):
    mine = world.actor().get(client, "non_reentrant_lock")
    mine.lock()
    with pytest.raises(LockError) as error:
        mine.lock()
    [failed] = [event for event in happened if isinstance(event, events.AcquireFailed)]
    assert (failed.name, failed.kind, failed.reason) == ("orders", "non_reentrant_lock", "error")
    assert failed.error is error.value


def test_an_interrupted_acquire_has_not_failed(world, client, happened, mine):
    mine.lock()
    other = world.interruptible()
    waits = lambda: any(isinstance(event, events.WaitBegan) for event in happened)  # noqa: E731
    assert other.interrupted(other.lock(client).lock, once=lambda: world.until(waits)) is not None
    assert not [event for event in happened if isinstance(event, events.AcquireFailed)]
