"""Connections for an event loop: requests of all tasks are written together, and replies come in order.

redis-py makes the connections (addresses, TLS, credentials, handshake). That is all the protocol there is afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import socket
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import redis.asyncio
import redis.exceptions as rx
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from pyredisson._core.failures import Connecting, Failure, NotSent, Unanswered, as_failure
from pyredisson._core.runtime import Reply, ServerRequest
from pyredisson._net.link import CONNECTING, Pool, ServerLink, Stream, Transport
from pyredisson._net.urls import REFUSED, Form, Link, UserTransport, UserWire, own_settings, place_of
from pyredisson._net.wire import as_redis_error, as_reply, is_push, new_reader, no_reply, not_opened
from pyredisson._shared.process import monotonic
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from hiredis import Reader

    from pyredisson._net.wire import Address, Dial

#: As many requests leave together at most, so that the server answers the first ones while the others are made.
TOGETHER = 32


class Replies(ABC, asyncio.Protocol):
    """What our two kinds of connection have in common: bytes in, replies out, and a known end."""

    def __init__(self) -> None:
        self._reader: Reader = new_reader()
        self._transport: Any = None
        self._writer: Any = None
        self.broken: Exception | None = None

    async def adopt(self, reader: Any, writer: Any) -> None:
        """Take over a connection from redis-py, and what it may have read too much of."""
        self._writer = writer  # Closes the transport when it is collected, so it lives as long as we do.
        self._transport = writer.transport
        self._transport.set_protocol(self)
        reader.feed_eof()  # No more comes there, so that reading does not wait.
        if reader.exception() is None and (early := await reader.read()):
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                if self.broken is None:
                    self.replied(reply)
        except rx.InvalidResponse as error:
            self.connection_lost(rx.ConnectionError(f"Protocol error: {error}"))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self.broken is None:
            self.broken = rx.ConnectionError("Connection closed by server.") if exc is None else as_redis_error(exc)
            self.ended()
        self.close()

    @abstractmethod
    def replied(self, reply: Any) -> None:
        """Take a reply, or a message."""

    @abstractmethod
    def ended(self) -> None:
        """The connection is no more."""

    def close(self) -> None:
        """Close it now."""
        if self.broken is None:
            self.broken = rx.ConnectionError("this connection was closed")
            self.ended()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            try:
                transport.abort()
            except RuntimeError:  # Its loop is closed, so it will not close it.
                self.abandon()

    def abandon(self) -> None:
        """Close our descriptor without the loop's help, and without a word to the server."""
        transport = self._transport
        with contextlib.suppress(Exception):
            transport._closing = True  # Else it, and its writer, would want to close themselves on a loop gone by.
            sock, transport._sock = transport._sock, None
            socket.close(sock.detach())


class Pipe(Replies):
    """A connection for any number of requests at once. ``address``: where its server is, by the sentinels."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: Address | None = None) -> None:
        super().__init__()
        self._loop = loop
        self.address = address
        self.used: float = loop.time()
        self._calls: deque[tuple[asyncio.Future[Any], float]] = deque()  # Each with the time by which it is due.
        self._out: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._context = contextvars.Context()  # Of the timer. A caller's would stay, and all that is in it.
        self.retired: bool = False

    def call(self, data: bytes, timeout: float) -> asyncio.Future[Any]:
        """Send a request; the future gets its reply, or the error that was one, or a ``Failure``."""
        future = self._loop.create_future()
        self.post(data, timeout, future)
        return future

    def post(self, data: bytes, timeout: float, outcome: asyncio.Future[Any]) -> None:
        """Send a request, whose outcome is put into what the caller brings.

        Now, if nothing else is in flight here: then there is nothing that it could leave together with.
        """
        if self.broken is not None:  # Since it was looked at: there were turns of the loop in between.
            outcome.set_exception(NotSent(self.broken))
            return
        due = self._loop.time() + timeout
        calls, out = self._calls, self._out
        if not (calls or out):
            self._transport.write(data)
        else:
            if not out:
                self._loop.call_soon(self._flush)
            out.append(data)
        calls.append((outcome, due))
        if len(out) >= TOGETHER:
            self._flush()
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def _flush(self) -> None:
        # What was asked for in this turn of the loop leaves by one system call, or few.
        out, self._out = self._out, []
        if self.broken is None and out:
            self._transport.write(b"".join(out))

    def replied(self, reply: Any) -> None:
        if type(reply) is not int and reply is not None and is_push(reply):
            return
        outcome = self._calls.popleft()[0]
        try:
            if not outcome.done():
                outcome.set_result(reply)
        except asyncio.InvalidStateError:  # A signal handler has cancelled it just now.
            pass
        if self.retired and not self._calls:
            self.close()

    def ended(self) -> None:
        unsent = len(self._out)
        calls, self._calls = self._calls, deque()
        if self._timer is not None:
            self._timer.cancel()
        error = self.broken or rx.ConnectionError("Connection closed.")
        for index, (outcome, _) in enumerate(calls):
            if not outcome.done():
                kind = NotSent if index >= len(calls) - unsent else Unanswered
                outcome.set_exception(kind(error))

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`pyredisson._net.wire.Wire.call_many`. Nothing of others comes in between."""
        calls = [self.call(data, timeout) for data in requests]
        return await asyncio.gather(*calls, return_exceptions=True)

    def usable(self) -> bool:
        """See :meth:`pyredisson._net.wire.Wire.usable`."""
        return self.broken is None and not self.retired

    def retire(self) -> None:
        """Take no more requests, and close when the ones in flight are answered or given up."""
        self.retired = True
        if not self._calls:
            self.close()

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look_at_time, context=self._context)

    def _look_at_time(self) -> None:
        # Many requests, one timer: it goes off when the earliest of them may be late, and is set anew.
        self._timer = None
        now = self._loop.time()
        again = math.inf
        for outcome, due in self._calls:
            if outcome.done():
                continue
            if due <= now:
                # Its reply may still come, and belongs to no request. The rest had better go by another connection.
                self.retired = True
                outcome.set_exception(Unanswered(rx.TimeoutError("no reply from the server in time")))
            else:
                again = min(again, due)
        if again < math.inf:
            self._set_timer(again)
        elif self.retired:
            self.close()


class StreamReplies:
    """The replies and messages on a stream, until a subscriber reads them.

    Attributes:
        broken: Why nothing more comes; ``None`` as long as something may.
    """

    broken: Exception | None = None

    def __init__(self) -> None:
        super().__init__()
        self._replies: list[Any] = []
        self._ticket = TaskTicket()

    def replied(self, reply: Any) -> None:
        self._replies.append(reply)
        self.wake()

    def ended(self) -> None:
        self.wake()

    def wake(self) -> None:
        self._ticket.notify()

    async def read(self, timeout: float) -> list[Any] | None:
        if not self._replies and self.broken is None:
            await self._ticket.wait(timeout)
        replies, self._replies = self._replies, []
        return None if self.broken is not None and not replies else replies


class AsyncSocketStream(StreamReplies, Replies):
    """A stream for a subscriber."""

    def send(self, data: bytes) -> None:
        if self.broken is not None:
            raise self.broken
        self._transport.write(data)


async def open_connection(connection_class: type[Any], settings: dict[str, Any], timeout: float) -> tuple[Any, Any]:
    """Let redis-py connect and introduce itself, and take the streams.

    Raises:
        NotSent, Rejected: No connection could be made; see :func:`pyredisson._net.wire.not_opened`.
    """
    connection = connection_class(**own_settings(settings, timeout), retry=Retry(NoBackoff(), 0))
    try:
        await connection.connect()
    except (rx.RedisError, OSError) as error:
        raise not_opened(error) from None
    except Exception:  # Of the user's: redis-py leaves the socket open then.
        await connection.disconnect(nowait=True)
        raise
    reader, writer = connection._reader, connection._writer
    connection._reader = connection._writer = None  # Else they would be closed with the object.
    return reader, writer


# ---- fan out ---------------------------------------------------------------------------------------------------------
# Requests to several servers at once, for an event loop: all are sent, then all replies are received.


RequestT = TypeVar("RequestT", bound=ServerRequest)


async def _receive(request: ServerRequest, begun: asyncio.Future[Any]) -> Reply:
    """Return the reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
    if isinstance(begun, asyncio.Task):
        await asyncio.wait({begun})  # Not the task itself: it could swallow a cancellation, see ``shielded()``.
        error = None if begun.cancelled() else begun.exception()
        if isinstance(error, Exception):  # Of any class: it is about this server alone.
            raise as_failure(error)
        return begun.result()  # type: ignore[no-any-return]
    link: ServerLink = request.runtime.link  # type: ignore[attr-defined]
    try:
        reply = await begun
    except Unanswered:
        link.away = True
        raise
    link.away = False
    if isinstance(reply, Exception):
        return await link.answer(reply, request.prepared, request.timeout)
    return reply  # type: ignore[no-any-return]


async def _when_connected(link: ServerLink, pool: Pool, request: ServerRequest) -> Reply:
    try:
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        pipe: Any = await pool.connect(request.timeout if link.away else max(request.timeout, CONNECTING))
    except Failure:
        link.away = True
        raise
    request.connected()
    return await _receive(request, pipe.call(request.prepared.data, request.timeout))


async def _in_time(link: Link, request: ServerRequest) -> Any:
    within = request.timeout
    if request.replica_wait is None:
        work: Any = link.eval(request.prepared, request.timeout)
    else:
        within *= 2
        work = link.eval_synced(request.prepared, request.timeout, request.replica_wait, request.timeout)
    try:
        # It may have to connect, for which there is no time of its own here.
        return await asyncio.wait_for(work, max(within, CONNECTING))
    except asyncio.TimeoutError:
        raise Unanswered(no_reply(within)) from None


def _begin(request: ServerRequest) -> asyncio.Future[Any]:
    """Send a request now; in a task of its own, if its connection has to be made first, or is borrowed."""
    link: Link = request.runtime.link  # type: ignore[attr-defined]
    if not isinstance(link, ServerLink) or link.pool is None or request.replica_wait is not None:
        return asyncio.ensure_future(_in_time(link, request))
    pipe: Any = link.pool.get()
    if pipe is None:
        return asyncio.ensure_future(_when_connected(link, link.pool, request))
    return pipe.call(request.prepared.data, request.timeout)  # type: ignore[no-any-return]


async def fan_out(requests: Iterable[RequestT]) -> list[RequestT]:
    """See ``Runtime.fan_out``: send everything, then receive the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    made: list[RequestT] = []
    begun: list[asyncio.Future[Any]] = []
    try:
        for request in requests:
            made.append(request)
            begun.append(_begin(request))
        for request, each in zip(made, begun, strict=True):
            try:
                request.answer = await _receive(request, each)
            except Connecting as failure:
                request.answer = NotSent(failure.cause)  # One of several is not waited for.
            except Failure as failure:
                request.answer = failure
    except BaseException:
        for each in begun:
            each.cancel()  # A reply that comes later is ignored.
            each.add_done_callback(look_at)
        raise
    return made


# ---- transport -------------------------------------------------------------------------------------------------------
# Makes the connections of a link.


#: How many acquires wait for replicas at once, each on a connection of its own.
MOST = 64


class PipeTransport(Transport):
    """Connections of our own, made from the settings of a client: one that all tasks share, and some that wait."""

    shared = True

    def __init__(self, connection_class: type[Any], settings: dict[str, Any]) -> None:
        self._class = connection_class
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._pipes: weakref.WeakSet[Pipe] = weakref.WeakSet()
        self._dials: set[asyncio.Task[None]] = set()

    def caller(self) -> object:
        return asyncio.current_task()

    async def open(self, address: Address | None, timeout: float) -> Pipe:
        pipe = Pipe(self._loop, address)
        await pipe.adopt(*await open_connection(self._class, self._settings_for(address), timeout))
        self._pipes.add(pipe)
        return pipe

    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        return await shielded(self._stream(address, timeout), AsyncSocketStream.close)

    async def _stream(self, address: Address | None, timeout: float) -> AsyncSocketStream:
        stream = AsyncSocketStream()
        await stream.adopt(*await open_connection(self._class, self._settings_for(address), timeout))
        return stream

    def _settings_for(self, address: Address | None) -> dict[str, Any]:
        return self._settings if address is None else {**self._settings, "host": address[0], "port": address[1]}

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        return await shielded(self._query(settings, command))

    async def _query(self, settings: dict[str, Any], command: tuple[str, ...]) -> Any:
        sentinel: Any = redis.asyncio.Redis(**settings, retry=Retry(NoBackoff(), 0))
        try:
            return await sentinel.execute_command(*command)
        finally:
            await sentinel.aclose()

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        dial = TaskDial(work())
        self._dials.add(dial.task)
        dial.task.add_done_callback(self._dials.discard)
        return dial

    async def room(self, timeout: float) -> bool:
        if sum(pipe.usable() for pipe in self._pipes) + len(self._dials) <= MOST:
            return True
        if timeout <= 0:
            raise NotSent(rx.TimeoutError(f"{MOST} requests wait for replicas already"))
        await asyncio.sleep(0.005)
        return False

    def close(self) -> None:
        for task in list(self._dials):
            with contextlib.suppress(RuntimeError):
                task.cancel()
        for pipe in list(self._pipes):
            pipe.close()

    def abandon(self) -> None:
        # Its loop is not ours, and may even be the parent's of a fork: close the descriptors and nothing else.
        for pipe in list(self._pipes):
            pipe.abandon()


# ---- user class ------------------------------------------------------------------------------------------------------
# Connections of a class that is the user's, for an event loop; see :mod:`pyredisson._net.urls`.


class AsyncUserWire(UserWire):
    """A connection of the user's class."""

    async def call(self, data: bytes, timeout: float) -> Any:
        return await shielded(super().call(data, timeout))

    async def _send(self, data: bytes) -> None:
        await self.connection.send_packed_command([data], check_health=False)

    async def _receive(self, timeout: float) -> Any:
        try:
            return await asyncio.wait_for(self.connection.read_response(disable_decoding=True), timeout)
        except asyncio.TimeoutError:
            raise no_reply(timeout) from None

    def usable(self) -> bool:
        at_eof = getattr(getattr(self.connection, "_reader", None), "at_eof", None)
        return bool(getattr(self.connection, "is_connected", True)) and not (at_eof is not None and at_eof())

    def close(self) -> None:
        _disconnect(self.connection)

    def abandon(self) -> None:
        pass


class AsyncUserTransport(UserTransport):
    """Makes connections as the pool of a client does."""

    wire: type[UserWire] = AsyncUserWire

    def caller(self) -> object:
        return asyncio.current_task()

    async def _connect(self, connection: Any, timeout: float) -> None:
        try:
            await connection.connect()
        except asyncio.CancelledError:
            await connection.disconnect(nowait=True)
            raise

    async def open_stream(self, address: Address | None, timeout: float) -> AsyncUserStream:
        return AsyncUserStream(await shielded(self._make(timeout), _disconnect))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return TaskDial(work())


def _disconnect(connection: Any) -> None:
    spawn(connection.disconnect(nowait=True))


class AsyncUserStream(StreamReplies):
    """A stream on a connection of the user's class. ``address``: where it leads."""

    def __init__(self, connection: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__()
        self._connection = connection
        self.address: Any = place_of(connection)
        self._to_send: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks = [loop.create_task(self._repeat(step)) for step in (self._receive_one, self._send_one)]

    def send(self, data: bytes) -> None:
        self._to_send.put_nowait(data)

    async def _repeat(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            while self.broken is None:
                await step()
        except Exception as error:  # Also of a class that redis-py does not know: the connection class is the user's.
            self.broken = as_redis_error(error)
            self.ended()

    async def _receive_one(self) -> None:
        try:
            reply = await self._connection.read_response(
                disable_decoding=True, disconnect_on_error=False, push_request=True
            )
        except REFUSED as error:
            reply = as_reply(error)
        except rx.TimeoutError:
            return  # The user's socket_timeout: silence is no fault here.
        self.replied(reply)

    async def _send_one(self) -> None:
        await self._connection.send_packed_command([await self._to_send.get()], check_health=False)

    def close(self) -> None:
        self.broken = rx.ConnectionError("this connection was closed")
        with contextlib.suppress(RuntimeError):
            for task in self._tasks:
                task.cancel()
        _disconnect(self._connection)


# ---- tasks -----------------------------------------------------------------------------------------------------------
# Await in a task of its own what may swallow a cancellation, or must not be cancelled in the middle.


T = TypeVar("T")

#: The name of a task that makes a connection.
CONNECTING_TASK = "pyredisson-connecting"

#: The longest sleep, in seconds, which ends by itself after that.
WITHOUT_END = 365 * 86_400.0


class TaskTicket:
    """A future that is made only when there is something to wait for. It remembers one notification.

    The event loop alone keeps that future, by a timer, and so the task that waits: else a client would keep the tasks
    of a loop that was closed, which keep the client.
    """

    __slots__ = ("_future", "_notified")

    def __init__(self) -> None:
        self._notified = False
        self._future: weakref.ref[asyncio.Future[None]] | None = None

    def notify(self) -> None:
        self._notified = True
        if self._future is not None and (future := self._future()) is not None:
            _wake(future)

    async def wait(self, seconds: float) -> bool:
        if not self._notified:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            self._future = weakref.ref(future)
            timer = loop.call_later(min(seconds, WITHOUT_END), _wake, future)
            try:
                await future
            finally:
                self._future = None
                timer.cancel()
        notified, self._notified = self._notified, False
        return notified


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done() and not future.get_loop().is_closed():  # Else no task runs there any more.
        future.set_result(None)


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


FORM = Form(redis.asyncio, PipeTransport, AsyncUserTransport, TaskTicket)
