"""What holders of locks, permits and multi-locks share: whether they live, and how they are notified of a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson.core.ownership.owned import Owned

#: How a loss is explained that the server reported.
GONE = "its key no longer exists or belongs to another owner (expired, force-unlocked or evicted)"

#: With whom the holder of a lost lock may have overlapped, and what to do about it.
OVERLAPS = "another holder; protect such writes with a fencing token"


def holder_alive(held: Owned) -> bool:
    """Whether there is a caller to release it: its owner in the same call chain, or the block of a ``hold()``."""
    bound = not held.holds
    for hold in list(held.holds):
        if hold.block is None:
            bound = True
        elif hold.block() is not None:
            return True
    return bound and held.who.alive() and not _moved_on(held)


def _moved_on(held: Owned) -> bool:
    """Whether the call chain in which it was acquired has ended, and its thread goes on with others."""
    return held.who.shared and held.mark is not None and held.mark() is None


def gone_hint(held: Owned) -> str:
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


def lost_error(ownership: Owned, reason: str = GONE) -> LockLostError:
    """The error for a holder who comes to use or to release what it lost."""
    return LockLostError(
        f"{ownership.what} {ownership.name!r} was lost by {ownership.owner}: {reason}. Work done since then may "
        f"have overlapped with {ownership.overlaps}",
        name=ownership.name,
    )
