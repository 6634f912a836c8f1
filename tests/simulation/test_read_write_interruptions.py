"""Both sides of a read-write lock, cancelled or interrupted wherever they can be."""

from __future__ import annotations

import pytest

from pyredisson.asyncio.primitives import Lock
from tests.simulation.test_interruptions import CASES, Scene, walk
from tests.simulator.checkers import ReadWriteRules
from tests.simulator.runtime import SimulatedClient
from tests.simulator.world import Task


class Reading(Scene):
    """The victim reads; who comes before and after it writes."""

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.read_lock() if client is self.client else both.write_lock()

    def rules(self) -> None:
        ReadWriteRules(self.world, [self.client, self.other])


class Writing(Reading):
    """The victim writes; who comes before and after it reads."""

    suffix = ":write"

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.write_lock() if client is self.client else both.read_lock()


both = pytest.mark.parametrize("scene", [Reading, Writing], ids=lambda scene: scene.__name__.lower())


@both
@pytest.mark.parametrize("name", CASES)
def test_cancelled_wherever_it_waits(name: str, scene: type[Scene]) -> None:
    def interrupt(scene: Scene, task: Task[None], point: int) -> None:
        task.cancel_at = point

    assert walk(CASES[name], interrupt, lambda scene, task: task.suspensions, scene) >= 3


@both
@pytest.mark.parametrize("name", CASES)
def test_interrupted_before_and_after_each_request(name: str, scene: type[Scene]) -> None:
    def interrupt(scene: Scene, task: Task[None], point: int) -> None:
        scene.client.runtime.interrupt_at = frozenset({point})

    assert walk(CASES[name], interrupt, lambda scene, task: scene.client.runtime.calls, scene) >= 3


@both
@pytest.mark.parametrize("name", CASES)
def test_cancelled_twice(name: str, scene: type[Scene]) -> None:
    def interrupt(scene: Scene, task: Task[None], point: int) -> None:
        task.cancel_at = point
        scene.world.after(0.0012, task.cancel)
        scene.world.after(0.0031, task.cancel)

    assert walk(CASES[name], interrupt, lambda scene, task: task.suspensions, scene) >= 3
