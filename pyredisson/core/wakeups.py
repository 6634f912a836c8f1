"""Who waits here for what, and whom a message wakes. Plain tables: nothing in this file blocks.

Rules kept here:

1. Messages may be lost, late or spurious. They only say "look again"; a waiter looks by itself in any case, after the
   time it was told or ``Config.max_wait_without_check``, whichever is less.
2. A client checks once for all waiters of one channel and kind (a *bench*). The first on the bench does it; the answer
   serves all. A message rings the first; when it is served it leaves, and its own unlock rings the next.
3. Whoever leaves a bench with a ring that it did not use passes it on, and with it the duty to check.
4. A subscription that has just been confirmed (also after a reconnect) rings the first of every bench: what was
   published before then reached nobody.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyredisson.core.runtime import Runtime, Ticket

__all__ = ["ALL", "Bench", "Message", "Seat", "Wakeups", "lock_message"]

ALL = -1
"""As a number of waiters to wake."""

#: How long a channel without waiters stays subscribed: the next wait saves a round trip, in both directions.
LINGER = 0.1

Message: TypeAlias = Callable[[bytes], int]
"""How many waiters a message wakes."""


def lock_message(payload: bytes) -> int:
    """``0``: unlocked, one waiter may try. ``1``: a write lock ended, all may. Anything else is not for us."""
    return {b"0": 1, b"1": ALL}.get(payload, 0)


class Seat:
    """One waiter on a bench."""

    __slots__ = ("bench", "called", "sleeps_until", "ticket")

    def __init__(self, bench: Bench, ticket: Ticket) -> None:
        self.bench = bench  # Of its own as long as nobody sits on it.
        self.ticket = ticket
        self.called = False  # told to look now
        self.sleeps_until = -math.inf


class Bench:
    """The waiters of one channel who all want the same, so that one answer serves them all."""

    __slots__ = ("channel", "kind", "message", "next_check", "seats", "trouble")

    def __init__(self, channel: Channel, kind: str, message: Message) -> None:
        self.channel = channel
        self.kind = kind
        self.message = message
        self.seats: OrderedDict[Seat, None] = OrderedDict()
        self.next_check = 0.0
        self.trouble: Exception | None = None

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
            seat.called = True
            seat.ticket.ring()


class Channel:
    """One channel of the server's, as the waiters here see it."""

    __slots__ = ("asked_for", "benches", "confirmed", "error", "idle_since", "name", "rings")

    def __init__(self, name: str) -> None:
        self.name = name
        self.benches: dict[str, Bench] = {}
        self.asked_for = False
        self.confirmed = False
        self.rings = 0
        self.idle_since = math.inf
        self.error: Exception | None = None

    def waited_for(self) -> bool:
        """Whether anybody sits here."""
        return any(bench.seats for bench in self.benches.values())


class Wakeups:
    """The channels of one client, and who waits on each."""

    def __init__(self, runtime: Runtime, max_wait_without_check: float) -> None:
        self._runtime = runtime
        self._cap = max_wait_without_check
        self._mutex = runtime.mutex()
        self._channels: dict[str, Channel] = {}
        self.down: Exception | None = None
        self.closed: Exception | None = None

    # ---- for waiters ---------------------------------------------------------------------------------------------

    def glance(self, channel: str) -> int | None:
        """The number of rings heard so far, or ``None`` if nobody listens yet. To be taken before an attempt."""
        entry = self._channels.get(channel)
        return entry.rings if entry is not None and entry.confirmed else None

    def seat(self, channel: str, kind: str, message: Message) -> Seat:
        """A seat to be taken by :meth:`sit`, and left by :meth:`leave` whatever becomes of that."""
        return Seat(Bench(Channel(channel), kind, message), self._runtime.ticket())

    def sit(self, seat: Seat, *, seen: int | None, look_in: float) -> None:
        """Join the waiters, after an attempt that was refused and before which :meth:`glance` gave ``seen``.

        ``look_in`` is the number of seconds after which the refusal is worth another attempt.
        """
        with self._mutex:
            channel = seat.bench.channel
            entry = self._channels.setdefault(channel.name, channel)
            bench = seat.bench = entry.benches.setdefault(seat.bench.kind, seat.bench)
            bench.channel = entry
            alone = not bench.seats
            bench.seats[seat] = None
            entry.idle_since = math.inf
            self._expect(bench, look_in)
            # A release between the attempt and now has rung nobody, unless somebody sat here all the time. Where the
            # channel is not confirmed yet, its confirmation will ring.
            if alone and entry.confirmed and seen != entry.rings:
                seat.called = True
        if not entry.asked_for:
            self._runtime.subscribe(entry.name)
            entry.asked_for = True  # Last: whoever is interrupted before leaves it to the next one.

    def sleep_until(self, seat: Seat, deadline: float, now: float) -> float:
        """Until when this waiter may sleep unless it is rung. In the past: it has to look now."""
        with self._mutex:
            if seat.called:
                seat.called = False
                return -math.inf
            bench = seat.bench
            if bench.first() is seat:
                if bench.next_check <= now:
                    return -math.inf
                seat.sleeps_until = min(bench.next_check, deadline)
            else:
                # Not for checking, but so that a newcomer to the front need not be woken to set its alarm.
                seat.sleeps_until = min(now + self._cap, deadline)
            return seat.sleeps_until

    def answered(self, seat: Seat, look_in: float) -> None:
        """An attempt was refused: the answer serves everyone on the bench."""
        with self._mutex:
            seat.bench.trouble = None
            self._expect(seat.bench, look_in)

    def failed(self, seat: Seat, error: Exception, retry_in: float) -> None:
        """An attempt got no answer."""
        with self._mutex:
            seat.bench.trouble = error
            self._expect(seat.bench, retry_in)

    def hint(self, channel: str, kind: str, look_in: float, how_many: int = 1) -> None:
        """An attempt of this kind may succeed in so many seconds. If that is now, so many waiters look at once."""
        with self._mutex:
            entry = self._channels.get(channel)
            bench = entry.benches.get(kind) if entry is not None else None
            first = bench.first() if bench is not None else None
            if bench is None or first is None:
                return
            if look_in <= 0:
                bench.call(how_many)
            elif (due := self._runtime.now() + look_in) < bench.next_check:
                bench.next_check = due
                if due < first.sleeps_until:
                    first.ticket.ring()  # To set its alarm anew.

    def leave(self, seat: Seat, *, look_in: float, pass_on: bool) -> None:
        """Leave the bench. ``look_in`` says when the next one should check, as far as the leaver knows.

        ``pass_on`` rings the next one, as if the message that the leaver may have had were its. Whoever is interrupted
        in here calls it again.
        """
        bench = seat.bench
        channel = bench.channel
        with self._mutex:
            was_first = bench.first() is seat
            bench.seats.pop(seat, None)
            following = bench.first()
            if following is None:
                if channel.benches.get(bench.kind) is bench:
                    del channel.benches[bench.kind]
                if not channel.benches:
                    channel.idle_since = self._runtime.now()
            else:
                if was_first and look_in < math.inf:
                    self._expect(bench, look_in)
                if pass_on or seat.called:
                    following.called = True
                    following.ticket.ring()
                elif was_first and bench.next_check < following.sleeps_until:
                    following.ticket.ring()  # To set its alarm anew: the duty to check is its own now.
            idle = not channel.benches
        if idle:
            self._runtime.unsubscribe(channel.name)

    def _expect(self, bench: Bench, look_in: float) -> None:
        bench.next_check = self._runtime.now() + min(look_in, self._cap)

    # ---- for the subscriber --------------------------------------------------------------------------------------

    def wanted(self) -> list[str]:
        """Every channel to be subscribed."""
        with self._mutex:
            return list(self._channels)

    def confirmed(self, channel: str) -> None:
        """From now on this channel's messages come."""
        with self._mutex:
            self.down = None
            entry = self._channels.get(channel)
            if entry is None:
                return
            entry.confirmed = True
            entry.rings += 1
            for bench in entry.benches.values():
                bench.call(1)

    def rang(self, channel: str, payload: bytes) -> None:
        """A message came."""
        with self._mutex:
            entry = self._channels.get(channel)
            if entry is None:
                return
            entry.rings += 1
            for bench in entry.benches.values():
                bench.call(bench.message(payload))

    def lost_connection(self, error: Exception) -> None:
        """No messages come until each channel is confirmed again."""
        with self._mutex:
            self.down = error
            for entry in self._channels.values():
                entry.confirmed = False

    def take_idle(self, now: float) -> list[str]:
        """Forget the channels that nobody has waited for of late, and return them."""
        with self._mutex:
            # Only confirmed ones: else a confirmation could be taken for that of a later subscription.
            gone = [
                entry.name for entry in self._channels.values() if entry.idle_since + LINGER <= now and entry.confirmed
            ]
            for name in gone:
                del self._channels[name]
            return gone

    def idle_due(self) -> float:
        """When :meth:`take_idle` will find something next, as far as is known."""
        with self._mutex:
            return LINGER + min(
                (entry.idle_since for entry in self._channels.values() if entry.confirmed), default=math.inf
            )

    def refuse(self, error: Exception) -> None:
        """The server lets us subscribe to nothing: everybody who waits is told why."""
        with self._mutex:
            for entry in self._channels.values():
                entry.error = error
                for bench in entry.benches.values():
                    bench.call(ALL)
            # The next one who waits shall try again.
            for entry in list(self._channels.values()):
                del self._channels[entry.name]

    def close(self, error: Exception) -> None:
        """Wake everybody with an error, now and for ever."""
        with self._mutex:
            self.closed = error
            for entry in self._channels.values():
                for bench in entry.benches.values():
                    bench.call(ALL)

    # ---- for those who look on -----------------------------------------------------------------------------------

    def waiting(self, channel: str, kind: str | None = None) -> int:
        """How many wait here for a channel, or for one kind of it."""
        with self._mutex:
            entry = self._channels.get(channel)
            benches = entry.benches.values() if entry is not None else ()
            return sum(len(bench.seats) for bench in benches if kind in (None, bench.kind))

    def anybody(self, channel: str, kind: str) -> bool:
        """Whether anybody waits here for that kind. A glance, for those who must not block, or are asked in here."""
        entry = self._channels.get(channel)
        return entry is not None and kind in entry.benches
