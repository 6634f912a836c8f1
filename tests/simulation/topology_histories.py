"""Random histories of locks whose master is not always the same: users, faults and rules that all such sets share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from redis.exceptions import RedisError

from pyredisson.config import Config
from pyredisson.errors import LockLostError, LockNotOwnedError, NoSyncedSlavesError, OutcomeUnknownError
from tests.simulation.seeds import runs
from tests.simulator.checkers import FailoverRules, Violation, leftovers
from tests.simulator.faults import Faults
from tests.simulator.network import Network
from tests.simulator.replication import Lag
from tests.simulator.routed import RoutedClient
from tests.simulator.world import Cancelled, Process, Task, World

CONFIG = Config(
    lock_watchdog_timeout=6.0,
    timeout=0.9,
    max_wait_without_check=8.0,
    ping_interval=2.0,
    ping_timeout=1.0,
    slaves_sync_timeout=0.4,
    check_lock_synced_slaves=False,
)

NETWORK = Faults(
    lose_request=0.01,
    lose_reply=0.02,
    duplicate=0.01,
    straggle=0.01,
    straggle_seconds=5.0,
    reset=0.01,
    delay=0.03,
    delay_seconds=0.2,
    forget_scripts=0.01,
    lose_message=0.03,
    drop_subscriber=0.03,
)

#: When the last fault is over, in seconds.
TROUBLE = 9.0

#: After the last fault, until connections that were cut are known to be dead and made anew.
SETTLING = 4.0

#: So long after the last fault users begin something new; and everybody has come to an end so long after that.
NEWS = 8.0
BOUND = 40.0


@dataclass(frozen=True)
class Plan:
    """What a history consists of."""

    processes: int = 3
    owners: int = 2
    locks: int = 2
    faults: Faults = NETWORK
    drift: float = 0.005
    disturb: bool = True
    calm: bool = False  # Slots may move, and nothing goes wrong: no call may fail.
    migrations: int = 4
    failovers: int = 0
    isolate: bool = True
    lag: Lag = field(default_factory=Lag)
    config: Config = CONFIG
    kinds: tuple[str, ...] = ("lock", "fenced_lock")


@dataclass
class Result:
    """What came of a history."""

    world: World
    grants: int
    tokens: int
    overlaps: dict[str, int]
    lost: int
    unknown: int
    errors: int
    unsynced: int


class TopologyHistory:
    """One history, from its seed. What the servers are is for others to say."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.world = World(seed, nodes=0, faults=plan.faults)
        self.network = Network(self.world)
        self.clients: list[RoutedClient] = []
        self.tasks: list[Task[None]] = []
        self.lost = self.unknown = self.errors = self.unsynced = 0
        self.rules: FailoverRules

    # ---- for the servers' sake -----------------------------------------------------------------------------------

    def client(self, process: Process) -> RoutedClient:
        """A client of the servers."""
        raise NotImplementedError

    def watch(self) -> FailoverRules:
        """What is checked all along."""
        raise NotImplementedError

    def disturb_servers(self) -> None:
        """Let something happen to the servers."""
        raise NotImplementedError

    def whole(self) -> bool:
        """Whether the servers are all well."""
        raise NotImplementedError

    # ---- the history ---------------------------------------------------------------------------------------------

    def rate(self) -> float:
        return 1.0 + self.world.rng.uniform(-self.plan.drift, self.plan.drift)

    def sometime(self, call: Callable[[], object], *, at_most: float = TROUBLE) -> float:
        """Let something happen at a time of its own. Returns when."""
        at = self.world.rng.uniform(0.0, at_most)
        self.world.at(at, lambda: call() and None)
        return at

    def run(self) -> Result:
        with self.world:
            return self._run()

    def _run(self) -> Result:
        world, plan = self.world, self.plan
        for index in range(plan.processes):
            process = world.process(f"p{index}", rate=self.rate())
            client = self.client(process)
            self.clients.append(client)
            for owner in range(plan.owners):
                self.tasks.append(process.start(self._user(process, client), f"p{index}.{owner}"))
        self.rules = self.watch()
        if plan.disturb:
            if not plan.calm:
                self._disturb()
            self.disturb_servers()
        world.run(seconds=TROUBLE)
        world.faults = Faults()
        self.network.heal_all()
        world.run(until=self.whole, seconds=8)
        assert self.whole(), "the servers have not come together again"
        self.rules.quiet_from = world.now + SETTLING
        assert world.run(until=self._over, seconds=NEWS + BOUND), f"somebody waits for ever: {self._open()}"
        for task in self.tasks:
            try:
                task.outcome.result()
            except Cancelled:
                pass
        world.run(seconds=90)
        left = leftovers(world, [client for client in self.clients if not client.runtime.process.crashed])
        left = [each for each in left if "redisson_lock_token" not in each]
        assert not left, left
        if plan.config.check_lock_synced_slaves:
            gave_up = [client for client in self.clients if client.core.replicas.given_up]
            assert not gave_up, f"replicas are waited for no more by {gave_up}"
        rules = self.rules
        return Result(
            world,
            rules.grants,
            rules.tokens,
            dict(rules.overlaps),
            self.lost,
            self.unknown,
            self.errors,
            self.unsynced,
        )

    def _over(self) -> bool:
        return all(task.done() for task in self.tasks)

    def _open(self) -> list[Task[None]]:
        return [task for task in self.tasks if not task.done()]

    def _disturb(self) -> None:
        world, rng = self.world, self.world.rng
        for client in self.clients:
            process = client.runtime.process
            if rng.random() < 0.2:
                at = self.sometime(process.pause, at_most=TROUBLE - 3.0)
                world.at(at + rng.uniform(0.1, 3.0), process.resume)
            if rng.random() < 0.1:
                self.sometime(process.crash)
            for host in self.network.hosts.values():
                if rng.random() < 0.1:
                    at = self.sometime(lambda process=process, host=host: self.network.cut(process, host))  # type: ignore[misc]
                    world.at(
                        at + rng.uniform(0.1, 3.0), lambda process=process, host=host: self.network.heal(process, host)
                    )
        for task in self.tasks:
            if rng.random() < 0.25:
                task.cancel_at = rng.randrange(1, 80)

    # ---- users ---------------------------------------------------------------------------------------------------

    async def _user(self, process: Process, client: RoutedClient) -> None:
        rng = self.world.rng
        while self.world.now < TROUBLE + NEWS:
            well = self.world.now > self.rules.quiet_from or self.plan.calm
            number = rng.randrange(self.plan.locks)
            kind = self.plan.kinds[number % len(self.plan.kinds)]
            lock = getattr(client, f"get_{kind}")(f"{kind}{number}")
            try:
                await self._once(process, lock, fenced=kind == "fenced_lock")
            except LockLostError:
                self.lost += 1
            except NoSyncedSlavesError:
                self.unsynced += 1
            except LockNotOwnedError:
                self.unknown += 1
            except OutcomeUnknownError as error:
                self.unknown += 1
                self._failed(error, well=well)
            except RedisError as error:
                self.errors += 1
                self._failed(error, well=well)
            await self._let_go(lock)
            await self.world.pause_of(process, rng.uniform(0.0, 1.0))

    def _failed(self, error: Exception, *, well: bool) -> None:
        if well:
            raise Violation(f"a call failed although all is well: {error!r}") from error

    async def _let_go(self, lock: Any) -> None:
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

    async def _once(self, process: Process, lock: Any, *, fenced: bool) -> None:
        rng = self.world.rng
        kind = rng.randrange(6)
        lease = rng.uniform(0.4, 5.0)
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
        elif kind == 4 and fenced:
            token = await lock.lock_and_get_token()
            assert await lock.try_lock_and_get_token() == token, "a re-entry has another token than the hold it joins"
            await self._work(process)
            await lock.unlock()
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


def counted(history: Callable[[int], TopologyHistory], seeds: Iterable[int]) -> Counter[str]:
    """Run the history of each seed, and count what happened in all of them. Fails as ``runs`` does."""
    seen: Counter[str] = Counter()
    for result in runs(history, seeds):
        seen.update(result.world.counts)
        seen.update(grants=result.grants, tokens=result.tokens, unsynced=result.unsynced)
        seen.update({f"overlap by {cause}": count for cause, count in result.overlaps.items()})
    assert seen["grants"] > 0
    assert seen["tokens"] > 0
    return seen


def overlaps_of(seen: Counter[str]) -> set[str]:
    """The causes for which two were in at once."""
    return {name.removeprefix("overlap by ") for name in seen if name.startswith("overlap by ")}
