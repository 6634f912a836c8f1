"""Marks that holds leave in the contexts in which they were acquired, and what all owners have in common.

A call chain knows its own holds by them. A mark lives as long as a context has it: when none has it any more, the hold
cannot be released, and is no longer renewed.

Frameworks copy contexts, for each request, and each copy goes on by itself. So the marks of a context are an immutable
map, of which a changed copy shares all but a few nodes: neither acquiring nor finding costs more because more is held.
A node is a leaf, a ``dict``, or a tuple of sixteen nodes, chosen by four bits of the key's hash.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final, TypeAlias, Union

from pyredisson.core.ownership.owner_protocols import Caller, Holding

_numbers = itertools.count(1)

#: The name of a lock, and the number of the thread or task that holds it.
Key: TypeAlias = "tuple[str, int]"

#: How many keys a leaf has before it is divided, unless some of their marks are of no use any more.
LEAF: Final = 16


class Mark:
    """Stands in a context for a hold that was acquired there.

    Attributes:
        held: Returns what is held, as long as that exists.
        key: Where it is found.
    """

    __slots__ = ("__weakref__", "held", "key")

    held: weakref.ref[Holding]
    key: Key

    def live(self) -> bool:
        """Whether that very hold is still held."""
        held = self.held()
        return held is not None and held.mark is not None and held.mark() is self and held.in_use()


Node: TypeAlias = Union["dict[Key, tuple[Mark, ...]]", "tuple[Node, ...]"]

_EMPTY: Node = {}
_marks: ContextVar[Node] = ContextVar("pyredisson.holds", default=_EMPTY)


def live_marks(key: Key) -> list[Mark]:
    """Return the marks of the calling context for holds that are still held, innermost first."""
    return [mark for mark in reversed(_find(key)) if mark.live()]


def has_mark(held: Holding) -> bool:
    """Return whether the calling context has the mark of what is held, or was held last."""
    mark = held.mark() if held.mark is not None else None
    if mark is None:
        return False
    node, bits = _marks.get(), hash(mark.key)
    while isinstance(node, tuple):
        node, bits = node[bits & 15], bits >> 4
    return mark in node.get(mark.key, ())


def leave_mark(held: Holding, names: tuple[str, ...], number: int) -> None:
    """Leave a mark of what is held in the calling context.

    Args:
        held: What.
        names: The locks that this is about.
        number: The number of the thread or task.
    """
    mark = Mark()
    mark.held, mark.key = weakref.ref(held), (names[0], number)
    known = weakref.ref(mark)
    while held.mark is not known:
        held.mark = known
        before = after = _marks.get()
        for name in names:
            after = _with_mark(after, mark.key if name == names[0] else (name, number), mark, 0)
        token = _marks.set(after)
        if token.old_value is not before and token.old_value is not Token.MISSING:
            _marks.reset(token)  # A signal handler has left a mark meanwhile.
            held.mark = None


def _find(key: Key) -> tuple[Mark, ...]:
    node, bits = _marks.get(), hash(key)
    while isinstance(node, tuple):
        node, bits = node[bits & 15], bits >> 4
    return node.get(key, ())


def _with_mark(node: Node, key: Key, mark: Mark, depth: int) -> Node:
    """Return a copy of a node that has one more mark. ``depth``: how many bits of hashes have led to it."""
    if isinstance(node, tuple):
        at = hash(key) >> depth & 15
        child = _with_mark(node[at], key, mark, depth + 4)
        nodes = (*node[:at], child, *node[at + 1 :])
        return nodes if len(child) > 1 else _joined(nodes, mark)
    if len(node) >= LEAF:
        node = {each: live for each, marks in node.items() if (live := _live(marks))}
    leaf, held = node.copy(), mark.held()
    marks = node.get(key)
    if marks is None or (len(marks) == 1 and marks[0].held() is held):  # As a rule, that of its owner's last hold.
        leaf[key] = (mark,)
    else:
        # What is not held may be about to be, by a call that a signal handler has interrupted; there are few of these.
        kept = marks if len(marks) <= LEAF else _live(marks)
        leaf[key] = (*[each for each in kept if each.held() not in (None, held)], mark)
    if len(leaf) <= LEAF or depth > 60:
        return leaf
    leaves: list[dict[Key, tuple[Mark, ...]]] = [{} for _ in range(16)]
    for each, marks in leaf.items():
        leaves[hash(each) >> depth & 15][each] = marks
    return tuple(leaves)


def _joined(nodes: tuple[Node, ...], new: Mark) -> Node:
    """Return one leaf instead of sixteen, if few of their marks are of use any more: much was held, and is no longer.

    ``new`` has just been added.
    """
    leaf: dict[Key, tuple[Mark, ...]] = {}
    for node in nodes:
        if isinstance(node, tuple):
            return nodes
        for key, marks in node.items():
            if live := marks if marks[-1] is new else _live(marks):
                leaf[key] = live
                if len(leaf) > LEAF // 2:
                    return nodes
    return leaf


def _live(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    return tuple([mark for mark in marks if mark.live()])


class AnyOwner:
    """What all owners have in common.

    Attributes:
        number: Never used for another owner of this process.
        name: See ``Caller.name``.
        shared: Whether call chains that have nothing to do with each other may come along under this owner.
        divided: Whether that has happened.
    """

    __slots__ = ("name", "number")

    shared = False
    divided = False

    def __init__(self, name: str) -> None:
        self.number: int = next(_numbers)
        self.name: str = name

    def stack(self) -> tuple[str, ...]:
        """See ``Caller.stack``: it is no thread or task."""
        return ()

    def acting(self, names: tuple[str, ...], taken: Callable[[Caller], bool]) -> Caller:
        """See ``Caller.acting``: no other call runs under this owner."""
        return self  # type: ignore[return-value]  # Its kinds are what has the rest.

    #: See ``Caller.has_mark``.
    has_mark: staticmethod[[Holding], bool] = staticmethod(has_mark)

    def mark(self, held: Holding, names: tuple[str, ...], report: Callable[[Holding], object]) -> None:
        """See ``Caller.mark``: whose holds these are does not depend on the context."""

    def check_left_behind(self, held: Holding, report: Callable[[Holding], object]) -> None:
        """See ``Caller.check_left_behind``."""
