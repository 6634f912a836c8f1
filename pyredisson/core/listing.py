"""A place on the server's list of the clients that wait for a lock, so that a release wakes one of them, not all.

Rules kept here:

1. A client that waits is on the list once, with the time since which the first waiter of its bench waits. Its attempts
   put it there, which it makes only while it listens to its *own channel*. A release takes the first client off the
   list and sends it ``go`` there; if it finds the lock taken, its attempt puts it back at its place.
2. Two of the clients on the list, the *ears*, listen to the channel of the lock as well: releases by Redisson, and by
   earlier versions of this library, are announced only there. The server sends ``ear`` to the newest clients, or
   ``only`` if there is no other ear: then the client attempts as soon as it listens. A client that was notified in vain
   replaces one of them, which receives ``off``. A release sends a client that is alone on the list the usual message,
   and leaves it there.
3. On a channel of their own the ears receive ``2`` before the usual message of a release if a client on the list was
   notified; then the usual one does not concern them, nor the notified client. (``4``: no other message follows.)
   Unless they receive ``3``, which says that this client has acquired, they attempt after :data:`BACKUP`.
4. When its last waiter leaves, the client is taken off the list. Each bench has another number, so that a late request
   concerns no later bench.
5. Of permits, as many clients are notified as there are permits for. The first client on the list receives ``in`` and a
   number of milliseconds if permits that are taken expire then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyredisson.core.runtime import PUBLISH

if TYPE_CHECKING:
    from pyredisson.core.runtime import Ticket

#: Seconds that a notified client has for its attempt, before others attempt.
BACKUP = 0.2


class Waiter(Protocol):
    """A waiter, as far as it matters here; see ``Seat``."""

    since: float
    sleeps_until: float
    ticket: Ticket


class Waiters(Protocol):
    """Waiters that share the server's answers; see ``Bench``."""

    soon: float

    @property
    def seats(self) -> Collection[Waiter]:
        """The waiters, the first one first."""
        ...

    def first(self) -> Waiter | None:
        """The first one."""
        ...


class Look(NamedTuple):
    """What an attempt says about the list.

    Attributes:
        number: The number of the bench's attempt.
        member: The client's member of the list.
        waited_ms: For how long the client waits.
        rest_ms: For how long it waits if the attempt succeeds; -1: no longer.
        chosen: Whether it was notified that it is its turn.
    """

    number: int
    member: str
    waited_ms: int
    rest_ms: int
    chosen: bool

    def args(self, max_wait_without_check: float) -> tuple[str | int, ...]:
        """Return the arguments by which an attempt keeps the list; see lua/shared/wait.lua."""
        kept_ms = int(3000 * max_wait_without_check)
        return self.member, self.waited_ms, self.rest_ms, int(self.chosen), kept_ms, PUBLISH


class Listing:
    """The place of one bench on the server's list. Plain state, changed under the mutex of the client's tables.

    Args:
        member: The member of the list: the client's id, and the number of the bench.
        channel: The channel of the lock.
        ears: The channel of the ears.
        usual: How many waiters a message on the channel of the lock wakes.
        now: The time.
        turn: How many waiters attempt when the client is notified that it is its turn.
    """

    __slots__ = (
        "_answered",
        "_crowded",
        "_expires",
        "_now",
        "_only_ear",
        "_turn",
        "_usual",
        "bench",
        "channel",
        "chosen",
        "ears",
        "given_back",
        "looks",
        "maybe_listed",
        "member",
        "unlisted",
    )

    def __init__(
        self,
        member: str,
        channel: str,
        ears: str,
        usual: Callable[[bytes], int],
        now: Callable[[], float],
        turn: int = 1,
    ) -> None:
        self.member: str = member
        self.channel: str = channel
        self.ears: str = ears
        self.bench: Waiters | None = None
        self.chosen: bool = False
        self.looks: int = 0
        self.maybe_listed: bool = False
        self.unlisted: bool = False  # An attempt has just taken the client off the list.
        self.given_back: bool = False  # The same, and it was released at once; see quorum/listed.py.
        self._answered: bool = False  # The next usual message is of a release that notified a client of the list.
        self._crowded: bool = False  # The last look was that of one of several clients.
        self._only_ear: bool = False
        self._expires: float = math.inf  # When a permit does.
        self._usual = usual
        self._now = now
        self._turn = turn

    def message(self, payload: bytes) -> int:
        """Process a message for clients on the list. Return how many waiters it wakes."""
        match payload:
            case b"go":
                self.chosen = self._answered = True
                return self._turn
            case _ if self.given_back:
                self._answered = False
            case b"2" | b"4":
                self._answered = payload == b"2"
                self._look_after(BACKUP)
            case b"3":
                self._answered = False
                self._look_after(math.inf)
            case _ if payload.startswith(b"in "):
                self._look_within(payload)
        return 0

    def heard(self, channel: str, payload: bytes) -> int:
        """Process a message on one of the channels: that of the lock has messages of its own."""
        if channel != self.channel:
            return self.message(payload)
        if self._answered or self.given_back:
            self._answered = False
            return 0
        return self._usual(payload)

    def appointed(self, payload: bytes) -> bool | None:
        """Return whether a message says that the client is an ear from now on, or is none (``False``)."""
        match payload:
            case b"ear" | b"only":
                self._only_ear = payload == b"only"
                return True
            case b"off":
                self._answered = False
                self._look_after(math.inf)
                return False
        return None

    def confirmed(self, channel: str) -> int:
        """Note that messages arrive on this channel from now on. Return how many waiters attempt now."""
        self._answered = False
        if channel == self.ears:
            return 0  # The channel of the lock is confirmed later.
        if channel != self.channel or self._only_ear:
            return 1
        # The other ear received earlier messages. If it did not, this one was appointed since both do not answer.
        self._look_after(BACKUP)
        return 0

    def _look_after(self, seconds: float) -> None:
        bench = self.bench
        first = bench.first() if bench is not None else None
        if bench is not None and first is not None:
            bench.soon = min(self._now() + seconds, self._expires)
            # A later alarm is set when the earlier one has gone off.
            if bench.soon < first.sleeps_until:
                first.ticket.ring()

    def _look_within(self, payload: bytes) -> None:
        try:
            seconds = (int(payload[3:]) + 1) / 1000  # The server's clock has to be past the end, not at it.
        except ValueError:
            return
        self._expires = self._now() + seconds
        self._look_after(math.inf if self.bench is None else self.bench.soon - self._now())

    def begin_look(self, seat: Waiter) -> Look:
        """Return the look of a waiter that is about to attempt."""
        assert self.bench is not None
        seats = self.bench.seats
        self.looks += 1
        self._expires = math.inf
        self.maybe_listed = True
        self.unlisted = self.given_back = False
        chosen, self.chosen = self.chosen, False
        self._crowded = chosen
        self._answered = self._answered and not chosen  # It may have been no ear.
        now = self._now()
        rest = next((each for each in seats if each is not seat), None)
        since = seat.since if rest is None else min(seat.since, rest.since)
        rest_ms = -1 if rest is None else _whole_ms(now - rest.since)
        return Look(self.looks, self.member, _whole_ms(now - since), rest_ms, chosen)

    def ears_idle_since(self, now: float) -> float:
        """Return since when the channels of the ears are not needed any more, if they are not from now on.

        A client that has acquired among others hears its own releases there, each time: it leaves them at the next one.
        """
        return -math.inf if self._crowded else now

    def acquired(self, look: Look) -> None:
        """Note that this attempt has succeeded."""
        if look.rest_ms < 0 and look.number == self.looks:
            self.maybe_listed = False
            self.unlisted = True


def _whole_ms(seconds: float) -> int:
    return max(0, int(1000 * seconds))
