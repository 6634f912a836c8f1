"""Scenes with semaphores and latches that random histories come by too rarely: long outages, crashes, late copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyredisson import events
from pyredisson.config import Config
from pyredisson.errors import OutcomeUnknownError
from tests.simulated import stage as stages
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedOwner

CONFIG = Config(timeout=1.2, max_wait_without_check=2.0)

#: Everything is executed, and nothing is answered.
SILENT = Faults(lose_reply=1.0, lose_message=1.0)


class Stage(stages.Stage):
    """A stage with semaphores and a latch."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.heard: list[events.Event] = []
        self.client.core.listen(self.heard.append, lambda: False)
        self.semaphore = self.client.get_semaphore("seats")
        self.permits = self.client.get_permit_expirable_semaphore("seats")
        self.latch = self.client.get_count_down_latch("seats")

    @property
    def count(self) -> int:
        return int(self.redis("GET", "seats") or 0)

    def acquire_in_an_outage(self, semaphore: Any, seconds: float) -> Callable[[], Any]:
        """Let an attempt of a waiter be executed while nothing is answered. What is returned waits for the result."""
        self.redis("SET", "seats", 0)
        finish = self.start(semaphore.acquire())
        self.world.run(seconds=1)
        self.redis("SET", "seats", 3)
        self.outage(seconds)
        return finish

    def outage(self, seconds: float) -> None:
        """Nothing is answered for so long."""
        self.world.faults = SILENT
        self.world.run(seconds=seconds)
        self.world.faults = Faults()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


def test_a_waiter_whose_permit_was_acquired_without_a_reply_gets_that_one(stage):
    """Its attempt was executed, and for most of a minute nobody answers."""
    finish = stage.acquire_in_an_outage(stage.semaphore, 45)
    assert stage.count == 2
    assert finish() is True
    stage.world.run(seconds=100)
    assert stage.count == 2


def test_a_waiter_gets_an_error_when_the_outcome_can_no_longer_be_known(stage):
    finish = stage.acquire_in_an_outage(stage.semaphore, 100)
    with pytest.raises(OutcomeUnknownError, match="too long ago"):
        finish()
    assert stage.count == 2  # Nothing is taken for a second time.


def test_a_permit_with_an_id_is_known_for_ever(stage):
    finish = stage.acquire_in_an_outage(stage.permits, 200)
    permit = finish()
    assert stage.count == 2
    assert stage.redis("ZRANGE", "{seats}:timeout", 0, -1) == [bytes.fromhex(permit)]


@pytest.mark.parametrize("outage", [20, 200])
def test_a_permit_acquired_without_a_reply_is_released(stage, outage):
    stage.redis("SET", "seats", 3)
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError, match="as long as this client is open"):
        stage.do(stage.permits.acquire())
    assert stage.count == 2
    # The undoing is executed too, again and again: nothing is heard of it, and it is done once.
    stage.outage(outage)
    stage.world.run(seconds=5)
    assert stage.count == 3
    assert stage.client.core.ledger.count() == 0


def test_a_permit_acquired_without_a_reply_is_released_within_a_minute_or_not_at_all(stage):
    stage.redis("SET", "seats", 3)
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError, match="for up to a minute"):
        stage.do(stage.semaphore.acquire())
    assert stage.count == 2
    stage.client.runtime.cut()
    stage.outage(100)
    stage.client.runtime.heal()
    stage.world.run(seconds=30)
    assert stage.count == 2
    assert stage.do(stage.semaphore.acquire()) is True  # Its owner is not held up by it.
    assert stage.count == 1


def test_listeners_hear_of_doubt_and_of_its_end(stage):
    stage.redis("SET", "seats", 3)
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError):
        stage.do(stage.semaphore.acquire(2))
    owner = f"{stage.client.id}:{stage.owner.number}"
    [doubt] = stage.heard
    assert isinstance(doubt, events.OutcomeUnknown)
    assert (doubt.name, doubt.owner, doubt.request) == ("seats", owner, "an acquire")
    stage.world.faults = Faults()
    stage.world.run(seconds=5)
    assert stage.heard[1:] == [events.GivenBack("seats", owner)]


def test_another_owner_is_not_held_up_by_what_one_left_open(stage):
    stage.redis("SET", "seats", 3)
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError):
        stage.do(stage.semaphore.acquire())
    stage.world.faults = Faults()
    before = stage.client.runtime.requests
    assert stage.start(stage.semaphore.try_acquire(2), SimulatedOwner(stage.world))() is True
    assert stage.client.runtime.requests == before + 1


def test_a_latch_that_was_counted_down_in_an_outage_opens_after_it(stage):
    stage.redis("SET", "seats", 1)
    finish = stage.start(stage.latch.wait())
    stage.world.run(seconds=1)
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError):
        stage.start(stage.latch.count_down(), SimulatedOwner(stage.world))()
    stage.outage(200)
    assert finish() is True
    assert stage.client.core.ledger.seen_numbers == {}


def test_the_table_of_open_requests_does_not_grow(stage):
    """Owners that leave something open which nobody can settle any more are forgotten."""
    stage.redis("SET", "seats", 100)
    for _ in range(5):
        stage.world.faults = SILENT
        with pytest.raises(OutcomeUnknownError):
            stage.start(stage.semaphore.acquire(), SimulatedOwner(stage.world))()
        stage.client.runtime.cut()
        stage.outage(70)
        stage.client.runtime.heal()
    assert stage.client.core.ledger.count() == 1
