"""The spans of the OpenTelemetry listener, of threads and of tasks, and their parents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, events
from pyredisson.observe.opentelemetry import HOLDER_GONE, LOST, UNKNOWN, OpenTelemetryListener
from tests.observe.meters import OpenTelemetryMeter
from tests.observe.test_listeners import acquired
from tests.waiting import until
from tests.worlds.environments import sync_and_async


def attributes_of(span: ReadableSpan) -> Mapping[str, object]:
    return span.attributes or {}


@sync_and_async
def test_waits_and_holds_are_spans(world, telemetry):
    client = world.client(listeners=(telemetry.listener(),))
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: telemetry.value("waiters") == 1)
    world.pass_time(0.05)
    mine.unlock()
    mine.unlock()
    waiting.result()
    assert not alice.do(mine.try_lock, 0.01)
    theirs.unlock()
    wait, in_vain = telemetry.spans("lock.wait")
    assert [attributes_of(span)["pyredisson.lock.acquired"] for span in (wait, in_vain)] == [True, False]
    hold, other = telemetry.spans("lock.hold")
    assert attributes_of(hold)["db.system.name"] == "redis"
    assert attributes_of(hold)["pyredisson.lock.name"] == "orders"
    assert attributes_of(hold)["pyredisson.lock.owner"] == f"{client.id}:{alice.number}"
    assert "error.type" not in attributes_of(hold)
    assert hold.status.is_unset
    assert other.status.is_unset
    assert hold.start_time < wait.start_time < hold.end_time
    assert 0.04e9 < wait.end_time - wait.start_time < 10e9


def parents_of(telemetry: OpenTelemetryMeter) -> dict[str, set[str]]:
    """The names of the parents of all spans, by the names of their locks."""
    names = {span.context.span_id: span.name for each in "ab" for span in telemetry.spans(f"caller-{each}")}
    found: dict[str, set[str]] = {}
    for span in [*telemetry.spans("lock.wait"), *telemetry.spans("lock.hold")]:
        assert span.parent is not None
        found.setdefault(str(attributes_of(span)["thread.name"]), set()).add(names[span.parent.span_id])
    return found


def test_threads_have_their_own_parents(telemetry, valkey, unique_name):
    config = Config(listeners=(telemetry.listener(),))
    both = threading.Barrier(2)

    def caller(client, letter):
        with telemetry.tracer.start_as_current_span(f"caller-{letter}"):
            both.wait(10)
            with client.get_lock(unique_name):
                until(lambda: telemetry.value("waiters") or telemetry.spans("lock.hold"))

    with pyredisson.Redisson.from_url(f"redis://127.0.0.1:{valkey.port}", config=config) as client:
        threads = [threading.Thread(target=caller, args=(client, letter), name=letter) for letter in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert parents_of(telemetry) == {"a": {"caller-a"}, "b": {"caller-b"}}
    assert len(telemetry.spans("lock.wait")) == 1
    assert len(telemetry.spans("lock.hold")) == 2


async def test_tasks_have_their_own_parents(telemetry, valkey, unique_name):
    config = Config(listeners=(telemetry.listener(),))

    async def caller(client, letter):
        with telemetry.tracer.start_as_current_span(f"caller-{letter}"):
            async with client.get_lock(f"{unique_name}-{letter}"):
                await asyncio.sleep(0)

    async with pyredisson.asyncio.Redisson.from_url(f"redis://127.0.0.1:{valkey.port}", config=config) as client:
        await asyncio.gather(*(caller(client, letter) for letter in "ab"))
    callers = {span.context.span_id: span.name[-1] for each in "ab" for span in telemetry.spans(f"caller-{each}")}
    holds = telemetry.spans("lock.hold")
    assert len(holds) == 2
    for hold in holds:
        assert hold.parent is not None
        assert str(attributes_of(hold)["pyredisson.lock.name"]).endswith(callers[hold.parent.span_id])


def test_the_label_names_spans(telemetry):
    listener = telemetry.listener(label=lambda name: name.split(":")[0], max_labels=1)
    for name in ("order:1", "seat:1"):
        listener(acquired(name))
        listener(events.Released(name, "client:1", 0, 0.1))
    (span,) = telemetry.spans("lock.hold order")
    assert attributes_of(span)["pyredisson.lock.name"] == "order:1"
    assert len(telemetry.spans("lock.hold other")) == 1


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (events.Lost("orders", "client:1", "it was deleted"), LOST),
        (events.OutcomeUnknown("orders", "client:1", "an unlock", TimeoutError("no reply")), UNKNOWN),
        (events.HolderGone("orders", "client:1", "its thread ended"), HOLDER_GONE),
        (events.ClientCollected("client", ("orders",), 1), HOLDER_GONE),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, events.Event) else each,
)
def test_a_hold_without_a_release_ends_as_an_error(telemetry, event, error):
    listener = telemetry.listener()
    listener(acquired("orders"))
    listener(event)
    (hold,) = telemetry.spans("lock.hold")
    assert attributes_of(hold)["error.type"] == error
    assert hold.status.status_code is StatusCode.ERROR


def test_a_hold_whose_lease_has_ended_ends_then(telemetry):
    listener = telemetry.listener()
    listener(acquired("orders", lease=0.0))
    assert telemetry.value("holds") == 0
    (hold,) = telemetry.spans("lock.hold")
    assert hold.status.is_unset
    assert abs(hold.end_time - hold.start_time) < 1e9


def test_without_an_sdk_nothing_is_kept_but_what_is_held():
    listener = OpenTelemetryListener()
    listener(acquired("orders"))
    _, _, hold = listener._holds.all["orders", "client:1"]
    assert hold.span is None
    listener(events.Released("orders", "client:1", 0, 0.1))
    assert listener._holds.now() == []
