"""What a :class:`pyredisson.Lease` can be of: what an owner holds of a lock, or one hold of a multi-lock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyredisson._core.ownership.owner_protocols import Caller


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
    """What is held. Plain state, to which a :class:`pyredisson.Lease` can be.

    Attributes:
        name: The name of the lock, or of what else it is.
        owner: The owner's field in Redis.
        who: The owner.
        loss: Why it was lost, if it was.
        on_loss: Called when it is lost.
    """

    __slots__ = ("__weakref__", "loss", "name", "on_loss", "owner", "who")

    def __init__(self, name: str, owner: str, who: Caller) -> None:
        self.name: str = name
        self.owner: str = owner
        self.who: Caller = who
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()

    @property
    def what(self) -> str:
        """What is held, in messages."""
        return "lock"

    @property
    def overlaps(self) -> str:
        """With whom its holder may have worked at the same time after a loss, and what to do about it."""
        return "another holder; protect such writes with a fencing token"

    @abstractmethod
    def remaining_of(self, hold: Any, now: float) -> float:
        """Return the seconds for which this hold is certain."""

    def call_when_lost(self, callback: Callable[[], None]) -> None:
        """Call this, too, when it is lost."""
        self.on_loss = (*self.on_loss, callback)

    def call_no_more(self, callback: Callable[[], None]) -> None:
        """Its block was left."""
        self.on_loss = tuple(each for each in self.on_loss if each != callback)
