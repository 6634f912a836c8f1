"""The context managers that ``hold()`` of a lock and of a semaphore return, for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, final

from pyredisson._asyncio import fast_path
from pyredisson._asyncio.tasks import CancelOnLoss
from pyredisson._shared.client import Handle, LeaseT_co, LockBlock, PermitLeaseT_co, PermitsBlock

if TYPE_CHECKING:
    from pyredisson._core.deadline import Seconds


@final
class Hold(LockBlock[LeaseT_co]):
    """The context manager that ``lock.hold()`` returns; its value is a :class:`Lease`. Can be entered once.

    The hold belongs to the block, not to a task: the block may be left, and the lock released, in another task.

    Example::

        async with lock.hold(wait_time=5) as lease:
            lease.ensure_held()
    """

    __slots__ = ("_cancels", "_wanted")

    def __init__(
        self,
        lock: Handle,
        wait_time: Seconds | None,
        lease_time: Seconds | None,
        skip: bool,
        cancel_on_loss: bool,
    ) -> None:
        super().__init__(lock, wait_time, lease_time, skip)
        self._wanted = cancel_on_loss
        self._cancels: CancelOnLoss | None = None

    async def __aenter__(self) -> LeaseT_co:
        core, hold, held = self._begin()
        if not await fast_path.acquire(core, self._wait, None, hold, held):
            self._lease = None
            if not self._skip:
                raise await core.timeout_error(self._wait, held)
        elif self._wanted and self._lease is not None:
            self._cancels = CancelOnLoss()
            self._lease._when_lost(self._cancels.cancel)
        return self._lease  # type: ignore[return-value]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return  # The block was run without the lock.
        ended_by = error if self._cancels is None else self._cancels.take_back(error)
        await fast_path.release(self._lock._core, self._lease, ended_by)


@final
class PermitHold(PermitsBlock[PermitLeaseT_co]):
    """The context manager that ``hold()`` of a semaphore returns; its value is a :class:`Lease`. Can be entered once.

    The permits belong to the block, not to a task: the block may be left, and they released, in another task.

    Example::

        async with semaphore.hold(wait_time=5):
            ...
    """

    __slots__ = ()

    async def __aenter__(self) -> PermitLeaseT_co:
        return await self._block.enter()  # type: ignore[return-value]  # None only if it may skip.

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._block.leave(error)
