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
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from pyredisson import events
from pyredisson.core.failures import REASONS
from pyredisson.observe import recorder
from pyredisson.observe.labels import MAX_LABELS, Label

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["BUCKETS", "PrometheusListener"]

#: The upper bounds of the histograms, in seconds.
BUCKETS = recorder.BOUNDS

#: The gauges: how many holds and waits there are, and the longest of each.
HOLDS = ("holds", "Locks held now by the clients of this process.")
WAITERS = ("waiters", "Calls that wait for a lock now.")
LONGEST_HOLD = ("longest_hold_seconds", "For how long the longest of the present holds has lasted.")
LONGEST_WAIT = ("longest_wait_seconds", "For how long the longest of the present waits has lasted.")

#: Events without a metric of their own.
OTHERS = (
    "BackgroundFailed",
    "CallbackFailed",
    "ClientCollected",
    "HeldTooLong",
    "HolderGone",
    "LeftBehind",
    "NodeBarred",
    "PermitsDiffer",
    "PermitsNeverSet",
    "PresenceRefused",
    "QuorumIsYoung",
    "ServerUnsafe",
    "WaitingTooLong",
)


@final
class PrometheusListener:
    """A listener for ``Config.listeners`` that turns events into metrics for Prometheus.

    One listener may serve any number of clients, for threads and for asyncio.

    In the multiprocess mode of ``prometheus_client`` (``PROMETHEUS_MULTIPROC_DIR``) all metrics work but the two of the
    longest hold and wait, which are left out: they are computed when they are read, and the process that is asked does
    not know the others.

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
        bounds = sorted(float(bound) for bound in buckets if bound < math.inf)
        self._recorder = _PrometheusRecorder(registry, label, max_labels, bounds)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __call__(self, event: events.Event) -> None:
        """Count an event."""
        self._recorder.record(event)


class _LockMetrics:
    """The metrics of the locks with one label."""

    def __init__(self, metrics: _PrometheusRecorder, label: str | None) -> None:
        def of(metric: Labelled) -> Labelled:
            return metric if label is None else metric.labels(label)

        labels = () if label is None else (label,)
        self.labels = labels
        self.counters = {name: of(counter).inc for name, counter in metrics.counters.items()}
        self.times = {name: of(histogram).observe for name, histogram in metrics.times.items()}
        self.gauges = {name: of(gauge) for name, gauge in metrics.gauges.items()}
        # All begin with 0, as the counters of events.
        self.failures = {reason: metrics.failures.labels(*labels, reason) for reason in REASONS}


Labelled = TypeVar("Labelled", Counter, Gauge, Histogram)


class _PrometheusRecorder(recorder.Recorder[_LockMetrics]):
    """The metrics of one listener.

    The number of holds, of waits, and the longest are computed when they are read; in the multiprocess mode of
    ``prometheus_client``, which adds the numbers up itself, the number alone is kept.
    """

    def __init__(
        self, registry: CollectorRegistry, label: Label | None, max_labels: int, bounds: Sequence[float]
    ) -> None:
        names = () if label is None else ("lock",)

        def counter(name: str, text: str, names: Sequence[str] = names) -> Counter:
            return Counter(f"pyredisson_{name}", text, names, registry=registry)

        self.names = names
        try:
            self.counters = {name: counter(name, text) for name, text in recorder.LOCK_COUNTERS.items()}
        except ValueError as error:
            raise ValueError(
                "this registry has the metrics of another PrometheusListener: pass that one to each client"
            ) from error
        self.failures = counter("failures", recorder.FAILURES, (*names, "reason"))
        self._of_client = {name: counter(name, text, ()) for name, text in recorder.CLIENT_COUNTERS.items()}
        self._others = counter("events", recorder.OTHERS, ("event",))
        for name in OTHERS:  # They begin with 0: a time series that begins with 1 has not increased.
            self._others.labels(name)
        self.times = {
            name: Histogram(f"pyredisson_{name}_seconds", text, names, registry=registry, buckets=bounds)
            for name, text in recorder.TIMES.items()
        }
        self.gauges: dict[str, Gauge] = {}
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            for name, text in (HOLDS, WAITERS):
                self.gauges[name] = Gauge(
                    f"pyredisson_{name}", text, names, registry=registry, multiprocess_mode="livesum"
                )
        super().__init__(label, max_labels)
        if not self.gauges:
            registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the gauges that are computed."""
        yield from self._gauges(self.lasting_holds(), HOLDS, LONGEST_HOLD)
        yield from self._gauges(self.lasting_waits(), WAITERS, LONGEST_WAIT)

    describe = collect

    def _gauges(
        self, lasting: Mapping[_LockMetrics, Sequence[float]], number: tuple[str, str], longest: tuple[str, str]
    ) -> Iterator[Metric]:
        for (name, text), value_of in ((number, len), (longest, lambda lasted: max(lasted, default=0.0))):
            family = GaugeMetricFamily(f"pyredisson_{name}", text, labels=self.names)
            for group, lasted in lasting.items():
                family.add_metric(group.labels, value_of(lasted))
            yield family

    def group_of(self, label: str | None) -> _LockMetrics:
        return _LockMetrics(self, label)

    def count(self, metric: str, group: _LockMetrics, number: int = 1) -> None:
        group.counters[metric](number)

    def count_failure(self, reason: str, group: _LockMetrics) -> None:
        group.failures[reason].inc()

    def count_of_client(self, metric: str, number: int = 1) -> None:
        self._of_client[metric].inc(number)

    def count_other(self, event: events.Event) -> None:
        self._others.labels(type(event).__name__).inc()

    def measure(self, metric: str, seconds: float, group: _LockMetrics) -> None:
        group.times[metric](seconds)

    def hold_began(self, event: events.Acquired, group: _LockMetrics) -> None:
        self._add("holds", group, 1)

    def hold_ended(self, group: _LockMetrics, noted: None, **_: Any) -> None:
        self._add("holds", group, -1)

    def wait_began(self, group: _LockMetrics) -> None:
        self._add("waiters", group, 1)

    def wait_ended(self, event: events.WaitEnded, group: _LockMetrics) -> None:
        self._add("waiters", group, -1)

    def _add(self, gauge: str, group: _LockMetrics, number: int) -> None:
        if gauge in group.gauges:
            group.gauges[gauge].inc(number)
