"""Await in a task of its own what may swallow a cancellation, or must not be cancelled in the middle."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import redis.exceptions as rx

from pyredisson._core.failures import Connecting, NotSent
from pyredisson._shared.process import monotonic
from pyredisson.errors import ClientClosedError

T = TypeVar("T")

#: The name of a task that makes a connection.
CONNECTING_TASK = "pyredisson-connecting"


class TaskTicket:
    """A future that is made only when there is something to wait for. It remembers one notification."""

    __slots__ = ("_future", "_notified")

    def __init__(self) -> None:
        self._notified = False
        self._future: asyncio.Future[None] | None = None

    def notify(self) -> None:
        self._notified = True
        self._wake()

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float) -> bool:
        if not self._notified:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            timer = loop.call_later(seconds, self._wake) if seconds < math.inf else None
            try:
                await self._future
            finally:
                self._future = None
                if timer is not None:
                    timer.cancel()
        notified, self._notified = self._notified, False
        return notified


class TaskDial:
    """See :class:`pyredisson._net.wire.Dial`: a connection made in a task of its own."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self.began: float = monotonic()
        self.task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work, name=CONNECTING_TASK)
        self.task.add_done_callback(look_at)

    def done(self) -> bool:
        return self.task.done()

    async def wait(self, seconds: float) -> bool:
        await asyncio.wait({self.task}, timeout=seconds)
        return self.task.done()

    @property
    def failure(self) -> BaseException | None:
        if not self.task.done():
            return None
        if self.task.cancelled():  # By close(): nothing else cancels it.
            return NotSent(ClientClosedError("this client was closed meanwhile"))
        return self.task.exception()


async def shielded(work: Coroutine[Any, Any, T], unwanted: Callable[[T], object] | None = None) -> T:
    """Await ``work`` in a task of its own, so that it cannot swallow a cancellation.

    redis-py sends through ``asyncio.wait_for``, and before Python 3.12 that drops one which comes with the result.
    ``unwanted`` is given a result that is not awaited any more.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        _leave(task, unwanted)
        raise
    return task.result()


async def in_time(work: Coroutine[Any, Any, T], timeout: float, unwanted: Callable[[T], object]) -> T:
    """Await ``work`` for so long. It goes on by itself, and a late result is ``unwanted``.

    It is not cancelled: redis-py would give a connection back to its pool in the middle of the handshake.

    Raises:
        Connecting: It was not over in time.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        _leave(task, unwanted)
        raise
    if task.done():
        return task.result()
    _leave(task, unwanted)
    raise Connecting(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))


def look_at(task: asyncio.Future[Any]) -> None:
    """Retrieve an error that is not awaited, so that asyncio does not complain."""
    if not task.cancelled():
        task.exception()


_leaving: set[asyncio.Future[Any]] = set()


def _leave(task: asyncio.Future[T], unwanted: Callable[[T], object] | None = None) -> None:
    """Let a task go on that is not awaited, and give its result to ``unwanted``."""

    def over(_: asyncio.Future[T]) -> None:
        _leaving.discard(task)
        if not task.cancelled() and task.exception() is None and unwanted is not None:
            unwanted(task.result())

    _leaving.add(task)  # Else it would not be kept until its end.
    task.add_done_callback(over)


def spawn(work: Coroutine[Any, Any, Any]) -> None:
    """Run something that is not awaited, if there is a loop to run it."""
    try:
        task = asyncio.get_running_loop().create_task(work)
    except RuntimeError:
        work.close()
        return  # No loop runs any more: the connection goes with it.
    _leave(task)
