"""What an asyncio client makes. Apart from the client, so that the simulated one makes the same."""

from __future__ import annotations

from pyredisson.arguments import backoff_of
from pyredisson.asyncio.primitives import (
    FairLock,
    FencedLock,
    Lock,
    NonReentrantFairLock,
    NonReentrantLock,
    SpinLock,
)
from pyredisson.config import Backoff
from pyredisson.core.client import ClientCore
from pyredisson.core.fair_lock import FairLockCore, NonReentrantFairLockCore
from pyredisson.core.fenced_lock import FencedLockCore
from pyredisson.core.lock import LockCore
from pyredisson.core.names import check_name
from pyredisson.core.non_reentrant import NonReentrantLockCore
from pyredisson.core.spin_lock import SpinLockCore

__all__ = ["Factory"]


class Factory:
    """Makes handles on a client's core."""

    _core: ClientCore

    def get_lock(self, name: str) -> Lock:
        """See :meth:`pyredisson.Redisson.get_lock`."""
        self._core.check_open()
        return Lock(self, LockCore(self._core, check_name(name)))

    def get_non_reentrant_lock(self, name: str) -> NonReentrantLock:
        """See :meth:`pyredisson.Redisson.get_non_reentrant_lock`."""
        self._core.check_open()
        return NonReentrantLock(self, NonReentrantLockCore(self._core, check_name(name)))

    def get_fair_lock(self, name: str) -> FairLock:
        """See :meth:`pyredisson.Redisson.get_fair_lock`."""
        self._core.check_open()
        return FairLock(self, FairLockCore(self._core, check_name(name)))

    def get_non_reentrant_fair_lock(self, name: str) -> NonReentrantFairLock:
        """See :meth:`pyredisson.Redisson.get_non_reentrant_fair_lock`."""
        self._core.check_open()
        return NonReentrantFairLock(self, NonReentrantFairLockCore(self._core, check_name(name)))

    def get_spin_lock(self, name: str, backoff: Backoff | None = None) -> SpinLock:
        """See :meth:`pyredisson.Redisson.get_spin_lock`."""
        self._core.check_open()
        return SpinLock(self, SpinLockCore(self._core, check_name(name), backoff_of(backoff)))

    def get_fenced_lock(self, name: str) -> FencedLock:
        """See :meth:`pyredisson.Redisson.get_fenced_lock`."""
        self._core.check_open()
        return FencedLock(self, FencedLockCore(self._core, check_name(name)))
