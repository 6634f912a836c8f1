"""The one loop that waits.

Attempt; if refused, listen; attempt again unless somebody has listened all along; then sleep until rung, or until the
refusal has run its time; again. A primitive supplies an attempt and a channel, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.failures import Failure, Rejected, Unusable, own_copy
from pyredisson.core.outcomes import Acquired
from pyredisson.core.waiters import Message, Party, Seat

if TYPE_CHECKING:
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.listing import Listing
    from pyredisson.core.outcomes import Answer, Refused
    from pyredisson.core.runtime import Runtime, Ticket
    from pyredisson.core.wakeups import Wakeups

#: After an attempt that got no answer.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


class HeardOn(NamedTuple):
    """A channel on which a release is announced."""

    wakeups: Wakeups  # of the client that hears it
    channel: str
    seen: int | None  # what ``wakeups.glance(channel)`` returned before the first attempt


class PlaceOnList(Protocol):
    """How a waiter keeps its client on the server's list of those who wait; on several servers, on one list each.

    Attributes:
        listings: What its benches have there, one for each channel, if it is the first one on them.
        left: What is to be taken off since the bench has no waiter any more, by the number of the channel.
    """

    listings: Sequence[Listing]
    left: dict[int, str]

    def look(self, seats: Sequence[Seat]) -> Awaitable[Answer]:
        """Attempt as one on the list."""
        ...


async def until_taken(
    attempt: Callable[[], Awaitable[Answer]],
    refused: Refused,
    *,
    runtime: Runtime,
    channels: Sequence[HeardOn],
    lock: str,
    kind: str,
    message: Message,
    deadline: Deadline,
    free_after: float,
    party: Party | None = None,
    place_on_list: PlaceOnList | None = None,
) -> bool:
    """After a first attempt was refused: attempt until it is taken, or until the deadline.

    Args:
        attempt: Asks once. Raises ``Failure`` when the server did not answer.
        refused: What the first attempt returned.
        runtime: The world.
        channels: Where a release is announced. The locks of a quorum have one on each node.
        lock: What is waited for, by its name.
        kind: What is attempted; those who attempt the same on one channel share their answers.
        message: How many waiters a message wakes.
        deadline: When to give up.
        free_after: Seconds after which what this attempt takes could be free again without any message.
        party: With whom it sits, where each waiter has a channel of its own; they attempt when they are rung, and look
            otherwise.
        place_on_list: How it keeps its client on the server's list of those who wait, if there is one.

    Returns:
        Whether it was taken.

    Raises:
        Failure: No attempt got an answer by the deadline.
    """
    if deadline.passed(runtime.now()):
        return False
    place = _Place(channels, runtime.ticket(lock), kind, message, party, attempt, place_on_list)
    taken, failures = False, 0
    # A waiter that is interrupted or cancelled may have been rung: passing on a ring too many does no harm.
    pass_on = True
    try:
        place.sit(_look_in(refused))
        while True:
            over, rung = await place.sleep(deadline, runtime)
            if over and not place.is_deaf():
                pass_on = rung  # At the last moment: the ring goes to the next one.
                return False
            # With the line down no message can have come, so "not free" would be a guess: look once more.
            try:
                answer = await (attempt() if over else place.look(attempt))
            except Failure as failure:
                if over or isinstance(failure, (Rejected, Unusable)):
                    raise
                place.failed(failure, RETRY.pause(failures, runtime.jitter))
                failures += 1
                continue
            if isinstance(answer, Acquired):
                taken, pass_on = True, False
                place.taken()
                return True
            if over:
                return False
            failures = 0
            place.answered(_look_in(answer))
    finally:
        try:
            place.leave(free_after if taken else math.inf, pass_on=pass_on)
        except BaseException:  # Ctrl-C, just now: a seat that is left half would keep the others from theirs.
            place.leave(math.inf, pass_on=True)
            raise


class _Place:
    """The seats of one waiter, one for each channel. Any of them wakes it."""

    def __init__(
        self,
        channels: Sequence[HeardOn],
        ticket: Ticket,
        kind: str,
        message: Message,
        party: Party | None,
        what: object,
        on_list: PlaceOnList | None,
    ) -> None:
        self._on_list = on_list
        self._ticket = ticket
        self._party = party
        if on_list is None:
            seats = [each.wakeups.seat(each.channel, kind, message, party, what, ticket) for each in channels]
        else:
            seats = [
                each.wakeups.seat(each.channel, kind, listing.message, party, what, ticket, listing)
                for each, listing in zip(channels, on_list.listings, strict=True)
            ]
        self._seats = list(zip(channels, seats, strict=True))

    def sit(self, look_in: float) -> None:
        """Join the waiters."""
        for heard, seat in self._seats:
            heard.wakeups.sit(seat, seen=heard.seen, look_in=look_in)
        self._check_open()  # A close() during the first attempt could not wake this waiter.

    def _check_open(self) -> None:
        for heard, _ in self._seats:
            if heard.wakeups.closed is not None:
                raise own_copy(heard.wakeups.closed)

    def _check(self) -> None:
        """Raise an error if the client was closed, or its server lets it hear nothing anywhere."""
        self._check_open()
        error = self._seats[0][1].bench.channel.error
        if error is not None and all(seat.bench.channel.error is not None for _, seat in self._seats):
            raise own_copy(error)

    def is_deaf(self) -> bool:
        """Whether no message can come."""
        return all(seat.channel.line.down is not None for _, seat in self._seats)

    async def sleep(self, deadline: Deadline, runtime: Runtime) -> tuple[bool, bool]:
        """Sleep until it is time to look. Returns whether the deadline has passed, and whether to look in any case."""
        while True:
            now = runtime.now()
            until = self._sleep_until(deadline, now)
            asleep = until > now
            if asleep:
                await self._ticket.wait(until - now)
            self._check()
            if asleep:
                now = runtime.now()
                until = self._sleep_until(deadline, now)
            over = deadline.passed(now)
            trouble = self._seats[0][1].bench.trouble
            if over and trouble is not None:
                raise own_copy(trouble)
            if over or until <= now:
                return over, until == -math.inf

    def _sleep_until(self, deadline: Deadline, now: float) -> float:
        return min([heard.wakeups.sleep_until(seat, deadline.at, now) for heard, seat in self._seats])

    def look(self, attempt: Callable[[], Awaitable[Answer]]) -> Awaitable[Answer]:
        """Attempt; the first of a party that was not rung looks for all of it instead."""
        if self._on_list is not None:
            return self._on_list.look([seat for _, seat in self._seats])
        seat = self._seats[0][1]
        return attempt() if self._party is None or seat.rung else self._party.look(seat)

    def taken(self) -> None:
        """The attempt has succeeded."""
        by_cap = False
        for _, seat in self._seats:
            if seat.rung:
                return
            by_cap = by_cap or seat.by_cap
        if by_cap:
            self._seats[0][0].wakeups.last_resorts += 1

    def answered(self, look_in: float) -> None:
        """An attempt was refused."""
        for heard, seat in self._seats:
            heard.wakeups.answered(seat, look_in)
            if self._on_list is not None:
                seat.by_cap = seat.rung = False

    def failed(self, failure: Failure, retry_in: float) -> None:
        """An attempt got no answer."""
        for heard, seat in self._seats:
            heard.wakeups.failed(seat, failure, retry_in)

    def leave(self, look_in: float, *, pass_on: bool) -> None:
        """Leave all seats. A waiter that is interrupted in here, or on its way, calls it again."""
        for number, (heard, seat) in enumerate(self._seats):
            self._left(number, heard.wakeups.leave(seat, look_in=look_in, pass_on=pass_on))

    def _left(self, number: int, member: str | None) -> None:
        if self._on_list is not None and member is not None:
            self._on_list.left[number] = member


def _look_in(refused: Refused) -> float:
    # One millisecond more: the server's clock has to be past the end, not at it.
    return math.inf if refused.retry_in_ms is None else (refused.retry_in_ms + 1) / 1000
