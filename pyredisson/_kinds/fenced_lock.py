"""The fenced lock: each hold has a token, a number that is greater than those of all holds before it.

Source: ``org.redisson.RedissonFencedLock``. What differs on purpose: a re-entry returns the token of the hold that it
joins; every method honours its lease; a lock without a time to live does not count as acquired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.deadline import optional_lease_ms, wait_seconds
from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._core.requests import MAX_DIGITS, LockAcquired, read_count, unusable
from pyredisson._kinds.lock import LockCore, PlainKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.deadline import Seconds
    from pyredisson._core.requests import AcquireCall, Outcome
    from pyredisson._core.runtime import Reply, Request


#: How it is stored, for inspections.
STORED = (StoredKind("fenced_lock", "fenced", "owners", LockNames, "token", force_unlock=FREES_ALL_OWNERS),)


def token_in(reply: Reply) -> int | None:
    """Return the token in a reply that says that the lock was acquired; ``None`` for any other reply."""
    match reply:
        case [bytes() as word, bytes() as token] if word == b"token" and token.isdigit() and len(token) <= MAX_DIGITS:
            return int(token)
    return None


class FencedKind(PlainKind):
    """The fenced lock. An acquire that joins a hold carries its token."""

    __slots__ = ()

    word = "fenced_lock"
    token_in: Callable[[Reply], int | None] | None = staticmethod(token_in)

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        return self.with_tokens("fenced_acquire", call, epoch, repeat)

    def with_tokens(
        self,
        script: str,
        call: AcquireCall,
        epoch: int,
        repeat: bool,
        keys: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
    ) -> Request:
        """Make the call of a script that acquires with a token; it takes ``keys`` and ``more`` arguments besides."""
        joins = next((each.token for each in call.ownership.holds if each.token is not None), None)
        token = "" if joins is None else joins
        args = call.lease_ms, call.count, token, int(self.client.config.fence_from_clock), *more
        own, update = call.ownership, call.update
        return self.request(script, own, args, (self.names.token, *keys), epoch=epoch, repeat=repeat, update=update)

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`; with the token of the hold."""
        token = token_in(reply)
        if token is not None:
            return LockAcquired(token)
        if reply is None:
            raise unusable(reply)  # A fenced lock is never acquired without a token.
        return super().reads(reply)


class FencedLockCore(LockCore):
    """One handle on a fenced lock."""

    __slots__ = ()

    kind_type = FencedKind

    async def try_lock_and_get_token(self, wait_time: Seconds | None, lease_time: Seconds | None) -> int | None:
        """Acquire the lock, waiting at most ``wait_time``, and return the token of the hold."""
        hold = self.new_hold(optional_lease_ms(lease_time))
        return hold.token if await self.acquire_hold(wait_seconds(wait_time), hold) else None

    async def lock_and_get_token(self, lease_time: Seconds | None) -> int:
        """Acquire the lock, waiting without end, and return the token of the hold."""
        hold = self.new_hold(optional_lease_ms(lease_time))
        await self.acquire_hold(None, hold)
        assert hold.token is not None
        return hold.token

    async def get_token(self) -> int | None:
        """Return the token of the last hold; ``None`` if there was none."""
        token = await self.client.query("GET", self.names.token)
        return None if token is None else read_count(token)
