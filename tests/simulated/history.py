"""A random history: processes, users, faults, and rules that are checked all along. Each kind says what differs.

:class:`History` is the frame. ``lock_history``, ``permit_history``, ``quorum_history`` and ``topology_history`` say
what the clients are, what users do, what goes wrong, and what must be true at the end. One seed is one history, so the
order of the draws from ``world.rng`` is part of it: in another order, the seeds that found bugs are other histories.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from redis.exceptions import RedisError

from pyredisson.config import Config
from pyredisson.errors import (
    LockLostError,
    LockNotOwnedError,
    NoSyncedSlavesError,
    OutcomeUnknownError,
    QuorumUnreachableError,
)
from tests.simulated.engine.checkers import leftovers
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.world import Cancelled, Process, Task, World

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
    """What a history consists of.

    Attributes:
        processes: How many processes there are.
        owners: How many users each process has.
        rounds: How often a user acquires something.
        faults: What goes wrong on the network.
        drift: By how much a clock may be faster or slower, as a share.
        disturb: Whether processes and servers pause, crash or are cut off, and calls are cancelled.
        config: The settings of the clients.
    """

    processes: int = 3
    owners: int = 2
    rounds: int = 4
    faults: Faults = NETWORK
    drift: float = 0.005
    disturb: bool = True
    config: Config = Config()  # noqa: RUF009 it is frozen


AnyPlan = TypeVar("AnyPlan", bound=Plan)


def quiet(plan: AnyPlan) -> AnyPlan:
    """Return the same plan without any fault."""
    return replace(plan, faults=Faults(), disturb=False)


@dataclass
class Result:
    """What happened in a history.

    Attributes:
        world: Where it happened.
        grants: How often something was acquired.
        lost: How many holds were lost.
        unknown: How many calls had an unknown outcome.
        errors: How many calls failed because a server could not be reached.
        unsynced: How many grants were refused because no replica had acknowledged them.
        cancelled: How many calls were cancelled, where they run in tasks of their own.
        tokens: How many fencing tokens were drawn.
        overlaps: How often two owners were inside at once, by the cause that permits it.
    """

    world: World
    grants: int = 0
    lost: int = 0
    unknown: int = 0
    errors: int = 0
    unsynced: int = 0
    cancelled: int = 0
    tokens: int = 0
    overlaps: dict[str, int] = field(default_factory=dict)


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Pause the cyclic collector: when it runs depends on what ran before, and finalizers are part of a history."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class History(ABC):
    """One history: build it from a seed, run it, and let the checkers decide whether it is one that may happen."""

    #: The last time at which something begins to go wrong, in seconds.
    trouble: ClassVar[float] = 6.0
    #: When all users must have finished, whatever happened: no wait outlives a lease, a check and the holds before it.
    bound: ClassVar[float] = 600.0
    #: After that, until the last straggler has arrived and every record is forgotten.
    afterwards: ClassVar[float] = 90.0
    #: Whether users may end cancelled.
    users_are_cancelled: ClassVar[bool] = True
    #: Whether a release may fail because a server cannot be reached.
    releases_fail: ClassVar[bool] = True
    #: The shortest and the longest lease.
    leases: ClassVar[tuple[float, float]] = (0.2, 4.0)
    #: The longest pause of a user between two rounds, in seconds.
    longest_rest: ClassVar[float] = 0.5

    def __init__(self, seed: int, plan: Plan, *, nodes: int = 1) -> None:
        self.plan: Any = plan
        self.world = World(seed, nodes=nodes, faults=plan.faults)
        self.clients: list[Any] = []
        self.tasks: list[Task[None]] = []
        self.result = Result(self.world)
        self.rules: Any = None

    # ---- what each kind says -------------------------------------------------------------------------------------

    @abstractmethod
    def clients_in(self, process: Process) -> list[Any]:
        """Return the clients of a process."""

    def watch(self) -> Any:
        """Return the rules that are checked all along."""
        return None

    def disturb(self) -> None:  # noqa: B027  # Nothing, unless a kind says otherwise.
        """Plan pauses, crashes, restarts and cancellations, at random."""

    def heal(self) -> None:  # noqa: B027  # Nothing, unless a kind says otherwise.
        """Bring back what is still away when all users have finished."""

    @abstractmethod
    async def user(self, process: Process, clients: list[Any]) -> None:
        """Do what one user does, round by round."""

    def failed(self, error: Exception, began: float) -> None:  # noqa: B027
        """Judge a call that failed, or had an unknown outcome, in a round that began at this time."""

    def remains(self, left: list[str]) -> list[str]:
        """Return those of the leftovers that must not be there."""
        return left

    def check(self) -> None:
        """Check what is there at the end."""
        left = self.remains(leftovers(self.world, [each for each in self.clients if not each.runtime.process.crashed]))
        assert not left, left

    # ---- the history ---------------------------------------------------------------------------------------------

    def rate(self) -> float:
        """Return the rate of a clock."""
        return 1.0 + self.world.rng.uniform(-self.plan.drift, self.plan.drift)

    def run(self) -> Result:
        """Let it happen.

        Raises:
            Violation: A rule was broken.
        """
        with self.world, _no_garbage_collected():
            self.start()
            self.rules = self.watch()
            if self.plan.disturb:
                self.disturb()
            self.live()
            for task in self.tasks:
                try:
                    task.outcome.result()
                except Cancelled:
                    if not self.users_are_cancelled:
                        raise
            self.world.run(seconds=self.afterwards)
            self.check()
        return self.result

    def start(self) -> None:
        """Start the processes and their users."""
        for index in range(self.plan.processes):
            process = self.world.process(f"p{index}", rate=self.rate())
            clients = self.clients_in(process)
            self.clients += clients
            for owner in range(self.plan.owners):
                self.tasks.append(process.start(self.user(process, clients), f"p{index}.{owner}"))

    def live(self) -> None:
        """Let time pass until all users have finished, and then let nothing go wrong any more."""
        assert self.world.run(until=self.over, seconds=self.bound), f"somebody waits for ever: {self.open()}"
        self.world.faults = Faults()
        self.heal()

    def over(self) -> bool:
        return all(task.done() for task in self.tasks)

    def open(self) -> list[Task[None]]:
        return [task for task in self.tasks if not task.done()]

    # ---- what goes wrong -----------------------------------------------------------------------------------------

    def sometime(self, call: Callable[[], object], *, before: float | None = None) -> float:
        """Let something happen at a random time. Returns when."""
        at = self.world.rng.uniform(0.0, self.trouble if before is None else before)
        self.world.at(at, lambda: call() and None)
        return at

    def perhaps(
        self,
        chance: float,
        begin: Callable[[], object],
        end: Callable[[], object] | None = None,
        lasting: tuple[float, float] = (0.1, 5.0),
        *,
        before: float | None = None,
    ) -> bool:
        """With this chance, let something happen at a random time, and end after a while. Returns whether it will."""
        if self.world.rng.random() >= chance:
            return False
        at = self.sometime(begin, before=before)
        if end is not None:
            self.world.at(at + self.world.rng.uniform(*lasting), lambda: end() and None)
        return True

    def cancel_some(self, chance: float, suspensions: int) -> None:
        """With this chance each, cancel a user at one of its first suspensions."""
        for task in self.tasks:
            if self.world.rng.random() < chance:
                task.cancel_at = self.world.rng.randrange(1, suspensions)

    # ---- users ---------------------------------------------------------------------------------------------------

    def rounds(self) -> Iterable[int]:
        """Return the numbers of a user's rounds."""
        return range(self.plan.rounds)

    async def attempt(self, work: Awaitable[None], began: float) -> None:
        """Await what a user does, and count how it failed."""
        result = self.result
        try:
            await work
        except LockLostError:
            result.lost += 1
        except NoSyncedSlavesError:
            result.unsynced += 1
        except LockNotOwnedError:
            result.unknown += 1
        except OutcomeUnknownError as error:
            result.unknown += 1
            self.failed(error, began)
        except (RedisError, QuorumUnreachableError) as error:
            result.errors += 1
            self.failed(error, began)

    async def work(self, process: Process) -> None:
        """Work for a while, inside."""
        await self.world.pause_of(process, self.world.rng.expovariate(2.0))


class HandleHistory(History):
    """One history of users of handles: each acquires and releases what its handle stands for, in one way or another."""

    @abstractmethod
    def handle(self, clients: list[Any], number: int, previous: Any) -> Any:
        """Return what a user uses in its round of this number; ``previous`` is that of the round before."""

    @abstractmethod
    def uses(self, lock: Any) -> tuple[Callable[[Process, Any, float], Awaitable[None]], ...]:
        """Return the ways to use a lock. Each is called with the process, the lock and a lease."""

    async def user(self, process: Process, clients: list[Any]) -> None:
        """Use a lock again and again."""
        lock = None
        for number in self.rounds():
            began = self.world.now
            lock = self.handle(clients, number, lock)
            await self.attempt(self.once(process, lock), began)
            await self.let_go(process, lock)
            await self.world.pause_of(process, self.world.rng.uniform(0.0, self.longest_rest))

    async def let_go(self, process: Process, lock: Any) -> None:
        """After an error, release what is still counted, as ``finally`` clauses would."""
        for _ in range(8):
            try:
                await lock.unlock()
            except LockLostError:
                self.result.lost += 1
            except LockNotOwnedError:
                return
            except (OutcomeUnknownError, QuorumUnreachableError):
                self.result.unknown += 1  # That level is given up; those around it are not.
            except RedisError:
                if not self.releases_fail:
                    raise
                self.result.unknown += 1
                await self.world.pause_of(process, 1.0)  # The server is away; a hold that is not left is renewed.

    async def once(self, process: Process, lock: Any) -> None:
        """Use a lock in one of the ways."""
        uses = self.uses(lock)
        use = uses[self.world.rng.randrange(len(uses))]
        await use(process, lock, self.world.rng.uniform(*self.leases))

    # ---- ways to use a lock --------------------------------------------------------------------------------------

    async def block(self, process: Process, lock: Any, lease: float) -> None:
        async with lock:
            await self.work(process)

    async def nested_blocks(self, process: Process, lock: Any, lease: float) -> None:
        async with lock, lock:
            await self.work(process)

    async def try_lock(self, process: Process, lock: Any, lease: float) -> None:
        if await lock.try_lock(self.world.rng.uniform(0.0, 3.0), lease):
            await self.work(process)
            await lock.unlock()

    async def nested_try_lock(self, process: Process, lock: Any, lease: float) -> None:
        await lock.lock()
        await self.work(process)
        if await lock.try_lock(0, lease):
            await self.work(process)
            await lock.unlock()
        await self.work(process)
        await lock.unlock()

    async def hold(self, process: Process, lock: Any, lease: float) -> None:
        async with lock.hold(lease_time=lease if self.world.rng.random() < 0.5 else None) as held:
            await self.work(process)
            held.ensure_held()

    async def lease_then_renewed(self, process: Process, lock: Any, lease: float) -> None:
        await lock.lock(lease)
        await self.work(process)
        await lock.lock()
        await lock.unlock()
        await lock.unlock()
