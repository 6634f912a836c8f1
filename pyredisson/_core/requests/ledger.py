"""What a client's owners have left open with things that have no owner in Redis, and the numbers of their requests.

Plain tables but for :meth:`Ledger.settle`. The rules are those of ``_core/requests/idempotent_request.py``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

from pyredisson._core import events
from pyredisson._core.failures import Unanswered

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.runtime import Reply, Request

#: The number of things that are remembered, to be reported once.
REMEMBERED = 1000

Key: TypeAlias = tuple[str, str]
"""The name of a semaphore or latch, and the owner who asks: they share one record on the server."""


class Open:
    """A request whose caller has gone, or received an error that its outcome is unknown.

    Attributes:
        request: What settles it, sent as it is until it is answered.
        until: When it is no longer worth doing: the server may have forgotten what became of the original.
        known_for: Seconds after the first copy that may have run for which the server knows that.
        undoes: Whether it undoes the original. Else it is the original.
        reply: The reply that settled it.
    """

    __slots__ = ("known_for", "reply", "request", "undoes", "until")

    def __init__(self, request: Request, until: float, known_for: float, *, undoes: bool) -> None:
        self.request: Request = request
        self.until: float = until
        self.known_for: float = known_for
        self.reply: Reply = None
        self.undoes: bool = undoes


class Ledger:
    """The numbers and the open requests of one client.

    Attributes:
        asking: The thread that asks in an owner's name at present.
        seen_numbers: The last number at which waiters here return, and when it was asked for, by key.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._mutex = client.runtime.mutex()
        self._numbers = itertools.count(1)
        self._open: dict[Key, list[Open]] = {}
        self.asking: dict[Key, int] = {}
        self.seen_numbers: dict[str, tuple[float, int]] = {}
        self._reported: set[tuple[object, ...]] = set()
        self._refused: dict[tuple[object, ...], Open] = {}

    def number(self) -> int:
        """A number greater than all before it."""
        return next(self._numbers)

    def is_first_of(self, report: tuple[object, ...]) -> bool:
        """Return whether this was not asked before: what is to be reported once, and of which semaphore."""
        with self._mutex:
            if len(self._reported) >= REMEMBERED:
                self._reported.clear()
            known = report in self._reported
            self._reported.add(report)
            return not known

    def note_refused(self, call: tuple[object, ...], left: Open) -> None:
        """Note a call that was refused, and is completed in the background: the same call again continues it."""
        with self._mutex:
            while len(self._refused) >= REMEMBERED:
                del self._refused[next(iter(self._refused))]
            self._refused[call] = left

    def take_refused(self, call: tuple[object, ...]) -> Open | None:
        """Return what was noted for a call, once."""
        if not self._refused:
            return None
        with self._mutex:
            return self._refused.pop(call, None)

    def note(self, key: Key, left: Open) -> None:
        """Something is left open. What has been given up is forgotten on this occasion."""
        now = self._client.runtime.now()
        with self._mutex:
            for each, opens in list(self._open.items()):
                self._open[each] = [other for other in opens if other.until > now]
                if not self._open[each]:
                    del self._open[each]
            self._open.setdefault(key, []).append(left)

    def first(self, key: Key) -> Open | None:
        """What has been open for the longest time and is worth settling."""
        if not self._open:
            return None
        now = self._client.runtime.now()
        with self._mutex:
            return next((left for left in self._open.get(key, ()) if left.until > now), None)

    def close(self, key: Key, left: Open) -> bool:
        """It is settled. Returns whether that is news."""
        with self._mutex:
            opens = self._open.get(key, [])
            if left not in opens:
                return False
            opens.remove(left)
            if not opens:
                del self._open[key]
            return True

    def count(self) -> int:
        """How many requests are open."""
        with self._mutex:
            return sum(map(len, self._open.values()))

    async def settle(self, key: Key, budget: float | None = None) -> None:
        """Settle what this owner has left open here. It does no harm if another caller does, too.

        Raises:
            Failure: It is open still.
        """
        while (left := self.first(key)) is not None:
            sent = self._client.runtime.now()
            try:
                reply = await self._client.perform(left.request, budget)
            except Unanswered:
                left.until = min(left.until, sent + left.known_for)
                raise
            left.reply = reply if left.reply is None else left.reply
            self._client.server.heard(name=key[0])
            # "Stale" can only mean that its owner has settled it, and gone on.
            if self.close(key, left) and left.undoes and isinstance(reply, int) and reply:
                self._client.emit(events.GivenBack(*key))
