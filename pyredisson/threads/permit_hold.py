"""The context manager that ``hold()`` of a semaphore returns, for threads."""

from __future__ import annotations

from types import TracebackType
from typing import final

from pyredisson.core.driver import run, run_to_the_end
from pyredisson.shared.blocks import PermitLeaseT_co, PermitsBlock


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
