"""The lock that its holder cannot acquire again: an error, where a reentrant lock would count.

Source: ``org.redisson.RedissonNonReentrantLock``. It is stored like the reentrant lock.
"""

from __future__ import annotations

from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._kinds.lock import LockCore, PlainKind

#: How it is stored, for inspections.
STORED = (
    StoredKind("non_reentrant_lock", "lock", "owners", LockNames, reentrant=False, force_unlock=FREES_ALL_OWNERS),
)


class NonReentrantKind(PlainKind):
    """The lock that is not reentrant."""

    __slots__ = ()

    word = "non_reentrant_lock"
    reentrant = False


class NonReentrantLockCore(LockCore):
    """One handle on a lock that is not reentrant."""

    __slots__ = ()

    kind_type = NonReentrantKind
