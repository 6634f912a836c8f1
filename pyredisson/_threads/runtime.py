"""The core's world under threads: everything blocks, nothing suspends."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyredisson._core.failures import Failure, is_contained
from pyredisson._core.owners import Caller
from pyredisson._core.runtime import Answer, Background, Reply, Request, Ticket, run
from pyredisson._core.watchdog import report_collected, what_it_held
from pyredisson._shared import process
from pyredisson._shared.owners import TaskOwner, ThreadOwner, current_owner
from pyredisson._shared.process import check_patched, is_patched, monotonic
from pyredisson._shared.runtime import BaseRuntime, Callbacks, StepLoop, subscriber_for
from pyredisson._threads.background import BackgroundThread, ThreadTicket, end_inherited_thread, inside, late_calls
from pyredisson._threads.sockets import eval_idle, fan_out
from pyredisson.errors import ClientClosedError
from pyredisson.lease import Lease
from pyredisson.observe.logging import log_collected

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.replicas import ReplicaAcknowledgement
    from pyredisson._net.subscriber import Subscriber
    from pyredisson._net.urls import Link, Target
    from pyredisson.config import Config
    from pyredisson.inspection import Inspector, LockView

T = TypeVar("T")

_log = logging.getLogger("pyredisson")

#: Seconds after which a waiter warns that it blocks an event loop.
LOOP_BLOCKED_WARNING = 1.0

#: For how many seconds ``close()`` waits for the end of the client's threads. They may be kept by a request, or need
#: what a call holds that a signal handler has interrupted to close the client.
PATIENCE = 1.0


class LoopTicket(ThreadTicket):
    """The ticket of a waiter that keeps an event loop waiting, which is logged once."""

    __slots__ = ("_lock_name", "_quiet_for")

    def __init__(self, lock: str) -> None:
        super().__init__()
        self._lock_name = lock
        self._quiet_for = LOOP_BLOCKED_WARNING

    async def wait(self, seconds: float) -> bool:
        if self._quiet_for <= 0:
            return await super().wait(seconds)
        first = min(seconds, self._quiet_for)
        if await super().wait(first):
            return True
        self._quiet_for -= first
        if self._quiet_for <= 0:
            _log.warning(
                "pyredisson: a call has been waiting for %r for %g s, and blocks the event loop of its thread: use "
                "pyredisson.asyncio in coroutines, and await the lock",
                self._lock_name,
                LOOP_BLOCKED_WARNING,
                stack_info=True,
            )
        return seconds > first and await super().wait(seconds - first)


class ThreadLoop(StepLoop):
    """A thread that steps, sleeps, and steps again."""

    def __init__(self, step: Callable[[], Coroutine[Any, Any, float]], name: str, runtime: ThreadsRuntime) -> None:
        super().__init__(step, name, runtime, ThreadTicket())
        self._mutex = threading.RLock()
        self._only = threading.Lock()

    def _start(self) -> None:
        check_patched()
        with self._mutex:
            if self.worker is None and not self.closed:
                BackgroundThread(self._run, self._name).start()

    def _run(self) -> None:
        # A caller that was interrupted while starting us leaves it to the next nudge: there may be two of us.
        if not self._only.acquire(blocking=False):
            return
        self.worker = threading.current_thread()
        run(self.run())
        end_inherited_thread()

    def close(self) -> None:
        """End it soon; in the child of a fork, too: a thread is not here, but a greenlet is."""
        self.closed = True
        self._nudged.notify()


class ThreadsRuntime(BaseRuntime):
    """One client's view of the world, for any number of threads."""

    suspends = False
    lease = Lease

    def __init__(self, target: Target, config: Config) -> None:
        check_patched()
        super().__init__(target, config)
        self._make_link = target.link
        self._loops: list[ThreadLoop] = []
        self._listening: list[threading.Thread] = []
        self._use(target.link())

    def _use(self, link: Link) -> None:
        self.link: Link = link
        # Not methods around them: this is the hot path.
        self.eval: Callable[[Request, float], Answer[Reply]] = self.link.eval
        self.eval_synced: Callable[
            [Request, float, ReplicaAcknowledgement, float], Answer[tuple[Reply, int | Failure]]
        ] = self.link.eval_synced
        self.eval_all: Callable[[list[Request], float], Answer[list[Reply | Failure]]] = self.link.eval_all
        self.execute: Callable[[tuple[str, ...], float], Answer[Reply]] = self.link.execute

    def _serve(self, link: Link, core: ClientCore) -> None:
        super()._serve(link, core)
        if core.fast_pool is not None:
            self.eval = partial(eval_idle, core, link)

    def attach(self, core: ClientCore) -> None:
        """Learn whose world this is: whom messages are for, and who wants to know of the connection."""
        self._core = core
        self._serve(self.link, core)
        self._listening = []
        self._only_listener: dict[Subscriber, threading.Lock] = {}
        self._subscriber = subscriber_for(self.link, self._listen, core)

    def _listen(self, subscriber: Subscriber) -> None:
        def listen() -> None:
            if only.acquire(blocking=False):  # As in ThreadLoop: there may be two of us.
                thread = threading.current_thread()
                listening.append(thread)
                try:
                    run(subscriber.run())
                finally:
                    end_inherited_thread()
                    listening.remove(thread)
                    only_listener.pop(subscriber, None)

        listening, only_listener = self._listening, self._only_listener
        only = only_listener.setdefault(subscriber, threading.Lock())
        BackgroundThread(listen, "pyredisson-subscriber").start()

    # ---- plain ---------------------------------------------------------------------------------------------------

    owner: staticmethod[[], Caller] = staticmethod(current_owner)

    def stuck_behind(self, holder: Caller) -> str | None:
        if isinstance(holder, TaskOwner):
            loop = asyncio._get_running_loop()
            if loop is None or not holder.runs_in(loop):
                return None
            return (
                f"{holder.describe()} holds it, and cannot continue while this call blocks its event loop. Use "
                "pyredisson.asyncio and await the lock, or try_lock() without a wait"
            )
        if isinstance(holder, ThreadOwner) and holder.runs_here():
            return (
                f"an earlier call of {holder.describe()} holds it, and cannot continue while this one waits in the "
                "same thread. Use hold(), whose block may be left in any thread, get_lock(name, "
                "owner=client.new_owner()), or pyredisson.asyncio"
            )
        return None

    inside: staticmethod[[Any], bool] = staticmethod(inside)
    thread: staticmethod[[], int] = staticmethod(threading.get_ident)

    @staticmethod
    def in_background() -> bool:
        return isinstance(threading.current_thread(), BackgroundThread)

    def ticket(self, lock: str = "") -> Ticket:
        return LoopTicket(lock) if lock and asyncio._get_running_loop() is not None else ThreadTicket()

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        loop = ThreadLoop(step, name, self)
        self._loops.append(loop)
        return loop

    def node_of(self, key: str) -> str:
        return self.link.node_of(key)

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        return await self.link.execute_at(key, command, timeout)

    def counts_listeners(self) -> bool:
        return self.link.counts_listeners()

    def subscribe(self, channel: str) -> None:
        if self._subscriber is not None:
            self._subscriber.subscribe(channel)

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        self.callbacks.add(_call, callback, args)

    # ---- blocking ------------------------------------------------------------------------------------------------

    fan_out = staticmethod(fan_out)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def guard(self, work: Coroutine[Any, Any, T], budget: float, *, leaving: bool = True) -> T | None:
        # Under threads there is nothing to shield from but another Ctrl-C, and that one is meant.
        return await work

    @staticmethod
    async def inspect(inspector: Inspector, read: Callable[[Inspector], T]) -> T:
        """Read something, and close the inspector."""
        with inspector:
            return read(inspector)

    @staticmethod
    def found(inspector: Inspector, find: Callable[[Inspector], Iterator[LockView]]) -> Iterator[LockView]:
        """Yield what is found, and close the inspector."""
        with inspector:
            yield from find(inspector)

    # ---- the end -------------------------------------------------------------------------------------------------

    def end(self, core: ClientCore, stop_server: Callable[[], None] | None) -> None:
        """End the client: it is closed, or was garbage-collected."""
        process.check_forked()

        def end() -> None:
            core.close(collected=True)
            self._stop()
            if stop_server is not None:
                stop_server()

        held = what_it_held(core)
        if held is None:
            end()
            return

        async def farewell(_timeout: float) -> None:
            report_collected(core, held)
            end()

        log_collected(held)  # We may be anywhere: on the watchdog's thread there is time for the rest.
        core.watchdog.do_later(farewell, math.inf)

    def restart(self, core: ClientCore) -> None:
        """See :class:`BaseRuntime`."""
        self._reopening = threading.RLock()
        self.abandon()
        if is_patched():
            # Greenlets go on in the child. What they hold or wait for is the parent's.
            core.subscriptions.close(
                ClientClosedError("the process was forked: a greenlet of the parent waits no more")
            )
            for ownership in core.ownerships:
                ownership.clear()
        core.begin()
        self.attach(core)

    async def close(self) -> None:
        """End the threads and connections that were made here."""
        self._stop()

    def _stop(self) -> None:
        if self.closed:
            self._disconnect()  # Again: the first time may have been interrupted.
            return
        over = monotonic() + PATIENCE
        if self._subscriber is not None:
            self._subscriber.close()
        for loop in self._loops:
            loop.close()
        for thread in (*self._listening, *[loop.worker for loop in self._loops]):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0.0, over - monotonic()))
        self.closed = True
        self._disconnect()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Callable[[], object]:
        return late_calls.add(self.now() + seconds, call)

    def _reconnect(self) -> None:
        self._use(self._make_link())
        self._serve(self.link, self._core)

    def _close_link(self) -> None:
        self.link.close()

    def abandon(self) -> None:
        """This is the child of a fork: the threads are not here, the connections are the parent's."""
        for loop in self._loops:
            loop.close()
        self._loops = []
        if self._subscriber is not None:
            self._subscriber.abandon()
        self.callbacks: Callbacks = Callbacks()
        self._subscriber = None
        self.link.abandon()


def _call(callback: Callable[..., object], args: tuple[object, ...]) -> None:
    try:
        result = callback(*args)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except BaseException as error:
        if not is_contained(error):
            raise
        _log.exception("pyredisson: the callback %r failed", callback)
