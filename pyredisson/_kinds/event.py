"""The event: a flag that is set and cleared, and whose waiters return when it is set.

Source: ``threading.Event``. No wake-up is lost: a waiter also returns if the event was set and cleared again meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.deadline import timeout_seconds
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import EventNames
from pyredisson._core.numbered import ScriptCall
from pyredisson._core.runtime import PUBLISH
from pyredisson._kinds.numbered import OPENED, NumberWaitCore

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.runtime import Progress

#: How it is stored, for inspections.
STORED = (StoredKind("event", "event", "number", EventNames, number="changes"),)


class EventCore(NumberWaitCore):
    """One handle on an event."""

    __slots__ = ()

    word = "event"
    kind = "event"

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, EventNames(name, client.config.prefix))

    def opens(self, number: int, first: int | None) -> bool:
        """See :meth:`NumberWaitCore.opens`. A number that has expired says nothing."""
        return number % 2 == 1 or (first is not None and number not in (0, first))

    async def is_set(self) -> bool:
        """Return whether it is set."""
        return self.opens(await self.get_number(), None)

    async def set(self, progress: Progress | None = None) -> None:
        """Set it. ``progress``: see ``run_to_the_end``."""
        await self._change("a set", 1, progress)

    async def clear(self, progress: Progress | None = None) -> None:
        """Clear it. ``progress``: see ``run_to_the_end``."""
        await self._change("a clear", 0, progress)

    async def _change(self, what: str, state: int, progress: Progress | None) -> None:
        script = ScriptCall("event_change", (state, OPENED, PUBLISH), (self.names.channel,))
        await self.change(what, script, progress)

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait until it is set, for at most ``timeout``. Returns whether it was."""
        return await self.wait_for_number(timeout_seconds(timeout))
