"""The one loop that waits.

Attempt; if refused, listen; attempt again unless somebody has listened all along; then sleep until rung, or until the
refusal has run its time; again. A primitive supplies an attempt and a channel, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.failures import Failure, Rejected, Unusable
from pyredisson.core.outcomes import Acquired
from pyredisson.core.waiters import Message, Party, Seat

if TYPE_CHECKING:
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.outcomes import Answer, Refused
    from pyredisson.core.runtime import Runtime
    from pyredisson.core.wakeups import Wakeups

__all__ = ["until_taken"]

#: After an attempt that got no answer.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


async def until_taken(
    attempt: Callable[[], Awaitable[Answer]],
    refused: Refused,
    *,
    runtime: Runtime,
    wakeups: Wakeups,
    lock: str,
    channel: str,
    kind: str,
    message: Message,
    seen: int | None,
    deadline: Deadline,
    free_after: float,
    party: Party | None = None,
) -> bool:
    """After a first attempt was refused: attempt until it is taken, or until the deadline.

    Args:
        attempt: Asks once. Raises ``Failure`` when the server did not answer.
        refused: What the first attempt returned.
        runtime: The world.
        wakeups: Who waits here.
        lock: What is waited for, by its name.
        channel: Where a release is announced.
        kind: What is attempted; those who attempt the same on one channel share their answers.
        message: How many waiters a message wakes.
        seen: What ``wakeups.glance(channel)`` returned before the first attempt.
        deadline: When to give up.
        free_after: Seconds after which what this attempt takes could be free again without any message.
        party: With whom it sits, where each waiter has a channel of its own; they attempt when they are rung, and look
            otherwise.

    Returns:
        Whether it was taken.

    Raises:
        Failure: No attempt got an answer by the deadline.
    """
    if deadline.passed(runtime.now()):
        return False
    seat = wakeups.seat(channel, kind, message, party, attempt, lock=lock)
    taken = False
    # A waiter that is interrupted or cancelled may have been rung: passing on a ring too many does no harm.
    pass_on = True
    failures = 0
    try:
        wakeups.sit(seat, seen=seen, look_in=_look_in(refused))
        _check(wakeups, None)  # A close() during the first attempt could not wake this waiter.
        while True:
            over, rung = await _sleep(seat, deadline, runtime, wakeups)
            if over and seat.channel.line.down is None:
                pass_on = rung  # At the last moment: the ring goes to the next one.
                return False
            # With the line down no message can have come, so "not free" would be a guess: look once more.
            try:
                answer = await (attempt() if party is None or seat.rung or over else party.look(seat))
            except Failure as failure:
                if over or isinstance(failure, (Rejected, Unusable)):
                    raise
                wakeups.failed(seat, failure, RETRY.pause(failures, runtime.jitter))
                failures += 1
                continue
            if isinstance(answer, Acquired):
                taken, pass_on = True, False
                return True
            if over:
                return False
            failures = 0
            wakeups.answered(seat, _look_in(answer))
    finally:
        _leave(wakeups, seat, free_after if taken else math.inf, pass_on)


async def _sleep(seat: Seat, deadline: Deadline, runtime: Runtime, wakeups: Wakeups) -> tuple[bool, bool]:
    """Sleep until it is time to look. Returns whether the deadline has passed, and whether to look in any case."""
    while True:
        now = runtime.now()
        until = wakeups.sleep_until(seat, deadline.at, now)
        asleep = until > now
        if asleep:
            await seat.ticket.wait(until - now)
        _check(wakeups, seat.bench.channel.error)
        if asleep:
            now = runtime.now()
            until = wakeups.sleep_until(seat, deadline.at, now)
        over = deadline.passed(now)
        if over and seat.bench.trouble is not None:
            raise seat.bench.trouble
        if over or until <= now:
            return over, until == -math.inf


def _leave(wakeups: Wakeups, seat: Seat, look_in: float, pass_on: bool) -> None:
    try:
        wakeups.leave(seat, look_in=look_in, pass_on=pass_on)
    except BaseException:  # Ctrl-C, just now: a seat that is left half would keep the others from theirs.
        wakeups.leave(seat, look_in=math.inf, pass_on=True)
        raise


def _look_in(refused: Refused) -> float:
    # One millisecond more: the server's clock has to be past the end, not at it.
    return math.inf if refused.retry_in_ms is None else (refused.retry_in_ms + 1) / 1000


def _check(wakeups: Wakeups, error: Exception | None) -> None:
    if wakeups.closed is not None:
        raise wakeups.closed
    if error is not None:
        raise error
