"""Waiting for a lock without messages: attempts with pauses in between."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyredisson._core.failures import Failure, Rejected
from pyredisson._core.kind import Waiting
from pyredisson._core.outcomes import AT_ONCE, WITHOUT_END, LockAcquired

if TYPE_CHECKING:
    from pyredisson._core.backoff import Uniform
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.kind import LockAttempt
    from pyredisson._core.outcomes import Refused

#: Seconds after which a waiter looks whether its client was closed, however long its pause is.
LOOK_UP = 0.25


class Delays(Protocol):
    """How a waiter paces its attempts."""

    def delays(self, uniform: Uniform, /) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last one goes on when they end.

        Random numbers come from ``uniform``, so that a seed of the simulator determines all delays.
        """
        ...


class Polling(Waiting):
    """Waiting without messages: attempts with pauses in between.

    Args:
        delays: The pauses.
        until_free: Whether a pause ends early when the lock's lease has ended.
        tries: How many attempts a waiter makes at most, the first one included; ``None``: without a limit.
    """

    announced = False

    def __init__(self, delays: Delays, *, until_free: bool, tries: int | None = None) -> None:
        self.tries: int | None = tries
        self._delays = delays
        self._until_free = until_free

    async def wait(self, attempt: LockAttempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client = attempt.client
        runtime = client.runtime
        delays = iter(self._delays.delays(runtime.jitter))
        delay: float | None = None
        left = self._tries_left(attempt, refused)
        # Nothing rings this ticket; it only warns when it blocks the thread of an event loop.
        ticket = runtime.ticket(attempt.ownership.name)
        while left > 0 and not deadline.passed(now := runtime.now()):
            left -= 1
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{self._delays!r} returns no delays")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (pause := until - runtime.now()) > 0:
                await ticket.wait(min(pause, LOOK_UP))
                client.check_open()
            try:
                answer = await attempt()
                if isinstance(answer, LockAcquired):
                    return True
                refused = answer
            except Rejected:
                raise
            except Failure:
                if left <= 0 or deadline.passed(runtime.now()):
                    raise
                refused = WITHOUT_END  # When the lease ends is no longer known.
        return False

    def _tries_left(self, attempt: LockAttempt, refused: Refused) -> float:
        """Return how many attempts remain. Those of a part of a multi-lock have no limit: its own wait has."""
        if self.tries is None or attempt.hold.whole is not None:
            return math.inf
        return self.tries - (refused is not AT_ONCE)  # That is no answer: the server could not be reached.

    def _pause(self, delay: float, refused: Refused) -> float:
        if not self._until_free or refused.retry_in_ms is None:
            return delay
        return min(delay, (refused.retry_in_ms + 1) / 1000)  # The lock's lease has ended by then.
