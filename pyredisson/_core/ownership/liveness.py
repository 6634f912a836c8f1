"""Whether the holder of locks or permits lives, and the error for one that comes too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson._core.ownership.owned import Owned
    from pyredisson._core.ownership.ownership import Ownership

#: How a loss is explained that the server reported.
GONE = "its key no longer exists or belongs to another owner (expired, force-unlocked or evicted)"


def holder_alive(held: Ownership) -> bool:
    """Whether there is a caller to release it: its owner in the same call chain, or the block of a ``hold()``."""
    holds, alive = list(held.holds), held.who.alive()
    for hold in holds:
        if hold.block is not None:
            if hold.block() is not None:
                return True
        elif alive and not (held.who.shared and hold.trace is not None and hold.trace() is None):
            return True  # Else the call chain in which it was acquired has ended, and its thread goes on with others.
    return alive and not holds


def gone_hint(held: Ownership) -> str:
    """Explain why no one can release these holds any more."""
    if held.holds and all(hold.block is not None for hold in held.holds):
        return "the object that hold() returned was dropped without leaving its block"
    return held.who.gone_hint()


def lost_error(held: Owned, reason: str = GONE) -> LockLostError:
    """The error for a holder who comes to use or to release what it lost."""
    return LockLostError(
        f"{held.what} {held.name!r} was lost by {held.who.describe()}: {reason}. Work done since then may have "
        f"overlapped with {held.overlaps}",
        name=held.name,
    )
