"""The waiters of a client, in groups of those who want the same.

Rules kept here:

1. Messages may be lost, late or spurious. They only say "attempt again"; a waiter attempts by itself in any case, after
   the time of its last answer or ``Config.max_wait_without_check``, whichever is less.
2. A client attempts once for all waiters of one channel who want the same. The first one of the group does it; the
   answer serves all. A message notifies the first; when it has acquired it leaves, and its unlock notifies the next.
3. A waiter that leaves a group after a notification that it did not use passes it on, and with it the duty to attempt.
4. A subscription that has just been confirmed (also after a reconnect) notifies the first of each group: what was
   published before then did not arrive.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pyredisson._core.outcomes import Answer
    from pyredisson._core.runtime import Ticket
    from pyredisson._core.waiting.subscriptions import Subscription, Subscriptions

ALL = -1
"""As a number of waiters to notify."""

Notifies: TypeAlias = Callable[[bytes], int]
"""How many waiters a message notifies."""


class Waiter:
    """One call that waits, as a member of a group.

    Attributes:
        group: Its group; of its own until it has joined.
        channel: The channel whose messages concern it.
        ticket: What it sleeps on.
        since: When it began to wait.
        subscription: That of its channel, once it has joined.
        notified: It is to attempt now.
        was_notified: It attempts since it was notified, not for all of its group.
        without_message: It attempts because a message may have been lost.
        sleeps_until: Until when it sleeps.
        leaves_queue: The member to be taken out of the wait queue, since it was the last waiter.
    """

    def __init__(self, group: WaitGroup[Any], ticket: Ticket, channel: str | None = None) -> None:
        self.group: WaitGroup[Any] = group
        self.channel: str = group.channel if channel is None else channel
        self.ticket: Ticket = ticket
        self.since: float = group.now()
        self.subscription: Subscription | None = None
        self.notified: bool = False
        self.was_notified: bool = False
        self.without_message: bool = False
        self.sleeps_until: float = -math.inf
        self.leaves_queue: str | None = None

    def notify(self) -> None:
        """Let it attempt now."""
        self.notified = True
        self.ticket.ring()

    def is_disconnected(self) -> bool:
        """Return whether no message can arrive."""
        return self.subscription is not None and self.subscription.connection.down is not None


WaiterT = TypeVar("WaiterT", bound=Waiter)


class WaitGroup(Generic[WaiterT]):
    """The waiters of one channel who all want the same, so that one answer serves them all.

    Args:
        subscriptions: Those of the client.
        channel: The channel.
        label: What they want: waiters of one label share answers.
        notifies: How many waiters a message notifies.

    Attributes:
        announced_on: The channel on which releases are announced.
        waiters: The waiters, the first one first.
        next_check: When the first one attempts by itself.
        without_message: Then only because a message may have been lost.
        soon: When another attempt is due, whatever the last answer was.
        trouble: Why the last attempt had no answer.
        error: Why its subscription was refused.
    """

    #: Whether an attempt of one waiter means nothing to the others.
    each_for_itself: ClassVar[bool] = False
    #: The subscriptions that a message has made necessary.
    to_request: tuple[Subscription, ...] = ()

    def __init__(self, subscriptions: Subscriptions, channel: str, label: str, notifies: Notifies) -> None:
        self.subscriptions: Subscriptions = subscriptions
        self.now: Callable[[], float] = subscriptions.runtime.now
        self.channel: str = channel
        self.announced_on: str = channel
        self.label: str = label
        self.notifies: Notifies = notifies
        self.waiters: OrderedDict[WaiterT, None] = OrderedDict()
        self.next_check: float = 0.0
        self.without_message: bool = False
        self.soon: float = math.inf
        self.trouble: Exception | None = None
        self.error: Exception | None = None

    def first(self) -> WaiterT | None:
        """Return the one who attempts."""
        return next(iter(self.waiters), None)

    def due(self) -> float:
        """Return when the first one has to attempt."""
        return min(self.next_check, self.soon)

    # ---- for waiters ---------------------------------------------------------------------------------------------

    def join(self, waiter: WaiterT, *, seen: int | None, retry_in: float) -> None:
        """Add a waiter whose first attempt was refused, to the group of this kind that there is, or to this one.

        Args:
            waiter: The waiter.
            seen: What :meth:`Subscriptions.messages_of` returned before its attempt.
            retry_in: The number of seconds after which the refusal is worth another attempt.

        Raises:
            LockError: As for :meth:`Subscriptions.refuse_interrupter`.
        """
        subscriptions = self.subscriptions
        subscriptions.refuse_interrupter()
        with subscriptions.mutex:
            group = waiter.group = subscriptions.groups.setdefault((self.channel, self.label), self)
            waiter.subscription = subscription = subscriptions.add(waiter.channel, group)
            alone = group.each_for_itself or not group.waiters
            group.add(waiter, retry_in)
            # A release between the attempt and now has notified no waiter, unless one waited all the time. Where the
            # channel is not confirmed yet, its confirmation will notify.
            if alone and subscription.confirmed and seen != subscription.messages:
                waiter.notified = True
        subscriptions.request(subscription)

    def add(self, waiter: WaiterT, retry_in: float) -> None:
        """Add it to the others."""
        self.expect(retry_in)
        self.waiters[waiter] = None

    def sleep_until(self, waiter: WaiterT, deadline: float, now: float) -> float:
        """Return until when a waiter may sleep unless it is notified; in the past: it has to attempt now."""
        with self.subscriptions.mutex:
            if waiter.notified:
                waiter.notified = waiter.without_message = False
                waiter.was_notified = True
                return -math.inf
            if self.first() is waiter:
                due = self.due()
                if due <= now:
                    waiter.was_notified = False
                    waiter.without_message = self.without_message and due == self.next_check
                    self.begin_check(now)
                    return -math.inf
                waiter.sleeps_until = min(due, deadline)
            else:
                # Not to attempt, but so that a newcomer to the front need not be woken to set its alarm.
                waiter.sleeps_until = min(now + self.subscriptions.max_wait, deadline)
            return waiter.sleeps_until

    def begin_check(self, now: float) -> None:
        """Note that the first one attempts for all."""
        self.soon = math.inf

    def check(self, waiter: WaiterT, attempt: Callable[..., Awaitable[Answer]]) -> Awaitable[Answer]:
        """Attempt for all waiters."""
        return attempt()

    def answered(self, waiter: WaiterT, retry_in: float) -> None:
        """Note that an attempt was refused: the answer serves all."""
        with self.subscriptions.mutex:
            self.trouble = None
            self.expect(retry_in)

    def failed(self, waiter: WaiterT, error: Exception, retry_in: float) -> None:
        """Note that an attempt had no answer."""
        with self.subscriptions.mutex:
            self.trouble = error
            self.expect(retry_in)

    def leave(self, waiter: WaiterT, *, retry_in: float, pass_on: bool) -> None:
        """Remove a waiter. One that is interrupted in here calls it again.

        Args:
            waiter: The waiter.
            retry_in: When the next one should attempt, as far as the leaving one knows.
            pass_on: Whether the next one is notified, as if a message that the leaving one may have had were its.
        """
        subscriptions = self.subscriptions
        with subscriptions.mutex:
            was_first = self.first() is waiter
            self.waiters.pop(waiter, None)
            following = self.first()
            if following is not None:
                self.pass_on(waiter, following, retry_in if was_first else None, notify=pass_on)
            else:
                self.end()
            idle = self.stop_listening(waiter)
        subscriptions.end_soon(idle)

    def pass_on(self, waiter: WaiterT, following: WaiterT, retry_in: float | None, *, notify: bool) -> None:
        """Let the following waiter do what the leaving one would have done; ``retry_in``: if that was the first."""
        if retry_in is not None and retry_in < math.inf:
            self.expect(retry_in)
        if notify or waiter.notified:
            following.notify()
        elif retry_in is not None:
            self.wake_before(following)

    def end(self) -> None:
        """Note that there is no waiter any more. That can be repeated."""
        key = self.channel, self.label
        if self.subscriptions.groups.get(key) is self:
            del self.subscriptions.groups[key]

    def stop_listening(self, waiter: WaiterT) -> Subscription | None:
        """Give up what only this waiter needed, which has left. Returns its channel if that is idle now."""
        return None if self.waiters else self.subscriptions.remove(waiter.channel, self, self.now())

    # ---- for messages, with the mutex ----------------------------------------------------------------------------

    def notify(self, how_many: int) -> None:
        """Let the first ``how_many`` attempt now."""
        left = len(self.waiters) if how_many == ALL else how_many
        for waiter in self.waiters:
            if left <= 0:
                return
            left -= 1
            waiter.notify()

    def notify_all(self) -> None:
        """Let all of them attempt now."""
        self.notify(ALL)

    def confirmed(self, channel: str) -> None:
        """Note that messages arrive on a channel from now on."""
        self.notify(1)

    def received(self, channel: str, payload: bytes) -> None:
        """Process a message."""
        self.notify(self.notifies(payload))

    def refused(self, channel: str, error: Exception) -> None:
        """Note that the server refuses a subscription: the waiters raise the error."""
        self.error = error
        self.end()
        self.notify_all()

    # ---- when the first one attempts, with the mutex -------------------------------------------------------------

    def expect(self, retry_in: float) -> None:
        """Set the next check, after an answer that serves all."""
        maximum = self.subscriptions.max_wait
        self.next_check = self.now() + min(retry_in, maximum)
        self.without_message = retry_in > maximum

    def expect_sooner(self, retry_in: float) -> None:
        """Set it only if it is sooner then: this answer was one waiter's."""
        due = self.now() + min(retry_in, self.subscriptions.max_wait)
        if due < self.next_check:
            self.next_check, self.without_message = due, False
            self.wake_before(self.first())

    def check_at(self, when: float) -> None:
        """Let the first one attempt at a time, whatever the last answer was."""
        self.soon = when
        self.wake_before(self.first())

    def wake_before(self, waiter: WaiterT | None) -> None:
        """Let the first one set its alarm anew if it would sleep for too long."""
        if waiter is not None and self.due() < waiter.sleeps_until:
            waiter.ticket.ring()

    def __repr__(self) -> str:
        state: dict[str, Any] = {"waiters": len(self.waiters), "next_check": self.next_check, "soon": self.soon}
        return f"<{type(self).__name__} {self.channel!r} {self.label!r} {state}>"
