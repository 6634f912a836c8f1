"""What single locks and multi-locks have alike: their owner's holds, its mark, and those who want to hear of a loss."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

T = TypeVar("T")


class Owned:
    """What one owner holds. Plain state, to which a :class:`pyredisson.Lease` can be.

    Attributes:
        mutex: Makes its changes atomic.
        holds: The nested holds, the innermost last.
        mark: What it has left in the context of its owner; set by ``leave_mark()``.
        on_loss: Called when it is lost.
        thread: The thread that is in the middle of a call on it; 0: none.
    """

    __slots__ = ("__weakref__", "holds", "mark", "mutex", "on_loss", "thread")

    mutex: AbstractContextManager[Any]
    holds: list[Any]
    mark: Callable[[], Any] | None
    on_loss: tuple[Callable[[], None], ...]
    thread: int

    async def called(self, thread: int, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Make a call on it, noting which thread is in the middle of it meanwhile."""
        try:
            self.thread = thread
            return await call(*args)
        finally:
            self.thread = 0  # An assignment, since signal handlers run at calls: the note never outlives the call.

    def has(self, hold: object) -> bool:
        """Whether that very hold is among those that are held (or lost, and not yet unlocked)."""
        return hold in self.holds

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(hold.block is None for hold in self.holds)

    def bring_up(self, hold: object) -> None:
        """Make this hold the one that is released next."""
        with self.mutex:
            if self.holds and self.holds[-1] is not hold:
                self.holds.remove(hold)
                self.holds.append(hold)

    def call_when_lost(self, callback: Callable[[], None]) -> None:
        """Call this, too, when it is lost."""
        self.on_loss = (*self.on_loss, callback)

    def call_no_more(self, callback: Callable[[], None]) -> None:
        """Its block was left."""
        self.on_loss = tuple(each for each in self.on_loss if each != callback)
