"""The token lock in virtual time: cancelled wherever it waits, and random histories with everything going wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyredisson.asyncio.primitives import Lock, TokenLock
from pyredisson.config import Config
from pyredisson.core import scripts
from pyredisson.core.ownership import Hold, Ownership
from pyredisson.core.runtime import Request
from pyredisson.errors import LockError, LockNotOwnedError
from pyredisson.kinds.token_lock import TokenLockCore
from tests.simulation.histories import History, Plan, quiet
from tests.simulation.seeds import runs
from tests.simulation.test_interruptions import CONFIG
from tests.simulator.checkers import LockRules, TokenRules, Violation, leftovers
from tests.simulator.faults import Faults
from tests.simulator.runtime import SimulatedClient, SimulatedOwner
from tests.simulator.world import Cancelled, Process, Task, World

CHUNKS = 4


# ---- interrupted -----------------------------------------------------------------------------------------------------


class Scene:
    """One who is interrupted in the middle of a call; another who may hold the lock before, and comes afterwards."""

    def __init__(self, call: str, seed: int, *, contended: bool, reply_lost: bool) -> None:
        self.world = World(seed)
        self.process: Process = self.world.process("victim")
        self.client = SimulatedClient(self.process, config=CONFIG)
        self.other = SimulatedClient(self.world.process("other"), config=Config(timeout=1.2))
        self.owner = SimulatedOwner(self.world)
        self.lock = self.client.get_token_lock("orders")
        TokenRules(self.world, [self.client, self.other])
        if call == "unlock":
            self.do(self.lock.lock)
        if contended:
            self.other.runtime.process.start(self._hold(), "holder")
            self.world.run(seconds=0.2)
        if reply_lost:
            self.world.faults = Faults(lose_reply=1.0)
            self.world.after(0.2, lambda: setattr(self.world, "faults", Faults()))
        self.client.runtime.calls = 0
        self.task: Task[object] = self.process.start(self._call(call), "call", self.owner)

    async def _hold(self) -> None:
        async with self.other.get_token_lock("orders"):
            await self.world.pause_of(self.other.runtime.process, 0.7)

    async def _call(self, call: str) -> None:
        if call == "lock":
            await self.lock.lock()
        elif call == "try_lock":
            await self.lock.try_lock(3, 4.0)
        elif call == "unlock":
            await self.lock.unlock()
        else:
            async with self.lock.hold(wait_time=3):
                pass

    def do(self, call: Callable[[], object]) -> object:
        async def run() -> object:
            return await call()  # type: ignore[misc]

        task = self.process.start(run(), "step", self.owner)
        self.world.run(until=task.done, seconds=60)
        return task.outcome.result()

    def token(self) -> bytes | None:
        found = self.world.node.redis.command("GET", "orders")
        assert found is None or isinstance(found, bytes)
        return found

    def finish(self) -> bool:
        self.world.run(until=self.task.done, seconds=60)
        try:
            self.task.outcome.result()
        except Cancelled:
            return True
        return False

    def check(self, *, interrupted: bool) -> None:
        self.world.faults = Faults()
        self.client.runtime.interrupt_at = frozenset()  # The watchdog may have come to it instead.
        self.world.run(seconds=1.5)
        if interrupted and self.token() is not None:
            # Only an unlock that had not begun may have left the hold there.
            assert self.do(self.lock.is_held_by_current_thread)
        try:
            self.do(self.lock.unlock)
        except LockNotOwnedError:
            pass
        assert self.token() is None

        async def take() -> None:
            assert await self.other.get_token_lock("orders").try_lock(0.5), "the lock is not to be had"
            await self.other.get_token_lock("orders").unlock()

        task = self.other.runtime.process.start(take(), "next")
        self.world.run(until=task.done, seconds=10)
        task.outcome.result()
        self.do(self.lock.lock)
        self.do(self.lock.unlock)
        self.world.run(seconds=90)
        assert not leftovers(self.world, [self.client, self.other])
        self.world.end()


CASES = [
    ("lock", False, False),
    ("lock", False, True),
    ("lock", True, False),
    ("try_lock", True, True),
    ("unlock", False, False),
    ("unlock", False, True),
    ("hold", False, False),
    ("hold", True, False),
]


@pytest.mark.parametrize("how", ["cancelled", "cancelled twice", "interrupted"])
@pytest.mark.parametrize(("call", "contended", "reply_lost"), CASES)
def test_wherever_it_is_interrupted(call: str, contended: bool, reply_lost: bool, how: str) -> None:
    interrupted = 0
    for seed in range(3):
        scene = Scene(call, seed, contended=contended, reply_lost=reply_lost)
        assert not scene.finish()
        points = scene.client.runtime.calls if how == "interrupted" else scene.task.suspensions
        scene.world.end()
        for point in range(1, points + 1):
            scene = Scene(call, seed, contended=contended, reply_lost=reply_lost)
            if how == "interrupted":
                scene.client.runtime.interrupt_at = frozenset({point})
            else:
                scene.task.cancel_at = point
                if how == "cancelled twice":
                    scene.world.after(0.0012, scene.task.cancel)
            was = scene.finish()
            interrupted += was
            scene.check(interrupted=was)
    assert interrupted >= 3


# ---- histories -------------------------------------------------------------------------------------------------------


class TokenHistory(History):
    """A history of the token lock."""

    def rules(self) -> LockRules:
        return TokenRules(self.world, self.clients)

    def make(self, client: SimulatedClient, name: str) -> Lock:
        return client.get_token_lock(name)

    async def _once(self, process: Process, client: SimulatedClient, lock: Lock) -> None:
        rng = self.world.rng
        assert isinstance(lock, TokenLock)
        kind = rng.randrange(5)
        lease = rng.uniform(0.2, 4.0)
        if kind == 0:
            async with lock:
                await self._work(process)
        elif kind == 1:
            if await lock.try_lock(rng.uniform(0.0, 3.0), lease):
                await self._work(process)
                await lock.unlock()
        elif kind == 2:
            await lock.lock()
            await self._work(process)
            with pytest.raises(LockError):
                await lock.try_lock(0, lease)
            await lock.unlock()
        elif kind == 3:
            async with lock.hold(lease_time=lease if rng.random() < 0.5 else None) as held:
                await self._work(process)
                held.ensure_held()
        else:
            # Over and over: what is left of a lease that ran out is no obstacle, and no hold.
            for _ in range(3):
                if await lock.try_lock(1.0, rng.uniform(0.05, 0.5)):
                    await self.world.pause_of(process, 0.5)


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule(chunk: int, volume: Callable[[int], int]) -> None:
    seeds = range(chunk, volume(4_000), CHUNKS)
    assert sum(result.grants for result in runs(TokenHistory, seeds)) > 0


def test_a_seed_is_a_history() -> None:
    assert TokenHistory(7).run().world.trace == TokenHistory(7).run().world.trace


def test_without_faults_nothing_is_ever_unknown() -> None:
    for seed in range(40):
        result = TokenHistory(seed, quiet(Plan())).run()
        assert (result.unknown, result.errors) == (0, 0), f"seed {seed}: {result}"


def break_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that compares no token: the late one of a former holder frees another's lock."""

    def careless(
        self: TokenLockCore, ownership: Ownership, lease_ms: int, holds: int, epoch: int, repeat: bool
    ) -> Request:
        return scripts.force_unlock_token(self.client.runtime, self.names, ownership.owner, epoch=epoch)

    monkeypatch.setattr(TokenLockCore, "release_request", careless)


def break_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acquire without an epoch: a late copy takes the lock for nobody."""
    original = TokenLockCore.acquire_request

    def forgetful(
        self: TokenLockCore, ownership: Ownership, level: Hold, holds: int, epoch: int, repeat: bool
    ) -> Request:
        return original(self, ownership, level, holds, 0, repeat)

    monkeypatch.setattr(TokenLockCore, "acquire_request", forgetful)


def break_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat with a token of its own, as if nothing had been asked before: it waits for itself."""
    original = TokenLockCore.acquire_request

    def forgetful(
        self: TokenLockCore, ownership: Ownership, level: Hold, holds: int, epoch: int, repeat: bool
    ) -> Request:
        ownership.kind_state.current = ""
        return original(self, ownership, level, holds, epoch, False)

    monkeypatch.setattr(TokenLockCore, "acquire_request", forgetful)


@pytest.mark.parametrize("plant", [break_release, break_epoch])
def test_the_rules_see_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def histories() -> None:
        for seed in range(200):
            TokenHistory(seed).run()

    plant(monkeypatch)
    with pytest.raises(Violation):
        histories()


def test_a_repeat_with_another_token_would_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken_after() -> float:
        scene = Scene("lock", 0, contended=False, reply_lost=True)
        assert not scene.finish()
        scene.world.end()
        return scene.world.now

    assert taken_after() < 1.5
    break_repeat(monkeypatch)
    assert taken_after() > CONFIG.lock_watchdog_timeout - 0.5
