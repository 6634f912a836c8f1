"""What is settled in the background: each thing on its own, and a round that is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pyredisson.core.backlog import QUICK, RETRY_FIRST, RETRY_MAX, ROUND, UNANSWERED_AT_MOST, Backlog
from pyredisson.core.events import BackgroundFailed, Event, GivenBack
from pyredisson.core.holds import Claim, Level
from pyredisson.core.runtime import NotSent, Refused, Unanswered, Unusable, run
from tests.unit.fake import FakeOwner, FakeRuntime

LEVEL = Level(30_000, watchdog=True, block=False)
AWAY = ConnectionError("away")


class Home:
    """A client whose claims are settled as it is told."""

    def __init__(self, *, cluster: bool = False) -> None:
        self.runtime = FakeRuntime()
        if cluster:
            self.runtime.place = lambda name: 7  # type: ignore[method-assign, return-value, assignment]
        self.events: list[Event] = []
        self.asked: list[str] = []
        self.budgets: list[float] = []
        self.trouble: dict[str, Callable[[], Exception]] = {}
        self.takes = 0.0
        self.backlog = Backlog(self, lambda now: 1.0)  # type: ignore[arg-type]

    def emit(self, event: Event) -> None:
        self.events.append(event)

    async def settle(self, claim: Claim, budget: float, *, since: int, behind: bool) -> None:
        self.asked.append(claim.name)
        self.budgets.append(budget)
        trouble = self.trouble.get(claim.name)
        if trouble is None:
            claim.released(since, 0.0)
            return
        self.runtime.pass_time(min(self.takes, budget))
        claim.take_over(since)
        self.backlog.settle(claim)  # As a client does for what is in doubt.
        raise trouble()

    def open(self, name: str) -> Claim:
        """A claim whose release was left open."""
        claim = Claim((name, "client:1"), FakeOwner(), "client", self.runtime)
        assert claim.granted(claim.begin_acquire(LEVEL).turn, LEVEL, self.runtime.now() + LEVEL.certain)
        claim.begin_release()
        claim.pending_until = self.runtime.now() + 3600
        assert self.backlog.settle(claim)
        return claim

    def round(self) -> list[str]:
        """Let time pass until something is due, and do it. Returns who was asked about."""
        self.runtime.pass_time(max(0.0, self.backlog.due() - self.runtime.now()))
        self.asked.clear()
        run(self.backlog.step())
        return list(self.asked)


@pytest.mark.parametrize("error", [Unusable, Refused, AssertionError, ValueError])
def test_one_that_cannot_be_settled_keeps_none_of_the_others(error: Any) -> None:
    home = Home()
    home.trouble["bad"] = lambda: error(AWAY)
    home.open("bad")
    home.open("good")
    home.open("better")
    assert home.round() == ["bad", "good", "better"]
    assert [claim.name for claim in home.backlog.claims] == ["bad"]
    assert home.round() == ["bad"]


def test_a_surprise_is_told_once() -> None:
    home = Home()
    home.trouble["bad"] = lambda: AssertionError("never")
    home.open("bad")
    for _ in range(5):
        home.round()
    (event,) = home.events
    assert isinstance(event, BackgroundFailed)
    assert "'bad'" in event.what
    assert isinstance(event.error, AssertionError)


def test_its_back_off_is_its_own_and_grows() -> None:
    home = Home()
    home.trouble["bad"] = lambda: Unusable(AWAY)
    home.open("bad")
    pauses = []
    for _ in range(8):
        home.round()
        pauses.append(home.backlog.due() - home.runtime.now())
    assert pauses == pytest.approx([min(RETRY_FIRST * 2**each, RETRY_MAX) for each in range(8)])
    home.open("good")
    assert home.backlog.due() == pytest.approx(home.runtime.now() + RETRY_FIRST)
    assert home.round() == ["good"]


def test_a_server_that_is_away_is_asked_once_a_round() -> None:
    home = Home()
    home.takes = 1.0
    for number in range(1000):
        home.trouble[f"lock {number}"] = lambda: Unanswered(AWAY)
        home.open(f"lock {number}")
    began = home.runtime.now()
    asked = []
    for _ in range(100):
        each = home.round()
        assert len(each) <= 1
        asked += each
    assert len(set(asked)) == 100, "those that failed least often come first"
    # One that is new is tried by itself; the others wait for the pause.
    assert home.runtime.now() - began < 100 * (1.0 + RETRY_MAX)


def test_what_is_new_does_not_wait_for_a_server_that_was_away() -> None:
    home = Home()
    home.trouble["old"] = lambda: NotSent(AWAY)
    home.open("old")
    for _ in range(6):
        home.round()
    assert home.backlog.due() - home.runtime.now() > RETRY_MAX / 2
    home.open("new")
    assert home.round() == ["new"]


def test_when_the_server_is_back_all_are_settled() -> None:
    home = Home()
    for number in range(100):
        home.trouble[f"lock {number}"] = lambda: Unanswered(AWAY)
        home.open(f"lock {number}")
    for _ in range(150):
        home.round()
    home.trouble.clear()
    began = home.runtime.now()
    while home.backlog.claims:
        home.round()
    assert home.runtime.now() - began < 2 * RETRY_MAX


def test_on_a_cluster_those_of_other_nodes_come_first() -> None:
    home = Home(cluster=True)
    home.takes = 1.0
    for number in range(1000):
        home.trouble[f"away {number}"] = lambda: Unanswered(AWAY)
        home.open(f"away {number}")
    for _ in range(1200):  # Each has failed once.
        home.round()

    def in_the_middle_of_a_round() -> Exception:
        home.trouble["away 7"] = lambda: Unanswered(AWAY)
        home.open("here")
        home.emit(GivenBack("here", "client:1"))
        return Unanswered(AWAY)

    home.trouble["away 7"] = in_the_middle_of_a_round
    while not home.events:
        home.round()
    began = home.runtime.now()
    while "here" not in home.round():
        assert home.runtime.now() - began < 1.0 + 2 * QUICK, "one attempt, and its own turn"


def test_on_a_cluster_a_round_is_bounded() -> None:
    home = Home(cluster=True)
    for number in range(100):
        home.trouble[f"away {number}"] = lambda: Unanswered(AWAY)
        home.open(f"away {number}")
    assert len(home.round()) == UNANSWERED_AT_MOST
    home.takes = 1.0
    began = home.runtime.now()
    assert 1 <= len(home.round()) <= 2
    assert home.runtime.now() - began <= ROUND + 1.0 + RETRY_MAX


def test_on_a_cluster_the_time_for_one_that_failed_is_short_as_a_rule() -> None:
    home = Home(cluster=True)
    home.trouble["away"] = lambda: Unanswered(AWAY)
    home.open("away")
    for _ in range(5):
        home.round()
    assert home.budgets == [1.0, QUICK, QUICK, QUICK, 1.0]


def test_what_a_claim_owes_is_given_back() -> None:
    home = Home()
    claim = Claim(("orders", "client:1"), FakeOwner(), "client", home.runtime)
    assert claim.granted(claim.begin_acquire(LEVEL).turn, LEVEL, home.runtime.now() + LEVEL.certain)
    assert claim.owe(block=True)
    home.backlog.settle(claim)
    assert home.round() == ["orders"]
    assert not home.backlog.claims
    assert home.backlog.due() == math.inf


def test_chores_are_done_each_on_its_own() -> None:
    home = Home()
    done: list[str] = []

    async def bad() -> None:
        done.append("bad")
        raise AssertionError("never")

    async def refused() -> None:
        done.append("refused")
        raise Refused(AWAY)

    async def good() -> None:
        done.append("good")

    until = home.runtime.now() + 10.0
    for work in (bad, refused, good):
        home.backlog.do(work, until)
    home.round()
    assert done == ["bad", "refused", "good"]
    while home.backlog.due() < math.inf:
        home.round()
    assert done.count("good") == 1
    assert done.count("bad") == done.count("refused") > 5
    assert home.runtime.now() == pytest.approx(until, abs=RETRY_MAX)
    assert len(home.events) == 1
