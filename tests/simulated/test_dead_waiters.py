"""Those who die in the queue of a fair lock: others wait for them no longer than they themselves would have waited.

To the millisecond, in virtual time. Those who live keep their places, whatever their clocks do.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyredisson.config import Config
from tests.simulated.engine.checkers import LockRules, leftovers
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Node, World

QUEUE = b"redisson_lock_queue:{orders}"
#: A few round trips, and the milliseconds of the server's clock.
SOON = 0.02
FASTEST = 1.01


@dataclass
class Waiter:
    """One who came to wait.

    Attributes:
        patience: For how many seconds it means to wait; ``None``: without end.
        came: When it stood in the queue.
        died: When its process died, if it did.
        got: When it got the lock, if it did.
        gave_up: When it left without it, if it did.
        freed: When it gave the lock back.
    """

    client: SimulatedClient
    patience: float | None
    came: float = 0.0
    died: float = math.inf
    got: float = math.inf
    gave_up: float = math.inf
    freed: float = math.inf

    def believed_until(self, timeout: float, fastest: float = FASTEST) -> float:
        """When others may stop to wait for it, if it is dead."""
        patience = math.inf if self.patience is None else self.patience
        return min(self.came + patience * fastest, self.died + timeout * fastest)


class Scene:
    """A fair lock, and processes that wait for it in turn."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.clients: list[SimulatedClient] = []
        self.waiters: list[Waiter] = []
        self.looks: Counter[bytes] = Counter()
        self.held_until = 0.0
        self.world.watchers.append(self._watch)

    def _watch(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        if script == "fair_look":
            self.looks[args[1].rpartition(b":")[0]] += 1

    @property
    def now(self) -> float:
        return self.world.now

    def process(self, rate: float = 1.0, **config: Any) -> SimulatedClient:
        """Another process, and its client."""
        process = self.world.process(f"p{len(self.clients)}", rate=rate)
        client = SimulatedClient(process, config=Config(**config))
        self.clients.append(client)
        return client

    def hold(self, until: float, lease: float | None = None) -> None:
        """Somebody has the lock, until that time."""
        client = self.process()
        lock = client.get_fair_lock("orders")
        self.held_until = until

        async def work() -> None:
            await lock.lock(lease)
            await self.world.pause_of(client.runtime.process, until - self.now)
            await lock.unlock()

        client.runtime.process.start(work(), "holder")
        assert self.world.run(until=lambda: b"orders" in self.world.node.redis.dump(), seconds=1)

    def wait(self, patience: float | None = None, client: SimulatedClient | None = None, keeps: float = 0.0) -> Waiter:
        """Somebody comes and waits, and keeps the lock for so long when it gets it."""
        waiter = Waiter(client or self.process(), patience)
        process = waiter.client.runtime.process
        lock = waiter.client.get_fair_lock("orders")

        async def work() -> None:
            if not await lock.try_lock(patience):
                waiter.gave_up = self.now
                return
            waiter.got = self.now
            if keeps:
                await self.world.pause_of(process, keeps)
            await lock.unlock()
            waiter.freed = self.now

        def there() -> bool:
            return self.queue() != before or min(waiter.got, waiter.gave_up) < math.inf or process.crashed

        before = self.queue()
        self.waiters.append(waiter)
        process.start(work(), "waiter")
        assert self.world.run(until=there, seconds=1)
        waiter.came = self.now
        return waiter

    def die(self, client: SimulatedClient) -> None:
        """A process is no more, and with it all who wait in it."""
        client.runtime.process.crash()
        for waiter in self.waiters:
            if waiter.client is client and self.now < min(waiter.got, waiter.gave_up):
                waiter.died = self.now

    def dead(self, patience: float | None = None, client: SimulatedClient | None = None) -> Waiter:
        """Somebody comes, waits, and is no more."""
        waiter = self.wait(patience, client)
        self.die(waiter.client)
        return waiter

    def run(self, seconds: float) -> None:
        self.world.run(seconds=seconds)

    def queue(self) -> list[bytes]:
        """Who stands in the queue: of which client."""
        entry = self.world.node.redis.dump().get(QUEUE)
        return [] if entry is None else [who.rpartition(b":")[0] for who in entry.value]

    def end(self) -> None:
        """Nothing is left, once everybody is gone."""
        self.run(90)
        left = leftovers(self.world, [each for each in self.clients if not each.runtime.process.crashed])
        assert not left, left


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.world:
        LockRules(scene.world, scene.clients)
        yield scene
        scene.end()


def soon_after(moment: float) -> Any:
    return pytest.approx(moment + SOON / 2, abs=SOON / 2)


def test_a_dead_head_of_a_lock_whose_holder_is_dead(scene):
    """Nobody says that it is free."""
    scene.hold(until=3.0, lease=6)
    scene.clients[0].runtime.process.crash()
    dead = scene.dead(9)
    alive = scene.wait()
    scene.run(60)
    assert alive.got == soon_after(dead.came + 9 * FASTEST)


@pytest.mark.parametrize("later", [1.0, 10.0, 290.0, 2000.0])
@pytest.mark.parametrize("patience", [5, 1000, None])
def test_a_dead_waiter_that_no_client_has_checked(scene, patience, later):
    """Somebody comes when all who knew of it are gone, and what it said is long over; it was believed in for 330 s."""
    scene.hold(until=0.5)
    dead = scene.dead(patience)
    scene.run(later)
    alive = scene.wait()
    scene.run(400)
    assert alive.got == soon_after(max(alive.came - SOON / 2, dead.believed_until(300)))


@pytest.mark.parametrize("patience", [None, 1000.0])
@pytest.mark.parametrize("lived", [0.01, 50.0])
def test_who_would_have_waited_longer_is_believed_in_since_it_was_heard_of(scene, patience, lived):
    """Its looks say that it is alive, every 10 s; after the last it has 30 s and 1 %."""
    scene.hold(until=lived + 1)
    dying = scene.process(fair_lock_wait_timeout=30.0)
    waiter = scene.wait(patience, dying)
    alive = scene.wait()
    scene.run(lived)
    scene.die(dying)
    scene.run(120)
    assert waiter.died + 20 <= alive.got <= waiter.died + 30 * FASTEST + SOON


def test_no_living_waiter_loses_its_place(scene):
    """Each waits for many times as long as it is believed in, to the end of its own patience, by clocks that differ."""
    scene.world.node.rate = 1.005
    scene.hold(until=100.0)
    rates = (0.995, 1.0, 1.005)
    clients = [scene.process(rate, fair_lock_wait_timeout=6.0) for rate in rates]
    patience = [None, 2.0, 5.9, 6.1, 30.0, None, 59.0, 61.0, 99.0]
    waiters = [scene.wait(each, clients[n % 3]) for n, each in enumerate(patience)]
    for _ in range(900):
        scene.run(0.1)
        there = [waiter.client.id.encode() for waiter in waiters if waiter.gave_up == math.inf]
        assert scene.queue() == there
    for n, waiter in enumerate(waiters):
        if waiter.patience is not None and waiter.patience < 99:
            assert waiter.gave_up - waiter.came == pytest.approx(waiter.patience / rates[n % 3], abs=SOON)
    scene.run(20)
    assert [waiter.got for waiter in waiters if waiter.patience is None] == [soon_after(100), soon_after(100)]


def test_a_bounded_wait_costs_no_more_than_it_did(scene):
    """One look, when its channel is heard: it needs no other sign of life if its patience is not the longest."""
    scene.hold(until=99.0)
    waiter = scene.wait(99)
    looks = scene.looks
    scene.run(9.9)
    assert looks == {waiter.client.id.encode(): 1}
    scene.run(100)


# ---- any sequence ----------------------------------------------------------------------------------------------------

TIMEOUT = 6.0


def random_scene(seed: int) -> Scene:
    """Processes with clocks of their own come, wait for as long as they like, and die; whoever is left is served."""
    scene = Scene(seed)
    with scene.world:
        rng = random.Random(seed)
        LockRules(scene.world, scene.clients)
        scene.world.node.rate = rng.uniform(0.995, 1.005)
        scene.hold(until=rng.uniform(0.5, 8.0))
        clients = [
            scene.process(rng.uniform(0.995, 1.005), fair_lock_wait_timeout=TIMEOUT) for _ in range(rng.randint(2, 5))
        ]
        for client in clients[1:]:
            if rng.random() < 0.6:
                scene.world.at(rng.uniform(0.2, 12.0), _death_of(scene, client))
        for _ in range(rng.randint(3, 10)):
            client = rng.choice(clients)
            if not client.runtime.process.crashed:
                patience = rng.choice((None, rng.uniform(0.5, 15.0), rng.uniform(0.5, 15.0)))
                scene.wait(patience, client, keeps=rng.choice((0.0, rng.uniform(0.0, 2.0))))
            scene.run(rng.choice((0.0, rng.uniform(0.0, 1.0))))
        scene.run(120)
        check(scene)
        _sweep(scene)
        scene.end()
    return scene


def _death_of(scene: Scene, client: SimulatedClient) -> Callable[[], None]:
    def die() -> None:
        # A holder's death is another matter: its lease has to end. (What it is told of may be under way.)
        held = scene.world.node.redis.dump().get(b"orders")
        if held is None or not any(who.startswith(client.id.encode()) for who in held.value):
            scene.die(client)

    return die


def _sweep(scene: Scene) -> None:
    """The queue outlives those who died in it, until somebody comes."""
    waiter = scene.wait(0)
    scene.run(1)
    assert waiter.got < math.inf, "the dead still hold it up"


def check(scene: Scene) -> None:
    """Who is alive is served in turn, or gives up; and waits for the dead no longer than they would have waited."""
    waiters = scene.waiters
    living = [each for each in waiters if each.died == math.inf]
    served = sorted((each for each in waiters if each.got < math.inf), key=lambda each: each.got)
    assert served == [each for each in waiters if each.got < math.inf], "somebody was overtaken"
    assert all(min(each.got, each.gave_up) < math.inf for each in living), "somebody waits for ever"
    free = scene.held_until
    for waiter in served:
        before = waiters[: waiters.index(waiter)]
        for each in before:
            if each.got == math.inf:  # Then it was in the way until it gave up, or could be dead no longer.
                gone = each.gave_up if each.died == math.inf else each.believed_until(TIMEOUT, fastest=1.021)
                free = max(free, gone)
        assert waiter.got <= max(free, waiter.came) + SOON, f"{waiter} had to wait since {free}"
        free = waiter.freed


def test_any_sequence():
    for seed in range(150):
        try:
            random_scene(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
