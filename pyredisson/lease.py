"""A lease: what the body of ``with lock.hold() as lease:`` can ask without asking the server."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, final

from typing_extensions import TypeVar

from pyredisson.core.holder import lost_error
from pyredisson.shared.misuse import NotPortable

if TYPE_CHECKING:
    from pyredisson.core.holder import Held, HoldView
    from pyredisson.core.runtime import Runtime

__all__ = ["Lease"]

TokenT_co = TypeVar("TokenT_co", bound="int | None", covariant=True, default="int | None")


@final
class Lease(NotPortable, Generic[TokenT_co]):
    """One hold, from when it was acquired until its block is left.

    A ``Lease[int]`` has a fencing token, as that of a :class:`pyredisson.FencedLock`; a ``Lease[None]`` has none.

    Source: Gray and Cheriton, "Leases" (1989): the holder's term is counted from before the request was sent, and is
    shorter than the grantor's by the drift of two clocks (1 % and 2 ms here).
    """

    __slots__ = ("__weakref__", "_ended", "_hold", "_ownership", "_runtime", "_told")

    def __init__(self, ownership: Held, hold: HoldView, runtime: Runtime) -> None:
        self._ownership = ownership
        self._hold = hold  # Its own: a hold that is taken after this one was lost is not this one.
        hold.block = weakref.ref(self)  # Held as long as this object lives, and so as long as its block can be left.
        self._runtime = runtime
        self._ended = False
        self._told: Callable[[], None] | None = None

    def __repr__(self) -> str:
        state = "lost" if self.lost else "ended" if self._ended else f"{self.remaining():.3f} s"
        return f"<Lease of {self._ownership.name!r}: {state}>"

    def remaining(self) -> float:
        """Seconds for which this hold is certain; 0 once it is not. Renewal makes them grow again."""
        if self._ended or not self._ownership.has(self._hold):
            return 0.0
        return self._ownership.remaining(self._runtime.now())

    @property
    def lost(self) -> bool:
        """Whether the hold ended before its block did. Final: a lost lease is never found again."""
        return not self._ended and self.remaining() <= 0.0

    @property
    def token(self) -> TokenT_co:
        """The fencing token of the hold; ``None`` for a lock that has none."""
        return self._hold.token  # type: ignore[return-value]  # The kind of lock decides on both.

    def ensure_held(self) -> None:
        """Go on only if the hold is certain at this moment. Asks no server.

        Raises:
            LockLostError: It is not.
        """
        if self._ended or self.remaining() <= 0.0:
            reason = "its block has been left" if self._ended else self._ownership.loss or "its lease ran out"
            raise lost_error(self._ownership, reason)

    def _when_lost(self, told: Callable[[], None]) -> None:
        """Call ``told``, once, when the hold is known to be lost."""
        self._told = told
        self._ownership.call_when_lost(told)

    @property
    def _held(self) -> Held:
        """What its owner holds of the lock."""
        return self._ownership

    def _brought_up(self) -> bool:
        """Make this hold the one that is released next. Returns whether it is there still."""
        if not self._ownership.has(self._hold):
            return False
        self._ownership.bring_up(self._hold)
        return True

    def _end(self) -> None:
        """The block was left."""
        self._ended = True
        if self._told is not None:
            self._ownership.call_no_more(self._told)
