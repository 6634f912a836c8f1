"""Calls of semaphores and latches, interrupted at every point at which they can be.

Whatever the point: no permit is lost and none is invented, no count is taken twice; an acquire is undone, and any other
call is finished; nothing is queued or subscribed; the interrupted owner, and everybody else, can go on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
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


def _seats(client: SimulatedClient) -> Any:
    return client.get_semaphore("seats")


def _permits(client: SimulatedClient) -> Any:
    return client.get_permit_expirable_semaphore("seats")


def _latch(client: SimulatedClient) -> Any:
    return client.get_count_down_latch("seats")


async def _inside(block: Any) -> None:
    async with block:
        pass


@dataclass(frozen=True)
class Case:
    """A call that is interrupted.

    Attributes:
        call: The call.
        change: What it adds to the number in Redis, if it is done.
        finishes: Whether it is finished although it was interrupted; else it is undone.
        waits: Whether it may have to wait.
        taken: The permits taken before.
        contended: Whether it has to wait.
        reply_lost: Whether the first replies are lost.
    """

    call: Callable[[SimulatedClient], Awaitable[Any]]
    change: int
    finishes: bool = False
    waits: bool = False
    taken: tuple[str, ...] = ()
    contended: bool = False
    reply_lost: bool = False


CALLS = {
    "acquire": Case(lambda client: _seats(client).acquire(2), -2, waits=True),
    "acquire in time": Case(lambda client: _seats(client).try_acquire(2, 3), -2, waits=True),
    "block": Case(lambda client: _inside(_seats(client)), 0, waits=True),
    "hold": Case(lambda client: _inside(_seats(client).hold(2)), 0, waits=True),
    "hold of a permit": Case(lambda client: _inside(_permits(client).hold()), 0, waits=True),
    "hold of a permit, with a lease": Case(lambda client: _inside(_permits(client).hold(lease_time=600)), 0),
    "drain": Case(lambda client: _seats(client).drain_permits(), -TOTAL),
    "release": Case(lambda client: _seats(client).release(2), 2, finishes=True),
    "add": Case(lambda client: _seats(client).add_permits(2), 2, finishes=True),
    "permit": Case(lambda client: _permits(client).acquire(), -1, waits=True),
    "permit with a lease": Case(lambda client: _permits(client).try_acquire(3, 600.0), -1, waits=True),
    "several permits": Case(lambda client: _permits(client).acquire(permits=2), -2, waits=True),
    "release of a permit": Case(lambda client: _permits(client).release(PERMIT), 1, finishes=True, taken=(PERMIT,)),
    "release of several permits": Case(
        lambda client: _permits(client).release([PERMIT, OTHER]), 2, finishes=True, taken=(PERMIT, OTHER)
    ),
    "count down": Case(lambda client: _latch(client).count_down(), -1, finishes=True),
}
CASES = {
    **CALLS,
    **{f"{name}, replies lost": replace(case, reply_lost=True) for name, case in CALLS.items()},
    **{f"{name}, after a wait": replace(case, contended=True) for name, case in CALLS.items() if case.waits},
    "acquire, after a wait, replies lost": replace(CALLS["acquire"], contended=True, reply_lost=True),
    "wait at a latch": Case(lambda client: _latch(client).wait(), -TOTAL, contended=True),
}


class PermitScene(Scene):
    """A victim that is interrupted, and another client that goes on."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(CONFIG, seed)
        self.case = case

    def count(self) -> int:
        return int(self.redis("GET", "seats") or 0)

    def begin(self) -> Task[None]:
        case = self.case
        waits_at_latch = case is CASES["wait at a latch"]
        self.redis("SET", "seats", 0 if case.contended and not waits_at_latch else TOTAL)
        for permit in case.taken:
            self.redis("ZADD", "{seats}:timeout", 922337203685477, bytes.fromhex(permit))
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
        expected = 0 if self.case is CASES["wait at a latch"] else TOTAL + (self.case.change if done else 0)
        assert self.count() == expected
        self.redis("DEL", "{seats}:timeout")  # Else it would be no semaphore for what comes.

        async def go_on(client: SimulatedClient) -> None:
            semaphore = client.get_semaphore("seats")
            await semaphore.add_permits(1)
            assert await semaphore.try_acquire(wait_time=2)

        self.do(go_on(self.client))
        self.start(go_on(self.other), client=self.other)()
        assert self.count() == expected
        assert self.client.core.ledger.count() == 0
        assert self.client.core.watchdog.watching() == 0
        assert self.client.core.ledger.seen_numbers == {}
        self.redis("DEL", "seats", "{seats}:timeout", "pyredisson_permits:{seats}")
        self.world.run(seconds=90)
        assert not leftovers(self.world, [self.client, self.other])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("how", ["cancelled", "cancelled twice", "interrupted"])
def test_interrupted_call_loses_and_invents_no_permit(name, how):
    assert walk(partial(PermitScene, CASES[name]), INTERRUPTIONS[how]) >= 3
