"""The context managers that ``hold()`` of a lock and of a semaphore return, for threads."""

from __future__ import annotations

from types import TracebackType
from typing import final

from pyredisson._core.hold import LossCallback
from pyredisson._core.runtime import run, run_to_the_end
from pyredisson._shared.client import LeaseT_co, LockBlock, PermitLeaseT_co, PermitsBlock
from pyredisson._threads import fast_path


@final
class Hold(LockBlock[LeaseT_co]):
    """The context manager that ``lock.hold()`` returns; its value is a :class:`Lease`. Can be entered once.

    The hold belongs to the block, not to a thread: the block may be left, and the lock released, in another thread.

    Example::

        with lock.hold(wait_time=5) as lease:
            lease.ensure_held()
    """

    __slots__ = ()

    def __enter__(self) -> LeaseT_co:
        core, hold, held = self._begin()
        if not fast_path.acquire(core, self._wait, None, hold, held):
            self._lease = None
            if not self._skip:
                raise run(core.timeout_error(self._wait, held))
        elif self._on_loss is not None:
            self._loss_callback = LossCallback(self._on_loss, held, hold, core.client.runtime)
        return self._lease  # type: ignore[return-value]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return  # The block was run without the lock.
        try:
            run_to_the_end(fast_path.release, self._lock._core, self._lease, error)
        finally:
            if self._loss_callback is not None:
                self._loss_callback.end()


@final
class PermitHold(PermitsBlock[PermitLeaseT_co]):
    """The context manager that ``hold()`` of a semaphore returns; its value is a :class:`Lease`. Can be entered once.

    The permits belong to the block, not to a thread: the block may be left, and they released, in another thread.

    Example::

        with semaphore.hold(wait_time=5):
            ...
    """

    __slots__ = ()

    def __enter__(self) -> PermitLeaseT_co:
        try:
            return run(self._block.enter())  # type: ignore[return-value]  # None only if it may skip.
        except BaseException as error:  # Ctrl-C, just after it was acquired: the block will not be left.
            run_to_the_end(self._block.leave, error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._block.leave, error)
