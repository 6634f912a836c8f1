"""Locks that their holder cannot acquire twice: an error at once, where a reentrant lock would count.

Source: ``org.redisson.RedissonNonReentrantLock``. In Redis they look like the locks they are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.names import LockNames
from pyredisson.kinds.lock import LockCore, PlainKind

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

__all__ = ["NonReentrantKind", "NonReentrantLockCore"]


class NonReentrantKind(PlainKind):
    """As a reentrant lock, acquired once."""

    __slots__ = ()

    reentrant = False


class NonReentrantLockCore(LockCore):
    """One handle on a lock that is not reentrant."""

    __slots__ = ()

    def __init__(self, client: ClientCore, name: str) -> None:
        names = LockNames(name)
        super().__init__(client, names, NonReentrantKind(client, names))
