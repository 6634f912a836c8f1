"""Random histories of barriers and bounded semaphores: processes, owners and faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from threading import BrokenBarrierError
from typing import Any

from redis.exceptions import RedisError

from pyredisson.config import Config
from pyredisson.errors import OutcomeUnknownError
from tests.simulated.engine.checkers import Violation
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Process
from tests.simulated.history import NETWORK, History, Plan, Result
from tests.simulated.permit_history import TOTAL, Held, PermitHistory

FAULTS = replace(NETWORK, straggle=0.05)


@dataclass(frozen=True)
class BarrierPlan(Plan):
    """What a history consists of. Few outcomes remain unknown: a call has more time than anything is away."""

    faults: Faults = FAULTS
    config: Config = Config(timeout=20.0, max_wait_without_check=2.0)  # noqa: RUF009 it is frozen


class BarrierHistory(History):
    """Parties that wait for each other in each round, are left alone once, and go on after a reset.

    1. No one passes in a round before all have begun it.
    2. Those who pass in a round have different numbers.
    3. After an abort all who wait receive an error, and none of them passes.

    A call whose outcome remains unknown ends the history: the others wait for someone who does not know what to do.
    """

    plan: BarrierPlan

    def __init__(self, seed: int, plan: BarrierPlan | None = None) -> None:
        super().__init__(seed, plan or BarrierPlan())
        self.world.node.rate = self.rate()
        self.parties = self.plan.processes * self.plan.owners
        self.begun: list[int] = []
        self.numbers: dict[int, list[int]] = {}
        self.broken = 0
        self.whole = False
        self.unknown: OutcomeUnknownError | None = None

    def clients_in(self, process: Process) -> list[Any]:
        return [SimulatedClient(process, config=self.plan.config)]

    def disturb(self) -> None:
        for client in self.clients:
            process, runtime = client.runtime.process, client.runtime
            self.perhaps(0.3, process.pause, process.resume, (0.1, 9.0))
            self.perhaps(0.3, runtime.cut, runtime.heal, (0.1, 4.0))
        self.perhaps(0.2, self.world.node.pause, self.world.node.resume, (0.1, 4.0))

    def run(self) -> Result:
        try:
            return super().run()
        except OutcomeUnknownError:
            return self.result

    def over(self) -> bool:
        return self.unknown is not None or super().over()

    def live(self) -> None:
        super().live()
        if self.unknown is not None:
            for task in self.tasks:
                assert not task.done() or task.outcome.result() is None
            self.result.unknown += 1
            raise self.unknown

    async def user(self, process: Process, clients: list[Any]) -> None:
        try:
            await self._use(process, clients)
        except OutcomeUnknownError as error:
            self.unknown = error

    async def _use(self, process: Process, clients: list[Any]) -> None:
        me = len(self.begun)
        self.begun.append(0)
        barrier = clients[0].get_barrier("start", self.parties)
        for _ in self.rounds():
            await self._pass(process, barrier, me)
        if me == 0:
            await self._until(process, lambda: len(self.numbers[self.plan.rounds]) == self.parties)
            await self.work(process)
            await self._again(process, barrier.abort)
            await self._until(process, lambda: self.broken == self.parties - 1)
            assert await self._again(process, lambda: barrier.broken)
            await self._again(process, barrier.reset)
            self.whole = True
        else:
            try:
                number = await self._again(process, barrier.wait)
            except BrokenBarrierError:
                self.broken += 1
            else:
                raise Violation(f"{number} has passed an aborted barrier at {self.world.now:.3f} s")
            await self._until(process, lambda: self.whole)
        await self._pass(process, barrier, me)

    async def _pass(self, process: Process, barrier: Any, me: int) -> None:
        await self.work(process)
        self.begun[me] += 1
        this = self.begun[me]
        number = await self._again(process, barrier.wait)
        if len(self.begun) < self.parties or min(self.begun) < this:
            raise Violation(f"{me} has passed in round {this} at {self.world.now:.3f} s, and some are not there")
        self.numbers.setdefault(this, []).append(number)
        self.result.grants += 1

    async def _again(self, process: Process, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call, again if no request was sent."""
        while True:
            try:
                return await call()
            except RedisError:
                self.result.errors += 1
                await self.world.pause_of(process, 0.2)

    async def _until(self, process: Process, condition: Any) -> None:
        while not condition():
            await self.world.pause_of(process, 0.1)

    def check(self) -> None:
        expected = list(range(self.parties))
        for number, seen in self.numbers.items():
            if sorted(seen) != expected:
                raise Violation(f"the numbers of round {number} are {sorted(seen)}")
        assert len(self.numbers) == self.plan.rounds + 1
        super().check()

    def remains(self, left: list[str]) -> list[str]:
        return [each for each in left if "start" not in each]  # It is kept for a day.


class BoundedHistory(PermitHistory):
    """Users of a bounded semaphore, who release what they have acquired, and no more.

    1. No more than its value is held.
    2. No release of what was acquired is refused; one more in the end is.
    3. In the end all permits are available.
    """

    def semaphore(self, client: SimulatedClient) -> Any:
        """Return the semaphore."""
        return client.get_bounded_semaphore("printers", TOTAL)

    async def user(self, process: Process, clients: list[Any]) -> None:
        (client,) = clients
        for _ in self.rounds():
            use = self.world.rng.choice((self._acquire, self._inside))
            held = Held()
            await self._perhaps_cancelled(process, lambda use=use, held=held: use(process, client, held))
            await self._surely(process, client, held)
            await self.world.pause_of(process, self.world.rng.uniform(0.0, 0.5))

    async def _acquire(self, process: Process, client: SimulatedClient, held: Held) -> None:
        wait = self.world.rng.choice((0, self.world.rng.uniform(0.0, 3.0), None))
        if await self.semaphore(client).acquire(timeout=wait):
            self._take(held, 1)
            await self.work(process)

    async def _inside(self, process: Process, client: SimulatedClient, held: Held) -> None:
        async with self.semaphore(client):
            inside = Held()
            self._take(inside, 1)
            try:
                await self.work(process)
            finally:
                self._give(inside, 1)

    def check(self) -> None:
        redis = self.world.node.redis
        left = redis.command("GET", "printers")
        if int(left) != TOTAL:
            raise Violation(f"in the end there are {left} permits, instead of {TOTAL}")
        client = self.clients[0]

        async def release_one_more() -> None:
            try:
                await self.semaphore(client).release()
            except ValueError:
                return
            raise Violation("one release too many was not refused")

        task = client.runtime.process.start(release_one_more(), "one more")
        assert self.world.run(until=task.done, seconds=60)
        task.outcome.result()
        self.world.run(seconds=90)
        redis.command("DEL", "seats", "leased", "only", "ready", "printers", "pyredisson_permits:{printers}")
        History.check(self)
