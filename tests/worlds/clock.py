"""What the worlds of threads and of asyncio share: real time, and servers (or a fake in memory) to connect to."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import ModuleType
from typing import TYPE_CHECKING, Any

import redis
from redis.exceptions import RedisError

import pyredisson
from pyredisson._core.runtime import run
from pyredisson.events import Event
from tests import waiting
from tests.forms import made_at_once
from tests.servers import HOST, free_port
from tests.worlds.base import PATIENCE, Actor, Pending, Remote, World
from tests.worlds.store import ServerStore

if TYPE_CHECKING:
    import fakeredis


#: Seconds for a call that must end, where servers are paused, killed or cut off, and tests measure times themselves.
PATIENCE_WITH_FAULTS = 30.0


class FuturePending(Future[Any], Pending):
    """A call under way in another thread."""

    def __init__(self, patience: float = PATIENCE) -> None:
        super().__init__()
        self._patience = patience

    def wait(self, within: float) -> None:
        wait([self], timeout=within)

    def result(self, within: float | None = None) -> Any:
        self.finish(self._patience if within is None else within)
        return super().result(0)

    def make(self, call: Callable[[], Any]) -> None:
        """Make the call in this thread."""
        try:
            self.set_result(made_at_once(call))
        except BaseException as error:
            self.set_exception(error)


class ClockActor(Actor):
    """An owner in real time."""

    patience: float
    _number: int | None = None

    @property
    def number(self) -> int:
        if self._number is None:  # Asked for once, while the actor is idle: later it may wait for a lock.
            self._number = int(self.do(self._current_thread_id))
        return self._number

    @staticmethod
    @abstractmethod
    def _current_thread_id() -> int: ...


class ClockWorld(World):
    """A world in real time.

    Args:
        server: The port of the world's server, or a fake in memory; ``None`` if clients are made by URLs only.
        ports: Returns the ports of so many servers, for :meth:`nodes`; fakes by default.
        patience: Seconds for a call that must end.

    Attributes:
        api: ``pyredisson``, or ``pyredisson.asyncio``.
        redis_py: ``redis``, or ``redis.asyncio``.
        port: The port of the world's server, or ``None``.
        events: The events of all clients made by URLs, and when each happened.
        redis_settings: For the clients of redis-py that connect to the world's server.
    """

    api: ModuleType
    redis_py: ModuleType
    redis: ServerStore

    def __init__(
        self,
        server: int | fakeredis.FakeServer | None = None,
        ports: Callable[[int], list[int]] | None = None,
        *,
        patience: float = PATIENCE_WITH_FAULTS,
    ) -> None:
        super().__init__()
        self.patience = patience
        self.port = server if isinstance(server, int) else None
        self.fake = None if isinstance(server, int) else server
        self.events: list[tuple[float, Event]] = []
        self.redis_settings: dict[str, Any] = {}
        self._ports = ports
        self._nodes: list[ServerStore] = []
        if server is not None:
            self.redis = self._store(server)

    def _store(self, server: int | fakeredis.FakeServer) -> ServerStore:
        if isinstance(server, int):
            raw = redis.Redis(HOST, server, protocol=2)
        else:
            import fakeredis

            raw = fakeredis.FakeRedis(server=server, protocol=2)
        self._ends.callback(raw.close)
        raw.flushall()
        return ServerStore(raw)

    def function(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of this form, to be called by the library, that does what a coroutine function does."""
        return work if self.runtime == "asyncio" else lambda *args: run(work(*args))

    # ---- clients of the world's server ---------------------------------------------------------------------------

    def nodes(self, count: int, **config: Any) -> list[Remote]:
        # These servers were started when a test first needed them: to the guard, the later ones lost their data.
        config = {"restart_guard": False, **config}
        if self._ports is not None:
            ports = self._ports(count)
            if not self._nodes:
                self._nodes = [self._store(port) for port in ports]
            return [self.through(port, **config) for port in ports]
        import fakeredis

        fakes = [fakeredis.FakeServer() for _ in range(count)]
        self._nodes = [self._store(fake) for fake in fakes]
        return [self.client(self.redis_client(server=fake), **config) for fake in fakes]

    def node(self, index: int) -> ServerStore:
        return self._nodes[index]

    def redis_client(self, **settings: Any) -> Any:
        """Return a client of redis-py as a user of this runtime would make it, connected to the world's server."""
        if self.fake is not None:
            return self.look_after(self._fake_client()(**{"server": self.fake, **settings}))
        settings = {"host": HOST, "port": self.port, **self.redis_settings, **settings}
        return self.look_after(self.redis_py.Redis(**settings))

    @staticmethod
    @abstractmethod
    def _fake_client() -> Any: ...

    def look_after(self, redis_client: Any) -> Any:
        """Close a client of redis-py when the world ends."""
        self._ends.callback(lambda: self.run(getattr(redis_client, "aclose", None) or redis_client.close))
        return redis_client

    def unreachable(self) -> Any:
        """Return a client of redis-py that is connected to nothing, and never will be."""
        return self.look_after(self.redis_py.Redis(host=HOST, port=free_port()))

    def client(self, redis: Any = None, **config: Any) -> Remote:
        made = self.adopt(self.api.Redisson(redis or self.redis_client(), config=self.api.Config(**config)))
        return made if redis else self._connected(made)

    def through(self, port: int, **config: Any) -> Remote:
        """Return a client that has connected by way of another port: of a proxy."""
        return self._connected(self.client(self.redis_client(port=port), **config))

    def _connected(self, client: Remote) -> Remote:
        self._connect(Remote(client.real.get_lock("warm-up"), client._actor).is_locked, PATIENCE)
        return client

    def _connect(self, ask: Callable[[], object], within: float) -> None:
        # A sixth of a short lease, or a third of a small budget, is all the time a server has to answer, and the first
        # request is not repeated: a busy machine could fail a test that begins with it. This one does not count.
        def connects() -> bool:
            try:
                ask()
            except (RedisError, OSError):
                return False
            return True

        self.until(connects, within, what="connected")

    # ---- clients by URLs -----------------------------------------------------------------------------------------

    def from_url(self, url: str, *, redis_kwargs: dict[str, Any] | None = None, **config: Any) -> Any:
        """Return a client whose events and losses are recorded here; closed with the world at the latest."""
        config = {"listeners": (self._listen,), "on_lock_lost": self.on_lock_lost, "timeout": 6.0, **config}
        made = self.api.Redisson.from_url(url, config=pyredisson.Config(**config), **(redis_kwargs or {}))
        return self.close_at_end(made)

    def connected(self, url: str, **config: Any) -> Any:
        """Return a client that has connected: with a short lease, or a small budget, a first request has little time
        to do so.
        """
        client = self.from_url(url, **config)
        self._connect(lambda: self.run(client.get_lock("warm-up").is_locked), 20)
        return client

    def close_at_end(self, client: Any) -> Any:
        """Close a client of ours when the world ends, and return it."""
        self._clients.callback(self.run, client.close)
        return client

    def heard(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind so far."""
        return [event for _, event in list(self.events) if isinstance(event, kind)]

    def when(self, kind: type[Event]) -> list[float]:
        """Return when they happened, as ``time.monotonic()``."""
        return [at for at, event in list(self.events) if isinstance(event, kind)]

    def _listen(self, event: Event) -> None:
        self.events.append((time.monotonic(), event))

    # ---- time ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call in no actor: in this thread, or in a task of its own."""

    @abstractmethod
    def alarm(self, at: float) -> Future[float]:
        """Return a future that a timer settles at a moment of ``time.monotonic()``, with the moment at which it did.

        What is due at the same moment and comes as late as this timer is not late: the machine is.
        """

    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        return waiting.until(predicate, within, what=what)

    def quiet_for(self, seconds: float, *commands: str) -> None:
        """Wait until the server was asked to run none of these commands for so long."""

        def quiet() -> bool:
            before = self.redis.calls(*commands)
            self.pass_time(seconds)
            return self.redis.calls(*commands) == before

        self.until(quiet, what=f"none of {commands} for {seconds} s")

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> float:
        return time.monotonic()
