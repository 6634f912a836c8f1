"""Which channels an error of a server concerns, on the connection of a subscriber."""

from __future__ import annotations

import pytest
import redis.exceptions as rx
from pyredisson.core.subscriptions import Wakeups
from pyredisson.core.waiters import Seat, lock_message

from pyredisson.core.failures import Rejected
from pyredisson.net.conversation import Conversation
from tests.unit.fake import FakeRuntime

OWN, CHANNEL, OTHER = "pyredisson_waiting:{orders}:me", "redisson_lock__channel:{orders}", "redisson_lock__channel:{b}"
REFUSAL = rx.NoPermissionError("NOPERM No permissions to access a channel")
MOVED = rx.ResponseError("MOVED 1 127.0.0.1:1")


@pytest.fixture
def wakeups() -> Wakeups:
    return Wakeups(FakeRuntime(), 10.0)


def conversation(wakeups: Wakeups, *, sharded: bool = False) -> Conversation:
    return Conversation(wakeups, wakeups.line, sharded=sharded, ping_interval=30, ping_timeout=10, now=0.0)


def wait_on(wakeups: Wakeups, channel: str) -> Seat:
    seat = wakeups.seat(channel, "lock", lock_message)
    wakeups.sit(seat, seen=None, look_in=10.0)
    return seat


def subscribed(channel: str, sharded: bool) -> list[object]:
    return [b"ssubscribe" if sharded else b"subscribe", channel.encode(), 1]


def is_refused(seat: Seat) -> bool:
    error = seat.bench.channel.error
    assert error is None or isinstance(error, Rejected)
    return error is not None


@pytest.mark.parametrize("sharded", [False, True])
def test_a_refusal_concerns_the_channels_of_its_command(wakeups: Wakeups, sharded: bool) -> None:
    talk = conversation(wakeups, sharded=sharded)
    seats = {name: wait_on(wakeups, name) for name in (CHANNEL, OWN, OTHER)}
    for name in seats:
        talk.subscribe([name], 0.0)
    talk.heard([subscribed(CHANNEL, sharded), REFUSAL, subscribed(OTHER, sharded)], 1.0)
    assert {name: is_refused(seat) for name, seat in seats.items()} == {CHANNEL: False, OWN: True, OTHER: False}


@pytest.mark.parametrize("sharded", [False, True])
def test_a_channel_that_was_asked_for_twice_is_refused_twice_and_no_other(wakeups: Wakeups, sharded: bool) -> None:
    own = wait_on(wakeups, OWN)
    talk = conversation(wakeups, sharded=sharded)
    talk.begin(0.0)
    talk.subscribe([OWN], 0.0)
    talk.heard([REFUSAL], 1.0)
    assert is_refused(own)
    usual = wait_on(wakeups, CHANNEL)
    talk.subscribe([CHANNEL], 1.0)
    talk.heard([REFUSAL], 2.0)
    assert not is_refused(usual)
    talk.heard([subscribed(CHANNEL, sharded)], 3.0)
    assert usual.bench.channel.confirmed


@pytest.mark.parametrize("sharded", [False, True])
def test_a_refusal_on_a_new_connection_concerns_one_channel(wakeups: Wakeups, sharded: bool) -> None:
    """One whose user may not use lists of waiters subscribes to the usual channel while its own is still wanted."""
    seats = {name: wait_on(wakeups, name) for name in (OWN, CHANNEL)}
    talk = conversation(wakeups, sharded=sharded)
    word = b"SSUBSCRIBE" if sharded else b"SUBSCRIBE"
    assert talk.begin(0.0).count(word) == 2
    talk.heard([REFUSAL, subscribed(CHANNEL, sharded)], 1.0)
    assert {name: is_refused(seat) for name, seat in seats.items()} == {OWN: True, CHANNEL: False}


@pytest.mark.parametrize("before", [[], [subscribed(CHANNEL, True)]], ids=["not asked for", "answered"])
def test_an_error_that_answers_no_subscription_concerns_all(wakeups: Wakeups, before: list[object]) -> None:
    seats = [wait_on(wakeups, name) for name in (CHANNEL, OWN)]
    talk = conversation(wakeups, sharded=True)
    if before:
        talk.subscribe([CHANNEL], 0.0)
        talk.heard(before, 1.0)
    talk.heard([REFUSAL], 2.0)
    assert all(map(is_refused, seats))


def test_after_a_slot_has_moved_answers_still_find_their_channels(wakeups: Wakeups) -> None:
    seats = {name: wait_on(wakeups, name) for name in (CHANNEL, OWN)}
    talk = conversation(wakeups, sharded=True)
    talk.subscribe([CHANNEL], 0.0)
    talk.heard([MOVED], 1.0)
    talk.subscribe([OWN], 1.0)
    talk.heard([subscribed(CHANNEL, True), REFUSAL], 2.0)
    assert {name: is_refused(seat) for name, seat in seats.items()} == {CHANNEL: False, OWN: True}
