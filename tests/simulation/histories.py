"""Random histories of the reentrant lock: processes, owners, faults, and the rules that are checked all along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import RedisError

from pyredisson.asyncio.primitives import Lock
from pyredisson.config import Config
from pyredisson.errors import LockLostError, LockNotOwnedError, NoSyncedSlavesError, OutcomeUnknownError
from tests.simulator.checkers import LockRules, ReadWriteRules, leftovers
from tests.simulator.faults import Faults
from tests.simulator.runtime import SimulatedClient
from tests.simulator.world import Cancelled, Process, Task, World

CONFIG = Config(lock_watchdog_timeout=3.0, timeout=0.9, max_wait_without_check=2.0, fair_lock_wait_timeout=6.0)

NETWORK = Faults(
    lose_request=0.01,
    lose_reply=0.03,
    duplicate=0.03,
    straggle=0.03,
    straggle_seconds=8.0,
    reset=0.02,
    delay=0.05,
    delay_seconds=0.4,
    forget_scripts=0.02,
    lose_message=0.1,
    drop_subscriber=0.05,
)


@dataclass(frozen=True)
class Plan:
    """What a history consists of."""

    processes: int = 3
    owners: int = 2
    rounds: int = 4
    locks: int = 1
    faults: Faults = NETWORK
    drift: float = 0.005
    disturb: bool = True
    kind: str = "lock"
    replicas: int = 0


@dataclass
class Result:
    """What came of a history."""

    world: World
    grants: int
    lost: int
    unknown: int
    errors: int
    unsynced: int


class History:
    """One history: build it from a seed, run it, and let the checkers say whether it was one that may happen."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.world = World(seed, faults=self.plan.faults)
        self.world.node.rate = self._rate()
        self.clients: list[SimulatedClient] = []
        self.tasks: list[Task[None]] = []
        self.lost = self.unknown = self.errors = self.unsynced = 0

    def _rate(self) -> float:
        return 1.0 + self.world.rng.uniform(-self.plan.drift, self.plan.drift)

    def run(self) -> Result:
        with self.world:
            return self._run()

    def _run(self) -> Result:
        world, plan = self.world, self.plan
        world.node.redis.replicas = plan.replicas
        for index in range(plan.processes):
            process = world.process(f"p{index}", rate=self._rate())
            client = SimulatedClient(process, config=CONFIG)
            self.clients.append(client)
            for owner in range(plan.owners):
                name = f"p{index}.{owner}"
                self.tasks.append(process.start(self._user(process, client, name), name))
        rules = self.rules()
        if plan.disturb:
            self._disturb()
        # Whatever happened, everybody comes to an end: no wait outlives a lease, a check and the holds before it.
        assert world.run(until=lambda: all(task.done() for task in self.tasks), seconds=600), "somebody waits for ever"
        for task in self.tasks:
            try:
                task.outcome.result()
            except Cancelled:
                pass
        world.faults = Faults()
        world.run(seconds=90)
        if plan.kind == "fair_lock":
            self._sweep()
        left = leftovers(world, [client for client in self.clients if not client.runtime.process.crashed])
        assert not left, left
        return Result(world, rules.grants, self.lost, self.unknown, self.errors, self.unsynced)

    def rules(self) -> LockRules | ReadWriteRules:
        """What is checked all along."""
        return LockRules(self.world, self.clients)

    def make(self, client: SimulatedClient, name: str) -> Any:
        """What is used."""
        return getattr(client, f"get_{self.plan.kind}")(name)

    def _sweep(self) -> None:
        """The queue outlives those who died in it, until somebody comes."""
        process = self.world.process("sweeper")
        client = SimulatedClient(process, config=CONFIG)

        async def sweep() -> None:
            for number in range(self.plan.locks):
                lock = self.make(client, f"lock{number}")
                assert await lock.try_lock(), "the dead still hold it up"
                await lock.unlock()

        task = process.start(sweep(), "sweeper")
        self.world.run(until=task.done, seconds=10)
        task.outcome.result()
        self.world.run(seconds=1)

    def _disturb(self) -> None:
        """Pauses, crashes, restarts and cancellations, at random."""
        world, rng = self.world, self.world.rng
        for client in self.clients:
            process = client.runtime.process
            if rng.random() < 0.3:
                at = rng.uniform(0.0, 6.0)
                world.at(at, process.pause)
                world.at(at + rng.uniform(0.1, 5.0), process.resume)
            if rng.random() < 0.15:
                world.at(rng.uniform(0.0, 6.0), process.crash)
            if rng.random() < 0.2:
                at = rng.uniform(0.0, 6.0)
                world.at(at, client.runtime.cut)
                world.at(at + rng.uniform(0.1, 4.0), client.runtime.heal)
        if rng.random() < 0.2:
            at = rng.uniform(0.0, 6.0)
            world.at(at, world.node.pause)
            world.at(at + rng.uniform(0.1, 2.0), world.node.resume)
        for task in self.tasks:
            if rng.random() < 0.3:
                task.cancel_at = rng.randrange(1, 40)

    def _lock(self, client: SimulatedClient, number: int) -> Lock:
        lock: Lock = getattr(client, f"get_{self.plan.kind}")(f"lock{number}")
        return lock

    async def _user(self, process: Process, client: SimulatedClient, name: str) -> None:
        rng = self.world.rng
        for _ in range(self.plan.rounds):
            lock = self.make(client, f"lock{rng.randrange(self.plan.locks)}")
            try:
                await self._once(process, client, lock)
            except LockLostError:
                self.lost += 1
            except NoSyncedSlavesError:
                self.unsynced += 1
            except (OutcomeUnknownError, LockNotOwnedError):
                self.unknown += 1
            except RedisError:
                self.errors += 1
            await self._let_go(client, lock)
            await self.world.pause_of(process, rng.uniform(0.0, 0.5))

    async def _let_go(self, client: SimulatedClient, lock: Lock) -> None:
        """After an error: give back what is still counted, as ``finally`` clauses would."""
        for _ in range(8):
            try:
                await lock.unlock()
            except LockLostError:
                self.lost += 1
            except LockNotOwnedError:
                return
            except (OutcomeUnknownError, RedisError):
                self.unknown += 1
                return

    async def _once(self, process: Process, client: SimulatedClient, lock: Lock) -> None:
        rng = self.world.rng
        kind = rng.randrange(6)
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
            if await lock.try_lock(0, lease):
                await self._work(process)
                await lock.unlock()
            await self._work(process)
            await lock.unlock()
        elif kind == 3:
            async with lock.hold(lease_time=lease if rng.random() < 0.5 else None) as held:
                await self._work(process)
                held.ensure_held()
        elif kind == 4:
            async with lock, lock:
                await self._work(process)
        else:
            await lock.lock(lease)
            await self._work(process)
            await lock.lock()
            await lock.unlock()
            await lock.unlock()

    async def _work(self, process: Process) -> None:
        await self.world.pause_of(process, self.world.rng.expovariate(2.0))


def quiet(plan: Plan) -> Plan:
    """The same without any fault."""
    return replace(plan, faults=Faults(), disturb=False)
