"""Those who do the steps: threads with contexts, or tasks. A step is done in its actor, one at a time.

``await`` only suspends where the actors are tasks; a program for threads is run by :func:`run_at_once`.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tests.programs.steps import Step

T = TypeVar("T")
Call = Callable[[], Any]

#: Seconds for a step that does not wait for another one.
PATIENCE = 10.0


def run_at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that does not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("it has suspended")


def _outcome(call: Call) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        return call()
    except Exception as error:
        error.__traceback__ = None
        return error


class ThreadActors:
    """Threads; the first one is that which runs the program."""

    tasks = False

    def __init__(self) -> None:
        self.contexts: dict[int, contextvars.Context] = {}
        self._orders: dict[int, queue.SimpleQueue[Any]] = {}
        self._threads: dict[int, threading.Thread] = {}

    def start(self, step: Step, calls: list[Call]) -> Future[list[Any]]:
        """Let the actor of a step make calls, one after another."""
        future: Future[list[Any]] = Future()
        context = self.contexts.get(step.context)
        if step.thread == 0:
            self._make(future, context, calls)
            return future
        if step.thread not in self._orders:
            orders = self._orders[step.thread] = queue.SimpleQueue()
            thread = self._threads[step.thread] = threading.Thread(target=self._serve, args=(orders,), daemon=True)
            thread.start()
        self._orders[step.thread].put((future, context, calls))
        return future

    async def result(self, pending: Future[list[Any]], within: float = PATIENCE) -> list[Any]:
        """What the calls returned or raised. Raises ``TimeoutError``."""
        return pending.result(within)

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    async def end(self, thread: int) -> None:
        """End a thread."""
        if thread in self._orders:
            self._orders.pop(thread).put(None)
            self._threads.pop(thread).join(PATIENCE)

    async def close(self) -> None:
        """End all."""
        for thread in list(self._orders):
            await self.end(thread)

    @classmethod
    def _serve(cls, orders: queue.SimpleQueue[Any]) -> None:
        while (order := orders.get()) is not None:
            cls._make(*order)
            del order

    @staticmethod
    def _make(future: Future[list[Any]], context: contextvars.Context | None, calls: list[Call]) -> None:
        if context is None:
            future.set_result([_outcome(call) for call in calls])
        else:
            future.set_result(context.run(lambda: [_outcome(call) for call in calls]))
