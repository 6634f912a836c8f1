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
from pyredisson._shared.extras import Extra
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

#: Advice for the boundaries of the histograms, in seconds; a view of the application's takes precedence.
BOUNDARIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

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
        self._all = self._by_label.single
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
            self._record_lock_event(event, self._all or self._by_label.of(event.name))
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
            case events.Acquired() | events.Released():
                pass  # A nested hold.
            case events.TimedOut(waited=waited):
                metrics.timeouts.add(1, group.attributes)
                metrics.failed("timeout", waited, group.attributes)
            case events.AcquireFailed(waited=waited, reason=reason):
                metrics.failed(reason, waited, group.attributes)
            case events.WaitBegan():
                metrics.contentions.add(1, group.attributes)
                self._waits.begin(key, None, group)
            case events.WaitEnded():
                self._waits.end(key)
                self._trace_wait(event, group)
            case events.Lost(reason=reason):
                metrics.losses.add(1, group.attributes)
                _end(self._holds.end(key), error=LOST, text=reason)
            case events.OutcomeUnknown(request=request, error=error):
                metrics.unknown.add(1, group.attributes)
                if request == "an unlock":
                    _end(self._holds.end(key), error=UNKNOWN, text=str(error))
            case events.GivenBack():
                metrics.settled.add(1, group.attributes)
                _end(self._holds.end(key), error=UNKNOWN)
            case _:
                if isinstance(event, events.HolderGone):
                    _end(self._holds.end(key), error=HOLDER_GONE, text=event.hint)
                metrics.count(event)

    def _record_client_event(self, event: events.Event) -> None:
        metrics = self._metrics
        match event:
            case events.Renewed(locks=locks):
                metrics.renewals.add(locks)
            case events.RenewalFailed():
                metrics.renewal_failures.add(1)
            case events.WatchdogLate():
                metrics.watchdog_late.add(1)
            case events.ConnectionDown(attempt=1):
                metrics.connection_downs.add(1)
            case events.ConnectionDown() | events.ConnectionUp():
                pass
            case _:
                if isinstance(event, events.ClientCollected):
                    for hold in self._holds.end_all(event.client_id):
                        _end(hold, error=HOLDER_GONE, text="its client was garbage-collected")
                metrics.count(event)

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
        def counter(name: str, unit: str, text: str) -> otel_metrics.Counter:
            return meter.create_counter(f"pyredisson.{name}", unit, text)

        def histogram(name: str, text: str) -> otel_metrics.Histogram:
            return meter.create_histogram(
                f"pyredisson.lock.{name}.duration", "s", text, explicit_bucket_boundaries_advisory=BOUNDARIES
            )

        self.acquisitions = counter("lock.acquisitions", "{acquisition}", "Locks acquired.")
        self.timeouts = counter("lock.timeouts", "{call}", "Acquires refused, or not granted in time.")
        self.contentions = counter("lock.contentions", "{call}", "Acquires that had to wait.")
        self.failures = counter("lock.failures", "{call}", "Acquires that ended without the lock, by the reason.")
        self.losses = counter("lock.losses", "{lock}", "Locks lost by their holder before it released them.")
        self.unknown = counter("lock.outcomes_unknown", "{request}", "Requests whose outcome is unknown.")
        self.settled = counter("lock.settled", "{request}", "Unanswered acquires that were settled.")
        self.renewals = counter("renewals", "{lock}", "Leases renewed by the watchdog.")
        self.renewal_failures = counter("renewal_failures", "{request}", "Renewals that were not answered.")
        self.watchdog_late = counter("watchdog_late", "{watchdog}", "Watchdogs that ran late.")
        self.connection_downs = counter("connection_downs", "{connection}", "Connections of the subscriber lost.")
        self._events = counter("events", "{event}", "Events that have no metric of their own, by their class.")
        self.waits = histogram(
            "wait", "Time from the call of an acquire until it succeeded, or failed for whatever reason."
        )
        self.holds = histogram("hold", "Time for which a lock was held.")

    def failed(self, reason: str, waited: float, attributes: Mapping[str, str]) -> None:
        """Record an acquire that ended without the lock."""
        self.failures.add(1, {**attributes, "error.type": reason})
        self.waits.record(waited, attributes)

    def count(self, event: events.Event) -> None:
        """Count an event that has no metric of its own."""
        self._events.add(1, {"pyredisson.event": type(event).__name__})


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
