"""What semaphores and latches are called in Redis, how many waiters a message wakes, and which numbers there may be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyredisson.core.subscriptions import Wakeups
from pyredisson.core.waiters import ALL, Seat

from pyredisson.config import Config
from pyredisson.core.client import ClientCore
from pyredisson.core.names import LatchNames, SemaphoreNames
from pyredisson.core.running import run
from pyredisson.kinds.latch import latch_message
from pyredisson.kinds.numbered import MAX_COUNT, count_of
from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore
from pyredisson.kinds.permits import permits_message
from tests.unit.fake import FakeRuntime, FakeTicket

OWNER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


@pytest.mark.parametrize(
    ("name", "channel", "taken", "gate", "done"),
    [
        (
            "orders",
            "redisson_sc:{orders}",
            "{orders}:timeout",
            "redisson_countdownlatch__channel__{orders}",
            "pyredisson_done:{orders}:",
        ),
        (
            "{shop}orders",
            "redisson_sc:{shop}orders",
            "{shop}orders:timeout",
            "redisson_countdownlatch__channel__{{shop}orders}",
            "pyredisson_done:{shop}orders:",
        ),
    ],
)
def test_names(name: str, channel: str, taken: str, gate: str, done: str) -> None:
    """The examples of the protocol, section 1.5."""
    semaphore, latch = SemaphoreNames(name), LatchNames(name)
    assert (semaphore.raw, semaphore.channel, semaphore.taken) == (name, channel, taken)
    assert (latch.raw, latch.channel) == (name, gate)
    assert semaphore.done(OWNER) == latch.done(OWNER) == done + OWNER


@pytest.mark.parametrize(
    ("payload", "each", "woken"),
    [
        (b"1", 1, 1),
        (b"5", 1, 5),
        (b"5", 2, 2),
        (b"1", 2, 0),
        (b"0", 1, 0),
        (b"-1", 1, 0),
        (b"-7", 3, 0),
        (b"", 1, 0),
        (b"x", 1, 0),
        (b"1.5", 1, 0),
        (b"9" * 30, 1, int("9" * 30)),
    ],
)
def test_how_many_waiters_a_message_of_permits_wakes(payload: bytes, each: int, woken: int) -> None:
    assert permits_message(payload, each) == woken


def test_a_latch_that_opened_wakes_the_one_who_looks_for_all() -> None:
    assert latch_message(b"0") == 1
    for payload in (b"1", b"7", b"", b"00"):
        assert latch_message(payload) == 0


@pytest.mark.parametrize("value", [0, 1, 2**31, MAX_COUNT])
def test_numbers_that_may_be(value: int) -> None:
    assert count_of(value, "n") == value
    assert count_of(-value, "n", signed=True) == -value


@pytest.mark.parametrize("value", [-1, MAX_COUNT + 1, -MAX_COUNT - 1])
def test_numbers_that_may_not_be(value: int) -> None:
    with pytest.raises(ValueError, match="permits"):
        count_of(value, "permits")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, b"1", math.nan])
def test_what_is_no_number(value: Any) -> None:
    with pytest.raises(TypeError, match="permits"):
        count_of(value, "permits", signed=True)


# ---- hints -------------------------------------------------------------------------------------------------------


def seated(wakeups: Wakeups, kind: str, count: int) -> list[Seat]:
    seats = []
    for _ in range(count):
        seat = wakeups.seat("channel", kind, lambda payload: 0)
        wakeups.sit(seat, seen=None, look_in=math.inf)
        seats.append(seat)
    return seats


def rings(seats: list[Seat]) -> list[int]:
    found = []
    for seat in seats:
        assert isinstance(seat.ticket, FakeTicket)
        found.append(seat.ticket.rings)
    return found


@pytest.mark.parametrize(("how_many", "rung"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (ALL, [1, 1, 1])])
def test_a_hint_for_now_rings_the_first_of_that_kind(how_many: int, rung: list[int]) -> None:
    runtime = FakeRuntime()
    wakeups = Wakeups(runtime, 10.0)
    ours, theirs = seated(wakeups, "ours", 3), seated(wakeups, "theirs", 1)
    wakeups.hint("channel", "ours", 0, how_many)
    assert rings(ours) == rung
    assert rings(theirs) == [0]
    assert wakeups.sleep_until(ours[0], math.inf, runtime.now()) == -math.inf


def test_a_hint_for_later_sets_the_alarm_of_the_first() -> None:
    runtime = FakeRuntime()
    wakeups = Wakeups(runtime, 10.0)
    seats = seated(wakeups, "ours", 2)
    now = runtime.now()
    assert wakeups.sleep_until(seats[0], math.inf, now) == now + 10
    wakeups.hint("channel", "ours", 3.0)
    assert rings(seats) == [1, 0]
    assert wakeups.sleep_until(seats[0], math.inf, now) == now + 3
    wakeups.hint("channel", "ours", 5.0)  # It looks before that in any case.
    assert rings(seats) == [1, 0]
    assert wakeups.sleep_until(seats[0], math.inf, now) == now + 3


def test_a_hint_without_a_waiter_is_forgotten() -> None:
    wakeups = Wakeups(FakeRuntime(), 10.0)
    wakeups.hint("channel", "ours", 0)
    seats = seated(wakeups, "ours", 1)
    wakeups.hint("channel", "theirs", 0)
    wakeups.hint("another", "ours", 0)
    assert rings(seats) == [0]


class TimeLimitExceeded(Exception):
    """What a signal handler raises in the middle of a call."""


class Interrupted(FakeRuntime):
    """A runtime whose release of a permit is interrupted."""

    async def eval(self, request: Any, timeout: float) -> Any:
        if request[0] == "permit_acquire":
            return [1, 0, 30_000]
        raise TimeLimitExceeded

    async def guard(self, work: Any, budget: float, *, leaving: bool = True) -> None:
        work.close()


def test_an_interruption_at_the_end_of_a_block_takes_precedence_over_the_error_of_its_body() -> None:
    client = ClientCore(Interrupted(), Config())
    block = PermitSemaphoreCore(client, "orders").hold(0, None, skip=False)
    run(block.enter())
    with pytest.raises(TimeLimitExceeded):
        run(block.leave(ValueError("of the body")))
