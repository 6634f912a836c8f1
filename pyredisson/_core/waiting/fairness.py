"""How an owner that has just released a lock lets those who wait for it come first."""

from __future__ import annotations

import math

from pyredisson._core.outcomes import Refused

NEVER = -math.inf

#: For how many seconds an owner may acquire and release a lock as often as it can before it lets the others have it: to
#: hand over each time costs more than many a short hold. What it was measured by: docs/explanation/architecture.md.
SLICE = 0.08

#: For how long an owner yields after a release, in seconds: this long and two round trips, so that those who wait can
#: be notified of the release and attempt.
YIELD_MIN = 0.001
YIELD_MAX = 0.02


class Fairness:
    """Whether an owner yields to those who wait for a lock.

    Attributes:
        until: Until when.
        refused: What an attempt was refused with that was not made, the last time.
    """

    __slots__ = ("_slice_began", "refused", "until")

    def __init__(self) -> None:
        self._slice_began = NEVER
        self.until: float = NEVER
        self.refused: Refused | None = None

    def waited(self, now: float) -> None:
        """It has waited, and may keep the lock for a while."""
        self._slice_began = now

    def released(self, listeners: int, sent: float, now: float) -> None:
        """Note that a release that was ``sent`` then had this number of listeners in other processes."""
        if listeners > 0 and now - self._slice_began > SLICE:
            self.until = now + min(YIELD_MIN + 2 * (now - sent), YIELD_MAX)

    def yield_for(self, seconds: float, now: float) -> Refused:
        """Yield for so long, from now on. Returns the refusal to act on, as if it were the server's."""
        self.until = now + seconds
        self.refused = Refused(int(1000 * seconds))
        return self.refused

    def stop(self) -> None:
        """It has waited long enough."""
        self.until = NEVER

    def refuse(self, wait: float | None, now: float) -> Refused | None:
        """Return the refusal to act on, as if it were the server's; the owner may wait for ``wait`` seconds."""
        left = self.until - now
        self.refused = Refused(int(left * 1000)) if wait is None or wait > 2 * left else None
        return self.refused
