"""What the events of clients mean for their metrics, written once for Prometheus and OpenTelemetry.

Only the first hold of an owner and its last release count. The release of permits emits no event, so that of these no
holds are measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from pyredisson import events
from pyredisson.observe.holds import Entries
from pyredisson.observe.labels import Label, PerLabel

Group = TypeVar("Group")

#: The upper bounds of the histograms, in seconds.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

#: The counters of locks, and what they count.
LOCK_COUNTERS = {
    "acquisitions": "Locks acquired, and acquires of permits.",
    "timeouts": "Acquires refused, or not granted in time.",
    "contentions": "Acquires that had to wait.",
    "losses": "Locks lost by their holder before it released them.",
    "outcomes_unknown": "Requests whose outcome could not be determined in time.",
    "settled": "Unanswered acquires that were settled: what they had acquired was released.",
}
FAILURES = "Acquires that ended without the lock, by the reason."

#: The counters of clients.
CLIENT_COUNTERS = {
    "renewals": "Leases renewed by the watchdog.",
    "renewal_failures": "Renewals that were not answered.",
    "watchdog_late": "Watchdogs that ran late.",
    "connection_downs": "Connections of the subscriber that were lost.",
}
OTHERS = "Events that have no metric of their own, by their class."

#: The histograms.
TIMES = {
    "wait": "Time from the call of an acquire until it succeeded, or failed for whatever reason.",
    "hold": "Time for which a lock was held.",
}

#: Why a hold ended otherwise than by a release: the values of ``error.type``.
LOST = "pyredisson.errors.LockLostError"
UNKNOWN = "pyredisson.errors.OutcomeUnknownError"
HOLDER_GONE = "holder_gone"


class Recorder(ABC, Generic[Group]):
    """Records events as metrics. What a metric is, is up to the library.

    Args:
        label: Returns the label of a lock; ``None``: there are no labels.
        max_labels: The number of labels.

    Attributes:
        by_label: The locks with the same label, each as a group.
        holds: What is held now: its group, and what the library needs when it ends.
        waits: The waits in progress.
    """

    def __init__(self, label: Label | None, max_labels: int) -> None:
        self.by_label: PerLabel[Group] = PerLabel(label, max_labels, self.group_of)
        self.holds: Entries[tuple[Group, Any]] = Entries(lambda hold, until: self.hold_ended(*hold, at=until))
        self.waits: Entries[Group] = Entries()

    @abstractmethod
    def group_of(self, label: str | None) -> Group:
        """Return the metrics of the locks with one label."""

    @abstractmethod
    def count(self, metric: str, group: Group, number: int = 1) -> None:
        """Add to a counter of locks."""

    @abstractmethod
    def count_failure(self, reason: str, group: Group) -> None:
        """Count an acquire that ended without the lock."""

    @abstractmethod
    def count_of_client(self, metric: str, number: int = 1) -> None:
        """Add to a counter of clients."""

    @abstractmethod
    def count_other(self, event: events.Event) -> None:
        """Count an event that has no metric of its own."""

    @abstractmethod
    def measure(self, metric: str, seconds: float, group: Group) -> None:
        """Add to a histogram."""

    def hold_began(self, event: events.Acquired, group: Group) -> Any:
        """Note that a hold began. Returns what is needed when it ends."""

    def hold_ended(
        self, group: Group, noted: Any, *, error: str | None = None, text: str | None = None, at: float | None = None
    ) -> None:
        """Note that a hold ended.

        Args:
            group: The group of its lock.
            noted: What :meth:`hold_began` has returned.
            error: Why; ``None``: it was released, or its lease has ended.
            text: What is reported of the error.
            at: When it ended, by ``time.monotonic()``. ``None``: now.
        """

    def wait_began(self, group: Group) -> None:
        """Note that a wait began."""

    def wait_ended(self, event: events.WaitEnded, group: Group) -> None:
        """Note that a wait ended."""

    def lasting(self, entries: Iterable[tuple[float, Group]]) -> Mapping[Group, list[float]]:
        """Return for how many seconds each hold, or wait, has lasted, by group."""
        found: dict[Group, list[float]] = {group: [] for group in self.by_label.used()}
        for seconds, group in entries:
            found.setdefault(group, []).append(seconds)
        return found

    def lasting_holds(self) -> Mapping[Group, list[float]]:
        """Return for how many seconds each hold has lasted, by group."""
        return self.lasting((seconds, group) for seconds, (group, _) in self.holds.now())

    def lasting_waits(self) -> Mapping[Group, list[float]]:
        """Return for how many seconds each wait has lasted, by group."""
        return self.lasting(self.waits.now())

    def record(self, event: events.Event) -> None:
        """Record an event."""
        if isinstance(event, events.LockEvent):
            self._record_lock_event(event, self.by_label.of(event.name))
        else:
            self._record_client_event(event)

    def _record_lock_event(self, event: events.LockEvent, group: Group) -> None:
        key = (event.name, event.owner)
        match event:
            case events.Acquired():
                if event.holds <= 1:
                    self.count("acquisitions", group)
                    self.measure("wait", event.waited, group)
                if event.holds == 1:
                    before = self.holds.begin(key, event.lease, (group, self.hold_began(event, group)))
                    if before is not None:
                        self.hold_ended(*before)
            case events.Released():
                if not event.holds:
                    self.measure("hold", event.held, group)
                    self._end_hold(key)
            case events.TimedOut(waited=waited):
                self.count("timeouts", group)
                self.count_failure("timeout", group)
                self.measure("wait", waited, group)
            case events.AcquireFailed(waited=waited, reason=reason):
                self.count_failure(reason, group)
                self.measure("wait", waited, group)
            case events.WaitBegan():
                self.count("contentions", group)
                if self.waits.begin(key, None, group) is None:
                    self.wait_began(group)
            case events.WaitEnded():
                if self.waits.end(key) is not None:
                    self.wait_ended(event, group)
            case events.Lost(reason=text):
                self.count("losses", group)
                self._end_hold(key, LOST, text)
            case events.OutcomeUnknown(request=request, error=error):
                self.count("outcomes_unknown", group)
                if request == "an unlock":
                    self._end_hold(key, UNKNOWN, str(error))
            case events.GivenBack():
                self.count("settled", group)
                self._end_hold(key, UNKNOWN)
            case _:
                if isinstance(event, events.HolderGone):
                    self._end_hold(key, HOLDER_GONE, event.hint)
                self.count_other(event)

    def _record_client_event(self, event: events.Event) -> None:
        match event:
            case events.Renewed(locks=locks):
                self.count_of_client("renewals", locks)
            case events.RenewalFailed():
                self.count_of_client("renewal_failures")
            case events.WatchdogLate():
                self.count_of_client("watchdog_late")
            case events.ConnectionDown(attempt=1):
                self.count_of_client("connection_downs")
            case events.ConnectionDown() | events.ConnectionUp():
                pass
            case _:
                if isinstance(event, events.ClientCollected):
                    for hold in self.holds.end_all(event.client_id):
                        self.hold_ended(*hold, error=HOLDER_GONE, text="its client was garbage-collected")
                self.count_other(event)

    def _end_hold(self, key: tuple[str, str], error: str | None = None, text: str | None = None) -> None:
        hold = self.holds.end(key)
        if hold is not None:
            self.hold_ended(*hold, error=error, text=text)
