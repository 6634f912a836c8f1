"""Random histories of the locks on one server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pyredisson._asyncio.locks import Lock, ReadWriteLock, TokenLock
from pyredisson.config import Config
from pyredisson.errors import LockError, LockLostError, LockNotOwnedError, OutcomeUnknownError
from tests.simulated.engine.checkers import LockRules, ReadWriteRules, TokenRules
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Process
from tests.simulated.history import HandleHistory, Plan

CONFIG = Config(lock_watchdog_timeout=3.0, timeout=0.9, max_wait_without_check=2.0, fair_lock_wait_timeout=6.0)


@dataclass(frozen=True)
class LockPlan(Plan):
    """What a history consists of.

    Attributes:
        locks: How many locks there are.
        kind: Their kind.
        replicas: How many replicas the server has.
        outside_queue: The share of clients that wait as earlier versions do, without a place in the wait queue.
        presence: Whether the clients tell of what they hold.
    """

    config: Config = CONFIG
    locks: int = 1
    kind: str = "lock"
    replicas: int = 0
    outside_queue: float = 0.0
    presence: bool = False


class LockHistory(HandleHistory):
    """A history of locks of one kind."""

    plan: LockPlan

    def __init__(self, seed: int, plan: LockPlan | None = None) -> None:
        super().__init__(seed, plan or LockPlan())
        self.world.node.rate = self.rate()
        self.world.node.redis.replicas = self.plan.replicas

    def clients_in(self, process: Process) -> list[Any]:
        client = SimulatedClient(process, config=self.plan.config, presence=self.plan.presence)
        if self.plan.outside_queue and self.world.rng.random() < self.plan.outside_queue:
            client.runtime.counts_listeners = lambda: False
        return [client]

    def watch(self) -> LockRules | ReadWriteRules:
        return LockRules(self.world, self.clients)

    def disturb(self) -> None:
        for client in self.clients:
            process, runtime = client.runtime.process, client.runtime
            self.perhaps(0.3, process.pause, process.resume)
            self.perhaps(0.15, process.crash)
            self.perhaps(0.2, runtime.cut, runtime.heal, (0.1, 4.0))
        self.perhaps(0.2, self.world.node.pause, self.world.node.resume, (0.1, 2.0))
        self.cancel_some(0.3, 40)

    def make(self, client: SimulatedClient, name: str) -> Any:
        """Return a handle on a lock."""
        return getattr(client, f"get_{self.plan.kind}")(name)

    def handle(self, clients: list[Any], number: int, previous: Any) -> Any:
        return self.make(clients[0], f"lock{self.world.rng.randrange(self.plan.locks)}")

    def uses(self, lock: Any) -> tuple[Callable[[Process, Any, float], Awaitable[None]], ...]:
        return (self.block, self.try_lock, self.nested_try_lock, self.hold, self.nested_blocks, self.lease_then_renewed)

    def check(self) -> None:
        if self.plan.kind == "fair_lock":
            self._sweep()
        super().check()
        self.result.grants = self.rules.grants

    def _sweep(self) -> None:
        """Acquire each lock once: a queue outlives the waiters that died in it until the next one comes."""
        process = self.world.process("sweeper")
        client = SimulatedClient(process, config=self.plan.config)

        async def sweep() -> None:
            for number in range(self.plan.locks):
                lock = self.make(client, f"lock{number}")
                assert await lock.try_lock(), "dead waiters still hold it up"
                await lock.unlock()

        task = process.start(sweep(), "sweeper")
        self.world.run(until=task.done, seconds=10)
        task.outcome.result()
        self.world.run(seconds=1)


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
