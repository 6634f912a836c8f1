"""The world of asyncio: tasks, on an event loop in a thread of its own."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import redis.asyncio

import pyredisson.asyncio
from tests import waiting
from tests.forms import ended
from tests.worlds.base import PATIENCE, Actor, method_of
from tests.worlds.clock import ClockActor, ClockWorld, FuturePending

#: Seconds for tasks that were told to end: what was closed or cancelled a moment ago takes a few turns of the loop.
LAST_TURNS = 5.0


class TaskActor(ClockActor):
    """A task on the world's event loop."""

    _current_thread_id = staticmethod(pyredisson.asyncio.current_thread_id)

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._loop = loop
        self._calls: asyncio.Queue[tuple[FuturePending, Callable[[], Any]] | None] = asyncio.Queue()
        self._under_way: FuturePending | None = None
        self._task = asyncio.run_coroutine_threadsafe(self._begin(), loop).result(patience)

    async def _begin(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self._serve(), name="actor")

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> FuturePending:
        pending = FuturePending(self.patience)
        order = (pending, method_of(call, args, kwargs))
        self._loop.call_soon_threadsafe(self._calls.put_nowait, order)
        return pending

    async def _serve(self) -> None:
        while (order := await self._calls.get()) is not None:
            pending, call = order
            self._under_way = pending
            try:
                result = await ended(call())
            except BaseException as error:
                self._under_way = None
                pending.set_exception(error)
            else:
                self._under_way = None
                pending.set_result(result)
                del result
            del order, pending, call

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._calls.put_nowait, None)
        waiting.until(self._task.done, self.patience, what="an actor ends")

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
        if self._under_way is pending:  # Otherwise it has ended, and the actor's task goes on.
            self._task.cancel()


class AsyncioWorld(ClockWorld):
    """Tasks, on an event loop in a thread of its own."""

    runtime = "asyncio"
    api = pyredisson.asyncio
    redis_py = redis.asyncio

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loop = asyncio.new_event_loop()
        self._complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._complaints.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self._thread.start()
        self._ends.callback(self._stop)

    def _new_actor(self) -> Actor:
        return TaskActor(self.loop, self.patience)

    def interruptible(self) -> Actor:
        return self.actor()

    @staticmethod
    def _fake_client() -> Any:
        import fakeredis

        return fakeredis.FakeAsyncRedis

    def run(self, call: Callable[..., Any], *args: Any) -> Any:
        async def called() -> Any:
            return await ended(call(*args))

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(self.patience)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call something on the event loop."""
        self.loop.call_soon_threadsafe(call)

    def alarm(self, at: float) -> Future[float]:
        elapsed: Future[float] = Future()
        self.call_soon(lambda: self.loop.call_at(at, lambda: elapsed.set_result(time.monotonic())) and None)
        return elapsed

    def _stop(self) -> None:
        left = self.run(_tasks_left)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()
        assert not self._complaints, f"the event loop complained: {self._complaints}"
        assert not left, f"tasks left behind: {left}"


async def _tasks_left() -> list[str]:
    """End the tasks that do not end by themselves, and say which those were."""
    this = asyncio.current_task()
    deadline = time.monotonic() + LAST_TURNS
    while (tasks := asyncio.all_tasks() - {this}) and time.monotonic() < deadline:
        await asyncio.wait(tasks, timeout=0.1)
    left = [repr(task) for task in tasks]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return left
