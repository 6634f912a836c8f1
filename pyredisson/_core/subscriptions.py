"""The channels that a client subscribes to, and the groups of waiters that their messages concern. Nothing here blocks.

A channel is received on one connection: the only one of a client, or on a cluster that of the channel's node. What
happens to a connection concerns its own channels. A channel can move to another connection, where it has to be
confirmed again.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from pyredisson._core.failures import INTERRUPTED
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyredisson._core.names import QueueNames
    from pyredisson._core.requests import Answer
    from pyredisson._core.runtime import Runtime, Ticket

#: How many seconds a channel without waiters stays subscribed: the next wait saves a round trip, in both directions.
LINGER = 0.1

#: Seconds after a message until the subscriber checks for such channels: the waiter that it woke has left by then.
CHECK_AFTER_MESSAGE = 1.5 * LINGER

#: Seconds between the checks of waiters that will receive no more messages.
WITHOUT_MESSAGES = 0.1


class Subscription:
    """One channel.

    Attributes:
        name: The channel.
        connection: Where its messages are received.
        groups: The groups that its messages concern.
        requested: Whether it was subscribed to.
        confirmed: Whether its messages arrive.
        messages: How many have arrived, confirmations included.
        idle_since: Since when it has no group.
    """

    __slots__ = ("confirmed", "connection", "groups", "idle_since", "messages", "name", "requested")

    def __init__(self, name: str, connection: SubscriberConnection) -> None:
        self.name: str = name
        self.connection: SubscriberConnection = connection
        self.groups: dict[WaitGroup[Any], None] = {}
        self.requested: bool = False
        self.confirmed: bool = False
        self.messages: int = 0
        self.idle_since: float = math.inf

    def awaits_confirmation(self) -> bool:
        """Return whether a confirmation is due; not if the first waiter was interrupted before it requested one."""
        return self.requested and not self.confirmed


class SubscriberConnection:
    """One connection on which messages arrive, and its channels.

    Attributes:
        channels: Its channels, by name.
        idle: Those without groups.
        checks_at: When the subscriber next checks for idle ones.
        message_at: When a message arrived of late, after which waiters may leave.
        down: Why there is no connection.
    """

    __slots__ = ("channels", "checks_at", "down", "idle", "message_at")

    def __init__(self, channels: dict[str, Subscription] | None = None) -> None:
        self.channels: dict[str, Subscription] = {} if channels is None else channels
        self.idle: dict[str, Subscription] = {}
        self.checks_at: float = math.inf
        self.message_at: float = math.inf
        self.down: Exception | None = None

    def next_check(self, now: float) -> float:
        """Return when the subscriber has to check for idle channels next, as far as is known."""
        idle = min((each.idle_since for each in self.idle.values() if not each.awaits_confirmation()), default=math.inf)
        if self.message_at + CHECK_AFTER_MESSAGE <= now:
            self.message_at = math.inf
        self.checks_at = min(idle + LINGER, self.message_at + CHECK_AFTER_MESSAGE)
        return self.checks_at

    def checks_soon_after(self, idle_since: float) -> bool:
        """Return whether the subscriber checks soon enough for a channel that has just become idle."""
        return idle_since <= self.checks_at <= idle_since + CHECK_AFTER_MESSAGE


class Subscriptions:
    """The channels of one client, and its wait groups.

    Attributes:
        mutex: Protects all of this, and the groups.
        groups: The wait groups, by the channel and the label of each.
        connection: The only connection; on a cluster, that of the channels that have not been given one yet.
        closed: Why no waiter can wait any more.
        queue_numbers: Numbers for the groups with a place in a wait queue.
        may_queue: Whether the server lets this client use wait queues, as far as is known.
        last_resorts: How many waits were ended by an attempt that only the lack of a message had caused.
    """

    def __init__(self, runtime: Runtime, max_wait_without_check: float) -> None:
        self.runtime: Runtime = runtime
        self.max_wait: float = max_wait_without_check
        self.mutex: AbstractContextManager[Any] = runtime.mutex()
        self.groups: dict[tuple[str, str], WaitGroup[Any]] = {}
        self.channels: dict[str, Subscription] = {}
        self.connection: SubscriberConnection = SubscriberConnection(self.channels)
        self.closed: Exception | None = None
        self.queue_numbers: Iterator[int] = itertools.count(1)
        self.may_queue: bool = True
        self.last_resorts: int = 0

    def wait_queue_keys(self, names: QueueNames) -> tuple[str, ...]:
        """Return the key of the wait queue, for a script that can do without; none if it has to."""
        return (names.waiting,) if self.may_queue else ()

    # ---- for the groups, which have the mutex --------------------------------------------------------------------

    def add(self, channel: str, group: WaitGroup[Any]) -> Subscription:
        """Let a group receive the messages of a channel, once :meth:`request` was called."""
        subscription = self.channels.get(channel)
        if subscription is None:
            subscription = self.channels[channel] = Subscription(channel, self.connection)
        subscription.groups[group] = None
        subscription.connection.idle.pop(channel, None)
        subscription.idle_since = math.inf
        return subscription

    def remove(self, channel: str, group: WaitGroup[Any], idle_since: float) -> Subscription | None:
        """Let a group receive them no longer. That can be repeated. Returns the channel if it is idle now."""
        subscription = self.channels.get(channel)
        if subscription is None:
            return None
        subscription.groups.pop(group, None)
        if subscription.groups:
            return None
        subscription.connection.idle[channel] = subscription
        subscription.idle_since = min(subscription.idle_since, idle_since)
        return subscription

    # ---- for the groups, without the mutex -----------------------------------------------------------------------

    def refuse_interrupter(self) -> None:
        """Raise ``LockError`` for a signal handler that would wait for what the interrupted call keeps from others."""
        if self.runtime.inside(self.mutex):
            raise LockError(INTERRUPTED)

    def request(self, subscription: Subscription) -> None:
        """Subscribe to a channel, unless that was done."""
        if not subscription.requested:
            self.runtime.subscribe(subscription.name)
            subscription.requested = True  # Last: a waiter that is interrupted before leaves it to the next one.

    def end_soon(self, idle: Subscription | None) -> None:
        """See to it that the subscriber leaves a channel that has become idle."""
        # Unless it checks in time anyway: to wake it at every hand-over costs more than all else here.
        if idle is not None and not idle.connection.checks_soon_after(idle.idle_since):
            self.runtime.unsubscribe(idle.name)

    # ---- for those who acquire and release -----------------------------------------------------------------------

    def messages_of(self, channel: str) -> int | None:
        """Return how many messages have arrived on a channel; ``None`` if none arrive. To call before an attempt."""
        subscription = self.channels.get(channel)
        return subscription.messages if subscription is not None and subscription.confirmed else None

    def has_waiters(self, channel: str, label: str) -> bool:
        """Return whether any waiter has that label here. Does not block."""
        return (channel, label) in self.groups

    def lingers(self, channel: str, label: str) -> bool:
        """Return whether a channel is subscribed to, although no waiter with this label needs it any more."""
        subscription = self.channels.get(channel)
        if subscription is None or not subscription.confirmed:
            return False
        return not any(group.label == label for group in list(subscription.groups))

    def hint(self, channel: str, label: str, retry_in: float, how_many: int = 1) -> None:
        """Note that an attempt may succeed in ``retry_in`` seconds. If that is now, ``how_many`` waiters do."""
        with self.mutex:
            group = self.groups.get((channel, label))
            if group is not None and retry_in <= 0:
                group.notify(how_many)
            elif group is not None:
                group.expect_sooner(retry_in)

    def waiting(self, channel: str, label: str | None = None) -> int:
        """Return how many waiters wait here for what is announced on a channel, or those with one label."""
        with self.mutex:
            groups = [each for each in self.groups.values() if each.announced_on == channel]
            return sum(len(each.waiters) for each in groups if label in (None, each.label))

    # ---- for the subscriber, or on a cluster for each ------------------------------------------------------------

    def wanted(self, connection: SubscriberConnection | None = None) -> list[str]:
        """Return every channel to be subscribed to, or those of one connection."""
        with self.mutex:
            return list(self.channels if connection is None else connection.channels)

    def unconfirmed(self, connection: SubscriberConnection) -> list[str]:
        """Return those of a connection whose messages do not arrive yet, or no longer."""
        with self.mutex:
            return [name for name, each in connection.channels.items() if not each.confirmed]

    def connection_of(self, channel: str) -> SubscriberConnection:
        """Return where a channel is received."""
        subscription = self.channels.get(channel)
        return self.connection if subscription is None else subscription.connection

    def move(self, channel: str, connection: SubscriberConnection) -> SubscriberConnection | None:
        """Note that a channel is received elsewhere from now on. Returns where it was, ``None`` if nothing changes."""
        with self.mutex:
            subscription = self.channels.get(channel)
            if subscription is None or subscription.connection is connection:
                return None
            former = subscription.connection
            if former is not self.connection:  # Which has them all, always.
                del former.channels[channel]
            connection.channels[channel] = subscription
            if former.idle.pop(channel, None) is not None:
                connection.idle[channel] = subscription
            subscription.connection = connection
            subscription.confirmed = False
            return former

    def confirmed(self, channel: str, connection: SubscriberConnection | None = None) -> None:
        """Note that the messages of a channel arrive from now on: what was sent before was not received."""
        connection = connection or self.connection
        with self.mutex:
            connection.down = None
            subscription = self.channels.get(channel)
            if subscription is None or subscription.connection is not connection:
                return
            subscription.confirmed = True
            subscription.messages += 1
            for group in subscription.groups:
                group.confirmed(channel)

    def received(self, channel: str, payload: bytes, connection: SubscriberConnection | None = None) -> None:
        """Process a message."""
        with self.mutex:
            subscription = self.channels.get(channel)
            if subscription is None or subscription.connection is not (connection or self.connection):
                return
            subscription.connection.message_at = self.runtime.now()
            subscription.messages += 1
            groups = list(subscription.groups)
            for group in groups:
                group.received(channel, payload)
        for group in groups:
            for each in group.to_request:
                self.request(each)

    def dropped(self, channel: str, connection: SubscriberConnection) -> bool:
        """Note that the server sends a channel's messages no longer. Returns whether it did, and they are needed."""
        with self.mutex:
            subscription = connection.channels.get(channel)
            if subscription is None or not subscription.confirmed:
                return False
            subscription.confirmed = False
            return True

    def lost_connection(self, error: Exception, connection: SubscriberConnection | None = None) -> None:
        """Note that no messages arrive on a connection until each of its channels is confirmed again."""
        connection = connection or self.connection
        with self.mutex:
            connection.down = error
            for subscription in connection.channels.values():
                subscription.confirmed = False

    def take_idle(self, now: float, connection: SubscriberConnection | None = None) -> list[str]:
        """Forget the channels that had no waiters of late, and return them."""
        connection = connection or self.connection
        if not connection.idle:  # After most messages, when those who are woken need what this thread keeps.
            return []
        with self.mutex:
            # Not before a confirmation that is due: it could be taken for that of a later subscription.
            idle = connection.idle.values()
            gone = [each.name for each in idle if each.idle_since + LINGER <= now and not each.awaits_confirmation()]
            for name in gone:
                self._forget(name, connection)
            return gone

    def _forget(self, name: str, connection: SubscriberConnection) -> None:
        self.channels.pop(name, None)
        connection.channels.pop(name, None)
        connection.idle.pop(name, None)

    def idle_due(self, connection: SubscriberConnection | None = None) -> float:
        """Return when :meth:`take_idle` will find something next, as far as is known."""
        with self.mutex:
            return (connection or self.connection).next_check(self.runtime.now())

    def refuse(
        self,
        error: Exception,
        connection: SubscriberConnection | None = None,
        channels: Container[str] | None = None,
    ) -> None:
        """Note that the server refuses a subscription to these channels (``None``: to all of a connection)."""
        connection = connection or self.connection
        with self.mutex:
            for name, subscription in list(connection.channels.items()):
                if channels is None or name in channels:
                    for group in subscription.groups:
                        group.refused(name, error)
                    self._forget(name, connection)  # The next one who waits tries again.

    def check_often(self) -> None:
        """Check often from now on: the task that receives the messages was cancelled, as when an event loop ends."""
        with self.mutex:
            self.max_wait = min(self.max_wait, WITHOUT_MESSAGES)
            for group in self.groups.values():
                group.notify_all()

    def close(self, error: Exception) -> None:
        """Wake all waiters with an error, now and forever."""
        with self.mutex:
            self.closed = error
            for group in self.groups.values():
                group.notify_all()


# ---- wait groups -----------------------------------------------------------------------------------------------------
# The waiters of a client, in groups of those who want the same.
#
# Rules kept here:
# 1. Messages may be lost, late or spurious. They only say "attempt again"; the first waiter of a group attempts by
#    itself in any case, after the time of its last answer or ``Config.max_wait_without_check``, whichever is less.
# 2. A client attempts once for all waiters of one channel who want the same. The first one of the group does it; the
#    answer serves all. A message notifies the first; when it has acquired it leaves, and its unlock notifies the next.
# 3. A waiter that leaves a group after a notification that it did not use passes it on, and with it the duty to
#    attempt.
# 4. A subscription that has just been confirmed (also after a reconnect) notifies the first of each group: what was
#    published before then did not arrive. A group in a wait queue is notified when its own channel is confirmed.


ALL: Final = 1 << 30
"""As a number of waiters to notify: more than there are."""

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

    __slots__ = (
        "channel",
        "group",
        "leaves_queue",
        "notified",
        "since",
        "sleeps_until",
        "subscription",
        "ticket",
        "was_notified",
        "without_message",
    )

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
        self.ticket.notify()

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
            waiter.channel = subscription.name  # For its memory: the waiters of a channel share one string.
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
        for waiter in itertools.islice(self.waiters, min(how_many, ALL)):
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
            waiter.ticket.notify()

    def __repr__(self) -> str:
        state: dict[str, Any] = {"waiters": len(self.waiters), "next_check": self.next_check, "soon": self.soon}
        return f"<{type(self).__name__} {self.channel!r} {self.label!r} {state}>"
