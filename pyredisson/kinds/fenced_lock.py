"""The fenced lock: each hold has a number that is greater than those of all holds before it.

Source: ``org.redisson.RedissonFencedLock``. What differs on purpose: a re-entry returns the token of the hold that it
joins; a lease is honoured by every method; a lock without a TTL is never taken for a success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.deadline import wait_seconds
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson.core.deadline import Seconds
    from pyredisson.core.outcomes import Outcome
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Reply, Request

__all__ = ["FencedLockCore"]


class FencedLockCore(LockCore):
    """One handle on a fenced lock."""

    __slots__ = ()

    # Each hold has a hold of its own here, since the token is written on it.

    def lock(self, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take the lock, however long it takes."""
        return self.take(None, self._new_hold(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take the lock if it is to be had within ``wait_time``."""
        return self.take(wait_seconds(wait_time), self._new_hold(lease_time))

    async def acquire(self, wait: float | None) -> bool:
        """Take the lock if it is to be had within ``wait`` seconds; ``None``: however long it takes."""
        return await self.take(wait, self._new_hold(None))

    async def try_lock_and_get_token(self, wait_time: Seconds | None, lease_time: Seconds | None) -> int | None:
        """Take the lock if it is to be had within ``wait_time``, and return the token of the hold."""
        hold = self._new_hold(lease_time)
        return hold.token if await self.take(wait_seconds(wait_time), hold) else None

    async def lock_and_get_token(self, lease_time: Seconds | None) -> int:
        """Take the lock, however long it takes, and return the token of the hold."""
        hold = self._new_hold(lease_time)
        await self.take(None, hold)
        assert hold.token is not None
        return hold.token

    async def get_token(self) -> int | None:
        """The token that was handed out last; ``None`` if none ever was."""
        token = await self.client.query("GET", self.names.token)
        return None if token is None else scripts.read_count(token)

    def acquire_request(self, ownership: Ownership, hold: Hold, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock, with the token of the hold that this one joins."""
        joins = next((each.token for each in ownership.holds if each.token is not None), None)
        return scripts.acquire_fenced(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            joins=joins,
            from_clock=self.client.config.fence_from_clock,
        )

    def read_acquire(self, reply: Reply) -> Outcome:
        """As for the reentrant lock, with the token of the hold."""
        return scripts.read_acquire_fenced(reply)
