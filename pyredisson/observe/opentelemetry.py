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
from typing import TYPE_CHECKING, NamedTuple, final

from pyredisson import __version__, events
from pyredisson._shared.arguments import Extra
from pyredisson.observe import _metrics
from pyredisson.observe._metrics import MAX_LABELS, Entries, Label, PerLabel

with Extra("opentelemetry"):
    from opentelemetry import metrics as otel_metrics
    from opentelemetry import trace
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

__all__ = ["OpenTelemetryListener"]

#: The values of ``error.type``.
LOST = "pyredisson.errors.LockLostError"
UNKNOWN = "pyredisson.errors.OutcomeUnknownError"
HOLDER_GONE = "holder_gone"

NS = 1_000_000_000


class _Group(NamedTuple):
    """The locks with one label: their attributes, and the names of their spans."""

    attributes: Mapping[str, str]
    wait: str
    hold: str


class _HoldOf(NamedTuple):
    """A hold: its group, and its span if that is recorded."""

    group: _Group
    span: Span | None


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
        self._by_label: PerLabel[_Group] = PerLabel(label, max_labels, _group_of)
        self._holds: Entries[_HoldOf] = Entries(lambda hold, until: _end(hold, at=until))
        self._waits: Entries[_Group] = Entries()
        self._tracer = trace.get_tracer("pyredisson", __version__, tracer_provider)
        meter = otel_metrics.get_meter("pyredisson", __version__, meter_provider)
        self._metrics = _Instruments(meter)
        _observe(meter, "hold", "{lock}", "holds", self._lasting_holds, self._by_label.used)
        _observe(meter, "wait", "{call}", "waiters", self._waits.now, self._by_label.used)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, event: events.Event) -> None:
        """Record an event."""
        if isinstance(event, events.LockEvent):
            self._record_lock_event(event, self._by_label.of(event.name))
        else:
            self._record_client_event(event)

    def _record_lock_event(self, event: events.LockEvent, group: _Group) -> None:
        metrics, key = self._metrics, (event.name, event.owner)
        match event:
            case events.Acquired(holds=0 | 1 as holds, waited=waited):
                metrics.acquisitions.add(1, group.attributes)
                metrics.waits.record(waited, group.attributes)
                if holds:  # There are none of permits, whose release emits nothing.
                    hold = _HoldOf(group, self._start_hold(event, group))
                    _end(self._holds.begin(key, event.lease, hold))
            case events.Released(holds=0, held=held):
                metrics.holds.record(held, group.attributes)
                _end(self._holds.end(key))
            case events.TimedOut(waited=waited):
                metrics.timeouts.add(1, group.attributes)
                metrics.failed("timeout", waited, group.attributes)
            case events.AcquireFailed(waited=waited, reason=reason):
                metrics.failed(reason, waited, group.attributes)
            case events.WaitBegan():
                self._waits.begin(key, None, group)
            case events.WaitEnded():
                self._waits.end(key)
                self._trace_wait(event, group)
            case events.Lost(reason=reason):
                _end(self._holds.end(key), error=LOST, text=reason)
            case events.OutcomeUnknown(request="an unlock", error=error):
                _end(self._holds.end(key), error=UNKNOWN, text=str(error))
            case events.GivenBack():
                _end(self._holds.end(key), error=UNKNOWN)
            case events.HolderGone(hint=hint):
                _end(self._holds.end(key), error=HOLDER_GONE, text=hint)
        metrics.count(event, group.attributes)

    def _record_client_event(self, event: events.Event) -> None:
        if isinstance(event, events.ClientCollected):
            for hold in self._holds.end_all(event.client_id):
                _end(hold, error=HOLDER_GONE, text="its client was garbage-collected")
        self._metrics.count(event)

    def _lasting_holds(self) -> list[tuple[float, _Group]]:
        return [(seconds, hold.group) for seconds, hold in self._holds.now()]

    # ---- spans ---------------------------------------------------------------------------------------------------

    def _start_hold(self, event: events.Acquired, group: _Group) -> Span | None:
        span = self._tracer.start_span(group.hold, kind=SpanKind.INTERNAL)
        if not span.is_recording():
            return None
        span.set_attributes(_described(event, group))
        return span

    def _trace_wait(self, event: events.WaitEnded, group: _Group) -> None:
        start = time.time_ns() - int(event.waited * NS)
        span = self._tracer.start_span(group.wait, kind=SpanKind.CLIENT, start_time=start)
        if span.is_recording():
            span.set_attributes(_described(event, group))
            span.set_attribute("pyredisson.lock.acquired", event.acquired)
            span.end()


class _Instruments:
    """The instruments of one listener that count and record."""

    def __init__(self, meter: Meter) -> None:
        def counter(metric: _metrics.Metric, of: str = "lock.") -> otel_metrics.Counter:
            return meter.create_counter(f"pyredisson.{of}{metric.name}", metric.unit, metric.text)

        def histogram(metric: _metrics.Metric) -> otel_metrics.Histogram:
            name = f"pyredisson.lock.{metric.name}.duration"
            # An advice: a view of the application's takes precedence.
            return meter.create_histogram(
                name, metric.unit, metric.text, explicit_bucket_boundaries_advisory=_metrics.BUCKETS
            )

        self.acquisitions, self.timeouts = counter(_metrics.ACQUISITIONS), counter(_metrics.TIMEOUTS)
        self._failures, self._events = counter(_metrics.FAILURES), counter(_metrics.EVENTS, "")
        self._counters = {
            **{kind: counter(metric) for kind, metric in _metrics.OF_LOCKS.items()},
            **{kind: counter(metric, "") for kind, metric in _metrics.OF_CLIENTS.items()},
        }
        self.waits, self.holds = histogram(_metrics.WAIT), histogram(_metrics.HOLD)

    def failed(self, reason: str, waited: float, attributes: Mapping[str, str]) -> None:
        """Record an acquire that ended without the lock."""
        self._failures.add(1, {**attributes, "error.type": reason})
        self.waits.record(waited, attributes)

    def count(self, event: events.Event, attributes: Mapping[str, str] | None = None) -> None:
        """Count an event, also one that has no metric of its own."""
        kind = type(event)
        if (counter := self._counters.get(kind)) is not None:
            if number := _metrics.count_of(event):
                counter.add(number, attributes)
        elif kind not in _metrics.UNCOUNTED:
            self._events.add(1, {"pyredisson.event": kind.__name__})


def _observe(
    meter: Meter,
    what: str,
    unit: str,
    plural: str,
    lasting: Callable[[], list[tuple[float, _Group]]],
    groups: Callable[[], list[_Group]],
) -> None:
    """Make the instruments of what lasts now: their number, and the longest."""

    def by_group() -> list[tuple[_Group, list[float]]]:
        found: dict[str, tuple[_Group, list[float]]] = {group.hold: (group, []) for group in groups()}
        for seconds, group in lasting():
            found.setdefault(group.hold, (group, []))[1].append(seconds)
        return list(found.values())

    def count(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(len(lasted), group.attributes) for group, lasted in by_group()]

    def longest(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(max(lasted, default=0.0), group.attributes) for group, lasted in by_group()]

    meter.create_observable_up_down_counter(f"pyredisson.lock.{plural}", [count], unit, f"The present {plural}.")
    meter.create_observable_gauge(
        f"pyredisson.lock.{what}.longest", [longest], "s", f"For how long the longest present {what} has lasted."
    )


def _group_of(label: str | None) -> _Group:
    if label is None:
        return _Group({}, "lock.wait", "lock.hold")
    return _Group({"pyredisson.lock.label": label}, f"lock.wait {label}", f"lock.hold {label}")


def _described(event: events.LockEvent, group: _Group) -> dict[str, str]:
    return {
        "db.system.name": "redis",
        "pyredisson.lock.name": event.name,
        "pyredisson.lock.owner": event.owner,
        "thread.name": threading.current_thread().name,
        **group.attributes,
    }


def _end(hold: _HoldOf | None, *, error: str | None = None, text: str | None = None, at: float | None = None) -> None:
    """End the span of a hold, if there is one.

    Args:
        hold: The hold.
        error: The value of ``error.type``; ``None``: it was released, or its lease has ended.
        text: What is reported of the error.
        at: When it ended, by ``time.monotonic()``. ``None``: now.
    """
    if hold is None or hold.span is None:
        return
    if error is not None:
        hold.span.set_attribute("error.type", error)
        hold.span.set_status(Status(StatusCode.ERROR, text))
    hold.span.end(None if at is None else time.time_ns() - int((time.monotonic() - at) * NS))
