"""Connections for an event loop: one of our own that all tasks share, or ones borrowed from the user's pool.

redis-py makes our connections (addresses, TLS, credentials, handshake). Afterwards requests of all tasks are written
together, and replies come in order: that is all the protocol there is on the hot path.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import redis.asyncio
import redis.exceptions as rx
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from pyredisson.core.runtime import Acknowledging, Ask, AskSynced, Failure, NotNow, NotSent, Reply, Unanswered
from pyredisson.errors import ClientClosedError
from pyredisson.net.bounded_sources import LIED, bound_handshake_async, bounded_exchange, unbounded
from pyredisson.net.link import CONNECTING, INFO, Inspect, Link, Stream, eval_each, nobody, place_of, wait_command
from pyredisson.net.resp import (
    ASKING,
    Packed,
    as_redis_error,
    failure_of,
    inspected,
    is_no_script,
    is_push,
    new_reader,
    pack,
    resent,
)
from pyredisson.net.sentinel import Whereabouts
from pyredisson.net.urls import kept_settings, own_settings
from pyredisson.shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson.net.bounds import Reader
    from pyredisson.net.sentinel import Address, Locator

__all__ = ["AsyncBorrowedLink", "AsyncOwnLink", "Beside", "fan_out", "link_to"]

T = TypeVar("T")

#: So many acquires wait for replicas at once, each on a connection of its own; of those, so many stay when it is over.
APART = 64
KEEP_IDLE = 8


class _Wire(asyncio.Protocol):
    """What our two kinds of connection have in common: bytes in, replies out, and a known end."""

    def __init__(self) -> None:
        self._reader: Reader = new_reader()
        self._transport: Any = None
        self._writer: Any = None
        self.broken: Exception | None = None

    def adopt(self, reader: Any, writer: Any) -> None:
        """Take over a connection from redis-py, and what it may have read too much of."""
        self._writer = writer  # Closes the transport when it is collected, so it lives as long as we do.
        self._transport = writer.transport
        self._transport.set_protocol(self)
        early = bytes(reader._buffer)
        if early:
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

    def replied(self, reply: Any) -> None:
        """A reply, or a message, came."""
        raise NotImplementedError

    def ended(self) -> None:
        """The connection is no more."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it now."""
        if self.broken is None:
            self.broken = rx.ConnectionError("this connection was closed")
            self.ended()
        transport = self._transport
        if transport is not None and not transport.is_closing():
            try:
                transport.abort()
            except RuntimeError:  # Its loop is closed, so nobody will see to its end.
                self.drop()

    def drop(self) -> None:
        """Close our descriptor without the loop's help, and without a word to the server."""
        transport = self._transport
        with contextlib.suppress(Exception):
            transport._closing = True  # Else it, and its writer, would want to close themselves on a loop gone by.
            sock, transport._sock = transport._sock, None
            socket.close(sock.detach())


class Outcome(Protocol):
    """Who gets what comes of a request: a future, as a rule."""

    def done(self) -> bool:
        """Whether it came, or nobody wants it any more."""
        ...

    def set_result(self, reply: Any, /) -> None:
        """The reply came, or the error that came as one."""
        ...

    def set_exception(self, failure: Failure, /) -> None:
        """No reply came."""
        ...


class Pipe(_Wire):
    """The connection that all tasks share. ``address``: where sentinels said that its server is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: Address | None = None) -> None:
        super().__init__()
        self._loop = loop
        self.address = address
        self._calls: deque[tuple[Outcome, float]] = deque()  # Each with the time by which it is due.
        self._out: list[bytes] = []
        self._unsent = 0
        self._timer: asyncio.TimerHandle | None = None
        self.retired = False

    def call(self, data: bytes, timeout: float) -> asyncio.Future[Any]:
        """Send a request; the future gets its reply, or the error that came as one, or a ``Failure``."""
        future = self._loop.create_future()
        if self.broken is not None:  # Since it was looked at: there were turns of the loop in between.
            future.set_exception(NotSent(self.broken))
            return future
        due = self._loop.time() + timeout
        self._calls.append((future, due))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)
        return future

    def post(self, data: bytes, timeout: float, outcome: Outcome) -> None:
        """Send a request that is one of several, by somebody who brings what its outcome is put into.

        Now, if nothing else is under way here: then there is nothing that it could leave together with.
        """
        if self.broken is not None:
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
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def _flush(self) -> None:
        # All that was asked for in this turn of the loop leaves by one system call.
        out, self._out = self._out, []
        if self.broken is None and out:
            self._transport.write(b"".join(out) if len(out) > 1 else out[0])

    def replied(self, reply: Any) -> None:
        if type(reply) is not int and reply is not None and is_push(reply):
            return
        outcome = self._calls.popleft()[0]
        if not outcome.done():
            outcome.set_result(reply)
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

    def usable(self) -> bool:
        """Whether it stands, and nothing is under way on it."""
        return self.broken is None and not self.retired and not self._calls

    def retire(self) -> None:
        """Take no more requests, and close when the ones under way are answered or given up."""
        self.retired = True
        if not self._calls:
            self.close()

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look_at_time)

    def _look_at_time(self) -> None:
        # Many requests, one timer: it goes off when the earliest of them may be late, and is set anew.
        self._timer = None
        now = self._loop.time()
        again = math.inf
        for outcome, due in self._calls:
            if outcome.done():
                continue
            if due <= now:
                # Its reply may still come, and belongs to nobody then. The rest had better go by another connection.
                self.retired = True
                outcome.set_exception(Unanswered(rx.TimeoutError("no reply from the server in time")))
            else:
                again = min(again, due)
        if again < math.inf:
            self._set_timer(again)
        elif self.retired:
            self.close()


class AsyncSocketStream(_Wire):
    """A stream for a subscriber."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._replies: list[Any] = []
        self._woken = False
        self._reading: asyncio.Future[None] | None = None

    def replied(self, reply: Any) -> None:
        self._replies.append(reply)
        self.wake()

    def ended(self) -> None:
        self.wake()

    def send(self, data: bytes) -> None:
        if self.broken is not None:
            raise self.broken
        self._transport.write(data)

    def wake(self) -> None:
        self._woken = True
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def read(self, timeout: float) -> list[Any] | None:
        if not self._woken and not self._replies and self.broken is None:
            self._reading = self._loop.create_future()
            timer = self._loop.call_later(timeout, self.wake) if timeout < math.inf else None
            try:
                await self._reading
            finally:
                self._reading = None
                if timer is not None:
                    timer.cancel()
        self._woken = False
        replies, self._replies = self._replies, []
        return None if self.broken is not None and not replies else replies


class Begun(Protocol):
    """A request under way."""

    async def take(self) -> Reply:
        """Its reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
        ...

    def drop(self) -> None:
        """Nobody wants its reply any more."""
        ...


class Gathering:
    """One that waits for several requests: it is woken once, when all of them have come to something.

    Attributes:
        left: How many have not.
        all_done: Done when none is left.
    """

    __slots__ = ("all_done", "left")

    def __init__(self, loop: asyncio.AbstractEventLoop, left: int) -> None:
        self.all_done: asyncio.Future[None] = loop.create_future()
        self.left = left


class Sent:
    """A request that was sent on the shared connection; an :class:`Outcome`.

    Attributes:
        link: Where it was sent.
        reply: What came, if ``failure`` is ``None``.
        failure: Why nothing came.
        gathering: Who waits for it and others.
    """

    __slots__ = ("_done", "_request", "_timeout", "failure", "gathering", "link", "reply")

    def __init__(self, link: AsyncOwnLink, request: Packed, timeout: float) -> None:
        self.link = link
        self._request = request
        self._timeout = timeout
        self._done = False
        self.reply: Any = None
        self.failure: Failure | None = None
        self.gathering: Gathering | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, reply: Any) -> None:
        self.reply = reply
        self._done = True
        gathering = self.gathering
        if gathering is not None:
            gathering.left -= 1
            if not gathering.left and not gathering.all_done.done():
                gathering.all_done.set_result(None)

    def set_exception(self, failure: Failure) -> None:
        self.failure = failure
        self.set_result(None)

    async def take(self) -> Reply:
        if not self._done:
            self.gathering = Gathering(self.link.loop, 1)
            await self.gathering.all_done
        link, reply = self.link, self.reply
        if self.failure is not None:
            link.away = link.away or isinstance(self.failure, Unanswered)
            raise self.failure
        link.away = False
        if isinstance(reply, Exception):
            return await link.answer(reply, self._request, self._timeout)
        return reply  # type: ignore[no-any-return]

    def drop(self) -> None:
        pass  # Its reply comes here, and nobody looks.


class Beside:
    """A request in a task of its own: its connection has to be made first, or is borrowed."""

    def __init__(self, work: Coroutine[Any, Any, Reply]) -> None:
        self._task = asyncio.ensure_future(work)

    async def take(self) -> Reply:
        await asyncio.wait({self._task})  # Not the task itself: it could swallow a cancellation, see _apart().
        return self._task.result()

    def drop(self) -> None:
        self._task.cancel()
        self._task.add_done_callback(_look_at)


class AsyncOwnLink:
    """A connection of our own, made from the settings of a client."""

    def __init__(self, connection_class: type[Any], settings: dict[str, Any], locator: Locator | None = None) -> None:
        self._class = connection_class
        self._locator = locator
        self._master = Whereabouts()
        self._settings = settings
        self.loop = asyncio.get_running_loop()
        self._pipe: Pipe | None = None
        self._connecting: asyncio.Task[Pipe] | None = None
        self._retired: list[Pipe] = []
        self._apart: list[Pipe] = []  # Idle at present.
        self._all_apart: set[Pipe] = set()
        self._opening: set[asyncio.Task[Pipe]] = set()
        self._watchdog: asyncio.Task[Any] | None = None
        self._closed = False
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody
        self.away = False  # It did not answer the last time; only for those who ask many servers at once.

    def begin(self, request: Packed, timeout: float) -> Begun:
        if self._locator is not None:
            return Beside(self.eval(request, timeout))  # Which master it is has to be looked up.
        pipe = self._pipe
        if pipe is None or pipe.broken is not None or pipe.retired:
            return Beside(self._when_connected(request, timeout))
        sent = Sent(self, request, timeout)
        pipe.post(request.data, timeout, sent)
        return sent

    async def _when_connected(self, request: Packed, timeout: float) -> Reply:
        try:
            pipe = await self._connected(timeout, at_once=self.away)
        except Failure:
            self.away = True
            raise
        sent = Sent(self, request, timeout)
        pipe.post(request.data, timeout, sent)
        return await sent.take()

    async def answer(self, error: Exception, request: Packed, timeout: float) -> Reply:
        """What to make of an error reply: a script that the server does not know is sent in full."""
        if not is_no_script(error):
            raise self._failure(error)
        return await self._call(request.in_full(), timeout)

    def _failure(self, error: Exception) -> Failure:
        return failure_of(error, found=self._locator is not None)

    async def eval(self, request: Packed, timeout: float) -> Reply:
        if self._locator is not None:
            await self._look_again(timeout)
        pipe = self._pipe
        if pipe is None or pipe.broken is not None or pipe.retired:
            pipe = await self._connected(timeout)
        try:
            reply = await pipe.call(request.data, timeout)
        except NotSent:  # The connection had been closed behind our back; another one may do.
            reply = await (await self._connected(timeout)).call(request.data, timeout)
        if isinstance(reply, Exception):
            if not self._demoted(reply):
                return await self.answer(reply, request, timeout)
            # It had no effect; the master is elsewhere now, and may not know the script.
            return await self._call(request.in_full(), timeout)
        return reply  # type: ignore[no-any-return]

    def _demoted(self, *replies: Any) -> bool:
        """Whether its server is the master no longer; then so it is for all connections to it."""
        if self._locator is None or not self._master.demoted(*replies):
            return False
        self._leave()
        return True

    async def eval_synced(
        self,
        request: Packed,
        timeout: float,
        sync: Acknowledging,
        sync_timeout: float,
        *,
        asking: bool = False,
    ) -> tuple[Reply, int | Failure]:
        await self._look_again(timeout)
        await self._connected(timeout)
        if not (asking or sync.needed()):
            return await self.eval(request, timeout), 0
        while True:
            pipe, pooled = await self._one_apart(timeout, sync_timeout)
            try:
                return await self._eval_on(pipe, request, timeout, sync, sync_timeout, asking=asking)
            except NotSent:
                if not pooled:
                    raise
            finally:
                self._put_back(pipe)

    async def _one_apart(self, timeout: float, sync_timeout: float) -> tuple[Pipe, bool]:
        """A connection that nobody else uses, and whether it is not new. ``WAIT`` holds up all that comes behind it."""
        until = self.loop.time() + timeout + sync_timeout
        pause = 0.001
        while True:
            while self._apart:
                pipe = self._apart.pop()
                if pipe.usable() and not self._master.was_at(pipe.address):
                    return pipe, True
                self._all_apart.discard(pipe)
                pipe.close()
            if self._closed:
                raise NotSent(ClientClosedError("this client was closed meanwhile"))
            if len(self._all_apart) + len(self._opening) < APART:
                break
            if self.loop.time() + pause > until:
                raise NotSent(rx.TimeoutError(f"{APART} requests wait for replicas already"))
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)
        opening = self.loop.create_task(self._open(max(timeout, CONNECTING)))
        self._opening.add(opening)
        try:
            await asyncio.wait({opening})
        except asyncio.CancelledError:
            opening.add_done_callback(self._opened_for_nobody)  # It serves the next one.
            raise
        self._opening.discard(opening)
        if opening.cancelled():  # By close(): nobody has cancelled us.
            raise NotSent(ClientClosedError("this client was closed meanwhile"))
        pipe = opening.result()
        self._all_apart.add(pipe)
        return pipe, False

    def _opened_for_nobody(self, task: asyncio.Task[Pipe]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._all_apart.add(task.result())
            self._put_back(task.result())

    async def _eval_on(
        self,
        pipe: Pipe,
        request: Packed,
        timeout: float,
        sync: Acknowledging,
        sync_timeout: float,
        *,
        asking: bool,
    ) -> tuple[Reply, int | Failure]:
        if asking:
            await pipe.call(ASKING, timeout)
        # In full: ASKING is about one request, and the answer could be that the script is not known.
        reply = await pipe.call(request.in_full() if asking else request.data, timeout)
        if is_no_script(reply):
            reply = await pipe.call(request.in_full(), timeout)
        if isinstance(reply, Exception):
            self._demoted(reply)
            raise self._failure(reply)
        replicas = sync.asked(reply)
        if not replicas:
            return reply, 0
        try:
            acked = await pipe.call(wait_command(replicas, sync_timeout), timeout + sync_timeout)
        except Failure as failure:
            return reply, Unanswered(failure.cause)
        return reply, failure_of(acked) if isinstance(acked, Exception) else acked

    def _put_back(self, pipe: Pipe) -> None:
        if pipe.usable() and len(self._apart) < KEEP_IDLE and not self._closed:
            self._apart.append(pipe)
        else:
            self._all_apart.discard(pipe)
            pipe.close()

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        over = monotonic() + timeout
        try:
            await self._look_again(timeout)
            pipe = await self._connected(timeout)
            replies = await _replies([pipe.call(request.data, timeout) for request in requests])
            if again := resent(requests, replies):
                left = max(0.001, over - monotonic())
                answers = await _replies([pipe.call(data, left) for data in again.values()])
                for index, reply in zip(again, answers, strict=True):
                    replies[index] = reply
        except Failure as failure:
            return [failure] * len(requests)
        self._demoted(*replies)
        return [
            reply if not isinstance(reply, Exception) or isinstance(reply, Failure) else self._failure(reply)
            for reply in replies
        ]

    async def call_asking(self, data: bytes, timeout: float) -> Reply:
        pipe = await self._connected(timeout)
        # Nothing can come in between: both are called for in one turn of the loop.
        _, reply = await _replies([pipe.call(ASKING, timeout), pipe.call(data, timeout)])
        if isinstance(reply, Exception):
            raise reply if isinstance(reply, Failure) else failure_of(reply)
        return reply  # type: ignore[no-any-return]

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        return await self._call(pack(*command), timeout)

    async def _call(self, data: bytes, timeout: float) -> Reply:
        await self._look_again(timeout)
        pipe = await self._connected(timeout)
        reply = await pipe.call(data, timeout)
        if isinstance(reply, Exception):
            self._demoted(reply)
            raise self._failure(reply)
        return reply  # type: ignore[no-any-return]

    async def _connected(self, timeout: float, *, at_once: bool = False) -> Pipe:
        pipe = self._pipe
        if pipe is not None and pipe.broken is None and not pipe.retired:
            return pipe
        if self._closed:
            raise NotSent(ClientClosedError("this client was closed meanwhile"))
        if self._connecting is None:
            self._connecting = self.loop.create_task(self._connect(max(timeout, CONNECTING)))
            self._connecting.add_done_callback(self._connect_done)
        # All who need it wait for the one attempt; whoever is cancelled does not take it from the others.
        connecting = self._connecting
        # The watchdog has deadlines to tell of, and who asks many has the others to think of; the rest have the time.
        if asyncio.current_task() is not self._watchdog and not at_once:
            timeout = max(timeout, CONNECTING)
        await asyncio.wait({connecting}, timeout=timeout)
        if not connecting.done():
            raise NotSent(rx.TimeoutError(f"no connection within {timeout:.3g} s"))
        if connecting.cancelled():  # By close(): nobody has cancelled us.
            raise NotSent(ClientClosedError("this client was closed meanwhile"))
        return connecting.result()

    async def _connect(self, timeout: float) -> Pipe:
        pipe = await self._open(timeout)
        if self._pipe is not None and self._pipe.broken is None:
            self._retired = [old for old in self._retired if old.broken is None]
            self._retired.append(self._pipe)
        self._pipe = pipe
        return pipe

    async def _open(self, timeout: float) -> Pipe:
        address, settings = await self._where(timeout)
        pipe = Pipe(self.loop, address)
        pipe.adopt(*await open_connection(self._class, settings, timeout))
        if self.inspect is not None:
            try:
                self.inspect(inspected(await pipe.call(INFO, timeout), found=self._locator is not None))
            except Unanswered as failure:
                pipe.close()
                raise NotSent(failure.cause) from None
            except NotNow:
                pipe.close()
                if self._locator is not None:
                    self._locator.doubt()
                raise
            except BaseException:
                pipe.close()
                raise
        if address is not None and self._master.was_at(address):  # Somebody has found the master elsewhere meanwhile.
            pipe.close()
            raise NotSent(rx.ConnectionError("the master was replaced while the connection was made"))
        return pipe

    def _connect_done(self, task: asyncio.Task[Pipe]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # Looked at, even if all who waited for it were cancelled.

    async def _where(self, timeout: float, *, to_hear: bool = False) -> tuple[Address | None, dict[str, Any]]:
        """Where the next connection leads, if that has to be looked up, and its settings."""
        if self._locator is None:
            return None, self._settings
        self._master.asked(monotonic())
        address = await self._locator.locate_async(timeout)
        if to_hear:
            self._master.hears_at(address)
        self._found(address)
        return address, {**self._settings, "host": address[0], "port": address[1]}

    def _found(self, address: Address) -> None:
        """That is where the master is."""
        if self._master.found(address):
            self._leave()
        if self._master.hears_elsewhere():
            self.on_change()

    async def _look_again(self, timeout: float) -> None:
        """Leave the master if it is another by now, as far as the sentinels tell."""
        if self._locator is None:
            return
        if self._master.doubtful(monotonic()):
            try:
                self._found(await _apart(self._locator.locate_async(min(timeout, CONNECTING))))
            except NotSent:
                self._master.nobody_knew(monotonic())
        if self._pipe is not None and self._master.was_at(self._pipe.address):
            self._pipe.retire()  # It was being made while the master changed.

    async def follow(self) -> bool:
        await self._look_again(CONNECTING)
        return self._locator is not None

    def _leave(self) -> None:
        for pipe in (self._pipe, *self._all_apart):
            if pipe is not None:
                pipe.retire()

    async def stream(self, timeout: float) -> Stream:
        return await _apart(self._stream(timeout), _close)

    async def _stream(self, timeout: float) -> Stream:
        stream = AsyncSocketStream(self.loop)
        _, settings = await self._where(timeout, to_hear=True)
        stream.adopt(*await open_connection(self._class, settings, timeout))
        return stream

    def reserve(self) -> None:
        self._watchdog = asyncio.current_task()

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            with contextlib.suppress(RuntimeError):
                self._connecting.cancel()
        for opening in self._opening:
            with contextlib.suppress(RuntimeError):
                opening.cancel()
        for pipe in (self._pipe, *self._retired, *self._all_apart):
            if pipe is not None:
                pipe.close()

    def abandon(self) -> None:
        # Its loop is not ours, and may even be the parent's of a fork: close the descriptors and nothing else.
        for pipe in (self._pipe, *self._retired, *self._all_apart):
            if pipe is not None:
                pipe.drop()


async def _replies(futures: list[asyncio.Future[Any]]) -> list[Any]:
    """Wait for all of them; what one raises stands in its place."""
    return await asyncio.gather(*futures, return_exceptions=True)


async def open_connection(connection_class: type[Any], settings: dict[str, Any], timeout: float) -> tuple[Any, Any]:
    """Let redis-py connect and introduce itself, and take the streams.

    Raises:
        NotSent: No connection could be made.
        Rejected: The server did not let us in.
    """
    connection = bound_handshake_async(connection_class(**own_settings(settings, timeout), retry=Retry(NoBackoff(), 0)))
    try:
        await connection.connect()
    except rx.AuthenticationError as error:
        raise failure_of(error) from None
    except (rx.RedisError, OSError) as error:
        raise NotSent(as_redis_error(error)) from None
    reader, writer = unbounded(connection._reader), connection._writer
    connection._reader = connection._writer = None  # Else they would be closed with the object.
    return reader, writer


class AsyncBorrowedLink:
    """Connections of the user's pool, one a request, for those that we cannot open ourselves.

    The watchdog and the subscriber have connections of their own, as under threads.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._reserved: Any = None
        self._reserved_turn = asyncio.Lock()
        self._reserved_for: asyncio.Task[Any] | None = None
        self._heard_at: object = None  # Where the subscriber is.
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody
        # The streams whose server was asked who it is: the pool makes a new one whenever it likes.
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    async def eval(self, request: Packed, timeout: float) -> Reply:
        reply = await self._call(request.data, timeout)
        if is_no_script(reply):
            reply = await self._call(request.in_full(), timeout)
        if isinstance(reply, Exception):
            raise failure_of(reply)
        return reply  # type: ignore[no-any-return]

    async def eval_synced(
        self, request: Packed, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        return await _apart(self._eval_synced(request, timeout, sync, sync_timeout))

    async def _eval_synced(
        self, request: Packed, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        connection = await self._borrow(timeout)
        try:
            reply = await self._exchange(connection, request.data, timeout)
            if is_no_script(reply):
                reply = await self._exchange(connection, request.in_full(), timeout)
            if isinstance(reply, Exception):
                raise failure_of(reply)
            replicas = sync.asked(reply)
            if not replicas:
                return reply, 0
            try:
                acked = await self._exchange(connection, wait_command(replicas, sync_timeout), timeout + sync_timeout)
            except Failure as failure:
                return reply, Unanswered(failure.cause)
            return reply, failure_of(acked) if isinstance(acked, Exception) else acked
        finally:
            await self._pool.release(connection)

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        return await eval_each(self.eval, requests, timeout)

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        reply = await self._call(pack(*command), timeout)
        if isinstance(reply, Exception):
            raise failure_of(reply)
        return reply  # type: ignore[no-any-return]

    def begin(self, request: Packed, timeout: float) -> Begun:
        return Beside(self._in_time(request, timeout))

    async def _in_time(self, request: Packed, timeout: float) -> Reply:
        # It may have to connect, for which there is no time of its own here.
        try:
            return await asyncio.wait_for(self.eval(request, timeout), max(timeout, CONNECTING))
        except asyncio.TimeoutError:
            raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")) from None

    async def _call(self, data: bytes, timeout: float) -> Any:
        if self._reserved_for is asyncio.current_task():
            return await _apart(self._call_reserved(data, timeout))
        return await _apart(self._call_borrowed(data, timeout))

    async def _call_reserved(self, data: bytes, timeout: float) -> Any:
        async with self._reserved_turn:
            until = monotonic() + max(timeout, CONNECTING)
            if self._reserved is None:
                self._reserved = await _in_time(self._make(), max(timeout, CONNECTING), _disconnect)
            return await self._exchange(self._reserved, data, _left(until, timeout))

    async def _call_borrowed(self, data: bytes, timeout: float) -> Any:
        until = monotonic() + max(timeout, CONNECTING)
        connection = await self._borrow(timeout)
        try:
            return await self._exchange(connection, data, _left(until, timeout))
        finally:
            await self._pool.release(connection)

    async def _borrow(self, timeout: float) -> Any:
        until = monotonic() + timeout
        pause = 0.001
        while True:
            try:
                return await _in_time(self._pool.get_connection(), max(timeout, CONNECTING), self._give_back)
            except rx.MaxConnectionsError as error:
                if monotonic() + pause > until:
                    raise NotSent(error) from None
            except (rx.RedisError, OSError, *LIED) as error:
                raise NotSent(as_redis_error(error)) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _give_back(self, connection: Any) -> None:
        _spawn(self._pool.release(connection))

    async def _exchange(self, connection: Any, data: bytes, timeout: float) -> Any:
        if self.inspect is not None and (way := getattr(connection, "_reader", None) or connection) not in self._known:
            try:
                self.inspect(inspected(await self._exchange_once(connection, INFO, timeout)))
            except Unanswered as failure:
                raise NotSent(failure.cause) from None
            self._known.add(way)
            if self._heard_at not in (None, place_of(connection)):  # A pool that sentinels lead has found another.
                self._heard_at = None
                self.on_change()
        return await self._exchange_once(connection, data, timeout)

    async def _exchange_once(self, connection: Any, data: bytes, timeout: float) -> Any:
        try:
            await connection.send_packed_command([data], check_health=False)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            with bounded_exchange(connection):
                return await asyncio.wait_for(connection.read_response(disable_decoding=True), timeout)
        except rx.ResponseError as reply:
            return reply
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, asyncio.TimeoutError):
                raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")) from None
            if isinstance(error, (rx.RedisError, OSError)):
                raise Unanswered(as_redis_error(error)) from None
            raise

    async def _make(self) -> Any:
        """A connection outside the pool, of the pool's kind."""
        try:
            settings = {key: value for key, value in self._pool.connection_kwargs.items() if key != "retry"}
            connection = bound_handshake_async(self._pool.connection_class(**settings))
            try:
                await connection.connect()
            except asyncio.CancelledError:
                await connection.disconnect(nowait=True)
                raise
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        return connection

    async def stream(self, timeout: float) -> Stream:
        connection = await _apart(self._make(), _disconnect)
        self._heard_at = place_of(connection)
        return AsyncBorrowedStream(connection)

    async def follow(self) -> bool:
        return False  # Who leads the user's pool is asked when it connects.

    def reserve(self) -> None:
        self._reserved_for = asyncio.current_task()

    def close(self) -> None:
        reserved, self._reserved = self._reserved, None
        if reserved is not None:
            _disconnect(reserved)

    def abandon(self) -> None:
        self._reserved = None


class AsyncBorrowedStream:
    """A stream on a connection of the user's kind."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._out: deque[bytes] = deque()
        self._in: deque[Any] = deque()
        self._changed = asyncio.Event()
        self._to_send = asyncio.Event()
        self._ended = False
        self._tasks = [self._loop.create_task(self._pump_in()), self._loop.create_task(self._pump_out())]

    def send(self, data: bytes) -> None:
        self._out.append(data)
        self._to_send.set()

    def wake(self) -> None:
        self._changed.set()

    async def read(self, timeout: float) -> list[Any] | None:
        if not self._changed.is_set():
            changed = self._loop.create_task(self._changed.wait())
            try:
                await asyncio.wait({changed}, timeout=None if timeout == math.inf else timeout)
            finally:
                changed.cancel()
        self._changed.clear()
        replies = list(self._in)
        self._in.clear()
        return None if self._ended and not replies else replies

    async def _pump_in(self) -> None:
        try:
            while True:
                try:
                    self._in.append(
                        await self._connection.read_response(
                            disable_decoding=True, disconnect_on_error=False, push_request=True
                        )
                    )
                except rx.ResponseError as error:
                    self._in.append(error)
                except rx.TimeoutError:
                    continue  # The user's socket_timeout: silence is no fault here.
                self._changed.set()
        except (rx.RedisError, OSError):
            self._ended = True
            self._changed.set()

    async def _pump_out(self) -> None:
        try:
            while not self._ended:
                await self._to_send.wait()
                self._to_send.clear()
                while self._out:
                    await self._connection.send_packed_command([self._out.popleft()], check_health=False)
        except (rx.RedisError, OSError):
            self._ended = True
            self._changed.set()

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(RuntimeError):
            self._to_send.set()  # What redis-py awaits may swallow a cancellation; see _apart().
            for task in self._tasks:
                task.cancel()
        _disconnect(self._connection)


async def _apart(work: Coroutine[Any, Any, T], unwanted: Callable[[T], object] | None = None) -> T:
    """Await ``work`` in a task of its own, so that it cannot swallow a cancellation.

    redis-py sends through ``asyncio.wait_for``, and before Python 3.12 that drops one which comes with the result.
    ``unwanted`` is given a result that nobody waits for any more.
    """
    task = asyncio.ensure_future(work)

    def over(_: asyncio.Future[T]) -> None:
        if not task.cancelled() and task.exception() is None and unwanted is not None:
            unwanted(task.result())

    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(over)
        raise
    return task.result()


async def _in_time(work: Coroutine[Any, Any, T], timeout: float, unwanted: Callable[[T], object]) -> T:
    """Await ``work`` for so long. It goes on by itself, and a late result is ``unwanted``.

    It is not cancelled: redis-py would give a connection back to its pool in the middle of the handshake.

    Raises:
        NotSent: It was not over in time.
    """
    task = asyncio.ensure_future(work)

    def over(_: asyncio.Future[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            unwanted(task.result())

    def leave() -> None:
        _leaving.add(task)  # Else nobody would keep it until its end.
        task.add_done_callback(_leaving.discard)
        task.add_done_callback(over)

    try:
        await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        leave()
        raise
    if task.done():
        return task.result()
    leave()
    raise NotSent(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))


def _left(until: float, timeout: float) -> float:
    """What is left for a reply; some of it in any case, lest a request be sent for nothing."""
    return min(timeout, max(until - monotonic(), timeout / 4))


def _close(stream: Stream) -> None:
    stream.close()


def _look_at(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()  # Nobody waits for it any more, and nobody shall complain of that.


_leaving: set[asyncio.Future[Any]] = set()


def _disconnect(connection: Any) -> None:
    _spawn(connection.disconnect(nowait=True))


def _spawn(work: Coroutine[Any, Any, Any]) -> None:
    try:
        task = asyncio.get_running_loop().create_task(work)
    except RuntimeError:
        work.close()
        return  # No loop runs any more: the connection goes with it.
    _leaving.add(task)
    task.add_done_callback(_leaving.discard)


def link_to(client: redis.asyncio.Redis, locator: Locator | None = None) -> Callable[[], Link]:
    """The way to the server of a client that the user made, or that we made for a URL; to be made in each loop.

    ``locator`` tells where that is each time; then host and port of the client mean nothing.
    """
    pool: Any = client.connection_pool
    ours = (redis.asyncio.Connection, redis.asyncio.UnixDomainSocketConnection, redis.asyncio.SSLConnection)
    if type(pool) is redis.asyncio.ConnectionPool and pool.connection_class in ours:
        kind, settings = pool.connection_class, kept_settings(pool.connection_kwargs)
        return lambda: AsyncOwnLink(kind, settings, locator)  # Which keeps nothing of the pool.
    return lambda: AsyncBorrowedLink(pool)


def _usual(sent: Sequence[Sent]) -> list[Reply | Failure] | None:
    """The reply of each, if there is nothing to do but to take them."""
    replies: list[Reply | Failure] = []
    for one in sent:
        if one.failure is not None or isinstance(one.reply, Exception):
            return None
        one.link.away = False
        replies.append(one.reply)
    return replies


async def _eval_synced(link: Link, ask: AskSynced) -> Any:
    within = ask.timeout + ask.sync_timeout
    try:
        return await asyncio.wait_for(
            link.eval_synced(ask.request, ask.timeout, ask.sync, ask.sync_timeout), max(within, CONNECTING)
        )
    except asyncio.TimeoutError:
        raise Unanswered(rx.TimeoutError(f"no reply from the server within {within:.3g} s")) from None


async def fan_out(asks: Iterable[Ask]) -> list[Reply | Failure]:
    """See ``Runtime.fan_out``: send everything, then take the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    begun: list[Begun] = []
    answers: list[Reply | Failure] = []
    sent: list[Sent] = []
    try:
        for ask in asks:
            link: Link = ask.runtime.link  # type: ignore[attr-defined]
            if type(ask) is AskSynced:
                begun.append(Beside(_eval_synced(link, ask)))
                continue
            each = link.begin(ask.request, ask.timeout)
            begun.append(each)
            if type(each) is Sent:
                sent.append(each)
        if len(sent) > 1:
            # None of them is done: there was no turn of the loop since.
            gathering = Gathering(sent[0].link.loop, len(sent))
            for one in sent:
                one.gathering = gathering
            await gathering.all_done
            if len(sent) == len(begun) and (replies := _usual(sent)) is not None:
                return replies
        for each in begun:
            try:
                answers.append(await each.take())
            except Failure as failure:
                answers.append(failure)
    except BaseException:
        for each in begun[len(answers) :]:
            each.drop()
        raise
    return answers
