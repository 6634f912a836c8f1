"""The spin lock: the reentrant lock without messages. Whoever waits asks again and again, with pauses in between.

Source: ``org.redisson.RedissonSpinLock``. For locks that are held so briefly, and wanted so rarely, that a subscription
costs more than it saves. What differs on purpose: a pause never outlasts the caller's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyredisson.core import scripts
from pyredisson.core.deadline import Deadline
from pyredisson.core.runtime import Failure, Refused
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from pyredisson.config import Backoff
    from pyredisson.core.client import ClientCore
    from pyredisson.core.ownership import Level, Ownership
    from pyredisson.core.runtime import Request

__all__ = ["Drawn", "SpinLockCore"]

#: So that a client that is closed does not have to wait for a long pause to end.
LOOK_UP = 0.25


@runtime_checkable
class Drawn(Protocol):
    """A back-off with chance in it. It draws from the runtime, so that a seed of the simulator says all its delays."""

    def _drawn(self, between: Callable[[float, float], float], /) -> Iterable[float]:
        """The delays, with what is drawn by ``between(low, high)``."""
        ...


class SpinLockCore(LockCore):
    """One handle on a spin lock."""

    __slots__ = ("_backoff",)

    kind = "spin"

    def __init__(self, client: ClientCore, name: str, backoff: Backoff) -> None:
        super().__init__(client, name)
        self._backoff = backoff

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
        self, ownership: Ownership, level: Level, refused: int, seen: int | None, deadline: Deadline
    ) -> bool:
        runtime = self.client.runtime
        backoff = self._backoff
        delays = iter(backoff._drawn(runtime.jitter) if isinstance(backoff, Drawn) else backoff.delays())
        delay: float | None = None
        # Nobody rings; but it says so when it keeps an event loop waiting.
        ticket = runtime.ticket(ownership.name)
        while not deadline.passed(now := runtime.now()):
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{backoff!r} gives no delay at all")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (left := until - runtime.now()) > 0:
                await ticket.wait(min(left, LOOK_UP))
                self.client.check_open()
            try:
                answer = await self.attempt(ownership, level)
                if answer is None:
                    return True
                refused = answer
            except Refused:
                raise
            except Failure:
                if deadline.passed(runtime.now()):
                    raise
        return False

    def _pause(self, delay: float, refused: int) -> float:
        """For how long to wait when it is time for a ``delay``, and the lock is another's for so many ms."""
        return delay
