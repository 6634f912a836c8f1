"""What :class:`~pyredisson.core.wakeups.Wakeups` keeps in its tables: channels, benches, seats and lines.

Plain state, changed under the mutex of the tables. Their rules are in ``wakeups.py``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pyredisson.core.outcomes import Refused
    from pyredisson.core.runtime import Ticket

__all__ = ["ALL", "NO_BENCHES", "Bench", "Channel", "Line", "Message", "Party", "Seat", "lock_message"]

ALL = -1
"""As a number of waiters to wake."""

Message: TypeAlias = Callable[[bytes], int]
"""How many waiters a message wakes."""


def lock_message(payload: bytes) -> int:
    """``0``: unlocked, one waiter may try. ``1``: a write lock ended, all may. Anything else is not for us."""
    return {b"0": 1, b"1": ALL}.get(payload, 0)


class Party(NamedTuple):
    """Those who sit together although each hears a channel of its own.

    Attributes:
        bench: What they have in common.
        look: Looks on behalf of all. What it returns says for how long there is nothing to look for.
        every: Seconds after which one look has to be for each of them, whatever was told meanwhile.
    """

    bench: str
    look: Callable[[Seat], Awaitable[Refused]]
    every: float


@dataclass(slots=True, eq=False, repr=False)
class Seat:
    """One waiter on a bench."""

    bench: Bench  # Of its own as long as it sits on it alone.
    channel: Channel  # What it hears.
    ticket: Ticket
    what: Any  # What it waits for, so that others can look on its behalf.
    called: bool = False  # It is to look now.
    rung: bool = False  # That is why it looks, not for the others.
    again: float = math.inf  # When to repeat an attempt of its own that got no answer; for parties.
    sleeps_until: float = -math.inf

    def call(self) -> None:
        """Let it look now."""
        self.called = True
        self.ticket.ring()


@dataclass(slots=True, eq=False, repr=False)
class Bench:
    """The waiters of one channel who all want the same, so that one answer serves them all."""

    channel: Channel
    kind: str
    message: Message
    party: Party | None = None
    seats: OrderedDict[Seat, None] = field(default_factory=OrderedDict)
    next_check: float = 0.0
    trouble: Exception | None = None
    # Of a party:
    looked: float = -math.inf  # When the last look began.
    soon: float = math.inf  # When another one is wanted, whatever the last one says.
    look_by: float = math.inf  # When one has to be for everybody.
    newcomers: dict[Seat, None] = field(default_factory=dict)  # No look was on their behalf yet.

    def due(self) -> float:
        """When the first has to look."""
        return min(self.next_check, self.soon, self.look_by)

    def first(self) -> Seat | None:
        """The one who checks."""
        return next(iter(self.seats), None)

    def call(self, how_many: int) -> None:
        """Let the first so many look now."""
        left = len(self.seats) if how_many == ALL else how_many
        for seat in self.seats:
            if left <= 0:
                return
            left -= 1
            seat.call()


@dataclass(slots=True, eq=False, repr=False)
class Channel:
    """One channel of the server's, as the waiters here see it."""

    name: str
    line: Line  # Where it is heard.
    benches: dict[str, Bench] = field(default_factory=dict)
    seat: Seat | None = None  # Whose own channel it is.
    asked_for: bool = False
    confirmed: bool = False
    rings: int = 0
    idle_since: float = math.inf
    error: Exception | None = None

    def waited_for(self) -> bool:
        """Whether it has waiters."""
        return self.seat is not None or bool(self.benches)


@dataclass(slots=True, eq=False, repr=False)
class Line:
    """One connection on which messages come, and the channels that are heard there."""

    channels: dict[str, Channel] = field(default_factory=dict)
    idle: dict[str, Channel] = field(default_factory=dict)  # Those of them without waiters at present.
    looks_at: float = math.inf  # When the subscriber looks for idle ones next.
    down: Exception | None = None


#: Of a channel that is one waiter's own.
NO_BENCHES: dict[str, Bench] = {}
