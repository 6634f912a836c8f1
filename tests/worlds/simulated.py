"""The world in virtual time: the core as it is, the shipped scripts, and no clock, socket or thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from pyredisson import Config
from pyredisson.observe.logging import Log, wants_all
from tests.forms import ended
from tests.simulated.engine.runtime import SimulatedClient, SimulatedOwner
from tests.simulated.engine.world import Node, Process, Task
from tests.simulated.engine.world import World as Simulation
from tests.worlds.base import PATIENCE, Actor, Pending, Remote, World, method_of
from tests.worlds.store import Messages, Store


class SimulatedPending(Pending):
    """A call under way in the simulation, which goes on only while the test waits for something."""

    def __init__(self, world: SimulatedWorld, task: Task[Any]) -> None:
        self._world = world
        self.task = task

    def done(self) -> bool:
        return self.task.done()

    def wait(self, within: float) -> None:
        self._world.simulation.run(until=self.task.done, seconds=within)

    def result(self, within: float = PATIENCE) -> Any:
        self.finish(within)
        return self.task.outcome.result()


class SimulatedActor(Actor):
    """An owner in the simulation. Each of its calls is a task in its name."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._owner = SimulatedOwner(world.simulation)
        self._under_way: SimulatedPending | None = None

    @property
    def number(self) -> int:
        return self._owner.number

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> SimulatedPending:
        method = method_of(call, args, kwargs)

        async def work() -> Any:
            return await ended(method())

        assert self._under_way is None or self._under_way.done(), "an actor does one thing at a time"
        self._under_way = SimulatedPending(self._world, self._world.process.start(work(), "actor", self._owner))
        return self._under_way

    def end(self) -> None:
        call = self._under_way
        assert call is None or self._world.simulation.run(until=call.done, seconds=PATIENCE), "an actor does not end"
        self._owner.ended = True

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        pending = self.start(call, *args)
        self._world.until(once)
        pending.task.cancel()
        try:
            pending.result()
        except BaseException as error:
            return error
        return None


class SimulatedStore(Store):
    """The simulated server's.

    Attributes:
        scripts_run: How many scripts it has run.
    """

    def __init__(self, world: SimulatedWorld, node: Node) -> None:
        self._world = world
        self._node = node
        self.scripts_run = 0
        world.simulation.watchers.append(self._count)

    def _count(self, node: Node, *_: object) -> None:
        self.scripts_run += node is self._node

    def command(self, *words: str | int) -> Any:
        return self._node.redis.command(*words)

    def subscribers(self, channel: str) -> int:
        clients = [client for client in self._world.clients if client.runtime.node is self._node]
        return sum(channel in client.runtime.subscribed() for client in clients)

    def messages(self, channel: str) -> Messages:
        return SimulatedMessages(self._node, channel)


class SimulatedMessages:
    """Messages of the simulated server."""

    def __init__(self, node: Node, channel: str) -> None:
        self._node = node
        self._channel = channel.encode()
        self._from = len(node.messages)

    def received(self) -> list[bytes]:
        return [payload for _, channel, payload in self._node.messages[self._from :] if channel == self._channel]


class SimulatedWorld(World):
    """The simulation: one process, one server, and time that passes only when there is nothing else to do."""

    runtime = "simulated"
    redis: SimulatedStore

    def __init__(self) -> None:
        super().__init__()
        self.simulation = Simulation()
        self.simulation.numbers = itertools.count(1_000_000)  # Above those of the owners that tests make.
        self.process: Process = self.simulation.process("process")
        self.clients: list[SimulatedClient] = []
        self.redis = SimulatedStore(self, self.simulation.node)
        self._stores: dict[int, SimulatedStore] = {}
        self._ends.callback(self._stop)

    def _stop(self) -> None:
        try:
            ended = self.simulation.run(until=lambda: not self.process.tasks, seconds=PATIENCE)
            assert ended, f"tasks left behind: {self.process.tasks}"
        finally:
            self.simulation.end()

    def _new_actor(self) -> Actor:
        return SimulatedActor(self)

    def interruptible(self) -> Actor:
        return self.actor()

    def client(self, **config: Any) -> Remote:
        client = SimulatedClient(self.process, config=Config(**config), presence=config.get("presence", False))
        client.core.listen(Log(client.core), wants_all)
        self.clients.append(client)
        return self.adopt(client)

    def nodes(self, count: int, **config: Any) -> list[Remote]:
        nodes = self.simulation.nodes
        nodes.extend(Node(self.simulation, f"node{index}") for index in range(len(nodes), count))
        remotes = []
        for node in nodes[:count]:
            client = SimulatedClient(self.process, config=Config(**config), node=node)
            client.core.listen(Log(client.core), wants_all)
            self.clients.append(client)
            remotes.append(self.adopt(client))
        return remotes

    def node(self, index: int) -> Store:
        if index not in self._stores:
            self._stores[index] = SimulatedStore(self, self.simulation.nodes[index])
        return self._stores[index]

    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        found: list[Any] = []

        def true() -> bool:
            found[:] = [predicate()]
            return bool(found[0])

        assert self.simulation.run(until=true, seconds=within), f"not within {within} s: {what or predicate!r}"
        return found[0]

    def pass_time(self, seconds: float) -> None:
        self.simulation.run(seconds=seconds)

    def now(self) -> float:
        return self.simulation.now
