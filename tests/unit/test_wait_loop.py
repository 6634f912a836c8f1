"""The one loop that waits: how often it attempts, when, and what it leaves behind."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyredisson._core.deadline import RETRY, Deadline
from pyredisson._core.failures import NotSent, Rejected
from pyredisson._core.requests import ACQUIRED, AT_ONCE, WITHOUT_END, Answer, Refused
from pyredisson._core.runtime import run
from pyredisson._core.subscriptions import Subscriptions, Waiter, WaitGroup
from pyredisson._core.waiting import lock_message, wait_loop
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import CHANNEL, MAX_WAIT, has_to_attempt, join, new_waiter, woken


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


class Call:
    """One call that waits, whose first attempt was refused, in a world of its own."""

    def __init__(
        self, *answers: Answer | BaseException, wait: float | None = None, refused: Refused = WITHOUT_END
    ) -> None:
        self.world = FakeRuntime()
        self.subscriptions = Subscriptions(self.world, MAX_WAIT)
        self.attempts = Attempts(self.world, list(answers))
        self.wait = wait
        self.refused = refused
        self.confirm_after: float | None = 0.001

    def work(self) -> Coroutine[Any, Any, bool]:
        waiter, seen = new_waiter(self.subscriptions), self.subscriptions.messages_of(CHANNEL)
        deadline = Deadline.after(self.wait, self.world.now())
        return wait_loop(self.attempts, self.refused, [(waiter, seen)], self.world, deadline, free_after=30.0)

    def run(self) -> bool:
        if self.confirm_after is not None:
            self.world.at(self.confirm_after, lambda: self.subscriptions.confirmed(CHANNEL))
        try:
            return run(self.work())
        finally:
            assert self.subscriptions.waiting(CHANNEL) == 0, "no waiter is left behind"

    def notify(self, after: float, payload: bytes = b"0") -> None:
        self.world.at(after, lambda: self.subscriptions.received(CHANNEL, payload))

    @property
    def passed(self) -> float:
        return self.world.now() - 1000


def down() -> NotSent:
    return NotSent(ConnectionError("no server"))


def test_it_sleeps_until_the_refusal_has_run_its_time():
    call = Call(Refused(2000), ACQUIRED)
    assert call.run()
    assert call.attempts.at == pytest.approx([0.001, 0.001 + 2.001]), "past the end, not at it"


def test_it_sleeps_until_the_longest_time_without_a_check():
    call = Call(WITHOUT_END, WITHOUT_END, Refused(60_000), ACQUIRED)
    assert call.run()
    assert call.attempts.at == pytest.approx([0.001, 10.001, 20.001, 30.001])


def test_notifications_while_it_attempts_are_not_lost():
    call = Call(WITHOUT_END, ACQUIRED)
    call.notify(0.0)
    call.confirm_after = 0.0
    assert call.run()
    assert call.attempts.at == pytest.approx([0.0, 0.0])


def test_it_never_outlives_its_wait():
    for wait in (0.0005, 0.01, 9.999, 10.0, 10.001, 25.0):
        call = Call(*[WITHOUT_END] * 10, wait=wait)
        assert not call.run()
        assert call.passed == pytest.approx(wait)


# ---- the server goes away --------------------------------------------------------------------------------------------


def test_pauses_grow_up_to_a_second():
    call = Call(*(down() for _ in range(12)), ACQUIRED)
    assert call.run()
    pauses = [after - before for before, after in zip(call.attempts.at, call.attempts.at[1:], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, *[RETRY.maximum] * 7])


def test_pauses_start_afresh_after_an_answer():
    call = Call(down(), down(), Refused(100), down(), ACQUIRED)
    assert call.run()
    pauses = [after - before for before, after in zip(call.attempts.at, call.attempts.at[1:], strict=False)]
    assert pauses == pytest.approx([0.05, 0.1, 0.101, 0.05])


def test_time_that_ends_in_an_outage_is_the_connections_error():
    """Not ``False``: that would say that another owner has the lock."""
    failure = down()
    call = Call(down(), failure, wait=0.1)
    with pytest.raises(NotSent) as caught:
        call.run()
    assert repr(caught.value.cause) == repr(failure.cause)
    assert call.passed == pytest.approx(0.1)


@pytest.mark.parametrize("wait", [0.0, 0.0005])
def test_who_could_not_ask_yet_attempts_once_more(wait):
    """The time has passed since the first attempt failed, on a busy machine, or while its owner yielded to others."""
    assert Call(ACQUIRED, wait=wait, refused=Refused(100, asked=False)).run()
    assert not Call(WITHOUT_END, wait=wait, refused=Refused(100, asked=False)).run()
    with pytest.raises(NotSent):
        Call(down(), wait=wait, refused=AT_ONCE).run()


def test_with_the_subscriber_down_the_last_moment_is_worth_an_attempt():
    call = Call(WITHOUT_END, ACQUIRED, wait=5)
    call.world.at(1.0, lambda: call.subscriptions.lost_connection(ConnectionError("lost")))
    assert call.run()
    assert call.attempts.at == pytest.approx([0.001, 5.0])


def test_a_refusal_of_the_server_ends_it_at_once():
    call = Call(Rejected(TypeError("WRONGTYPE")))
    with pytest.raises(Rejected):
        call.run()
    assert call.passed == pytest.approx(0.001)


# ---- what it leaves behind -------------------------------------------------------------------------------------------


def follower_of(call: Call) -> list[Waiter]:
    """Let another waiter join the group, once that one waits."""
    found: list[Waiter] = []
    call.world.at(0.0005, lambda: found.append(join(call.subscriptions)))
    return found


def run_before(follower: list[Waiter], call: Call) -> tuple[bool, Waiter]:
    """Make the call, with a waiter behind it. Returns what became of it, and the other one."""
    call.world.at(0.001, lambda: call.subscriptions.confirmed(CHANNEL))
    acquired = run(call.work())
    return acquired, follower[0]


def test_a_waiter_that_acquires_notifies_no_other():
    """Its own unlock will."""
    call = Call(WITHOUT_END, ACQUIRED)
    call.notify(2.0)
    acquired, follower = run_before(follower_of(call), call)
    assert acquired
    assert woken(follower) == 0
    assert call.subscriptions.waiting(CHANNEL) == 1
    assert follower.group.next_check == pytest.approx(call.world.now() + MAX_WAIT)


def test_a_notification_at_the_last_moment_is_for_the_next_one():
    call = Call(WITHOUT_END, wait=1)
    call.notify(1.0)
    acquired, follower = run_before(follower_of(call), call)
    assert not acquired
    assert woken(follower) == 1
    assert has_to_attempt(follower, call.world.now())


def test_a_waiter_that_is_interrupted_passes_on_what_it_may_have_had():
    call = Call(WITHOUT_END, KeyboardInterrupt())
    followers = follower_of(call)
    call.notify(2.0)
    with pytest.raises(KeyboardInterrupt):
        run_before(followers, call)
    assert woken(followers[0]) == 1


# ---- attempts without a message --------------------------------------------------------------------------------------


def test_a_wait_is_counted_that_only_an_attempt_without_a_message_ended():
    call = Call(WITHOUT_END, ACQUIRED)
    assert call.run()
    assert call.subscriptions.last_resorts == 1


# ---- several channels ------------------------------------------------------------------------------------------------

CHANNELS = ("first channel", "second channel")


class CallOnSeveral(Call):
    """A call that is notified by several servers, as one that waits for a quorum."""

    def __init__(self, *answers: Answer | BaseException, wait: float | None = None) -> None:
        super().__init__(*answers, wait=wait)
        self.several = [Subscriptions(self.world, MAX_WAIT) for _ in CHANNELS]

    def work(self) -> Coroutine[Any, Any, bool]:
        ticket, deadline = self.world.ticket(), Deadline.after(self.wait, self.world.now())
        groups = [WaitGroup[Waiter](*each, "multi", lock_message) for each in zip(self.several, CHANNELS, strict=True)]
        waiters = [(Waiter(group, ticket), None) for group in groups]
        return wait_loop(self.attempts, self.refused, waiters, self.world, deadline, free_after=30.0)

    def run(self) -> bool:
        try:
            return run(self.work())
        finally:
            assert [not each.groups for each in self.several] == [True, True]


def test_a_subscription_that_one_server_refuses_is_not_needed():
    call = CallOnSeveral(WITHOUT_END, ACQUIRED)
    call.world.at(1.0, lambda: call.several[0].refuse(Rejected(PermissionError("NOPERM"))))
    call.world.at(3.0, lambda: call.several[1].confirmed(CHANNELS[1]))
    assert call.run()


def test_those_that_all_refuse_end_it():
    call = CallOnSeveral(WITHOUT_END)
    for seconds, subscriptions in enumerate(call.several, 1):
        call.world.at(seconds, lambda each=subscriptions: each.refuse(Rejected(PermissionError("NOPERM"))))
    with pytest.raises(Rejected, match="NOPERM"):
        call.run()
    assert call.passed == pytest.approx(2.0)


@pytest.mark.parametrize("lost", [1, 2])
def test_only_without_any_connection_the_last_moment_is_worth_an_attempt(lost):
    call = CallOnSeveral(ACQUIRED, wait=5)
    for subscriptions in call.several[:lost]:
        call.world.at(1.0, lambda each=subscriptions: each.lost_connection(ConnectionError("lost")))
    assert call.run() == (lost == 2)
    assert call.attempts.at == ([5.0] if lost == 2 else [])
