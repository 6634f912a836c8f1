"""Waiting for a lock without messages: ask again and again, with pauses in between."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyredisson.core.attempt import attempt
from pyredisson.core.outcomes import Acquired
from pyredisson.core.runtime import Failure, Rejected

if TYPE_CHECKING:
    from pyredisson.core.backoff import Uniform
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Refused
    from pyredisson.core.ownership import Hold, Ownership

__all__ = ["Delays", "Polling"]

#: So that a client that is closed does not have to wait for a long pause to end.
LOOK_UP = 0.25


class Delays(Protocol):
    """How a waiter paces its attempts."""

    def delays(self, uniform: Uniform, /) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last one goes on when they end.

        Random numbers come from ``uniform``, so that a seed of the simulator determines all delays.
        """
        ...


class Polling:
    """Waiters ask again after pauses.

    Args:
        delays: The pauses.
        until_free: Whether a pause ends when the lock's lease is over.
    """

    announced = False

    def __init__(self, delays: Delays, *, until_free: bool) -> None:
        self._delays = delays
        self._until_free = until_free

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """The lock's own, on which others may wait."""
        return kind.names.channel

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """There is nothing to note."""

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """Owners that poll do not yield."""
        return None

    def released(self, client: ClientCore, kind: LockKind, ownership: Ownership, heard: int, sent: float) -> None:
        """Owners that poll do not yield."""

    async def wait(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: Hold,
        refused: Refused,
        seen: int | None,
        deadline: Deadline,
    ) -> bool:
        """See :meth:`Waiting.wait`."""
        runtime = client.runtime
        delays = iter(self._delays.delays(runtime.jitter))
        delay: float | None = None
        # Nobody rings; but it says so when it keeps an event loop waiting.
        ticket = runtime.ticket(ownership.name)
        while not deadline.passed(now := runtime.now()):
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{self._delays!r} returns no delays")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (left := until - runtime.now()) > 0:
                await ticket.wait(min(left, LOOK_UP))
                client.check_open()
            try:
                answer = await attempt(client, kind, ownership, hold)
                if isinstance(answer, Acquired):
                    return True
                refused = answer
            except Rejected:
                raise
            except Failure:
                if deadline.passed(runtime.now()):
                    raise
        return False

    def _pause(self, delay: float, refused: Refused) -> float:
        if not self._until_free or refused.retry_in_ms is None:
            return delay
        return min(delay, (refused.retry_in_ms + 1) / 1000)  # It will be free by then at the latest.
