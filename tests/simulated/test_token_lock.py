"""The token lock in virtual time: cancelled wherever it waits, and random histories with everything going wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from redis.exceptions import RedisError

from pyredisson.asyncio.primitives import TokenLock
from pyredisson.config import Config, ConstantBackoff
from pyredisson.core.requests.call import AcquireCall, ReleaseCall
from pyredisson.core.runtime import Request
from pyredisson.errors import LockError, LockNotOwnedError, OutcomeUnknownError
from pyredisson.kinds.token_lock import TokenKind
from tests.simulated.engine.checkers import LockRules, TokenRules, Violation, leftovers
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Process, Task
from tests.simulated.history import quiet
from tests.simulated.interruptions import INTERRUPTIONS, Scene, walk
from tests.simulated.lock_history import LockHistory, LockPlan
from tests.simulated.seeds import runs
from tests.simulated.stage import Stage
from tests.simulated.test_interruptions import CONFIG
from tests.volumes import Volume

CHUNKS = 4


# ---- interrupted -----------------------------------------------------------------------------------------------------


class TokenScene(Scene):
    """One who is interrupted in the middle of a call; another who may hold the lock before, and comes afterwards."""

    def __init__(self, case: tuple[str, bool, bool], seed: int) -> None:
        super().__init__(seed, CONFIG, Config(timeout=1.2))
        self.case = case
        self.lock = self.client.get_token_lock("orders")
        TokenRules(self.world, [self.client, self.other])

    def begin(self) -> Task[None]:
        call, contended, reply_lost = self.case
        if call == "unlock":
            self.perform(self.lock.lock(), self.owner)
        if contended:
            self.other.runtime.process.start(self._hold(), "holder")
            self.world.run(seconds=0.2)
        if reply_lost:
            self.lose_replies()
        self.client.runtime.calls = 0
        return self.call(lambda: self._call(call))

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

    def token(self) -> bytes | None:
        found = self.world.node.redis.command("GET", "orders")
        assert found is None or isinstance(found, bytes)
        return found

    def check(self, *, interrupted: bool) -> None:
        self.world.faults = Faults()
        self.client.runtime.interrupt_at = frozenset()  # The watchdog may have come to it instead.
        self.world.run(seconds=1.5)
        if interrupted and self.token() is not None:
            # Only an unlock that had not begun may have left the hold there.
            self.perform(self._is_held(), self.owner)
        try:
            self.perform(self.lock.unlock(), self.owner)
        except LockNotOwnedError:
            pass
        assert self.token() is None

        async def take() -> None:
            assert await self.other.get_token_lock("orders").try_lock(0.5), "the lock is not free"
            await self.other.get_token_lock("orders").unlock()

        self.perform_next(take())
        self.perform(self.lock.lock(), self.owner)
        self.perform(self.lock.unlock(), self.owner)
        self.world.run(seconds=90)
        assert not leftovers(self.world, [self.client, self.other])

    async def _is_held(self) -> None:
        assert await self.lock.is_held_by_current_thread()


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
@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_call_leaves_nothing_in_redis(case: tuple[str, bool, bool], how: str) -> None:
    assert walk(partial(TokenScene, case), INTERRUPTIONS[how]) >= 3


# ---- tries -----------------------------------------------------------------------------------------------------------


def test_an_attempt_without_an_answer_is_one_of_the_tries() -> None:
    with Stage(CONFIG) as stage:
        stage.redis("SET", "orders", "foreign", "PX", 100_000)
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(1), tries=3).lock())
        stage.world.at(0.5, stage.client.runtime.cut)
        with pytest.raises((RedisError, OutcomeUnknownError)):
            waiting()
        assert 2 < stage.world.now < 2 + 3 * CONFIG.timeout


def test_a_first_attempt_that_reaches_no_server_is_none_of_the_tries() -> None:
    with Stage(replace(CONFIG, wait_while_unreachable=True)) as stage:
        stage.client.runtime.cut()
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(5), tries=2).lock())
        stage.world.at(4, stage.client.runtime.heal)
        assert waiting() is None


# ---- histories -------------------------------------------------------------------------------------------------------


class TokenHistory(LockHistory):
    """A history of the token lock."""

    def watch(self) -> LockRules:
        return TokenRules(self.world, self.clients)

    def make(self, client: SimulatedClient, name: str) -> TokenLock:
        return client.get_token_lock(name)

    def uses(self, lock: TokenLock) -> tuple[Callable[[Process, TokenLock, float], Awaitable[None]], ...]:
        return self.block, self.try_lock, self._refused_again, self.hold, self._over_and_over

    async def _refused_again(self, process: Process, lock: TokenLock, lease: float) -> None:
        await lock.lock()
        await self.work(process)
        with pytest.raises(LockError):
            await lock.try_lock(0, lease)
        await lock.unlock()

    async def _over_and_over(self, process: Process, lock: TokenLock, lease: float) -> None:
        # A lease that ran out is no obstacle, and no hold.
        for _ in range(3):
            if await lock.try_lock(1.0, self.world.rng.uniform(0.05, 0.5)):
                await self.world.pause_of(process, 0.5)


#: The server stood still for longer than the lease of an acquire, and read a late copy of it for nobody.
ONCE_FOUND = (20000425,)


@pytest.mark.parametrize("seed", ONCE_FOUND)
def test_seeds_that_found_a_bug_before(seed: int) -> None:
    TokenHistory(seed).run()


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule(chunk: int, volume: Volume) -> None:
    seeds = range(chunk, volume(80, full=4_000), CHUNKS)
    assert sum(result.grants for result in runs(TokenHistory, seeds)) > 0


def test_without_faults_nothing_is_ever_unknown() -> None:
    for seed in range(40):
        result = TokenHistory(seed, quiet(LockPlan())).run()
        assert (result.unknown, result.errors) == (0, 0), f"seed {seed}: {result}"


def break_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that compares no token: the late one of a former holder frees another's lock."""

    def careless(self: TokenKind, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        return self.force(call.ownership, epoch)

    monkeypatch.setattr(TokenKind, "release", careless)


def break_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An acquire without an epoch: a late copy takes the lock for nobody."""
    original = TokenKind.acquire

    def forgetful(self: TokenKind, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        return original(self, call, 0, repeat)

    monkeypatch.setattr(TokenKind, "acquire", forgetful)


def break_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat with a token of its own, as if nothing had been asked before: it waits for itself."""
    original = TokenKind.acquire

    def forgetful(self: TokenKind, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        call.ownership.kind_state.current = ""
        return original(self, call, epoch, False)

    monkeypatch.setattr(TokenKind, "acquire", forgetful)


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
        scene = TokenScene(("lock", False, True), 0)
        with scene.world:
            assert not scene.finish(scene.begin())
        return scene.world.now

    assert taken_after() < 1.5
    break_repeat(monkeypatch)
    assert taken_after() > CONFIG.lock_watchdog_timeout - 0.5
