"""What metrics cost: the rate with a listener in proportion to the rate without."""

from __future__ import annotations

from .contestants import with_config
from .report import Figure, at_least, show
from .rounds import Tournament, median_of, median_ratio
from .separate_locks import measure
from .server import Server

__all__ = ["listeners"]

NONE, PROMETHEUS, LABELS, OPENTELEMETRY = "no listener", "Prometheus", "Prometheus, a label", "OpenTelemetry"

#: With that many threads, the rate has to be at least this share of the rate without a listener.
BOUNDS = {1: 0.9, 64: 0.8}


def _config(name: str):  # type: ignore[no-untyped-def]
    from pyredisson import Config

    if name == NONE:
        return Config()
    if name == OPENTELEMETRY:
        from opentelemetry.sdk.metrics import MeterProvider

        from pyredisson.observe.opentelemetry import OpenTelemetryListener

        # Metrics alone: what a span costs is decided by its exporter.
        return Config(listeners=(OpenTelemetryListener(meter_provider=MeterProvider()),))
    from prometheus_client import CollectorRegistry

    from pyredisson.observe.prometheus import PrometheusListener

    label = None if name == PROMETHEUS else lambda lock: lock.partition(":")[0]
    return Config(listeners=(PrometheusListener(CollectorRegistry(), label=label),))


def listeners(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release with and without a listener, by one thread and by 64."""
    title = "Acquire and release with metrics"
    turns = {f"{name}, {threads}": (name, threads) for threads in BOUNDS for name in (NONE, PROMETHEUS, LABELS)}
    turns |= {f"{OPENTELEMETRY}, 1": (OPENTELEMETRY, 1)}

    def turn(contestant: str) -> dict[str, float]:
        name, threads = turns[contestant]
        return measure(server, with_config(name, lambda: _config(name)), threads, seconds)

    samples = tournament.play(title, list(turns), rounds, turn)
    ratios = {
        contestant: median_ratio(samples, contestant, f"{NONE}, {threads}", "pairs/s")
        for contestant, (_, threads) in turns.items()
    }
    rows = [
        (
            contestant,
            show(median_of(samples, contestant, "pairs/s")),
            show(median_of(samples, contestant, "CPU us/pair")),
            show(ratios[contestant]),
        )
        for contestant in turns
    ]
    claims = [
        at_least(f"rate with {name}, {threads} thread{'s' * (threads > 1)}", ratios[f"{name}, {threads}"], bound, "x")
        for threads, bound in BOUNDS.items()
        for name in (PROMETHEUS, LABELS)
    ]
    how = (
        f"A lock without contention for each thread, one shared client, {rounds} rounds of {seconds:g} s each. "
        "OpenTelemetry: metrics of its SDK, without spans."
    )
    columns = ("listener, threads", "pairs/s", "CPU us/pair", "of no listener")
    return Figure("listeners", title, how, columns, rows, claims, samples=samples)
