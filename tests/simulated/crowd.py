"""Many clients that wait for one thing: what crowds of all kinds can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias

import pytest

from pyredisson.config import Config
from tests.simulated.engine.checkers import leftovers
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Cancelled, Node, World

#: A few round trips.
SOON = 0.02
#: What a client costs the others that was notified that it is its turn, and does not answer.
TURN = 0.25

PLAIN = "semaphore"
EXPIRABLE = "permit_expirable_semaphore"
BOTH_SIDES = "read_write_lock"
#: The kinds of permits.
KINDS = pytest.mark.parametrize("kind", [PLAIN, EXPIRABLE])

Side: TypeAlias = Literal["read", "write"]


class Crowd(ABC):
    """Clients that wait for what is not free.

    Attributes:
        scripts: How often each script has run.
        served: The numbers of the clients that got it, in order.
        times: When they did.
    """

    name: ClassVar[str]
    config: ClassVar[Config]

    def __init__(self, kind: str) -> None:
        self.world = World(1)
        self.kind = kind
        self.scripts: Counter[str] = Counter()
        self.clients: list[SimulatedClient] = []
        self.served: list[int] = []
        self.times: list[float] = []
        self.tasks: list[Any] = []
        self.queue = f"pyredisson_waiting:{{{self.name}}}".encode()
        self.inside = False  # Whether the world runs already.
        self._plans: dict[str, Callable[[], object]] = {}
        self.world.watchers.append(self._watch)
        self.holder = self.client()

    def wait(
        self, client: SimulatedClient | None = None, *, queued: bool = True, keeps: float | None = 0.0, **options: Any
    ) -> SimulatedClient:
        """Let a client wait, get it once, and give it back after a time (``None``: never)."""
        client = client or self.client(queued=queued)

        async def work() -> None:
            give_back = await self.acquire(client, **options)
            if give_back is not None:
                self.got(client)
                if keeps:
                    await self.world.pause_of(client.runtime.process, keeps)
                if keeps is not None:
                    await give_back()

        self.tasks.append(client.runtime.process.start(work(), "waiter"))
        if not self.inside:
            self.world.run(seconds=SOON)
        return client

    @abstractmethod
    async def acquire(self, client: SimulatedClient, **options: Any) -> Callable[[], Awaitable[Any]] | None:
        """Let a client acquire it, and return how it is given back; ``None`` if its time was over."""

    @abstractmethod
    def free(self) -> float:
        """Make it free for one of them. Returns when."""

    def _watch(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        self.scripts[script] += 1
        if script in self._plans:
            self._plans.pop(script)()

    def when(self, script: str, call: Callable[[], object]) -> None:
        """Call something as soon as a script has run, before its answer or its messages arrive."""
        self._plans[script] = call

    def redis(self, *words: str | int | bytes) -> Any:
        return self.world.node.redis.command(*words)

    def client(self, *, queued: bool = True) -> SimulatedClient:
        client = SimulatedClient(self.world.process(f"p{len(self.clients)}"), config=self.config)
        if not queued:
            client.runtime.counts_listeners = lambda: False
        self.clients.append(client)
        return client

    def start(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.holder.runtime.process.start(work, "work")

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self.start(work)
        assert self.world.run(until=task.done, seconds=60)
        return task.outcome.result()

    def got(self, client: SimulatedClient) -> None:
        """Note that a client has it."""
        self.served.append(self.clients.index(client))
        self.times.append(self.world.now)

    def queued(self) -> list[bytes]:
        """The clients in the queue that were not notified, in order, without the observers."""
        entry = self.world.node.redis.dump().get(self.queue)
        scores = {} if entry is None else entry.value
        assert isinstance(scores, dict)
        waiting = [member for member, score in scores.items() if float(score) < 1e15]
        return sorted(waiting, key=scores.__getitem__)

    def finish(self, seconds: float = 5) -> None:
        """Let all who wait be served."""
        live = [task for task in self.tasks if not task.process.crashed]
        assert self.world.run(until=lambda: all(task.done() for task in live), seconds=seconds), self.served
        for task in live:
            if not isinstance(task.outcome.error, Cancelled):
                task.outcome.result()

    def last_resorts(self) -> int:
        return sum(client.core.subscriptions.last_resorts for client in self.clients)

    def close(self) -> None:
        """Nothing is left of it, and each who waited was notified."""
        assert self.last_resorts() == 0
        assert leftovers(self.world, [each for each in self.clients if not each.runtime.process.crashed]) == []


class LockCrowd(Crowd):
    """A lock that somebody holds, and clients that wait for it."""

    name = "orders"
    config = Config(lock_watchdog_timeout=60)

    def __init__(self, kind: str = "lock") -> None:
        super().__init__(kind)
        self.do(self.lock(self.holder).lock())

    def lock(self, client: SimulatedClient) -> Any:
        return getattr(client, f"get_{self.kind}")("orders")

    def free(self) -> float:
        self.scripts.clear()
        self.do(self._unlock())
        return self.world.now

    async def _unlock(self) -> None:
        await self.lock(self.holder).force_unlock()

    async def acquire(self, client: SimulatedClient, **options: Any) -> Callable[[], Awaitable[Any]] | None:
        lock = self.lock(client)
        return lock.unlock if await lock.try_lock(options.get("seconds")) else None

    def close(self) -> None:
        self.world.run(seconds=70)
        self.redis("DEL", "redisson_lock_token:{orders}")
        super().close()


class Sides(LockCrowd):
    """A read-write lock of which somebody holds a side, and clients that wait for either."""

    def __init__(self, held: Side = "write") -> None:
        self.sides: dict[SimulatedClient, Side] = {}
        self.held: Side = held
        super().__init__("read_write_lock")

    def lock(self, client: SimulatedClient) -> Any:
        both = client.get_read_write_lock("orders")
        return both.read_lock() if self.sides.get(client, self.held) == "read" else both.write_lock()

    def reader(self, client: SimulatedClient | None = None, **options: Any) -> SimulatedClient:
        """Let a client wait to read."""
        return self._wait("read", client, **options)

    def writer(self, client: SimulatedClient | None = None, **options: Any) -> SimulatedClient:
        """Let a client wait to write."""
        return self._wait("write", client, **options)

    def _wait(
        self, side: Side, client: SimulatedClient | None, *, queued: bool = True, **options: Any
    ) -> SimulatedClient:
        client = client or self.client(queued=queued)
        self.sides[client] = side
        return self.wait(client, **options)

    def come(self, sides: str, **options: Any) -> None:
        """Let a client wait for each letter: ``r`` to read, ``w`` to write."""
        for side in sides:
            self.reader(**options) if side == "r" else self.writer(**options)

    def order(self) -> str:
        """The sides of those who were served, in order."""
        return "".join(self.sides[self.clients[number]][0] for number in self.served)

    def foreign(self, mode: Side) -> None:
        """Let one of Redisson's have a side, whoever waits for it."""
        field = "java:1" if mode == "read" else "java:1:write"
        self.redis("HSET", "orders", "mode", mode, field, 1)
        self.redis("SET", "{orders}:java:1:rwlock_timeout:1", 1, "PX", 60_000)
        self.redis("PEXPIRE", "orders", 60_000)

    def foreign_release(self) -> float:
        """Let it release that, as Redisson does. Returns when."""
        mode = self.redis("HGET", "orders", "mode")
        self.redis("DEL", "orders", "{orders}:java:1:rwlock_timeout:1")
        self.redis("PUBLISH", "redisson_rwlock:{orders}", "0" if mode == b"read" else "1")
        return self.world.now

    def write_then_read(self) -> None:
        """Let the holder write for a second, and then read for another one."""
        self.free()
        both = self.holder.get_read_write_lock("orders")

        async def work() -> None:
            await both.write_lock().lock()
            await both.read_lock().lock()
            await self.world.pause_of(self.holder.runtime.process, 1.0)
            self.scripts.clear()
            await both.write_lock().unlock()
            await self.world.pause_of(self.holder.runtime.process, 1.0)
            await both.read_lock().unlock()

        self.tasks.append(self.holder.runtime.process.start(work(), "holder"))
        self.world.run(seconds=SOON)

    def close(self) -> None:
        """Nothing is left of it; of the queue not even for a while."""
        self.world.run(seconds=1)
        assert self.queue not in self.world.node.redis.dump()
        super().close()


class PermitCrowd(Crowd):
    """A semaphore without available permits, and clients that wait for some."""

    name = "seats"
    config = Config(max_wait_without_check=30)

    def __init__(self, kind: str = PLAIN) -> None:
        super().__init__(kind)
        self.redis("SET", "seats", 0)

    def semaphore(self, client: SimulatedClient | None = None) -> Any:
        return getattr(client or self.holder, f"get_{self.kind}")("seats")

    def free(self) -> float:
        return self.give(1)

    def give(self, permits: int) -> float:
        """Make permits available. Returns when."""
        self.scripts.clear()
        self.do(self.semaphore().add_permits(permits))
        return self.world.now

    async def acquire(self, client: SimulatedClient, **options: Any) -> Callable[[], Awaitable[Any]] | None:
        semaphore, wanted, seconds = self.semaphore(client), options.get("wanted", 1), options.get("seconds")
        args = (wanted, seconds) if self.kind == PLAIN else (seconds, options.get("lease"))
        permit = await semaphore.try_acquire(*args)
        return partial(semaphore.release, wanted if self.kind == PLAIN else permit) if permit else None

    def close(self, available: int | None = None) -> None:
        """Nothing is left of it, and the permits are there."""
        self.world.run(seconds=70)
        if available is not None:
            assert int(self.redis("GET", "seats")) == available
        self.redis("DEL", "seats", "{seats}:timeout")
        self.world.run(seconds=30)
        super().close()


def crowd_of(kind: str) -> Crowd:
    """Clients that wait for a lock, for a side of one, or for permits."""
    if kind == BOTH_SIDES:
        return Sides()
    return PermitCrowd(kind) if kind in (PLAIN, EXPIRABLE) else LockCrowd(kind)


def crowds(new: Callable[..., Crowd]) -> Any:
    """A fixture: a crowd of the test's kind, whose world ends with it."""

    @pytest.fixture
    def crowd(kind: str) -> Iterator[Crowd]:
        made = new(kind)
        yield made
        made.world.end()

    return crowd
