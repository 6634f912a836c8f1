"""What metrics cost: the rate with a listener in proportion to the rate without.

The difference is small, and a machine's speed changes from second to second. So all contestants are connected at the
same time, and take turns of a fraction of a second.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .contestants import LockCalls, prove_exclusion, with_config
from .report import Figure, at_least, show
from .rounds import FOREIGN, Samples, Tournament, median_of, median_ratio
from .separate_locks import pairs_until, side_by_side
from .server import Server
from .throughput import Counted, Spent

if TYPE_CHECKING:
    from pyredisson import Config

__all__ = ["listeners"]

NONE, PROMETHEUS, LABELS, OPENTELEMETRY = "no listener", "Prometheus", "Prometheus, a label", "OpenTelemetry"

#: With that many threads, the rate has to be at least this share of the rate without a listener.
BOUNDS = {1: 0.9, 64: 0.8}

#: Seconds of one slice, by the number of threads: more of them need longer to get going.
SLICES = {1: 0.02, 64: 0.1}


def _config(name: str) -> Config:
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

    label: Callable[[str], str] | None = None if name == PROMETHEUS else lambda lock: lock.partition(":")[0]
    return Config(listeners=(PrometheusListener(CollectorRegistry(), label=label),))


def _slice(locks: Sequence[LockCalls], seconds: float) -> Counted:
    if len(locks) > 1:
        return side_by_side(locks, seconds)
    wall, cpu = time.perf_counter(), time.process_time()
    pairs = pairs_until(wall + seconds, locks[0])
    return Counted(pairs, pairs, Spent(time.perf_counter() - wall, time.process_time() - cpu))


def _in_slices(server: Server, names: Sequence[str], threads: int, seconds: float) -> Mapping[str, Mapping[str, float]]:
    """Let the contestants take turns until each has had its seconds. Returns what each measured.

    Raises:
        RuntimeError: The server did another number of pairs than the contestants say.
    """
    server.reset()
    with ExitStack() as closing:
        locks = {}
        for number, name in enumerate(names):
            session = closing.enter_context(with_config(name, lambda name=name: _config(name)).open(server))  # type: ignore[misc]
            prove_exclusion(server, session)
            locks[name] = [session.lock(number * threads + each) for each in range(threads)]
        server.reset()
        slices: dict[str, list[Counted]] = {name: [] for name in names}
        for _ in range(max(1, round(seconds / SLICES[threads]))):
            for name in random.sample(names, len(names)):
                slices[name].append(_slice(locks[name], SLICES[threads]))
        said, done = sum(each.in_all for counted in slices.values() for each in counted), server.calls().get("del", 0)
        if said != done:
            raise RuntimeError(f"the contestants say {said} pairs, the server ran del {done} times")
    return {name: _rates(counted) for name, counted in slices.items()}


def _rates(slices: Sequence[Counted]) -> Mapping[str, float]:
    pairs = sum(each.pairs for each in slices)
    wall, cpu = (sum(getattr(each.spent, clock) for each in slices) for clock in ("wall", "cpu"))
    return {"pairs/s": pairs / wall, "CPU us/pair": cpu / pairs * 1e6}


def listeners(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release with and without a listener, by one thread and by 64."""
    title = "Acquire and release with metrics"
    names = [NONE, PROMETHEUS, LABELS, OPENTELEMETRY]

    def turn(threads: str) -> dict[str, float]:
        measured = _in_slices(server, names, int(threads), seconds)
        return {f"{name}|{what}": value for name, each in measured.items() for what, value in each.items()}

    turns = tournament.play(title, [str(threads) for threads in BOUNDS], rounds, turn)
    samples = {f"{name}, {threads}": _of(turns, name, threads) for threads in BOUNDS for name in names}
    rows, ratios = [], {}
    for contestant in samples:
        threads = contestant.rpartition(", ")[2]
        ratios[contestant] = median_ratio(samples, contestant, f"{NONE}, {threads}", "pairs/s")
        medians = (median_of(samples, contestant, what) for what in ("pairs/s", "CPU us/pair"))
        rows.append((contestant, *map(show, medians), show(ratios[contestant])))
    claims = [
        at_least(f"rate with {name}, {threads} thread{'s' * (threads > 1)}", ratios[f"{name}, {threads}"], bound, "x")
        for threads, bound in BOUNDS.items()
        for name in (PROMETHEUS, LABELS)
    ]
    how = (
        f"A lock without contention for each thread, one client, {rounds} rounds, in which each has {seconds:g} s in "
        "slices, in turn with the others. OpenTelemetry: metrics of its SDK, without spans."
    )
    columns = ("listener, threads", "pairs/s", "CPU us/pair", "of no listener")
    return Figure("listeners", title, how, columns, rows, claims, samples=samples)


def _of(turns: Samples, name: str, threads: int) -> list[Mapping[str, float]]:
    """What one contestant measured in each round."""
    return [
        {
            **{what.partition("|")[2]: value for what, value in turn.items() if what.startswith(f"{name}|")},
            **({FOREIGN: turn[FOREIGN]} if FOREIGN in turn else {}),
        }
        for turn in turns[str(threads)]
    ]
