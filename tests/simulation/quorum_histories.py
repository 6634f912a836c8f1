"""Random histories of a lock on a quorum of nodes: nodes stop, die, and come back with or without their memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import RedisError

from pyredisson.asyncio.primitives import MultiLock
from pyredisson.config import Config
from pyredisson.errors import LockLostError, LockNotOwnedError, OutcomeUnknownError, QuorumUnreachableError
from tests.simulator.checkers import QuorumRules, leftovers
from tests.simulator.faults import Faults
from tests.simulator.runtime import SimulatedClient
from tests.simulator.world import Cancelled, Process, Task, World

#: Longer than any lease here: a node that was restarted empty stays out for so long.
GUARD = 5.0

CONFIG = Config(
    lock_watchdog_timeout=3.0,
    timeout=0.9,
    max_wait_without_check=2.0,
    quorum_retry_timeout=4.0,
    restart_guard=GUARD,
)

NETWORK = Faults(
    lose_request=0.01,
    lose_reply=0.02,
    duplicate=0.02,
    straggle=0.02,
    straggle_seconds=8.0,
    reset=0.01,
    delay=0.03,
    delay_seconds=0.2,
    forget_scripts=0.01,
    lose_message=0.05,
    drop_subscriber=0.02,
)

#: When the tables are swept, in seconds.
SWEEP_EVERY = 0.07
SWEEPS = 120

#: Those that may be taken again by their holder, and those that may not.
REENTRANT = ("lock", "spin_lock", "fair_lock")
ONCE = ("token_lock", "non_reentrant_lock")


@dataclass(frozen=True)
class Plan:
    """What a history consists of."""

    sizes: tuple[int, ...] = (1, 3, 3, 5, 5)
    processes: int = 3
    owners: int = 1
    rounds: int = 3
    faults: Faults = NETWORK
    drift: float = 0.005
    disturb: bool = True
    config: Config = CONFIG
    kinds: tuple[str, ...] = (*REENTRANT, *ONCE)


@dataclass
class Result:
    """What came of a history."""

    world: World
    grants: int
    lost: int
    unknown: int
    unreachable: int


class QuorumHistory:
    """One history, from its seed."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.world = World(seed, nodes=5, faults=self.plan.faults)
        rng = self.world.rng
        del self.world.nodes[rng.choice(self.plan.sizes) :]
        for node in self.world.nodes:
            node.rate = self._rate()
        self.kind = rng.choice(self.plan.kinds)
        self.clients: list[SimulatedClient] = []
        self.tasks: list[Task[None]] = []
        self.lost = self.unknown = self.unreachable = 0

    def _rate(self) -> float:
        return 1.0 + self.world.rng.uniform(-self.plan.drift, self.plan.drift)

    def run(self) -> Result:
        with self.world:
            return self._run()

    def _run(self) -> Result:
        world, plan = self.world, self.plan
        for index in range(plan.processes):
            process = world.process(f"p{index}", rate=self._rate())
            clients = [SimulatedClient(process, config=plan.config, node=node) for node in world.nodes]
            self.clients += clients
            for owner in range(plan.owners):
                name = f"p{index}.{owner}"
                self.tasks.append(process.start(self._user(process, clients), name))
        rules = QuorumRules(world, self.clients)
        for tick in range(1, SWEEPS):
            world.at(tick * SWEEP_EVERY, self._sweep)
        if plan.disturb:
            self._disturb()
        assert world.run(until=lambda: all(task.done() for task in self.tasks), seconds=600), "somebody waits for ever"
        for task in self.tasks:
            try:
                task.outcome.result()
            except Cancelled:
                pass
        world.faults = Faults()
        for node in world.nodes:
            if not node.redis.up:
                node.restart()
        world.run(seconds=90)
        left = leftovers(world, [client for client in self.clients if not client.runtime.process.crashed])
        if self.kind == "fair_lock":
            left = [each for each in left if "queue" not in each and "timeout" not in each]
        assert not left, left
        return Result(world, rules.grants, self.lost, self.unknown, self.unreachable)

    def _sweep(self) -> None:
        """Forget what is idle, in the middle of whatever its owners do: else that comes with a thousand of them."""
        for client in self.clients:
            client._core.keeper._sweep()
            client._core.ownerships._sweep()

    def _disturb(self) -> None:
        """Pauses, crashes, restarts and cancellations, at random."""
        world, rng = self.world, self.world.rng
        for process in world.processes:
            if rng.random() < 0.3:
                at = rng.uniform(0.0, 6.0)
                world.at(at, process.pause)
                world.at(at + rng.uniform(0.1, 5.0), process.resume)
            if rng.random() < 0.15:
                world.at(rng.uniform(0.0, 6.0), process.crash)
        for client in self.clients:
            if rng.random() < 0.1:
                at = rng.uniform(0.0, 6.0)
                world.at(at, client.runtime.cut)
                world.at(at + rng.uniform(0.1, 4.0), client.runtime.heal)
        # Not all of them: a fleet that is restarted as a whole has forgotten everything, and says so nowhere.
        for node in world.nodes[1:]:
            if rng.random() < 0.2:
                at = rng.uniform(0.0, 6.0)
                world.at(at, node.pause)
                world.at(at + rng.uniform(0.1, 2.0), node.resume)
            elif rng.random() < 0.5:
                at = rng.uniform(0.0, 6.0)
                data = rng.random() < 0.3
                world.at(at, node.crash)
                world.at(at + rng.uniform(0.05, 2.0), lambda node=node, data=data: node.restart(data=data))  # type: ignore[misc]
        for task in self.tasks:
            if rng.random() < 0.3:
                task.cancel_at = rng.randrange(1, 60)

    def _lock(self, clients: list[SimulatedClient]) -> MultiLock:
        return MultiLock(*[getattr(client, f"get_{self.kind}")("orders") for client in clients])

    async def _user(self, process: Process, clients: list[SimulatedClient]) -> None:
        rng = self.world.rng
        lock = self._lock(clients)
        for number in range(self.plan.rounds):
            if number % 2:
                lock = self._lock(clients)  # A handle knows who used it last; another one of the same members does not.
            try:
                await self._once(process, lock)
            except LockLostError:
                self.lost += 1
            except (OutcomeUnknownError, LockNotOwnedError):
                self.unknown += 1
            except QuorumUnreachableError:
                self.unreachable += 1
            except RedisError as error:
                raise AssertionError(f"an error of a connection came through: {error!r}") from error
            await self._let_go(lock)
            await self.world.pause_of(process, rng.uniform(0.0, 0.5))

    async def _let_go(self, lock: MultiLock) -> None:
        """After an error: give back what is still counted, as ``finally`` clauses would."""
        for _ in range(8):
            try:
                await lock.unlock()
            except LockLostError:
                self.lost += 1
            except LockNotOwnedError:
                return
            except OutcomeUnknownError:
                self.unknown += 1
                return

    async def _once(self, process: Process, lock: MultiLock) -> None:
        rng = self.world.rng
        kind = rng.randrange(5 if self.kind in REENTRANT else 3)
        lease = rng.uniform(0.2, 4.0)
        if kind == 0:
            async with lock:
                await self._work(process)
        elif kind == 1:
            if await lock.try_lock(rng.uniform(0.0, 3.0), lease):
                await self._work(process)
                await lock.unlock()
        elif kind == 2:
            async with lock.hold(lease_time=lease if rng.random() < 0.5 else None) as held:
                await self._work(process)
                held.ensure_held()
        elif kind == 3:
            await lock.lock()
            await self._work(process)
            if await lock.try_lock(0, lease):
                await self._work(process)
                await lock.unlock()
            await self._work(process)
            await lock.unlock()
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


def scan(first: int, last: int, **changes: Any) -> None:
    """Look for seeds that break a rule."""
    plan = Plan(**changes)
    for seed in range(first, last):
        try:
            QuorumHistory(seed, plan).run()
        except BaseException as error:
            print(seed, repr(error)[:300])
            if isinstance(error, KeyboardInterrupt):
                raise
