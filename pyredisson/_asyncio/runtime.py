"""The core's world under asyncio: what may block is awaited."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from pyredisson._asyncio.pipe import CONNECTING_TASK, TaskTicket, fan_out
from pyredisson._core.failures import Failure, NotSent, is_contained
from pyredisson._core.owners import Caller
from pyredisson._core.runtime import Background, Reply, Request, Ticket
from pyredisson._core.watchdog import report_collected, what_it_held
from pyredisson._shared import process
from pyredisson._shared.arguments import no_event_loop
from pyredisson._shared.owners import TaskOwner, current_task_owner, owner_of
from pyredisson._shared.runtime import BaseRuntime, Callbacks, StepLoop, subscriber_for
from pyredisson.lease import AsyncLease as Lease
from pyredisson.observe.logging import log_collected

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.replicas import ReplicaAcknowledgement
    from pyredisson._net.subscriber import Subscriber
    from pyredisson._net.urls import Link, Target
    from pyredisson.config import Config
    from pyredisson.inspection import Inspector, LockView

T = TypeVar("T")

#: The name of the tasks of a user's callbacks.
CALLBACK_TASK = "pyredisson-callback"

_log = logging.getLogger("pyredisson")


class TaskLoop(StepLoop):
    """A task that steps, sleeps, and steps again."""

    _runtime: AsyncioRuntime

    @staticmethod
    def _is_for_the_program(error: BaseException) -> bool:
        return isinstance(error, (asyncio.CancelledError, SystemExit)) or not is_contained(error)

    def _start(self) -> None:
        if not self._runtime.closed and self._runtime.is_served():
            self.worker = Context().run(self._runtime.run_concurrently, self.run(), self._name)


class AsyncioRuntime(BaseRuntime):
    """One client's view of the world, for the tasks of one event loop at a time."""

    suspends = True
    lease = Lease
    _core: ClientCore  # It is attached before the runtime is used.

    def __init__(self, target: Target, config: Config) -> None:
        super().__init__(target, config)
        self._make_link = target.link
        self._loop: asyncio.AbstractEventLoop | None = None
        self._link: Link | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def attach(self, core: ClientCore) -> None:
        """Learn whose world this is."""
        self._core = core

    # ---- the event loop ------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Make sure that this is the loop we serve, or start afresh if that one is no more.

        Raises:
            RuntimeError: Another loop is served, and still alive; or none of asyncio's is running.
        """
        process.check_forked()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise no_event_loop() from None
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError(
                "this client serves another event loop, which is still open; make another client for this one"
            )
        if self._loop is not None:
            self.renew_identity(self._core, "the event loop of its client was closed")
        self._loop = loop

    def is_served(self) -> bool:
        """Return whether the event loop that runs is the one we serve; a coroutine may be closed elsewhere, later."""
        try:
            return self._loop in (None, asyncio.get_running_loop())
        except RuntimeError:
            return False

    @property
    def link(self) -> Link:
        """The link to the server from the loop that is served."""
        if self._link is None:
            self._link = self._make_link()
            self._serve(self._link, self._core)
            if self._disconnected:
                self._link.close()  # Of a block that was left after close(), and sent nothing.
        return self._link

    def run_concurrently(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run something in a task that ends with the client at the latest, unless it is a user's callback.

        What goes on for long is run in a context of its own: one that it shares would keep what others hold there.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop  # A new identity reports what is lost by it, and ends this, too, with the client.
        task = loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- plain ---------------------------------------------------------------------------------------------------

    def owner(self) -> TaskOwner:
        self.enter()
        task = asyncio.current_task()
        return current_task_owner() if task is None else owner_of(task)

    def stuck_behind(self, holder: Caller) -> str | None:
        return None  # A task that waits lets the others go on.

    @staticmethod
    def inside(mutex: object) -> bool:
        return False  # A signal handler cannot await.

    @staticmethod
    def thread() -> int:
        return 0

    def in_background(self) -> bool:
        task = asyncio.current_task()
        return task is None or task in self._tasks or task.get_name() == CONNECTING_TASK  # None: see call_later().

    def ticket(self, lock: str = "") -> Ticket:
        return TaskTicket()

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        return TaskLoop(step, name, self, TaskTicket())

    def node_of(self, key: str) -> str:
        return self.link.node_of(key)

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        return await self.link.execute_at(key, command, timeout)

    def counts_listeners(self) -> bool:
        return self.link.counts_listeners()

    def subscribe(self, channel: str) -> None:
        if self._subscriber is None:
            self._subscriber = subscriber_for(self.link, self._listen, self._core)
        self._subscriber.subscribe(channel)

    def _listen(self, subscriber: Subscriber) -> None:
        task = Context().run(self.run_concurrently, subscriber.run(), "pyredisson-subscriber")

        def ended(task: asyncio.Task[None]) -> None:
            if task.cancelled() and not self.closed:
                self._core.subscriptions.check_often()

        task.add_done_callback(ended)

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        awaits, runs = inspect.iscoroutinefunction(callback), True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # A hook of the program runs, which is not in the loop.
            assert self._loop is not None, "something is held"
            loop, runs = self._loop, False
        if not (awaits or _is_of_loop(callback)):
            self.callbacks.add(self._call, loop, callback, args)
        elif loop.is_closed():
            _log.error("pyredisson: the callback %r is not called: its event loop was closed", callback)
        elif not runs:
            loop.call_soon_threadsafe(self.call_back, callback, *args)
        elif awaits:
            _ = self.run_concurrently(_call_and_await(callback, args), CALLBACK_TASK)
        else:
            loop.call_soon(self._call, loop, callback, args)

    def _call(self, loop: asyncio.AbstractEventLoop, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            result = callback(*args)
            if inspect.iscoroutine(result):
                asyncio.run_coroutine_threadsafe(_await(result, callback), loop)
        except BaseException as error:
            if not is_contained(error):
                raise
            _log.exception("pyredisson: the callback %r failed", callback)

    # ---- awaiting ------------------------------------------------------------------------------------------------

    async def eval(self, request: Request, timeout: float) -> Reply:
        pool = self._core.fast_pool
        pipe = pool.idle[-1] if pool is not None and pool.idle else None
        if pipe is None or pipe.broken is not None or pipe.retired:
            return await self.link.eval(request, timeout)
        try:
            reply = await pipe.call(request.data, timeout)
        except NotSent:
            return await self.link.eval(request, timeout)
        if isinstance(reply, Exception):
            link: Any = self.link
            return await link.answer(reply, request, timeout)  # type: ignore[no-any-return]
        return reply  # type: ignore[no-any-return]

    async def eval_synced(
        self, request: Request, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        return await self.link.eval_synced(request, timeout, replica_wait, sync_timeout)

    async def eval_all(self, requests: list[Request], timeout: float) -> list[Reply | Failure]:
        return await self.link.eval_all(requests, timeout)

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        self.enter()
        return await self.link.execute(command, timeout)

    fan_out = staticmethod(fan_out)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def shield(self) -> AbstractContextManager[object]:
        """Keep a cancelled scope of anyio from cancelling the running task: it does so again at each turn of the loop.

        That it was cancelled is not forgotten: anyio says so again at the next await after this.
        """
        anyio = sys.modules.get("anyio")
        return nullcontext() if anyio is None else anyio.CancelScope(shield=True)

    async def guard(self, work: Coroutine[Any, Any, T], budget: float, *, leaving: bool = True) -> T | None:
        task = self.run_concurrently(work, "pyredisson-cleanup")
        over = self.now() + budget
        cancelled: asyncio.CancelledError | None = None
        with self.shield():
            while not task.done() and (left := over - self.now()) > 0:
                try:
                    await asyncio.wait({task}, timeout=left)
                except asyncio.CancelledError as error:
                    cancelled = error
        if not task.done():
            task.cancel()
        if cancelled is not None and not leaving:
            raise cancelled
        return task.result() if task.done() and not task.cancelled() else None

    @staticmethod
    async def inspect(inspector: Inspector, read: Callable[[Inspector], T]) -> T:
        """Let a thread read something, and close the inspector."""
        from pyredisson.inspection.inspector import answered  # Few programs need it.

        return await answered(inspector, read)

    @staticmethod
    def found(inspector: Inspector, find: Callable[[Inspector], Iterator[LockView]]) -> AsyncIterator[LockView]:
        """Yield what a thread finds, and close the inspector."""
        from pyredisson.inspection.inspector import found

        return found(inspector, find)

    # ---- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the tasks and connections that were made here."""
        if self._loop is None or self._loop.is_closed():
            self.abandon()
            return
        tasks = self._stop() - {asyncio.current_task()}  # A callback may close its client.
        if asyncio.get_running_loop() is self._loop and tasks:
            await asyncio.wait(tasks, timeout=2.0)

    def end(self, core: ClientCore, stop_server: Callable[[], None] | None) -> None:
        """End the client: it is closed, or was garbage-collected."""
        process.check_forked()
        held = what_it_held(core)
        core.close(collected=True)
        if held is not None:
            log_collected(held)

        def stop() -> None:
            self._stop()
            if held is not None:
                report_collected(core, held)

        loop = self._loop
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # It was closed at this very moment.
                loop.call_soon_threadsafe(stop)
        if stop_server is not None:
            stop_server()

    def let_go(self) -> None:
        """See :class:`BaseRuntime`."""
        if self._loop is None or self._loop.is_closed():
            return
        if self._subscriber is not None:
            self._subscriber.close()
        self._cancel_tasks()
        if self._link is not None:
            self._link.close()
            self._link = None

    def restart(self, core: ClientCore) -> None:
        """See :class:`BaseRuntime`."""
        self.abandon()
        core.begin()

    def _stop(self) -> set[asyncio.Task[Any]]:
        self.closed = True
        if self._subscriber is not None:
            self._subscriber.close()
        self._cancel_tasks()
        self._disconnect()
        return set(self._tasks)

    def _cancel_tasks(self) -> None:
        for task in list(self._tasks):
            if task.get_name() != CALLBACK_TASK:  # The losses are reported still.
                task.cancel()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Callable[[], object]:
        return asyncio.get_running_loop().call_later(seconds, call).cancel

    def _reconnect(self) -> None:
        self._link = None

    def _close_link(self) -> None:
        if self._link is not None:
            self._link.close()

    def abandon(self) -> None:
        """Forget the tasks and connections of a loop that runs no more, or of the parent of a fork."""
        link, self._link = self._link, None
        self._core.fast_pool = None
        self._subscriber = None
        self.callbacks: Callbacks = Callbacks()
        self._tasks = set()
        self._loop = None
        if link is not None:
            link.abandon()


def _is_of_loop(callback: object) -> bool:
    """Whether it is a method of an object of asyncio: it blocks nothing, and must be called in the event loop."""
    kinds = type(getattr(callback, "__self__", None)).__mro__
    return any(kind.__module__.partition(".")[0] in ("asyncio", "_asyncio", "anyio") for kind in kinds)


async def _call_and_await(callback: Callable[..., Any], args: tuple[object, ...]) -> None:
    await _await(callback(*args), callback)  # Called here: a loop that ends before this runs leaves nothing behind.


async def _await(work: Coroutine[Any, Any, object], callback: Callable[..., object]) -> None:
    try:
        await work
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) or not is_contained(error):
            raise
        _log.exception("pyredisson: the callback %r failed", callback)
