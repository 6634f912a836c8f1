"""What this process has seen since it started: events of each lock, and waits over the last hour. Memory is bounded."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

from pyredisson._tools.sampling.changes import changes
from pyredisson._tools.web.seen import SeenRow, shorten

MAX_LOCKS = 1_000
MAX_EVENTS = 100  # of each lock

BUCKET_SECONDS = 20
BUCKETS = 180  # an hour


@final
@dataclass(frozen=True)
class PageEvent:
    """A change of a lock's holders.

    Attributes:
        at: When it was seen, in Unix time.
        what: ``"acquired"``, ``"ended"`` (released, expired or freed), ``"freed"`` (here), or ``"held"``
            (when first seen).
        who: The holder.
        within: The change happened within that many seconds before ``at``.
    """

    at: float
    what: str
    who: str
    within: float


@final
class History:
    """The events of the locks that changed last."""

    def __init__(self, max_locks: int = MAX_LOCKS, max_events: int = MAX_EVENTS) -> None:
        self._max_locks, self._max_events = max_locks, max_events
        self._events: OrderedDict[str, deque[PageEvent]] = OrderedDict()
        self._titles: dict[str, str] = {}

    def of(self, lock_id: str) -> list[PageEvent]:
        """Return the events of a lock, newest first."""
        return list(reversed(self._events.get(lock_id, ())))

    def title_of(self, lock_id: str) -> str | None:
        """Return the name of a lock that has events, shortened."""
        return self._titles.get(lock_id)

    def add(self, row: SeenRow, event: PageEvent) -> None:
        """Add an event of a lock, and forget the lock that has not changed for longest if there are too many."""
        events = self._events.setdefault(row.id, deque(maxlen=self._max_events))
        events.append(event)
        self._titles[row.id] = row.title
        self._events.move_to_end(row.id)
        while len(self._events) > self._max_locks:
            forgotten, _ = self._events.popitem(last=False)
            del self._titles[forgotten]

    def compare(
        self, before: Mapping[str, SeenRow] | None, after: Mapping[str, SeenRow], at: float, within: float
    ) -> None:
        """Add the differences between two snapshots.

        Args:
            before: The earlier one; ``None`` for the first.
            after: The later one.
            at: When the later one was taken.
            within: Seconds between the two.
        """
        earlier = before or {}
        for lock_id in after.keys() | earlier.keys():
            was, now = earlier.get(lock_id), after.get(lock_id)
            row = now or was
            if row is None or was is now:
                continue
            for change in changes(was and was.lock, now and now.lock):
                if change.who is None or change.event == "reentered":
                    continue
                # Without messages, all that is known of an end is that it happened.
                what = "ended" if change.event != "acquired" else "held" if before is None else "acquired"
                self.add(row, PageEvent(at, what, shorten(change.who.label), within))


@final
@dataclass
class Bucket:
    """The most that was seen within a few seconds.

    Attributes:
        number: Its place: Unix time divided by ``BUCKET_SECONDS``.
        waiting: How many waited.
        longest: For how long the one that had waited longest had waited, in seconds.
    """

    number: int
    waiting: int = 0
    longest: float = 0.0


@final
class Waits:
    """Waits over the last hour. There are gaps where no snapshots were taken."""

    def __init__(self) -> None:
        self._buckets: deque[Bucket] = deque(maxlen=BUCKETS)

    def add(self, rows: Iterable[SeenRow], at: float) -> None:
        """Add a snapshot that was taken at a Unix time."""
        number = int(at // BUCKET_SECONDS)
        if not self._buckets or self._buckets[-1].number < number:
            self._buckets.append(Bucket(number))
        bucket, waiting, longest = self._buckets[-1], 0, 0.0
        for row in rows:
            waiting += row.lock.waiting
            longest = max([longest, *(at - each.since for each in row.lock.waiters if each.since and not each.dead)])
        bucket.waiting, bucket.longest = max(bucket.waiting, waiting), max(bucket.longest, longest)

    def last_hour(self, now: float) -> list[Bucket]:
        """Return the buckets of the hour before a Unix time, oldest first."""
        first = int(now // BUCKET_SECONDS) - BUCKETS + 1
        return [each for each in self._buckets if each.number >= first]
