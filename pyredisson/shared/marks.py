"""Marks that holds leave in the contexts in which they were acquired, and what all owners have in common.

A call chain knows its own holds by them. A mark lives as long as its context: when that is gone, the hold cannot be
released, and is no longer renewed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from pyredisson.core.callers import Caller, Holding

__all__ = ["AnyOwner", "Mark", "leave_mark", "live_marks"]

_numbers = itertools.count(1)


class Mark:
    """Stands in a context for a hold that was acquired there.

    Attributes:
        held: What is held.
        names: The locks that this is about.
        outer: The hold within which this one was acquired.
        job: The job of a thread pool that acquired it; ``None`` outside of pools.
    """

    __slots__ = ("__weakref__", "held", "job", "names", "outer")

    def __init__(
        self, held: Holding, names: tuple[str, ...], outer: Mark | None, job: weakref.ref[object] | None = None
    ) -> None:
        self.held: Holding = held
        self.names: tuple[str, ...] = names
        self.outer: Mark | None = outer
        self.job: weakref.ref[object] | None = job

    def live(self) -> bool:
        """Whether that very hold is still held."""
        known = self.held.mark
        return known is not None and known() is self and self.held.in_use()


_innermost: ContextVar[Mark | None] = ContextVar("pyredisson.innermost_hold", default=None)


def live_marks() -> Iterator[Mark]:
    """Return the holds of the calling context that are still held, innermost first."""
    mark = _innermost.get()
    while mark is not None:
        if mark.live():
            yield mark
        mark = mark.outer


def leave_mark(held: Holding, names: tuple[str, ...], job: weakref.ref[object] | None = None) -> None:
    """Leave a mark of what is held in the calling context. The arguments are the attributes of :class:`Mark`."""
    while True:
        outer = _innermost.get()
        # What is only about to be held has left no mark that is still live; and this is the hot path.
        while outer is not None and (outer.held is held or not outer.live()):
            outer = outer.outer
        mark = Mark(held, names, outer, job)
        _innermost.set(mark)
        held.marked(weakref.ref(mark))
        if _innermost.get() is mark:  # Else a signal handler has held it meanwhile, and left a mark of its own.
            return


class AnyOwner:
    """What all owners have in common.

    Attributes:
        number: Never used for another owner of this process.
        shared: Whether call chains that have nothing to do with each other may come along under this owner.
        divided: Whether that has happened.
        pooled: Whether it is a thread that a pool gives its jobs.
    """

    __slots__ = ("number",)

    shared = False
    divided = False
    pooled = False

    def __init__(self) -> None:
        self.number: int = next(_numbers)

    @property
    def name(self) -> str:
        """See ``Caller.name``."""
        return self.describe()  # type: ignore[no-any-return, attr-defined]

    def stack(self) -> tuple[str, ...]:
        """See ``Caller.stack``: it is no thread or task."""
        return ()

    def acting(self, names: tuple[str, ...], taken: Callable[[Caller], bool]) -> Caller:
        """See ``Caller.acting``: no other call runs under this owner."""
        return self  # type: ignore[return-value]  # Its kinds are what has the rest.

    #: See ``Caller.innermost``.
    innermost: staticmethod[[], Mark | None] = staticmethod(_innermost.get)

    def mark(self, held: Holding, names: tuple[str, ...], tell: Callable[[Holding], object]) -> None:
        """See ``Caller.mark``."""
        leave_mark(held, names)

    def marks(self) -> Iterator[Mark]:
        """The holds of the calling context, innermost first."""
        return live_marks()

    def look_behind(self, held: Holding, tell: Callable[[Holding], object]) -> None:
        """See ``Caller.look_behind``."""
