"""The walk of interruptions: a call is made again and again, and interrupted at the next point each time.

A :class:`Scene` says what is called, and what must be true afterwards, wherever it was interrupted: nothing is left
behind, and everybody can go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tests.simulated.engine.faults import Faults
from tests.simulated.engine.world import Cancelled, Task
from tests.simulated.stage import Stage


class Scene(Stage, ABC):
    """A victim whose call is interrupted, and another client that goes on."""

    @abstractmethod
    def begin(self) -> Task[None]:
        """Set the scene up and start the call that is to be interrupted."""

    @abstractmethod
    def check(self, *, interrupted: bool) -> None:
        """Check what the call has left, and that the owner and others can go on."""

    def call(self, work: Callable[[], Awaitable[object]]) -> Task[None]:
        """Start the call that is to be interrupted."""

        async def run() -> None:
            await work()

        return self.client.runtime.process.start(run(), "call", self.owner)

    def lose_replies(self, seconds: float = 0.2) -> None:
        """Lose all replies for a while: the first of them, but not those of the repetitions."""
        self.world.faults = Faults(lose_reply=1.0)
        self.world.after(seconds, lambda: setattr(self.world, "faults", Faults()))

    def finish(self, task: Task[None]) -> bool:
        """Let the call end. Returns whether it was interrupted."""
        self.world.run(until=task.done, seconds=60)
        try:
            task.outcome.result()
        except Cancelled:
            return True
        return False


@dataclass(frozen=True)
class Interruption:
    """A way to interrupt a call.

    Attributes:
        points: How many points the call has, by a run without an interruption.
        interrupt: Interrupt it at one of them, counted from 1.
    """

    points: Callable[[Scene, Task[None]], int]
    interrupt: Callable[[Scene, Task[None], int], None]


def _suspensions(scene: Scene, task: Task[None]) -> int:
    return task.suspensions


def _requests(scene: Scene, task: Task[None]) -> int:
    return scene.client.runtime.calls


def _cancel(scene: Scene, task: Task[None], point: int) -> None:
    task.cancel_at = point


def _cancel_twice(scene: Scene, task: Task[None], point: int) -> None:
    task.cancel_at = point
    scene.world.after(0.0012, task.cancel)
    scene.world.after(0.0031, task.cancel)


def _interrupt(scene: Scene, task: Task[None], point: int) -> None:
    scene.client.runtime.interrupt_at = frozenset({point})


def _close(scene: Scene, task: Task[None], point: int) -> None:
    task.close_at = point


#: Cancelled at each suspension, and again while the first cancellation is cleaned up after. Ctrl-C before and after
#: each request. Closed at each suspension, as by ``aclose()``: the coroutine may wait for nothing any more, and the
#: watchdog finishes what it left.
INTERRUPTIONS: Final = {
    "cancelled": Interruption(_suspensions, _cancel),
    "cancelled twice": Interruption(_suspensions, _cancel_twice),
    "interrupted": Interruption(_requests, _interrupt),
    "closed": Interruption(_suspensions, _close),
}


def walk(make: Callable[[int], Scene], how: Interruption, *, seeds: Iterable[int] = range(3)) -> int:
    """Make the call of a scene as often as it can be interrupted, each time at the next point.

    Returns:
        How often it was interrupted.
    """
    interrupted = 0
    for seed in seeds:
        scene = make(seed)
        with scene.world:
            task = scene.begin()
            assert not scene.finish(task)
            points = how.points(scene, task)
            scene.check(interrupted=False)
        for point in range(1, points + 1):
            scene = make(seed)
            with scene.world:
                task = scene.begin()
                how.interrupt(scene, task, point)
                was = scene.finish(task)
                assert was or task.suspensions < task.cancel_at, "a cancellation was swallowed"
                interrupted += was
                scene.check(interrupted=was)
    return interrupted
