"""The wait-for graph as SVG: waiters on the left, the holders that they wait for on the right, deadlocks in red."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

MAX_WAITS = 40  # arrows that are drawn
MAX_LISTED = 200  # waits that are listed
MAX_OF_ONE = 5  # waiters that are drawn for one lock of one holder, if no one waits for them

WIDTH, HEIGHT = 236, 30  # of a box
ACROSS, DOWN = 400, 52  # from one box to the next
MARGIN, ARC = 14, 46
LABEL, LOCK = 30, 20  # characters that fit in a box and on an arrow


@final
@dataclass(frozen=True)
class WaitEdge:
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


@final
@dataclass(frozen=True)
class Box:
    """An owner in the drawing, with the middle of its box."""

    label: str
    title: str
    x: float
    y: float
    deadlock: bool


@final
@dataclass(frozen=True)
class Arrow:
    """A wait in the drawing: its line, and where the name of the lock is written."""

    path: str
    label: str
    title: str
    x: float
    y: float
    deadlock: bool


@final
@dataclass(frozen=True)
class Drawing:
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
