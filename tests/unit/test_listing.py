"""What a bench has on the server's list of those who wait: the rules at the top of ``listing.py``."""

from __future__ import annotations

import math

import pytest
from pyredisson.core.listing import BACKUP, Listing, Look
from pyredisson.core.subscriptions import Wakeups
from pyredisson.core.waiters import Seat, lock_message

from tests.unit.fake import FakeRuntime

CHANNEL = "redisson_lock__channel:{orders}"
EARS = "pyredisson_waiting:{orders}"
OWN = f"{EARS}:me"


@pytest.fixture
def world() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def wakeups(world: FakeRuntime) -> Wakeups:
    return Wakeups(world, 10.0)


def sit(wakeups: Wakeups, world: FakeRuntime) -> Seat:
    listing = Listing("me:1", CHANNEL, EARS, lock_message, world.now)
    seat = wakeups.seat(OWN, "lock", listing.message, listing=listing)
    wakeups.sit(seat, seen=None, look_in=math.inf)
    return seat


def listing_of(seat: Seat) -> Listing:
    assert seat.bench.listing is not None
    return seat.bench.listing


def looks(wakeups: Wakeups, seat: Seat, now: float = 1000.0) -> bool:
    return wakeups.sleep_until(seat, math.inf, now) <= now


def confirmed(wakeups: Wakeups, *seats: Seat) -> None:
    wakeups.confirmed(OWN)
    for seat in seats:
        looks(wakeups, seat)


def test_the_first_attempts_when_its_channel_is_confirmed(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second = sit(wakeups, world), sit(wakeups, world)
    wakeups.confirmed(OWN)
    assert looks(wakeups, first)
    assert not looks(wakeups, second)


def test_one_that_comes_to_an_empty_bench_attempts_although_its_channel_is_confirmed(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert looks(wakeups, sit(wakeups, world))


def test_an_attempt_says_for_how_long_its_client_waits_and_for_how_long_when_it_succeeds(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first = sit(wakeups, world)
    world.time += 2
    second = sit(wakeups, world)
    world.time += 1
    listing = listing_of(first)
    assert listing is listing_of(second)
    assert listing.begin_look(first) == Look(1, "me:1", 3000, 1000, chosen=False)
    assert listing.begin_look(second) == Look(2, "me:1", 3000, 3000, chosen=False)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert listing.begin_look(second) == Look(3, "me:1", 1000, -1, chosen=False)


def test_the_next_attempt_says_that_it_was_told(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    wakeups.rang(OWN, b"go")
    assert looks(wakeups, first)
    assert listing_of(first).begin_look(first).chosen
    assert not listing_of(first).begin_look(first).chosen


def test_one_that_came_during_the_last_attempt_of_its_client_attempts(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    listing = listing_of(first)
    look = listing.begin_look(first)
    second = sit(wakeups, world)
    assert not looks(wakeups, second)
    listing.acquired(look)
    assert wakeups.leave(first, look_in=math.inf, pass_on=False) is None
    assert looks(wakeups, second)


@pytest.mark.parametrize(("acquired", "left"), [(True, None), (False, "me:1")])
def test_the_last_one_has_its_client_taken_off_unless_its_attempt_has(
    wakeups: Wakeups, world: FakeRuntime, acquired: bool, left: str | None
) -> None:
    first = sit(wakeups, world)
    look = listing_of(first).begin_look(first)
    if acquired:
        listing_of(first).acquired(look)
    assert wakeups.leave(first, look_in=math.inf, pass_on=False) == left


def test_one_that_never_attempted_is_on_no_list(wakeups: Wakeups, world: FakeRuntime) -> None:
    assert wakeups.leave(sit(wakeups, world), look_in=math.inf, pass_on=False) is None


@pytest.mark.parametrize(("payload", "look_in"), [(b"only", 0.0), (b"ear", BACKUP)])
def test_an_ear_listens_to_the_channel_of_the_lock(
    wakeups: Wakeups, world: FakeRuntime, payload: bytes, look_in: float
) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    wakeups.rang(OWN, payload)
    wakeups.rang(OWN, payload)
    assert world.subscriptions == [OWN, EARS, CHANNEL]
    wakeups.confirmed(EARS)
    assert not looks(wakeups, first)
    wakeups.confirmed(CHANNEL)
    assert wakeups.sleep_until(first, math.inf, 1000.0) == (1000 + look_in if look_in else -math.inf)
    assert wakeups.waiting(CHANNEL) == 1
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    world.time += 1
    assert {*wakeups.take_idle(world.time)} == {OWN, EARS, CHANNEL}


def as_ear(wakeups: Wakeups, world: FakeRuntime) -> Seat:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    wakeups.rang(OWN, b"only")
    wakeups.confirmed(EARS)
    wakeups.confirmed(CHANNEL)
    assert looks(wakeups, first)
    return first


def test_an_ear_attempts_when_one_releases_that_does_not_know_the_list(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first)


def test_an_ear_leaves_a_release_to_the_one_that_was_told(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(EARS, b"2")
    wakeups.rang(CHANNEL, b"0")
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1000 + BACKUP
    wakeups.rang(EARS, b"3")
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1010.0
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first)


def test_one_that_was_told_takes_the_usual_message_of_that_release_for_no_other(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(OWN, b"go")
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first)
    assert not looks(wakeups, first)
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first), "that of another release"


def test_one_that_was_told_and_has_attempted_takes_the_next_usual_message(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(OWN, b"go")
    assert looks(wakeups, first)
    listing_of(first).begin_look(first)
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first)


def test_an_ear_attempts_if_the_one_that_was_told_does_not(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(EARS, b"4")
    assert not looks(wakeups, first)
    assert looks(wakeups, first, 1000 + BACKUP)


def test_a_look_that_only_the_lack_of_a_message_has_caused_is_known(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    assert not first.by_cap
    assert looks(wakeups, first, 1010.0)
    assert first.by_cap


@pytest.mark.parametrize("payload", [b"2", b"3", b"4", b"go", b"in 5"])
def test_a_number_on_the_channel_of_a_semaphore_is_a_number_of_permits(
    wakeups: Wakeups, world: FakeRuntime, payload: bytes
) -> None:
    first = as_ear(wakeups, world)
    heard: list[bytes] = []
    listing_of(first)._usual = lambda payload: heard.append(payload) or 1
    wakeups.rang(CHANNEL, payload)
    assert heard == [payload]
    assert looks(wakeups, first)


def test_the_first_client_looks_when_a_permit_expires(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(OWN, b"in 1500")
    wakeups.rang(EARS, b"2")
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1000 + BACKUP
    wakeups.rang(EARS, b"3")
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1001.501
    assert looks(wakeups, first, 1001.501)
    assert not first.by_cap
    listing_of(first).begin_look(first)
    wakeups.rang(EARS, b"3")
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1010.0


@pytest.mark.parametrize("payload", [b"in ", b"in x", b"in 1.5"])
def test_a_message_that_cannot_be_read_is_no_error(wakeups: Wakeups, world: FakeRuntime, payload: bytes) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(OWN, payload)
    assert not looks(wakeups, first)


def test_a_look_when_a_permit_expires_is_not_caused_by_the_lack_of_a_message(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first = sit(wakeups, world)
    confirmed(wakeups, first)
    wakeups.hint(OWN, first.bench.kind, 5.0)
    assert looks(wakeups, first, 1005.0)
    assert not first.by_cap


def test_an_ear_whose_client_is_off_the_list_hears_its_turn_alone(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    listing = listing_of(first)
    listing.begin_look(first)
    listing.given_back = True
    for payload in (b"2", b"4"):
        wakeups.rang(EARS, payload)
        wakeups.rang(CHANNEL, b"0")
    assert not looks(wakeups, first, 1000 + BACKUP)
    wakeups.rang(OWN, b"go")
    assert looks(wakeups, first)
    listing.begin_look(first)
    wakeups.rang(CHANNEL, b"0")
    assert looks(wakeups, first)


def test_one_attempt_answers_what_was_said_on_several_channels(wakeups: Wakeups, world: FakeRuntime) -> None:
    first = as_ear(wakeups, world)
    wakeups.rang(CHANNEL, b"0")
    first.begin(1000.0)
    assert first.rung
    assert not looks(wakeups, first)
    wakeups.rang(EARS, b"2")
    first.begin(1000.0)
    assert wakeups.sleep_until(first, math.inf, 1000.0) == 1000 + BACKUP
    first.begin(1000 + BACKUP)
    assert not looks(wakeups, first, 1000 + BACKUP)
