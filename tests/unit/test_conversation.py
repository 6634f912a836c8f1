"""Which channels an error of a server concerns, on the connection of a subscriber."""

import pytest
import redis.exceptions as rx

from pyredisson._core.failures import Rejected
from pyredisson._core.subscriptions import Subscriptions, Waiter
from pyredisson._net.subscriber import Conversation
from tests.unit.waiters import join

OWN, CHANNEL, OTHER = "pyredisson_waiting:{orders}:me", "redisson_lock__channel:{orders}", "redisson_lock__channel:{b}"
REFUSAL = rx.NoPermissionError("NOPERM No permissions to access a channel")
MOVED = rx.ResponseError("MOVED 1 127.0.0.1:1")
ASK = rx.ResponseError("ASK 1 127.0.0.1:1")


def conversation(subscriptions: Subscriptions, *, sharded: bool = False) -> Conversation:
    return Conversation(
        subscriptions, subscriptions.connection, sharded=sharded, ping_interval=30, ping_timeout=10, now=0.0
    )


def subscribed(channel: str, sharded: bool) -> list[object]:
    return [b"ssubscribe" if sharded else b"subscribe", channel.encode(), 1]


def is_refused(waiter: Waiter) -> bool:
    error = waiter.group.error
    assert error is None or isinstance(error, Rejected)
    return error is not None


@pytest.mark.parametrize("sharded", [False, True])
def test_a_refusal_concerns_the_channels_of_its_command(subscriptions, sharded):
    talk = conversation(subscriptions, sharded=sharded)
    waiters = {name: join(subscriptions, channel=name) for name in (CHANNEL, OWN, OTHER)}
    for name in waiters:
        talk.subscribe([name], 0.0)
    talk.heard([subscribed(CHANNEL, sharded), REFUSAL, subscribed(OTHER, sharded)], 1.0)
    assert {name: is_refused(waiter) for name, waiter in waiters.items()} == {CHANNEL: False, OWN: True, OTHER: False}


@pytest.mark.parametrize("sharded", [False, True])
def test_a_channel_that_was_subscribed_to_twice_is_refused_twice_and_no_other(subscriptions, sharded):
    own = join(subscriptions, channel=OWN)
    talk = conversation(subscriptions, sharded=sharded)
    talk.begin(0.0)
    talk.subscribe([OWN], 0.0)
    talk.heard([REFUSAL], 1.0)
    assert is_refused(own)
    usual = join(subscriptions, channel=CHANNEL)
    talk.subscribe([CHANNEL], 1.0)
    talk.heard([REFUSAL], 2.0)
    assert not is_refused(usual)
    talk.heard([subscribed(CHANNEL, sharded)], 3.0)
    assert usual.subscription is not None
    assert usual.subscription.confirmed


@pytest.mark.parametrize("sharded", [False, True])
def test_a_refusal_on_a_new_connection_concerns_one_channel(subscriptions, sharded):
    """One whose user may not use wait queues subscribes to the usual channel while its own is still wanted."""
    waiters = {name: join(subscriptions, channel=name) for name in (OWN, CHANNEL)}
    talk = conversation(subscriptions, sharded=sharded)
    word = b"SSUBSCRIBE" if sharded else b"SUBSCRIBE"
    assert talk.begin(0.0).count(word) == 2
    talk.heard([REFUSAL, subscribed(CHANNEL, sharded)], 1.0)
    assert {name: is_refused(waiter) for name, waiter in waiters.items()} == {OWN: True, CHANNEL: False}


@pytest.mark.parametrize("before", [[], [subscribed(CHANNEL, True)]], ids=["not subscribed to", "answered"])
def test_an_error_that_answers_no_subscription_concerns_all(subscriptions, before):
    waiters = [join(subscriptions, channel=name) for name in (CHANNEL, OWN)]
    talk = conversation(subscriptions, sharded=True)
    if before:
        talk.subscribe([CHANNEL], 0.0)
        talk.heard(before, 1.0)
    talk.heard([REFUSAL], 2.0)
    assert all(map(is_refused, waiters))


def test_after_a_slot_has_moved_answers_still_find_their_channels(subscriptions):
    waiters = {name: join(subscriptions, channel=name) for name in (CHANNEL, OWN)}
    talk = conversation(subscriptions, sharded=True)
    talk.subscribe([CHANNEL], 0.0)
    talk.heard([MOVED], 1.0)
    talk.subscribe([OWN], 1.0)
    talk.heard([subscribed(CHANNEL, True), REFUSAL], 2.0)
    assert {name: is_refused(waiter) for name, waiter in waiters.items()} == {CHANNEL: False, OWN: True}


def test_a_farewell_that_is_refused_while_its_slot_moves_is_said_again(subscriptions):
    waiter = join(subscriptions, channel=CHANNEL)
    talk = conversation(subscriptions, sharded=True)
    talk.subscribe([CHANNEL], 0.0)
    talk.heard([subscribed(CHANNEL, True)], 1.0)
    farewell = talk.farewell([OTHER], 1.0)
    talk.heard([ASK], 2.0)
    assert not is_refused(waiter)
    assert talk.searches(2.0)
    assert talk.searched_elsewhere(2.0) == farewell
    talk.heard([ASK], 2.0)
    assert not talk.searches(2.0)  # The slot may move for long.
    assert talk.searches(3.0)
    talk.searched_elsewhere(3.0)
    talk.heard([[b"sunsubscribe", OTHER.encode(), 1]], 3.0)
    assert not talk.searches(60.0)
