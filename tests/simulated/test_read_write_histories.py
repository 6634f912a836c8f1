"""Random histories of read-write locks, with faults: readers, writers, writers that go on reading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyredisson.asyncio.primitives import Lock, ReadWriteLock
from pyredisson.errors import LockError, LockLostError, LockNotOwnedError, OutcomeUnknownError
from tests.simulated.engine.checkers import ReadWriteRules, Violation
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Process
from tests.simulated.history import quiet
from tests.simulated.lock_history import CONFIG, LockHistory, LockPlan
from tests.simulated.planted import Bug, in_script
from tests.simulated.seeds import first_of, runs
from tests.volumes import Volume

CHUNKS = 4


class ReadWriteHistory(LockHistory):
    """A history of read-write locks."""

    def watch(self) -> ReadWriteRules:
        return ReadWriteRules(self.world, self.clients)

    def make(self, client: SimulatedClient, name: str) -> ReadWriteLock:
        return client.get_read_write_lock(name)

    async def let_go(self, process: Process, lock: ReadWriteLock) -> None:
        # To the end: an owner that leaves a read behind in an outage is refused, rightly, when it asks to write later.
        for side in (lock.read_lock(), lock.write_lock()):
            for _ in range(60):
                unknown = self.result.unknown
                await super().let_go(process, side)
                if self.result.unknown == unknown:
                    break
                await self.world.pause_of(process, 0.5)

    async def once(self, process: Process, lock: ReadWriteLock) -> None:
        rng = self.world.rng
        read, write = lock.read_lock(), lock.write_lock()
        lease = rng.uniform(*self.leases)
        kind = rng.randrange(8)
        if kind < 3:
            await super().once(process, read)
        elif kind == 3:
            await super().once(process, write)
        elif kind == 4:
            await self._downgrade(process, read, write)
        elif kind == 5:
            await read.lock(lease if rng.random() < 0.5 else None)
            await self._refused(write)
            await self.work(process)
            await read.unlock()
        elif kind == 6:
            async with write.hold(lease_time=lease), read.hold(lease_time=rng.uniform(*self.leases)) as held:
                await self.work(process)
                held.ensure_held()
        else:
            if await write.try_lock(rng.uniform(0.0, 2.0), lease):
                async with read:
                    await self.work(process)
                await write.unlock()

    async def _downgrade(self, process: Process, read: Lock, write: Lock) -> None:
        await write.lock()
        await self.work(process)
        await read.lock()
        await write.unlock()
        await self.work(process)
        await read.unlock()

    async def _refused(self, write: Lock) -> None:
        """A reader that asks for the write side. If its read was lost meanwhile, it may get it."""
        try:
            taken = await write.try_lock(0.1)
        except (LockLostError, LockNotOwnedError, OutcomeUnknownError):
            raise
        except LockError:
            return
        if taken:
            await write.unlock()


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule(chunk: int, volume: Volume) -> None:
    seeds = range(chunk, volume(160, full=8_000), CHUNKS)
    assert sum(result.grants for result in runs(ReadWriteHistory, seeds)) > 0


def test_without_faults_nothing_is_ever_unknown() -> None:
    for seed in range(60):
        result = ReadWriteHistory(seed, quiet(LockPlan())).run()
        assert result.errors == 0, f"seed {seed}: {result}"
        assert result.unknown == 0 or result.lost, f"seed {seed}: {result}"
        assert result.grants > 0


class LongLeases(ReadWriteHistory):
    """A history in which no lease runs out."""

    leases = (60.0, 90.0)


def test_without_faults_each_wait_is_ended_by_a_message() -> None:
    config = replace(CONFIG, lock_watchdog_timeout=90.0, max_wait_without_check=30.0)
    for seed in range(60):
        history = LongLeases(seed, quiet(LockPlan(config=config)))
        history.run()
        assert sum(client.core.subscriptions.last_resorts for client in history.clients) == 0, f"seed {seed}"


BUGS = {
    "a reader is let in beside a writer": in_script(
        "read_lock_acquire",
        (
            "elseif mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then",
            "elseif false then",
        ),
    ),
    "a writer is let in beside readers": in_script(
        "write_lock_acquire", ("if mode ~= 'write' or not held then", "if mode == 'write' and not held then")
    ),
    "the last write unlock takes the reads with it": in_script(
        "write_lock_release", ("if reads then", "if false then")
    ),
    "one reader's end frees all": in_script(
        "read_lock_release", ("local free = redis.call('hlen', KEYS[1]) == 2", "local free = true")
    ),
    "a reader's end cuts the time of others": in_script("read_lock_release", ("cut = longest", "cut = 50")),
    "a renewal brings back what has ended": in_script(
        "read_lock_renew", ("if left ~= -2 then", "redis.call('set', holds .. i, 1) left = -1\n        if true then")
    ),
    "a renewal cuts the lock's time": in_script(
        "read_lock_renew", ("live_for(KEYS[at], ARGV[1])", "redis.call('pexpire', KEYS[at], ARGV[1])")
    ),
    "a reader lives without the lock": in_script("read_lock_acquire", ("live_for(KEYS[1], ARGV[4])", "")),
    "a read unlock does not check the epoch": in_script(
        "read_lock_release", ("tonumber(stored) > tonumber(ARGV[2])", "false")
    ),
}


#: Which seed found it the last time, where that is not among the first: tried before the others, which take longer.
FOUND_BY = {"a read unlock does not check the epoch": 56}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug: Bug = BUGS[name]
    bug.plant(monkeypatch)
    for seed in first_of(FOUND_BY.get(name), 400):
        try:
            ReadWriteHistory(seed).run()
        except (Violation, AssertionError):
            return
    pytest.fail("no history found it")
