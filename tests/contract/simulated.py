"""The contract in the simulator: the same tests, in virtual time, on the shipped scripts and a model of the server."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyredisson.config import Config
from pyredisson.testing.redis import ServerError
from pyredisson.testing.runtime import SimulatedClient, SimulatedOwner
from pyredisson.testing.world import Cancelled, Deadlock, Node, Process, Promise, Task
from pyredisson.testing.world import World as VirtualWorld
from tests.contract.store import Messages, Store
from tests.contract.worlds import PATIENCE, Actor, Pending, Remote, World, method_of


class VirtualPending(Pending):
    """A call under way in a task of the simulated world. To look at it lets nothing happen; to wait for it does."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self.outcome: Promise[Any] = Promise()

    def done(self) -> bool:
        return self.outcome.done()

    def result(self, within: float = PATIENCE) -> Any:
        self._wait(within)
        return self.outcome.result()

    def error(self, within: float = PATIENCE) -> BaseException:
        self._wait(within)
        try:
            result = self.outcome.result()
        except BaseException as error:
            return error
        raise AssertionError(f"it returned {result!r}")

    def _wait(self, within: float) -> None:
        try:
            over = self._world.run(until=self.done, seconds=within)
        except Deadlock:
            over = False
        assert over, f"the call was not over within {within} s"


class VirtualActor(Actor):
    """An owner in a simulated process: each call is a task, one after another, all in one name."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._owner = SimulatedOwner(process.world)
        self._last: Task[Any] | None = None

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        pending = VirtualPending(self._process.world)
        before, make = self._last, method_of(call, args, kwargs)

        async def run() -> None:
            if before is not None and not before.done():
                turn: Promise[None] = Promise()
                before.outcome.then(turn.settle)
                await turn
            try:
                result = make()
                pending.outcome.settle(await result if inspect.isawaitable(result) else result)
            except BaseException as error:
                pending.outcome.settle(error=error)

        self._last = self._process.start(run(), "call", self._owner)
        return pending

    def end(self) -> None:
        self._owner.ended = True

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        pending = self.start(call, *args)
        assert self._process.world.run(until=lambda: bool(once()), seconds=PATIENCE)
        if not pending.done():
            assert self._last is not None
            self._last.cancel()
        try:
            pending.result()
        except (Exception, Cancelled) as error:
            return error
        return None


class VirtualStore(Store):
    """The simulated server as anybody could look at it."""

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self._node: Node = world.node
        self._clients: list[SimulatedClient] = []

    def looked_at_by(self, client: SimulatedClient) -> None:
        """One more may be subscribed."""
        self._clients.append(client)

    def command(self, *words: str | int | float) -> Any:
        return self._node.redis.command(*(word if isinstance(word, (str, int)) else str(word) for word in words))

    def hash(self, key: str) -> dict[str, str]:
        flat = self.command("HGETALL", key)
        return {field.decode(): value.decode() for field, value in zip(flat[::2], flat[1::2], strict=True)}

    def ttl(self, key: str) -> float | None:
        left = self.command("PTTL", key)
        return None if left == -2 else math.inf if left == -1 else left / 1000

    def everything(self) -> dict[str, tuple[str, Any]]:
        found: dict[str, tuple[str, Any]] = {}
        for raw, entry in self._node.redis.dump().items():
            key = raw.decode()
            found[key] = (entry.type, self.hash(key) if entry.type == "hash" else entry.value.decode())
        return found

    def delete(self, key: str) -> None:
        assert self.command("DEL", key) == 1, f"there was no {key}"

    def expire(self, key: str, seconds: float) -> None:
        assert self.command("PEXPIRE", key, round(seconds * 1000)), f"there was no {key}"

    def subscribers(self, channel: str) -> int:
        return sum(channel in client.runtime.subscribed() for client in self._clients)

    def publish(self, channel: str, payload: str) -> int:
        return int(self.command("PUBLISH", channel, payload))

    def calls(self, *commands: str) -> int:
        raise ServerError("ERR", "the simulated server keeps no statistics")

    def messages(self, channel: str) -> Messages:
        return VirtualMessages(self._node, channel)


class VirtualMessages(Messages):
    """What was said on a channel of the simulated server."""

    def __init__(self, node: Node, channel: str) -> None:
        self._node = node
        self._channel = channel.encode()
        self._from = len(node.messages)

    def received(self) -> list[bytes]:
        return [payload for _, channel, payload in self._node.messages[self._from :] if channel == self._channel]

    def close(self) -> None:
        pass


class SimulatedWorld(World):
    """Tasks of a simulated world, in virtual time."""

    def __init__(self, port: int | None) -> None:
        self.port = port
        self.virtual = VirtualWorld()
        self.store = self.redis = VirtualStore(self.virtual)
        self._actors_here: Process = self.virtual.process("actors")
        self.api = SimpleNamespace(Redisson=self._make, Config=Config)  # type: ignore[assignment]
        self._steward: Actor | None = None
        self._made: list[SimulatedClient] = []

    def _make(self, process: Process, *, config: Config | None = None) -> SimulatedClient:
        client = SimulatedClient(process, config=config)
        self.store.looked_at_by(client)
        self._made.append(client)
        return client

    def actor(self) -> Actor:
        return VirtualActor(self._actors_here)

    def interruptible(self) -> Actor:
        return self.actor()

    def redis_client(self, **settings: Any) -> Any:
        return self._actors_here

    def unreachable(self) -> Any:
        process = self.virtual.process("lost")
        self.virtual.node.redis.crash()
        return process

    def adopt(self, client: Any) -> Remote:
        if self._steward is None:
            self._steward = self.actor()
        return Remote(client, self._steward)

    def messages(self, channel: str) -> Messages:
        return self.redis.messages(channel)

    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        found: list[Any] = []

        def holds() -> bool:
            result = predicate()
            if result:
                found.append(result)
            return bool(result)

        try:
            self.virtual.run(until=holds, seconds=within)
        except Deadlock:
            pass
        assert found, f"it did not come true within {within} s{': ' + what if what else ''}"
        return found[-1]

    def pass_time(self, seconds: float) -> None:
        self.virtual.run(seconds=seconds)

    def now(self) -> float:
        return self.virtual.now

    def close(self) -> None:
        self.virtual.end()
