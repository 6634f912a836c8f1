"""How a state machine is run: many examples in the simulator, fewer on a real server, in the worlds of the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.contract.on_the_clock import ThreadsWorld
from tests.contract.simulated import SimulatedWorld
from tests.contract.worlds import World

__all__ = ["Machine", "run_on_server", "run_simulated"]


class Machine(RuleBasedStateMachine):
    """A state machine in a world of its own, new for each example.

    Attributes:
        port: Of a real server, emptied for each example; ``None``: the simulator.
        steps: How many steps were taken, in all examples.
    """

    port: ClassVar[int | None] = None
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.world: World = SimulatedWorld() if self.port is None else ThreadsWorld(self.port)
        self.world.redis.command("FLUSHALL")

    @property
    def simulated(self) -> bool:
        return self.port is None

    def stepped(self) -> None:
        type(self).steps += 1

    def teardown(self) -> None:
        self.world.close()


def _run(machine: type[Machine], examples: int, steps: int) -> None:
    machine.steps = 0
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    assert machine.steps >= examples, "the machine hardly did anything"


def run_simulated(machine: type[Machine], volume: Callable[[int], int]) -> None:
    """2,000 examples of 60 steps in the full volume."""
    _run(machine, volume(2000), 60)


def run_on_server(machine: type[Machine], volume: Callable[[int], int], port: int) -> None:
    """100 examples of 40 steps in the full volume."""
    _run(type(machine.__name__, (machine,), {"port": port}), volume(100), 40)
