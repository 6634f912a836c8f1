"""Who is woken by what: the rules at the top of ``wakeups.py``, one by one."""

from __future__ import annotations

import math

import pytest
from pyredisson.core.listing import Listing
from pyredisson.core.subscriptions import LOOK_APART, Wakeups
from pyredisson.core.waiters import ALL, LINGER, LOOK_AFTER_RING, Line, Party, Seat, lock_message

from tests.unit.fake import FakeRuntime, FakeTicket

CHANNEL = "redisson_lock__channel:{orders}"
CAP = 10.0


@pytest.fixture
def world() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def wakeups(world: FakeRuntime) -> Wakeups:
    return Wakeups(world, CAP)


def sit(wakeups: Wakeups, *, kind: str = "lock", look_in: float = math.inf, seen: int | None = None) -> Seat:
    seat = wakeups.seat(CHANNEL, kind, lock_message)
    wakeups.sit(seat, seen=seen, look_in=look_in)
    return seat


def rings(seat: Seat) -> int:
    assert isinstance(seat.ticket, FakeTicket)
    return seat.ticket.rings


def has_to_look(wakeups: Wakeups, seat: Seat, now: float = 1000.0) -> bool:
    return wakeups.sleep_until(seat, math.inf, now) <= now


def settle(wakeups: Wakeups, *seats: Seat) -> None:
    """Let the channel be confirmed, and everybody have looked."""
    wakeups.confirmed(CHANNEL)
    for seat in seats:
        wakeups.sleep_until(seat, math.inf, 1000.0)
        seat.ticket.rings = 0  # type: ignore[attr-defined]


def sit_on_list(wakeups: Wakeups, world: FakeRuntime, look_in: float) -> Seat:
    listing = Listing("me:1", CHANNEL, f"{CHANNEL}:ears", lock_message, world.now)
    seat = wakeups.seat(f"{CHANNEL}:me", "lock", listing.message, listing=listing)
    wakeups.sit(seat, seen=None, look_in=look_in)
    return seat


# ---- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "how_many"),
    [(b"0", 1), (b"1", ALL), (b"", 0), (b"2", 0), (b"00", 0), (b"-1", 0), (b"\xff", 0), (b" 0", 0)],
)
def test_what_a_message_of_a_lock_wakes(payload: bytes, how_many: int) -> None:
    assert lock_message(payload) == how_many


# ---- rule 1: messages may be lost ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("look_in", "sleep"), [(3.0, 3.0), (CAP + 1, CAP), (math.inf, CAP), (0.001, 0.001)])
def test_the_first_looks_by_itself_after_the_given_time_or_the_cap(
    wakeups: Wakeups, look_in: float, sleep: float
) -> None:
    seat = sit(wakeups, look_in=look_in)
    assert wakeups.sleep_until(seat, math.inf, 1000.0) == pytest.approx(1000 + sleep)


def test_no_waiter_sleeps_past_its_deadline(wakeups: Wakeups) -> None:
    first, second = sit(wakeups), sit(wakeups)
    assert wakeups.sleep_until(first, 1002.0, 1000.0) == 1002.0
    assert wakeups.sleep_until(second, 1001.0, 1000.0) == 1001.0


def test_an_answer_sets_the_next_look(wakeups: Wakeups, world: FakeRuntime) -> None:
    seat = sit(wakeups, look_in=1.0)
    world.pass_time(1.0)
    assert has_to_look(wakeups, seat, world.now())
    wakeups.answered(seat, 2.0)
    assert wakeups.sleep_until(seat, math.inf, world.now()) == world.now() + 2.0


def test_no_answer_means_looking_again_soon(wakeups: Wakeups, world: FakeRuntime) -> None:
    seat = sit(wakeups)
    error = ConnectionError("down")
    wakeups.failed(seat, error, 0.05)
    assert seat.bench.trouble is error
    assert wakeups.sleep_until(seat, math.inf, world.now()) == pytest.approx(world.now() + 0.05)
    wakeups.answered(seat, 1.0)
    assert seat.bench.trouble is None


# ---- rule 2: one checks for all --------------------------------------------------------------------------------------


def test_one_that_joins_does_not_put_off_the_check_of_a_client_on_the_list(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    """The client may be on the list no more: what told it that it was its turn was lost."""
    first = sit_on_list(wakeups, world, look_in=4.0)
    world.time += 2.0
    sit_on_list(wakeups, world, look_in=30.0)
    assert wakeups.sleep_until(first, math.inf, world.now()) == pytest.approx(1004.0)
    sit_on_list(wakeups, world, look_in=1.0)
    assert wakeups.sleep_until(first, math.inf, world.now()) == pytest.approx(1003.0)


def test_only_the_first_has_to_look(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second, third = (sit(wakeups, look_in=1.0) for _ in range(3))
    world.pass_time(1.5)
    now = world.now()
    assert has_to_look(wakeups, first, now)
    assert not has_to_look(wakeups, second, now)
    assert not has_to_look(wakeups, third, now)
    wakeups.answered(first, 4.0)
    assert wakeups.sleep_until(first, math.inf, now) == now + 4.0


def test_a_message_rings_the_first(wakeups: Wakeups) -> None:
    first, second = sit(wakeups), sit(wakeups)
    settle(wakeups, first, second)
    wakeups.rang(CHANNEL, b"0")
    assert (rings(first), rings(second)) == (1, 0)
    assert has_to_look(wakeups, first)
    assert not has_to_look(wakeups, first), "a ring is used up"
    assert not has_to_look(wakeups, second)


def test_a_message_for_all_rings_all(wakeups: Wakeups) -> None:
    seats = [sit(wakeups) for _ in range(4)]
    settle(wakeups, *seats)
    wakeups.rang(CHANNEL, b"1")
    assert [rings(seat) for seat in seats] == [1, 1, 1, 1]
    assert all(has_to_look(wakeups, seat) for seat in seats)


def test_messages_that_say_nothing_ring_no_waiter(wakeups: Wakeups) -> None:
    seat = sit(wakeups)
    settle(wakeups, seat)
    wakeups.rang(CHANNEL, b"?")
    wakeups.rang("another channel", b"0")
    assert rings(seat) == 0


def test_each_kind_has_its_own_bench(wakeups: Wakeups) -> None:
    writers = [sit(wakeups, kind="write") for _ in range(2)]
    readers = [sit(wakeups, kind="read") for _ in range(2)]
    settle(wakeups, *writers, *readers)
    wakeups.rang(CHANNEL, b"0")
    assert [rings(seat) for seat in writers + readers] == [1, 0, 1, 0]


# ---- rule 3: whoever leaves passes on --------------------------------------------------------------------------------


def test_a_ring_that_was_not_used_is_passed_on(wakeups: Wakeups) -> None:
    first, second, third = (sit(wakeups) for _ in range(3))
    settle(wakeups, first, second, third)
    wakeups.rang(CHANNEL, b"0")
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert (rings(second), rings(third)) == (1, 0)
    assert has_to_look(wakeups, second)


def test_a_leaver_may_pass_on_a_ring_that_it_took(wakeups: Wakeups) -> None:
    first, second = sit(wakeups), sit(wakeups)
    settle(wakeups, first, second)
    wakeups.leave(first, look_in=math.inf, pass_on=True)
    assert rings(second) == 1
    assert has_to_look(wakeups, second)


def test_a_leaver_without_a_ring_wakes_no_waiter_in_vain(wakeups: Wakeups) -> None:
    first, second, third = (sit(wakeups) for _ in range(3))
    settle(wakeups, first, second, third)
    wakeups.leave(second, look_in=math.inf, pass_on=False)
    assert (rings(first), rings(third)) == (0, 0)


def test_with_the_duty_to_check_goes_the_alarm(wakeups: Wakeups) -> None:
    first = sit(wakeups, look_in=2.0)
    second = sit(wakeups, look_in=2.0)
    settle(wakeups, first, second)
    assert second.sleeps_until == pytest.approx(1000 + CAP)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert rings(second) == 1, "its alarm was set for later than the check that is its own now"
    assert wakeups.sleep_until(second, math.inf, 1000.0) == 1002.0


def test_a_waiter_that_wakes_in_time_is_not_woken(wakeups: Wakeups) -> None:
    first = sit(wakeups)
    second = sit(wakeups)
    settle(wakeups, first, second)
    wakeups.sleep_until(second, 1001.0, 1000.0)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert rings(second) == 0


def test_who_was_served_knows_when_the_next_can_be(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second = sit(wakeups, look_in=1.0), sit(wakeups, look_in=1.0)
    settle(wakeups, first, second)
    wakeups.leave(first, look_in=5.0, pass_on=False)
    assert wakeups.sleep_until(second, math.inf, world.now()) == pytest.approx(world.now() + 5.0)


def test_only_the_first_speaks_for_the_bench_when_it_leaves(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second = sit(wakeups, look_in=1.0), sit(wakeups, look_in=1.0)
    settle(wakeups, first, second)
    wakeups.leave(second, look_in=5.0, pass_on=False)
    assert wakeups.sleep_until(first, math.inf, world.now()) == pytest.approx(world.now() + 1.0)


def test_the_order_is_that_of_arrival(wakeups: Wakeups) -> None:
    seats = [sit(wakeups) for _ in range(5)]
    settle(wakeups, *seats)
    arrived, served = list(seats), []
    while seats:
        wakeups.rang(CHANNEL, b"0")
        (rung,) = (seat for seat in seats if rings(seat))
        served.append(rung)
        wakeups.sleep_until(rung, math.inf, 1000.0)
        wakeups.leave(rung, look_in=math.inf, pass_on=False)
        seats.remove(rung)
        for seat in seats:
            seat.ticket.rings = 0  # type: ignore[attr-defined]
    assert served == arrived


def test_a_waiter_interrupted_while_leaving_may_leave_again(wakeups: Wakeups) -> None:
    first, second = sit(wakeups), sit(wakeups)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    seen = rings(second)
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert rings(second) == seen
    wakeups.leave(first, look_in=math.inf, pass_on=True)
    assert rings(second) == seen + 1, "what the first time may not have come to is done now"


# ---- rule 4: confirmations -------------------------------------------------------------------------------------------


def test_a_confirmation_rings_the_first_of_every_bench(wakeups: Wakeups) -> None:
    writers = [sit(wakeups, kind="write") for _ in range(2)]
    readers = [sit(wakeups, kind="read") for _ in range(2)]
    wakeups.confirmed(CHANNEL)
    assert [rings(seat) for seat in writers + readers] == [1, 0, 1, 0]


def test_a_confirmation_after_a_reconnect_does_so_again(wakeups: Wakeups) -> None:
    first, second = sit(wakeups), sit(wakeups)
    settle(wakeups, first, second)
    error = ConnectionError("lost")
    wakeups.lost_connection(error)
    assert wakeups.line.down is error
    assert wakeups.glance(CHANNEL) is None
    wakeups.confirmed(CHANNEL)
    assert wakeups.line.down is None
    assert (rings(first), rings(second)) == (1, 0)


def test_a_confirmation_of_an_unwanted_channel_does_no_harm(wakeups: Wakeups) -> None:
    wakeups.confirmed("another channel")
    assert wakeups.wanted() == []


def test_a_channel_is_asked_for_once(wakeups: Wakeups, world: FakeRuntime) -> None:
    for _ in range(3):
        sit(wakeups)
    assert world.subscriptions == [CHANNEL]
    assert wakeups.wanted() == [CHANNEL]


# ---- the gap between an attempt and sitting down ---------------------------------------------------------------------


def test_no_waiter_listened_before(wakeups: Wakeups) -> None:
    assert wakeups.glance(CHANNEL) is None
    sit(wakeups)
    assert wakeups.glance(CHANNEL) is None, "asked for, not yet confirmed"
    wakeups.confirmed(CHANNEL)
    assert wakeups.glance(CHANNEL) == 1


def idle_and_confirmed(wakeups: Wakeups) -> int:
    """The channel is still subscribed, and nobody waits."""
    seat = sit(wakeups)
    wakeups.confirmed(CHANNEL)
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    seen = wakeups.glance(CHANNEL)
    assert seen is not None
    return seen


def test_a_newcomer_to_a_channel_heard_all_along_need_not_look_again(wakeups: Wakeups) -> None:
    seen = idle_and_confirmed(wakeups)
    seat = sit(wakeups, seen=seen)
    assert not has_to_look(wakeups, seat)


def test_a_release_between_the_attempt_and_sitting_down_is_not_missed(wakeups: Wakeups) -> None:
    seen = idle_and_confirmed(wakeups)
    wakeups.rang(CHANNEL, b"0")
    seat = sit(wakeups, seen=seen)
    assert has_to_look(wakeups, seat)


def test_nor_is_one_before_anybody_listened(wakeups: Wakeups) -> None:
    idle_and_confirmed(wakeups)
    seat = sit(wakeups, seen=None)
    assert has_to_look(wakeups, seat)


def test_with_other_waiters_a_release_has_rung_one(wakeups: Wakeups) -> None:
    first = sit(wakeups)
    settle(wakeups, first)
    seen = wakeups.glance(CHANNEL)
    wakeups.rang(CHANNEL, b"0")
    second = sit(wakeups, seen=seen)
    assert not has_to_look(wakeups, second)
    assert has_to_look(wakeups, first)


# ---- idle channels ---------------------------------------------------------------------------------------------------


def test_an_idle_channel_lingers_and_goes(wakeups: Wakeups, world: FakeRuntime) -> None:
    idle_and_confirmed(wakeups)
    assert world.unsubscriptions == [CHANNEL]
    left = world.now()
    assert wakeups.idle_due() == pytest.approx(left + LINGER)
    assert wakeups.take_idle(left + LINGER / 2) == []
    assert wakeups.take_idle(left + LINGER * 1.01) == [CHANNEL]
    assert wakeups.wanted() == []
    assert wakeups.idle_due() == math.inf
    assert wakeups.take_idle(2000.0) == []


def test_one_that_a_message_wakes_need_not_wake_the_subscriber_when_it_leaves(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    seat = sit(wakeups)
    settle(wakeups, seat)
    rung = world.now()
    wakeups.rang(CHANNEL, b"0")
    assert wakeups.idle_due() == pytest.approx(rung + LOOK_AFTER_RING)
    world.time += 0.01
    left = world.now()
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    assert world.unsubscriptions == []
    assert wakeups.take_idle(rung + LOOK_AFTER_RING) == [CHANNEL]
    assert rung + LOOK_AFTER_RING > left + LINGER
    world.time = rung + LOOK_AFTER_RING
    assert wakeups.idle_due() == math.inf


def test_one_that_leaves_long_after_a_message_wakes_the_subscriber(wakeups: Wakeups, world: FakeRuntime) -> None:
    seat = sit(wakeups)
    settle(wakeups, seat)
    wakeups.rang(CHANNEL, b"0")
    wakeups.idle_due()
    world.time += 2 * LOOK_AFTER_RING
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    assert world.unsubscriptions == [CHANNEL]


def test_a_waiter_that_returns_in_time_saves_a_round_trip(wakeups: Wakeups, world: FakeRuntime) -> None:
    idle_and_confirmed(wakeups)
    seat = sit(wakeups)
    assert world.subscriptions == [CHANNEL]
    assert wakeups.take_idle(2000.0) == []
    assert wakeups.waiting(CHANNEL) == 1
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    assert wakeups.take_idle(world.now() + 1) == [CHANNEL]


def test_an_unconfirmed_channel_stays(wakeups: Wakeups) -> None:
    """Its confirmation could be taken for that of a later subscription."""
    seat = sit(wakeups)
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    assert wakeups.idle_due() == math.inf
    assert wakeups.take_idle(2000.0) == []
    wakeups.confirmed(CHANNEL)
    assert wakeups.take_idle(2000.0) == [CHANNEL]


def test_no_waiter_is_forgotten_while_another_kind_waits(wakeups: Wakeups, world: FakeRuntime) -> None:
    writer, reader = sit(wakeups, kind="write"), sit(wakeups, kind="read")
    wakeups.confirmed(CHANNEL)
    wakeups.leave(writer, look_in=math.inf, pass_on=False)
    assert world.unsubscriptions == []
    assert wakeups.take_idle(2000.0) == []
    wakeups.leave(reader, look_in=math.inf, pass_on=False)
    assert world.unsubscriptions == [CHANNEL]


# ---- rule 5: parties -------------------------------------------------------------------------------------------------


async def no_look(seat: Seat) -> int:
    raise AssertionError("nobody looks here")


PARTY = Party(CHANNEL, no_look, every=100.0)


def join(wakeups: Wakeups, name: str, *, look_in: float = math.inf) -> Seat:
    seat = wakeups.seat(f"{CHANNEL}:{name}", "fair", lock_message, PARTY, name)
    wakeups.sit(seat, seen=None, look_in=look_in)
    return seat


def joined(wakeups: Wakeups, world: FakeRuntime, *names: str) -> list[Seat]:
    """They all sit, their channels are confirmed, and one has looked for all."""
    seats = [join(wakeups, name) for name in names]
    for name in names:
        wakeups.confirmed(f"{CHANNEL}:{name}")
    assert has_to_look(wakeups, seats[0], world.now())
    wakeups.to_look_after(seats[0])
    wakeups.answered(seats[0], math.inf)
    for seat in seats:
        assert not has_to_look(wakeups, seat, world.now())
        seat.ticket.rings = 0  # type: ignore[attr-defined]
    return seats


def test_a_message_rings_the_one_whose_channel_it_is(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second, third = joined(wakeups, world, "a", "b", "c")
    wakeups.rang(f"{CHANNEL}:b", b"0")
    assert [rings(seat) for seat in (first, second, third)] == [0, 1, 0]
    assert has_to_look(wakeups, second, world.now())
    assert second.rung
    wakeups.call(f"{CHANNEL}:c")
    assert rings(third) == 1
    assert wakeups.waiting(CHANNEL) == 3


def test_the_first_of_a_party_looks_for_newcomers_and_in_time_for_everybody(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first, second = joined(wakeups, world, "a", "b")
    world.pass_time(1.0)
    third = join(wakeups, "c")
    wakeups.confirmed(f"{CHANNEL}:c")
    assert rings(first) == 1
    assert has_to_look(wakeups, first, world.now())
    assert not first.rung
    assert wakeups.to_look_after(first) == ([first, third], False)
    wakeups.answered(first, math.inf)
    world.pass_time(99.0)
    assert has_to_look(wakeups, first, world.now())
    assert wakeups.to_look_after(first) == ([first, second, third], True)
    wakeups.look_after_all(first, 100.0)
    assert wakeups.to_look_after(first) == ([first], False)


def test_what_one_of_a_party_learns_for_itself_can_only_make_the_next_look_come_sooner(
    wakeups: Wakeups, world: FakeRuntime
) -> None:
    first, second = joined(wakeups, world, "a", "b")
    wakeups.answered(first, 5.0)  # by a look
    assert wakeups.sleep_until(first, math.inf, world.now()) == world.now() + 5.0
    third = wakeups.seat(f"{CHANNEL}:c", "fair", lock_message, PARTY, "c")
    wakeups.sit(third, seen=0, look_in=8.0)
    assert rings(first) == 0
    assert wakeups.sleep_until(first, math.inf, world.now()) == world.now() + 5.0
    fourth = wakeups.seat(f"{CHANNEL}:d", "fair", lock_message, PARTY, "d")
    wakeups.sit(fourth, seen=0, look_in=3.0)
    assert rings(first) == 1, "it has to set its alarm anew"
    assert wakeups.sleep_until(first, math.inf, world.now()) == world.now() + 3.0
    wakeups.rang(f"{CHANNEL}:b", b"0")
    assert has_to_look(wakeups, second, world.now())
    wakeups.answered(second, 9.0)  # by an attempt of its own
    assert wakeups.sleep_until(first, math.inf, world.now()) == world.now() + 3.0
    wakeups.leave(first, look_in=30.0, pass_on=False)
    assert wakeups.sleep_until(second, math.inf, world.now()) == world.now() + 3.0
    world.pass_time(3.0)
    assert has_to_look(wakeups, second, world.now())
    wakeups.answered(second, 9.0)  # by a look
    assert wakeups.sleep_until(second, math.inf, world.now()) == world.now() + 9.0


def test_confirmations_in_a_burst_are_looked_into_at_once_and_once_more(wakeups: Wakeups, world: FakeRuntime) -> None:
    [first] = joined(wakeups, world, "a")
    for name in "bcde":
        join(wakeups, name)
        wakeups.confirmed(f"{CHANNEL}:{name}")
    assert not has_to_look(wakeups, first, world.now())
    world.pass_time(LOOK_APART)
    assert has_to_look(wakeups, first, world.now())
    wakeups.answered(first, math.inf)
    assert not has_to_look(wakeups, first, world.now())


def test_an_attempt_without_an_answer_is_repeated_by_the_one_who_made_it(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second = joined(wakeups, world, "a", "b")
    wakeups.rang(f"{CHANNEL}:b", b"0")
    assert has_to_look(wakeups, second, world.now())
    wakeups.failed(second, ConnectionError("down"), 0.5)
    assert not has_to_look(wakeups, second, world.now())
    world.pass_time(0.5)
    assert has_to_look(wakeups, second, world.now())
    assert second.rung
    assert not has_to_look(wakeups, first, world.now())


def test_who_leaves_a_party_hands_on_the_look_that_it_may_have_begun(wakeups: Wakeups, world: FakeRuntime) -> None:
    first, second, third = joined(wakeups, world, "a", "b", "c")
    wakeups.leave(first, look_in=math.inf, pass_on=True)
    assert [rings(second), rings(third)] == [1, 0]
    assert has_to_look(wakeups, second, world.now())
    assert not second.rung, "it looks for all, and attempts nothing"
    assert world.unsubscriptions == [f"{CHANNEL}:a"]


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_a_refusal_wakes_everybody_and_the_next_may_try_again(wakeups: Wakeups, world: FakeRuntime) -> None:
    seats = [sit(wakeups) for _ in range(3)]
    error = PermissionError("NOPERM")
    wakeups.refuse(error)
    assert [rings(seat) for seat in seats] == [1, 1, 1]
    assert all(seat.bench.channel.error is error for seat in seats)
    assert wakeups.wanted() == []
    newcomer = sit(wakeups)
    assert newcomer.bench.channel.error is None
    assert world.subscriptions == [CHANNEL, CHANNEL]
    for seat in seats:
        wakeups.leave(seat, look_in=math.inf, pass_on=True)
    assert wakeups.waiting(CHANNEL) == 1
    assert rings(newcomer) == 0


def test_the_end_wakes_everybody_for_ever(wakeups: Wakeups) -> None:
    seats = [sit(wakeups), sit(wakeups, kind="read")]
    error = RuntimeError("closed")
    wakeups.close(error)
    assert wakeups.closed is error
    assert [rings(seat) for seat in seats] == [1, 1]


# ---- looking on ------------------------------------------------------------------------------------------------------


def test_how_many_wait(wakeups: Wakeups) -> None:
    assert wakeups.waiting(CHANNEL) == 0
    first, _, _ = sit(wakeups), sit(wakeups), sit(wakeups, kind="read")
    assert wakeups.waiting(CHANNEL) == 3
    wakeups.leave(first, look_in=math.inf, pass_on=False)
    assert wakeups.waiting(CHANNEL) == 2
    assert wakeups.waiting("another channel") == 0


# ---- rule 6: lines ---------------------------------------------------------------------------------------------------


def test_a_channel_moves_to_another_line_and_is_confirmed_anew(wakeups: Wakeups) -> None:
    here, there = Line(), Line()
    seat = sit(wakeups)
    assert wakeups.move(CHANNEL, here) is wakeups.line
    wakeups.confirmed(CHANNEL, here)
    assert has_to_look(wakeups, seat)
    assert wakeups.move(CHANNEL, there) is here
    assert wakeups.move(CHANNEL, there) is None
    assert (wakeups.wanted(here), wakeups.wanted(there), wakeups.wanted()) == ([], [CHANNEL], [CHANNEL])
    assert wakeups.unconfirmed(there) == [CHANNEL]
    assert wakeups.glance(CHANNEL) is None
    wakeups.confirmed(CHANNEL, here)  # Late.
    wakeups.rang(CHANNEL, b"0", here)
    assert not has_to_look(wakeups, seat)
    wakeups.confirmed(CHANNEL, there)
    assert has_to_look(wakeups, seat)
    wakeups.rang(CHANNEL, b"0", there)
    assert has_to_look(wakeups, seat)


def test_a_line_that_breaks_concerns_its_own_channels(wakeups: Wakeups) -> None:
    here, there = Line(), Line()
    sit(wakeups)
    other = wakeups.seat("another channel", "lock", lock_message)
    wakeups.sit(other, seen=None, look_in=math.inf)
    for channel, line in ((CHANNEL, here), ("another channel", there)):
        wakeups.move(channel, line)
        wakeups.confirmed(channel, line)
    error = ConnectionError("lost")
    wakeups.lost_connection(error, here)
    assert (here.down, there.down) == (error, None)
    assert wakeups.glance(CHANNEL) is None
    assert wakeups.glance("another channel") is not None
    wakeups.confirmed("another channel", there)
    assert here.down is error
    wakeups.confirmed(CHANNEL, here)
    assert here.down is None
    wakeups.refuse(error, here)
    assert wakeups.wanted() == ["another channel"]
    assert other.channel.error is None


def test_an_idle_channel_stays_idle_where_it_moves(wakeups: Wakeups, world: FakeRuntime) -> None:
    here, there = Line(), Line()
    seat = sit(wakeups)
    wakeups.move(CHANNEL, here)
    wakeups.leave(seat, look_in=math.inf, pass_on=False)
    wakeups.move(CHANNEL, there)
    wakeups.confirmed(CHANNEL, there)
    assert wakeups.take_idle(world.now() + 1, here) == []
    assert wakeups.take_idle(world.now() + 1, there) == [CHANNEL]
    assert wakeups.wanted() == wakeups.wanted(there) == []


def test_a_channel_that_the_server_dropped(wakeups: Wakeups) -> None:
    line = Line()
    sit(wakeups)
    wakeups.move(CHANNEL, line)
    assert not wakeups.dropped(CHANNEL, line), "it was not heard yet"
    wakeups.confirmed(CHANNEL, line)
    assert wakeups.dropped(CHANNEL, line)
    assert not wakeups.dropped(CHANNEL, line)
    assert wakeups.unconfirmed(line) == [CHANNEL]
    assert not wakeups.dropped("another channel", line)
