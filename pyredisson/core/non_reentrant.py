"""Locks that their holder cannot take twice: an error at once, where a reentrant lock would count.

Source: ``org.redisson.RedissonNonReentrantLock``. In Redis they look like the locks they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.lock import LockCore
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson.core.holds import Claim

__all__ = ["NonReentrant", "NonReentrantLockCore"]


class NonReentrant(LockCore):
    """What makes a lock non-reentrant; to be put before the lock's own class."""

    __slots__ = ()

    async def _make_ready(self, claim: Claim) -> None:
        await super()._make_ready(claim)
        if claim.levels:
            raise LockError(
                f"lock {claim.name!r} is not reentrant, and {claim.owner} holds it already: release it first, or use "
                "get_lock() where a holder may take it again",
                name=claim.name,
            )


class NonReentrantLockCore(NonReentrant):
    """One handle on a lock that is not reentrant."""

    __slots__ = ()
