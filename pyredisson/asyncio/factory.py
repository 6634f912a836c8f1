"""What an asyncio client makes. Apart from the client, so that the simulated one makes the same."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyredisson.asyncio.primitives import (
    CountDownLatch,
    FairLock,
    FencedLock,
    Lock,
    MultiLock,
    NonReentrantFairLock,
    NonReentrantLock,
    PermitExpirableSemaphore,
    ReadWriteLock,
    RedLock,
    Semaphore,
    SpinLock,
    TokenLock,
)
from pyredisson.config import Backoff
from pyredisson.core.client import ClientCore
from pyredisson.core.names import check_name
from pyredisson.kinds.fair_lock import FairLockCore, NonReentrantFairLockCore
from pyredisson.kinds.fenced_lock import FencedLockCore
from pyredisson.kinds.latch import LatchCore
from pyredisson.kinds.lock import LockCore
from pyredisson.kinds.non_reentrant import NonReentrantLockCore
from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore
from pyredisson.kinds.read_write_lock import ReadWriteLockCore
from pyredisson.kinds.semaphore import SemaphoreCore
from pyredisson.kinds.spin_lock import SpinLockCore
from pyredisson.kinds.token_lock import TokenLockCore
from pyredisson.shared.arguments import backoff_of
from pyredisson.shared.owners import Owner, caller_of
from pyredisson.shared.synchronized import synchronized_task

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds

__all__ = ["Factory"]

P = ParamSpec("P")
R = TypeVar("R")


class Factory:
    """Makes handles on a client's core."""

    _core: ClientCore

    def get_lock(self, name: str, *, owner: Owner | None = None) -> Lock:
        """See :meth:`pyredisson.Redisson.get_lock`."""
        self._core.check_open()
        return Lock(self, LockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner)

    def get_non_reentrant_lock(self, name: str, *, owner: Owner | None = None) -> NonReentrantLock:
        """See :meth:`pyredisson.Redisson.get_non_reentrant_lock`."""
        self._core.check_open()
        return NonReentrantLock(
            self, NonReentrantLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner
        )

    def get_fair_lock(self, name: str, *, owner: Owner | None = None) -> FairLock:
        """See :meth:`pyredisson.Redisson.get_fair_lock`."""
        self._core.check_open()
        return FairLock(self, FairLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner)

    def get_non_reentrant_fair_lock(self, name: str, *, owner: Owner | None = None) -> NonReentrantFairLock:
        """See :meth:`pyredisson.Redisson.get_non_reentrant_fair_lock`."""
        self._core.check_open()
        return NonReentrantFairLock(
            self, NonReentrantFairLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner
        )

    def get_spin_lock(self, name: str, backoff: Backoff | None = None, *, owner: Owner | None = None) -> SpinLock:
        """See :meth:`pyredisson.Redisson.get_spin_lock`."""
        self._core.check_open()
        return SpinLock(
            self, SpinLockCore(self._core, check_name(name), backoff_of(backoff)).acting_for(caller_of(owner)), owner
        )

    def get_fenced_lock(self, name: str, *, owner: Owner | None = None) -> FencedLock:
        """See :meth:`pyredisson.Redisson.get_fenced_lock`."""
        self._core.check_open()
        return FencedLock(self, FencedLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner)

    def get_read_write_lock(self, name: str, *, owner: Owner | None = None) -> ReadWriteLock:
        """See :meth:`pyredisson.Redisson.get_read_write_lock`."""
        self._core.check_open()
        return ReadWriteLock(self, ReadWriteLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner)

    def get_semaphore(self, name: str, permits: int | None = None) -> Semaphore:
        """See :meth:`pyredisson.Redisson.get_semaphore`."""
        self._core.check_open()
        return Semaphore(self, SemaphoreCore(self._core, check_name(name), permits))

    def get_permit_expirable_semaphore(self, name: str, permits: int | None = None) -> PermitExpirableSemaphore:
        """See :meth:`pyredisson.Redisson.get_permit_expirable_semaphore`."""
        self._core.check_open()
        return PermitExpirableSemaphore(self, PermitSemaphoreCore(self._core, check_name(name), permits))

    def get_count_down_latch(self, name: str) -> CountDownLatch:
        """See :meth:`pyredisson.Redisson.get_count_down_latch`."""
        self._core.check_open()
        return CountDownLatch(self, LatchCore(self._core, check_name(name)))

    def get_token_lock(self, name: str, *, owner: Owner | None = None) -> TokenLock:
        """See :meth:`pyredisson.Redisson.get_token_lock`."""
        self._core.check_open()
        return TokenLock(self, TokenLockCore(self._core, check_name(name)).acting_for(caller_of(owner)), owner)

    def new_owner(self) -> Owner:
        """See :meth:`pyredisson.Redisson.new_owner`. A plain call."""
        self._core.check_open()
        return Owner()

    def get_multi_lock(self, *locks: Lock) -> MultiLock:
        """See :meth:`pyredisson.Redisson.get_multi_lock`."""
        self._core.check_open()
        return MultiLock(*locks)

    def get_red_lock(self, *locks: Lock) -> RedLock:
        """See :meth:`pyredisson.Redisson.get_red_lock`."""
        self._core.check_open()
        return RedLock(*locks)

    def synchronized(
        self, key: str, *, wait_time: Seconds | None = None, lease_time: Seconds | None = None
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """See :meth:`pyredisson.Redisson.synchronized`. A plain call; for coroutine functions."""
        self._core.check_open()
        return synchronized_task(self, key, wait_time, lease_time)
