"""The channels that a client subscribes to, and the groups of waiters that their messages concern. Nothing here blocks.

A channel is received on one connection: the only one of a client, or on a cluster that of the channel's node. What
happens to a connection concerns its own channels. A channel can move to another connection, where it has to be
confirmed again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from pyredisson._core.diagnosis.error_text import INTERRUPTED
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from pyredisson._core.names import QueueNames
    from pyredisson._core.runtime import Runtime
    from pyredisson._core.waiting.wait_groups import WaitGroup

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

    def settled(self) -> bool:
        """Return whether no confirmation is due: it has arrived, or the first waiter was interrupted before that."""
        return self.confirmed or not self.requested


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
        idle = min((each.idle_since for each in self.idle.values() if each.settled()), default=math.inf)
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
        self._channels: dict[str, Subscription] = {}
        self.connection: SubscriberConnection = SubscriberConnection(self._channels)
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
        subscription = self._channels.get(channel)
        if subscription is None:
            subscription = self._channels[channel] = Subscription(channel, self.connection)
        subscription.groups[group] = None
        subscription.connection.idle.pop(channel, None)
        subscription.idle_since = math.inf
        return subscription

    def remove(self, channel: str, group: WaitGroup[Any], idle_since: float) -> Subscription | None:
        """Let a group receive them no longer. That can be repeated. Returns the channel if it is idle now."""
        subscription = self._channels.get(channel)
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
        subscription = self._channels.get(channel)
        return subscription.messages if subscription is not None and subscription.confirmed else None

    def has_waiters(self, channel: str, label: str) -> bool:
        """Return whether any waiter has that label here. Does not block."""
        return (channel, label) in self.groups

    def lingers(self, channel: str, label: str) -> bool:
        """Return whether a channel is subscribed to, although no waiter with this label needs it any more."""
        subscription = self._channels.get(channel)
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
            return list(self._channels if connection is None else connection.channels)

    def unconfirmed(self, connection: SubscriberConnection) -> list[str]:
        """Return those of a connection whose messages do not arrive yet, or no longer."""
        with self.mutex:
            return [name for name, each in connection.channels.items() if not each.confirmed]

    def connection_of(self, channel: str) -> SubscriberConnection:
        """Return where a channel is received."""
        subscription = self._channels.get(channel)
        return self.connection if subscription is None else subscription.connection

    def move(self, channel: str, connection: SubscriberConnection) -> SubscriberConnection | None:
        """Note that a channel is received elsewhere from now on. Returns where it was, ``None`` if nothing changes."""
        with self.mutex:
            subscription = self._channels.get(channel)
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
            subscription = self._channels.get(channel)
            if subscription is None or subscription.connection is not connection:
                return
            subscription.confirmed = True
            subscription.messages += 1
            for group in subscription.groups:
                group.confirmed(channel)

    def received(self, channel: str, payload: bytes, connection: SubscriberConnection | None = None) -> None:
        """Process a message."""
        with self.mutex:
            subscription = self._channels.get(channel)
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
            gone = [each.name for each in idle if each.idle_since + LINGER <= now and each.settled()]
            for name in gone:
                self._forget(name, connection)
            return gone

    def _forget(self, name: str, connection: SubscriberConnection) -> None:
        self._channels.pop(name, None)
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
