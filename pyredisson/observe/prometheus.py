"""Metrics of a client for Prometheus. Needs ``pyredisson[prometheus]``.

.. code-block:: python

    from pyredisson import Config, Redisson
    from pyredisson.observe.prometheus import PrometheusListener

    listener = PrometheusListener()
    client = Redisson.from_url("redis://localhost", config=Config(listeners=(listener,)))

The metrics are those of the clients that the listener is given to; ``pyredisson metrics`` exports those of a server. A
nested acquire or release is not counted: only the first hold of an owner, and its last release.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, final

from pyredisson import events
from pyredisson._core.failures import REASONS
from pyredisson._shared.extras import Extra
from pyredisson.events import Acquired, Released
from pyredisson.observe._metrics import BUFFER, MAX_LABELS, Computed, Entries, Frequent, Label, PerLabel, Shared

with Extra("prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter

__all__ = ["BUCKETS", "PrometheusListener"]

#: The upper bounds of the histograms, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

#: Events that are counted by metrics of their own, or by none; all others are counted by their class.
OWN = frozenset(
    {
        *("Event", "LockEvent", "Acquired", "Released", "TimedOut", "AcquireFailed", "WaitBegan", "WaitEnded", "Lost"),
        *("OutcomeUnknown", "GivenBack", "Renewed", "RenewalFailed", "WatchdogLate", "ConnectionDown", "ConnectionUp"),
    }
)


@final
class PrometheusListener:
    """A listener for ``Config.listeners`` that turns events into metrics for Prometheus.

    One listener may serve any number of clients, for threads and for asyncio.

    In the multiprocess mode of ``prometheus_client`` (``PROMETHEUS_MULTIPROC_DIR``) all metrics work but the two of the
    longest hold and wait, which are left out: they are computed when they are read, and the process that is asked does
    not know the others. In that mode an acquire and release take some microseconds more.

    Args:
        registry: Where the metrics are registered.
        label: Returns the label ``lock`` of a lock, given its name, such as ``lambda name: name.split(":")[0]``. It
            has to return the same label for a name each time. ``None``: there is no such label.
        max_labels: The number of different labels; all later ones count as ``"other"``. Each takes about 60 time
            series.
        buckets: The upper bounds of the histograms, in seconds.

    Raises:
        ValueError: The registry has such metrics already, or ``max_labels`` is less than 1.
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self,
        registry: CollectorRegistry = REGISTRY,
        *,
        label: Label | None = None,
        max_labels: int = MAX_LABELS,
        buckets: Sequence[float] = BUCKETS,
    ) -> None:
        names = () if label is None else ("lock",)
        bounds = tuple(sorted(float(bound) for bound in buckets if bound < math.inf))
        self._counters = _Counters(names, registry)
        self._holds: Entries[_LockMetrics] = Entries(lambda metrics, _: metrics.hold_ended())
        self._waits: Entries[_LockMetrics] = Entries()
        self._held = self._holds.all
        self._shared = "PROMETHEUS_MULTIPROC_DIR" in os.environ
        frequent = (
            Shared(names, registry, bounds) if self._shared else Computed(names, bounds, self._holds, self._waits)
        )
        self._by_label: PerLabel[_LockMetrics] = PerLabel(
            label, max_labels, lambda value: _LockMetrics(self._counters, frequent.of_label(value), value)
        )
        self._all, self._by_name = self._by_label.single, self._by_label.by_name
        if isinstance(frequent, Computed):
            registry.register(frequent)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        # These two come first, with the fewest steps: each acquire and release emits them.
        kind = type(event)
        if kind is Acquired:
            if TYPE_CHECKING:
                assert isinstance(event, Acquired)
            if event.holds == 1:
                metrics = self._all or self._by_name.get(event.name) or self._by_label.of(event.name)
                metrics.acquired(event.waited)
                if self._shared:
                    if self._holds.begin((event.name, event.owner), event.lease, metrics) is None:
                        metrics.hold_began()
                else:
                    self._held[event.name, event.owner] = (monotonic(), event.lease, metrics)
                    if len(metrics.unsorted) >= BUFFER:
                        metrics.sort()
                        self._holds.sweep_if_many()
            elif not event.holds:
                self._count_permits(event)
        elif kind is Released:
            if TYPE_CHECKING:
                assert isinstance(event, Released)
            if event.holds == 0:
                metrics = self._all or self._by_name.get(event.name) or self._by_label.of(event.name)
                metrics.held(event.held)
                if self._held.pop((event.name, event.owner), None) is not None and self._shared:
                    metrics.hold_ended()
        elif isinstance(event, events.LockEvent):
            self._count_lock_event(event)
        else:
            self._count_client_event(event)

    def _count_permits(self, event: Acquired) -> None:
        """Count an acquire of permits, whose hold is not measured: their release emits nothing."""
        metrics = self._all or self._by_label.of(event.name)
        metrics.acquired(event.waited)
        if len(metrics.unsorted) >= BUFFER:
            metrics.sort()

    def _count_lock_event(self, event: events.LockEvent) -> None:
        metrics = self._all or self._by_label.of(event.name)
        key = (event.name, event.owner)
        match event:
            case events.TimedOut(waited=waited):
                metrics.timed_out(waited)
                metrics.failures["timeout"]()
            case events.AcquireFailed(waited=waited, reason=reason):
                metrics.failed(waited)
                metrics.failures[reason]()
            case events.WaitBegan():
                metrics.contended()
                if self._waits.begin(key, None, metrics) is None:
                    metrics.wait_began()
            case events.WaitEnded():
                if self._waits.end(key) is not None:
                    metrics.wait_ended()
            case events.Lost():
                metrics.lost()
                self._end_hold(key)
            case events.OutcomeUnknown(request=request):
                metrics.unknown()
                if request == "an unlock":
                    self._end_hold(key)
            case events.GivenBack():
                metrics.settled()
                self._end_hold(key)
            case _:
                if isinstance(event, events.HolderGone):
                    self._end_hold(key)
                self._counters.count(event)

    def _count_client_event(self, event: events.Event) -> None:
        counters = self._counters
        match event:
            case events.Renewed(locks=locks):
                counters.renewals.inc(locks)
            case events.RenewalFailed():
                counters.renewal_failures.inc()
            case events.WatchdogLate():
                counters.watchdog_late.inc()
            case events.ConnectionDown(attempt=1):
                counters.connection_downs.inc()
            case events.ConnectionDown() | events.ConnectionUp():
                pass
            case _:
                if isinstance(event, events.ClientCollected):
                    for metrics in self._holds.end_all(event.client_id):
                        metrics.hold_ended()
                counters.count(event)

    def _end_hold(self, key: tuple[str, str]) -> None:
        metrics = self._holds.end(key)
        if metrics is not None:
            metrics.hold_ended()


class _Counters:
    """The counters of what is out of the ordinary."""

    def __init__(self, names: Sequence[str], registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, names: Sequence[str] = names) -> Counter:
            return Counter(f"pyredisson_{name}", text, names, registry=registry)

        try:
            self.contentions = counter("contentions", "Acquires that had to wait.")
        except ValueError as error:
            raise ValueError(
                "this registry has the metrics of another PrometheusListener: pass that one to each client"
            ) from error
        self.failures = counter("failures", "Acquires that ended without the lock, by the reason.", (*names, "reason"))
        self.losses = counter("losses", "Locks lost by their holder before it released them.")
        self.unknown = counter("outcomes_unknown", "Requests whose outcome could not be determined in time.")
        self.settled = counter("settled", "Unanswered acquires that were settled: what they had acquired was released.")
        self.renewals = counter("renewals", "Leases renewed by the watchdog.", ())
        self.renewal_failures = counter("renewal_failures", "Renewals that were not answered.", ())
        self.watchdog_late = counter("watchdog_late", "Watchdogs that ran late.", ())
        self.connection_downs = counter("connection_downs", "Connections of the subscriber that were lost.", ())
        self._others = counter("events", "Events that have no metric of their own, by their class.", ("event",))
        for name in sorted(set(events.__all__) - OWN):
            self._others.labels(name)  # They begin with 0: a time series that begins with 1 has not increased.

    def count(self, event: events.Event) -> None:
        """Count an event that has no metric of its own."""
        self._others.labels(type(event).__name__).inc()


class _LockMetrics:
    """The metrics of the locks with one label, as functions that are ready to be called."""

    def __init__(self, counters: _Counters, frequent: Frequent, label: str | None) -> None:
        self.label = label
        self.acquired, self.timed_out, self.held = frequent.acquired, frequent.timed_out, frequent.held
        self.failed = frequent.failed
        labels = () if label is None else (label,)
        # All begin with 0, as the counters of events.
        self.failures = {reason: counters.failures.labels(*labels, reason).inc for reason in REASONS}
        self.unsorted, self.sort = frequent.unsorted, frequent.sort
        self.hold_began, self.hold_ended = frequent.hold_began, frequent.hold_ended
        self.wait_began, self.wait_ended = frequent.wait_began, frequent.wait_ended
        self.contended, self.lost, self.unknown, self.settled = (
            (counter if label is None else counter.labels(label)).inc
            for counter in (counters.contentions, counters.losses, counters.unknown, counters.settled)
        )
