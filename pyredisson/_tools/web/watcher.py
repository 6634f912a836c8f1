"""What pages show of the locks of a server, and the one loop that looks at it for all viewers.

A snapshot becomes a row for each lock, with times that do not flicker, a drawing of who waits for whom, and a history.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from pyredisson._tools.common import plain
from pyredisson._tools.sampling import Pace, changes, in_daemon_thread, owner_of
from pyredisson.inspection import DOUBTFUL, ClientView, LockView, Snapshot, WaitGraph, describe, wait_graph
from pyredisson.inspection.model import stored_kinds

MAX_NAME = 240  # characters of a name that are shown
MAX_EDGES = 2_000  # waits that are considered for the drawing

#: A time that changes by less than this from one snapshot to the next is the same time, measured again.
STEADY_SECONDS = 1.5

#: Notes that say in words what the fields of a lock say, and those that add a problem; all others are remarks.
_OTHER_PROBLEM = re.compile(r"^broken|^free, with a queue")
_PROBLEM = re.compile(rf"^never expires|not connected$|probably gone$|dead in the queue$|{_OTHER_PROBLEM.pattern}")


class Shown(str):
    """A text that pages may show: all of its characters are printable, and it is not long."""

    __slots__ = ()


def shorten(text: str) -> Shown:
    """Return a text in printable characters, a long one without its middle: names may have any length and content."""
    if isinstance(text, Shown):
        return text
    if len(text) > MAX_NAME:
        return Shown(f"{plain(text[: MAX_NAME - 40])}…{plain(text[-40:])} ({len(text):,} characters)")
    return Shown(plain(text))


def id_of(lock: LockView) -> str:
    """Return what a lock is called in addresses: its name may have any length and content."""
    return hashlib.sha256(f"{lock.node}\0{lock.name}".encode("utf-8", "surrogatepass")).hexdigest()[:20]


@final
@dataclass(frozen=True)
class SeenRow:
    """A lock as it is shown.

    Attributes:
        id: What it is called in addresses.
        lock: The lock as the inspection library describes it, with times that do not flicker.
        until: When it is free, in Unix time, unless it is renewed.
        ends: The same of each of its holders.
        problems: What needs attention.
        remarks: What else there is to say.
    """

    id: str
    lock: LockView
    until: float | None
    ends: tuple[float | None, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its name, shortened."""
        return shorten(self.lock.name)

    @property
    def ownership(self) -> str | None:
        """A digest of who holds it; ``None`` if it has no holders who could lose it. A form names holders by it."""
        lock = self.lock
        may_be_data = DOUBTFUL in lock.notes or lock.may_be_data
        if not lock.holders or stored_kinds()[lock.kind].number is not None or may_be_data:
            return None
        owners = "\0".join(sorted(each.owner for each in self.lock.holders))
        return hashlib.sha256(owners.encode("utf-8", "surrogatepass")).hexdigest()[:20]

    @property
    def state(self) -> str:
        """What to say where no holder is known."""
        number = stored_kinds()[self.lock.kind].number
        if number == "count":
            return "closed" if self.lock.count else "open"
        if number == "changes":
            return "-"
        return f"{self.lock.taken} permits taken" if self.lock.taken else "free"

    @property
    def since(self) -> float | None:
        """When the first of its holders acquired it, as far as that is known."""
        return min((each.since for each in self.lock.holders if each.since is not None), default=None)

    def contains(self, text: str) -> bool:
        """Whether a text in lower case is in its name, its kind, or the name of a holder or waiter."""
        owners = (*(each.label for each in self.lock.holders), *(each.who.label for each in self.lock.waiters))
        names = (self.lock.name, self.lock.kind, *owners)
        return any(text in name.lower() for name in names)


@dataclass(frozen=True)
class SeenState:
    """A snapshot as it is shown.

    Attributes:
        snapshot: The snapshot.
        rows: Its locks, by id.
        drawing: Which owner waits for which; ``None`` if none does.
    """

    snapshot: Snapshot
    rows: Mapping[str, SeenRow]
    drawing: Drawing | None

    @property
    def clients(self) -> list[ClientView]:
        """Those that hold or wait for most first."""
        return sorted(
            self.snapshot.clients, key=lambda each: (-len(each.holds) - len(each.waits), each.client_id or "")
        )


def see(snapshot: Snapshot, before: SeenState | None) -> SeenState:
    """Return what is shown of a snapshot, given what was shown of the one before."""
    earlier = before.rows if before is not None else {}
    graph = wait_graph(snapshot.locks)
    deadlocked = {edge.lock for cycle in graph.cycles for edge in cycle}
    rows = {}
    for lock in snapshot.locks:
        lock_id = id_of(lock)
        rows[lock_id] = _row(lock_id, lock, snapshot.taken, earlier.get(lock_id), lock.name in deadlocked)
    return SeenState(snapshot, rows, _drawing(graph, rows))


def _drawing(graph: WaitGraph, rows: Mapping[str, SeenRow]) -> Drawing | None:
    ids = {row.lock.name: row.id for row in rows.values()}
    deadlocks = {id(edge) for cycle in graph.cycles for edge in cycle}
    edges = sorted(graph.edges, key=lambda edge: id(edge) not in deadlocks)[:MAX_EDGES]
    waits = [
        WaitEdge(
            waiter=shorten(edge.waiter.label),
            lock=shorten(edge.lock),
            lock_id=ids.get(edge.lock),
            holder=shorten(edge.holder.label),
            deadlock=id(edge) in deadlocks,
        )
        for edge in edges
    ]
    return draw(waits, len(graph.cycles))


def _row(lock_id: str, lock: LockView, taken: float, before: SeenRow | None, deadlocked: bool) -> SeenRow:
    holders = before.lock.holders if before else ()
    held = dict(zip(map(owner_of, holders), zip(holders, before.ends, strict=True), strict=True)) if before else {}
    waited = {owner_of(each.who): each.since for each in before.lock.waiters} if before else {}
    was = [held.get(owner_of(who), (None, None)) for who in lock.holders]
    seen = replace(
        lock,
        holders=tuple(
            replace(who, since=_steady(earlier and earlier.since, who.since))
            for who, (earlier, _) in zip(lock.holders, was, strict=True)
        ),
        waiters=tuple(
            replace(each, since=_steady(waited.get(owner_of(each.who)), each.since)) for each in lock.waiters
        ),
    )
    row = SeenRow(
        id=lock_id,
        lock=seen,
        until=_steady(before and before.until, _after(taken, lock.free_in)),
        ends=tuple(_steady(end, _after(taken, who.remaining)) for who, (_, end) in zip(lock.holders, was, strict=True)),
        problems=_problems(lock, deadlocked),
        remarks=tuple(shorten(each) for each in lock.notes if not _PROBLEM.search(each)),
    )
    return before if row == before and before is not None else row


def _after(taken: float, seconds: float | None) -> float | None:
    return None if seconds is None else taken + seconds


def _steady(before: float | None, now: float | None) -> float | None:
    if now is None or before is None or abs(now - before) > STEADY_SECONDS:
        return None if now is None else round(now, 1)
    return before


def _problems(lock: LockView, deadlocked: bool) -> tuple[str, ...]:
    found = ["deadlock"] if deadlocked else []
    if lock.never_expires and lock.holders:
        found.append("never expires")
    if any(each.connected is False for each in lock.holders):
        found.append("holder not connected")
    if any(each.probably_gone for each in lock.holders):
        found.append("holder probably gone")
    if any(each.dead for each in lock.waiters):
        found.append("dead waiters")
    found += [shorten(each) for each in lock.notes if _OTHER_PROBLEM.search(each)]
    return tuple(found)


# ---- graph -----------------------------------------------------------------------------------------------------------
# The wait-for graph as SVG: waiters on the left, the holders that they wait for on the right, deadlocks in red.


MAX_WAITS = 40  # arrows that are drawn
MAX_LISTED = 200  # waits that are listed
MAX_OF_ONE = 5  # waiters that are drawn for one lock of one holder, if no one waits for them

WIDTH, HEIGHT = 236, 30  # of a box
ACROSS, DOWN = 400, 52  # from one box to the next
MARGIN, ARC = 14, 46
LABEL, LOCK = 30, 20  # characters that fit in a box and on an arrow


class WaitEdge(NamedTuple):
    """An owner waits for a lock that another one holds.

    Attributes:
        waiter: The owner that waits.
        lock: The name of the lock, shortened.
        lock_id: What the lock is called in addresses; ``None`` if it has no page.
        holder: The owner that holds the lock.
        deadlock: Whether this is part of a cycle.
    """

    waiter: str
    lock: str
    lock_id: str | None
    holder: str
    deadlock: bool


class Box(NamedTuple):
    """An owner in the drawing, with the middle of its box."""

    label: str
    title: str
    x: float
    y: float
    deadlock: bool


class Arrow(NamedTuple):
    """A wait in the drawing: its line, and where the name of the lock is written."""

    path: str
    label: str
    title: str
    x: float
    y: float
    deadlock: bool


class Drawing(NamedTuple):
    """The graph, drawn and as a list.

    Attributes:
        boxes: Its owners.
        arrows: Its waits.
        waits: The same as a list, deadlocks first.
        cycles: How many deadlocks there are.
        left_out: How many waits are not drawn.
        unlisted: How many are not in the list.
        width: The width of the drawing.
        height: Its height.
        box: Width and height of a box.
    """

    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    waits: Sequence[WaitEdge]
    cycles: int
    left_out: int
    unlisted: int
    width: int
    height: int
    box: tuple[int, int] = (WIDTH, HEIGHT)


def draw(waits: Iterable[WaitEdge], cycles: int) -> Drawing | None:
    """Draw a graph; ``None`` if it is empty."""
    ordered = sorted(waits, key=lambda each: (not each.deadlock, each.lock, each.holder, each.waiter))
    if not ordered:
        return None
    drawn = _without_crowds(ordered)[:MAX_WAITS]
    places, height = _places(drawn)
    deadlocked = {owner for each in drawn if each.deadlock for owner in (each.waiter, each.holder)}
    boxes = [Box(_cut(owner, LABEL), owner, x, y, owner in deadlocked) for owner, (x, y) in places.items()]
    arrows = [_arrow(each, places[each.waiter], places[each.holder]) for each in drawn]
    width = max(each.x for each in boxes) + WIDTH / 2 + MARGIN
    left_out = max(0, len(ordered) - len(drawn))
    listed = ordered[:MAX_LISTED]
    return Drawing(boxes, arrows, listed, cycles, left_out, len(ordered) - len(listed), int(width), int(height))


def _without_crowds(waits: Sequence[WaitEdge]) -> list[WaitEdge]:
    """Leave out most of those that wait for the same, unless another owner waits for them in turn."""
    awaited = {each.holder for each in waits}
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for each in waits:
        if not each.deadlock and each.waiter not in awaited:
            seen[each.lock, each.holder] += 1
            if seen[each.lock, each.holder] > MAX_OF_ONE:
                continue
        kept.append(each)
    return kept


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


# ---- where the boxes are ---------------------------------------------------------------------------------------------


def _places(waits: Sequence[WaitEdge]) -> tuple[dict[str, tuple[float, float]], float]:
    """Return the middle of each owner's box, and the height of the whole drawing."""
    places: dict[str, tuple[float, float]] = {}
    top = float(MARGIN)
    for group in _groups(waits):
        layers = _layers(group)
        columns: dict[int, list[str]] = defaultdict(list)
        for owner, layer in layers.items():
            columns[layer].append(owner)
        last = max(columns)
        rows = max(map(len, columns.values()))
        # Cycles at the bottom, so that no other box is in the way of the arrow that closes one.
        deadlocked = {owner for each in group if each.deadlock for owner in (each.waiter, each.holder)}
        for layer, owners in columns.items():
            owners.sort(key=deadlocked.__contains__)
            indent = (rows - len(owners)) * DOWN / (1 if deadlocked else 2)
            for number, owner in enumerate(owners):
                x = MARGIN + WIDTH / 2 + (last - layer) * ACROSS
                places[owner] = x, top + indent + number * DOWN + HEIGHT / 2
        has_arc = any(layers[each.waiter] <= layers[each.holder] for each in group)
        top += (rows - 1) * DOWN + HEIGHT + (ARC if has_arc else 0) + MARGIN
    return places, top


def _groups(waits: Sequence[WaitEdge]) -> list[list[WaitEdge]]:
    """Return the waits of each part of the graph that is connected."""
    groups: list[tuple[set[str], list[WaitEdge]]] = []
    for each in waits:
        owners = {each.waiter, each.holder}
        touched = [group for group in groups if group[0] & owners]
        groups = [group for group in groups if not group[0] & owners]
        together = [wait for group in touched for wait in group[1]]
        groups.append((owners.union(*(group[0] for group in touched)), [*together, each]))
    return [group[1] for group in groups]


def _layers(waits: Sequence[WaitEdge]) -> dict[str, int]:
    """Return the column of each owner, counted from the right: one more than those it waits for, cycles cut open."""
    waits_for: dict[str, list[str]] = defaultdict(list)
    for each in waits:
        waits_for[each.waiter].append(each.holder)
    layers: dict[str, int] = {}

    def visit(owner: str, path: frozenset[str]) -> int:
        if owner not in layers:
            ahead = [visit(each, path | {owner}) for each in waits_for[owner] if each not in path and each != owner]
            layers[owner] = max(ahead, default=-1) + 1
        return layers[owner]

    for each in waits:
        visit(each.waiter, frozenset())
    return layers


# ---- arrows ----------------------------------------------------------------------------------------------------------


def _arrow(wait: WaitEdge, start: tuple[float, float], end: tuple[float, float]) -> Arrow:
    (x, y), (to_x, to_y) = start, end
    title = f"{wait.waiter} waits for {wait.lock}, held by {wait.holder}"
    if x < to_x:
        left, right = x + WIDTH / 2, to_x - WIDTH / 2
        half = (right - left) / 2
        path = f"M{left:g} {y:g}C{left + half:g} {y:g} {right - half:g} {to_y:g} {right - 1:g} {to_y:g}"
        middle = left + half, (y + to_y) / 2 - 5
    else:  # Against the direction, which is what makes a cycle: below the boxes.
        shift = WIDTH / 4 if x == to_x else 0
        low = max(y, to_y) + HEIGHT / 2
        path = (
            f"M{x + shift:g} {y + HEIGHT / 2:g}C{x + shift:g} {low + ARC:g} {to_x - shift:g} {low + ARC:g} "
            f"{to_x - shift:g} {to_y + HEIGHT / 2 + 1:g}"
        )
        middle = (x + to_x) / 2, low + ARC * 0.75 - 5
    return Arrow(path, _cut(wait.lock, LOCK), title, *middle, wait.deadlock)


# ---- history ---------------------------------------------------------------------------------------------------------
# What this process has seen since it started: events of each lock, and waits over the last hour. Memory is bounded.


MAX_LOCKS = 1_000
MAX_EVENTS = 100  # of each lock

BUCKET_SECONDS = 20
BUCKETS = 180  # an hour


class PageEvent(NamedTuple):
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


# ---- watcher ---------------------------------------------------------------------------------------------------------
# Looking at the server: one loop for all viewers, at most once an interval, and not at all while no page is open.


#: Pauses are at least this many times as long as the look before: however many keys there are, the server has a rest.
REST = 4

#: A page without events (its first seconds, or without JavaScript) counts as a viewer for that long.
LINGER_SECONDS = 5.0


class Trouble(NamedTuple):
    """The server does not answer.

    Attributes:
        since: The Unix time of the first attempt that failed.
        error: Why the last one failed.
    """

    since: float
    error: str


class Watcher:
    """The last snapshot, what changed before, and the loop that takes the next one.

    Attributes:
        seen: The last snapshot that was taken; ``None`` before the first.
        interval: Seconds from one look to the next, at least.
        always: Whether it looks without viewers, too.
        trouble: Why there is no newer one; ``None`` if the last attempt succeeded.
        history: The events of each lock.
        waits: Waits over the last hour.
        started: When this process started to look, in Unix time.
        version: Grows with each attempt.
        closing: Whether the program is about to end; streams end then.
        resting: Whether no one looks, and so the loop waits.
    """

    def __init__(self, take: Callable[[], Snapshot], *, interval: float, always: bool = False) -> None:
        self._take = take
        self._pace = Pace(REST)
        self.interval: float = interval
        self.always: bool = always
        self.seen: SeenState | None = None
        self.trouble: Trouble | None = None
        self.history: History = History()
        self.waits: Waits = Waits()
        self.started: float = time.time()
        self.version: int = 0
        self.viewers: int = 0
        self.closing: bool = False
        self.resting: bool = False
        self._known: Mapping[str, SeenRow] | None = None
        self._wanted_until = 0.0
        self._looked_at = float("-inf")
        self._wanted, self._hurry, self._news = asyncio.Event(), asyncio.Event(), asyncio.Event()

    # ---- for viewers -------------------------------------------------------------------------------------------------

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Keep the loop running for the duration of a block."""
        self.viewers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.viewers -= 1

    def look_now(self) -> None:
        """Take the next snapshot without a pause: something was changed here."""
        self._hurry.set()

    async def look_soon(self, within: float) -> None:
        """Wait until there is a snapshot that is not old, but at most ``within`` seconds."""
        if time.monotonic() - self._looked_at <= 2 * self.interval:
            return
        self._wanted_until = time.monotonic() + LINGER_SECONDS
        self._wanted.set()
        await self.news(self.version, within)

    async def news(self, version: int, within: float) -> None:
        """Wait until there is a later version than this one, or the program ends, but at most ``within`` seconds."""
        if self.version == version and not self.closing:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), within)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look at the server, again and again, until cancelled."""
        while True:
            while not (self.always or self.viewers or time.monotonic() < self._wanted_until):
                self._wanted.clear()
                self.resting = True
                await self._wanted.wait()
                self.resting = False
            began = time.monotonic()
            await self.look()
            took = time.monotonic() - began
            # A server that does not answer needs no rest, and its return is to be seen soon.
            pause = self.interval if self.trouble else max(self.interval - took, self._pace.pause_after(took))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pause)
            self._hurry.clear()

    async def look(self) -> None:
        """Take one snapshot and publish it, or why there is none."""
        before = self.seen
        try:
            seen = await asyncio.wrap_future(in_daemon_thread(lambda: see(self._take(), before), "pyredisson-web-look"))
        except Exception as error:
            self._fail(describe(error))
        else:
            self._accept(before, seen)
        self._looked_at = time.monotonic()
        self.publish()

    def _accept(self, before: SeenState | None, seen: SeenState) -> None:
        snapshot = seen.snapshot
        if snapshot.errors and not (snapshot.complete or snapshot.keys_seen):
            self._fail(snapshot.errors[0])  # No server replied: what was seen before is worth more.
        else:
            self._remember(before, seen)
            self.seen, self.trouble = seen, None

    def _fail(self, error: str) -> None:
        since = self.trouble.since if self.trouble else time.time()
        self.trouble = Trouble(since, shorten(error))

    def _remember(self, before: SeenState | None, seen: SeenState) -> None:
        taken = seen.snapshot.taken
        within = taken - before.snapshot.taken if before else 0.0
        after = seen.rows
        if self._known is not None and not seen.snapshot.complete:
            after = {**self._known, **after}  # What an incomplete snapshot lacks may well be there.
        self.history.compare(self._known, after, taken, within)
        self._known = after
        self.waits.add(seen.rows.values(), taken)

    def publish(self) -> None:
        """Wake all streams."""
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self.closing = True
        self.publish()
