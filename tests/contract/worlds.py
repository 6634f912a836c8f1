"""Where the contract holds: each runtime over each server, behind one interface.

A test is a plain function over a :class:`World`. It says what happens, in order, and never sleeps: ``world.until(...)``
waits for a condition, ``world.pass_time(seconds)`` lets time go by, whether it is the clock's or a simulated one's::

    def test_a_waiter_gets_the_lock_when_the_holder_lets_go(world):
        client = world.client()
        alice, bob = world.actors(2)
        mine, its = alice.lock(client, "orders"), bob.lock(client, "orders")
        mine.lock()
        waiting = bob.start(its.lock)
        mine.unlock()
        waiting.result(within=5)

An *actor* is one owner: a thread, or a task. It does one thing at a time, in its own thread or task; whatever it
touches is wrapped in a :class:`Remote`, whose methods run there. To add a runtime, write a world and an actor for it.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import re
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType, TracebackType
from typing import Any

import fakeredis
import pytest
import redis
import redis.asyncio

import pyredisson
import pyredisson.asyncio
from tests import waiting
from tests.contract.store import Messages, Store
from tests.servers import BUILDS, HOST, VALKEY, Build, SharedServers, free_port

PATIENCE = 10.0  # seconds for what is sure to come; only a failing test waits so long


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, in the thread that was meant to get it."""


class Pending:
    """A call under way in an actor."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def done(self) -> bool:
        """Whether it returned or raised."""
        return self.future.done()

    def result(self, within: float = PATIENCE) -> Any:
        """What it returned; or raise what it raised. Fails if that takes longer than ``within`` seconds."""
        wait([self.future], timeout=within)
        assert self.future.done(), f"the call was not over within {within} s"
        return self.future.result()

    def error(self, within: float = PATIENCE) -> BaseException:
        """What it raised."""
        wait([self.future], timeout=within)
        assert self.future.done(), f"the call was not over within {within} s"
        error = self.future.exception()
        assert error is not None, f"it returned {self.future.result()!r}"
        return error


class Actor(ABC):
    """One owner. Whatever it is told to do runs in its own thread or task, one call at a time."""

    @abstractmethod
    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        """Begin a call that may block."""

    @abstractmethod
    def end(self) -> None:
        """Let the thread or task end, whatever it holds."""

    @abstractmethod
    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        """Make a call, and interrupt it (Ctrl-C, cancellation) once a condition is true. Returns what it raised."""

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call and wait for its end."""
        return self.start(call, *args, **kwargs).result()

    def lock(self, client: Remote, name: str = "orders") -> Remote:
        """A handle on a lock, for this actor."""
        return Remote(client.real.get_lock(name), self)


class Remote:
    """Something of pyredisson's in the hands of an actor: its methods run there, and are plain calls here."""

    def __init__(self, real: Any, actor: Actor) -> None:
        self.real = real
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real, name)
        return Call(self._actor, value) if callable(value) else value

    def __repr__(self) -> str:
        return repr(self.real)

    def __enter__(self) -> Any:
        return self._actor.do(getattr(self.real, "__aenter__", None) or self.real.__enter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._actor.do(getattr(self.real, "__aexit__", None) or self.real.__exit__, kind, error, trace)


class Call:
    """A method, to be run by its actor."""

    def __init__(self, actor: Actor, method: Callable[..., Any]) -> None:
        self._actor = actor
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._actor.do(self, *args, **kwargs)
        return Remote(result, self._actor) if type(result).__name__ in ("Hold", "Lock") else result


def method_of(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    return partial(call.method if isinstance(call, Call) else call, *args, **kwargs)


class World(ABC):
    """A runtime and a server.

    Attributes:
        api: ``pyredisson``, or its twin of the same names.
        redis: What is in the database.
        server: The port of a real server, or ``None``.
    """

    api: ModuleType
    redis: Store

    def __init__(self, port: int | None) -> None:
        self.port = port
        self.fake = fakeredis.FakeServer() if port is None else None
        # What was made here, to be ended in this order: no actor comes to its end while its client lets it wait.
        self._clients, self._actors, self._ends = ExitStack(), ExitStack(), ExitStack()
        raw = redis.Redis(HOST, port, protocol=2) if port else fakeredis.FakeRedis(server=self.fake, protocol=2)
        self._ends.callback(raw.close)
        raw.flushall()
        self.redis = Store(raw)
        self._steward: Actor | None = None

    # ---- who and what --------------------------------------------------------------------------------------------

    @abstractmethod
    def actor(self) -> Actor:
        """A new owner."""

    def actors(self, count: int) -> list[Actor]:
        """So many new owners."""
        return [self.actor() for _ in range(count)]

    @abstractmethod
    def interruptible(self) -> Actor:
        """An owner that can be interrupted. There is only one a test: under threads only the main one hears Ctrl-C."""

    @abstractmethod
    def redis_client(self, **settings: Any) -> Any:
        """A client of redis-py as a user of this runtime would make it, connected to the server."""

    @abstractmethod
    def unreachable(self) -> Any:
        """A client of redis-py that is connected to nothing, and never will be."""

    def beside(self, work: Callable[[], Any]) -> Pending:
        """Run a piece of the test beside the rest of it."""
        pending = Pending()
        threading.Thread(target=make, args=(pending, work), daemon=True).start()
        return pending

    def client(self, redis: Any = None, **config: Any) -> Remote:
        """A new client of pyredisson, which is closed with the world."""
        made = self.api.Redisson(redis or self.redis_client(), config=self.api.Config(**config))
        return self.adopt(made)

    def adopt(self, client: Any) -> Remote:
        """Look after a client that the test has made."""
        if self._steward is None:
            self._steward = self.actor()
        remote = Remote(client, self._steward)
        self._clients.callback(remote.close)
        return remote

    def messages(self, channel: str) -> Messages:
        """Listen to a channel from now on."""
        messages = self.redis.messages(channel)
        self._ends.callback(messages.close)
        return messages

    def waiting(self, lock: Remote) -> int:
        """How many wait for a lock in its client, by what the lock says of itself."""
        said = re.search(r"(\d+) waiting here", repr(lock))
        return int(said[1]) if said else 0

    # ---- time ----------------------------------------------------------------------------------------------------

    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        """Wait for something to come true."""
        return waiting.until(predicate, within, what=what)

    def pass_time(self, seconds: float) -> None:
        """Let time go by."""
        time.sleep(seconds)

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def close(self) -> None:
        """End everything that was made here. Waiters are woken by the end of their client."""
        with self._ends, self._actors, self._clients:
            pass


# ---- threads -----------------------------------------------------------------------------------------------------


class ThreadActor(Actor):
    """A thread."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Pending, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        pending = Pending()
        self._calls.put((pending, method_of(call, args, kwargs)))
        return pending

    def _serve(self) -> None:
        while (order := self._calls.get()) is not None:
            make(*order)
            del order  # Else the thread would hold on to its last result while it waits.

    def end(self) -> None:
        self._calls.put(None)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "an actor does not come to its end"

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        raise NotImplementedError("Ctrl-C reaches the main thread only: use world.interruptible()")


class MainThreadActor(Actor):
    """The thread that the test runs in. It cannot do anything beside the test, but it can be interrupted."""

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        pending = Pending()
        make(pending, method_of(call, args, kwargs))
        return pending

    def end(self) -> None:
        pass

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        main = threading.main_thread()
        if threading.current_thread() is not main:
            pytest.skip("the tests do not run in the main thread, which alone can be interrupted")

        def interrupt() -> None:
            waiting.until(once, PATIENCE)
            signal.pthread_kill(main.ident, signal.SIGINT)

        def raise_interrupted(*_: object) -> None:
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
            signal.signal(signal.SIGINT, before)
        return None


def make(pending: Pending, call: Callable[[], Any]) -> None:
    try:
        pending.future.set_result(call())
    except BaseException as error:
        pending.future.set_exception(error)


class ThreadsWorld(World):
    """Threads, on the clock."""

    api = pyredisson

    def actor(self) -> Actor:
        actor = ThreadActor()
        self._actors.callback(actor.end)
        return actor

    def interruptible(self) -> Actor:
        return MainThreadActor()

    def redis_client(self, **settings: Any) -> Any:
        if self.fake is not None:
            client: Any = fakeredis.FakeRedis(server=self.fake, **settings)
        else:
            client = redis.Redis(HOST, **{"port": self.port, **settings})
        self._ends.callback(client.close)
        return client

    def unreachable(self) -> Any:
        return redis.Redis(HOST, free_port())


# ---- asyncio -----------------------------------------------------------------------------------------------------


class TaskActor(Actor):
    """A task on the world's event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: asyncio.Queue[tuple[Pending, Callable[[], Any]] | None] = asyncio.Queue()
        self._now: Pending | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._begin(), loop).result(PATIENCE)

    async def _begin(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._serve())

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        pending = Pending()
        order = (pending, method_of(call, args, kwargs))
        self._loop.call_soon_threadsafe(self._calls.put_nowait, order)
        return pending

    async def _serve(self) -> None:
        while (order := await self._calls.get()) is not None:
            pending, call = order
            self._now = pending
            try:
                result = call()
                result = await result if inspect.isawaitable(result) else result
            except BaseException as error:
                self._now = None
                pending.future.set_exception(error)
            else:
                self._now = None
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

    def _cancel(self, pending: Pending) -> None:
        if self._now is pending:  # It is over otherwise, and the task must not suffer for it.
            self._task.cancel()


class AsyncioWorld(World):
    """Tasks on one event loop, on the clock."""

    api = pyredisson.asyncio

    def __init__(self, port: int | None) -> None:
        super().__init__(port)
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
            client: Any = fakeredis.FakeAsyncRedis(server=self.fake, **settings)
        else:
            client = redis.asyncio.Redis(host=HOST, **{"port": self.port, **settings})
        self._ends.callback(lambda: self.run(client.aclose()))
        return client

    def unreachable(self) -> Any:
        return redis.asyncio.Redis(host=HOST, port=free_port())

    def run(self, coroutine: Any) -> Any:
        """Run something in a task of its own."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

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


# ---- which ones there are ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A runtime and a server, by which the tests are parametrized."""

    runtime: type[World]
    build: Build | None  # None: a fake in memory

    def __str__(self) -> str:
        runtime = "threads" if self.runtime is ThreadsWorld else "asyncio"
        return f"{runtime}-{self.build.id if self.build else 'fakeredis'}"

    @contextmanager
    def open(self, servers: SharedServers) -> Iterator[World]:
        """The world at this place, for one test."""
        if self.build is not None:
            self.build.require()
        world = self.runtime(servers.get(self.build).port if self.build else None)
        try:
            yield world
        finally:
            world.close()


RUNTIMES: tuple[type[World], ...] = (ThreadsWorld, AsyncioWorld)
EVERYWHERE = [Place(runtime, build) for runtime in RUNTIMES for build in (*BUILDS, None)]


def _only(*places: Place) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", places, ids=str, indirect=True)


#: For what every runtime promises and no server has a say in.
each_runtime = _only(*(Place(runtime, VALKEY) for runtime in RUNTIMES))
#: For what takes a real server: its statistics, its connections.
each_server = _only(*(place for place in EVERYWHERE if place.build is not None))
#: For what only one of the colours has.
threads_only = _only(Place(ThreadsWorld, VALKEY))
asyncio_only = _only(Place(AsyncioWorld, VALKEY))
