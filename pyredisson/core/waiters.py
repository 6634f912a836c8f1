"""What :class:`~pyredisson.core.wakeups.Wakeups` keeps in its tables: channels, benches, seats and lines.

Plain state, changed under the mutex of the tables. Their rules are in ``wakeups.py``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pyredisson.core.listing import Listing
    from pyredisson.core.outcomes import Refused
    from pyredisson.core.runtime import Ticket

#: How many seconds a channel without waiters stays subscribed: the next wait saves a round trip, in both directions.
LINGER = 0.1

#: Seconds after a message until the subscriber checks for such channels: the waiter that it woke has left by then.
LOOK_AFTER_RING = 1.5 * LINGER

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
        every: Seconds after which one look has to be for each of them, whatever was learned meanwhile.
    """

    bench: str
    look: Callable[[Seat], Awaitable[Refused]]
    every: float


class Seat:
    """One waiter on a bench."""

    __slots__ = ("again", "bench", "by_cap", "called", "channel", "rung", "since", "sleeps_until", "ticket", "what")

    def __init__(self, bench: Bench, channel: Channel, ticket: Ticket, what: Any, since: float) -> None:
        self.bench: Bench = bench  # Of its own as long as it sits on it alone.
        self.channel: Channel = channel  # What it hears.
        self.ticket: Ticket = ticket
        self.since: float = since  # When it began to wait.
        self.what: Any = what  # What it waits for, so that others can look on its behalf.
        self.called: bool = False  # It is to look now.
        self.by_cap: bool = False  # It looks because a message may have been lost.
        self.rung: bool = False  # That is why it looks, not for the others.
        self.again: float = math.inf  # When to repeat an attempt of its own that got no answer; for parties.
        self.sleeps_until: float = -math.inf

    def call(self) -> None:
        """Let it look now."""
        self.called = True
        self.ticket.ring()

    def begin(self, now: float) -> None:
        """It is about to look on several channels: that answers what any of them has said, or is due by now."""
        if self.called:
            self.called = self.by_cap = False
            self.rung = True
        if self.bench.soon <= now and self.bench.first() is self:
            self.bench.soon = math.inf


class Bench:
    """The waiters of one channel who all want the same, so that one answer serves them all."""

    __slots__ = (
        "by_cap",
        "channel",
        "kind",
        "listing",
        "look_by",
        "looked",
        "message",
        "newcomers",
        "next_check",
        "party",
        "seats",
        "soon",
        "trouble",
    )

    def __init__(
        self,
        channel: Channel,
        kind: str,
        message: Message,
        party: Party | None = None,
        listing: Listing | None = None,
    ) -> None:
        self.channel: Channel = channel
        self.kind: str = kind
        self.message: Message = message
        self.party: Party | None = party
        self.listing: Listing | None = listing
        if listing is not None:
            listing.bench = self
        self.seats: OrderedDict[Seat, None] = OrderedDict()
        self.next_check: float = 0.0
        self.by_cap: bool = False  # Then, only because a message may have been lost.
        self.trouble: Exception | None = None
        self.soon: float = math.inf  # When another check is wanted, whatever the last one said.
        # Of a party:
        self.looked: float = -math.inf  # When the last look began.
        self.look_by: float = math.inf  # When one has to be for everybody.
        self.newcomers: dict[Seat, None] = {}  # No look was on their behalf yet.

    def is_for(self, channel: str) -> bool:
        """Whether releases are announced on this channel."""
        return channel == (self.channel.name if self.listing is None else self.listing.channel)

    def due(self) -> float:
        """When the first has to look."""
        return min(self.next_check, self.soon, self.look_by)

    def first(self) -> Seat | None:
        """The one who checks."""
        return next(iter(self.seats), None)

    def call(self, how_many: int) -> None:
        """Let the first ``how_many`` look now."""
        left = len(self.seats) if how_many == ALL else how_many
        for seat in self.seats:
            if left <= 0:
                return
            left -= 1
            seat.call()


class Channel:
    """One channel of the server's, as the waiters here see it."""

    __slots__ = ("asked_for", "benches", "confirmed", "error", "idle_since", "line", "name", "rings", "seat")

    def __init__(self, name: str, line: Line, benches: dict[str, Bench] | None = None) -> None:
        self.name: str = name
        self.line: Line = line  # Where it is heard.
        self.benches: dict[str, Bench] = {} if benches is None else benches
        self.seat: Seat | None = None  # Whose own channel it is.
        self.asked_for: bool = False
        self.confirmed: bool = False
        self.rings: int = 0
        self.idle_since: float = math.inf
        self.error: Exception | None = None

    def confirm(self) -> None:
        """From now on its messages come: one of each bench looks."""
        self.confirmed = True
        self.rings += 1
        for bench in self.benches.values():
            bench.call(1 if bench.listing is None else bench.listing.confirmed(self.name))

    def take(self, payload: bytes) -> EarChange | None:
        """Take a message. Returns what it says about ears, if it is about those."""
        self.rings += 1
        if self.seat is not None and self.seat.bench.message(payload):
            self.seat.call()
        for bench in self.benches.values():
            listing = bench.listing
            if listing is None:
                bench.call(bench.message(payload))
            elif (is_ear := listing.appointed(payload)) is not None:
                return EarChange(bench, listing, is_ear)
            else:
                bench.call(listing.heard(self.name, payload))
        return None

    def refuse(self, error: Exception) -> Bench | None:
        """Wake its waiters with the error of a refused subscription. Returns its party's bench unless it had one."""
        self.error = error
        for bench in self.benches.values():
            bench.call(ALL)
        if self.seat is None or self.seat.bench.channel.error is not None:
            return None
        self.seat.bench.channel.error = error
        self.seat.bench.call(ALL)
        return self.seat.bench

    def has(self, kind: str) -> bool:
        """Whether waiters of one kind hear it: it is theirs, or they are ears."""
        return kind in self.benches or _as_ear(kind) in self.benches

    def waited_for(self) -> bool:
        """Whether it has waiters."""
        return self.seat is not None or bool(self.benches)

    def settled(self) -> bool:
        """Whether no confirmation is due: it came, or the first waiter was interrupted before it subscribed."""
        return self.confirmed or not self.asked_for

    def lose_waiter(self, now: float) -> None:
        """Note that it has one waiter less. That can be repeated."""
        if not self.waited_for() and self.name not in self.line.idle:
            self.idle_since = now
            self.line.idle[self.name] = self


class Line:
    """One connection on which messages come, and the channels that are heard there."""

    __slots__ = ("channels", "down", "idle", "looks_at", "rang_at")

    def __init__(self, channels: dict[str, Channel] | None = None) -> None:
        self.channels: dict[str, Channel] = {} if channels is None else channels
        self.idle: dict[str, Channel] = {}  # Those of them without waiters at present.
        self.looks_at: float = math.inf  # When the subscriber looks for idle ones next.
        self.rang_at: float = math.inf  # When a message came of late, after which waiters may leave.
        self.down: Exception | None = None

    def next_look(self, now: float) -> float:
        """When the subscriber has to look for idle channels next, as far as is known."""
        idle = min((each.idle_since for each in self.idle.values() if each.settled()), default=math.inf)
        if self.rang_at + LOOK_AFTER_RING <= now:
            self.rang_at = math.inf
        self.looks_at = min(idle + LINGER, self.rang_at + LOOK_AFTER_RING)
        return self.looks_at

    def looks_soon_after(self, idle_since: float) -> bool:
        """Whether the subscriber looks soon enough for a channel that has just lost its last waiter."""
        return idle_since <= self.looks_at <= idle_since + LOOK_AFTER_RING


#: Of a channel that is one waiter's own.
NO_BENCHES: dict[str, Bench] = {}


class EarChange(NamedTuple):
    """The server says that a client on a list is one of its ears from now on, or is none."""

    bench: Bench
    listing: Listing
    is_ear: bool


def change_ears(channels: dict[str, Channel], line: Line, change: EarChange) -> list[Channel]:
    """Let a bench that has a channel of its own hear what ears hear, or hear it no longer.

    Returns the channels to be subscribed. Those that are not needed any more are left at once: their messages are many.
    """
    bench, listing, is_ear = change
    if not is_ear:
        take_ears(channels, bench, listing, -math.inf)
        return []
    new: list[Channel] = []
    for name in (listing.ears, listing.channel):
        channel = channels.setdefault(name, Channel(name, line))
        channel.benches[_as_ear(bench.kind)] = bench
        channel.idle_since = math.inf
        channel.line.idle.pop(name, None)
        if not channel.asked_for:
            new.append(channel)
    return new


def take_ears(channels: dict[str, Channel], bench: Bench, listing: Listing, now: float) -> None:
    """Let it hear that no longer. That can be repeated."""
    ear = _as_ear(bench.kind)
    for name in (listing.ears, listing.channel):
        channel = channels.get(name)
        if channel is not None:
            if channel.benches.get(ear) is bench:
                del channel.benches[ear]
            channel.lose_waiter(now)


def _as_ear(kind: str) -> str:
    return f"{kind} (ear)"
