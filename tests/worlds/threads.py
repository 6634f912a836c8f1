"""The world of threads."""

import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import redis

import pyredisson
from tests import waiting
from tests.worlds.base import PATIENCE, Actor, method_of
from tests.worlds.clock import ClockActor, ClockWorld, FuturePending


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, in the thread that was meant to get it."""


class ThreadActor(ClockActor):
    """A thread."""

    _current_thread_id = staticmethod(pyredisson.current_thread_id)

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._calls: queue.SimpleQueue[tuple[FuturePending, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="actor", daemon=True)
        self._thread.start()

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending(self.patience)
        self._calls.put((pending, method_of(call, args, kwargs)))
        return pending

    def _serve(self) -> None:
        while (order := self._calls.get()) is not None:
            pending, call = order
            pending.make(call)
            del order, pending, call  # Else the thread would hold on to its last result while it waits.

    def end(self) -> None:
        self._calls.put(None)
        self._thread.join(self.patience)
        assert not self._thread.is_alive(), "an actor does not end"

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        raise RuntimeError("Ctrl-C reaches the main thread only: use world.interruptible()")


class MainThreadActor(Actor):
    """The thread that the test runs in. It makes its calls while the test waits, but it can be interrupted."""

    @property
    def number(self) -> int:
        return pyredisson.current_thread_id()

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending()
        pending.make(method_of(call, args, kwargs))
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
                # it takes another, once an interrupted call must have ended.
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


class ThreadsWorld(ClockWorld):
    """Threads."""

    runtime = "threads"
    api = pyredisson
    redis_py = redis

    def _new_actor(self) -> Actor:
        return ThreadActor(self.patience)

    def interruptible(self) -> Actor:
        return MainThreadActor()

    @staticmethod
    def _fake_client() -> Any:
        import fakeredis

        return fakeredis.FakeRedis

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def alarm(self, at: float) -> Future[float]:
        elapsed: Future[float] = Future()

        def wait() -> None:
            time.sleep(max(0.0, at - time.monotonic()))
            elapsed.set_result(time.monotonic())

        threading.Thread(target=wait, name="alarm", daemon=True).start()
        return elapsed
