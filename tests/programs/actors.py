"""Those who do the steps: threads with contexts, or tasks. Each step is done in its actor, one after another.

Calls are of either form: see :mod:`tests.forms`.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from tests.forms import ended, made_at_once
from tests.programs.steps import Step

Call = Callable[[], Any]

#: Seconds for a step that does not wait for another one.
PATIENCE = 30.0


class ThreadActors:
    """Threads."""

    tasks = False

    def __init__(self) -> None:
        self.contexts: dict[int, contextvars.Context] = {}
        self._orders: dict[int, queue.SimpleQueue[Any]] = {}
        self._threads: dict[int, threading.Thread] = {}

    def start(self, step: Step, calls: list[Call]) -> Future[list[Any]]:
        """Let the actor of a step make calls, one after another."""
        future: Future[list[Any]] = Future()
        if step.thread not in self._orders:
            orders = self._orders[step.thread] = queue.SimpleQueue()
            thread = self._threads[step.thread] = threading.Thread(target=self._serve, args=(orders,), daemon=True)
            thread.start()
        self._orders[step.thread].put((future, self.contexts.get(step.context), calls))
        return future

    async def result(self, pending: Any, within: float = PATIENCE) -> list[Any]:
        """What the calls returned or raised. Raises ``TimeoutError``."""
        try:
            results: list[Any] = pending.result(within)
        except BaseException as error:
            # Before Python 3.11 this is another class.
            raise (TimeoutError() if "Timeout" in type(error).__name__ else error) from None
        return results

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
        self.contexts.clear()
        for thread in list(self._orders):
            await self.end(thread)

    async def __aenter__(self) -> ThreadActors:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @classmethod
    def _serve(cls, orders: queue.SimpleQueue[Any]) -> None:
        while (order := orders.get()) is not None:
            cls._make(*order)
            del order

    @staticmethod
    def _make(future: Future[list[Any]], context: contextvars.Context | None, calls: list[Call]) -> None:
        def make() -> list[Any]:
            return [_outcome(call) for call in calls]

        future.set_result(make() if context is None else context.run(make))


def _outcome(call: Call) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        return made_at_once(call)
    except Exception as error:
        error.__traceback__ = None
        return error


class TaskActors:
    """Tasks of one task group; before Python 3.11, of none."""

    tasks = True

    def __init__(self) -> None:
        self.contexts: dict[int, contextvars.Context] = {}
        self._tasks: dict[int, tuple[asyncio.Task[None], asyncio.Queue[Any]]] = {}
        self._group: Any = None

    def start(self, step: Step, calls: list[Call]) -> asyncio.Future[list[Any]]:
        """Let the actor of a step make calls, one after another."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        if step.thread not in self._tasks:
            orders: asyncio.Queue[Any] = asyncio.Queue()
            create = asyncio.create_task if self._group is None else self._group.create_task
            self._tasks[step.thread] = create(self._serve(orders)), orders
        self._tasks[step.thread][1].put_nowait((future, calls))
        return future

    async def result(self, pending: Any, within: float = PATIENCE) -> list[Any]:
        """What the calls returned or raised. Raises ``TimeoutError``."""
        await asyncio.wait([pending], timeout=within)
        if not pending.done():
            raise TimeoutError
        results: list[Any] = pending.result()
        return results

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def cancel(self, thread: int) -> None:
        """Cancel what a task waits for; the task goes on."""
        self._tasks[thread][0].cancel()

    async def end(self, thread: int) -> None:
        """End a task."""
        task, orders = self._tasks.pop(thread, (None, None))
        if task is not None and orders is not None:
            orders.put_nowait(None)
            await asyncio.wait([task], timeout=PATIENCE)

    async def __aenter__(self) -> TaskActors:
        if hasattr(asyncio, "TaskGroup"):
            self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def close(self) -> None:
        """End all."""
        for thread in list(self._tasks):
            await self.end(thread)

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
        if self._group is not None:
            await self._group.__aexit__(None, None, None)

    @staticmethod
    async def _serve(orders: asyncio.Queue[Any]) -> None:
        while (order := await orders.get()) is not None:
            future, calls = order
            results: list[Any] = []
            for call in calls:
                try:
                    results.append(await ended(call()))
                except (Exception, asyncio.CancelledError) as error:
                    error.__traceback__ = None
                    results.append(error)
                    task = asyncio.current_task()
                    if isinstance(error, asyncio.CancelledError) and hasattr(task, "uncancel"):
                        task.uncancel()
            with suppress(asyncio.InvalidStateError):
                future.set_result(results)
            del order, calls, results
