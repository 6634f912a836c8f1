"""Which waiters attempt, and when: the rules at the top of ``wait_groups.py``, one by one."""

from __future__ import annotations

import math

import pytest

from pyredisson.core.waiting.pubsub_wait import lock_message
from pyredisson.core.waiting.subscriptions import Subscriptions
from pyredisson.core.waiting.wait_groups import ALL
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import CHANNEL, MAX_WAIT, has_to_attempt, idle_and_confirmed, join, leave, settle, woken

# ---- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "how_many"),
    [(b"0", 1), (b"1", ALL), (b"", 0), (b"2", 0), (b"00", 0), (b"-1", 0), (b"\xff", 0), (b" 0", 0)],
)
def test_how_many_waiters_a_message_of_a_lock_notifies(payload: bytes, how_many: int) -> None:
    assert lock_message(payload) == how_many


# ---- rule 1: messages may be lost ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retry_in", "sleep"), [(3.0, 3.0), (MAX_WAIT + 1, MAX_WAIT), (math.inf, MAX_WAIT), (0.001, 0.001)]
)
def test_the_first_attempts_by_itself_after_the_given_time_or_the_longest(
    subscriptions: Subscriptions, retry_in: float, sleep: float
) -> None:
    waiter = join(subscriptions, retry_in=retry_in)
    assert waiter.group.sleep_until(waiter, math.inf, 1000.0) == pytest.approx(1000 + sleep)


def test_no_waiter_sleeps_past_its_deadline(subscriptions: Subscriptions) -> None:
    first, second = join(subscriptions), join(subscriptions)
    assert first.group.sleep_until(first, 1002.0, 1000.0) == 1002.0
    assert second.group.sleep_until(second, 1001.0, 1000.0) == 1001.0


# ---- rule 2: one attempts for all ------------------------------------------------------------------------------------


def test_a_message_notifies_the_first(subscriptions: Subscriptions) -> None:
    first, second = join(subscriptions), join(subscriptions)
    settle(subscriptions, first, second)
    subscriptions.received(CHANNEL, b"0")
    assert (woken(first), woken(second)) == (1, 0)
    assert has_to_attempt(first)
    assert first.was_notified
    assert not has_to_attempt(first), "a notification is used up"
    assert not has_to_attempt(second)


def test_a_message_for_some_notifies_the_first_ones(subscriptions: Subscriptions) -> None:
    waiters = [join(subscriptions, notifies=int) for _ in range(3)]
    settle(subscriptions, *waiters)
    subscriptions.received(CHANNEL, b"2")
    assert [woken(waiter) for waiter in waiters] == [1, 1, 0]


# ---- rule 3: what a waiter passes on that leaves ---------------------------------------------------------------------


def test_a_notification_that_was_not_used_is_passed_on(subscriptions: Subscriptions) -> None:
    first, second, third = (join(subscriptions) for _ in range(3))
    settle(subscriptions, first, second, third)
    subscriptions.received(CHANNEL, b"0")
    leave(first)
    assert (woken(second), woken(third)) == (1, 0)
    assert has_to_attempt(second)


def test_with_the_duty_to_attempt_goes_the_alarm(subscriptions: Subscriptions) -> None:
    first, second = join(subscriptions, retry_in=2.0), join(subscriptions, retry_in=2.0)
    settle(subscriptions, first, second)
    assert second.sleeps_until == pytest.approx(1000 + MAX_WAIT)
    leave(first)
    assert woken(second) == 1, "its alarm was set for later than the check that is its own now"
    assert second.group.sleep_until(second, math.inf, 1000.0) == 1002.0


# ---- rule 4: confirmations -------------------------------------------------------------------------------------------


def test_a_confirmation_notifies_the_first_of_each_group(subscriptions: Subscriptions) -> None:
    writers = [join(subscriptions, "write") for _ in range(2)]
    readers = [join(subscriptions, "read") for _ in range(2)]
    subscriptions.confirmed(CHANNEL)
    assert [woken(waiter) for waiter in writers + readers] == [1, 0, 1, 0]


# ---- the gap between an attempt and joining --------------------------------------------------------------------------


def test_a_newcomer_to_a_channel_that_was_received_all_along_need_not_attempt_again(
    subscriptions: Subscriptions,
) -> None:
    seen = idle_and_confirmed(subscriptions)
    assert not has_to_attempt(join(subscriptions, seen=seen))


def test_a_release_between_the_attempt_and_joining_is_not_missed(subscriptions: Subscriptions) -> None:
    seen = idle_and_confirmed(subscriptions)
    subscriptions.received(CHANNEL, b"0")
    assert has_to_attempt(join(subscriptions, seen=seen))


def test_nor_is_one_before_messages_arrived(subscriptions: Subscriptions) -> None:
    idle_and_confirmed(subscriptions)
    assert has_to_attempt(join(subscriptions, seen=None))


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_a_refused_subscription_wakes_all_and_the_next_one_may_try_again(
    subscriptions: Subscriptions, world: FakeRuntime
) -> None:
    waiters = [join(subscriptions) for _ in range(3)]
    error = PermissionError("NOPERM")
    subscriptions.refuse(error)
    assert [woken(waiter) for waiter in waiters] == [1, 1, 1]
    assert all(waiter.group.error is error for waiter in waiters)
    assert subscriptions.wanted() == []
    newcomer = join(subscriptions)
    assert newcomer.group.error is None
    assert world.subscriptions == [CHANNEL, CHANNEL]
    for waiter in waiters:
        leave(waiter, pass_on=True)
    assert subscriptions.waiting(CHANNEL) == 1
    assert subscriptions.wanted() == [CHANNEL]
    assert subscriptions.idle_due() == math.inf
    assert woken(newcomer) == 0
