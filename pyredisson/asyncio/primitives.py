"""The synchronizers for asyncio: one statement a method over the core. The docstrings are those of the thread twins."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, final

from pyredisson.arguments import wait_of
from pyredisson.core.fenced_lock import FencedLockCore
from pyredisson.core.lock import LockCore
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from pyredisson.asyncio.factory import Factory
    from pyredisson.core.deadline import Seconds

__all__ = ["FairLock", "FencedLock", "Hold", "Lock", "NonReentrantFairLock", "NonReentrantLock", "SpinLock"]


class Lock:
    """The asyncio twin of :class:`pyredisson.Lock`; the owner is the task that runs the coroutine."""

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Factory, core: LockCore) -> None:
        self._client = client  # Keeps the client going as long as a handle is in use.
        self._core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.Lock.name`."""
        return self._core.names.raw

    async def lock(self, lease_time: Seconds | None = None) -> None:
        """See :meth:`pyredisson.Lock.lock`."""
        await self._core.lock(lease_time)

    async def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> bool:
        """See :meth:`pyredisson.Lock.try_lock`."""
        return await self._core.try_lock(wait_time, lease_time)

    async def unlock(self) -> None:
        """See :meth:`pyredisson.Lock.unlock`."""
        return await self._core.unlock()

    async def force_unlock(self) -> bool:
        """See :meth:`pyredisson.Lock.force_unlock`."""
        return await self._core.force_unlock()

    async def is_locked(self) -> bool:
        """See :meth:`pyredisson.Lock.is_locked`."""
        return await self._core.is_locked()

    async def is_held_by_current_thread(self) -> bool:
        """See :meth:`pyredisson.Lock.is_held_by_current_thread`; here it is the running task that holds it."""
        return await self._core.is_held_by_current_thread()

    async def is_held_by_current_task(self) -> bool:
        """Another name of :meth:`is_held_by_current_thread`."""
        return await self._core.is_held_by_current_thread()

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """See :meth:`pyredisson.Lock.is_held_by_thread`; the number is that of a task."""
        return await self._core.is_held_by_thread(thread_id)

    async def get_hold_count(self) -> int:
        """See :meth:`pyredisson.Lock.get_hold_count`."""
        return await self._core.get_hold_count()

    async def remain_time_to_live(self) -> float | None:
        """See :meth:`pyredisson.Lock.remain_time_to_live`."""
        return await self._core.remain_time_to_live()

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See :meth:`pyredisson.Lock.acquire`."""
        return await self._core.acquire(wait_of(blocking, timeout))

    async def release(self) -> None:
        """See :meth:`pyredisson.Lock.release`."""
        return await self._core.unlock()

    async def locked(self) -> bool:
        """See :meth:`pyredisson.Lock.locked`."""
        return await self._core.is_locked()

    async def __aenter__(self) -> bool:
        await self._core.lock()
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.leave(error)

    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        cancel_on_loss: bool = False,
    ) -> Hold:
        """See :meth:`pyredisson.Lock.hold`.

        Args:
            wait_time: Seconds to wait at most; ``None``: as long as it takes.
            lease_time: As for :meth:`lock`.
            cancel_on_loss: Cancel the body when the lock is lost; leaving then raises ``LockLostError``.
        """
        return Hold(self, wait_time, lease_time, cancel_on_loss)


@final
class NonReentrantLock(Lock):
    """The asyncio twin of :class:`pyredisson.NonReentrantLock`."""

    __slots__ = ()


@final
class FairLock(Lock):
    """The asyncio twin of :class:`pyredisson.FairLock`."""

    __slots__ = ()


@final
class NonReentrantFairLock(Lock):
    """The asyncio twin of :class:`pyredisson.NonReentrantFairLock`."""

    __slots__ = ()


@final
class SpinLock(Lock):
    """The asyncio twin of :class:`pyredisson.SpinLock`."""

    __slots__ = ()


@final
class FencedLock(Lock):
    """The asyncio twin of :class:`pyredisson.FencedLock`."""

    __slots__ = ("_core",)

    _core: FencedLockCore

    def __init__(self, client: Factory, core: FencedLockCore) -> None:
        super().__init__(client, core)
        self._core = core

    async def lock_and_get_token(self, lease_time: Seconds | None = None) -> int:
        """See :meth:`pyredisson.FencedLock.lock_and_get_token`."""
        return await self._core.lock_and_get_token(lease_time)

    async def try_lock_and_get_token(
        self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None
    ) -> int | None:
        """See :meth:`pyredisson.FencedLock.try_lock_and_get_token`."""
        return await self._core.try_lock_and_get_token(wait_time, lease_time)

    async def get_token(self) -> int | None:
        """See :meth:`pyredisson.FencedLock.get_token`."""
        return await self._core.get_token()


@final
class Hold:
    """The asyncio twin of :class:`pyredisson.Hold`."""

    __slots__ = ("_cancelled", "_lease", "_lease_time", "_lock", "_task", "_wait_time", "_wanted")

    def __init__(self, lock: Lock, wait_time: Seconds | None, lease_time: Seconds | None, cancel_on_loss: bool) -> None:
        self._lock = lock
        self._wait_time = wait_time
        self._lease_time = lease_time
        self._wanted = cancel_on_loss
        self._cancelled = False
        self._lease: Lease | None = None
        self._task: asyncio.Task[object] | None = None

    async def __aenter__(self) -> Lease:
        self._lease = await self._lock._core.hold(self._wait_time, self._lease_time)
        if self._wanted:
            self._task = asyncio.current_task()
            self._lease.when_lost(self._cancel)
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:
            self._lease.end()
        ours = self._cancelled and isinstance(error, asyncio.CancelledError) and not self._cancelled_from_outside()
        await self._lock._core.leave(None if ours else error)

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._cancelled = True
            self._task.cancel("the lock was lost")

    def _cancelled_from_outside(self) -> bool:
        """Whether somebody else wants the task to end too; then that goes first."""
        uncancel = getattr(self._task, "uncancel", None)  # From Python 3.11 on.
        return uncancel is not None and uncancel() > 0
