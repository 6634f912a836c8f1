"""Who waits for whom, across processes, and in a circle: a deadlock. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TypeAlias, final

from pyredisson.inspection.kinds import stored_kinds
from pyredisson.inspection.model import LockView, WaiterView, Who

MAX_EDGES = 100_000
MAX_CYCLES = 100

_Node: TypeAlias = tuple[str, int]


@final
@dataclass(frozen=True)
class Edge:
    """An owner waits for another, who holds a lock.

    Attributes:
        waiter: Who waits.
        lock: The name of the lock.
        kind: As what the waiter wants it.
        holder: Who holds it.
        since: Since when the waiter waits, in Unix seconds.
    """

    waiter: Who
    lock: str
    kind: str
    holder: Who
    since: float | None = None


@final
@dataclass(frozen=True)
class WaitGraph:
    """All waits, and the deadlocks among them.

    Attributes:
        edges: Who waits for whom.
        cycles: Waits in a circle: each edge's holder is the next one's waiter.
    """

    edges: tuple[Edge, ...] = ()
    cycles: tuple[tuple[Edge, ...], ...] = ()


def wait_graph(locks: Iterable[LockView]) -> WaitGraph:
    """Return who waits for whom, and one cycle of each group of owners that wait for each other."""
    edges: list[Edge] = []
    for lock in locks:
        for waiter in lock.waiters:
            for holder in _blocking(lock, waiter):
                if len(edges) < MAX_EDGES:
                    edges.append(Edge(waiter.who, lock.name, waiter.kind, holder, waiter.since))
    return WaitGraph(tuple(edges), tuple(_cycles(edges)))


def _blocking(lock: LockView, waiter: WaiterView) -> list[Who]:
    """Return the holders for whom a waiter has to wait."""
    kind = stored_kinds().get(lock.kind)
    if kind is None or kind.force_unlock is None or waiter.dead:  # Permits and counts may come from any client.
        return []
    if waiter.kind == kind.shared and lock.mode == kind.sides[waiter.kind]:
        return []
    return list(lock.holders)


def _node(who: Who) -> _Node | None:
    return None if who.client_id is None or who.thread_id is None else (who.client_id, who.thread_id)


def _cycles(edges: list[Edge]) -> list[tuple[Edge, ...]]:
    between: dict[tuple[_Node, _Node], Edge] = {}
    waits: dict[_Node, list[_Node]] = defaultdict(list)
    for edge in edges:
        waiter, holder = _node(edge.waiter), _node(edge.holder)
        if waiter is not None and holder is not None:
            between[waiter, holder] = edge
            waits[waiter].append(holder)
    found: list[tuple[Edge, ...]] = []
    while len(found) < MAX_CYCLES:
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            owners: list[_Node] = error.args[1][::-1]  # The first is the last, too.
            found.append(tuple(between[pair] for pair in pairwise(owners)))
            for owner in owners[1:]:
                del waits[owner]  # Of these one cycle is enough.
        else:
            break
    return found
