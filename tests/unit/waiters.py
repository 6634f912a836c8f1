"""Waiters of one client, in a world of virtual time, for the tests of groups, subscriptions and the wait queue."""

import math

from pyredisson._core.subscriptions import Notifies, Subscriptions, Waiter, WaitGroup
from pyredisson._core.waiting import lock_message
from tests.unit.fake import FakeTicket

CHANNEL = "redisson_lock__channel:{orders}"
#: The longest time without a check.
MAX_WAIT = 10.0


def new_waiter(
    subscriptions: Subscriptions, label: str = "lock", *, channel: str = CHANNEL, notifies: Notifies = lock_message
) -> Waiter:
    """Make a waiter, which has not joined its group yet."""
    return Waiter(WaitGroup(subscriptions, channel, label, notifies), subscriptions.runtime.ticket())


def join(
    subscriptions: Subscriptions,
    label: str = "lock",
    *,
    channel: str = CHANNEL,
    notifies: Notifies = lock_message,
    retry_in: float = math.inf,
    seen: int | None = None,
) -> Waiter:
    """Let a waiter join those of its kind."""
    waiter = new_waiter(subscriptions, label, channel=channel, notifies=notifies)
    waiter.group.join(waiter, seen=seen, retry_in=retry_in)
    return waiter


def leave(waiter: Waiter, *, retry_in: float = math.inf, pass_on: bool = False) -> None:
    """Let a waiter leave, as a rule one that knows nothing of use to the others."""
    waiter.group.leave(waiter, retry_in=retry_in, pass_on=pass_on)


def woken(waiter: Waiter) -> int:
    """Return how often a waiter was woken since it last slept."""
    assert isinstance(waiter.ticket, FakeTicket)
    return waiter.ticket.notifications


def has_to_attempt(waiter: Waiter, now: float = 1000.0) -> bool:
    """Return whether a waiter that wakes now has to attempt."""
    return waiter.group.sleep_until(waiter, math.inf, now) <= now


def settle(subscriptions: Subscriptions, *waiters: Waiter) -> None:
    """Let the channel be confirmed, and all have attempted."""
    subscriptions.confirmed(CHANNEL)
    for waiter in waiters:
        waiter.group.sleep_until(waiter, math.inf, 1000.0)
        waiter.ticket.notifications = 0


def idle_and_confirmed(subscriptions: Subscriptions) -> int:
    """Let the channel be subscribed to and have no waiter. Return how many messages have arrived on it."""
    waiter = join(subscriptions)
    subscriptions.confirmed(CHANNEL)
    leave(waiter)
    seen = subscriptions.messages_of(CHANNEL)
    assert seen is not None
    return seen
