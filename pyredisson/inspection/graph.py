"""Who waits for whom, across processes, and in a circle: a deadlock. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias, final

from pyredisson.inspection.kinds import stored_kinds
from pyredisson.inspection.model import LockView, WaiterView, Who

MAX_EDGES = 100_000
MAX_CYCLES = 1000

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
    out: dict[_Node, list[tuple[_Node, Edge]]] = defaultdict(list)
    for edge in edges:
        waiter, holder = _node(edge.waiter), _node(edge.holder)
        if waiter is not None and holder is not None:
            out[waiter].append((holder, edge))
    found: list[tuple[Edge, ...]] = []
    covered: set[_Node] = set()
    for node in _in_circles(out):
        if node not in covered and len(found) < MAX_CYCLES:
            cycle = _shortest_circle(node, out)
            if cycle:
                found.append(cycle)
                covered.update(each for edge in cycle if (each := _node(edge.waiter)) is not None)
    return found


def _in_circles(out: dict[_Node, list[tuple[_Node, Edge]]]) -> list[_Node]:
    """Return the nodes that are left when those without a way out, and those without a way in, are taken away."""
    back: dict[_Node, list[_Node]] = defaultdict(list)
    for node, ways in out.items():
        for to, _ in ways:
            back[to].append(node)
    return sorted(_without_end({node: [to for to, _ in ways] for node, ways in out.items()}) & _without_end(back))


def _without_end(ways: Mapping[_Node, Iterable[_Node]]) -> set[_Node]:
    """Return the nodes from which a circle can be reached."""
    sorter = TopologicalSorter(ways)
    with suppress(CycleError):
        sorter.prepare()
    left = set(ways)
    while ended := sorter.get_ready():
        left.difference_update(ended)
        sorter.done(*ended)
    return left


def _shortest_circle(start: _Node, out: dict[_Node, list[tuple[_Node, Edge]]]) -> tuple[Edge, ...]:
    """Return the shortest way from a node back to it; empty if there is none."""
    reached: dict[_Node, tuple[_Node, Edge]] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for to, edge in out.get(node, ()):
            if to == start:
                path = [edge]
                while node != start:
                    node, edge = reached[node]
                    path.append(edge)
                return tuple(reversed(path))
            if to not in reached:
                reached[to] = (node, edge)
                queue.append(to)
    return ()
