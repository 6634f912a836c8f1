"""The place of a client in the wait queue: its rules are in ``waiting.py``."""

import math

import pytest

from pyredisson._core.names import ACQUIRED as ACQUIRED_WORD
from pyredisson._core.names import GO, NOTIFIED, NOTIFIED_ALONE, OBSERVE, OBSERVE_AND_ATTEMPT, LockNames
from pyredisson._core.requests import ACQUIRED, WITHOUT_END
from pyredisson._core.runtime import run
from pyredisson._core.subscriptions import Notifies, Subscriptions, Waiter
from pyredisson._core.waiting import NOTIFIED_FOR, QueuedGroup, QueueUpdate, lock_message
from tests.unit.waiters import has_to_attempt, leave, woken

NAMES = LockNames("orders")
CHANNEL, OBSERVERS = NAMES.channel, NAMES.waiting
OWN = NAMES.own_channel("me")


def join(
    subscriptions: Subscriptions,
    label: str = "lock",
    *,
    notifies: Notifies = lock_message,
    turn: int = 1,
    retry_in: float = math.inf,
) -> Waiter:
    group = QueuedGroup(subscriptions, NAMES, "me", label, notifies, turn=turn)
    waiter = Waiter(group, subscriptions.runtime.ticket())
    group.join(waiter, seen=None, retry_in=retry_in)
    return waiter


def group_of(waiter: Waiter) -> QueuedGroup:
    assert isinstance(waiter.group, QueuedGroup)
    return waiter.group


def begin_update(waiter: Waiter) -> QueueUpdate:
    return group_of(waiter).begin_update(waiter)


def confirmed(subscriptions: Subscriptions, *waiters: Waiter) -> None:
    """The client's own channel is confirmed, and all have attempted."""
    subscriptions.confirmed(OWN)
    for waiter in waiters:
        has_to_attempt(waiter)


def send(subscriptions: Subscriptions, channel: str, *messages: str) -> None:
    for message in messages:
        subscriptions.received(channel, message.encode())


def alarm(waiter: Waiter, now: float = 1000.0) -> float:
    return waiter.group.sleep_until(waiter, math.inf, now)


@pytest.fixture
def first(subscriptions: Subscriptions) -> Waiter:
    """The first waiter of its client."""
    return join(subscriptions)


@pytest.fixture
def observer(subscriptions: Subscriptions) -> Waiter:
    """A waiter whose client observes, and has attempted."""
    return as_observer(subscriptions)


# ---- waiters ---------------------------------------------------------------------------------------------------------


def test_the_first_one_of_a_group_attempts_although_its_channel_is_confirmed(subscriptions, first):
    confirmed(subscriptions, first)
    leave(first)
    assert has_to_attempt(join(subscriptions))


def test_as_many_attempt_as_the_turn_of_their_client_is_for(subscriptions):
    waiters = [join(subscriptions, turn=2) for _ in range(3)]
    confirmed(subscriptions, *waiters)
    send(subscriptions, OWN, GO)
    assert [has_to_attempt(waiter) for waiter in waiters] == [True, True, False]


def test_each_group_has_another_number(subscriptions, first):
    """A late request concerns no later group."""
    leave(first)
    assert (group_of(first).member, group_of(join(subscriptions)).member) == ("me:1", "me:2")


def test_one_that_joins_does_not_put_off_the_check_of_the_others(subscriptions, world):
    """The client may be in the queue no more: the message that it was its turn was lost."""
    first = join(subscriptions, retry_in=4.0)
    world.time += 2.0
    join(subscriptions, retry_in=30.0)
    assert alarm(first, world.now()) == pytest.approx(1004.0)
    join(subscriptions, retry_in=1.0)
    assert alarm(first, world.now()) == pytest.approx(1003.0)


def test_an_attempt_says_for_how_long_its_client_waits_and_for_how_long_when_it_succeeds(subscriptions, first, world):
    world.time += 2
    second = join(subscriptions)
    world.time += 1
    assert first.group is second.group
    assert begin_update(first) == QueueUpdate(1, "me:1", 3000, 1000, notified=False)
    assert begin_update(second) == QueueUpdate(2, "me:1", 3000, 3000, notified=False)
    leave(first)
    assert begin_update(second) == QueueUpdate(3, "me:1", 1000, None, notified=False)


@pytest.mark.parametrize(("answer", "left"), [(ACQUIRED, None), (WITHOUT_END, "me:1")])
def test_the_last_one_has_its_client_taken_out_unless_its_attempt_has(subscriptions, answer, left):
    updates = []

    async def attempt(update):
        updates.append(update)
        return answer

    first = join(subscriptions)
    assert run(group_of(first).check(first, attempt)) is answer
    leave(first)
    assert updates == [QueueUpdate(1, "me:1", 0, None, notified=False)]
    assert first.leaves_queue == left


def test_an_earlier_attempt_does_not_say_that_the_client_has_left(first):
    update = begin_update(first)
    begin_update(first)
    group_of(first).acquired(update)
    leave(first)
    assert first.leaves_queue == "me:1"


def test_an_attempt_is_known_that_only_the_lack_of_a_message_has_caused(subscriptions, first):
    confirmed(subscriptions, first)
    assert not first.without_message
    assert has_to_attempt(first, 1010.0)
    assert first.without_message
    first.group.answered(first, math.inf)
    assert not first.without_message


def test_one_that_came_during_the_last_attempt_of_its_client_attempts(subscriptions, first):
    confirmed(subscriptions, first)
    update = begin_update(first)
    second = join(subscriptions)
    assert not has_to_attempt(second)
    group_of(first).acquired(update)
    leave(first)
    assert first.leaves_queue is None
    assert has_to_attempt(second)


# ---- observers -------------------------------------------------------------------------------------------------------


def test_a_new_observer_that_was_refused_just_now_attempts_when_it_receives_the_messages_of_the_lock(
    subscriptions, first, world
):
    confirmed(subscriptions, first)
    send(subscriptions, OWN, OBSERVE_AND_ATTEMPT, OBSERVE_AND_ATTEMPT)
    assert world.subscriptions == [OWN, OBSERVERS, CHANNEL]
    subscriptions.confirmed(OBSERVERS)
    assert not has_to_attempt(first)
    subscriptions.confirmed(CHANNEL)
    assert has_to_attempt(first)
    assert subscriptions.waiting(CHANNEL) == 1
    leave(first)
    world.time += 1
    assert {*subscriptions.take_idle(world.time)} == {OWN, OBSERVERS, CHANNEL}


def test_a_new_observer_that_has_waited_leaves_what_was_before_to_the_other_one(subscriptions, first):
    confirmed(subscriptions, first)
    send(subscriptions, OWN, OBSERVE)
    subscriptions.confirmed(OBSERVERS)
    subscriptions.confirmed(CHANNEL)
    assert not has_to_attempt(first)
    assert alarm(first) == pytest.approx(1000.2), "unless both observers are gone"


def as_observer(subscriptions: Subscriptions, *, notifies: Notifies = lock_message) -> Waiter:
    first = join(subscriptions, notifies=notifies)
    confirmed(subscriptions, first)
    send(subscriptions, OWN, OBSERVE_AND_ATTEMPT)
    subscriptions.confirmed(OBSERVERS)
    subscriptions.confirmed(CHANNEL)
    assert has_to_attempt(first)
    return first


def test_after_a_notification_alone_the_usual_message_is_of_another_release(subscriptions, observer):
    send(subscriptions, OBSERVERS, NOTIFIED_ALONE)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer)


def test_one_that_was_notified_takes_the_usual_message_of_that_release_for_no_other(subscriptions, observer):
    send(subscriptions, OWN, GO)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer)
    assert not has_to_attempt(observer)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer), "that of another release"


def test_one_that_another_attempt_has_appointed_since_its_turn_goes_on_to_observe(subscriptions, observer):
    """The server counts on it; so a release that nobody received would wake no one."""
    send(subscriptions, OWN, GO, OBSERVE)
    assert begin_update(observer).notified
    assert has_to_attempt(observer)
    assert not has_to_attempt(observer)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer)


def test_after_a_reconnect_the_usual_message_is_of_another_release(subscriptions, observer):
    send(subscriptions, OBSERVERS, NOTIFIED)
    subscriptions.lost_connection(ConnectionError("lost"))
    subscriptions.confirmed(CHANNEL)
    assert has_to_attempt(observer)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer)


@pytest.mark.parametrize("word", [OBSERVE, OBSERVE_AND_ATTEMPT])
def test_one_that_is_appointed_again_soon_is_still_subscribed(subscriptions, observer, world, word):
    send(subscriptions, OWN, GO)
    assert has_to_attempt(observer)
    begin_update(observer)
    send(subscriptions, OWN, word)
    assert world.subscriptions == [OWN, OBSERVERS, CHANNEL]
    assert has_to_attempt(observer) == (word == OBSERVE_AND_ATTEMPT)
    if word == OBSERVE:
        assert alarm(observer) == pytest.approx(1000.2)
    send(subscriptions, CHANNEL, "0")
    assert has_to_attempt(observer), "that is of another release"


def test_an_observer_can_do_without_channels_that_the_server_refuses(subscriptions, observer):
    subscriptions.refuse(PermissionError("NOPERM"), channels=[CHANNEL])
    assert observer.group.error is None
    assert has_to_attempt(observer)
    assert {*subscriptions.wanted()} == {OWN, OBSERVERS}
    send(subscriptions, OWN, GO)
    assert has_to_attempt(observer)


def test_without_its_own_channel_a_client_cannot_wait_in_the_queue(subscriptions):
    first, second = join(subscriptions), join(subscriptions)
    error = PermissionError("NOPERM")
    subscriptions.refuse(error, channels=[OWN])
    assert first.group.error is error
    assert (woken(first), woken(second)) == (1, 1)


# ---- permits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [NOTIFIED, ACQUIRED_WORD, NOTIFIED_ALONE, GO, OBSERVE, OBSERVE_AND_ATTEMPT, "in 5"])
def test_a_message_on_the_channel_of_a_semaphore_is_none_of_the_queue(subscriptions, payload):
    """A number there is a number of permits."""
    received = []

    def notifies(payload):
        received.append(payload)
        return 1

    first = as_observer(subscriptions, notifies=notifies)
    send(subscriptions, CHANNEL, payload)
    assert received == [payload.encode()]
    assert has_to_attempt(first)


def test_the_first_client_attempts_when_a_permit_expires(subscriptions, observer):
    send(subscriptions, OWN, "in 1500")
    send(subscriptions, OBSERVERS, NOTIFIED)
    assert alarm(observer) == 1000 + NOTIFIED_FOR
    send(subscriptions, OBSERVERS, ACQUIRED_WORD)
    assert alarm(observer) == 1001.501
    assert has_to_attempt(observer, 1001.501)
    assert not observer.without_message
    begin_update(observer)
    send(subscriptions, OBSERVERS, ACQUIRED_WORD)
    assert alarm(observer) == 1010.0


@pytest.mark.parametrize("payload", ["in ", "in x", "in 1.5", "in -5", "\N{SUPERSCRIPT TWO}"])
def test_a_message_that_cannot_be_read_is_no_error(subscriptions, observer, payload):
    send(subscriptions, OWN, payload)
    subscriptions.received(OWN, b"\xff")
    assert not has_to_attempt(observer)
