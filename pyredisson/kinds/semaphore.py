"""The semaphore: so many permits, for anybody to take and for anybody to give back.

Source: ``org.redisson.RedissonSemaphore``. What differs on purpose: each request takes effect once at most, whatever
is lost, repeated or cancelled; waiters look again by themselves; a message of nothing wakes nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.deadline import wait_seconds
from pyredisson.core.outcomes import ACQUIRED, WITHOUT_END
from pyredisson.core.runtime import is_interruption
from pyredisson.kinds.numbered import count_of, number_in
from pyredisson.kinds.permit_block import SemaphoreBlock
from pyredisson.kinds.permits import PermitsCore

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.runtime import Progress
    from pyredisson.kinds.numbered import Asking, Make

__all__ = ["SemaphoreCore"]


class SemaphoreCore(PermitsCore):
    """One handle on a semaphore."""

    __slots__ = ()

    kind = "semaphore"

    async def acquire(self, permits: int, wait: float | None) -> bool:
        """Take so many permits, all or none, if they are to be had within ``wait`` seconds."""
        wanted = count_of(permits, "permits")
        self.client.check_open()
        return wanted == 0 or await self.take_permits(self.acquiring(wanted), wanted, wait)

    def hold(self, permits: int, wait_time: Seconds | None, *, skip: bool) -> SemaphoreBlock:
        """Prepare a block that takes so many permits."""
        return SemaphoreBlock(self, count_of(permits, "permits"), wait_seconds(wait_time), skip=skip)

    def acquiring(self, wanted: int) -> Asking:
        """Prepare to take so many permits."""
        return self._taking("an acquire", lambda by: scripts.acquire_permits(by, self.names, wanted))

    async def take_permits(
        self, asking: Asking, wanted: int, wait: float | None, granted: Callable[[], None] = lambda: None
    ) -> bool:
        """Take what was prepared, within ``wait`` seconds. ``granted`` is called as soon as it was."""
        wait = await self.first_use(wait)
        kind = f"{self.kind}:{wanted}"

        async def attempt() -> Answer:
            reply = await asking.ask()
            match reply:
                case [int() as taken, (int() | None) as left]:
                    pass
                case _:
                    raise asking.unusable(reply)
            if not taken:
                asking.refused()
                self.note_refusal(left, wait)
                return WITHOUT_END
            granted()
            if isinstance(left, int) and left >= wanted:
                self.client.wakeups.hint(self.names.channel, kind, 0)  # There is more: the next one may look, too.
            return ACQUIRED

        return await self.take(asking, attempt, wait, kind=kind, each=wanted)

    async def release(self, permits: int, progress: Progress | None = None) -> None:
        """Give so many permits back. ``progress``: see ``run_to_the_end``."""
        given = count_of(permits, "permits")
        self.client.check_open()
        if given:
            await self.first_use()
            await self.ask("a release", lambda by: scripts.release_permits(by, self.names, given)).once(progress)

    async def leave(self, error: BaseException | None, progress: Progress | None = None, *, permits: int = 1) -> None:
        """Give permits back at the end of a block, whose own ``error`` goes first.

        Nobody will come and try again, so if it cannot be done now it is done in the background. ``progress`` is given
        where a block that is being closed (``GeneratorExit``) can wait; elsewhere that is left to the background, too.
        """
        closed = isinstance(error, GeneratorExit) and progress is None
        try:
            asking = self.ask("a release", lambda by: scripts.release_permits(by, self.names, permits), left=closed)
            if closed:
                asking.leave_later()
            else:
                await asking.once(progress, insist=True)
        except Exception as ours:
            if error is None or is_interruption(ours):
                raise

    async def add_permits(self, permits: int, progress: Progress | None = None) -> None:
        """Make so many more permits available, or fewer. ``progress``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.first_use()
        await self.ask("an add_permits", lambda by: scripts.add_permits(by, self.names, more)).once(progress)

    async def drain_permits(self) -> int:
        """Take all permits that are available, and return how many."""
        await self.first_use()
        asking = self._taking("a drain_permits", lambda by: scripts.drain_permits(by, self.names))
        return number_in(await asking.once(), self.names.raw)

    async def available_permits(self) -> int:
        """How many permits are available."""
        await self.first_use()
        return number_in(await self.client.query("GET", self.names.raw), self.names.raw)

    def _taking(self, what: str, make: Make) -> Asking:
        return self.ask(what, make, lambda by, number: scripts.undo_permits(by, self.names, number))
