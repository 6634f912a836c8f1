"""Calls of semaphores and latches, interrupted at every point at which they can be.

Whatever the point: no permit is lost and none is invented, no count is taken twice; an acquire is undone, and any other
call is finished; nothing is queued or subscribed; the interrupted owner, and everybody else, can go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pyredisson.config import Config
from tests.simulated.engine.checkers import leftovers
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Task
from tests.simulated.interruptions import INTERRUPTIONS, Scene, walk

CONFIG = Config(timeout=1.2, max_wait_without_check=2.0)

#: Beside what the tests set and take, in every scene.
TOTAL = 5

PERMIT = "ab" * 16
OTHER = "cd" * 16

Call = Callable[[SimulatedClient], Awaitable[Any]]


async def _acquire(client: SimulatedClient) -> None:
    assert await client.get_semaphore("seats").acquire(2)


async def _block(client: SimulatedClient) -> None:
    async with client.get_semaphore("seats"):
        pass


async def _hold(client: SimulatedClient) -> None:
    async with client.get_semaphore("seats").hold(2):
        pass


async def _hold_permit(client: SimulatedClient, lease: float | None = None) -> None:
    async with client.get_permit_expirable_semaphore("seats").hold(lease_time=lease):
        pass


def _drain(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_semaphore("seats").drain_permits()


def _release(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_semaphore("seats").release(2)


def _acquire_permit(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_permit_expirable_semaphore("seats").acquire()


def _release_permit(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_permit_expirable_semaphore("seats").release(PERMIT)


def _acquire_several_permits(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_permit_expirable_semaphore("seats").acquire(permits=2)


def _release_several_permits(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_permit_expirable_semaphore("seats").release([PERMIT, OTHER])


def _count_down(client: SimulatedClient) -> Awaitable[Any]:
    return client.get_count_down_latch("seats").count_down()


async def _wait(client: SimulatedClient) -> None:
    assert await client.get_count_down_latch("seats").wait()


@dataclass
class Case:
    """A call that is interrupted.

    Attributes:
        call: The call.
        change: What it adds to the number in Redis, if it is done.
        finishes: Whether it is finished although it was interrupted; else it is undone.
        contended: Whether it has to wait.
        reply_lost: Whether the first replies are lost.
        taken: The permits taken before.
    """

    call: Call
    change: int
    finishes: bool = False
    contended: bool = False
    reply_lost: bool = False
    taken: tuple[str, ...] = ()


CASES = {
    "acquire": Case(_acquire, -2),
    "acquire, replies lost": Case(_acquire, -2, reply_lost=True),
    "acquire after a wait": Case(_acquire, -2, contended=True),
    "acquire after a wait, in time": Case(
        lambda client: client.get_semaphore("seats").try_acquire(2, 3), -2, contended=True
    ),
    "acquire after a wait, replies lost": Case(_acquire, -2, contended=True, reply_lost=True),
    "block": Case(_block, 0),
    "block after a wait": Case(_block, 0, contended=True),
    "block, replies lost": Case(_block, 0, reply_lost=True),
    "hold": Case(_hold, 0),
    "hold after a wait": Case(_hold, 0, contended=True),
    "hold, replies lost": Case(_hold, 0, reply_lost=True),
    "hold of a permit": Case(_hold_permit, 0),
    "hold of a permit after a wait": Case(_hold_permit, 0, contended=True),
    "hold of a permit, replies lost": Case(_hold_permit, 0, reply_lost=True),
    "hold of a permit, with a lease": Case(partial(_hold_permit, lease=600), 0),
    "drain": Case(_drain, -TOTAL),
    "drain, replies lost": Case(_drain, -TOTAL, reply_lost=True),
    "release": Case(_release, 2, finishes=True),
    "release, replies lost": Case(_release, 2, finishes=True, reply_lost=True),
    "add": Case(lambda client: client.get_semaphore("seats").add_permits(2), 2, finishes=True),
    "permit": Case(_acquire_permit, -1),
    "permit, replies lost": Case(_acquire_permit, -1, reply_lost=True),
    "permit after a wait": Case(_acquire_permit, -1, contended=True),
    "several permits": Case(_acquire_several_permits, -2),
    "several permits, replies lost": Case(_acquire_several_permits, -2, reply_lost=True),
    "several permits after a wait": Case(_acquire_several_permits, -2, contended=True),
    "release of several permits": Case(_release_several_permits, 2, finishes=True, taken=(PERMIT, OTHER)),
    "release of several permits, replies lost": Case(
        _release_several_permits, 2, finishes=True, taken=(PERMIT, OTHER), reply_lost=True
    ),
    "permit after a wait, with a lease": Case(
        lambda client: client.get_permit_expirable_semaphore("seats").try_acquire(3, 600.0), -1, contended=True
    ),
    "release of a permit": Case(_release_permit, 1, finishes=True, taken=(PERMIT,)),
    "release of a permit, replies lost": Case(_release_permit, 1, finishes=True, taken=(PERMIT,), reply_lost=True),
    "count down": Case(_count_down, -1, finishes=True),
    "count down, replies lost": Case(_count_down, -1, finishes=True, reply_lost=True),
    "wait at a latch": Case(_wait, -TOTAL, contended=True),
}


class PermitScene(Scene):
    """A victim that is interrupted, and another client that goes on."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(seed, CONFIG)
        self.case = case

    def redis(self, *words: str | int) -> Any:
        return self.world.node.redis.command(*words)

    def count(self) -> int:
        return int(self.redis("GET", "seats") or 0)

    def begin(self) -> Task[None]:
        case = self.case
        waits_at_latch = case.call is _wait
        self.redis("SET", "seats", 0 if case.contended and not waits_at_latch else TOTAL)
        for permit in case.taken:
            self.world.node.redis.command("ZADD", "{seats}:timeout", 922337203685477, bytes.fromhex(permit))
        if case.contended:

            async def let_go() -> None:
                await self.world.pause_of(self.other.runtime.process, 0.7)
                if waits_at_latch:
                    for _ in range(TOTAL):
                        await self.other.get_count_down_latch("seats").count_down()
                else:
                    await self.other.get_semaphore("seats").release(TOTAL)

            self.other.runtime.process.start(let_go(), "other")
        if case.reply_lost:  # The first ones; the repetition is answered.
            lost_from = 0.69 if case.contended else 0.0
            self.world.after(lost_from, self.lose_replies)
            self.world.run(seconds=0.001)

        return self.call(lambda: self.case.call(self.client))

    def check(self, *, interrupted: bool) -> None:
        self.world.faults = Faults()
        self.world.run(seconds=3)
        done = self.case.finishes or not interrupted
        expected = 0 if self.case.call is _wait else TOTAL + (self.case.change if done else 0)
        assert self.count() == expected

        async def go_on(client: SimulatedClient) -> None:
            semaphore = client.get_semaphore("seats")
            await semaphore.add_permits(1)
            assert await semaphore.try_acquire(wait_time=2)

        for client, owner in ((self.client, self.owner), (self.other, None)):
            task = client.runtime.process.start(go_on(client), "go on", owner)
            self.world.run(until=task.done, seconds=10)
            task.outcome.result()
        assert self.count() == expected
        assert self.client.core.ledger.count() == 0
        assert self.client.core.watchdog.watching() == 0
        assert self.client.core.ledger.seen_numbers == {}
        self.redis("DEL", "seats", "{seats}:timeout", "pyredisson_permits:{seats}")
        self.world.run(seconds=90)
        assert not leftovers(self.world, [self.client, self.other])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("how", ["cancelled", "cancelled twice", "interrupted"])
def test_interrupted_call_loses_and_invents_no_permit(name: str, how: str) -> None:
    assert walk(partial(PermitScene, CASES[name]), INTERRUPTIONS[how]) >= 3
