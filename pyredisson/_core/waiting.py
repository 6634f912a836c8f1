"""How owners wait: the one loop, attempts alone, and the wait queue, in which a release notifies one client, not all.

Attempt; if refused, listen; attempt again unless the client has listened all along; then sleep until notified, or until
the refusal has run its time; again. A primitive supplies an attempt and a group of waiters, nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pyredisson._core import events
from pyredisson._core.deadline import RETRY, Deadline, Uniform
from pyredisson._core.failures import Failure, Rejected, Unusable, is_interruption, own_copy
from pyredisson._core.names import (
    ACQUIRED,
    EXPIRES,
    GO,
    NOTIFIED,
    NOTIFIED_ALONE,
    NOTIFIED_FOR_MS,
    OBSERVE,
    OBSERVE_AND_ATTEMPT,
    WAITING,
)
from pyredisson._core.requests import WITHOUT_END, Answer, LockAcquired, Refused
from pyredisson._core.runtime import PUBLISH, Reply, Request, Runtime, Ticket
from pyredisson._core.subscriptions import ALL, Notifies, Subscription, Subscriptions, Waiter, WaitGroup

if TYPE_CHECKING:
    from pyredisson._core.acquiring import Attempt
    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import LockKind
    from pyredisson._core.names import QueueNames
    from pyredisson._core.ownership import Ownership


class Waiting(ABC):
    """How the owners of one kind wait for a lock: by message, in a queue, or by polling."""

    #: Whether a release is announced to the waiters.
    announced: bool
    #: How many attempts a waiter makes at most; ``None``: without a limit.
    tries: int | None = None

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """The channel on which this owner is notified that the lock may be free."""
        return kind.names.channel

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """Note that an owner begins to acquire, and waits for at most ``wait`` seconds."""
        return

    def yields(self, kind: LockKind, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """Refuse an owner that lets others acquire first, as the server would; ``None``: it need not yield."""
        return None

    def released(self, kind: LockKind, ownership: Ownership, listeners: int, sent: float) -> None:
        """Note that ``listeners`` connections received the message of a release that was sent at ``sent``."""
        return

    def waited(self, ownership: Ownership, now: float) -> None:
        """Note that an owner has waited, until now."""
        return

    @abstractmethod
    def wait(
        self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline
    ) -> Coroutine[Any, Any, bool]:
        """Attempt until the lock is acquired, or the deadline or all tries have passed, after a first one was refused.

        ``seen`` is what ``Subscriptions.messages_of`` returned before the first attempt.
        """


async def wait_loop(
    attempt: Callable[..., Awaitable[Answer]],
    refused: Refused,
    waiters: Sequence[tuple[Waiter, int | None]],
    runtime: Runtime,
    deadline: Deadline,
    free_after: float,
) -> bool:
    """After a first attempt was refused: attempt until one succeeds, or until the deadline. Returns whether one did.

    Args:
        attempt: Attempts once. Raises ``Failure`` when the server did not answer.
        refused: What the first attempt returned.
        waiters: The caller, as a waiter in the group of each channel that announces releases, with one ticket; and what
            :meth:`Subscriptions.messages_of` returned of that channel before the first attempt.
        runtime: The runtime.
        deadline: When to give up.
        free_after: Seconds after which what this attempt acquires could be free again without any message.

    Raises:
        Failure: No attempt had an answer by the deadline.
    """
    if refused.asked and deadline.passed(runtime.now()):
        return False
    wait = _Wait([waiter for waiter, _ in waiters])
    # A waiter that is interrupted or cancelled may have been notified: a notification too many does no harm.
    acquired, asked, failures, pass_on = False, refused.asked, 0, True
    try:
        wait.join([seen for _, seen in waiters], _retry_in(refused))
        while True:
            while (until := wait.sleep_until(deadline, now := runtime.now())) > now:
                await wait.ticket.wait(until - now)
            over, notified = wait.is_over(deadline, now), until == -math.inf
            if over and asked and not wait.is_disconnected():  # Else "not free" would be a guess.
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
            failures, asked = 0, answer.asked
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
        self.ticket: Ticket = waiters[0].ticket

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

    def sleep_until(self, deadline: Deadline, now: float) -> float:
        """Return until when to sleep; in the past: it is time to attempt, infinitely long ago: it was notified."""
        self._check()
        return min([waiter.group.sleep_until(waiter, deadline.at, now) for waiter in self._waiters])

    def is_over(self, deadline: Deadline, now: float) -> bool:
        """Return whether the deadline has passed. Raises what kept the last attempt from an answer, if it has."""
        over, trouble = deadline.passed(now), self._waiters[0].group.trouble
        if over and trouble is not None:
            raise own_copy(trouble)
        return over

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


#: Seconds after which a waiter looks whether its client was closed, or is another one, however long its pause is.
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
        failure: Failure | None = None
        while left > 0 and not (deadline.passed(now := runtime.now()) and refused.asked):
            left -= 1
            delay = next(delays, delay)
            if delay is None:
                raise ValueError(f"{self._delays!r} returns no delays")
            until = min(now + self._pause(delay, refused), deadline.at)
            while (pause := until - runtime.now()) > 0:
                await ticket.wait(min(pause, LOOK_UP))
                client.check_open()
                if not attempt.ownership.owner.startswith(client.id):
                    raise client.former(attempt.ownership)
            try:
                answer = await attempt()
                if isinstance(answer, LockAcquired):
                    return True
                refused, failure = answer, None
            except Rejected:
                raise
            except Failure as error:
                refused, failure = WITHOUT_END, error  # When the lease ends is no longer known.
        if failure is not None:
            raise failure
        return False

    def _tries_left(self, attempt: Attempt, refused: Refused) -> float:
        """Return how many attempts remain. Those of a part of a multi-lock have no limit: its own wait has."""
        if self.tries is None or attempt.hold.whole is not None:
            return math.inf
        return self.tries - refused.asked

    def _pause(self, delay: float, refused: Refused) -> float:
        if not self._until_free or refused.retry_in_ms is None:
            return delay
        return min(delay, (refused.retry_in_ms + 1) / 1000)  # The lock's lease has ended by then.


# ---- the wait queue --------------------------------------------------------------------------------------------------
# The place of a client in the wait queue of a lock, so that a release notifies one client, not all.
#
# Rules kept here:
#
# 1. A client that waits is in the queue once, with the time since which the first waiter of its group waits. Its
#    attempts put it there, which it makes only while it receives messages on its *own channel*. A release takes the
#    first client out of the queue and sends it ``GO`` there; if it finds the lock taken, its attempt puts it back in
#    its place.
# 2. Two of the clients in the queue, the *observers*, receive the messages on the channel of the lock as well: releases
#    by Redisson, and by earlier versions of this library, are announced only there. The server sends ``OBSERVE`` to the
#    newest clients, but ``OBSERVE_AND_ATTEMPT`` to one that was refused just now: it may have missed a release. One
#    that is notified that it is its turn is an observer no longer. A release sends a client that is alone in the queue
#    the usual message, and leaves it there.
# 3. On a channel of their own the observers receive ``NOTIFIED`` before the usual message of a release if a client in
#    the queue was notified; then the usual one does not concern them, nor the notified client. (``NOTIFIED_ALONE``: no
#    other message follows.) Unless they receive ``ACQUIRED``, they attempt after ``NOTIFIED_FOR_MS``.
# 4. When its last waiter leaves, the client is taken out of the queue. Each group has another number, so that a late
#    request concerns no later group.
# 5. Of permits, as many clients are notified as there are permits for. The first client in the queue receives
#    ``EXPIRES`` and a number of milliseconds if permits that are taken expire then.


#: Seconds that a notified client has for its attempt, before others attempt.
NOTIFIED_FOR = int(NOTIFIED_FOR_MS) / 1000


class QueueUpdate(NamedTuple):
    """How an attempt changes the place of its client in the wait queue.

    Attributes:
        number: The number of the group's attempt.
        member: The client's member of the queue.
        waited_ms: For how long the client waits.
        rest_ms: For how long it waits if the attempt succeeds; ``None``: no longer.
        notified: Whether it was notified that it is its turn.
    """

    number: int
    member: str
    waited_ms: int
    rest_ms: int | None
    notified: bool

    def args(self, max_wait_without_check: float) -> tuple[str | int, ...]:
        """Return the arguments by which an attempt updates the queue; see _lua/shared/wait.lua."""
        kept_ms = int(3000 * max_wait_without_check)
        rest_ms = -1 if self.rest_ms is None else self.rest_ms
        return self.member, self.waited_ms, rest_ms, int(self.notified), kept_ms, PUBLISH


# ---- the states of a group -------------------------------------------------------------------------------------------
# A group has two: whether its client is in the queue, as its own attempts tell, and whether it is an observer. The
# methods that change them:
#
# ========== ============================================== ============================================================
# state      meaning                                        next state, and by which methods
# ========== ============================================== ============================================================
# NEVER      it has made no attempt                         QUEUED by begin_update
# QUEUED     it may be in the queue                         LEFT by acquired
# LEFT       its last attempt has taken it out of the queue QUEUED by begin_update
# ========== ============================================== ============================================================
# NONE       it is no observer                              OBSERVER by received
# OBSERVER   it is one                                      REPLACED by received
#                                                           NONE by stop_listening
# REPLACED   its turn has come, so that another client is:  OBSERVER by received
#            it observes until its attempt                  NONE by begin_update, stop_listening
# ========== ============================================== ============================================================
#
# ``_is_turn``, ``_is_served`` and ``_may_have_missed`` are no states: each is what a message has said, which may arrive
# in any of them.


class Membership(Enum):
    """Whether a client is in the queue, as far as it knows."""

    NEVER = "never"
    QUEUED = "queued"
    LEFT = "left"


class Observing(Enum):
    """Whether a client is an observer."""

    NONE = "none"
    OBSERVER = "observer"
    REPLACED = "replaced"


class QueuedGroup(WaitGroup[Waiter]):
    """Waiters whose client is in the wait queue.

    Args:
        subscriptions: Those of the client.
        names: The names of the lock.
        queued_as: What stands for the client in the queue.
        label: As for :class:`WaitGroup`.
        notifies: How many waiters a message on the channel of the lock notifies.
        permits: What stands behind the member, of permits.
        turn: How many waiters attempt when it is the client's turn.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        names: QueueNames,
        queued_as: str,
        label: str,
        notifies: Notifies,
        *,
        permits: str = "",
        turn: int = 1,
    ) -> None:
        super().__init__(subscriptions, names.own_channel(queued_as), label, notifies)
        self.announced_on: str = names.channel
        self.member: str = f"{queued_as}:{next(subscriptions.queue_numbers)}{permits}"
        self._observers_channel = names.waiting
        self._turn = turn
        self._last = QueueUpdate(0, self.member, 0, 0, notified=False)  # That of the last attempt.
        self._membership = Membership.NEVER
        self._observing = Observing.NONE
        self._is_turn = False
        self._is_served = False  # The next usual message is of a release that notified a client of the queue.
        self._may_have_missed = False  # A message on the channel of the lock, before it is confirmed.
        self._expires = math.inf  # When a permit does.

    # ---- messages ------------------------------------------------------------------------------------------------

    def received(self, channel: str, payload: bytes) -> None:
        """Process a message on one of its channels."""
        if channel != self.announced_on:
            self.notify(self._message(payload.decode(errors="replace")))
        elif self._is_served:
            self._is_served = False
        else:
            self.notify(self.notifies(payload))

    def _message(self, message: str) -> int:
        """Process a message of the queue. Return how many waiters it notifies."""
        if message == GO:
            self._is_turn = self._is_served = True
            if self._observing is Observing.OBSERVER:
                self._observing = Observing.REPLACED
            return self._turn
        if message in (NOTIFIED, NOTIFIED_ALONE):
            self._is_served = message == NOTIFIED
            self._check_in(NOTIFIED_FOR)
        elif message == ACQUIRED:
            self._is_served = False
            self._check_in(math.inf)
        elif message in (OBSERVE, OBSERVE_AND_ATTEMPT):
            self._may_have_missed = message == OBSERVE_AND_ATTEMPT
            self._observe()
        elif message.startswith(EXPIRES):
            self._expires_in(message[len(EXPIRES) :])
        return 0

    def confirmed(self, channel: str) -> None:
        """See :meth:`WaitGroup.confirmed`."""
        self._is_served = False
        if channel == self._observers_channel:
            return  # That of the lock is confirmed later.
        if channel == self.channel:
            self.notify(1)
        else:
            self._check_first()

    def _check_first(self) -> None:
        """Attempt for what was announced before the messages on the channel of the lock arrived."""
        if self._may_have_missed:
            self.notify(1)
        else:
            self._check_in(NOTIFIED_FOR)  # The other observer has received earlier messages, unless both are gone.

    def refused(self, channel: str, error: Exception) -> None:
        """See :meth:`WaitGroup.refused`; an observer can do without the other channels."""
        if channel == self.channel:
            super().refused(channel, error)
        else:
            self.notify_all()

    def _check_in(self, seconds: float) -> None:
        self.check_at(min(self.now() + seconds, self._expires))

    def _expires_in(self, ms: str) -> None:
        if ms.isdecimal():
            self._expires = self.now() + (int(ms) + 1) / 1000  # The server's clock has to be past the end, not at it.
            self.check_at(min(self.soon, self._expires))

    def _observe(self) -> None:
        began = not self.to_request
        self._observing = Observing.OBSERVER
        channels = self._observers_channel, self.announced_on
        self.to_request = tuple([self.subscriptions.add(channel, self) for channel in channels])
        if began and self.to_request[1].confirmed:  # It was left so recently that it is still subscribed to.
            self._is_served = False
            self._check_first()

    def _stop_observing(self, idle_since: float) -> None:
        self.to_request, self._observing = (), Observing.NONE
        for channel in (self._observers_channel, self.announced_on):
            self.subscriptions.remove(channel, self, idle_since)

    # ---- waiters -------------------------------------------------------------------------------------------------

    def add(self, waiter: Waiter, retry_in: float) -> None:
        """See :meth:`WaitGroup.add`; its refusal does not say whether the client is in the queue."""
        if self.waiters:
            self.expect_sooner(retry_in)
        else:
            self.expect(retry_in)
        self.waiters[waiter] = None

    async def check(self, waiter: Waiter, attempt: Callable[..., Awaitable[Answer]]) -> Answer:
        """See :meth:`WaitGroup.check`; as a client in the queue."""
        with self.subscriptions.mutex:
            update = self.begin_update(waiter)
        answer = await attempt(update)
        if type(answer) is LockAcquired:
            with self.subscriptions.mutex:
                self.acquired(update)
        return answer

    def begin_update(self, waiter: Waiter) -> QueueUpdate:
        """Return how the attempt of a waiter changes the queue."""
        self._expires = math.inf
        self._membership = Membership.QUEUED
        is_turn, self._is_turn = self._is_turn, False
        if is_turn and self._observing is Observing.REPLACED:  # Else by an attempt of another thread, meanwhile.
            self._stop_observing(self.now())
        self._is_served = self._is_served and not is_turn  # It may have been no observer.
        now = self.now()
        rest = next((each for each in self.waiters if each is not waiter), None)
        since = waiter.since if rest is None else min(waiter.since, rest.since)
        rest_ms = None if rest is None else _whole_ms(now - rest.since)
        self._last = QueueUpdate(self._last.number + 1, self.member, _whole_ms(now - since), rest_ms, is_turn)
        return self._last

    def acquired(self, update: QueueUpdate) -> None:
        """Note that this attempt has succeeded."""
        if update.rest_ms is None and update.number == self._last.number:
            self._membership = Membership.LEFT

    def answered(self, waiter: Waiter, retry_in: float) -> None:
        """See :meth:`WaitGroup.answered`."""
        super().answered(waiter, retry_in)
        waiter.without_message = waiter.was_notified = False

    def pass_on(self, waiter: Waiter, following: Waiter, retry_in: float | None, *, notify: bool) -> None:
        """See :meth:`WaitGroup.pass_on`; the following one joins the queue anew if need be."""
        super().pass_on(waiter, following, retry_in, notify=notify or self._membership is Membership.LEFT)

    def stop_listening(self, waiter: Waiter) -> Subscription | None:
        """See :meth:`WaitGroup.stop_listening`."""
        if not self.waiters:
            # A client that has acquired among others receives its own releases there, each time: not the next one.
            self._stop_observing(-math.inf if self._last.notified else self.now())
            waiter.leaves_queue = self.member if self._membership is Membership.QUEUED else None
        return super().stop_listening(waiter)


def _whole_ms(seconds: float) -> int:
    return max(0, int(1000 * seconds))


# ---- fairness --------------------------------------------------------------------------------------------------------
# How an owner that has just released a lock lets its waiters acquire it before it does so again.


#: For how many seconds an owner may acquire and release a lock as often as it can before it lets the others have it: to
#: hand over each time costs more than many a short hold. What it was measured by: docs/contributing/architecture.md.
SLICE = 0.08

#: For how long an owner yields after a release, in seconds: this long and two round trips, so that those who wait can
#: be notified of the release and attempt.
YIELD_MIN = 0.001
YIELD_MAX = 0.02


class Fairness:
    """Whether an owner yields to those who wait for a lock.

    Attributes:
        until: Until when.
        refused: What an attempt was refused with that was not made, the last time.
    """

    __slots__ = ("_slice_began", "refused", "until")

    def __init__(self) -> None:
        self._slice_began = -math.inf
        self.until: float = -math.inf
        self.refused: Refused | None = None

    def waited(self, now: float) -> None:
        """It has waited, and may keep the lock for a while."""
        self._slice_began = now

    def released(self, listeners: int, sent: float, now: float) -> None:
        """Note that a release that was ``sent`` then had this number of listeners in other processes."""
        if listeners > 0 and now - self._slice_began > SLICE:
            self.until = now + min(YIELD_MIN + 2 * (now - sent), YIELD_MAX)

    def yield_for(self, seconds: float, now: float) -> Refused:
        """Yield for so long, from now on. Returns the refusal to act on, as if it were the server's."""
        self.until = now + seconds
        self.refused = Refused(int(1000 * seconds), asked=False)
        return self.refused

    def stop(self) -> None:
        """It has waited long enough."""
        self.until = -math.inf

    def refuse(self, wait: float | None, now: float) -> Refused | None:
        """Return the refusal to act on, as if it were the server's; the owner may wait for ``wait`` seconds."""
        left = self.until - now
        self.refused = Refused(int(left * 1000), asked=False) if wait is None or wait > 2 * left else None
        return self.refused


#: For who never yields.
NEVER_YIELDS: Final = Fairness()


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

    def waiter(self, group: WaitGroup[Waiter]) -> Waiter:
        """Return a waiter for a group, which keeps that only until it has joined an earlier one."""
        return Waiter(group, self.client.runtime.ticket(self.name))

    def wait_as(self, waiter: Waiter, seen: int | None) -> Coroutine[Any, Any, bool]:
        """Attempt again, as this waiter. See :func:`wait_loop`."""
        waiters, runtime = [(waiter, seen)], self.client.runtime
        return wait_loop(self.attempt, self.refused, waiters, runtime, self.deadline, self.free_after)


def wait_by_message(call: WaitingCall, group: WaitGroup[Waiter], seen: int | None) -> Coroutine[Any, Any, bool]:
    """Attempt again, as a waiter in a group. See :func:`wait_loop`."""
    return call.wait_as(call.waiter(group), seen)


async def wait_in_queue(call: WaitingCall, waiter: Waiter, seen: int | None, *, seen_own: int | None = None) -> bool:
    """Attempt again, as a waiter whose client is in the wait queue; without it, if the server's user may not use that.

    ``waiter``: of a :class:`QueuedGroup`. ``seen_own``: as ``seen``, of the client's own channel.
    """
    client = call.client
    if may_queue(client):
        try:
            acquired = await call.wait_as(waiter, seen_own)
            await _leave_queue(call, waiter, later=acquired)
            return acquired
        except BaseException as error:  # Also if it is interrupted as it leaves: that can be repeated.
            closed = isinstance(error, GeneratorExit) and client.runtime.suspends
            await _leave_queue(call, waiter, later=closed, leaving=is_interruption(error))
            if not (isinstance(error, Rejected) and _may_not_queue(client, error)):
                raise
        seen = None
    group = waiter.group
    plain: WaitGroup[Waiter] = WaitGroup(client.subscriptions, group.announced_on, group.label, group.notifies)
    return await call.wait_as(Waiter(plain, waiter.ticket), seen)


async def _leave_queue(call: WaitingCall, waiter: Waiter, *, later: bool, leaving: bool = False) -> None:
    """Have the client taken out of the queue, if it has no waiter any more."""
    client, member, leave_request = call.client, waiter.leaves_queue, call.leave_queue
    if member is None or waiter.group.subscriptions.closed is not None:
        return  # In the child of a fork, a greenlet of the parent: that client is still in the queue.
    assert leave_request is not None, "a wait queue that no request can leave"

    def leave(timeout: float) -> Coroutine[Any, Any, Reply]:
        return client.runtime.eval(leave_request(member), timeout)

    over = client.runtime.now() + client.config.max_wait_without_check
    if later:
        client.watchdog.do_later(leave, over)
    else:
        await client.finish(leave, over, leaving=leaving)


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

    def waited(self, ownership: Ownership, now: float) -> None:
        """See :meth:`Waiting.waited`."""
        ownership.kind_state.waited(now)

    def wait(
        self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline
    ) -> Coroutine[Any, Any, bool]:
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
        return wait_in_queue(call, call.waiter(group), seen, seen_own=seen_own)

    def attempt(self, attempt: Attempt, update: QueueUpdate | None = None) -> Coroutine[Any, Any, Answer]:
        """Make an attempt of an owner that waits."""
        return attempt(update)
