"""What the OpenTelemetry listener records, of threads and of tasks: metrics, and spans with the right parents."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, events
from pyredisson.observe.opentelemetry import HOLDER_GONE, LOST, UNKNOWN, OpenTelemetryListener
from tests.servers import Server
from tests.waiting import until
from tests.worlds.base import World
from tests.worlds.environments import sync_and_async

STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


class Telemetry:
    """Providers of the SDK that keep everything in memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self.meters = MeterProvider([self._reader])
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.traces.get_tracer("tests")

    def listener(self, label: Callable[[str], str] | None = None, **more: int) -> OpenTelemetryListener:
        return OpenTelemetryListener(meter_provider=self.meters, tracer_provider=self.traces, label=label, **more)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The values of a metric, by attributes: those of a histogram are its counts."""
        data = self._reader.get_metrics_data()
        return {
            tuple(sorted(point.attributes.items())): getattr(point, "count", None) or getattr(point, "value", 0)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == f"pyredisson.{name}"
            for point in metric.data.data_points
        }

    def value(self, name: str) -> float | None:
        return self.points(name).get(())

    def close(self) -> None:
        self.meters.shutdown()
        self.traces.shutdown()


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def attributes_of(span: ReadableSpan) -> Mapping[str, object]:
    return span.attributes or {}


@sync_and_async
def test_waits_and_holds_are_metrics_and_spans(world: World, telemetry: Telemetry) -> None:
    client = world.client(listeners=(telemetry.listener(),))
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: telemetry.value("lock.waiters") == 1)
    assert telemetry.value("lock.holds") == 1
    assert 0 < (telemetry.value("lock.hold.longest") or 0) < 10
    world.pass_time(0.05)
    mine.unlock()
    mine.unlock()
    waiting.result()
    assert not alice.do(mine.try_lock, 0.01)
    theirs.unlock()
    assert (telemetry.value("lock.holds"), telemetry.value("lock.waiters")) == (0, 0)
    assert telemetry.value("lock.acquisitions") == 2
    assert telemetry.value("lock.timeouts") == 1
    assert telemetry.value("lock.contentions") == 2
    assert telemetry.value("lock.wait.duration") == 3
    assert telemetry.value("lock.hold.duration") == 2
    assert [attributes_of(span)["pyredisson.lock.acquired"] for span in telemetry.spans("lock.wait")] == [True, False]
    hold, other = telemetry.spans("lock.hold")
    assert attributes_of(hold)["db.system.name"] == "redis"
    assert attributes_of(hold)["pyredisson.lock.name"] == "orders"
    assert attributes_of(hold)["pyredisson.lock.owner"] == f"{client.id}:{alice.number}"
    assert "error.type" not in attributes_of(hold)
    assert hold.status.is_unset
    assert other.status.is_unset
    (wait, _) = telemetry.spans("lock.wait")
    assert hold.start_time < wait.start_time < hold.end_time  # type: ignore[operator]
    assert 0.04e9 < wait.end_time - wait.start_time < 10e9  # type: ignore[operator]


@sync_and_async
def test_acquires_of_permits_are_measured(world: World, telemetry: Telemetry) -> None:
    client = world.client(listeners=(telemetry.listener(),))
    seats = world.actor().get(client, "semaphore", "seats", permits=1)
    seats.acquire()
    assert not seats.try_acquire(wait_time=0.05)
    assert (telemetry.value("lock.acquisitions"), telemetry.value("lock.holds")) == (1, 0)
    assert telemetry.value("lock.wait.duration") == 2
    assert telemetry.points("lock.failures") == {(("error.type", "timeout"),): 1}
    (wait,) = telemetry.spans("lock.wait")
    assert attributes_of(wait)["pyredisson.lock.name"] == "seats"


def test_failures_are_counted_by_their_reason(telemetry: Telemetry) -> None:
    telemetry.listener()(events.AcquireFailed("orders", "client:1", 0.5, "quorum", OSError()))
    assert telemetry.points("lock.failures") == {(("error.type", "quorum"),): 1}
    assert telemetry.value("lock.wait.duration") == 1


@sync_and_async
def test_a_lost_hold_is_an_error(world: World, telemetry: Telemetry) -> None:
    client = world.client(listeners=(telemetry.listener(),), lock_watchdog_timeout=0.6)
    world.actor().lock(client).lock()
    world.redis.delete("orders")
    world.redis.command("HSET", "orders", STRANGER, "1")
    world.until(lambda: telemetry.spans("lock.hold"))
    (hold,) = telemetry.spans("lock.hold")
    assert hold.status.status_code is StatusCode.ERROR
    assert hold.status.description
    assert attributes_of(hold)["error.type"] == LOST
    assert telemetry.value("lock.losses") == 1


def parents_of(telemetry: Telemetry) -> dict[str, set[str]]:
    """The names of the parents of all spans, by the names of their locks."""
    names = {span.context.span_id: span.name for each in "ab" for span in telemetry.spans(f"caller-{each}")}
    found: dict[str, set[str]] = {}
    for span in [*telemetry.spans("lock.wait"), *telemetry.spans("lock.hold")]:
        assert span.parent is not None
        found.setdefault(str(attributes_of(span)["thread.name"]), set()).add(names[span.parent.span_id])
    return found


def test_threads_have_their_own_parents(telemetry: Telemetry, valkey: Server, unique_name: str) -> None:
    config = Config(listeners=(telemetry.listener(),))
    both = threading.Barrier(2)

    def caller(client: pyredisson.Redisson, letter: str) -> None:
        with telemetry.tracer.start_as_current_span(f"caller-{letter}"):
            both.wait(10)
            with client.get_lock(unique_name):
                until(lambda: telemetry.value("lock.waiters") or telemetry.spans("lock.hold"))

    with pyredisson.Redisson.from_url(f"redis://127.0.0.1:{valkey.port}", config=config) as client:
        threads = [threading.Thread(target=caller, args=(client, letter), name=letter) for letter in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert parents_of(telemetry) == {"a": {"caller-a"}, "b": {"caller-b"}}
    assert len(telemetry.spans("lock.wait")) == 1
    assert len(telemetry.spans("lock.hold")) == 2


def test_tasks_have_their_own_parents(telemetry: Telemetry, valkey: Server, unique_name: str) -> None:
    config = Config(listeners=(telemetry.listener(),))

    async def caller(client: pyredisson.asyncio.Redisson, letter: str) -> None:
        with telemetry.tracer.start_as_current_span(f"caller-{letter}"):
            async with client.get_lock(f"{unique_name}-{letter}"):
                await asyncio.sleep(0)

    async def main() -> None:
        async with pyredisson.asyncio.Redisson.from_url(f"redis://127.0.0.1:{valkey.port}", config=config) as client:
            await asyncio.gather(*(caller(client, letter) for letter in "ab"))

    asyncio.run(main())
    callers = {span.context.span_id: span.name[-1] for each in "ab" for span in telemetry.spans(f"caller-{each}")}
    holds = telemetry.spans("lock.hold")
    assert len(holds) == 2
    for hold in holds:
        assert hold.parent is not None
        assert str(attributes_of(hold)["pyredisson.lock.name"]).endswith(callers[hold.parent.span_id])


def acquired(name: str, owner: str = "client:1", lease: float | None = None) -> events.Acquired:
    return events.Acquired(name, owner, 0.001, 1, lease)


def test_the_label_names_spans_and_is_limited(telemetry: Telemetry) -> None:
    listener = telemetry.listener(lambda name: name.split(":")[0], max_labels=1)
    for name in ("order:1", "order:2", "seat:1", "table:1"):
        listener(acquired(name))
    listener(events.Released("order:1", "client:1", 0, 0.1))
    listener(events.Released("seat:1", "client:1", 0, 0.1))
    order, other = (("pyredisson.lock.label", "order"),), (("pyredisson.lock.label", "other"),)
    assert telemetry.points("lock.acquisitions") == {order: 2, other: 2}
    assert telemetry.points("lock.holds") == {order: 1, other: 1}
    (span,) = telemetry.spans("lock.hold order")
    assert attributes_of(span)["pyredisson.lock.name"] == "order:1"
    assert len(telemetry.spans("lock.hold other")) == 1


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (events.OutcomeUnknown("orders", "client:1", "an unlock", TimeoutError("no reply")), UNKNOWN),
        (events.HolderGone("orders", "client:1", "its thread ended"), HOLDER_GONE),
        (events.ClientCollected("client", ("orders",), 1), HOLDER_GONE),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, events.Event) else each,
)
def test_a_hold_without_a_release_ends_as_an_error(telemetry: Telemetry, event: events.Event, error: str) -> None:
    listener = telemetry.listener()
    listener(acquired("orders"))
    listener(event)
    (hold,) = telemetry.spans("lock.hold")
    assert attributes_of(hold)["error.type"] == error
    assert hold.status.status_code is StatusCode.ERROR


def test_a_hold_whose_lease_has_ended_ends_then(telemetry: Telemetry) -> None:
    listener = telemetry.listener()
    listener(acquired("orders", lease=0.0))
    assert telemetry.value("lock.holds") == 0
    (hold,) = telemetry.spans("lock.hold")
    assert hold.status.is_unset
    assert abs(hold.end_time - hold.start_time) < 1e9  # type: ignore[operator]


@pytest.mark.parametrize(
    ("event", "metric"),
    [
        (events.GivenBack("orders", "client:1"), "lock.settled"),
        (events.Renewed(1, 1), "renewals"),
        (events.RenewalFailed(3, TimeoutError(), 1), "renewal_failures"),
        (events.WatchdogLate(3.0), "watchdog_late"),
        (events.ConnectionDown(OSError(), 1), "connection_downs"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, events.Event) else each,
)
def test_each_of_these_is_counted(telemetry: Telemetry, event: events.Event, metric: str) -> None:
    telemetry.listener()(event)
    assert telemetry.value(metric) == 1


def test_every_other_event_is_counted_by_its_class(telemetry: Telemetry) -> None:
    telemetry.listener()(events.LeftBehind("orders", "client:1", "thread 7"))
    assert telemetry.points("events") == {(("pyredisson.event", "LeftBehind"),): 1}


def test_without_an_sdk_nothing_is_kept_but_what_is_held() -> None:
    listener = OpenTelemetryListener()
    listener(acquired("orders"))
    hold = listener._holds.get(("orders", "client:1"))
    assert hold is not None
    assert hold.span is None
    listener(events.Released("orders", "client:1", 0, 0.1))
    assert listener._holds.now() == []
