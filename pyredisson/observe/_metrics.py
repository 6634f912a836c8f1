"""The metrics of what each acquire and release does: computed when they are read, or shared by several processes."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from pyredisson._shared.extras import Extra

with Extra("prometheus"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

ACQUISITIONS = ("acquisitions", "Locks acquired, and acquires of permits.")
TIMEOUTS = ("timeouts", "Acquires refused, or not granted in time.")
WAIT = ("wait_seconds", "Time from the call of an acquire until it succeeded, or failed for whatever reason.")
HOLD = ("hold_seconds", "Time for which a lock was held.")
HOLDS = ("holds", "Locks held now by the clients of this process.")
WAITERS = ("waiters", "Calls that wait for a lock now.")
LONGEST_HOLD = ("longest_hold_seconds", "For how long the longest of the present holds has lasted.")
LONGEST_WAIT = ("longest_wait_seconds", "For how long the longest of the present waits has lasted.")


class Labelled(Protocol):
    """What belongs to one label."""

    label: str | None


Entry = TypeVar("Entry", bound=Labelled)


def _nothing() -> None:
    """Do nothing: the gauges are computed when they are read."""


class Frequent(NamedTuple):
    """What to call when something happens to a lock with one label."""

    acquired: Callable[[float], object]
    timed_out: Callable[[float], object]
    held: Callable[[float], object]
    failed: Callable[[float], object]
    #: Values that wait to be sorted by the function below, which is called when there are many.
    unsorted: Sequence[float] = ()
    sort: Callable[[], object] = _nothing
    hold_began: Callable[[], object] = _nothing
    hold_ended: Callable[[], object] = _nothing
    wait_began: Callable[[], object] = _nothing
    wait_ended: Callable[[], object] = _nothing


class _Histograms(NamedTuple):
    acquired: BufferedHistogram
    timed_out: BufferedHistogram
    held: BufferedHistogram
    failed: BufferedHistogram

    def time_out(self, waited: float) -> None:
        """Note that an acquire timed out."""
        self._add(self.timed_out, waited)

    def fail(self, waited: float) -> None:
        """Note that an acquire ended with an error."""
        self._add(self.failed, waited)

    def _add(self, histogram: BufferedHistogram, waited: float) -> None:
        histogram.add(waited)
        if len(histogram.values) >= BUFFER:
            self.sort()

    def sort(self) -> None:
        """Sort the values of all into their buckets."""
        for each in self:
            each.sort()


class Computed:
    """A collector that computes these metrics when it is read, so that an acquire has little to do.

    Args:
        names: The names of the labels.
        bounds: The upper bounds of the histograms, in seconds.
        holds: What is held now.
        waits: The waits in progress.
    """

    def __init__(
        self, names: Sequence[str], bounds: Sequence[float], holds: Entries[Entry], waits: Entries[Entry]
    ) -> None:
        self._names = names
        self._bounds = bounds
        self._buckets = [*map(str, bounds), "+Inf"]
        self._lasting: Callable[[], tuple[Lasting, Lasting]] = lambda: (_by_label(holds), _by_label(waits))
        self._histograms: dict[str | None, _Histograms] = {}

    def of_label(self, label: str | None) -> Frequent:
        """Return what to call for a lock with this label."""
        histograms = _Histograms(*(BufferedHistogram(self._bounds) for _ in range(4)))
        self._histograms[label] = histograms
        acquired, _, held, _ = histograms
        return Frequent(acquired.add, histograms.time_out, held.add, histograms.fail, acquired.values, histograms.sort)

    def describe(self) -> list[Any]:
        """Return the metrics without values: a registry wants to know their names."""
        return [
            *(self._family(CounterMetricFamily, each) for each in (ACQUISITIONS, TIMEOUTS)),
            *(self._family(HistogramMetricFamily, each) for each in (WAIT, HOLD)),
            *(self._family(GaugeMetricFamily, each) for each in (HOLDS, LONGEST_HOLD, WAITERS, LONGEST_WAIT)),
        ]

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        acquisitions, timeouts, wait, hold, *present = families = self.describe()
        for label, histograms in self._histograms.copy().items():
            values = [] if label is None else [label]
            acquired, timed_out = histograms.acquired.totals(), histograms.timed_out.totals()
            acquisitions.add_metric(values, sum(acquired.counts))
            timeouts.add_metric(values, sum(timed_out.counts))
            ended = acquired.plus(timed_out).plus(histograms.failed.totals())
            wait.add_metric(values, *self._cumulative(ended))
            hold.add_metric(values, *self._cumulative(histograms.held.totals()))
        for lasting, numbers, maxima in zip(self._lasting(), present[::2], present[1::2], strict=True):
            for label in self._histograms.copy():
                values = [] if label is None else [label]
                numbers.add_metric(values, len(lasting.get(label, ())))
                maxima.add_metric(values, max(lasting.get(label, ()), default=0.0))
        return families

    def _cumulative(self, totals: Totals) -> tuple[list[tuple[str, int]], float]:
        return list(zip(self._buckets, accumulate(totals.counts), strict=True)), totals.sum

    def _family(self, make: Callable[..., object], metric: tuple[str, str]) -> object:
        name, text = metric
        return make(f"pyredisson_{name}", text, labels=self._names)


#: For how many seconds each hold, or wait, has lasted, by label.
Lasting = dict["str | None", "list[float]"]


def _by_label(entries: Entries[Entry]) -> Lasting:
    lasting: Lasting = {}
    for seconds, entry in entries.now():
        lasting.setdefault(entry.label, []).append(seconds)
    return lasting


class Shared:
    """The metrics as ``prometheus_client`` shares them between processes, in its multiprocess mode.

    Args:
        names: The names of the labels.
        registry: Where the metrics are registered.
        bounds: The upper bounds of the histograms, in seconds.
    """

    def __init__(self, names: Sequence[str], registry: CollectorRegistry, bounds: Sequence[float]) -> None:
        def named(metric: tuple[str, str]) -> tuple[str, str, Sequence[str]]:
            return f"pyredisson_{metric[0]}", metric[1], names

        self._acquisitions, self._timeouts = (
            Counter(*named(each), registry=registry) for each in (ACQUISITIONS, TIMEOUTS)
        )
        self._wait, self._hold = (Histogram(*named(each), registry=registry, buckets=bounds) for each in (WAIT, HOLD))
        self._holds, self._waiters = (
            Gauge(*named(each), registry=registry, multiprocess_mode="livesum") for each in (HOLDS, WAITERS)
        )

    def of_label(self, label: str | None) -> Frequent:
        """Return what to call for a lock with this label."""

        def of(metric: Shareable) -> Shareable:
            return metric if label is None else metric.labels(label)

        acquired, timed_out = of(self._acquisitions).inc, of(self._timeouts).inc
        wait, hold = of(self._wait).observe, of(self._hold).observe
        holds, waiters = of(self._holds), of(self._waiters)

        def count_acquired(waited: float) -> None:
            acquired()
            wait(waited)

        def count_timed_out(waited: float) -> None:
            timed_out()
            wait(waited)

        return Frequent(
            count_acquired,
            count_timed_out,
            hold,
            wait,
            hold_began=holds.inc,
            hold_ended=holds.dec,
            wait_began=waiters.inc,
            wait_ended=waiters.dec,
        )


Shareable = TypeVar("Shareable", Counter, Gauge, Histogram)

# ---- histogram -------------------------------------------------------------------------------------------------------
# A histogram that is cheap to add to: values are sorted into its buckets later, when it is read.


#: How many values wait to be sorted at most.
BUFFER = 512


class Totals(NamedTuple):
    """What a histogram holds: the number of values in each bucket, the last one above all bounds; and their sum."""

    counts: list[int]
    sum: float

    def plus(self, other: Totals) -> Totals:
        """Return the totals of two histograms with the same bounds."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Totals(counts, self.sum + other.sum)


class BufferedHistogram:
    """A histogram to which an acquire adds a value by appending to a list.

    That needs no mutex, where ``prometheus_client`` needs two. Who appends calls :meth:`sort` when the list is long.
    """

    __slots__ = ("_bounds", "_counts", "_mutex", "_sum", "add", "values")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self.values: list[float] = []
        self.add: Callable[[float], None] = self.values.append
        self._mutex = threading.Lock()

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
        values = self.values[:]
        del self.values[: len(values)]
        for value in values:
            self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += sum(values)


# ---- holds -----------------------------------------------------------------------------------------------------------
# What is held and waited for by the clients of this process, as far as their events show.


T = TypeVar("T")

#: The name of a lock, and its owner.
Key = tuple[str, str]

#: Entries that have expired are looked for when there are that many; then when there are twice as many as stayed.
FIRST_SWEEP = 1024


class Entries(Generic[T]):
    """Holds, or waits, by lock and owner, each with what the listener needs when it ends.

    A hold with a fixed lease may end without any event, so an entry may have a time at which it expires. In the child
    of a fork there are none: its clients are new ones.

    Args:
        expired: Called with an entry that has expired, and when it did (``time.monotonic()``).
    """

    def __init__(self, expired: Callable[[T, float], object] | None = None) -> None:
        #: When each began, how long its lease is, and its value.
        self.all: dict[Key, tuple[float, float | None, T]] = {}
        self._expired = expired
        self._sweep_at = FIRST_SWEEP
        entries = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _forget(entries()))

    def begin(self, key: Key, lease: float | None, value: T) -> T | None:
        """Enter one that begins now. Returns that of the same key whose end was not noticed, if there is one."""
        before = self.all.get(key)
        self.all[key] = (time.monotonic(), lease, value)
        self.sweep_if_many()
        return None if before is None else before[2]

    def sweep_if_many(self) -> None:
        """Remove what has expired, if there is much. Who enters something into ``all`` calls this now and then."""
        if len(self.all) >= self._sweep_at:
            self.sweep()
            self._sweep_at = max(FIRST_SWEEP, 2 * len(self.all))

    def end(self, key: Key) -> T | None:
        """Remove one, and return its value; ``None`` if it is not there."""
        entry = self.all.pop(key, None)
        return None if entry is None else entry[2]

    def get(self, key: Key) -> T | None:
        """Return the value of one; ``None`` if it is not there."""
        entry = self.all.get(key)
        return None if entry is None else entry[2]

    def end_all(self, client_id: str) -> list[T]:
        """Remove those of a client, and return their values."""
        prefix = f"{client_id}:"
        values = [self.end(key) for key in self.all.copy() if key[1].startswith(prefix)]
        return [value for value in values if value is not None]

    def sweep(self) -> None:
        """Remove what has expired."""
        now = time.monotonic()
        for key, entry in self.all.copy().items():
            since, lease, value = entry
            if lease is not None and since + lease <= now and self.all.get(key) is entry:
                self.end(key)
                if self._expired is not None:
                    self._expired(value, since + lease)

    def now(self) -> list[tuple[float, T]]:
        """Return for how many seconds each has lasted, and its value."""
        self.sweep()
        now = time.monotonic()
        return [(now - since, value) for since, _, value in self.all.copy().values()]

    def clear(self) -> None:
        """Forget all."""
        self.all.clear()


def _forget(entries: Entries[T] | None) -> None:
    if entries is not None:
        entries.clear()


# ---- labels ----------------------------------------------------------------------------------------------------------
# Labels of metrics: few values, whatever the names of the locks are.


Label: TypeAlias = Callable[[str], str]
"""A function that returns the label of a lock, given its name."""

#: The label of all locks beyond the limit.
OTHER = "other"

#: How many labels there are at most, by default.
MAX_LABELS = 100

#: For how many names the label is remembered.
NAMES = 1024


_logger = logging.getLogger("pyredisson.lock")


class PerLabel(Generic[T]):
    """What belongs to each label, made when a label is first used; beyond the limit, all share one.

    Args:
        label: Returns the label of a lock; ``None``: all locks are one.
        limit: The number of labels. Later ones count as ``"other"``.
        make: Returns what belongs to a label, given the label; ``None`` if there are none.
    """

    __slots__ = ("_complained", "_label", "_limit", "_made", "_make", "by_name", "single")

    def __init__(self, label: Label | None, limit: int, make: Callable[[str | None], T]) -> None:
        if label is not None and not callable(label):
            raise TypeError("label must be a function of the lock's name")
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"max_labels must be an int, not {type(limit).__name__}")
        if limit < 1:
            raise ValueError(f"max_labels must be at least 1, not {limit}")
        self._label = label
        self._limit = limit
        self._make = make
        self._made: dict[str, T] = {}
        self._complained = False
        #: What belongs to the names that were used last: quicker than to call the function.
        self.by_name: dict[str, T] = {}
        #: What belongs to all locks, if there are no labels.
        self.single: T | None = make(None) if label is None else None

    def of(self, name: str) -> T:
        """Return what belongs to the label of the lock with this name."""
        if self.single is not None:
            return self.single
        known = self.by_name.get(name)
        if known is not None:
            return known
        value = self._value(name)
        made = self._made.get(value)
        if made is None:
            if len(self._made) >= self._limit:
                value = OTHER
            made = self._made.get(value) or self._made.setdefault(value, self._make(value))
        if len(self.by_name) >= NAMES:
            self.by_name.clear()
        self.by_name[name] = made
        return made

    def used(self) -> list[T]:
        """Return what belongs to the labels that were used so far."""
        return [self.single] if self.single is not None else list(self._made.copy().values())

    def _value(self, name: str) -> str:
        assert self._label is not None
        try:
            value = self._label(name)
        except Exception:
            # Not propagated: the event would not be counted, and an error be logged for each.
            if not self._complained:
                self._complained = True
                _logger.exception("pyredisson: the label of lock %r failed; it counts as %r from now on", name, OTHER)
            return OTHER
        return value if type(value) is str else str(value)
