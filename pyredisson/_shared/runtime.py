"""What the runtimes of threads and of asyncio do alike: time, randomness, and where a name is."""

from __future__ import annotations

import logging
import math
import os
import random
import socket
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyredisson._core.failures import ANOTHER, Rejected, is_contained
from pyredisson._core.presence import Identity
from pyredisson._core.runtime import NumberedRequest, Request, Ticket, numbered
from pyredisson._core.waiting import queue_refused
from pyredisson._net.link import ServerLink
from pyredisson._net.subscriber import Subscriber
from pyredisson._net.topology import SlotCommand, prepare_call, slot_of
from pyredisson._net.wire import VERSION, PackedCommand, introduction, prepare, prepare_numbered
from pyredisson._shared import process
from pyredisson._shared.process import monotonic
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._net.cluster import NodeSubscribers
    from pyredisson._net.urls import Link, Target
    from pyredisson.config import Config

# ---- subscribing -----------------------------------------------------------------------------------------------------
# What receives a client's messages: one subscriber, or one for each node of a cluster.


def subscriber_for(link: Link, start: Callable[[Subscriber], None], client: ClientCore) -> Subscriber | NodeSubscribers:
    """What receives the messages for the client that has this link; for the arguments see :class:`Subscriber`."""
    if not isinstance(link, ServerLink):
        from pyredisson._net.cluster import NodeSubscribers  # Most programs have one server.

        return NodeSubscribers(link, start, client)
    subscriber = Subscriber(link.stream, start, client, follow=link.follow)
    link.on_change = subscriber.move
    return subscriber


# ---- living ----------------------------------------------------------------------------------------------------------
# The clients of this process: one of them may hold what another one waited for in vain.


#: Those that were closed, and not collected, as well.
known: weakref.WeakSet[ClientCore] = weakref.WeakSet()


def clients() -> list[ClientCore]:
    """Return the clients that are neither closed nor gone; none if another thread makes one at this moment."""
    try:
        return [client for client in list(known) if not client.closed]
    except RuntimeError:  # The set has changed while it was copied.
        return []


_log = logging.getLogger("pyredisson")


#: The reason for the loss of what a process held that was restored.
COPIED = "this process was restored from a checkpoint: it may be a copy"

#: No sleep is longer than that, in seconds, while there is something to renew or to report.
SLICE = 1.0

#: Seconds by which the wall clock has to run ahead of the other before a step looks at both.
RAN_AHEAD = 0.02


class StepLoop(ABC):
    """A thread or a task that steps, sleeps, and steps again. Started by its first nudge.

    Args:
        step: Returns after how many seconds the next one is due.
        name: The name of the loop.
        runtime: The runtime that it belongs to.
        ticket: What it sleeps on.
    """

    closed = False
    #: What runs it.
    worker: Any = None

    def __init__(self, step: Callable[[], Coroutine[Any, Any, float]], name: str, runtime: Any, ticket: Ticket) -> None:
        self._step = step
        self._name = f"pyredisson-{name}"
        self._runtime = runtime
        self._nudged = ticket

    def nudge(self) -> None:
        """Let it step now."""
        self._nudged.notify()
        if self.worker is None:
            self._start()

    @abstractmethod
    def _start(self) -> None:
        """Let a thread or a task run it, unless the client was closed."""

    async def run(self) -> None:
        """Step until it is closed."""
        failed = False
        while not self.closed:
            self._runtime.link.reserve()  # Each time: a cluster's link has links to other nodes by now.
            try:
                pause = await self._step()
                failed = False
            except BaseException as error:
                # A watchdog that dies of one surprise would end every lease of the client.
                if self._is_for_the_program(error):
                    raise
                if not failed:
                    _log.exception("pyredisson: the %s failed and continues", self._name)
                failed, pause = True, 1.0
            await self._sleep(pause)

    async def _sleep(self, pause: float) -> None:
        """Sleep until nudged, or until the next step is due by the clock of leases, or the wall clock has run ahead.

        A wait is measured by a clock that may stand still while the machine sleeps, so it is made in slices.
        """
        over, offset = monotonic() + pause, self._runtime.unix_time() - monotonic()
        while (left := over - monotonic()) > 0:
            if await self._nudged.wait(left if left == math.inf else min(left, SLICE)):
                return
            if self._runtime.unix_time() - monotonic() > offset + RAN_AHEAD:
                return

    @staticmethod
    def _is_for_the_program(error: BaseException) -> bool:
        """Whether an error that no code of ours raises is to end the loop; a signal handler may have raised it here."""
        return not is_contained(error)


class BaseRuntime(ABC):
    """The plain part of a :class:`pyredisson._core.runtime.Runtime`.

    Args:
        target: Where the client connects.
        config: The client's settings.

    Attributes:
        callbacks: Those of the client's user that are still to be called.
    """

    def __init__(self, target: Target, config: Config) -> None:
        self._config = config
        self._app = target.app
        self._scattered = target.scattered
        self.prepare: Callable[[str, tuple[str, ...], tuple[str | int | bytes, ...]], Request] = (
            prepare_call if target.scattered else prepare
        )
        self.prepare_numbered: Callable[[str, tuple[str, ...], tuple[str | int | bytes, ...]], NumberedRequest] = (
            partial(numbered, prepare_call) if target.scattered else prepare_numbered
        )
        self.prepare_command: Callable[[tuple[str, ...]], Request] = SlotCommand if target.scattered else PackedCommand
        self.callbacks: Callbacks = Callbacks()
        self._origin = process.origin()
        self._subscriber: Subscriber | NodeSubscribers | None = None
        self.closed: bool = False
        self._reopened = 0  # How many blocks of the closed client are sending their releases.
        self._disconnected = False
        self._reopening = threading.RLock()  # A signal handler may close the client in the middle.

    @abstractmethod
    def attach(self, core: ClientCore) -> None:
        """Learn whose runtime this is."""

    @abstractmethod
    def restart(self, core: ClientCore) -> None:
        """Make its client another one, on connections of its own, in the child of a fork."""

    def let_go(self) -> None:  # noqa: B027  # Threads end by themselves.
        """End the tasks of a client that becomes another one in the same process."""

    @abstractmethod
    def end(self, core: ClientCore, stop_server: Callable[[], None] | None) -> None:
        """End with its client, which was closed, or is collected by the garbage collector wherever that runs."""

    def reopen(self) -> None:
        with self._reopening:
            self._reopened += 1
            if self._disconnected:
                self._disconnected = False
                self._reconnect()

    def close_again(self) -> None:
        with self._reopening:
            self._reopened -= 1
            self._disconnect()

    def _disconnect(self) -> None:
        """Close the connections of a client that was closed, unless a block needs them; then that does it."""
        with self._reopening:
            if self.closed and not (self._reopened or self._disconnected):
                self._disconnected = True
                self._close_link()

    @abstractmethod
    def _reconnect(self) -> None:
        """Make a new link to the server."""

    @abstractmethod
    def _close_link(self) -> None:
        """Close the link to the server."""

    def _serve(self, link: Link, core: ClientCore) -> None:
        """Let a link report what servers say of themselves, and tell them whose connections are its own."""
        link.inspect = partial(self._inspect, core)
        core.copied = partial(self._copied, core)
        named = self._app is not None and self._config.client_name is None
        link.introduce = lambda: introduction(self.identity(), core.id, named=named)
        link.on_moved = core.note_move
        link.on_queue_refused = partial(queue_refused, core)
        core.fast_pool = link.pool if isinstance(link, ServerLink) and not core.closed else None

    def _inspect(self, core: ClientCore, said: object, took: float | None = None, node: str = "") -> None:
        """Note what a server says of itself on a new connection, unless this process is a copy."""
        if self._copied(core):
            raise Rejected(ClientClosedError(ANOTHER))
        core.server.inspect(said, took, node)

    def _copied(self, core: ClientCore) -> bool:
        """Return whether this process is a restored copy: its client is then another one, and has lost what it held."""
        before, now = self._origin, process.origin()
        if before == now or "" in now:  # Unknown: not even a file can be opened, for example.
            return False
        self._origin = now
        if before[0] != now[0] or "" in before:  # The child of a fork notices that by itself.
            return False
        self.renew_identity(core, COPIED)
        return True

    def renew_identity(self, core: ClientCore, reason: str) -> None:
        """Make its client another one in the same process."""
        former = core.ownerships, core.subscriptions
        try:
            core.give_up_all(reason)
        finally:
            self.let_go()
            self.restart(core)
            core.end_former(*former, reason)

    now: staticmethod[[], float] = staticmethod(monotonic)
    check_process: staticmethod[[], None] = staticmethod(process.check_forked)

    random_bytes: staticmethod[[int], bytes] = staticmethod(os.urandom)
    unix_time: staticmethod[[], float] = staticmethod(time.time)
    clients: staticmethod[[], list[ClientCore]] = staticmethod(clients)

    def shield(self) -> AbstractContextManager[object]:
        return nullcontext()

    def identity(self) -> Identity:
        return Identity(self._config.client_name or self._app, socket.gethostname(), os.getpid(), VERSION)

    def jitter(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def mutex(self) -> AbstractContextManager[Any]:
        return threading.RLock()  # Under asyncio never contended; but a signal handler may ask for a handle's ``repr``.

    def place(self, name: str) -> int | None:
        return slot_of(name) if self._scattered else None

    def unsubscribe(self, channel: str) -> None:
        if self._subscriber is not None:
            self._subscriber.unsubscribe(channel)


# ---- callbacks -------------------------------------------------------------------------------------------------------
# Where the callbacks of a client's user run: on threads of their own, where they may raise and block.
#
# A thread is started when there is something to call, and ends when there is nothing more. It is a daemon.


T = TypeVar("T")

#: The largest number of threads. If that number of callbacks block, the next one waits for one of them.
MOST = 8


class Callbacks:
    """The callbacks of one client that are still to be called."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._queue: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._threads = 0

    def add(self, callback: Callable[..., object], *args: object) -> None:
        """Call something soon, on a thread where it may take its time. Never blocks, and never raises."""
        with self._mutex:
            self._queue.append((callback, args))
            if self._threads >= MOST:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._run, name="pyredisson-callback", daemon=True).start()
        except BaseException as error:
            with self._mutex:
                self._threads -= 1
            if not isinstance(error, RuntimeError):
                raise
            _log.error("pyredisson: no thread is available to call %r (%s): called with the next", callback, error)

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._queue:
                    self._threads -= 1
                    return
                callback, args = self._queue.popleft()
            try:
                callback(*args)
            except BaseException:  # No one else calls in this thread: also what is no ``Exception``.
                _log.exception("pyredisson: the callback %r failed", callback)
