"""The spin lock: the reentrant lock without messages. Whoever waits asks again and again, with pauses in between.

Source: ``org.redisson.RedissonSpinLock``. For locks that are held so briefly, and wanted so rarely, that a subscription
costs more than it saves. What differs on purpose: a pause never outlasts the caller's time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyredisson.core import scripts
from pyredisson.core.deadline import Deadline
from pyredisson.core.outcomes import Acquired, Refused
from pyredisson.core.runtime import Failure, Rejected
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from pyredisson.core.backoff import Uniform
    from pyredisson.core.client import ClientCore
    from pyredisson.core.outcomes import Acquired, Refused
    from pyredisson.core.ownership import Hold, Ownership
from pyredisson.core.runtime import Request

__all__ = ["Delays", "SpinLockCore"]

#: So that a client that is closed does not have to wait for a long pause to end.
LOOK_UP = 0.25


class Delays(Protocol):
    """How a waiter paces its attempts."""

    def delays(self, uniform: Uniform, /) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last one goes on when they end.

        Random numbers come from ``uniform``, so that a seed of the simulator determines all delays.
        """
        ...


class SpinLockCore(LockCore):
    """One handle on a spin lock."""

    __slots__ = ("_backoff",)

    kind = "spin"

    def __init__(self, client: ClientCore, name: str, backoff: Delays) -> None:
        super().__init__(client, name)
        self._backoff = backoff

    def new_state(self) -> object:
        """Whoever polls need not yield."""
        return None

    def _give_way(self, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """Whoever polls need not yield."""
        return None

    def waited(self, ownership: Ownership, now: float) -> None:
        """See :meth:`_give_way`."""

    def release_request(self, ownership: Ownership, lease_ms: int, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock, but nobody is told."""
        return scripts.release_lock(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            publish=scripts.NOBODY,
        )

    def force_request(self, ownership: Ownership, epoch: int) -> Request:
        """As for the reentrant lock, but nobody is told."""
        return scripts.force_unlock(
            self.client.runtime, self.names, ownership.owner, epoch=epoch, publish=scripts.NOBODY
        )

    async def _wait(
        self, ownership: Ownership, hold: Hold, refused: Refused, seen: int | None, deadline: Deadline
    ) -> bool:
        runtime = self.client.runtime
        backoff = self._backoff
        delays = iter(backoff.delays(runtime.jitter))
        delay: float | None = None
        # Nobody rings; but it says so when it keeps an event loop waiting.
        ticket = runtime.ticket(ownership.name)
        while not deadline.passed(now := runtime.now()):
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{backoff!r} returns no delays")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (left := until - runtime.now()) > 0:
                await ticket.wait(min(left, LOOK_UP))
                self.client.check_open()
            try:
                answer = await self.attempt(ownership, hold)
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
        """For how long to wait when it is time for a ``delay``."""
        return delay
