"""What clients tell of themselves costs no lock anything, whatever becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson._core.failures import Failure, NotSent, Passing, Rejected, Unanswered
from pyredisson._core.runtime import Reply
from pyredisson.config import Config
from pyredisson.errors import LockLostError
from pyredisson.events import BackgroundFailed, Lost, PresenceRefused, Renewed
from tests.simulated import stage as stages
from tests.simulated.engine.runtime import SimulatedClient, SimulatedOwner

WATCHDOG = 3.0
SETTINGS = Config(lock_watchdog_timeout=WATCHDOG, timeout=0.9, presence_after=0.3, warn_held_longer_than=0.4)


async def hangs(timeout: float, client: SimulatedClient) -> Reply:
    await client.runtime.sleep(timeout)
    raise Unanswered(rx.TimeoutError("no reply"))


async def fails(timeout: float, client: SimulatedClient) -> Reply:
    raise NotSent(rx.ConnectionError("Connection refused."))


async def is_refused(timeout: float, client: SimulatedClient) -> Reply:
    raise Rejected(rx.NoPermissionError("NOPERM this user has no permissions to run the 'set' command"))


async def is_out_of_memory(timeout: float, client: SimulatedClient) -> Reply:
    raise Passing(rx.OutOfMemoryError("OOM command not allowed when used memory > 'maxmemory'."))


async def breaks(timeout: float, client: SimulatedClient) -> Reply:
    raise ValueError("a mistake in this very feature")


class Stage(stages.Stage):
    """A client whose presence goes wrong, and one that holds what the first waits for."""

    def __init__(self, presence: bool, wrong: Any = None) -> None:
        super().__init__(SETTINGS, presence=presence)
        self.events: list[tuple[float, Any]] = []
        self.client.core.listen(lambda event: self.events.append((self.world.now, event)), lambda: True)
        self.asked = 0
        if wrong is not None:
            runtime: Any = self.client.runtime
            execute = runtime.execute

            async def ask_wrongly(command: tuple[str, ...], timeout: float) -> Reply:
                if command[0] not in ("SET", "DEL"):
                    return await execute(command, timeout)
                self.asked += 1
                return await wrong(timeout, self.client)

            runtime.execute = ask_wrongly

    def heard(self, kind: type) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, kind)]

    def renewals(self) -> list[float]:
        return [round(at, 2) for at, event in self.events if isinstance(event, Renewed)]

    def told(self) -> Any:
        entry = self.world.node.redis.dump().get(f"pyredisson_client:{self.client.id}".encode())
        return None if entry is None else json.loads(entry.value)


WRONG = [hangs, fails, is_refused, is_out_of_memory, breaks]


def hold_and_acquire(stage: Stage) -> list[float]:
    """Hold one lock for six periods, acquire another meanwhile, and return how long each acquire took."""
    lock, other = stage.client.get_lock("held"), stage.client.get_lock("other")
    stage.do(lock.lock())
    took = []
    for _ in range(60):
        began = stage.world.now
        stage.do(other.lock())
        stage.do(other.unlock())
        took.append(round(stage.world.now - began, 4))
        stage.world.run(seconds=0.1)
    stage.do(lock.unlock())
    return took


def lost_at(stage: Stage) -> float:
    """Lose a lock, and return when its holder is told."""

    async def lose() -> None:
        async with stage.client.get_lock("orders").hold(lease_time=1.005):
            await stage.client.runtime.sleep(5)

    began = stage.world.now
    with pytest.raises(LockLostError):
        stage.do(lose())
    return next(at for at, event in stage.events if isinstance(event, Lost)) - began


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: each.__name__)
def test_presence_that_goes_wrong_delays_no_acquire_no_renewal_and_no_report_of_a_loss(wrong):
    usual, stage = Stage(presence=False), Stage(presence=True, wrong=wrong)
    expected, took = hold_and_acquire(usual), hold_and_acquire(stage)
    assert max(took) <= max(expected) + 0.001
    assert stage.asked == 1 if wrong is is_refused else stage.asked > 0  # It is not written again.
    assert len(stage.renewals()) >= len(usual.renewals()) - 1
    between = [later - earlier for earlier, later in zip(stage.renewals(), stage.renewals()[1:], strict=False)]
    assert max(between) <= WATCHDOG / 3 + 0.05
    assert stage.heard(Lost) == []
    assert lost_at(stage) == pytest.approx(lost_at(usual), abs=0.01)
    assert len(stage.heard(PresenceRefused)) == (wrong is is_refused)
    assert bool(stage.heard(BackgroundFailed)) == (wrong is breaks)


def test_one_request_a_period_tells_of_everything():
    stage = Stage(presence=True)

    async def hold_many():
        for number in range(20):
            await stage.client.get_lock(f"lock{number}").lock()

    stage.do(hold_many())
    stage.world.run(seconds=10 * WATCHDOG / 3)
    assert len(stage.told()["holds"]) == 20
    assert 9 <= stage.world.counts["SET"] <= 12


def test_what_is_told_is_bounded_and_the_longest_holds_come_first():
    stage = Stage(presence=True)

    async def hold_many():
        for number in range(300):
            await stage.client.get_lock(f"{number:03}-{'x' * 100}").lock(lease_time=60)
        await stage.client.get_lock("y" * 60_000).lock(lease_time=60)

    stage.do(hold_many())
    stage.world.run(seconds=2)
    told = stage.told()
    entry = stage.world.node.redis.dump()[f"pyredisson_client:{stage.client.id}".encode()]
    assert len(entry.value) <= 16 * 1024
    assert [each["name"][:3] for each in told["holds"]] == [f"{number:03}" for number in range(len(told["holds"]))]
    assert told["more"] == 301 - len(told["holds"])
    assert 50 < len(told["holds"]) < 200


def test_a_search_for_the_holder_that_goes_wrong_hides_no_error():
    stage = Stage(presence=True)
    stage.do(stage.other.get_lock("orders").lock())
    runtime = stage.client.runtime
    for wrong in WRONG:

        async def execute(command, timeout, wrong=wrong):
            return await wrong(timeout, stage.client)

        runtime.execute = execute
        began = stage.world.now

        async def hold():
            async with stage.client.get_lock("orders").hold(wait_time=0.1):
                raise AssertionError("it is held")

        stage.owner = SimulatedOwner(stage.world)
        with pytest.raises(TimeoutError) as error:
            stage.do(hold())
        assert not isinstance(error.value, Failure)
        assert getattr(error.value, "holder", "missing") is None
        assert stage.world.now - began < 0.1 + 0.3
