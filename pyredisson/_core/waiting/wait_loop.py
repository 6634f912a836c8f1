"""The one loop that waits.

Attempt; if refused, listen; attempt again unless the client has listened all along; then sleep until notified, or until
the refusal has run its time; again. A primitive supplies an attempt and a group of waiters, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pyredisson._core.backoff import DoublingBackoff
from pyredisson._core.failures import Failure, Rejected, Unusable, own_copy
from pyredisson._core.outcomes import LockAcquired

if TYPE_CHECKING:
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.outcomes import Answer, Refused
    from pyredisson._core.runtime import Runtime
    from pyredisson._core.waiting.wait_groups import Waiter

#: After an attempt without an answer.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


async def wait_loop(
    attempt: Callable[..., Awaitable[Answer]],
    refused: Refused,
    waiters: Sequence[tuple[Waiter, int | None]],
    runtime: Runtime,
    deadline: Deadline,
    free_after: float,
) -> bool:
    """After a first attempt was refused: attempt until one succeeds, or until the deadline.

    Args:
        attempt: Attempts once. Raises ``Failure`` when the server did not answer.
        refused: What the first attempt returned.
        waiters: The caller, as a waiter in the group of each channel that announces releases, with one ticket; and what
            :meth:`Subscriptions.messages_of` returned of that channel before the first attempt.
        runtime: The runtime.
        deadline: When to give up.
        free_after: Seconds after which what this attempt acquires could be free again without any message.

    Returns whether it was acquired.

    Raises:
        Failure: No attempt had an answer by the deadline.
    """
    if deadline.passed(runtime.now()):
        return False
    wait = _Wait([waiter for waiter, _ in waiters])
    # A waiter that is interrupted or cancelled may have been notified: a notification too many does no harm.
    acquired, failures, pass_on = False, 0, True
    try:
        wait.join([seen for _, seen in waiters], _retry_in(refused))
        while True:
            over, notified = await wait.sleep(deadline, runtime)
            if over and not wait.is_disconnected():  # Else no message can have arrived: "not free" would be a guess.
                pass_on = notified  # At the last moment: the notification is for the next one.
                return False
            try:
                answer = await (attempt() if over else wait.check(attempt))
            except Failure as failure:
                if over or isinstance(failure, (Rejected, Unusable)):
                    raise
                wait.failed(failure, RETRY.pause(failures, runtime.jitter))
                failures += 1
                continue
            if isinstance(answer, LockAcquired):
                acquired, pass_on = True, False
                wait.note_last_resort()
                return True
            if over:
                return False
            failures = 0
            wait.answered(_retry_in(answer))
    finally:
        try:
            wait.leave(free_after if acquired else math.inf, pass_on=pass_on)
        except BaseException:  # Ctrl-C, just now: a waiter that has left by half would keep the others waiting.
            wait.leave(math.inf, pass_on=True)
            raise


class _Wait:
    """One call as a waiter in one group or several; a notification of any wakes it."""

    def __init__(self, waiters: Sequence[Waiter]) -> None:
        self._waiters = waiters
        self._ticket = waiters[0].ticket

    def join(self, seen: Sequence[int | None], retry_in: float) -> None:
        for waiter, messages in zip(self._waiters, seen, strict=True):
            waiter.group.join(waiter, seen=messages, retry_in=retry_in)
        self._check_open()  # A close() during the first attempt could not wake this waiter.

    def _check_open(self) -> None:
        for waiter in self._waiters:
            if waiter.group.subscriptions.closed is not None:
                raise own_copy(waiter.group.subscriptions.closed)

    def _check(self) -> None:
        """Raise an error if the client was closed, or its server lets it receive nothing anywhere."""
        self._check_open()
        error = self._waiters[0].group.error
        if error is not None and all(waiter.group.error is not None for waiter in self._waiters):
            raise own_copy(error)

    def is_disconnected(self) -> bool:
        """Return whether no message can arrive."""
        return all(waiter.is_disconnected() for waiter in self._waiters)

    async def sleep(self, deadline: Deadline, runtime: Runtime) -> tuple[bool, bool]:
        """Sleep until it is time to attempt. Return whether the deadline has passed, and whether it was notified."""
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
            trouble = self._waiters[0].group.trouble
            if over and trouble is not None:
                raise own_copy(trouble)
            if over or until <= now:
                return over, until == -math.inf

    def _sleep_until(self, deadline: Deadline, now: float) -> float:
        return min([waiter.group.sleep_until(waiter, deadline.at, now) for waiter in self._waiters])

    def check(self, attempt: Callable[..., Awaitable[Answer]]) -> Awaitable[Answer]:
        return self._waiters[0].group.check(self._waiters[0], attempt)

    def note_last_resort(self) -> None:
        """Note whether no message had caused the attempt that has succeeded."""
        if any(waiter.without_message for waiter in self._waiters):
            self._waiters[0].group.subscriptions.last_resorts += not any(each.was_notified for each in self._waiters)

    def answered(self, retry_in: float) -> None:
        for waiter in self._waiters:
            waiter.group.answered(waiter, retry_in)

    def failed(self, failure: Failure, retry_in: float) -> None:
        for waiter in self._waiters:
            waiter.group.failed(waiter, failure, retry_in)

    def leave(self, retry_in: float, *, pass_on: bool) -> None:
        """Leave all groups. A waiter that is interrupted in here, or before, calls it again."""
        for waiter in self._waiters:
            waiter.group.leave(waiter, retry_in=retry_in, pass_on=pass_on)


def _retry_in(refused: Refused) -> float:
    # One millisecond more: the server's clock has to be past the end, not at it.
    return math.inf if refused.retry_in_ms is None else (refused.retry_in_ms + 1) / 1000
