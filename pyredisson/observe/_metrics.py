"""What the listeners of Prometheus and of OpenTelemetry share: the metrics, what lasts now, and the labels of locks."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pyredisson import events
from pyredisson._shared.callback import check_callback

#: The upper bounds of the histograms, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metric(NamedTuple):
    """A metric: its name without what stands before all of them, its unit for OpenTelemetry, and what it says."""

    name: str
    unit: str
    text: str


ACQUISITIONS = Metric("acquisitions", "{acquisition}", "Locks acquired, and acquires of permits.")
TIMEOUTS = Metric("timeouts", "{call}", "Acquires refused, or not granted in time.")
FAILURES = Metric("failures", "{call}", "Acquires that ended without the lock, by the reason.")
WAIT = Metric("wait", "s", "Time from the call of an acquire until it succeeded, or failed for whatever reason.")
HOLD = Metric("hold", "s", "Time for which a lock was held.")
EVENTS = Metric("events", "{event}", "Events that have no metric of their own, by their class.")

#: Counters of each lock, by the class of the events that they count.
OF_LOCKS: dict[type[events.Event], Metric] = {
    events.WaitBegan: Metric("contentions", "{call}", "Acquires that had to wait."),
    events.Lost: Metric("losses", "{lock}", "Locks lost by their holder before it released them."),
    events.OutcomeUnknown: Metric(
        "outcomes_unknown", "{request}", "Requests whose outcome could not be determined in time."
    ),
    events.GivenBack: Metric(
        "settled", "{request}", "Acquires that were not answered in time: what they had acquired was released."
    ),
}
#: Counters of all clients together.
OF_CLIENTS: dict[type[events.Event], Metric] = {
    events.Renewed: Metric("renewals", "{lock}", "Leases renewed by the watchdog."),
    events.RenewalFailed: Metric("renewal_failures", "{request}", "Renewals that were not answered."),
    events.WatchdogLate: Metric("watchdog_late", "{watchdog}", "Watchdogs that ran late."),
    events.ConnectionDown: Metric("connection_downs", "{connection}", "Connections of the subscriber that were lost."),
}
#: Events that these and :data:`EVENTS` do not count.
UNCOUNTED = {
    *(events.Acquired, events.Released, events.TimedOut, events.AcquireFailed),
    *(events.WaitEnded, events.ConnectionUp),
}


def count_of(event: events.Event) -> int:
    """Return how much an event adds to its counter."""
    match event:
        case events.Renewed(locks=locks):
            return locks
        case events.ConnectionDown(attempt=attempt):
            return int(attempt == 1)
    return 1


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
        reference = weakref.ref(self)

        def forget() -> None:
            if (entries := reference()) is not None:
                entries.all.clear()

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forget)

    def begin(self, key: Key, lease: float | None, value: T) -> T | None:
        """Enter one that begins now. Returns that of the same key whose end was not noticed, if there is one."""
        before = self.all.get(key)
        self.all[key] = (time.monotonic(), lease, value)
        if len(self.all) >= self._sweep_at:
            self.sweep()
            self._sweep_at = max(FIRST_SWEEP, 2 * len(self.all))
        return None if before is None else before[2]

    def end(self, key: Key) -> T | None:
        """Remove one, and return its value; ``None`` if it is not there."""
        entry = self.all.pop(key, None)
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

    def __init__(self, label: Label | None, limit: int, make: Callable[[str | None], T]) -> None:
        if label is not None:
            check_callback("label", label, "the lock's name", awaited=False)
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
