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
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, final

from pyredisson import events
from pyredisson._core.failures import REASONS
from pyredisson._shared.arguments import Extra
from pyredisson.observe import _metrics
from pyredisson.observe._metrics import BUCKETS, MAX_LABELS, Entries, Label, PerLabel

with Extra("prometheus"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

__all__ = ["BUCKETS", "PrometheusListener"]

#: The names of metrics that are called otherwise for OpenTelemetry, and of gauges, which it makes by itself.
WAIT = ("wait_seconds", _metrics.WAIT.text)
HOLD = ("hold_seconds", _metrics.HOLD.text)
HOLDS = ("holds", "Locks held now by the clients of this process.")
WAITERS = ("waiters", "Calls that wait for a lock now.")
LONGEST_HOLD = ("longest_hold_seconds", "For how long the longest of the present holds has lasted.")
LONGEST_WAIT = ("longest_wait_seconds", "For how long the longest of the present waits has lasted.")


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
        self._holds: Entries[_OfLabel] = Entries(lambda metrics, _: metrics.hold_ended())
        self._waits: Entries[_OfLabel] = Entries()
        frequent = (
            _Shared(self._counters, registry, bounds)
            if "PROMETHEUS_MULTIPROC_DIR" in os.environ
            else _Computed(self._counters, registry, bounds, self._holds, self._waits)
        )
        self._by_label: PerLabel[_OfLabel] = PerLabel(label, max_labels, frequent.of_label)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        if isinstance(event, events.LockEvent):
            self._count_lock_event(event, self._by_label.of(event.name))
        else:
            self._count_client_event(event)

    def _count_lock_event(self, event: events.LockEvent, metrics: _OfLabel) -> None:
        key = (event.name, event.owner)
        match event:
            case events.Acquired(holds=0 | 1 as holds, waited=waited):
                metrics.acquired(waited)
                if holds and self._holds.begin(key, event.lease, metrics) is None:  # The end of permits emits nothing.
                    metrics.hold_began()
                return  # It and the next are the frequent ones, and have no counter.
            case events.Released(holds=0, held=seconds):
                metrics.held(seconds)
                self._end_hold(key)
                return
            case events.TimedOut(waited=waited):
                metrics.timed_out(waited)
                metrics.failures["timeout"]()
            case events.AcquireFailed(waited=waited, reason=reason):
                metrics.failed(waited)
                metrics.failures[reason]()
            case events.WaitBegan():
                if self._waits.begin(key, None, metrics) is None:
                    metrics.wait_began()
            case events.WaitEnded():
                if self._waits.end(key) is not None:
                    metrics.wait_ended()
            case events.Lost() | events.OutcomeUnknown(request="an unlock") | events.GivenBack() | events.HolderGone():
                self._end_hold(key)
        if (counter := metrics.counters.get(type(event))) is not None:
            counter()
        else:
            self._counters.count(event)

    def _end_hold(self, key: tuple[str, str]) -> None:
        if (metrics := self._holds.end(key)) is not None:
            metrics.hold_ended()

    def _count_client_event(self, event: events.Event) -> None:
        if isinstance(event, events.ClientCollected):
            for metrics in self._holds.end_all(event.client_id):
                metrics.hold_ended()
        self._counters.count(event)


def _of(metric: Any, label: str | None) -> Any:
    """Return the metric of a label, if there are labels."""
    return metric if label is None else metric.labels(label)


class _Counters:
    """The counters of what is out of the ordinary.

    Attributes:
        names: The names of the labels.
    """

    def __init__(self, names: Sequence[str], registry: CollectorRegistry) -> None:
        self.names = names

        def counter(metric: _metrics.Metric, *labels: str) -> Counter:
            return Counter(f"pyredisson_{metric.name}", metric.text, labels, registry=registry)

        try:
            self._of_locks = {kind: counter(metric, *names) for kind, metric in _metrics.OF_LOCKS.items()}
        except ValueError as error:
            raise ValueError(
                "this registry has the metrics of another PrometheusListener: pass that one to each client"
            ) from error
        self._failures = counter(_metrics.FAILURES, *names, "reason")
        self._of_clients = {kind: counter(metric) for kind, metric in _metrics.OF_CLIENTS.items()}
        self._others = counter(_metrics.EVENTS, "event")
        counted = {*self._of_locks, *self._of_clients, *_metrics.UNCOUNTED, events.Event, events.LockEvent}
        for name in sorted(set(events.__all__) - {kind.__name__ for kind in counted}):
            self._others.labels(name)  # They begin with 0: a time series that begins with 1 has not increased.

    def of_label(self, label: str | None) -> tuple[Mapping[type[events.Event], _Count], Mapping[str, _Count]]:
        """Return what counts the events of locks with a label, by their class, and failed acquires, by the reason."""
        labels = () if label is None else (label,)
        # All begin with 0, as the counters of events.
        failures = {reason: self._failures.labels(*labels, reason).inc for reason in REASONS}
        return {kind: _of(counter, label).inc for kind, counter in self._of_locks.items()}, failures

    def count(self, event: events.Event) -> None:
        """Count an event that has no counter for each lock."""
        kind = type(event)
        if (counter := self._of_clients.get(kind)) is not None:
            counter.inc(_metrics.count_of(event))
        elif kind not in _metrics.UNCOUNTED:
            self._others.labels(kind.__name__).inc()


_Count = Callable[[], object]


def _nothing() -> None:
    """Do nothing: the gauges are computed when they are read."""


class _OfLabel(NamedTuple):
    """The metrics of the locks with one label: what to call when something happens to one."""

    label: str | None
    counters: Mapping[type[events.Event], _Count]
    failures: Mapping[str, _Count]
    acquired: Callable[[float], object]
    timed_out: Callable[[float], object]
    held: Callable[[float], object]
    failed: Callable[[float], object]
    hold_began: _Count = _nothing
    hold_ended: _Count = _nothing
    wait_began: _Count = _nothing
    wait_ended: _Count = _nothing


class _Computed:
    """A collector that computes these metrics when it is read, so that an acquire has little to do.

    Args:
        counters: The other metrics.
        registry: Where it is registered.
        bounds: The upper bounds of the histograms, in seconds.
        holds: What is held now.
        waits: The waits in progress.
    """

    def __init__(
        self,
        counters: _Counters,
        registry: CollectorRegistry,
        bounds: Sequence[float],
        holds: Entries[_OfLabel],
        waits: Entries[_OfLabel],
    ) -> None:
        self._counters = counters
        self._bounds = bounds
        self._buckets = [*map(str, bounds), "+Inf"]
        self._holds, self._waits = holds, waits
        self._histograms: dict[str | None, Sequence[BufferedHistogram]] = {}
        registry.register(self)

    def of_label(self, label: str | None) -> _OfLabel:
        """Return what to call for a lock with this label."""
        acquired, timed_out, held, failed = histograms = [BufferedHistogram(self._bounds) for _ in range(4)]
        self._histograms[label] = histograms
        counters = self._counters.of_label(label)
        return _OfLabel(label, *counters, acquired.add, timed_out.add, held.add, failed.add)

    def describe(self) -> list[Any]:
        """Return the metrics without values: a registry wants to know their names."""
        return [
            *(
                self._family(CounterMetricFamily, each[0], each[-1])
                for each in (_metrics.ACQUISITIONS, _metrics.TIMEOUTS)
            ),
            *(self._family(HistogramMetricFamily, *each) for each in (WAIT, HOLD)),
            *(self._family(GaugeMetricFamily, *each) for each in (HOLDS, LONGEST_HOLD, WAITERS, LONGEST_WAIT)),
        ]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        acquisitions, timeouts, wait, hold, *present = families = self.describe()
        for label, histograms in self._histograms.copy().items():
            values = [] if label is None else [label]
            acquired, timed_out, held, failed = (each.totals() for each in histograms)
            acquisitions.add_metric(values, sum(acquired.counts))
            timeouts.add_metric(values, sum(timed_out.counts))
            wait.add_metric(values, *self._cumulative(acquired, timed_out, failed))
            hold.add_metric(values, *self._cumulative(held))
        for entries, numbers, maxima in zip((self._holds, self._waits), present[::2], present[1::2], strict=True):
            lasting: dict[str | None, list[float]] = defaultdict(list)
            for seconds, metrics in entries.now():
                lasting[metrics.label].append(seconds)
            for label in self._histograms.copy():
                values = [] if label is None else [label]
                numbers.add_metric(values, len(lasting[label]))
                maxima.add_metric(values, max(lasting[label], default=0.0))
        return families

    def _cumulative(self, *totals: Totals) -> tuple[list[tuple[str, int]], float]:
        """Return the buckets and the sum of several histograms as one, as Prometheus has them."""
        counts = map(sum, zip(*(each.counts for each in totals), strict=True))
        return list(zip(self._buckets, accumulate(counts), strict=True)), sum(each.sum for each in totals)

    def _family(self, make: Callable[..., object], name: str, text: str) -> object:
        return make(f"pyredisson_{name}", text, labels=self._counters.names)


class _Shared:
    """The same metrics as ``prometheus_client`` shares them between processes, in its multiprocess mode.

    Args:
        counters: The other metrics.
        registry: Where the metrics are registered.
        bounds: The upper bounds of the histograms, in seconds.
    """

    def __init__(self, counters: _Counters, registry: CollectorRegistry, bounds: Sequence[float]) -> None:
        def named(name: str, text: str) -> tuple[str, str, Sequence[str]]:
            return f"pyredisson_{name}", text, counters.names

        self._counters = counters
        self._acquisitions, self._timeouts = (
            Counter(*named(each.name, each.text), registry=registry)
            for each in (_metrics.ACQUISITIONS, _metrics.TIMEOUTS)
        )
        self._wait, self._hold = (Histogram(*named(*each), registry=registry, buckets=bounds) for each in (WAIT, HOLD))
        self._holds, self._waiters = (
            Gauge(*named(*each), registry=registry, multiprocess_mode="livesum") for each in (HOLDS, WAITERS)
        )

    def of_label(self, label: str | None) -> _OfLabel:
        """Return what to call for a lock with this label."""
        wait, hold = _of(self._wait, label).observe, _of(self._hold, label).observe
        holds, waiters = _of(self._holds, label), _of(self._waiters, label)

        def counted(counter: Counter) -> Callable[[float], None]:
            count = _of(counter, label).inc

            def note(waited: float) -> None:
                count()
                wait(waited)

            return note

        return _OfLabel(
            label,
            *self._counters.of_label(label),
            counted(self._acquisitions),
            counted(self._timeouts),
            hold,
            wait,
            hold_began=holds.inc,
            hold_ended=holds.dec,
            wait_began=waiters.inc,
            wait_ended=waiters.dec,
        )


# ---- histogram -------------------------------------------------------------------------------------------------------
# A histogram that is cheap to add to: values are sorted into its buckets later, when it is read.


#: How many values wait to be sorted at most.
BUFFER = 512


class Totals(NamedTuple):
    """What a histogram holds: the number of values in each bucket, the last one above all bounds; and their sum."""

    counts: list[int]
    sum: float


class BufferedHistogram:
    """A histogram to which an acquire adds a value by appending to a list.

    That needs no mutex, where ``prometheus_client`` needs two.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._values: list[float] = []
        self._mutex = threading.Lock()

    def add(self, value: float) -> None:
        """Add a value, and sort them if they are many."""
        self._values.append(value)
        if len(self._values) >= BUFFER:
            self.sort()

    def sort(self) -> None:
        """Sort the values into the buckets, unless that is being done."""
        if self._mutex.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._mutex.release()

    def totals(self) -> Totals:
        """Return the numbers and the sum of all values."""
        with self._mutex:
            self._sort()
            return Totals(list(self._counts), self._sum)

    def _sort(self) -> None:
        # Others may append meanwhile, to the end; only the holder of the mutex removes.
        values = self._values[:]
        del self._values[: len(values)]
        for value in values:
            self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += sum(values)
