"""Who waits here for what, and whom a message wakes. Plain tables: nothing in this file blocks.

Rules kept here:

1. Messages may be lost, late or spurious. They only say "look again"; a waiter looks by itself in any case, after the
   time of its last answer or ``Config.max_wait_without_check``, whichever is less.
2. A client checks once for all waiters of one channel and kind (a *bench*). The first on the bench does it; the answer
   serves all. A message rings the first; when it is served it leaves, and its own unlock rings the next.
3. A waiter that leaves a bench with a ring that it did not use passes it on, and with it the duty to check.
4. A subscription that has just been confirmed (also after a reconnect) rings the first of every bench: what was
   published before then was not heard.
5. Waiters who each hear a channel of their own may sit together all the same (a *party*). Then a message rings the one
   whose channel it is, and no ring is passed on: whose turn it is, is the server's to say. The first on the bench
   looks for all, after a confirmation too, and in any case before their time in the server is over (``look_by``). What
   it learns is for all; what one of them learned by an attempt of its own can only make the next look come sooner.
6. Channels are heard on a *line*: the one connection of a client, or on a cluster one for each node. What befalls a
   line concerns its own channels; a channel can move to another line, where it has to be confirmed anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from pyredisson.core.messages import INTERRUPTED
from pyredisson.core.waiters import ALL, LINGER, NO_BENCHES, Bench, Channel, Line, Seat, change_ears, take_ears
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from pyredisson.core.listing import Listing
    from pyredisson.core.names import ListedNames
    from pyredisson.core.runtime import Runtime, Ticket
    from pyredisson.core.waiters import Message, Party

#: Seconds between two looks on behalf of those who sit together, at least: their confirmations come in bursts.
LOOK_APART = 0.05


class Wakeups:
    """The channels of one client, and who waits on each."""

    def __init__(self, runtime: Runtime, max_wait_without_check: float) -> None:
        self._runtime = runtime
        self._cap = max_wait_without_check
        self.mutex: AbstractContextManager[Any] = runtime.mutex()
        self._channels: dict[str, Channel] = {}
        self._parties: dict[str, Bench] = {}
        #: The only line, unless there are several: then that of the channels that have not been given one yet.
        self.line: Line = Line(self._channels)
        self.closed: Exception | None = None
        #: For the benches that are on a list in the server.
        self.bench_numbers: Iterator[int] = itertools.count(1)
        self.may_list: bool = True  # Whether the server lets this client use such lists, as far as is known.
        #: How many waits were ended by a look that only the lack of a message had caused.
        self.last_resorts: int = 0

    def list_keys(self, names: ListedNames) -> tuple[str, ...]:
        """Return the key of the list of the clients that wait, for a script that can do without; none if it has to."""
        return (names.waiting,) if self.may_list else ()

    # ---- for waiters ---------------------------------------------------------------------------------------------

    def glance(self, channel: str) -> int | None:
        """The number of rings heard so far, ``None`` without a subscription. To be called before an attempt."""
        entry = self._channels.get(channel)
        return entry.rings if entry is not None and entry.confirmed else None

    def seat(
        self,
        channel: str,
        kind: str,
        message: Message,
        party: Party | None = None,
        what: object = None,
        ticket: Ticket | None = None,
        listing: Listing | None = None,
    ) -> Seat:
        """A seat to be taken by :meth:`sit`, and left by :meth:`leave` whatever becomes of that."""
        known = self._parties.get(party.bench) if party is not None else None
        heard = Channel(channel, self.line) if party is None else Channel(channel, self.line, NO_BENCHES)
        bench = known or Bench(
            heard if party is None else Channel(party.bench, self.line), kind, message, party, listing
        )
        return Seat(bench, heard, ticket or self._runtime.ticket(), what, self._runtime.now())

    def sit(self, seat: Seat, *, seen: int | None, look_in: float) -> None:
        """Join the waiters, after an attempt that was refused and before which :meth:`glance` gave ``seen``.

        ``look_in`` is the number of seconds after which the refusal is worth another attempt.

        Raises:
            LockError: A signal handler would wait for what the call that it interrupted keeps from others meanwhile.
        """
        if self._runtime.inside(self.mutex):
            raise LockError(INTERRUPTED)
        with self.mutex:
            entry = seat.channel = self._channels.setdefault(seat.channel.name, seat.channel)
            party = seat.bench.party
            if party is None:
                bench = seat.bench = entry.benches.setdefault(seat.bench.kind, seat.bench)
                bench.channel = entry
                alone = not bench.seats
            else:
                bench = seat.bench = self._parties.setdefault(party.bench, seat.bench)
                entry.seat = seat
                bench.newcomers[seat] = None
                alone = True
                if not bench.seats:
                    bench.look_by = self._runtime.now() + party.every
            # Its own refusal says nothing of the others of a party, nor whether the client is on the server's list.
            self._expect(bench, look_in, also=bool(bench.seats) and (party is not None or bench.listing is not None))
            bench.seats[seat] = None
            entry.idle_since = math.inf
            entry.line.idle.pop(entry.name, None)
            # A release between the attempt and now has rung no waiter, unless one sat here all the time. Where the
            # channel is not confirmed yet, its confirmation will ring.
            if alone and entry.confirmed and seen != entry.rings:
                seat.called = True
        if not entry.asked_for:
            self._runtime.subscribe(entry.name)
            entry.asked_for = True  # Last: a waiter that is interrupted before leaves it to the next one.

    def sleep_until(self, seat: Seat, deadline: float, now: float) -> float:
        """Until when this waiter may sleep unless it is rung. In the past: it has to look now."""
        with self.mutex:
            if seat.called or seat.again <= now:
                seat.called = seat.by_cap = False
                seat.rung = True
                seat.again = math.inf
                return -math.inf
            bench = seat.bench
            if bench.first() is seat:
                due = bench.due()
                if due <= now:
                    seat.rung = False
                    seat.by_cap = bench.by_cap and due == bench.next_check
                    bench.soon = math.inf
                    bench.looked = now
                    return -math.inf
                seat.sleeps_until = min(due, seat.again, deadline)
            else:
                # Not for checking, but so that a newcomer to the front need not be woken to set its alarm.
                seat.sleeps_until = min(now + self._cap, seat.again, deadline)
            return seat.sleeps_until

    def to_look_after(self, seat: Seat) -> tuple[list[Seat], bool]:
        """On whose behalf the first of a party looks now, and whether that is everybody.

        It is, if their time has come; else the first itself, and those who sat down since the last look.
        """
        with self.mutex:
            bench = seat.bench
            newcomers = {seat: None, **bench.newcomers}
            bench.newcomers.clear()
            everybody = bench.look_by <= self._runtime.now()
            return list(bench.seats if everybody else newcomers), everybody

    def look_after_all(self, seat: Seat, within: float) -> None:
        """The next look on behalf of everybody is due ``within`` seconds."""
        with self.mutex:
            seat.bench.look_by = self._runtime.now() + within

    def call(self, channel: str) -> None:
        """Let the one whose own channel this is look now, if there is one."""
        with self.mutex:
            entry = self._channels.get(channel)
            if entry is not None and entry.seat is not None:
                entry.seat.call()

    def answered(self, seat: Seat, look_in: float) -> None:
        """An attempt was refused: the answer serves everyone on the bench."""
        with self.mutex:
            seat.bench.trouble = None
            self._expect(seat.bench, look_in, also=seat.bench.party is not None and seat.rung)

    def failed(self, seat: Seat, error: Exception, retry_in: float) -> None:
        """An attempt got no answer."""
        with self.mutex:
            seat.bench.trouble = error
            if seat.bench.party is not None and seat.rung:
                seat.again = self._runtime.now() + retry_in  # The others do not know its outcome.
            else:
                self._expect(seat.bench, retry_in)
                seat.bench.look_by = max(seat.bench.look_by, seat.bench.next_check)

    def hint(self, channel: str, kind: str, look_in: float, how_many: int = 1) -> None:
        """An attempt of this kind may succeed in ``look_in`` seconds. If that is now, let ``how_many`` waiters look."""
        with self.mutex:
            entry = self._channels.get(channel)
            bench = entry.benches.get(kind) if entry is not None else None
            first = bench.first() if bench is not None else None
            if bench is None or first is None:
                return
            if look_in <= 0:
                bench.call(how_many)
            elif (due := self._runtime.now() + look_in) < bench.next_check:
                bench.next_check, bench.by_cap = due, False
                if due < first.sleeps_until:
                    first.ticket.ring()  # To set its alarm anew.

    def leave(self, seat: Seat, *, look_in: float, pass_on: bool) -> str | None:
        """Leave the bench. ``look_in`` says when the next one should check, as far as the leaver knows.

        ``pass_on`` rings the next one, as if the message that the leaver may have had were its. A waiter that is
        interrupted in here calls it again. Returns what is to be taken off the server's list of those who wait.
        """
        bench = seat.bench
        channel = seat.channel
        together = seat.bench.party is not None
        benches = self._parties if together else channel.benches
        listing = bench.listing
        with self.mutex:
            was_first = bench.first() is seat
            bench.seats.pop(seat, None)
            bench.newcomers.pop(seat, None)
            following = bench.first()
            if following is None:
                key = bench.channel.name if together else bench.kind
                if benches.get(key) is bench:
                    del benches[key]
                if listing is not None:
                    take_ears(self._channels, bench, listing, listing.ears_idle_since(self._runtime.now()))
            else:
                if was_first and look_in < math.inf:
                    self._expect(bench, look_in, also=together)
                if together and was_first and pass_on:
                    bench.soon = -math.inf  # It may have been looking.
                if not together and (pass_on or seat.called or (listing is not None and listing.unlisted)):
                    following.call()
                elif was_first and bench.due() < following.sleeps_until:
                    following.ticket.ring()  # To set its alarm anew: the duty to check is its own now.
            if channel.seat is seat:
                channel.seat = None
            idle = not channel.waited_for()
            if self._channels.get(channel.name) is channel:
                channel.lose_waiter(self._runtime.now())
        # Unless the subscriber looks in time anyway: to wake it at every hand-over costs more than all else here.
        if idle and not channel.line.looks_soon_after(channel.idle_since):
            self._runtime.unsubscribe(channel.name)
        return listing.member if following is None and listing is not None and listing.maybe_listed else None

    def _expect(self, bench: Bench, look_in: float, *, also: bool = False) -> None:
        """Set the next check. ``also``: one learned that for itself, and the check of the others stays as it is."""
        due = self._runtime.now() + min(look_in, self._cap)
        if not also:
            bench.next_check = due
            bench.by_cap = look_in > self._cap
        elif due < bench.next_check:
            bench.next_check, bench.by_cap = due, False
            first = bench.first()
            if first is not None and due < first.sleeps_until:
                first.ticket.ring()  # To set its alarm anew.

    # ---- for the subscriber, or on a cluster for each ------------------------------------------------------------

    def wanted(self, line: Line | None = None) -> list[str]:
        """Every channel to be subscribed, or those on one line."""
        with self.mutex:
            return list(self._channels if line is None else line.channels)

    def unconfirmed(self, line: Line) -> list[str]:
        """Those on a line whose messages do not come yet, or no more."""
        with self.mutex:
            return [name for name, entry in line.channels.items() if not entry.confirmed]

    def line_of(self, channel: str) -> Line:
        """Where a channel is heard."""
        entry = self._channels.get(channel)
        return self.line if entry is None else entry.line

    def move(self, channel: str, line: Line) -> Line | None:
        """From now on a channel is heard on this line. Returns the one that it leaves, ``None`` if there is none."""
        with self.mutex:
            entry = self._channels.get(channel)
            if entry is None or entry.line is line:
                return None
            former = entry.line
            if former is not self.line:  # Which has them all, always.
                del former.channels[channel]
            line.channels[channel] = entry
            if former.idle.pop(channel, None) is not None:
                line.idle[channel] = entry
            entry.line = line
            entry.confirmed = False
            return former

    def confirmed(self, channel: str, line: Line | None = None) -> None:
        """From now on this channel's messages come."""
        line = line or self.line
        with self.mutex:
            line.down = None
            entry = self._channels.get(channel)
            if entry is None or entry.line is not line:
                return
            entry.confirm()
            if entry.seat is not None:
                self._look_soon(entry.seat.bench)

    def _look_soon(self, bench: Bench) -> None:
        bench.soon = min(bench.soon, max(self._runtime.now(), bench.looked + LOOK_APART))
        first = bench.first()
        if first is not None and bench.soon < first.sleeps_until:
            first.ticket.ring()

    def rang(self, channel: str, payload: bytes, line: Line | None = None) -> None:
        """Take a message."""
        with self.mutex:
            entry = self._channels.get(channel)
            if entry is None or entry.line is not (line or self.line):
                return
            entry.line.rang_at = self._runtime.now()
            change = entry.take(payload)
            new = [] if change is None else change_ears(self._channels, self.line, change)
        for each in new:
            self._runtime.subscribe(each.name)
            each.asked_for = True

    def dropped(self, channel: str, line: Line) -> bool:
        """The server sends this channel's messages no longer. Returns whether it did, and they are still wanted."""
        with self.mutex:
            entry = line.channels.get(channel)
            if entry is None or not entry.confirmed:
                return False
            entry.confirmed = False
            return True

    def lost_connection(self, error: Exception, line: Line | None = None) -> None:
        """No messages come on this line until each of its channels is confirmed again."""
        line = line or self.line
        with self.mutex:
            line.down = error
            for entry in line.channels.values():
                entry.confirmed = False

    def take_idle(self, now: float, line: Line | None = None) -> list[str]:
        """Forget the channels that had no waiters of late, and return them."""
        line = line or self.line
        if not line.idle:  # After most messages, when those who are woken need what this thread keeps.
            return []
        with self.mutex:
            # Not before a confirmation that is due: it could be taken for that of a later subscription.
            gone = [entry.name for entry in line.idle.values() if entry.idle_since + LINGER <= now and entry.settled()]
            for name in gone:
                del line.idle[name], line.channels[name]
                self._channels.pop(name, None)
            return gone

    def idle_due(self, line: Line | None = None) -> float:
        """When :meth:`take_idle` will find something next, as far as is known."""
        line = line or self.line
        with self.mutex:
            return line.next_look(self._runtime.now())

    def refuse(self, error: Exception, line: Line | None = None, channels: Container[str] | None = None) -> None:
        """The server refuses a subscription to these channels of a line (``None``: to all): those who wait hear why."""
        line = line or self.line
        with self.mutex:
            for name, entry in list(line.channels.items()):
                if channels is not None and name not in channels:
                    continue
                party = entry.refuse(error)
                if party is not None:
                    self._parties.pop(party.channel.name, None)
                # The next one who waits shall try again.
                self._channels.pop(name, None)
                line.channels.pop(name, None)
                line.idle.pop(name, None)

    def close(self, error: Exception) -> None:
        """Wake everybody with an error, now and for ever."""
        with self.mutex:
            self.closed = error
            for entry in self._channels.values():
                for bench in entry.benches.values():
                    bench.call(ALL)
            for bench in self._parties.values():
                bench.call(ALL)

    # ---- for those who look on -----------------------------------------------------------------------------------

    def waiting(self, channel: str, kind: str | None = None) -> int:
        """How many wait here for what a channel announces (or one kind of it), or for what a party has in common."""
        with self.mutex:
            party = self._parties.get(channel)
            benches = {bench for each in self._channels.values() for bench in each.benches.values()}
            count = sum(len(each.seats) for each in benches if each.is_for(channel) and kind in (None, each.kind))
            return count + (len(party.seats) if party is not None else 0)

    def anybody(self, channel: str, kind: str) -> bool:
        """Whether anybody waits here for that kind. A glance, for those who must not block, or are asked in here."""
        entry = self._channels.get(channel)
        return entry is not None and entry.has(kind)
