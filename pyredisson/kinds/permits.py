"""What both kinds of semaphore have in common: how they get their first permits, and a warning if nobody gave any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson import events
from pyredisson.core import scripts
from pyredisson.core.names import SemaphoreNames, owner_field
from pyredisson.kinds.numbered import NumberedCore, count_of

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.runtime import Reply

__all__ = ["PermitsCore"]


class PermitsCore(NumberedCore):
    """One handle on a semaphore of either kind.

    Args:
        client: Whose it is.
        name: The semaphore's name.
        permits: How many it is given when this handle is first used, unless it has some; ``None``: none.
    """

    __slots__ = ("_first",)

    names: SemaphoreNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str, permits: int | None = None) -> None:
        super().__init__(client, SemaphoreNames(name))
        self._first = None if permits is None else count_of(permits, "permits")

    async def try_set_permits(self, permits: int) -> bool:
        """Give it its permits, unless it has some."""
        value = count_of(permits, "permits")
        asking = self.ask(
            "a try_set_permits", lambda by: scripts.set_counter(by, self.names, value, message=str(value))
        )
        return await asking.once() == 1

    async def first_use(self, wait: float | None = None) -> float | None:
        """Give it the permits that the handle was made with, once. Returns what is left of ``wait`` seconds."""
        first = self._first
        if first is None:
            return wait
        now = self.client.runtime.now
        began = now()
        await self.try_set_permits(first)
        self._first = None
        return None if wait is None else max(0.0, wait - (now() - began))

    def note_refusal(self, left: Reply, wait: float | None) -> None:
        """A caller who waits so long was refused, ``left`` being available. Tell, once, if nobody ever set any."""
        client = self.client
        if left is None and wait != 0 and client.ledger.is_first_to_miss(self.names.raw):
            owner = owner_field(client.id, client.runtime.owner().number)
            client.emit(events.PermitsNeverSet(self.names.raw, owner))
