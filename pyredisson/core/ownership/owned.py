"""What single locks and multi-locks have alike: their owner's holds, its mark, and who is notified of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from pyredisson.core.ownership.owner_protocols import Caller

T = TypeVar("T")


class CallNote:
    """Notes on what is held that a thread is in the middle of a call on it.

    Attributes:
        thread: The thread; 0: the call has ended. That is an assignment, and signal handlers run at calls and in loops:
            whatever they raise, no note outlives its call.
    """

    __slots__ = ("thread",)

    def __init__(self, thread: int) -> None:
        self.thread: int = thread


NO_CALL: Final = CallNote(0)


class Owned(ABC):
    """What one owner holds. Plain state, to which a :class:`pyredisson.Lease` can be.

    Attributes:
        what: What is held, in messages.
        overlaps: With whom its holder may have worked at the same time after a loss.
        name: The name of the lock, or of what else it is.
        owner: The owner's field in Redis.
        who: The owner.
        loss: Why it was lost, if it was.
        mutex: Makes its changes atomic.
        holds: The nested holds, the innermost last.
        mark: What it has left in the context of its owner; set by ``leave_mark()``.
        on_loss: Called when it is lost.
        call: The note of the last call on it.
    """

    __slots__ = ("__weakref__", "call", "holds", "mark", "mutex", "on_loss")

    what: str
    overlaps: str
    name: str
    owner: str
    who: Caller
    loss: str | None
    mutex: AbstractContextManager[Any]
    holds: list[Any]
    mark: Callable[[], Any] | None
    on_loss: tuple[Callable[[], None], ...]
    call: CallNote

    async def called(self, thread: int, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Make a call on it, and note so long which thread is in the middle of it."""
        note = CallNote(thread)
        try:
            self.call = note
            return await call(*args)
        finally:
            note.thread = 0

    def has(self, hold: object) -> bool:
        """Whether that very hold is among those that are held (or lost, and not yet unlocked)."""
        return hold in self.holds

    @abstractmethod
    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(hold.block is None for hold in self.holds)

    def move_to_top(self, hold: object) -> None:
        """Make this hold the one that is released next."""
        with self.mutex:
            if self.holds and self.holds[-1] is not hold:
                self.holds.remove(hold)
                self.holds.append(hold)

    def merge_holds(self) -> list[Any]:
        """Let one hold stand for all, which are about to be released in one request. Returns all of them."""
        with self.mutex:
            merged = [*self.holds]
            del self.holds[1:]
            return merged

    def call_when_lost(self, callback: Callable[[], None]) -> None:
        """Call this, too, when it is lost."""
        self.on_loss = (*self.on_loss, callback)

    def call_no_more(self, callback: Callable[[], None]) -> None:
        """Its block was left."""
        self.on_loss = tuple(each for each in self.on_loss if each != callback)
