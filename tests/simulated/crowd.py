"""Many clients that wait for one thing: what crowds of all kinds can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, ClassVar, TypeAlias

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
#: The kinds of permits.
KINDS = pytest.mark.parametrize("kind", [PLAIN, EXPIRABLE])


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
        self._plans: dict[str, Callable[[], object]] = {}
        self.world.watchers.append(self._watch)
        self.holder = self.client()

    @abstractmethod
    def wait(self, client: SimulatedClient | None = None, **options: Any) -> SimulatedClient:
        """Let a client wait, get it once, and give it back."""

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
            client.runtime.counts_listeners = lambda: False  # type: ignore[method-assign]
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
        """Nothing is left of it."""
        assert leftovers(self.world, [each for each in self.clients if not each.runtime.process.crashed]) == []


class LockCrowd(Crowd):
    """A lock that somebody holds, and clients that wait for it."""

    name = "orders"
    config = Config(lock_watchdog_timeout=60)

    def __init__(self, kind: str = "lock") -> None:
        super().__init__(kind)
        self.inside = False  # Whether the world runs already.
        self.do(self.lock(self.holder).lock())

    def lock(self, client: SimulatedClient) -> Any:
        return getattr(client, f"get_{self.kind}")("orders")

    def free(self) -> float:
        self.scripts.clear()
        self.do(self._unlock())
        return self.world.now

    async def _unlock(self) -> None:
        await self.lock(self.holder).force_unlock()

    def wait(
        self,
        client: SimulatedClient | None = None,
        *,
        queued: bool = True,
        seconds: float | None = None,
        keeps: float = 0.0,
        **options: Any,
    ) -> SimulatedClient:
        client = client or self.client(queued=queued)

        async def work() -> None:
            lock = self.lock(client)
            if await lock.try_lock(seconds):
                self.got(client)
                if keeps:
                    await self.world.pause_of(client.runtime.process, keeps)
                await lock.unlock()

        self.tasks.append(client.runtime.process.start(work(), "waiter"))
        if not self.inside:
            self.world.run(seconds=SOON)
        return client

    def close(self) -> None:
        self.world.run(seconds=70)
        self.redis("DEL", "redisson_lock_token:{orders}")
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

    def wait(
        self,
        client: SimulatedClient | None = None,
        *,
        queued: bool = True,
        seconds: float | None = None,
        wanted: int = 1,
        keeps: float | None = 0.0,
        lease: float | None = None,
        **options: Any,
    ) -> SimulatedClient:
        """Let a client wait, take permits once, and give them back after a time (``None``: never)."""
        client = client or self.client(queued=queued)
        semaphore = self.semaphore(client)

        async def work() -> None:
            args = (wanted, seconds) if self.kind == PLAIN else (seconds, lease)
            permit = await semaphore.try_acquire(*args)
            if permit:
                self.got(client)
                if keeps:
                    await self.world.pause_of(client.runtime.process, keeps)
                if keeps is not None:
                    await semaphore.release(wanted if self.kind == PLAIN else permit)

        self.tasks.append(client.runtime.process.start(work(), "waiter"))
        self.world.run(seconds=SOON)
        return client

    def close(self, available: int | None = None) -> None:
        """Nothing is left of it, and the permits are there."""
        self.world.run(seconds=70)
        if available is not None:
            assert int(self.redis("GET", "seats")) == available
        self.redis("DEL", "seats", "{seats}:timeout")
        self.world.run(seconds=30)
        super().close()


def crowd_of(kind: str) -> Crowd:
    """Clients that wait for a lock, or for permits."""
    return PermitCrowd(kind) if kind in (PLAIN, EXPIRABLE) else LockCrowd(kind)


Make: TypeAlias = Callable[..., Any]


def crowds(new: Make) -> Any:
    """A fixture that makes crowds, and ends their worlds."""

    @pytest.fixture
    def make() -> Iterator[Make]:
        made: list[Crowd] = []

        def crowd(*args: Any) -> Crowd:
            made.append(new(*args))
            return made[-1]

        yield crowd
        for each in made:
            each.world.end()

    return make
