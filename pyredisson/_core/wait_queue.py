"""The place of a client in the wait queue of a lock, so that a release notifies one client, not all.

Rules kept here:

1. A client that waits is in the queue once, with the time since which the first waiter of its group waits. Its attempts
   put it there, which it makes only while it receives messages on its *own channel*. A release takes the first client
   out of the queue and sends it ``GO`` there; if it finds the lock taken, its attempt puts it back in its place.
2. Two of the clients in the queue, the *observers*, receive the messages on the channel of the lock as well: releases
   by Redisson, and by earlier versions of this library, are announced only there. The server sends ``OBSERVE`` to the
   newest clients, but ``OBSERVE_AND_ATTEMPT`` to one that was refused just now: it may have missed a release. One
   that is notified that it is its turn is an observer no longer. A release sends a client that is alone in the queue
   the usual message, and leaves it there.
3. On a channel of their own the observers receive ``NOTIFIED`` before the usual message of a release if a client in the
   queue was notified; then the usual one does not concern them, nor the notified client. (``NOTIFIED_ALONE``: no other
   message follows.) Unless they receive ``ACQUIRED``, they attempt after ``NOTIFIED_FOR_MS``.
4. When its last waiter leaves, the client is taken out of the queue. Each group has another number, so that a late
   request concerns no later group.
5. Of permits, as many clients are notified as there are permits for. The first client in the queue receives ``EXPIRES``
   and a number of milliseconds if permits that are taken expire then.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from pyredisson._core.names import (
    ACQUIRED,
    EXPIRES,
    GO,
    NOTIFIED,
    NOTIFIED_ALONE,
    NOTIFIED_FOR_MS,
    OBSERVE,
    OBSERVE_AND_ATTEMPT,
)
from pyredisson._core.requests import LockAcquired, Refused
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.subscriptions import Waiter, WaitGroup

if TYPE_CHECKING:
    from pyredisson._core.names import QueueNames
    from pyredisson._core.requests import Answer
    from pyredisson._core.subscriptions import Notifies, Subscription, Subscriptions

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
        self.refused = Refused(int(1000 * seconds))
        return self.refused

    def stop(self) -> None:
        """It has waited long enough."""
        self.until = -math.inf

    def refuse(self, wait: float | None, now: float) -> Refused | None:
        """Return the refusal to act on, as if it were the server's; the owner may wait for ``wait`` seconds."""
        left = self.until - now
        self.refused = Refused(int(left * 1000)) if wait is None or wait > 2 * left else None
        return self.refused


#: For who never yields.
NEVER_YIELDS: Final = Fairness()
