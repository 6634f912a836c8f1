"""One hold of a lock: what is released, extended, lost or counted is this very hold.

Its states:

========== ==========================================================================================================
state      what ends it
========== ==========================================================================================================
NEW        a grant
HELD       a release; an unlock, if it is lost; the end of a fixed lease; the wait of a condition
GIVEN_UP   that wait has ended, and it is held again
LEFT       that wait has ended: its block was left meanwhile
ENDED      its unlock, which raises an error: its fixed lease ran out
LOST       its unlock, which is under way, and raises an error: it was to be released behind another request
RELEASED   the unlock of its multi-lock, which is called again and may wait for other members
OVER       nothing
========== ==========================================================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from pyredisson._core.deadline import certain_for
from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson._core.owners import Caller, Trace
    from pyredisson._core.ownership import Ownership


class HoldState(Enum):
    """What has become of a hold."""

    NEW = "new"
    HELD = "held"
    GIVEN_UP = "given up"
    LEFT = "left"
    ENDED = "ended"
    LOST = "lost"
    RELEASED = "released"
    OVER = "over"


class Hold:
    """One hold among the nested ones of an owner.

    Attributes:
        lease_ms: The lease it was taken with.
        plain: As most are: renewed, of no block, and of no multi-lock.
        certain: For how many seconds after sending that lease is certain.
        watchdog: Renewed until it is released.
        watched: Its holder is notified when it is lost. A plain hold with a fixed lease is not: it simply ends.
        block: Returns the lease of the ``hold()`` that this is, ``None`` once it was dropped. Without it, the hold is
            its owner's.
        whole: The hold of a multi-lock that this is a part of.
        token: What identifies this hold, for locks that have such a thing.
        since: When it was asked for.
        renewals_left: How often it may be renewed yet; negative: without a limit.
        state: What has become of it.
        trace: Returns what stands for it in contexts, as long as that is in one.
    """

    __slots__ = (
        "block",
        "certain",
        "lease_ms",
        "plain",
        "renewals_left",
        "since",
        "state",
        "token",
        "trace",
        "watchdog",
        "watched",
        "whole",
    )

    def __init__(
        self, lease_ms: int, certain: float | None = None, *, watchdog: bool, block: bool = False, whole: Any = None
    ) -> None:
        self.lease_ms: int = lease_ms
        self.certain: float = certain_for(lease_ms) if certain is None else certain
        self.watchdog: bool = watchdog
        self.plain: bool = watchdog and not block and whole is None
        self.watched: bool = watchdog or block  # The body of hold() wants to know, whatever its lease.
        self.block: Callable[[], object | None] | None = None
        self.whole: Any = whole
        self.token: int | None = None
        self.since: float = 0.0
        self.renewals_left: int = -1
        self.state: HoldState = HoldState.NEW
        self.trace: Callable[[], Trace | None] | None = None

    @classmethod
    def endless(cls) -> Hold:
        """Return a hold without a lease: what it holds does not expire."""
        return cls(0, math.inf, watchdog=False)

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdog renews it."""
        return None if self.watchdog else self.lease_ms / 1000

    def number(self, token: int) -> None:
        """Note the token that the server has given it."""
        self.token = token

    def become(self, state: HoldState) -> None:
        """Change its state, also for the contexts in which it is visible."""
        self.state = state
        trace = self.trace
        if trace is not None and (known := trace()) is not None:
            known.state = state


def check_skip(skip: object) -> None:
    """Raise ``TypeError`` unless it says whether a block runs without what it does not acquire in time."""
    if not isinstance(skip, bool):
        raise TypeError(f"skip must be True or False, not {type(skip).__name__}")


# ---- liveness --------------------------------------------------------------------------------------------------------
# Whether the holder of locks or permits lives, and the error for one that comes too late.


#: How a loss is explained that the server reported.
GONE = "its key no longer exists or belongs to another owner (expired, force-unlocked or evicted)"


def holder_alive(held: Ownership) -> bool:
    """Whether there is a caller to release it: its owner in the same call chain, or the block of a ``hold()``."""
    holds, alive = list(held.holds), held.who.alive()
    for hold in holds:
        if hold.block is not None:
            if hold.block() is not None:
                return True
        elif alive and not (held.who.is_shared and hold.trace is not None and hold.trace() is None):
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


# ---- owned -----------------------------------------------------------------------------------------------------------
# What a :class:`pyredisson.Lease` can be of: what an owner holds of a lock, or one hold of a multi-lock.


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
