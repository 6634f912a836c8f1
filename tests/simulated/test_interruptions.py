"""Calls of a lock, interrupted at every point at which they can be.

Whatever the point: afterwards nothing is held that was not held before, nothing is queued or subscribed, the next owner
gets the lock at once, and the interrupted one can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pyredisson._asyncio.locks import Lock
from pyredisson.config import Config
from tests.simulated.engine.checkers import LockRules, ReadWriteRules, TokenRules, leftovers, tokens_of
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Task
from tests.simulated.interruptions import INTERRUPTIONS, Scene, walk

CONFIG = Config(lock_watchdog_timeout=6.0, timeout=1.2, max_wait_without_check=2.0)


async def _nothing(lock: Lock) -> None:
    pass


async def _acquire(lock: Lock) -> None:
    await lock.lock()


async def _twice(lock: Lock) -> None:
    await lock.lock()
    await lock.lock()


async def _acquire_with_lease(lock: Lock) -> None:
    await lock.try_lock(3, 4.0)


async def _give_up(lock: Lock) -> None:
    assert not await lock.try_lock(0.2)


async def _release(lock: Lock) -> None:
    await lock.unlock()


async def _block(lock: Lock) -> None:
    async with lock.hold(wait_time=3):
        pass


@dataclass
class Case:
    """What is done before, and what is interrupted; how many holds may be left if it is, and if it is not."""

    before: Callable[[Lock], Coroutine[Any, Any, None]]
    call: Callable[[Lock], Coroutine[Any, Any, None]]
    holds_before: int
    left_if_interrupted: tuple[int, ...]
    contended: bool = False
    reply_lost: bool = False
    kind: str = "lock"
    behind: int = 0  # How many others wait behind the one who is interrupted.


OF_EACH = {
    "acquire": Case(_nothing, _acquire, 0, (0,)),
    "acquire, replies lost": Case(_nothing, _acquire, 0, (0,), reply_lost=True),
    "acquire after a wait": Case(_nothing, _acquire, 0, (0,), contended=True),
    "acquire after a wait, with a lease": Case(_nothing, _acquire_with_lease, 0, (0,), contended=True),
    # An unlock that is interrupted is finished, not undone.
    "unlock": Case(_acquire, _release, 1, (0, 1)),
    "unlock, replies lost": Case(_acquire, _release, 1, (0, 1), reply_lost=True),
    "block": Case(_nothing, _block, 0, (0,)),
    "block after a wait": Case(_nothing, _block, 0, (0,), contended=True),
}
OF_REENTRANT = {
    "re-entry": Case(_acquire, _acquire, 1, (1,)),
    "re-entry, replies lost": Case(_acquire, _acquire, 1, (1,), reply_lost=True),
    "partial unlock": Case(_twice, _release, 2, (1, 2)),
}
IN_TURN = Case(_nothing, _acquire, 0, (0,), contended=True, kind="fair_lock", behind=2)
CASES = {
    **OF_EACH,
    **OF_REENTRANT,
    **{f"fair: {name}": replace(case, kind="fair_lock") for name, case in {**OF_EACH, **OF_REENTRANT}.items()},
    **{f"token: {name}": replace(case, kind="token_lock") for name, case in OF_EACH.items()},
    "fair: acquire in turn": IN_TURN,
    "fair: acquire in turn, replies lost": replace(IN_TURN, reply_lost=True, behind=1),
    "fair: acquire in turn, with a lease": replace(IN_TURN, call=_acquire_with_lease, behind=1),
    "fair: giving up": replace(IN_TURN, call=_give_up),
    "fair: giving up, replies lost": replace(IN_TURN, call=_give_up, reply_lost=True, behind=1),
    "fair: unlock in turn": Case(_acquire, _release, 1, (0, 1), kind="fair_lock", behind=1),
}


class LockScene(Scene):
    """A holder who contends for a second, a victim that is interrupted, and one who comes afterwards."""

    #: How the victim's field in Redis ends.
    suffix = ""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__(CONFIG, seed)
        self.case = case
        self.lock = self.make(self.client)
        self.theirs = self.make(self.other)
        self.rules()

    def make(self, client: SimulatedClient) -> Lock:
        """What is taken."""
        return getattr(client, f"get_{self.case.kind}")("orders")

    def rules(self) -> None:
        """What is checked all along."""
        kind = TokenRules if self.case.kind == "token_lock" else LockRules
        kind(self.world, [self.client, self.other])

    def count(self) -> int:
        entry = self.world.node.redis.dump().get(b"orders")
        if entry is None:
            return 0
        if isinstance(entry.value, bytes):
            mine = [tokens_of(each) for each in self.client.core.ownerships.of("orders")]
            return sum(entry.value.decode() in tokens for tokens in mine)
        assert isinstance(entry.value, dict)
        return int(entry.value.get(f"{self.client.id}:{self.owner.number}{self.suffix}".encode(), b"0"))

    def begin(self) -> Task[None]:
        self.do(self.case.before(self.lock))
        assert self.count() == self.case.holds_before
        if self.case.contended:

            async def hold() -> None:
                async with self.theirs:
                    await self.world.pause_of(self.other.runtime.process, 0.7)

            self.other.runtime.process.start(hold(), "holder")
            self.world.run(seconds=0.2)
        if self.case.reply_lost:
            self.lose_replies()
        self.client.runtime.calls = 0

        async def wait_behind() -> None:
            await self.world.pause_of(self.other.runtime.process, 0.05)
            async with self.make(self.other):
                pass

        called = self.call(lambda: self.case.call(self.lock))
        self.others = [self.other.runtime.process.start(wait_behind(), "behind") for _ in range(self.case.behind)]
        return called

    def check(self, *, interrupted: bool) -> None:
        self.world.faults = Faults()
        self.client.runtime.interrupt_at = frozenset()  # The watchdog may have come to it instead.
        self.world.run(seconds=1.5)
        if interrupted:
            assert self.count() in self.case.left_if_interrupted
        while (count := self.count()) > 0:
            self.do(self.lock.unlock())
            assert self.count() == count - 1, "the client counts otherwise than the server"
        self.world.run(until=lambda: all(task.done() for task in self.others), seconds=1.0)
        for each in self.others:
            each.outcome.result()

        async def take() -> None:
            assert await self.theirs.try_lock(0.5), "the lock is not free"
            await self.theirs.unlock()

        self.start(take(), client=self.other)()
        self.do(self.lock.lock())
        assert self.count() == 1
        self.do(self.lock.unlock())
        self.world.run(seconds=90)
        assert not leftovers(self.world, [self.client, self.other])


class Reading(LockScene):
    """The victim reads; the others write."""

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.read_lock() if client is self.client else both.write_lock()

    def rules(self) -> None:
        ReadWriteRules(self.world, [self.client, self.other])


class Writing(Reading):
    """The victim writes; the others read."""

    suffix = ":write"

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.write_lock() if client is self.client else both.read_lock()


EACH = [
    *((LockScene, name, how) for name in CASES for how in INTERRUPTIONS),
    *(
        (scene, name, how)
        for scene in (Reading, Writing)
        for name, case in CASES.items()
        if case.kind == "lock"
        for how in INTERRUPTIONS
        if how != "closed"
    ),
]


@pytest.mark.parametrize(("scene", "name", "how"), EACH, ids=lambda each: getattr(each, "__name__", each))
def test_an_interrupted_call_leaves_nothing_in_redis(scene, name, how):
    assert walk(partial(scene, CASES[name]), INTERRUPTIONS[how]) >= 3
