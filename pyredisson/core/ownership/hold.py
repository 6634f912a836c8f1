"""One hold of a lock."""

from __future__ import annotations

import math
from collections.abc import Callable

from pyredisson.core.deadline import certain_for


class Hold:
    """One hold among the nested ones of an owner. Many may share one that has neither block nor token.

    Attributes:
        lease_ms: The lease it was taken with.
        certain: For how many seconds after sending that lease is certain.
        watchdog: Renewed until it is released.
        renewed: The same, or the multi-lock that it is a part of is.
        watched: Its holder is notified when it is lost. A plain hold with a fixed lease is not: it simply ends.
        block: Returns the lease of the ``hold()`` that this is, ``None`` once it was dropped. Without it, the hold is
            its owner's.
        part: It is a multi-lock's part, which is neither watched nor reported by itself.
        token: What identifies this hold, for locks that have such a thing. Then the hold is not shared.
    """

    __slots__ = ("block", "certain", "lease_ms", "part", "renewed", "token", "watchdog", "watched")

    def __init__(
        self, lease_ms: int, *, watchdog: bool, block: bool, part: bool = False, renewed: bool | None = None
    ) -> None:
        self.block: Callable[[], object | None] | None = None
        self.token: int | None = None
        self.lease_ms: int = lease_ms
        self.certain: float = certain_for(lease_ms)
        self.part: bool = part
        self.watchdog: bool = watchdog
        self.renewed: bool = watchdog if renewed is None else renewed
        self.watched: bool = watchdog or block  # The body of hold() wants to know, whatever its lease.

    @classmethod
    def endless(cls) -> Hold:
        """Return a hold without a lease: what it holds does not expire."""
        hold = cls(0, watchdog=False, block=False)
        hold.certain = math.inf
        return hold

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdog renews it."""
        return None if self.watchdog else self.lease_ms / 1000

    def number(self, token: int) -> None:
        """The server has given it this token."""
        self.token = token


def check_skip(skip: object) -> None:
    """Raise ``TypeError`` unless it says whether a block runs without what it does not acquire in time."""
    if not isinstance(skip, bool):
        raise TypeError(f"skip must be True or False, not {type(skip).__name__}")
