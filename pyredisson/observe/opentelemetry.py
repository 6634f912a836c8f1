"""Metrics and spans of a client for OpenTelemetry. Needs ``pyredisson[opentelemetry]``.

.. code-block:: python

    from pyredisson import Config, Redisson
    from pyredisson.observe.opentelemetry import OpenTelemetryListener

    listener = OpenTelemetryListener()
    client = Redisson.from_url("redis://localhost", config=Config(listeners=(listener,)))

Each wait that did not end immediately is a span ``lock.wait``, and each hold a span ``lock.hold``. Their parent is the
span that is current where the lock is acquired, in a thread or in a task. A hold that is lost ends as an error. Without
a configured SDK nothing is recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from opentelemetry import metrics as otel_metrics
from opentelemetry import trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import SpanKind, Status, StatusCode

from pyredisson import __version__, events
from pyredisson.observe import recorder
from pyredisson.observe.labels import MAX_LABELS, Label

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetryListener"]

#: What the counters count, as their unit.
UNITS = {
    "acquisitions": "{acquisition}",
    "timeouts": "{call}",
    "contentions": "{call}",
    "losses": "{lock}",
    "outcomes_unknown": "{request}",
    "settled": "{request}",
    "renewals": "{lock}",
    "renewal_failures": "{request}",
    "watchdog_late": "{watchdog}",
    "connection_downs": "{connection}",
}

NS = 1_000_000_000


@dataclass(frozen=True, eq=False)
class _Group:
    """The locks with one label: their attributes, and the names of their spans."""

    attributes: Mapping[str, str]
    wait: str
    hold: str


@final
class OpenTelemetryListener:
    """A listener for ``Config.listeners`` that turns events into metrics and spans of OpenTelemetry.

    One listener may serve any number of clients, for threads and for asyncio. The spans have the attributes
    ``db.system.name``, ``pyredisson.lock.name``, ``pyredisson.lock.owner``, ``thread.name``, and ``error.type`` for a
    hold that was lost; metrics only the label.

    Args:
        meter_provider: Where the metrics go. ``None``: the global one.
        tracer_provider: Where the spans go. ``None``: the global one.
        label: Returns the attribute ``pyredisson.lock.label`` of a lock, given its name, such as ``lambda name:
            name.split(":")[0]``. It has to return the same for a name each time. ``None``: there is no such attribute.
        max_labels: The number of different labels; all later ones count as ``"other"``.

    Raises:
        ValueError: ``max_labels`` is less than 1.
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        label: Label | None = None,
        max_labels: int = MAX_LABELS,
    ) -> None:
        self._recorder = _OpenTelemetryRecorder(meter_provider, tracer_provider, label, max_labels)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, event: events.Event) -> None:
        """Record an event."""
        self._recorder.record(event)


class _OpenTelemetryRecorder(recorder.Recorder[_Group]):
    """The instruments and spans of one listener."""

    def __init__(
        self,
        meter_provider: MeterProvider | None,
        tracer_provider: TracerProvider | None,
        label: Label | None,
        max_labels: int,
    ) -> None:
        super().__init__(label, max_labels)
        self._tracer = trace.get_tracer("pyredisson", __version__, tracer_provider)
        meter = otel_metrics.get_meter("pyredisson", __version__, meter_provider)
        self._counters = {
            name: meter.create_counter(f"pyredisson.lock.{name}", UNITS[name], text)
            for name, text in recorder.LOCK_COUNTERS.items()
        }
        self._of_client = {
            name: meter.create_counter(f"pyredisson.{name}", UNITS[name], text)
            for name, text in recorder.CLIENT_COUNTERS.items()
        }
        self._failures = meter.create_counter("pyredisson.lock.failures", "{call}", recorder.FAILURES)
        self._others = meter.create_counter("pyredisson.events", "{event}", recorder.OTHERS)
        self._times = {
            name: meter.create_histogram(
                f"pyredisson.lock.{name}.duration",
                "s",
                text,
                explicit_bucket_boundaries_advisory=recorder.BOUNDS,  # A view of the application's takes precedence.
            )
            for name, text in recorder.TIMES.items()
        }
        for what, unit, plural, lasting in (
            ("hold", "{lock}", "holds", self.lasting_holds),
            ("wait", "{call}", "waiters", self.lasting_waits),
        ):
            meter.create_observable_up_down_counter(
                f"pyredisson.lock.{plural}", [_observed(lasting, len)], unit, f"The present {plural}."
            )
            meter.create_observable_gauge(
                f"pyredisson.lock.{what}.longest",
                [_observed(lasting, lambda lasted: max(lasted, default=0.0))],
                "s",
                f"For how long the longest present {what} has lasted.",
            )

    def group_of(self, label: str | None) -> _Group:
        if label is None:
            return _Group({}, "lock.wait", "lock.hold")
        return _Group({"pyredisson.lock.label": label}, f"lock.wait {label}", f"lock.hold {label}")

    def count(self, metric: str, group: _Group, number: int = 1) -> None:
        self._counters[metric].add(number, group.attributes)

    def count_failure(self, reason: str, group: _Group) -> None:
        self._failures.add(1, {**group.attributes, "error.type": reason})

    def count_of_client(self, metric: str, number: int = 1) -> None:
        self._of_client[metric].add(number)

    def count_other(self, event: events.Event) -> None:
        self._others.add(1, {"pyredisson.event": type(event).__name__})

    def measure(self, metric: str, seconds: float, group: _Group) -> None:
        self._times[metric].record(seconds, group.attributes)

    def hold_began(self, event: events.Acquired, group: _Group) -> Span | None:
        span = self._tracer.start_span(group.hold, kind=SpanKind.INTERNAL)
        if not span.is_recording():
            return None
        span.set_attributes(_described(event, group))
        return span

    def hold_ended(
        self,
        group: _Group,
        noted: Span | None,
        *,
        error: str | None = None,
        text: str | None = None,
        at: float | None = None,
    ) -> None:
        if noted is None:
            return
        if error is not None:
            noted.set_attribute("error.type", error)
            noted.set_status(Status(StatusCode.ERROR, text))
        noted.end(None if at is None else time.time_ns() - int((time.monotonic() - at) * NS))

    def wait_ended(self, event: events.WaitEnded, group: _Group) -> None:
        start = time.time_ns() - int(event.waited * NS)
        span = self._tracer.start_span(group.wait, kind=SpanKind.CLIENT, start_time=start)
        if span.is_recording():
            span.set_attributes(_described(event, group))
            span.set_attribute("pyredisson.lock.acquired", event.acquired)
            span.end()


def _observed(
    lasting: Callable[[], Mapping[_Group, list[float]]], value_of: Callable[[list[float]], float]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """Return the callback that observes holds or waits, by group."""
    return lambda _: [Observation(value_of(lasted), group.attributes) for group, lasted in lasting().items()]


def _described(event: events.LockEvent, group: _Group) -> dict[str, str]:
    return {
        "db.system.name": "redis",
        "pyredisson.lock.name": event.name,
        "pyredisson.lock.owner": event.owner,
        "thread.name": threading.current_thread().name,
        **group.attributes,
    }
