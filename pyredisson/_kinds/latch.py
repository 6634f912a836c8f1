"""The count-down latch: its waiters return when it has been counted down to zero.

Source: ``org.redisson.RedissonCountDownLatch``. What differs on purpose: each count is taken once at most, despite lost
replies, repeats and cancellations; waiters check again by themselves, one for all waiters of a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.deadline import wait_seconds
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import LatchNames
from pyredisson._core.numbered import Operation, ScriptCall
from pyredisson._core.requests import read_int
from pyredisson._core.runtime import PUBLISH
from pyredisson._kinds.numbered import CLOSED, OPENED, NumberWaitCore, count_of

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.runtime import Progress


#: How it is stored, for inspections.
STORED = (StoredKind("count_down_latch", "latch", "number", LatchNames, number="count"),)


class LatchCore(NumberWaitCore):
    """One handle on a latch."""

    __slots__ = ()

    word = "count_down_latch"
    kind = "latch"
    deleted_message = OPENED
    names: LatchNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, LatchNames(name, client.config.prefix))

    def opens(self, number: int, first: int | None) -> bool:
        """See :meth:`NumberWaitCore.opens`."""
        return number <= 0

    async def try_set_count(self, count: int) -> bool:
        """Set the count, unless the latch has one."""
        setting = self.setting("a try_set_count", count_of(count, "count"), message=CLOSED)
        return await self.begin(setting).once() == 1

    async def count_down(self, progress: Progress | None = None) -> None:
        """Count down by one. ``progress``: see ``run_to_the_end``."""
        script = ScriptCall("latch_count_down", (OPENED, PUBLISH), (self.names.channel,))
        await self.begin(Operation("a count_down", script, read_int, completes=True)).once(progress)

    async def get_count(self) -> int:
        """Return the count; 0 if there is none."""
        return await self.get_number()

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait until the count is 0, for at most ``timeout``. Returns whether it was."""
        return await self.wait_for_number(wait_seconds(timeout, "timeout"))
