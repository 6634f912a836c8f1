"""What the listeners measure into: a registry of Prometheus, and providers of OpenTelemetry, by the same names."""

from __future__ import annotations

from typing import Any, Protocol

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from pyredisson.observe.opentelemetry import OpenTelemetryListener
from pyredisson.observe.prometheus import PrometheusListener

#: The names of each metric in Prometheus and in OpenTelemetry.
METRICS = {
    "acquisitions": ("acquisitions_total", "lock.acquisitions"),
    "connection downs": ("connection_downs_total", "connection_downs"),
    "contentions": ("contentions_total", "lock.contentions"),
    "durations of holds": ("hold_seconds_count", "lock.hold.duration"),
    "durations of waits": ("wait_seconds_count", "lock.wait.duration"),
    "events": ("events_total", "events"),
    "failures": ("failures_total", "lock.failures"),
    "holds": ("holds", "lock.holds"),
    "late watchdogs": ("watchdog_late_total", "watchdog_late"),
    "longest wait": ("longest_wait_seconds", "lock.wait.longest"),
    "longest hold": ("longest_hold_seconds", "lock.hold.longest"),
    "losses": ("losses_total", "lock.losses"),
    "renewal failures": ("renewal_failures_total", "renewal_failures"),
    "renewals": ("renewals_total", "renewals"),
    "settled": ("settled_total", "lock.settled"),
    "timeouts": ("timeouts_total", "lock.timeouts"),
    "waiters": ("waiters", "lock.waiters"),
}

#: The names of their labels.
LABELS = {
    "event": ("event", "pyredisson.event"),
    "label": ("lock", "pyredisson.lock.label"),
    "reason": ("reason", "error.type"),
}


class Meter(Protocol):
    """What one listener measures into."""

    def listener(self, **options: Any) -> Any:
        """Return a listener."""

    def value(self, metric: str, **labels: str) -> float | None:
        """Return the value of a metric with these labels; ``None`` if there is none."""


class PrometheusMeter:
    """A registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def listener(self, **options: Any) -> PrometheusListener:
        return PrometheusListener(self.registry, **options)

    def value(self, metric: str, **labels: str) -> float | None:
        return self.sample(METRICS[metric][0], **{LABELS[name][0]: value for name, value in labels.items()})

    def sample(self, name: str, **labels: str) -> float | None:
        """Return a sample by its name without the prefix."""
        return self.registry.get_sample_value(f"pyredisson_{name}", labels)


class OpenTelemetryMeter:
    """Providers of the SDK that keep everything in memory."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self._meters = MeterProvider([self._reader])
        self._traces = TracerProvider()
        self._traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self._traces.get_tracer("tests")

    def listener(self, **options: Any) -> OpenTelemetryListener:
        return OpenTelemetryListener(meter_provider=self._meters, tracer_provider=self._traces, **options)

    def value(self, metric: str, **labels: str) -> float | None:
        data, wanted = self._reader.get_metrics_data(), {LABELS[name][1]: value for name, value in labels.items()}
        found = [
            getattr(point, "count", None) or getattr(point, "value", 0)  # Of a histogram, the count.
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric_data in scope.metrics
            if metric_data.name == f"pyredisson.{METRICS[metric][1]}"
            for point in metric_data.data.data_points
            if dict(point.attributes or {}) == wanted
        ]
        return found[0] if found else None

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the spans that have ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]
