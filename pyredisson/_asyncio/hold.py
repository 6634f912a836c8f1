"""The context managers that ``hold()`` of a lock and of a semaphore return, for asyncio."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, final

from pyredisson._asyncio import fast_path
from pyredisson._core.hold import LossCallback
from pyredisson._shared.client import Handle, LeaseT_co, LockBlock, PermitLeaseT_co, PermitsBlock

if TYPE_CHECKING:
    from collections.abc import Callable

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
        on_loss: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(lock, wait_time, lease_time, skip, on_loss)
        self._wanted = cancel_on_loss
        self._cancels: CancelOnLoss | None = None

    async def __aenter__(self) -> LeaseT_co:
        core, hold, held = self._begin()
        if not await fast_path.acquire(core, self._wait, None, hold, held):
            self._lease = None
            if not self._skip:
                raise await core.timeout_error(self._wait, held)
            return None  # type: ignore[return-value]
        if self._on_loss is not None:
            self._loss_callback = LossCallback(self._on_loss, held, hold, core.client.runtime)
        if self._wanted and self._lease is not None:
            self._cancels = CancelOnLoss()
            self._lease._when_lost(in_running_loop(self._cancels.cancel))
        return self._lease  # type: ignore[return-value]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return  # The block was run without the lock.
        ended_by = error if self._cancels is None else self._cancels.take_back(error)
        try:
            await fast_path.release(self._lock._core, self._lease, ended_by)
        finally:
            if self._loss_callback is not None:
                self._loss_callback.end()


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


def in_running_loop(call: Callable[[], None]) -> Callable[[], None]:
    """Return what makes a call in the event loop that runs now: at once if that still runs there, else soon."""
    loop = asyncio.get_running_loop()

    def call_there() -> None:
        running = None
        with suppress(RuntimeError):  # A hook of the program runs, which is not in the loop.
            running = asyncio.get_running_loop()
        if running is loop:
            call()
            return
        with suppress(RuntimeError):  # It was closed, and no task of it runs any more.
            loop.call_soon_threadsafe(call)

    return call_there


# ---- cancel on loss --------------------------------------------------------------------------------------------------
# Cancels the body of ``hold(cancel_on_loss=True)``, and takes back that cancellation and no other.
#
# Source: ``asyncio.timeout``, which counts the cancellations of its task likewise.


class OurMessage(str):
    """The message of a cancellation that a loss has asked for: each is an object of its own."""

    __slots__ = ()


class CancelOnLoss:
    """The cancellation of one task, the running one, for the loss of one lock."""

    __slots__ = ("_before", "_left", "_message", "_requested", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a hold belongs to a task"
        self._task = task
        self._before = _cancelling(task)  # Others may have cancelled it before, and never taken that back.
        self._message = OurMessage("the lock was lost")
        self._requested = False
        self._left = False

    def cancel(self) -> None:
        """Cancel the task, because its lock was lost."""
        if self._left or asyncio.current_task() is self._task:
            return  # Its own call has found the loss, and raises it.
        self._requested = self._task.cancel(self._message)

    def take_back(self, error: BaseException | None) -> BaseException | None:
        """Take our cancellation back, if there was one, now that the body has ended with ``error``.

        Returns:
            ``error``, or ``None`` if that is our cancellation and no other was asked for.
        """
        self._left = True
        if not self._requested:
            return error
        self._requested = False
        if sys.version_info >= (3, 11):
            if self._task.cancelling() > self._before:  # Else the body has taken it back itself.
                self._task.uncancel()
            only_ours = self._task.cancelling() <= self._before
        else:  # A later cancellation of the same turn leaves no trace there.
            only_ours = _carries(error, self._message)
        return None if only_ours and isinstance(error, asyncio.CancelledError) else error


def _cancelling(task: asyncio.Task[object]) -> int:
    if sys.version_info >= (3, 11):
        return task.cancelling()
    return 0


def _carries(error: BaseException | None, message: OurMessage) -> bool:
    """Whether a cancellation is the one of that message. Passed on by another task, it is but the context of one."""
    while isinstance(error, asyncio.CancelledError):
        if error.args and error.args[0] is message:
            return True
        if error.args:
            return False
        error = error.__context__
    return False
