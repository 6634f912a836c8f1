"""The stage of a scene: a world, two clients with an owner, and who does what is said step by step."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pyredisson.config import Config
from tests.simulated.engine.runtime import SimulatedClient, SimulatedOwner
from tests.simulated.engine.world import World


class Stage:
    """Two clients of one server, and an owner who is told what to do."""

    def __init__(self, config: Config, seed: int = 1, **options: Any) -> None:
        self.world = World(seed)
        self.client = SimulatedClient(self.world.process("one"), config=config, **options)
        self.other = SimulatedClient(self.world.process("two"), config=config, **options)
        self.owner = SimulatedOwner(self.world)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.end()

    def redis(self, *words: str | int | bytes) -> Any:
        return self.world.node.redis.command(*words)

    def start(
        self, work: Coroutine[Any, Any, Any], owner: SimulatedOwner | None = None, client: SimulatedClient | None = None
    ) -> Callable[[], Any]:
        """Let the owner begin something, or another client; what is returned waits for its end, and for its result."""
        owner = owner or (self.owner if client is None else None)
        task = (client or self.client).runtime.process.start(work, "step", owner)

        def finish() -> Any:
            self.world.run(until=task.done, seconds=300)
            return task.outcome.result()

        return finish

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.start(work)()
