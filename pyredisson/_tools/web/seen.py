"""What pages show of a snapshot: a row for each lock, with times that do not flicker, searched, sorted and in pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final

from pyredisson._tools.common import plain
from pyredisson._tools.sampling.changes import owner_of
from pyredisson._tools.web.graph import Drawing, WaitEdge, draw
from pyredisson.inspection import DOUBTFUL, ClientView, LockView, Snapshot, WaitGraph, wait_graph
from pyredisson.inspection.model import shown_kinds, stored_kinds

PAGE = 100  # rows
MAX_SEARCH = 200  # characters
MAX_NAME = 240  # characters of a name that are shown
MAX_EDGES = 2_000  # waits that are considered for the drawing
MAX_PARTS = 200  # holders, waiters or keys of one lock that are shown

#: A time that changes by less than this from one snapshot to the next is the same time, measured again.
STEADY_SECONDS = 1.5

#: Notes that say in words what the fields of a lock say, and those that add a problem; all others are remarks.
_OTHER_PROBLEM = re.compile(r"^broken|^free, with a queue")
_PROBLEM = re.compile(rf"^never expires|not connected$|probably gone$|dead in the queue$|{_OTHER_PROBLEM.pattern}")

SHOWN = {"all": "All", "held": "Held", "waiting": "With waiters", "problems": "With problems"}
SORTS = {"waiting": "Waiting", "name": "Name", "since": "Held longest", "free": "Free soonest"}


@final
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
        if not self.lock.holders or stored_kinds()[self.lock.kind].number is not None or DOUBTFUL in self.lock.notes:
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


@final
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
    def held(self) -> int:
        """How many locks are held."""
        return sum(each.lock.held for each in self.rows.values())

    @property
    def contended(self) -> int:
        """How many have waiters."""
        return sum(each.lock.waiting > 0 for each in self.rows.values())

    @property
    def waiting(self) -> int:
        """How many wait for all of them."""
        return sum(each.lock.waiting for each in self.rows.values())

    @property
    def problems(self) -> int:
        """How many need attention."""
        return sum(bool(each.problems) for each in self.rows.values())

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


@final
@dataclass(frozen=True)
class Query:
    """Which locks a viewer wants to see, in which order.

    Attributes:
        text: A text that their names, kinds, holders or waiters contain.
        kind: Their kind; empty for all.
        show: One of ``SHOWN``.
        sort: One of ``SORTS``.
        page: From 1.
    """

    text: str = ""
    kind: str = ""
    show: str = "all"
    sort: str = "waiting"
    page: int = 1

    @staticmethod
    def read(parameters: Mapping[str, str]) -> Query:
        """Read the query of an address. What makes no sense is left out."""
        kind, show, sort, page = (parameters.get(name, "") for name in ("kind", "show", "sort", "page"))
        return Query(
            text=parameters.get("q", "").strip()[:MAX_SEARCH],
            kind=kind if kind in shown_kinds() else "",
            show=show if show in SHOWN else "all",
            sort=sort if sort in SORTS else "waiting",
            page=max(1, int(page)) if page.isdecimal() and len(page) < 6 else 1,
        )

    def matching(self, rows: Iterable[SeenRow]) -> list[SeenRow]:
        """Return the rows of all pages, in order."""
        text = self.text.lower()
        return sorted((row for row in rows if self._matches(row, text)), key=self._order)

    def _matches(self, row: SeenRow, text: str) -> bool:
        if self.kind and row.lock.kind != self.kind:
            return False
        shown = {"held": row.lock.held, "waiting": row.lock.waiting > 0, "problems": bool(row.problems)}
        return shown.get(self.show, True) and (not text or row.contains(text))

    def _order(self, row: SeenRow) -> tuple[float, str, str]:
        number = 0.0
        if self.sort == "waiting":
            number = -row.lock.waiting
        elif self.sort == "since":
            number = row.since if row.since is not None else float("inf")
        elif self.sort == "free":
            number = row.until if row.until is not None else float("inf")
        return number, row.lock.name, row.id
