"""Both colours behind one face, so that a fault is written down once and happens to threads and to tasks.

A :class:`World` makes clients of its colour. Its :class:`Actor` is one owner, a thread or a task: it does what it is
told, one call after another, while the test's own thread looks on::

    holder = world.actor()
    lock = world.client(proxy.url).get_lock(name)
    holder.do(lock.lock)                          # waits for the outcome, which may be an exception
    waiting = world.actor().start(lock.lock)      # does not: a future
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import redis.exceptions

import pyredisson
import pyredisson.asyncio
from pyredisson.events import Event
from tests.waiting import until

WITHIN = 30.0  # seconds for one call; what is measured is measured by the test


class Actor(ABC):
    """One owner of locks."""

    def __init__(self) -> None:
        self._number: int | None = None

    @abstractmethod
    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin a call, after those before it; what it returns is awaited if need be."""

    @abstractmethod
    def end(self) -> None:
        """End, with whatever it holds: returns when the thread or the task is gone."""

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Do a call, and return what it returned or raise what it raised."""
        return self.start(call, *args, **kwargs).result(WITHIN)

    @property
    def number(self) -> int:
        """As in the owner field: ``<client id>:<number>``."""
        if self._number is None:
            self._number = self.do(self._ask_number)
        return self._number

    @staticmethod
    @abstractmethod
    def _ask_number() -> int: ...


class World(ABC):
    """One colour."""

    colour: str

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []  # of all clients, and when
        self.losses: list[tuple[str, int]] = []  # what on_lock_lost was called with
        self._actors: list[Actor] = []
        self._clients: list[Any] = []

    def client(self, url: str, *, redis_kwargs: dict[str, Any] | None = None, **config: Any) -> Any:
        """A client; closed with the world at the latest."""
        config = {"listeners": (self._listen,), "on_lock_lost": self._lost, "timeout": 6.0, **config}
        client = self._redisson().from_url(url, config=pyredisson.Config(**config), **(redis_kwargs or {}))
        self._clients.append(client)
        return client

    def connected(self, url: str, **config: Any) -> Any:
        """A client that has connected: under a short lease, or a small budget, a first request has little time to."""
        client = self.client(url, **config)

        def connects() -> bool:
            try:
                self.run(client.get_lock("nobody's").is_locked)
            except (redis.exceptions.RedisError, OSError):
                return False
            return True

        until(connects, 20, what="connected")
        return client

    def adopt(self, client: Any) -> Any:
        """See to it that this client is closed at last."""
        self._clients.append(client)
        return client

    def actor(self) -> Actor:
        """A new owner; it ends with the world at the latest."""
        actor = self._actor()
        self._actors.append(actor)
        return actor

    def heard(self, kind: type[Event]) -> list[Any]:
        """The events of one kind as yet."""
        return [event for _, event in list(self.events) if isinstance(event, kind)]

    def when(self, kind: type[Event]) -> list[float]:
        """When they happened, as ``time.monotonic()``."""
        return [at for at, event in list(self.events) if isinstance(event, kind)]

    def _listen(self, event: Event) -> None:
        self.events.append((time.monotonic(), event))

    def _lost(self, name: str, number: int) -> None:
        self.losses.append((name, number))

    def close(self) -> None:
        """End everything."""
        for client in self._clients:
            self.run(client.close)
        for actor in self._actors:
            actor.end()

    @abstractmethod
    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Do a call on behalf of nobody in particular."""

    @abstractmethod
    def alarm(self, at: float) -> Future[float]:
        """An alarm for a moment of ``time.monotonic()``: when it rang.

        What is due at the same moment and comes as late as this is not late: the machine is.
        """

    @abstractmethod
    def _redisson(self) -> Any: ...

    @abstractmethod
    def _actor(self) -> Actor: ...

    @abstractmethod
    def redis(self, url: str, **kwargs: Any) -> Any:
        """A client of redis-py of this colour."""

    @staticmethod
    @abstractmethod
    def enter(context: Any) -> Callable[[], Any]:
        """The call that enters a ``with`` block."""

    @staticmethod
    @abstractmethod
    def leave(context: Any) -> Callable[..., Any]:
        """The call that leaves a ``with`` block; give it the exception of the body, if any."""


class ThreadActor(Actor):
    _ask_number = staticmethod(pyredisson.current_thread_id)

    def __init__(self) -> None:
        super().__init__()
        self._todo: queue.Queue[tuple[Future[Any], Callable[[], Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="actor", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (todo := self._todo.get()) is not None:
            future, call = todo
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del todo, future, call

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._todo.put((future, lambda: call(*args, **kwargs)))
        return future

    def end(self) -> None:
        self._todo.put(None)
        self._thread.join(WITHIN)
        assert not self._thread.is_alive(), "an actor hangs"


class ThreadsWorld(World):
    colour = "threads"

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def alarm(self, at: float) -> Future[float]:
        rung: Future[float] = Future()

        def wait() -> None:
            time.sleep(max(0.0, at - time.monotonic()))
            rung.set_result(time.monotonic())

        threading.Thread(target=wait, name="alarm", daemon=True).start()
        return rung

    def _redisson(self) -> Any:
        return pyredisson.Redisson

    def _actor(self) -> Actor:
        return ThreadActor()

    def redis(self, url: str, **kwargs: Any) -> Any:
        import redis

        return redis.Redis.from_url(url, **kwargs)

    @staticmethod
    def enter(context: Any) -> Callable[[], Any]:
        return context.__enter__  # type: ignore[no-any-return]

    @staticmethod
    def leave(context: Any) -> Callable[..., Any]:
        return lambda error=None: context.__exit__(type(error) if error else None, error, None)


class TaskActor(Actor):
    _ask_number = staticmethod(pyredisson.asyncio.current_thread_id)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._todo: asyncio.Queue[tuple[Future[Any], Callable[[], Any]] | None] = asyncio.Queue()
        self._over: Future[None] = asyncio.run_coroutine_threadsafe(self._run(), loop)

    async def _run(self) -> None:
        while (todo := await self._todo.get()) is not None:
            future, call = todo
            try:
                result = call()
                future.set_result(await result if inspect.isawaitable(result) else result)
            except asyncio.CancelledError as error:
                # Else whoever asks for the result could not tell it from a cancelled question.
                future.set_exception(InterruptedError("cancelled"))
                future.exception().__cause__ = error  # type: ignore[union-attr]
            except BaseException as error:
                future.set_exception(error)
            del todo, future, call

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._loop.call_soon_threadsafe(self._todo.put_nowait, (future, lambda: call(*args, **kwargs)))
        return future

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._todo.put_nowait, None)
        self._over.result(WITHIN)


class TasksWorld(World):
    colour = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self._thread.start()

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_called(call, args), self.loop).result(WITHIN)

    def alarm(self, at: float) -> Future[float]:
        rung: Future[float] = Future()
        ring = lambda: rung.set_result(time.monotonic())  # noqa: E731 one word to a loop that tells the same time
        self.loop.call_soon_threadsafe(lambda: self.loop.call_at(at, ring))
        return rung

    def _redisson(self) -> Any:
        return pyredisson.asyncio.Redisson

    def _actor(self) -> Actor:
        return TaskActor(self.loop)

    def redis(self, url: str, **kwargs: Any) -> Any:
        import redis.asyncio

        return redis.asyncio.Redis.from_url(url, **kwargs)

    @staticmethod
    def enter(context: Any) -> Callable[[], Any]:
        return context.__aenter__  # type: ignore[no-any-return]

    @staticmethod
    def leave(context: Any) -> Callable[..., Any]:
        return lambda error=None: context.__aexit__(type(error) if error else None, error, None)

    def close(self) -> None:
        super().close()
        self.run(_last_turns)
        left = [task.get_name() for task in asyncio.all_tasks(self.loop)]
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WITHIN)
        self.loop.close()
        assert not left, f"tasks left behind: {left}"


async def _called(call: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = call(*args)
    return await result if inspect.isawaitable(result) else result


async def _last_turns() -> None:
    """What was closed or cancelled a moment ago takes a few turns of the loop to end."""
    for _ in range(500):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0.01)


WORLDS: dict[str, type[World]] = {"threads": ThreadsWorld, "asyncio": TasksWorld}
