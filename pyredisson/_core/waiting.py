"""The one loop that waits.

Attempt; if refused, listen; attempt again unless the client has listened all along; then sleep until notified, or until
the refusal has run its time; again. A primitive supplies an attempt and a group of waiters, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pyredisson._core import events
from pyredisson._core.deadline import CLEANUP_BUDGET, RETRY
from pyredisson._core.failures import Failure, Rejected, Unusable, is_interruption, own_copy
from pyredisson._core.kind import Waiting
from pyredisson._core.names import WAITING
from pyredisson._core.requests import AT_ONCE, WITHOUT_END, LockAcquired
from pyredisson._core.subscriptions import ALL, Waiter, WaitGroup
from pyredisson._core.wait_queue import QueuedGroup

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson._core.acquiring import Attempt
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Deadline, Uniform
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer, Refused
    from pyredisson._core.runtime import Reply, Request, Runtime
    from pyredisson._core.subscriptions import Notifies
    from pyredisson._core.wait_queue import Fairness, QueueUpdate


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


# ---- polling ---------------------------------------------------------------------------------------------------------
# Waiting for a lock without messages: attempts with pauses in between.


#: Seconds after which a waiter looks whether its client was closed, however long its pause is.
LOOK_UP = 0.25


class Delays(Protocol):
    """How a waiter paces its attempts."""

    def delays(self, uniform: Uniform, /) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last one goes on when they end.

        Random numbers come from ``uniform``, so that a seed of the simulator determines all delays.
        """
        ...


class Polling(Waiting):
    """Waiting without messages: attempts with pauses in between.

    Args:
        delays: The pauses.
        until_free: Whether a pause ends early when the lock's lease has ended.
        tries: How many attempts a waiter makes at most, the first one included; ``None``: without a limit.
    """

    announced = False

    def __init__(self, delays: Delays, *, until_free: bool, tries: int | None = None) -> None:
        self.tries: int | None = tries
        self._delays = delays
        self._until_free = until_free

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client = attempt.client
        runtime = client.runtime
        delays = iter(self._delays.delays(runtime.jitter))
        delay: float | None = None
        left = self._tries_left(attempt, refused)
        # Nothing notifies this ticket; it only warns when it blocks the thread of an event loop.
        ticket = runtime.ticket(attempt.ownership.name)
        while left > 0 and not deadline.passed(now := runtime.now()):
            left -= 1
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{self._delays!r} returns no delays")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (pause := until - runtime.now()) > 0:
                await ticket.wait(min(pause, LOOK_UP))
                client.check_open()
            try:
                answer = await attempt()
                if isinstance(answer, LockAcquired):
                    return True
                refused = answer
            except Rejected:
                raise
            except Failure:
                if left <= 0 or deadline.passed(runtime.now()):
                    raise
                refused = WITHOUT_END  # When the lease ends is no longer known.
        return False

    def _tries_left(self, attempt: Attempt, refused: Refused) -> float:
        """Return how many attempts remain. Those of a part of a multi-lock have no limit: its own wait has."""
        if self.tries is None or attempt.hold.whole is not None:
            return math.inf
        return self.tries - (refused is not AT_ONCE)  # That is no answer: the server could not be reached.

    def _pause(self, delay: float, refused: Refused) -> float:
        if not self._until_free or refused.retry_in_ms is None:
            return delay
        return min(delay, (refused.retry_in_ms + 1) / 1000)  # The lock's lease has ended by then.


# ---- pubsub wait -----------------------------------------------------------------------------------------------------
# Waiting for a lock by the messages of its releases, in the wait queue if that is possible.


def lock_message(payload: bytes) -> int:
    """Return how many waiters the message of a lock notifies: ``0``: unlocked, one; ``1``: a write lock ended, all."""
    return {b"0": 1, b"1": ALL}.get(payload, 0)


class WaitingCall(NamedTuple):
    """A call that waits, since its first attempt was refused.

    Attributes:
        client: The client.
        name: What it waits for.
        attempt: Attempts once. In a wait queue it gets how that changes.
        refused: What the first attempt returned.
        deadline: When to give up.
        free_after: As for :func:`wait_loop`.
        leave_queue: Makes the request that takes a member out of the wait queue.
    """

    client: ClientCore
    name: str
    attempt: Callable[..., Awaitable[Answer]]
    refused: Refused
    deadline: Deadline
    free_after: float = math.inf
    leave_queue: Callable[[str], Request] | None = None

    async def wait_as(self, waiter: Waiter, seen: int | None) -> bool:
        """Attempt again, as this waiter. See :func:`wait_loop`."""
        waiters, runtime = [(waiter, seen)], self.client.runtime
        return await wait_loop(self.attempt, self.refused, waiters, runtime, self.deadline, self.free_after)


async def wait_by_message(call: WaitingCall, group: WaitGroup[Waiter], seen: int | None) -> bool:
    """Attempt again, as a waiter in a group. See :func:`wait_loop`."""
    return await call.wait_as(Waiter(group, call.client.runtime.ticket(call.name)), seen)


async def wait_in_queue(
    call: WaitingCall, group: QueuedGroup, seen: int | None, *, seen_own: int | None = None
) -> bool:
    """Attempt again, as a waiter whose client is in the wait queue; without it, if the server's user may not use that.

    ``seen_own``: as ``seen``, of the client's own channel.
    """
    client = call.client
    if may_queue(client):
        try:
            return await _wait_queued(call, group, seen_own)
        except Rejected as rejected:
            if not _may_not_queue(client, rejected):
                raise
        seen = None
    plain: WaitGroup[Waiter] = WaitGroup(client.subscriptions, group.announced_on, group.label, group.notifies)
    return await wait_by_message(call, plain, seen)


async def _wait_queued(call: WaitingCall, group: QueuedGroup, seen: int | None) -> bool:
    client, leave_request = call.client, call.leave_queue
    assert leave_request is not None, "a wait queue that no request can leave"
    waiter = Waiter(group, client.runtime.ticket(call.name))

    async def leave_queue(*, later: bool, leaving: bool = False) -> None:
        """Have the client taken out of the queue, if it has no waiter any more."""
        member = waiter.leaves_queue
        if member is None or waiter.group.subscriptions.closed is not None:
            return  # In the child of a fork, a greenlet of the parent: that client is still in the queue.

        def leave() -> Coroutine[Any, Any, Reply]:
            return client.runtime.eval(leave_request(member), CLEANUP_BUDGET)

        over = client.runtime.now() + client.config.max_wait_without_check
        if later:
            client.watchdog.do_later(leave, over)
        else:
            await client.finish(leave, over, leaving=leaving)

    try:
        acquired = await call.wait_as(waiter, seen)
        await leave_queue(later=acquired)
        return acquired
    except BaseException as error:  # Also if it is interrupted as it leaves: that can be repeated.
        closed = isinstance(error, GeneratorExit) and client.runtime.suspends
        await leave_queue(later=closed, leaving=is_interruption(error))
        raise


def may_queue(client: ClientCore) -> bool:
    """Return whether a client can use wait queues, as far as is known."""
    return client.subscriptions.may_queue and client.runtime.counts_listeners()


def _may_not_queue(client: ClientCore, rejected: Rejected) -> bool:
    """Return whether the server's user may not use wait queues: then this client no longer does."""
    if "NOPERM" not in str(rejected.cause):
        return False
    _queue_no_longer(
        client,
        f"the user may not use the keys and channels {WAITING}:*, so each release wakes all clients that wait",
    )
    return True


def released_as(client: ClientCore, reply: int) -> int:
    """Return what a release replied, less its note that the user may not publish to the queue; see denied.lua."""
    if reply >= 0:
        return reply
    queue_refused(client, "&")
    return -1 - reply


def queue_refused(client: ClientCore, missing: str = "~") -> None:
    """Note that a release could not use the wait queue: the user lacks a rule of this type."""
    _queue_no_longer(
        client,
        f"the user's ACL has no rule {missing}{WAITING}:*, so a release cannot notify the client that has waited "
        "longest, and others acquire before it",
    )


def _queue_no_longer(client: ClientCore, why: str) -> None:
    """Make requests without wait queues from now on, and say why."""
    client.subscriptions.may_queue = False
    if client.server.first("acl"):
        client.emit(events.ServerUnsafe("acl", f"{why}; see 'What the server must allow' in the documentation"))


class ByMessage(Waiting):
    """Waiting for the message of a release, which notifies one waiter of each client.

    The message, and the request of a waiter, take time; an owner that acquires again at once would always be faster.
    So it yields for a moment to the waiters for the lock that it has just released.

    Args:
        notifies: How many waiters a message notifies.
        turn: How many waiters attempt when their client was notified that it is its turn.
        free_after: Seconds after which the next one may succeed when one has; ``None``: the lease.
    """

    announced = True

    def __init__(
        self,
        notifies: Notifies = lock_message,
        turn: int = 1,
        free_after: float | None = None,
    ) -> None:
        self._notifies = notifies
        self._turn = turn
        self._free_after = free_after

    def yields(self, kind: LockKind, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        fairness: Fairness = ownership.kind_state
        return fairness.refuse(wait, now) if fairness.until > now else None

    def released(self, kind: LockKind, ownership: Ownership, listeners: int, sent: float) -> None:
        """See :meth:`Waiting.released`."""
        if kind.client.subscriptions.lingers(kind.names.channel, kind.label):
            listeners -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        ownership.kind_state.released(listeners, sent, kind.client.runtime.now())

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client, kind, names = attempt.client, attempt.kind, attempt.kind.names
        fairness: Fairness = attempt.ownership.kind_state
        free_after = attempt.hold.lease_ms / 1000 if self._free_after is None else self._free_after
        subscriptions, label = client.subscriptions, kind.label
        group = QueuedGroup(subscriptions, names, kind.queued_as(), label, self._notifies, turn=self._turn)
        try_again = partial(self.attempt, attempt)
        call = WaitingCall(client, names.name, try_again, refused, deadline, free_after, kind.leave_queue)
        # An owner that does not yield attempts immediately, to join the queue.
        seen_own = subscriptions.messages_of(group.channel) if refused is fairness.refused else None
        acquired = await wait_in_queue(call, group, seen, seen_own=seen_own)
        fairness.waited(client.runtime.now())
        return acquired

    async def attempt(self, attempt: Attempt, update: QueueUpdate | None = None) -> Answer:
        """Make an attempt of an owner that waits."""
        return await attempt(update)
