"""Whom a message of a semaphore or latch notifies, and which numbers there may be."""

import math
from typing import Any

import pytest

from pyredisson._core.client import ClientCore
from pyredisson._core.runtime import run
from pyredisson._core.subscriptions import ALL, Subscriptions, Waiter
from pyredisson._kinds.numbered import opened_message
from pyredisson._kinds.permits import permits_message
from pyredisson._kinds.semaphores import PermitSemaphoreCore
from pyredisson.config import Config
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import join, woken


@pytest.mark.parametrize(
    ("payload", "each", "notified"),
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
def test_how_many_waiters_a_message_of_permits_notifies(payload, each, notified):
    assert permits_message(payload, each, some=False) == notified
    assert permits_message(payload, each, some=True) == (1 if payload == b"1" else notified)


def test_a_latch_that_opened_notifies_the_waiter_that_attempts_for_all():
    assert opened_message(b"0") == 1
    for payload in (b"1", b"7", b"", b"00"):
        assert opened_message(payload) == 0


# ---- hints -------------------------------------------------------------------------------------------------------


def joined(subscriptions: Subscriptions, label: str, count: int) -> list[Waiter]:
    return [join(subscriptions, label, channel="channel", notifies=lambda payload: 0) for _ in range(count)]


def alarm(waiter: Waiter, now: float) -> float:
    return waiter.group.sleep_until(waiter, math.inf, now)


@pytest.mark.parametrize(("how_many", "notified"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (ALL, [1, 1, 1])])
def test_a_hint_for_now_notifies_the_first_of_that_label(world, subscriptions, how_many, notified):
    ours, theirs = joined(subscriptions, "ours", 3), joined(subscriptions, "theirs", 1)
    subscriptions.hint("channel", "ours", 0, how_many)
    assert [*map(woken, ours)] == notified
    assert [*map(woken, theirs)] == [0]
    assert alarm(ours[0], world.now()) == -math.inf


def test_a_hint_for_later_sets_the_alarm_of_the_first(world, subscriptions):
    waiters = joined(subscriptions, "ours", 2)
    now = world.now()
    assert alarm(waiters[0], now) == now + 10
    subscriptions.hint("channel", "ours", 3.0)
    assert [*map(woken, waiters)] == [1, 0]
    assert alarm(waiters[0], now) == now + 3
    subscriptions.hint("channel", "ours", 5.0)  # It attempts before that in any case.
    assert [*map(woken, waiters)] == [1, 0]
    assert alarm(waiters[0], now) == now + 3


# ---- interruptions ---------------------------------------------------------------------------------------------------


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


def test_an_interruption_at_the_end_of_a_block_takes_precedence_over_the_error_of_its_body():
    client = ClientCore(Interrupted(), Config())
    block = PermitSemaphoreCore(client, "orders").hold(0, None, skip=False)
    run(block.enter())
    with pytest.raises(TimeLimitExceeded):
        run(block.leave(ValueError("of the body")))
