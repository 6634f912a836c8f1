"""Random histories of the locks on one server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pyredisson.config import Config
from tests.simulated.engine.checkers import LockRules, ReadWriteRules
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Node, Process
from tests.simulated.history import HandleHistory, Plan

__all__ = ["CONFIG", "LockHistory", "LockPlan"]

#: In seconds; without faults a message takes no longer.
A_FEW_ROUND_TRIPS = 0.1

CONFIG = Config(lock_watchdog_timeout=3.0, timeout=0.9, max_wait_without_check=2.0, fair_lock_wait_timeout=6.0)


@dataclass(frozen=True)
class LockPlan(Plan):
    """What a history consists of.

    Attributes:
        locks: How many locks there are.
        kind: Their kind.
        replicas: How many replicas the server has.
        outside_queue: The share of clients that wait as earlier versions do, without a place in the wait queue.
    """

    config: Config = CONFIG
    locks: int = 1
    kind: str = "lock"
    replicas: int = 0
    outside_queue: float = 0.0


class LockHistory(HandleHistory):
    """A history of locks of one kind."""

    plan: LockPlan

    def __init__(self, seed: int, plan: LockPlan | None = None) -> None:
        super().__init__(seed, plan or LockPlan())
        self.world.node.rate = self.rate()
        self.world.node.redis.replicas = self.plan.replicas

    def clients_in(self, process: Process) -> list[Any]:
        client = SimulatedClient(process, config=self.plan.config)
        if self.plan.outside_queue and self.world.rng.random() < self.plan.outside_queue:
            client.runtime.counts_listeners = lambda: False  # type: ignore[method-assign]
        return [client]

    def watch(self) -> LockRules | ReadWriteRules:
        return LockRules(self.world, self.clients)

    def disturb(self) -> None:
        for client in self.clients:
            process, runtime = client.runtime.process, client.runtime
            self.perhaps(0.3, process.pause, process.resume)
            self.perhaps(0.15, process.crash)
            self.perhaps(0.2, runtime.cut, runtime.heal, (0.1, 4.0))
        self.perhaps(0.2, self.world.node.pause, self.world.node.resume, (0.1, 2.0))
        self.cancel_some(0.3, 40)

    def start(self) -> None:
        super().start()
        if not self.plan.disturb and self.plan.faults == Faults():
            self._watch_for_waiters_that_heard_nothing()

    def _watch_for_waiters_that_heard_nothing(self) -> None:
        """Without faults, no release may be noticed only by the look that waiters take from time to time."""
        free_since: dict[bytes, float] = {}
        of = {each.id.encode(): each.core.subscriptions for each in self.clients}

        def watch(node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
            now = self.world.now
            if script.endswith(("_release", "_force_unlock")) and type(result) is int and result >= 1:
                free_since[keys[0]] = now
            elif "_acquire" in script and (result is None or (isinstance(result, list) and result[0] == b"token")):
                late = now - free_since.pop(keys[0], now) > A_FEW_ROUND_TRIPS
                subscriptions = of.get(args[0].partition(b":")[0])
                if late and subscriptions is not None:
                    before = subscriptions.last_resorts
                    self.world.at(now + A_FEW_ROUND_TRIPS, lambda: check(subscriptions, before))

        def check(subscriptions: Any, before: int) -> None:
            assert subscriptions.last_resorts == before, "a waiter was served that no message had woken"

        self.world.watchers.append(watch)

    def make(self, client: SimulatedClient, name: str) -> Any:
        """Return a handle on a lock."""
        return getattr(client, f"get_{self.plan.kind}")(name)

    def handle(self, clients: list[Any], number: int, previous: Any) -> Any:
        return self.make(clients[0], f"lock{self.world.rng.randrange(self.plan.locks)}")

    def uses(self, lock: Any) -> tuple[Callable[[Process, Any, float], Awaitable[None]], ...]:
        return (
            self.block,
            self.try_lock,
            self.nested_try_lock,
            self.hold,
            self.nested_blocks,
            self.lease_then_renewed,
        )

    def check(self) -> None:
        if self.plan.kind == "fair_lock":
            self._sweep()
        super().check()
        self.result.grants = self.rules.grants

    def _sweep(self) -> None:
        """Acquire each lock once: a queue outlives the waiters that died in it until the next one comes."""
        process = self.world.process("sweeper")
        client = SimulatedClient(process, config=self.plan.config)

        async def sweep() -> None:
            for number in range(self.plan.locks):
                lock = self.make(client, f"lock{number}")
                assert await lock.try_lock(), "dead waiters still hold it up"
                await lock.unlock()

        task = process.start(sweep(), "sweeper")
        self.world.run(until=task.done, seconds=10)
        task.outcome.result()
        self.world.run(seconds=1)
