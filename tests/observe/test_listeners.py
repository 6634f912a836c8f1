"""What both listeners measure, of threads and of tasks."""

from __future__ import annotations

import pytest

from pyredisson import events
from tests.worlds.environments import sync_and_async

STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


@sync_and_async
def test_acquires_waits_and_holds(world, meter):
    client = world.client(listeners=(meter.listener(),))
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: meter.value("waiters") == 1)
    assert meter.value("holds") == 1
    world.pass_time(0.05)
    assert 0.04 < (meter.value("longest wait") or 0) < (meter.value("longest hold") or 0) < 10
    mine.unlock()
    assert not meter.value("durations of holds"), "a nested hold is not counted"
    mine.unlock()
    waiting.result()
    assert not alice.do(mine.try_lock, 0.01)
    theirs.unlock()
    expected = {"acquisitions": 2, "timeouts": 1, "contentions": 2, "durations of waits": 3, "durations of holds": 2}
    assert {metric: meter.value(metric) for metric in expected} == expected
    assert (meter.value("holds"), meter.value("waiters")) == (0, 0)


@sync_and_async
def test_acquires_of_permits(world, meter):
    client = world.client(listeners=(meter.listener(),))
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "semaphore", "seats", permits=1), bob.get(client, "semaphore", "seats")
    mine.acquire()
    waiting = bob.start(theirs.try_acquire, wait_time=0.2)
    world.until(lambda: meter.value("waiters") == 1)
    assert not waiting.result()
    expected = {"acquisitions": 1, "timeouts": 1, "contentions": 1, "durations of waits": 2, "holds": 0, "waiters": 0}
    assert {metric: meter.value(metric) for metric in expected} == expected
    assert meter.value("failures", reason="timeout") == 1


@sync_and_async
def test_a_loss_ends_the_hold(world, meter):
    client = world.client(listeners=(meter.listener(),), lock_watchdog_timeout=0.6)
    world.actor().lock(client).lock()
    world.redis.delete("orders")
    world.redis.command("HSET", "orders", STRANGER, "1")
    world.until(lambda: meter.value("losses") == 1)
    assert meter.value("holds") == 0
    assert not meter.value("durations of holds")


@sync_and_async
def test_an_interrupted_wait_ends(world, meter):
    client = world.client(listeners=(meter.listener(),))
    alice, bob = world.actor(), world.interruptible()
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    bob.interrupted(theirs.lock, once=lambda: meter.value("waiters") == 1)
    assert meter.value("waiters") == 0
    mine.unlock()


@sync_and_async
def test_a_holder_that_is_gone_holds_no_longer(world, meter):
    client = world.client(listeners=(meter.listener(),), lock_watchdog_timeout=0.6)
    alice = world.actor()
    alice.lock(client).lock()
    world.until(lambda: meter.value("renewals"))
    alice.end()
    world.until(lambda: meter.value("events", event="HolderGone") == 1)
    assert meter.value("holds") == 0


def acquired(name: str, owner: str = "client:1", lease: float | None = None) -> events.Acquired:
    return events.Acquired(name, owner, 0.001, 1, lease)


def test_failures_are_counted_by_their_reason(meter):
    listener, error = meter.listener(), OSError()
    listener(events.AcquireFailed("orders", "client:1", 0.5, "quorum", error))
    for _ in range(2):
        listener(events.AcquireFailed("orders", "client:1", 1.5, "connection", error))
    assert meter.value("failures", reason="connection") == 2
    assert meter.value("failures", reason="quorum") == 1
    assert meter.value("durations of waits") == 3
    assert not meter.value("timeouts")


def test_the_label_of_a_lock_is_that_of_its_name_and_the_number_of_labels_is_limited(meter):
    listener = meter.listener(label=lambda name: name.split(":")[0], max_labels=2)
    for name in ("order:1", "order:2", "seat:1", "table:1", "chair:1"):
        listener(acquired(name))
    listener(events.Released("seat:1", "client:1", 0, 0.1))
    labels = ("order", "seat", "other")
    assert [meter.value("acquisitions", label=label) for label in labels] == [2, 1, 2]
    assert [meter.value("holds", label=label) for label in labels] == [2, 0, 2]
    assert meter.value("acquisitions") is None


def test_a_hold_whose_lease_has_ended_is_forgotten(meter):
    listener = meter.listener()
    listener(acquired("short", lease=0.0))
    listener(acquired("long", lease=60.0))
    assert meter.value("holds") == 1


@pytest.mark.parametrize(
    ("event", "holds"),
    [
        (events.OutcomeUnknown("orders", "one:1", "an acquire", TimeoutError()), 3),
        (events.OutcomeUnknown("orders", "one:1", "an unlock", TimeoutError()), 2),
        (events.HolderGone("orders", "one:1", "its thread ended"), 2),
        (events.ClientCollected("one", ("orders",), 2), 1),
    ],
    ids=repr,
)
def test_which_events_end_holds(meter, event, holds):
    listener = meter.listener()
    for each in (acquired("orders", "one:1"), acquired("seats", "one:2"), acquired("orders", "another:1"), event):
        listener(each)
    assert meter.value("holds") == holds


class OfALaterVersion(events.Event):
    """An event that the listeners do not know."""


@pytest.mark.parametrize(
    ("event", "metric", "labels"),
    [
        (events.GivenBack("orders", "client:1"), "settled", {}),
        (events.Renewed(1, 1), "renewals", {}),
        (events.RenewalFailed(3, TimeoutError(), 1), "renewal failures", {}),
        (events.WatchdogLate(3.0), "late watchdogs", {}),
        (events.ConnectionDown(OSError(), 1), "connection downs", {}),
        (events.LeftBehind("orders", "client:1", "thread 7"), "events", {"event": "LeftBehind"}),
        (OfALaterVersion(), "events", {"event": "OfALaterVersion"}),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, events.Event) else "",
)
def test_each_of_these_is_counted(meter, event, metric, labels):
    meter.listener()(event)
    assert meter.value(metric, **labels) == 1


def test_an_outage_of_the_subscriber_is_counted_once(meter):
    listener = meter.listener()
    for attempt in (1, 2, 3):
        listener(events.ConnectionDown(OSError(), attempt))
    listener(events.ConnectionUp(1))
    assert meter.value("connection downs") == 1
