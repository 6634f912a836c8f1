"""Random histories of a lock on a quorum of nodes: nodes stop, crash, and come back with or without their data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyredisson._asyncio.locks import MultiLock
from pyredisson.config import Config
from pyredisson.errors import OutcomeUnknownError, QuorumUnreachableError
from tests.simulated.engine.checkers import QuorumRules
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Process
from tests.simulated.history import HandleHistory, Plan

#: Longer than any lease here: a node that was restarted empty has no vote for so long.
GUARD = 5.0

CONFIG = Config(
    lock_watchdog_timeout=3.0, timeout=0.9, max_wait_without_check=2.0, quorum_retry_timeout=4.0, restart_guard=GUARD
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

#: Kinds that their holder may acquire again, and kinds that it may not.
REENTRANT = ("lock", "spin_lock", "fair_lock")
ONCE = ("token_lock", "non_reentrant_lock")


@dataclass(frozen=True)
class QuorumPlan(Plan):
    """What a history consists of.

    Attributes:
        sizes: The numbers of nodes, of which one is drawn.
        kinds: The kinds of locks, of which one is drawn.
    """

    owners: int = 1
    rounds: int = 3
    faults: Faults = NETWORK
    config: Config = CONFIG
    sizes: tuple[int, ...] = (1, 3, 3, 5, 5)
    kinds: tuple[str, ...] = (*REENTRANT, *ONCE)


class QuorumHistory(HandleHistory):
    """One history on a quorum."""

    plan: QuorumPlan
    releases_fail = False

    def __init__(self, seed: int, plan: QuorumPlan | None = None) -> None:
        super().__init__(seed, plan or QuorumPlan(), nodes=5)
        rng = self.world.rng
        del self.world.nodes[rng.choice(self.plan.sizes) :]
        for node in self.world.nodes:
            node.rate = self.rate()
        self.kind = rng.choice(self.plan.kinds)

    def clients_in(self, process: Process) -> list[Any]:
        return [SimulatedClient(process, config=self.plan.config, node=node) for node in self.world.nodes]

    def watch(self) -> QuorumRules:
        rules = QuorumRules(self.world, self.clients)
        for tick in range(1, SWEEPS):
            self.world.at(tick * SWEEP_EVERY, self._sweep)
        return rules

    def _sweep(self) -> None:
        """Forget what is idle, in the middle of whatever its owners do: otherwise that takes a thousand of them."""
        for client in self.clients:
            client._core.ownerships._sweep()

    def disturb(self) -> None:
        world, rng = self.world, self.world.rng
        for process in world.processes:
            self.perhaps(0.3, process.pause, process.resume)
            self.perhaps(0.15, process.crash)
        for client in self.clients:
            self.perhaps(0.1, client.runtime.cut, client.runtime.heal, (0.1, 4.0))
        # Not all of them: a fleet that is restarted as a whole has forgotten everything, and nothing tells.
        for node in world.nodes[1:]:
            if not self.perhaps(0.2, node.pause, node.resume, (0.1, 2.0)) and rng.random() < 0.5:
                at = rng.uniform(0.0, self.trouble)
                data = rng.random() < 0.3
                world.at(at, node.crash)
                world.at(at + rng.uniform(0.05, 2.0), lambda node=node, data=data: node.restart(data=data))
        self.cancel_some(0.3, 60)

    def heal(self) -> None:
        for node in self.world.nodes:
            if not node.redis.up:
                node.restart()

    def handle(self, clients: list[Any], number: int, previous: Any) -> Any:
        if previous is not None and not number % 2:
            return previous
        # A handle knows who used it last; another one of the same members does not.
        return MultiLock(*[getattr(client, f"get_{self.kind}")("orders") for client in clients])

    def uses(self, lock: Any) -> tuple[Callable[[Process, Any, float], Awaitable[None]], ...]:
        once = (self.block, self.try_lock, self.hold)
        return (*once, self.nested_try_lock, self.lease_then_renewed) if self.kind in REENTRANT else once

    def failed(self, error: Exception, began: float) -> None:
        if not isinstance(error, (OutcomeUnknownError, QuorumUnreachableError)):
            raise AssertionError(f"an error of a connection came through: {error!r}") from error

    def remains(self, left: list[str]) -> list[str]:
        if self.kind == "fair_lock":
            return [each for each in left if not any(word in each for word in ("queue", "timeout", "alive"))]
        return left

    def check(self) -> None:
        super().check()
        self.result.grants = self.rules.grants
        assert not self.result.unsynced, "there are no replicas to wait for"
