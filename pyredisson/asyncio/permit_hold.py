"""The context manager that ``hold()`` of a semaphore returns, for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import final

from pyredisson.shared.blocks import PermitLeaseT_co, PermitsBlock


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
