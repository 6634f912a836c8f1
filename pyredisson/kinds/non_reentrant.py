"""Locks that their holder cannot take twice: an error at once, where a reentrant lock would count.

Source: ``org.redisson.RedissonNonReentrantLock``. In Redis they look like the locks they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.errors import LockError
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from pyredisson.core.ownership import Ownership

__all__ = ["NonReentrant", "NonReentrantLockCore"]


class NonReentrant(LockCore):
    """What makes a lock non-reentrant; to be put before the lock's own class."""

    __slots__ = ()

    #: What else to do, to end the sentence of the error.
    hint = ", or use get_lock() if a holder may acquire it again"

    async def _make_ready(self, ownership: Ownership) -> None:
        await super()._make_ready(ownership)
        if ownership.holds:
            raise LockError(
                f"lock {ownership.name!r} is not reentrant, and {ownership.owner} holds it already: release it first"
                f"{self.hint}",
                name=ownership.name,
            )


class NonReentrantLockCore(NonReentrant):
    """One handle on a lock that is not reentrant."""

    __slots__ = ()
