"""The synchronizers for asyncio: one statement a method over the core. The docstrings are those of the thread twins."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, final, overload

from pyredisson.asyncio.hold import HoldContext as Hold
from pyredisson.asyncio.permit_hold import PermitHold
from pyredisson.core.deadline import wait_seconds
from pyredisson.kinds.fenced_lock import FencedLockCore
from pyredisson.kinds.latch import LatchCore
from pyredisson.kinds.lock import LockCore
from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore
from pyredisson.kinds.read_write_lock import ReadWriteLockCore
from pyredisson.kinds.semaphore import SemaphoreCore
from pyredisson.lease import Lease
from pyredisson.quorum.decisions import majority
from pyredisson.quorum.multi_lock import multi_lock
from pyredisson.shared.arguments import cores_of, wait_of
from pyredisson.shared.misuse import BY_HAND, NotPortable, core_of

if TYPE_CHECKING:
    from pyredisson.asyncio.factory import Factory
    from pyredisson.core.deadline import Seconds
    from pyredisson.shared.owners import Owner

__all__ = [
    "CountDownLatch",
    "FairLock",
    "FencedLock",
    "Hold",
    "Lock",
    "MultiLock",
    "NonReentrantFairLock",
    "NonReentrantLock",
    "PermitExpirableSemaphore",
    "ReadWriteLock",
    "RedLock",
    "Semaphore",
    "SpinLock",
    "TokenLock",
]


class Lock(NotPortable):
    """The asyncio twin of :class:`pyredisson.Lock`; the owner is the task that runs the coroutine."""

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    def __init__(self, client: Factory = BY_HAND, core: LockCore = BY_HAND, owner: Owner | None = None) -> None:
        # They stay alive as long as a handle is in use.
        self._client, self._owner = client, owner
        self._core = core_of(LockCore, core, self, client)

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

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[None]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[None] | None]: ...

    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Any]:
        """See :meth:`pyredisson.Lock.hold`.

        Args:
            wait_time: Seconds to wait at most; ``None``: as long as it takes.
            lease_time: As for :meth:`lock`.
            skip: Run the block without the lock if it was not acquired in time: its value is ``None`` then.
            cancel_on_loss: Cancel the body when the lock is lost; leaving then raises ``LockLostError``.
        """
        return Hold(self, wait_time, lease_time, skip, cancel_on_loss)


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

    def __init__(self, client: Factory = BY_HAND, core: FencedLockCore = BY_HAND, owner: Owner | None = None) -> None:
        super().__init__(client, core, owner)
        self._core = core_of(FencedLockCore, core, self, client)

    async def lock_and_get_token(self, lease_time: Seconds | None = None) -> int:
        """See :meth:`pyredisson.FencedLock.lock_and_get_token`."""
        return await self._core.lock_and_get_token(lease_time)

    async def try_lock_and_get_token(
        self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None
    ) -> int | None:
        """See :meth:`pyredisson.FencedLock.try_lock_and_get_token`."""
        return await self._core.try_lock_and_get_token(wait_time, lease_time)

    @overload  # type: ignore[override]  # The token is what makes the difference.
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[int]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[int] | None]: ...

    def hold(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Any]:
        """See :meth:`pyredisson.FencedLock.hold`, and :meth:`Lock.hold`."""
        return Hold(self, wait_time, lease_time, skip, cancel_on_loss)

    async def get_token(self) -> int | None:
        """See :meth:`pyredisson.FencedLock.get_token`."""
        return await self._core.get_token()


@final
class ReadWriteLock(NotPortable):
    """The asyncio twin of :class:`pyredisson.ReadWriteLock`."""

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    def __init__(
        self, client: Factory = BY_HAND, core: ReadWriteLockCore = BY_HAND, owner: Owner | None = None
    ) -> None:
        self._client, self._owner = client, owner
        self._core = core_of(ReadWriteLockCore, core, self, client)

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.ReadWriteLock.name`."""
        return self._core.names.raw

    def read_lock(self) -> Lock:
        """See :meth:`pyredisson.ReadWriteLock.read_lock`."""
        return Lock(self._client, self._core.read_lock(), self._owner)

    def write_lock(self) -> Lock:
        """See :meth:`pyredisson.ReadWriteLock.write_lock`."""
        return Lock(self._client, self._core.write_lock(), self._owner)


@final
class TokenLock(Lock):
    """The asyncio twin of :class:`pyredisson.TokenLock`."""

    __slots__ = ()


class MultiLock(NotPortable):
    """The asyncio twin of :class:`pyredisson.MultiLock`; the owner is the task that runs the coroutine."""

    __slots__ = ("__weakref__", "_core", "_locks")

    def __init__(self, *locks: Lock, quorum: int | None = None) -> None:
        self._core = multi_lock(cores_of(locks, Lock), quorum)
        self._locks = locks  # They keep their clients going.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.MultiLock.name`."""
        return self._core.name

    @property
    def locks(self) -> tuple[Lock, ...]:
        """See :attr:`pyredisson.MultiLock.locks`."""
        return self._locks

    @property
    def quorum(self) -> int:
        """See :attr:`pyredisson.MultiLock.quorum`."""
        return self._core.quorum

    async def lock(self, lease_time: Seconds | None = None) -> None:
        """See :meth:`pyredisson.MultiLock.lock`."""
        await self._core.lock(lease_time)

    async def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> bool:
        """See :meth:`pyredisson.MultiLock.try_lock`."""
        return await self._core.try_lock(wait_time, lease_time)

    async def unlock(self) -> None:
        """See :meth:`pyredisson.MultiLock.unlock`."""
        return await self._core.unlock()

    async def force_unlock(self) -> bool:
        """See :meth:`pyredisson.MultiLock.force_unlock`."""
        return await self._core.force_unlock()

    def validity(self) -> float:
        """See :meth:`pyredisson.MultiLock.validity`. A plain call."""
        return self._core.validity()

    async def is_locked(self) -> bool:
        """See :meth:`pyredisson.MultiLock.is_locked`."""
        return await self._core.is_locked()

    async def is_held_by_current_thread(self) -> bool:
        """See :meth:`pyredisson.MultiLock.is_held_by_current_thread`; here it is the running task that holds it."""
        return await self._core.is_held_by_current_thread()

    async def is_held_by_current_task(self) -> bool:
        """Another name of :meth:`is_held_by_current_thread`."""
        return await self._core.is_held_by_current_thread()

    async def get_hold_count(self) -> int:
        """See :meth:`pyredisson.MultiLock.get_hold_count`."""
        return await self._core.get_hold_count()

    async def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """See :meth:`pyredisson.MultiLock.acquire`."""
        return await self._core.acquire(wait_of(blocking, timeout))

    async def release(self) -> None:
        """See :meth:`pyredisson.MultiLock.release`."""
        return await self._core.unlock()

    async def locked(self) -> bool:
        """See :meth:`pyredisson.MultiLock.locked`."""
        return await self._core.is_locked()

    async def __aenter__(self) -> bool:
        await self._core.lock()
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.leave(error)

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[None]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        cancel_on_loss: bool = False,
    ) -> Hold[Lease[None] | None]: ...

    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        cancel_on_loss: bool = False,
    ) -> Hold[Any]:
        """See :meth:`pyredisson.MultiLock.hold`, and :meth:`Lock.hold`."""
        return Hold(self, wait_time, lease_time, skip, cancel_on_loss)


@final
class RedLock(MultiLock):
    """The asyncio twin of :class:`pyredisson.RedLock`."""

    __slots__ = ()

    def __init__(self, *locks: Lock) -> None:
        super().__init__(*locks, quorum=majority(len(locks)))


# ---- semaphores and latches ------------------------------------------------------------------------------------------


@final
class Semaphore(NotPortable):
    """The asyncio twin of :class:`pyredisson.Semaphore`."""

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Factory = BY_HAND, core: SemaphoreCore = BY_HAND) -> None:
        self._client = client  # Keeps the client going as long as a handle is in use.
        self._core = core_of(SemaphoreCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.Semaphore.name`."""
        return self._core.names.raw

    async def try_set_permits(self, n: int) -> bool:
        """See :meth:`pyredisson.Semaphore.try_set_permits`."""
        return await self._core.try_set_permits(n)

    async def acquire(self, permits: int = 1, *, timeout: Seconds | None = None) -> bool:
        """See :meth:`pyredisson.Semaphore.acquire`."""
        return await self._core.acquire(permits, wait_seconds(timeout, "timeout"))

    async def try_acquire(self, permits: int = 1, wait_time: Seconds | None = 0) -> bool:
        """See :meth:`pyredisson.Semaphore.try_acquire`."""
        return await self._core.acquire(permits, wait_seconds(wait_time))

    async def release(self, permits: int = 1) -> None:
        """See :meth:`pyredisson.Semaphore.release`."""
        await self._core.release(permits)

    async def available_permits(self) -> int:
        """See :meth:`pyredisson.Semaphore.available_permits`."""
        return await self._core.available_permits()

    async def drain_permits(self) -> int:
        """See :meth:`pyredisson.Semaphore.drain_permits`."""
        return await self._core.drain_permits()

    async def add_permits(self, n: int) -> None:
        """See :meth:`pyredisson.Semaphore.add_permits`."""
        await self._core.add_permits(n)

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool = False) -> PermitHold[Any]:
        """See :meth:`pyredisson.Semaphore.hold`."""
        return PermitHold(self._client, self._core.hold(permits, wait_time, skip=skip))

    async def __aenter__(self) -> bool:
        return await self._core.acquire(1, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.leave(error)


@final
class PermitExpirableSemaphore(NotPortable):
    """The asyncio twin of :class:`pyredisson.PermitExpirableSemaphore`."""

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Factory = BY_HAND, core: PermitSemaphoreCore = BY_HAND) -> None:
        self._client = client  # Keeps the client going as long as a handle is in use.
        self._core = core_of(PermitSemaphoreCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.PermitExpirableSemaphore.name`."""
        return self._core.names.raw

    async def try_set_permits(self, n: int) -> bool:
        """See :meth:`pyredisson.PermitExpirableSemaphore.try_set_permits`."""
        return await self._core.try_set_permits(n)

    async def set_permits(self, n: int) -> None:
        """See :meth:`pyredisson.PermitExpirableSemaphore.set_permits`."""
        await self._core.set_permits(n)

    async def add_permits(self, n: int) -> None:
        """See :meth:`pyredisson.PermitExpirableSemaphore.add_permits`."""
        await self._core.add_permits(n)

    async def acquire(self, lease_time: Seconds | None = None) -> str:
        """See :meth:`pyredisson.PermitExpirableSemaphore.acquire`."""
        return await self._core.acquire(lease_time)

    async def try_acquire(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> str | None:
        """See :meth:`pyredisson.PermitExpirableSemaphore.try_acquire`."""
        return await self._core.try_acquire(wait_time, lease_time)

    async def release(self, permit_id: str) -> None:
        """See :meth:`pyredisson.PermitExpirableSemaphore.release`."""
        await self._core.release(permit_id)

    async def try_release(self, permit_id: str) -> bool:
        """See :meth:`pyredisson.PermitExpirableSemaphore.try_release`."""
        return await self._core.try_release(permit_id)

    async def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """See :meth:`pyredisson.PermitExpirableSemaphore.update_lease_time`."""
        return await self._core.update_lease_time(permit_id, lease_time)

    async def available_permits(self) -> int:
        """See :meth:`pyredisson.PermitExpirableSemaphore.available_permits`."""
        return await self._core.available_permits()

    async def get_permits(self) -> int:
        """See :meth:`pyredisson.PermitExpirableSemaphore.get_permits`."""
        return await self._core.get_permits()

    async def acquired_permits(self) -> int:
        """See :meth:`pyredisson.PermitExpirableSemaphore.acquired_permits`."""
        return await self._core.acquired_permits()

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool = False
    ) -> PermitHold[Any]:
        """See :meth:`pyredisson.PermitExpirableSemaphore.hold`."""
        return PermitHold(self._client, self._core.hold(wait_time, lease_time, skip=skip))


@final
class CountDownLatch(NotPortable):
    """The asyncio twin of :class:`pyredisson.CountDownLatch`."""

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Factory = BY_HAND, core: LatchCore = BY_HAND) -> None:
        self._client = client  # Keeps the client going as long as a handle is in use.
        self._core = core_of(LatchCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """See :attr:`pyredisson.CountDownLatch.name`."""
        return self._core.names.raw

    async def try_set_count(self, n: int) -> bool:
        """See :meth:`pyredisson.CountDownLatch.try_set_count`."""
        return await self._core.try_set_count(n)

    async def count_down(self) -> None:
        """See :meth:`pyredisson.CountDownLatch.count_down`."""
        await self._core.count_down()

    async def get_count(self) -> int:
        """See :meth:`pyredisson.CountDownLatch.get_count`."""
        return await self._core.get_count()

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """See :meth:`pyredisson.CountDownLatch.wait`."""
        return await self._core.wait(timeout)
