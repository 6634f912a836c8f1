"""Random crowds of clients that wait for permits: nobody waits for permits that are available."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

import pytest

from tests.simulated.crowd import EXPIRABLE, PLAIN, PermitCrowd
from tests.simulated.engine.checkers import Violation
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Cancelled, Task
from tests.simulated.planted import check_found
from tests.simulated.test_permit_crowd import BUGS
from tests.volumes import Volume

#: Seconds for which one may wait although there are permits: those who were told may be stopped, and then the observers
#: as well that attempt in their place.
BOUND = 0.45


@dataclass(eq=False)
class Waiter:
    """A call that waits.

    Attributes:
        short: When there were too few permits for it last, or it could not go on.
    """

    client: SimulatedClient
    wanted: int
    short: float


class RandomCrowd(PermitCrowd):
    """One history: clients that come, give up and stand still, and permits that come, expire and are given back."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        super().__init__(self.rng.choice((PLAIN, EXPIRABLE)))
        self.waiters: list[Waiter] = []
        self.paused: dict[SimulatedClient, float] = {}
        self.users = [self.client(queued=self.rng.random() < 0.85) for _ in range(self.rng.randint(6, 16))]

    def run(self) -> None:
        given = 0
        pauses = self.rng.random() < 0.5
        for _ in range(self.rng.randint(20, 80)):
            chance = self.rng.random()
            if chance < 0.5:
                self.come()
            elif chance < 0.56 and given < 4:
                given += self.rng.randint(1, 3)
                self.start(self.semaphore().add_permits(given))
            elif chance < 0.66 and self.tasks:
                self.give_up(self.rng.choice(self.tasks))
            elif chance < 0.8 and pauses:
                self.stand_still(self.rng.choice(self.users))
            for _ in range(self.rng.randint(1, 6)):
                self.go_on(self.rng.choice((0.0005, 0.003, 0.03)))
        self.start(self.semaphore().add_permits(6))
        for _ in range(100):
            self.go_on(0.05)
        self.finish(seconds=20)
        if self.last_resorts():
            raise Violation("somebody waited until its longest time without a check had passed")
        self.close()

    def come(self) -> None:
        rng, client = self.rng, self.rng.choice(self.users)
        wanted = rng.choice((1, 1, 1, 2, 3)) if self.kind == PLAIN else 1
        seconds = rng.choice((None, None, None, rng.uniform(0.01, 2)))
        keeps = rng.choice((0, rng.expovariate(3), rng.expovariate(3)))
        lease = rng.choice((None, None, rng.uniform(0.05, 1.5)))
        semaphore = self.semaphore(client)

        async def work() -> None:
            waiter = Waiter(client, wanted, self.world.now)
            self.waiters.append(waiter)
            try:
                args = (wanted, seconds) if self.kind == PLAIN else (seconds, lease)
                permit = await semaphore.try_acquire(*args)
            finally:
                self.waiters.remove(waiter)
            if permit:
                await self.world.pause_of(client.runtime.process, keeps)
                if self.kind == PLAIN:
                    await semaphore.release(wanted)
                else:
                    await semaphore.try_release(permit)

        self.tasks.append(client.runtime.process.start(work(), "waiter"))

    @staticmethod
    def give_up(task: Task) -> None:
        if not task.done():
            task.cancel()

    def stand_still(self, client: SimulatedClient) -> None:
        if client not in self.paused:
            client.runtime.process.pause()
            self.paused[client] = self.world.now + self.rng.uniform(0.05, 1.5)

    def go_on(self, seconds: float) -> None:
        self.world.run(seconds=seconds)
        for client, until in list(self.paused.items()):
            if self.world.now >= until:
                del self.paused[client]
                client.runtime.process.resume()
        available = int(self.redis("GET", "seats"))
        expired = self.redis("ZCOUNT", "{seats}:timeout", 0, self.world.node.redis.now_us // 1000)
        for waiter in self.waiters:
            if waiter.client in self.paused or waiter.wanted > available + expired:
                waiter.short = self.world.now
            elif self.world.now > waiter.short + BOUND:
                raise Violation(f"{waiter} waits at {self.world.now:.3f} s, and there are {available} + {expired}")


def run(seed: int) -> None:
    crowd = RandomCrowd(seed)
    try:
        crowd.run()
    except (AssertionError, Cancelled) as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    finally:
        crowd.world.end()


@pytest.mark.volume
def test_nobody_waits_for_permits_that_are_available(volume: Volume) -> None:
    for seed in range(volume(10, full=500)):
        run(seed)


@pytest.mark.planted
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "one that comes too late is not put back"
    check_found(monkeypatch, name, BUGS[name], ((f"seed {seed}", partial(run, seed)) for seed in range(20)))
