"""What ``pyredisson top`` shows in one round, worked out of what was seen. Pure: it asks no server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyredisson.inspection import LockView, Snapshot

Record: TypeAlias = "dict[str, Any]"
"""A round, or one of its locks, as JSON has it: with units in its names, and ``None`` where something is not known."""


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def round_of(
    snapshot: Snapshot,
    fresh: Mapping[str, LockView | None],
    rates: Mapping[str, float] | None,
    *,
    now: float,
    rows: int,
    cpu: float | None = None,
    sampled: bool = False,
) -> Record:
    """Return a round: numbers of all locks, and the most contended ones.

    Args:
        snapshot: The last search.
        fresh: Views of single locks that are newer; ``None``: it is gone.
        rates: Releases a second by name; ``None``: they are not counted.
        now: Unix time.
        rows: How many locks to list.
        cpu: What share of a core the servers use.
        sampled: Whether releases are counted only now and then.
    """
    views = [view for old in snapshot.locks if (view := fresh.get(old.name, old)) is not None]
    shown = [view for view in views if view.held or view.waiting]
    known = {view.name for view in shown}
    # A lock that is released often may be free whenever it is looked at.
    shown += [
        LockView(name, "lock", "")
        for name, rate in sorted((rates or {}).items(), key=lambda pair: -pair[1])[:rows]
        if name not in known and rate > 0
    ]
    locks = [_lock(view, rates, now) for view in shown]
    locks.sort(
        key=lambda row: (-row["waiting"], -(row["releases_per_second"] or 0), -(row["held_ms"] or 0), row["name"])
    )
    waits = sorted(now - each.since for view in views for each in view.waiters if each.since is not None)
    return {
        "schema": 1,
        "at_unix_ms": _ms(now),
        "held": sum(view.held for view in views),
        "contended": sum(view.waiting > 0 for view in views),
        "waiting": sum(view.waiting for view in views),
        "releases_per_second": None if rates is None else round(sum(rates.values()), 1),
        "releases_sampled": sampled,
        "waits_p50_ms": _ms(percentile(waits, 0.5)) if waits else None,
        "waits_p99_ms": _ms(percentile(waits, 0.99)) if waits else None,
        "waits_known": len(waits),
        "searched_ms_ago": _ms(max(0.0, now - snapshot.taken)),
        "search_ms": _ms(snapshot.seconds),
        "complete": snapshot.complete,
        "server_cpu_percent": None if cpu is None else round(cpu * 100, 1),
        "errors": list(snapshot.errors),
        "locks": locks[:rows],
    }


def _lock(view: LockView, rates: Mapping[str, float] | None, now: float) -> Record:
    since = min((who.since for who in view.holders if who.since is not None), default=None)
    waits = [now - each.since for each in view.waiters if each.since is not None]
    return {
        "name": view.name,
        "kind": view.kind,
        "holders": [who.label for who in view.holders],
        "held_ms": None if since is None else _ms(max(0.0, now - since)),
        "free_in_ms": _ms(view.free_in),
        "never_expires": view.never_expires,
        "waiting": view.waiting,
        "longest_wait_ms": _ms(max(waits, default=None)),
        "releases_per_second": None if rates is None else round(rates.get(view.name, 0.0), 1),
    }
