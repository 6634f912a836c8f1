"""The metrics of what each acquire and release does: computed when they are read, or shared by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pyredisson.observe.histogram import BUFFER, BufferedHistogram, Totals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pyredisson.observe.holds import Entries

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

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without values: a registry wants to know their names."""
        return [
            *(self._family(CounterMetricFamily, each) for each in (ACQUISITIONS, TIMEOUTS)),
            *(self._family(HistogramMetricFamily, each) for each in (WAIT, HOLD)),
            *(self._family(GaugeMetricFamily, each) for each in (HOLDS, WAITERS, LONGEST_HOLD, LONGEST_WAIT)),
        ]

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        acquisitions, timeouts = (self._family(CounterMetricFamily, each) for each in (ACQUISITIONS, TIMEOUTS))
        wait, hold = (self._family(HistogramMetricFamily, each) for each in (WAIT, HOLD))
        for label, histograms in self._histograms.copy().items():
            values = [] if label is None else [label]
            acquired, timed_out = histograms.acquired.totals(), histograms.timed_out.totals()
            acquisitions.add_metric(values, sum(acquired.counts))
            timeouts.add_metric(values, sum(timed_out.counts))
            ended = acquired.plus(timed_out).plus(histograms.failed.totals())
            wait.add_metric(values, *self._cumulative(ended))
            hold.add_metric(values, *self._cumulative(histograms.held.totals()))
        yield from (acquisitions, timeouts, wait, hold)
        for lasting, number, longest in zip(
            self._lasting(), (HOLDS, WAITERS), (LONGEST_HOLD, LONGEST_WAIT), strict=True
        ):
            numbers, maxima = self._family(GaugeMetricFamily, number), self._family(GaugeMetricFamily, longest)
            for label in self._histograms.copy():
                values = [] if label is None else [label]
                numbers.add_metric(values, len(lasting.get(label, ())))
                maxima.add_metric(values, max(lasting.get(label, ()), default=0.0))
            yield from (numbers, maxima)

    def _cumulative(self, totals: Totals) -> tuple[list[tuple[str, int]], float]:
        return list(zip(self._buckets, accumulate(totals.counts), strict=True)), totals.sum

    def _family(self, make: Callable[..., Family], metric: tuple[str, str]) -> Family:
        name, text = metric
        return make(f"pyredisson_{name}", text, labels=self._names)


Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily)

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
