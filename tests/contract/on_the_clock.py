"""The worlds of threads and of asyncio, over real servers and over a fake in memory."""

from __future__ import annotations

import asyncio
import inspect
import queue
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import ModuleType
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio
from redis.exceptions import RedisError

import pyredisson
import pyredisson.asyncio
from tests import waiting
from tests.contract.store import ServerStore
from tests.contract.worlds import PATIENCE, Actor, Pending, Remote, World, method_of
from tests.servers import HOST, free_port


class FuturePending(Pending):
    """A call under way in another thread."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def done(self) -> bool:
        return self.future.done()

    def wait(self, within: float) -> None:
        wait([self.future], timeout=within)

    def result(self, within: float = PATIENCE) -> Any:
        self.come(within)
        return self.future.result()


class ClockWorld(World):
    """A world on the clock.

    Attributes:
        api: ``pyredisson``, or its twin of the same names.
        port: That of a real server, or ``None``.
        in_threads: Whether its owners are threads, and its calls plain ones.
    """

    api: ModuleType
    redis: ServerStore
    in_threads: bool

    def __init__(self, port: int | None, ports: Callable[[int], list[int]] | None = None) -> None:
        super().__init__()
        self.port = port
        self.fake = fakeredis.FakeServer() if port is None else None
        self._ports = ports
        self._nodes: list[ServerStore] = []
        self.redis = self._store(port, self.fake)

    def _store(self, port: int | None, fake: fakeredis.FakeServer | None) -> ServerStore:
        raw = redis.Redis(HOST, port, protocol=2) if port else fakeredis.FakeRedis(server=fake, protocol=2)
        self._ends.callback(raw.close)
        raw.flushall()
        return ServerStore(raw)

    def nodes(self, count: int, **config: Any) -> list[Remote]:
        # These servers were started when a test first needed them: to the guard, the later ones lost their data.
        config = {"restart_guard": False, **config}
        if self._ports is not None:
            ports = self._ports(count)
            if not self._nodes:
                self._nodes = [self._store(port, None) for port in ports]
            return [self.through(port, **config) for port in ports]
        fakes = [fakeredis.FakeServer() for _ in range(count)]
        self._nodes = [self._store(None, fake) for fake in fakes]
        return [self.client(self.redis_client(server=fake), **config) for fake in fakes]

    def node(self, index: int) -> ServerStore:
        return self._nodes[index]

    @abstractmethod
    def redis_client(self, **settings: Any) -> Any:
        """A client of redis-py as a user of this runtime would make it, connected to the server."""

    @abstractmethod
    def look_after(self, redis_client: Any) -> Any:
        """Close a client of redis-py in the end."""

    @abstractmethod
    def unreachable(self) -> Any:
        """A client of redis-py that is connected to nothing, and never will be."""

    def client(self, redis: Any = None, **config: Any) -> Remote:
        made = self.adopt(self.api.Redisson(redis or self.redis_client(), config=self.api.Config(**config)))
        return made if redis else self._connected(made)

    def through(self, port: int, **config: Any) -> Remote:
        """A client that has connected by way of another port: of a proxy."""
        return self._connected(self.client(self.redis_client(port=port), **config))

    def _connected(self, client: Remote) -> Remote:
        # A sixth of a short lease, or a third of a small budget, is all that a server has to answer, and a first
        # contact is not tried again: so a busy machine may fail a test that begins with one. This is none.
        lock = Remote(client.real.get_lock("warm-up"), client._actor)

        def connects() -> bool:
            try:
                lock.is_locked()
            except RedisError:
                return False
            return True

        self.until(connects, what="connected")
        return client

    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        return waiting.until(predicate, within, what=what)

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> float:
        return time.monotonic()


# ---- threads -----------------------------------------------------------------------------------------------------


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, in the thread that was meant to get it."""


class ThreadActor(Actor):
    """A thread."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[FuturePending, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        return int(self.do(pyredisson.current_thread_id))

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending()
        self._calls.put((pending, method_of(call, args, kwargs)))
        return pending

    def _serve(self) -> None:
        while (order := self._calls.get()) is not None:
            _make(*order)
            del order  # Else the thread would hold on to its last result while it waits.

    def end(self) -> None:
        self._calls.put(None)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "an actor does not come to its end"

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        raise NotImplementedError("Ctrl-C reaches the main thread only: use world.interruptible()")


class MainThreadActor(Actor):
    """The thread that the test runs in. It cannot do anything beside the test, but it can be interrupted."""

    @property
    def number(self) -> int:
        return pyredisson.current_thread_id()

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending()
        _make(pending, method_of(call, args, kwargs))
        return pending

    def end(self) -> None:
        pass

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        main = threading.main_thread()
        if threading.current_thread() is not main:
            pytest.skip("the tests do not run in the main thread, which alone can be interrupted")

        wanted: list[None] = []
        came = threading.Event()

        def interrupt() -> None:
            waiting.until(lambda: came.is_set() or once(), PATIENCE)
            while not came.is_set():
                wanted.append(None)
                # One that comes just before the thread begins to wait is noticed only when something wakes it.
                while wanted and not came.is_set():
                    signal.pthread_kill(main.ident or 0, signal.SIGINT)
                    came.wait(0.05)
                # And what is raised while Python calls back for a weak reference, or a finalizer, is forgotten: then
                # it takes another, once whoever was interrupted must be gone.
                came.wait(5.0)

        def raise_interrupted(*_: object) -> None:
            if wanted and not came.is_set():
                wanted.clear()
                raise Interrupted

        before = signal.signal(signal.SIGINT, raise_interrupted)
        other = threading.Thread(target=interrupt, daemon=True)
        over = False
        try:
            other.start()
            method_of(call, args, {})()
            over = True
            other.join(PATIENCE)
        except BaseException as error:
            return None if over else error  # It may have come too late.
        finally:
            came.set()
            other.join(PATIENCE)
            signal.signal(signal.SIGINT, before)
        return None


def _make(pending: FuturePending, call: Callable[[], Any]) -> None:
    try:
        pending.future.set_result(call())
    except BaseException as error:
        pending.future.set_exception(error)


class ThreadsWorld(ClockWorld):
    """Threads."""

    api = pyredisson
    in_threads = True

    def actor(self) -> Actor:
        actor = ThreadActor()
        self._actors.callback(actor.end)
        return actor

    def interruptible(self) -> Actor:
        return MainThreadActor()

    def redis_client(self, **settings: Any) -> Any:
        if self.fake is not None:
            return self.look_after(fakeredis.FakeRedis(**{"server": self.fake, **settings}))
        return self.look_after(redis.Redis(HOST, **{"port": self.port, **settings}))

    def look_after(self, redis_client: Any) -> Any:
        self._ends.callback(redis_client.close)
        return redis_client

    def unreachable(self) -> Any:
        return self.look_after(redis.Redis(HOST, free_port()))


# ---- asyncio -----------------------------------------------------------------------------------------------------


class TaskActor(Actor):
    """A task on the world's event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: asyncio.Queue[tuple[FuturePending, Callable[[], Any]] | None] = asyncio.Queue()
        self._under_way: FuturePending | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._begin(), loop).result(PATIENCE)

    async def _begin(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._serve())

    @property
    def number(self) -> int:
        return int(self.do(pyredisson.asyncio.current_thread_id))

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending()
        order = (pending, method_of(call, args, kwargs))
        self._loop.call_soon_threadsafe(self._calls.put_nowait, order)
        return pending

    async def _serve(self) -> None:
        while (order := await self._calls.get()) is not None:
            pending, call = order
            self._under_way = pending
            try:
                result = call()
                result = await result if inspect.isawaitable(result) else result
            except BaseException as error:
                self._under_way = None
                pending.future.set_exception(error)
            else:
                self._under_way = None
                pending.future.set_result(result)
            del order, pending, call

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._calls.put_nowait, None)
        waiting.until(self._task.done, PATIENCE, what="an actor comes to its end")

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        pending = self.start(call, *args)
        waiting.until(once, PATIENCE)
        self._loop.call_soon_threadsafe(self._cancel, pending)
        try:
            pending.result()
        except BaseException as error:
            return error
        return None

    def _cancel(self, pending: FuturePending) -> None:
        if self._under_way is pending:  # It is over otherwise, and the task must not suffer for it.
            self._task.cancel()


class AsyncioWorld(ClockWorld):
    """Tasks, on an event loop in a thread of its own."""

    api = pyredisson.asyncio
    in_threads = False

    def __init__(self, port: int | None, ports: Callable[[int], list[int]] | None = None) -> None:
        super().__init__(port, ports)
        self.loop = asyncio.new_event_loop()
        self._complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._complaints.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._ends.callback(self._stop)

    def actor(self) -> Actor:
        actor = TaskActor(self.loop)
        self._actors.callback(actor.end)
        return actor

    def interruptible(self) -> Actor:
        return self.actor()

    def redis_client(self, **settings: Any) -> Any:
        if self.fake is not None:
            return self.look_after(fakeredis.FakeAsyncRedis(**{"server": self.fake, **settings}))
        return self.look_after(redis.asyncio.Redis(host=HOST, **{"port": self.port, **settings}))

    def look_after(self, redis_client: Any) -> Any:
        self._ends.callback(lambda: self.run(redis_client.aclose()))
        return redis_client

    def unreachable(self) -> Any:
        return self.look_after(redis.asyncio.Redis(host=HOST, port=free_port()))

    def run(self, coroutine: Any) -> Any:
        """Run something in a task of its own."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call something on the event loop."""
        self.loop.call_soon_threadsafe(call)

    def _stop(self) -> None:
        self.run(_end_tasks())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()
        assert not self._complaints, f"the event loop complained: {self._complaints}"


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
