"""What holders of locks, permits and multi-locks share: whether they live, and how they are notified of a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson.core.ownership.owner_protocols import Caller

#: How a loss is explained that the server reported.
GONE = "its key no longer exists or belongs to another owner (expired, force-unlocked or evicted)"

#: With whom the holder of a lost lock may have overlapped, and what to do about it.
OVERLAPS = "another holder; protect such writes with a fencing token"


class NestedHolds(Protocol):
    """An owner's nested holds of one thing."""

    who: Caller
    mark: Callable[[], Any] | None

    @property
    def holds(self) -> Sequence[Any]:
        """The holds, each with its ``block``."""
        ...


def holder_alive(held: NestedHolds) -> bool:
    """Whether there is a caller to release it: its owner in the same call chain, or the block of a ``hold()``."""
    bound = not held.holds
    for hold in list(held.holds):
        if hold.block is None:
            bound = True
        elif hold.block() is not None:
            return True
    return bound and held.who.alive() and not _moved_on(held)


def _moved_on(held: NestedHolds) -> bool:
    """Whether the call chain in which it was acquired has ended, and its thread goes on with others."""
    return held.who.shared and held.mark is not None and held.mark() is None


def gone_hint(held: NestedHolds) -> str:
    """Explain why no one can release these holds any more."""
    if held.holds and all(hold.block is not None for hold in held.holds):
        return "the object that hold() returned was dropped without leaving its block"
    return held.who.gone_hint()


class HoldView(Protocol):
    """One hold among them."""

    block: Callable[[], object | None] | None

    @property
    def token(self) -> int | None:
        """Its fencing token, if its kind has such a thing."""
        ...


class Held(Protocol):
    """What an owner holds of something, as a :class:`pyredisson.Lease` sees it.

    Attributes:
        what: What is held, in messages.
        overlaps: With whom its holder may have worked at the same time after a loss.
    """

    what: str
    overlaps: str
    name: str
    owner: str
    loss: str | None

    def has(self, hold: Any, /) -> bool:
        """Whether that very hold is among those that are held."""
        ...

    def move_to_top(self, hold: Any, /) -> None:
        """Make this hold the one that is released next."""
        ...

    def call_when_lost(self, callback: Callable[[], None], /) -> None:
        """Call this, too, when it is lost."""
        ...

    def call_no_more(self, callback: Callable[[], None], /) -> None:
        """Its block was left."""
        ...

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        ...


def lost_error(ownership: Held, reason: str = GONE) -> LockLostError:
    """The error for a holder who comes to use or to release what it lost."""
    return LockLostError(
        f"{ownership.what} {ownership.name!r} was lost by {ownership.owner}: {reason}. Work done since then may "
        f"have overlapped with {ownership.overlaps}",
        name=ownership.name,
    )
