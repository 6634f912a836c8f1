"""The one loop that waits: how often it asks, when, and what it leaves behind."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pytest
from pyredisson.core.subscriptions import Wakeups
from pyredisson.core.waiters import lock_message

from pyredisson.core.deadline import Deadline
from pyredisson.core.failures import NotSent, Rejected, Unanswered
from pyredisson.core.outcomes import ACQUIRED, WITHOUT_END, Answer, Refused
from pyredisson.core.running import run
from pyredisson.core.waiting import RETRY, HeardOn, _Place, until_taken
from tests.unit.fake import FakeRuntime, FakeTicket

CHANNEL = "redisson_lock__channel:{orders}"
CAP = 10.0


@dataclass
class Attempts:
    """Attempts that are answered one after another, and noted with their times."""

    world: FakeRuntime
    answers: list[Answer | BaseException]
    at: list[float] = field(default_factory=list)

    async def __call__(self) -> Answer:
        self.at.append(self.world.now() - 1000)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Waiter:
    """One waiter, whose first attempt was refused, in a world of its own."""

    def __init__(
        self, *answers: Answer | BaseException, wait: float | None = None, refused: Refused = WITHOUT_END
    ) -> None:
        self.world = FakeRuntime()
        self.wakeups = Wakeups(self.world, CAP)
        self.attempts = Attempts(self.world, list(answers))
        self.wait = wait
        self.refused = refused
        self.confirm_after: float | None = 0.001

    def work(self) -> Coroutine[Any, Any, bool]:
        return until_taken(
            self.attempts,
            self.refused,
            runtime=self.world,
            channels=(HeardOn(self.wakeups, CHANNEL, self.subscriptions.messages_of(CHANNEL)),),
            lock="orders",
            kind="lock",
            message=lock_message,
            deadline=Deadline.after(self.wait, self.world.now()),
            free_after=30.0,
        )

    def run(self) -> bool:
        if self.confirm_after is not None:
            self.world.at(self.confirm_after, lambda: self.subscriptions.confirmed(CHANNEL))
        try:
            return run(self.work())
        finally:
            assert self.subscriptions.waiting(CHANNEL) == 0, "nobody is left behind"

    def ring(self, after: float, payload: bytes = b"0") -> None:
        self.world.at(after, lambda: self.subscriptions.rang(CHANNEL, payload))

    @property
    def passed(self) -> float:
        return self.world.now() - 1000


def down() -> NotSent:
    return NotSent(ConnectionError("no server"))


def test_no_time_means_no_waiting() -> None:
    waiter = Waiter(wait=0)
    assert not waiter.run()
    assert waiter.attempts.at == []
    assert waiter.world.subscriptions == []


def test_it_looks_again_when_the_subscription_stands() -> None:
    """A release between the first attempt and then has rung nobody."""
    waiter = Waiter(ACQUIRED)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001])
    assert waiter.world.subscriptions == [CHANNEL]


def test_then_it_sleeps_until_it_is_rung() -> None:
    waiter = Waiter(WITHOUT_END, ACQUIRED)
    waiter.ring(3.0)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 3.0])


def test_or_until_the_refusal_has_run_its_time() -> None:
    waiter = Waiter(Refused(2000), ACQUIRED)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 0.001 + 2.001]), "past the end, not at it"


def test_or_until_the_cap() -> None:
    waiter = Waiter(WITHOUT_END, WITHOUT_END, Refused(60_000), ACQUIRED)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 10.001, 20.001, 30.001])


def test_it_does_not_poll() -> None:
    """An hour on a lock that is held costs one look a cap, and messages cost nothing that say nothing."""
    waiter = Waiter(*[WITHOUT_END] * 1000, wait=3600)
    for second in range(1, 3600):
        waiter.ring(second + 0.5, b"?")
    assert not waiter.run()
    assert len(waiter.attempts.at) <= 3600 / CAP + 1
    assert waiter.passed == pytest.approx(3600)


def test_a_ring_that_comes_to_nothing_is_one_attempt() -> None:
    waiter = Waiter(WITHOUT_END, Refused(5000), ACQUIRED)
    waiter.ring(1.0)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 1.0, 1.0 + 5.001])


def test_rings_while_it_looks_are_not_lost() -> None:
    waiter = Waiter(WITHOUT_END, ACQUIRED)
    waiter.ring(0.0)
    waiter.confirm_after = 0.0
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.0, 0.0])


def test_out_of_time() -> None:
    waiter = Waiter(WITHOUT_END, wait=4)
    assert not waiter.run()
    assert waiter.passed == pytest.approx(4)
    assert waiter.attempts.at == pytest.approx([0.001])


def test_it_never_outlives_its_wait() -> None:
    for wait in (0.0005, 0.01, 9.999, 10.0, 10.001, 25.0):
        waiter = Waiter(*[WITHOUT_END] * 10, wait=wait)
        assert not waiter.run()
        assert waiter.passed == pytest.approx(wait)


def test_without_a_subscription_it_looks_by_itself() -> None:
    """A server that never confirms one does not keep a waiter from the lock."""
    waiter = Waiter(Refused(60_000), ACQUIRED, refused=Refused(1000))
    waiter.confirm_after = None
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([1.001, 11.001])


# ---- the server goes away --------------------------------------------------------------------------------------------


def test_who_waits_lives_through_an_outage() -> None:
    waiter = Waiter(down(), Unanswered(TimeoutError()), down(), ACQUIRED)
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 0.051, 0.151, 0.351])


def test_pauses_grow_up_to_a_second() -> None:
    waiter = Waiter(*(down() for _ in range(12)), ACQUIRED)
    assert waiter.run()
    pauses = [after - before for before, after in zip(waiter.attempts.at, waiter.attempts.at[1:], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, *[RETRY.maximum] * 7])


def test_and_start_afresh_after_an_answer() -> None:
    waiter = Waiter(down(), down(), Refused(100), down(), ACQUIRED)
    assert waiter.run()
    pauses = [after - before for before, after in zip(waiter.attempts.at, waiter.attempts.at[1:], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.101, 0.05])


def test_time_that_ends_in_an_outage_is_the_connections_error() -> None:
    """Not ``False``: that would say that somebody else has the lock."""
    failure = down()
    waiter = Waiter(down(), failure, wait=0.1)
    with pytest.raises(NotSent) as caught:
        waiter.run()
    assert repr(caught.value.cause) == repr(failure.cause)
    assert waiter.passed == pytest.approx(0.1)


def test_an_answer_after_an_outage_is_an_answer() -> None:
    waiter = Waiter(down(), WITHOUT_END, wait=1)
    assert not waiter.run()


def test_with_the_subscriber_down_the_last_moment_is_worth_a_look() -> None:
    waiter = Waiter(WITHOUT_END, ACQUIRED, wait=5)
    waiter.world.at(1.0, lambda: waiter.subscriptions.lost_connection(ConnectionError("lost")))
    assert waiter.run()
    assert waiter.attempts.at == pytest.approx([0.001, 5.0])


@pytest.mark.parametrize("answer", [-1, 1000])
def test_which_may_be_in_vain(answer: int) -> None:
    waiter = Waiter(WITHOUT_END, answer, wait=5)
    waiter.world.at(1.0, lambda: waiter.subscriptions.lost_connection(ConnectionError("lost")))
    assert not waiter.run()


def test_or_get_no_answer() -> None:
    waiter = Waiter(WITHOUT_END, down(), wait=5)
    waiter.world.at(1.0, lambda: waiter.subscriptions.lost_connection(ConnectionError("lost")))
    with pytest.raises(NotSent):
        waiter.run()


def test_a_refusal_of_the_server_ends_it_at_once() -> None:
    waiter = Waiter(Rejected(TypeError("WRONGTYPE")))
    with pytest.raises(Rejected):
        waiter.run()
    assert waiter.passed == pytest.approx(0.001)


def test_so_does_one_of_the_subscription() -> None:
    waiter = Waiter()
    waiter.confirm_after = None
    waiter.world.at(1.0, lambda: waiter.subscriptions.refuse(Rejected(PermissionError("NOPERM"))))
    with pytest.raises(Rejected, match="NOPERM"):
        waiter.run()
    assert waiter.passed == pytest.approx(1.0)


def test_and_the_end_of_the_client() -> None:
    waiter = Waiter(WITHOUT_END)
    waiter.world.at(1.0, lambda: waiter.subscriptions.close(RuntimeError("closed")))
    with pytest.raises(RuntimeError, match="closed"):
        waiter.run()
    assert waiter.passed == pytest.approx(1.0)


def test_a_client_that_was_closed_meanwhile_lets_no_one_wait() -> None:
    waiter = Waiter()
    waiter.subscriptions.close(RuntimeError("closed"))
    with pytest.raises(RuntimeError, match="closed"):
        waiter.run()
    assert waiter.attempts.at == []


# ---- what it leaves behind -------------------------------------------------------------------------------------------


def beside(waiter: Waiter) -> Any:
    """Somebody else on the same bench, behind the waiter."""
    seat = waiter.subscriptions.seat(CHANNEL, "lock", lock_message)
    waiter.subscriptions.sit(seat, seen=None, look_in=math.inf)
    return seat


def follower_of(waiter: Waiter) -> list[Any]:
    """Let somebody sit down behind the waiter, once that one waits."""
    found: list[Any] = []
    waiter.world.at(0.0005, lambda: found.append(beside(waiter)))
    return found


def run_beside(waiter: Waiter) -> bool:
    waiter.world.at(0.001, lambda: waiter.subscriptions.confirmed(CHANNEL))
    return run(waiter.work())


def rings(seat: Any) -> int:
    assert isinstance(seat.ticket, FakeTicket)
    return seat.ticket.rings


def test_a_waiter_that_is_served_rings_no_other() -> None:
    """Its own unlock will."""
    waiter = Waiter(WITHOUT_END, ACQUIRED)
    followers = follower_of(waiter)
    waiter.ring(2.0)
    assert run_beside(waiter)
    (follower,) = followers
    assert rings(follower) == 0
    assert waiter.subscriptions.waiting(CHANNEL) == 1
    assert follower.bench.next_check == pytest.approx(waiter.world.now() + CAP)


def test_who_is_out_of_time_passes_on_the_duty() -> None:
    waiter = Waiter(Refused(3000), wait=1)
    followers = follower_of(waiter)
    assert not run_beside(waiter)
    (follower,) = followers
    assert waiter.subscriptions.sleep_until(follower, math.inf, waiter.world.now()) == pytest.approx(1000.001 + 3.001)


def test_a_ring_at_the_last_moment_goes_to_the_next() -> None:
    waiter = Waiter(WITHOUT_END, wait=1)
    followers = follower_of(waiter)
    waiter.ring(1.0)
    assert not run_beside(waiter)
    (follower,) = followers
    assert rings(follower) == 1
    assert waiter.subscriptions.sleep_until(follower, math.inf, waiter.world.now()) == -math.inf


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_who_is_interrupted_passes_on_what_it_may_have_had(leaving: Callable[[], BaseException]) -> None:
    waiter = Waiter(WITHOUT_END, leaving())
    followers = follower_of(waiter)
    waiter.ring(2.0)
    with pytest.raises(leaving):  # type: ignore[call-overload]
        run_beside(waiter)
    (follower,) = followers
    assert rings(follower) == 1


def test_one_attempt_serves_all_who_wait() -> None:
    waiter = Waiter(Refused(4000), wait=1)
    followers = follower_of(waiter)
    assert not run_beside(waiter)
    assert len(waiter.attempts.at) == 1
    assert followers[0].bench.next_check == pytest.approx(1000.001 + 4.001)


@pytest.mark.parametrize("outcome", [ACQUIRED, Rejected(PermissionError("NOPERM"))], ids=["acquired", "refused"])
@pytest.mark.parametrize("where", [_Place.leave, Wakeups.leave], ids=["place", "seat"])
def test_an_interruption_as_it_begins_to_leave_keeps_it_from_nothing(
    where: Callable[..., None], outcome: Answer | BaseException
) -> None:
    waiter = Waiter(outcome)
    waiter.ring(1.0)

    def interrupt(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code is where.__code__:
            sys.settrace(None)
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            waiter.run()
    finally:
        sys.settrace(before)
