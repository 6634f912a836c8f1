"""What is settled in the background: each thing on its own, and a round that is bounded."""

import math
from collections.abc import Callable

import pytest

from pyredisson._core import watchdog as backlog
from pyredisson._core.deadline import CLEANUP_BUDGET, RETRY
from pyredisson._core.failures import Rejected, Unanswered, Unusable
from pyredisson._core.hold import SingleHold
from pyredisson._core.ownership import Ownership
from pyredisson._core.runtime import run
from pyredisson._core.server import ServerState
from pyredisson._core.watchdog import QUICK, ROUND, UNANSWERED_AT_MOST, Backlog
from pyredisson.events import BackgroundFailed, Event, GivenBack
from tests.unit.fake import FakeOwner, FakeRuntime

AWAY = ConnectionError("away")


@pytest.fixture(autouse=True)
def settled_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients of these tests say themselves what becomes of an ownership."""
    monkeypatch.setattr(
        backlog, "settle", lambda client, ownership, budget, **how: client.settle(ownership, budget, **how)
    )


def held_by(runtime: FakeRuntime, name: str) -> tuple[Ownership, SingleHold]:
    """Return an ownership, and the one hold that it has."""
    ownership = Ownership((name, "client:1"), FakeOwner(), runtime)
    hold = SingleHold(30_000, 29.0, watchdog=True)
    assert ownership.granted(ownership.begin_acquire(hold).request_id, hold, runtime.now())
    return ownership, hold


class FakeClient:
    """A client whose ownerships are settled as it is told."""

    def __init__(self, *, cluster: bool = False) -> None:
        self.runtime = FakeRuntime()
        if cluster:
            self.runtime.place = lambda name: 7
        self.events: list[Event] = []
        self.asked: list[str] = []
        self.budgets: list[float] = []
        self.trouble: dict[str, Callable[[], Exception]] = {}
        self.takes = 0.0
        self.closed = False
        self.answer_timeout = 1.0
        self.server = ServerState(self.runtime.mutex(), self.runtime.now, complain=lambda _: None, strict=False)
        self.backlog = Backlog(self, lambda: self.answer_timeout)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def settle(self, ownership: Ownership, budget: float, *, since: int, behind: bool) -> None:
        self.asked.append(ownership.name)
        self.budgets.append(budget)
        trouble = self.trouble.get(ownership.name)
        if trouble is None:
            ownership.released(ownership.take_over(since).request_id, 0.0)
            return
        self.runtime.pass_time(min(self.takes, budget))
        ownership.answered(ownership.take_over(since).request_id)
        self.backlog.settle_later(ownership)  # As a client does for what is in doubt.
        raise trouble()

    def open(self, name: str, error: type[Exception] | None = None) -> Ownership:
        """An ownership whose release was left open, and cannot be settled because of an error, if any."""
        if error is not None:
            self.trouble[name] = lambda: error(AWAY)
        ownership, hold = held_by(self.runtime, name)
        begun = ownership.begin_release(hold)
        ownership.answered(begun.request_id)
        ownership.keep_pending_until(self.runtime.now() + 3600)
        assert self.backlog.settle_later(ownership)
        return ownership

    def round(self) -> list[str]:
        """Let time pass until something is due, and do it. Returns who was asked about."""
        self.runtime.pass_time(max(0.0, self.backlog.due() - self.runtime.now()))
        self.asked.clear()
        run(self.backlog.step())
        return list(self.asked)


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.mark.parametrize("error", [Unusable, Rejected, AssertionError, ValueError])
def test_one_that_cannot_be_settled_keeps_none_of_the_others(client, error):
    client.open("bad", error)
    client.open("good")
    client.open("better")
    assert client.round() == ["bad", "good", "better"]
    assert [ownership.name for ownership in client.backlog.ownerships] == ["bad"]
    assert client.round() == ["bad"]


def test_a_surprise_is_reported_once(client):
    client.open("bad", AssertionError)
    for _ in range(5):
        client.round()
    (event,) = client.events
    assert isinstance(event, BackgroundFailed)
    assert "'bad'" in event.what
    assert isinstance(event.error, AssertionError)


def test_its_back_off_is_its_own_and_grows(client):
    client.open("bad", Unusable)
    pauses = []
    for _ in range(8):
        client.round()
        pauses.append(client.backlog.due() - client.runtime.now())
    assert pauses == pytest.approx([min(RETRY.first * 2**each, RETRY.maximum) for each in range(8)])
    client.open("good")
    assert client.backlog.due() == pytest.approx(client.runtime.now() + RETRY.first)
    assert client.round() == ["good"]


def test_a_server_that_is_away_is_asked_once_a_round(client):
    client.takes = 1.0
    for number in range(1000):
        client.open(f"lock {number}", Unanswered)
    began = client.runtime.now()
    asked = []
    for _ in range(100):
        each = client.round()
        assert len(each) <= 1
        asked += each
    assert len(set(asked)) == 100, "those that failed least often come first"
    # One that is new is tried by itself; the others wait for the pause.
    assert client.runtime.now() - began < 100 * (1.0 + RETRY.maximum)


def test_rounds_without_an_answer_pause_longer_and_longer(client):
    client.takes = 1.0
    for number in range(10):
        client.open(f"lock {number}", Unanswered)
    for _ in range(10):
        client.round()
    assert client.backlog.due() == pytest.approx(client.runtime.now() + RETRY.maximum), "all back-offs have passed"
    client.trouble.clear()
    assert len(client.round()) == 10
    client.open("late", Unanswered)
    client.round()
    assert client.backlog.due() == pytest.approx(client.runtime.now() + RETRY.first)


def test_on_a_cluster_those_of_other_nodes_come_first():
    client = FakeClient(cluster=True)
    client.takes = 1.0
    for number in range(1000):
        client.open(f"away {number}", Unanswered)
    for _ in range(1200):  # Each has failed once.
        client.round()

    def in_the_middle_of_a_round():
        client.trouble["away 7"] = lambda: Unanswered(AWAY)
        client.open("here")
        client.emit(GivenBack("here", "client:1"))
        return Unanswered(AWAY)

    client.trouble["away 7"] = in_the_middle_of_a_round
    while not client.events:
        client.round()
    began = client.runtime.now()
    while "here" not in client.round():
        assert client.runtime.now() - began < 1.0 + 2 * QUICK, "one attempt, and its own turn"


def test_on_a_cluster_a_round_is_bounded():
    client = FakeClient(cluster=True)
    for number in range(100):
        client.open(f"away {number}", Unanswered)
    assert len(client.round()) == UNANSWERED_AT_MOST
    client.takes = 1.0
    began = client.runtime.now()
    assert 1 <= len(client.round()) <= 2
    assert client.runtime.now() - began <= ROUND + 1.0 + RETRY.maximum


def test_on_a_cluster_the_time_for_one_that_failed_is_short_as_a_rule():
    client = FakeClient(cluster=True)
    client.open("away", Unanswered)
    for _ in range(5):
        client.round()
    assert client.budgets == [1.0, QUICK, QUICK, QUICK, 1.0]


def test_a_release_that_is_due_is_settled(client):
    ownership, hold = held_by(client.runtime, "orders")
    assert ownership.release_later(hold, block=True)
    client.backlog.settle_later(ownership)
    assert client.round() == ["orders"]
    assert not client.backlog.ownerships
    assert client.backlog.due() == math.inf


def test_a_release_that_is_due_outlasts_the_requests_of_its_owner(client):
    ownership, hold = held_by(client.runtime, "orders")
    client.runtime.pass_time(5)
    assert ownership.leave_behind_call(hold)
    another = SingleHold(30_000, 29.0, watchdog=True)
    begun = ownership.begin_acquire(another)
    client.backlog.settle_later(ownership)
    assert client.round() == []  # Its owner is at a request, of which it is not known for how long it matters.
    ownership.granted(begun.request_id, another, client.runtime.now())
    client.trouble["orders"] = lambda: Unanswered(AWAY)
    assert client.round() == client.round() == ["orders"]
    client.trouble.clear()
    assert client.round() == ["orders"]
    assert ownership.holds == [another]
    assert not client.backlog.ownerships


def test_an_acquire_and_a_release_wait_for_a_release_that_came_between(client):
    """A signal handler, or another thread, has left a block since they looked, and its release is not settled."""
    ownership, hold = held_by(client.runtime, "orders")
    another = SingleHold(30_000, 29.0, watchdog=True)
    ownership.granted(ownership.begin_acquire(another).request_id, another, client.runtime.now())
    ownership.answered(ownership.begin_release(hold, block=True).request_id)
    assert ownership.begin_acquire(SingleHold(30_000, 29.0, watchdog=True)) is None
    assert ownership.begin_release(another) is None
    assert ownership.begin_release(hold) is not None


@pytest.mark.parametrize(("closed", "expected"), [(False, 0.3), (True, CLEANUP_BUDGET)])
def test_work_waits_for_an_answer_as_long_as_the_watchdog_may(client, closed, expected):
    """Else a hold whose validity ends meanwhile would be reported as lost too late."""
    client.answer_timeout, client.closed = 0.3, closed
    timeouts = []

    async def work(timeout):
        timeouts.append(timeout)

    client.backlog.do(work, client.runtime.now() + 10.0)
    client.round()
    assert timeouts == [expected]


def test_each_work_entry_is_done_on_its_own(client):
    done = []

    async def bad(timeout):
        done.append("bad")
        raise AssertionError("never")

    async def refused(timeout):
        done.append("refused")
        raise Rejected(AWAY)

    async def good(timeout):
        done.append("good")

    until = client.runtime.now() + 10.0
    for work in (bad, refused, good):
        client.backlog.do(work, until)
    client.round()
    assert done == ["bad", "refused", "good"]
    while client.backlog.due() < math.inf:
        client.round()
    assert done.count("good") == 1
    assert done.count("bad") == done.count("refused") > 5
    assert client.runtime.now() == pytest.approx(until, abs=RETRY.maximum)
    assert len(client.events) == 1
