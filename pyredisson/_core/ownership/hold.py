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
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from pyredisson._core.deadline import certain_for

if TYPE_CHECKING:
    from pyredisson._core.ownership.call_chains import Trace


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
