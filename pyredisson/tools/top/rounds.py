"""What ``pyredisson top`` shows in one round, worked out of what was seen. Pure: it asks no server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from pyredisson.inspection import LockView, Snapshot


@final
@dataclass(frozen=True)
class TopRow:
    """One lock.

    Attributes:
        lock: What is known of it.
        held: For how many seconds, as far as its holder says.
        longest_wait: The age of the oldest wait that is known, in seconds.
        rate: Releases a second; ``None`` if they are not counted.
    """

    lock: LockView
    held: float | None = None
    longest_wait: float | None = None
    rate: float | None = None


@final
@dataclass(frozen=True)
class TopRound:
    """One round.

    Attributes:
        at: Unix time.
        held: How many locks are held.
        contended: How many have waiters.
        waiting: How many wait for all of them.
        rate: Releases a second of all locks together; ``None`` if they are not counted.
        waits: The median and the 99th percentile of the waits that go on and are known, in seconds.
        waits_known: How many those are.
        searched: How many seconds ago the last search for locks ended.
        search_seconds: How long it took.
        complete: Whether it found all.
        cpu: What share of one core the servers use together; ``None`` if they do not say.
        rows: The locks, the most contended ones first.
        sampled: Whether releases are counted only now and then, because they are many.
        errors: What could not be read.
    """

    at: float
    held: int
    contended: int
    waiting: int
    rate: float | None
    waits: tuple[float, float] | None
    waits_known: int
    searched: float
    search_seconds: float
    complete: bool
    cpu: float | None
    rows: tuple[TopRow, ...]
    sampled: bool = False
    errors: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the round as JSON can hold it."""
        return {
            "schema": 1,
            "at_unix_ms": round(self.at * 1000),
            "held": self.held,
            "contended": self.contended,
            "waiting": self.waiting,
            "releases_per_second": None if self.rate is None else round(self.rate, 1),
            "releases_sampled": self.sampled,
            "waits_p50_ms": None if self.waits is None else round(self.waits[0] * 1000),
            "waits_p99_ms": None if self.waits is None else round(self.waits[1] * 1000),
            "waits_known": self.waits_known,
            "searched_ms_ago": round(self.searched * 1000),
            "search_ms": round(self.search_seconds * 1000),
            "complete": self.complete,
            "server_cpu_percent": None if self.cpu is None else round(self.cpu * 100, 1),
            "errors": list(self.errors),
            "locks": [
                {
                    "name": row.lock.name,
                    "kind": row.lock.kind,
                    "holders": [who.label for who in row.lock.holders],
                    "held_ms": _ms(row.held),
                    "free_in_ms": _ms(row.lock.free_in),
                    "never_expires": row.lock.never_expires,
                    "waiting": row.lock.waiting,
                    "longest_wait_ms": _ms(row.longest_wait),
                    "releases_per_second": None if row.rate is None else round(row.rate, 1),
                }
                for row in self.rows
            ],
        }


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
) -> TopRound:
    """Return a round.

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
    found = [_row(view, rates, now) for view in views if view.held or view.waiting]
    known = {row.lock.name for row in found}
    # A lock that is released often may be free whenever it is looked at.
    found += [
        TopRow(LockView(name, "lock", ""), rate=rate)
        for name, rate in sorted((rates or {}).items(), key=lambda pair: -pair[1])[:rows]
        if name not in known and rate > 0
    ]
    waits = sorted(now - each.since for view in views for each in view.waiters if each.since is not None)
    found.sort(key=lambda row: (-row.lock.waiting, -(row.rate or 0), -(row.held or 0), row.lock.name))
    return TopRound(
        at=now,
        held=sum(view.held for view in views),
        contended=sum(view.waiting > 0 for view in views),
        waiting=sum(view.waiting for view in views),
        rate=None if rates is None else sum(rates.values()),
        waits=(percentile(waits, 0.5), percentile(waits, 0.99)) if waits else None,
        waits_known=len(waits),
        searched=max(0.0, now - snapshot.taken),
        search_seconds=snapshot.seconds,
        complete=snapshot.complete,
        cpu=cpu,
        rows=tuple(found[:rows]),
        sampled=sampled,
        errors=snapshot.errors,
    )


def _row(view: LockView, rates: Mapping[str, float] | None, now: float) -> TopRow:
    since = [who.since for who in view.holders if who.since is not None]
    waits = [now - each.since for each in view.waiters if each.since is not None]
    held = max(0.0, now - min(since)) if since else None
    return TopRow(view, held, max(waits, default=None), None if rates is None else rates.get(view.name, 0.0))
