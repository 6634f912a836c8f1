"""The semaphore: so many permits, for anybody to take and for anybody to give back.

Source: ``org.redisson.RedissonSemaphore``. What differs on purpose: each request takes effect once at most, whatever
is lost, repeated or cancelled; waiters look again by themselves; a message of nothing wakes nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.names import SemaphoreNames
from pyredisson.core.numbered import NumberedCore, count_of, number_in

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.numbered import Asking, Make

__all__ = ["SemaphoreCore"]


class SemaphoreCore(NumberedCore):
    """One handle on a semaphore."""

    __slots__ = ()

    kind = "semaphore"
    names: SemaphoreNames

    def __init__(self, home: ClientCore, name: str) -> None:
        super().__init__(home, SemaphoreNames(name))

    async def try_set_permits(self, permits: int) -> bool:
        """Give it its permits, unless it has some."""
        value = count_of(permits, "permits")
        asking = self.ask(
            "a try_set_permits", lambda by: scripts.set_counter(by, self.names, value, message=str(value))
        )
        return await asking.once() == 1

    async def acquire(self, permits: int, wait: float | None) -> bool:
        """Take so many permits, all or none, if they are to be had within ``wait`` seconds."""
        wanted = count_of(permits, "permits")
        self.home.check_open()
        if wanted == 0:
            return True
        asking = self._taking("an acquire", lambda by: scripts.acquire_permits(by, self.names, wanted))
        kind = f"{self.kind}:{wanted}"

        async def attempt() -> int | None:
            reply = await asking.ask()
            match reply:
                case [int() as taken, int() as left]:
                    pass
                case _:
                    raise asking.unusable(reply)
            if not taken:
                asking.refused()
                return -1
            if left >= wanted:
                self.home.wakeups.hint(self.names.channel, kind, 0)  # There is more: the next one may look, too.
            return None

        return await self.take(asking, attempt, wait, kind=kind, each=wanted)

    async def release(self, permits: int, begun: list[None] | None = None) -> None:
        """Give so many permits back. ``begun``: see ``run_to_the_end``."""
        given = count_of(permits, "permits")
        self.home.check_open()
        if given:
            await self.ask("a release", lambda by: scripts.release_permits(by, self.names, given)).once(begun)

    async def leave(self, error: BaseException | None, begun: list[None] | None = None) -> None:
        """Give one permit back at the end of a block, whose own ``error`` goes first.

        Nobody will come and try again, so if it cannot be done now it is done in the background.
        """
        asking = self.ask("a release", lambda by: scripts.release_permits(by, self.names, 1))
        try:
            await asking.once(begun, insist=True)
        except Exception:
            if error is None:
                raise

    async def add_permits(self, permits: int, begun: list[None] | None = None) -> None:
        """Make so many more permits available, or fewer. ``begun``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.ask("an add_permits", lambda by: scripts.add_permits(by, self.names, more)).once(begun)

    async def drain_permits(self) -> int:
        """Take all permits that are available, and return how many."""
        asking = self._taking("a drain_permits", lambda by: scripts.drain_permits(by, self.names))
        return number_in(await asking.once(), self.names.raw)

    async def available_permits(self) -> int:
        """How many permits are available."""
        return number_in(await self.home.query("GET", self.names.raw), self.names.raw)

    def _taking(self, what: str, make: Make) -> Asking:
        return self.ask(what, make, lambda by, number: scripts.undo_permits(by, self.names, number))
