"""Which channels a client subscribes to, for how long, and on which connection; and whom a change wakes."""

import math

import pytest

from pyredisson._core.subscriptions import ALL, CHECK_AFTER_MESSAGE, LINGER, SubscriberConnection
from pyredisson._core.waiting import lock_message
from pyredisson.errors import LockError
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import CHANNEL, MAX_WAIT, has_to_attempt, idle_and_confirmed, join, leave, settle, woken

# ---- idle channels ---------------------------------------------------------------------------------------------------


def test_an_idle_channel_lingers_and_goes(subscriptions, world):
    idle_and_confirmed(subscriptions)
    assert world.unsubscriptions == [CHANNEL]
    left = world.now()
    assert subscriptions.idle_due() == pytest.approx(left + LINGER)
    assert subscriptions.take_idle(left + LINGER / 2) == []
    assert subscriptions.take_idle(left + LINGER * 1.01) == [CHANNEL]
    assert subscriptions.wanted() == []
    assert subscriptions.idle_due() == math.inf
    assert subscriptions.take_idle(2000.0) == []


def test_a_waiter_that_a_message_woke_need_not_wake_the_subscriber_when_it_leaves(subscriptions, world):
    waiter = join(subscriptions)
    settle(subscriptions, waiter)
    notified = world.now()
    subscriptions.received(CHANNEL, b"0")
    assert subscriptions.idle_due() == pytest.approx(notified + CHECK_AFTER_MESSAGE)
    world.time += 0.01
    left = world.now()
    leave(waiter)
    assert world.unsubscriptions == []
    assert subscriptions.take_idle(notified + CHECK_AFTER_MESSAGE) == [CHANNEL]
    assert notified + CHECK_AFTER_MESSAGE > left + LINGER
    world.time = notified + CHECK_AFTER_MESSAGE
    assert subscriptions.idle_due() == math.inf


def test_an_unconfirmed_channel_stays(subscriptions):
    """Its confirmation could be taken for that of a later subscription."""
    leave(join(subscriptions))
    assert subscriptions.idle_due() == math.inf
    assert subscriptions.take_idle(2000.0) == []
    subscriptions.confirmed(CHANNEL)
    assert subscriptions.take_idle(2000.0) == [CHANNEL]


def test_a_signal_handler_that_interrupts_a_change_of_them_cannot_wait(subscriptions, world, monkeypatch):
    monkeypatch.setattr(FakeRuntime, "inside", lambda self, mutex: True)
    with pytest.raises(LockError):
        join(subscriptions)
    assert subscriptions.waiting(CHANNEL) == 0
    assert world.subscriptions == []


# ---- connections -----------------------------------------------------------------------------------------------------


def test_a_channel_moves_to_another_connection_and_is_confirmed_anew(subscriptions):
    here, there = SubscriberConnection(), SubscriberConnection()
    waiter = join(subscriptions)
    assert subscriptions.connection_of(CHANNEL) is subscriptions.connection
    assert subscriptions.move(CHANNEL, here) is subscriptions.connection
    subscriptions.confirmed(CHANNEL, here)
    assert has_to_attempt(waiter)
    assert subscriptions.move(CHANNEL, there) is here
    assert subscriptions.move(CHANNEL, there) is None
    assert subscriptions.connection_of(CHANNEL) is there
    assert (subscriptions.wanted(here), subscriptions.wanted(there)) == ([], [CHANNEL])
    assert subscriptions.wanted() == [CHANNEL]
    assert subscriptions.unconfirmed(there) == [CHANNEL]
    assert subscriptions.messages_of(CHANNEL) is None
    subscriptions.confirmed(CHANNEL, here)  # Late.
    subscriptions.received(CHANNEL, b"0", here)
    assert not has_to_attempt(waiter)
    subscriptions.confirmed(CHANNEL, there)
    assert has_to_attempt(waiter)
    subscriptions.received(CHANNEL, b"0", there)
    assert has_to_attempt(waiter)


def test_a_connection_that_breaks_concerns_its_own_channels(subscriptions):
    here, there = SubscriberConnection(), SubscriberConnection()
    waiter = join(subscriptions)
    other = join(subscriptions, channel="another channel")
    for channel, connection in ((CHANNEL, here), ("another channel", there)):
        subscriptions.move(channel, connection)
        subscriptions.confirmed(channel, connection)
    error = ConnectionError("lost")
    subscriptions.lost_connection(error, here)
    assert (here.down, there.down) == (error, None)
    assert (waiter.is_disconnected(), other.is_disconnected()) == (True, False)
    assert subscriptions.messages_of(CHANNEL) is None
    assert subscriptions.messages_of("another channel") is not None
    subscriptions.confirmed("another channel", there)
    assert here.down is error
    subscriptions.confirmed(CHANNEL, here)
    assert here.down is None
    subscriptions.refuse(error, here)
    assert subscriptions.wanted() == ["another channel"]
    assert (waiter.group.error, other.group.error) == (error, None)


def test_an_idle_channel_stays_idle_where_it_moves(subscriptions, world):
    here, there = SubscriberConnection(), SubscriberConnection()
    waiter = join(subscriptions)
    subscriptions.move(CHANNEL, here)
    leave(waiter)
    subscriptions.move(CHANNEL, there)
    subscriptions.confirmed(CHANNEL, there)
    assert subscriptions.take_idle(world.now() + 1, here) == []
    assert subscriptions.take_idle(world.now() + 1, there) == [CHANNEL]
    assert subscriptions.wanted() == subscriptions.wanted(there) == []


def test_a_channel_that_the_server_dropped(subscriptions):
    connection = SubscriberConnection()
    join(subscriptions)
    subscriptions.move(CHANNEL, connection)
    assert not subscriptions.dropped(CHANNEL, connection), "its messages did not arrive yet"
    subscriptions.confirmed(CHANNEL, connection)
    assert subscriptions.dropped(CHANNEL, connection)
    assert not subscriptions.dropped(CHANNEL, connection)
    assert subscriptions.unconfirmed(connection) == [CHANNEL]
    assert not subscriptions.dropped("another channel", connection)


# ---- waiters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "how_many"),
    [(b"0", 1), (b"1", ALL), (b"", 0), (b"2", 0), (b"00", 0), (b"-1", 0), (b"\xff", 0), (b" 0", 0)],
)
def test_how_many_waiters_a_message_of_a_lock_notifies(payload, how_many):
    assert lock_message(payload) == how_many


def test_with_the_duty_to_attempt_goes_the_alarm(subscriptions):
    first, second = join(subscriptions, retry_in=2.0), join(subscriptions, retry_in=2.0)
    settle(subscriptions, first, second)
    assert second.sleeps_until == pytest.approx(1000 + MAX_WAIT)
    leave(first)
    assert woken(second) == 1, "its alarm was set for later than the check that is its own now"
    assert second.group.sleep_until(second, math.inf, 1000.0) == 1002.0


def test_a_confirmation_notifies_the_first_of_each_group(subscriptions):
    writers = [join(subscriptions, "write") for _ in range(2)]
    readers = [join(subscriptions, "read") for _ in range(2)]
    subscriptions.confirmed(CHANNEL)
    assert [woken(waiter) for waiter in writers + readers] == [1, 0, 1, 0]


def test_a_refused_subscription_wakes_all_and_the_next_one_may_try_again(subscriptions, world):
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
