"""How a state machine is run: many examples in the simulator, fewer on a real server, in the worlds of the contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.servers import VALKEY, SharedServers
from tests.volumes import Volume
from tests.worlds.base import World
from tests.worlds.environments import Environment
from tests.worlds.simulated import SimulatedWorld


class Machine(RuleBasedStateMachine):
    """A state machine in a world of its own, new and empty for each example.

    Attributes:
        simulated: Whether that is the simulator. On a real server time is not ours: what is taken there has to last
            longer than any example.
        looks: How often it was looked at, in all examples: at the beginning of each, and after each step.
    """

    open_world: ClassVar[Callable[[], World]]
    simulated: ClassVar[bool]
    looks: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.world: World = type(self).open_world()

    @invariant()
    def is_looked_at(self) -> None:
        type(self).looks += 1

    def teardown(self) -> None:
        self.world.close()


def run_simulated(machine: type[Machine], volume: Volume) -> None:
    """Examples of 60 steps each."""
    _run(machine, SimulatedWorld, True, volume(40, full=2000), 60)


def run_on_server(
    machine: type[Machine], volume: Volume, servers: SharedServers, runtime: Literal["threads", "asyncio"] = "threads"
) -> None:
    """Examples of 40 steps each."""
    _run(machine, partial(Environment(runtime, VALKEY).make, servers), False, volume(2, full=100), 40)


def _run(machine: type[Machine], open_world: Callable[[], World], simulated: bool, examples: int, steps: int) -> None:
    bound = type(machine.__name__, (machine,), {"open_world": staticmethod(open_world), "simulated": simulated})
    run_state_machine_as_test(
        bound,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    assert bound.looks > 2 * examples, "the machine hardly did anything"
