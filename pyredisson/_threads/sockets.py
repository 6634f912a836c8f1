"""Blocking sockets: redis-py makes the connections, and what is sent on them afterwards goes straight to the socket.

That is the hot path of everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson._core.failures import Connecting, Failure, NotSent, Unanswered
from pyredisson._core.runtime import Reply, Request, ServerRequest, run
from pyredisson._net.link import CONNECTING, FRESH, KEEP_IDLE, Pool, ServerLink, Stream, Transport
from pyredisson._net.urls import REFUSED, Form, Link, UserTransport, UserWire, own_settings, place_of
from pyredisson._net.wire import Address, Dial, as_reply, is_push, new_reader, no_reply, not_opened
from pyredisson._shared.process import monotonic
from pyredisson._threads.background import BackgroundThread, Flag, ThreadTicket, end_inherited_thread

if TYPE_CHECKING:
    from hiredis import Reader

    from pyredisson._core.client import ClientCore


READ_SIZE = 65536

#: What is read first: nearly all replies are a few bytes, and the room for a large one would cost more than the rest.
FIRST_READ = 256

#: Whether the kernel's own timeouts are set, which cost a system call less than Python's. Windows has others.
KERNEL_TIMEOUTS = hasattr(socket, "MSG_DONTWAIT") and hasattr(socket, "SO_RCVTIMEO")

#: C's ``send()``, which keeps Python's lock: with very many threads, to get it back may take longer than to send.
_send: Any = None
if KERNEL_TIMEOUTS:
    _send = ctypes.PyDLL(None).send
    _send.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
    _send.restype = ctypes.c_ssize_t

_WOULD_BLOCK = (BlockingIOError, TimeoutError, InterruptedError)


class Connection:
    """A connection that carries one request at a time. The arguments are its attributes.

    Attributes:
        sockets: All of its link.
        sock: The socket.
        used: When a request was answered on it last.
        address: Where the server is, if sentinels named it.
        until: When the time of what was posted ends.
    """

    __slots__ = ("_plain", "_reader", "_timeout", "address", "sock", "sockets", "until", "used")

    until: float

    def __init__(self, sockets: Sockets, sock: socket.socket, used: float, address: Address | None = None) -> None:
        self.sockets: Sockets = sockets
        self.sock: socket.socket = sock
        self.used: float = used
        self.address: Address | None = address
        self._reader: Reader | None = None
        self._timeout: float | None = None
        # TLS needs Python's own timeouts, and so do greenlets, whose socket class stands in place of Python's.
        self._plain = KERNEL_TIMEOUTS and type(sock).__module__ == "socket"
        if self._plain:
            sock.settimeout(None)

    def set_timeout(self, seconds: float) -> None:
        """Wait at most so long for the server, in each direction."""
        self._timeout = seconds
        seconds = max(seconds, 0.001)
        if self._plain:
            value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
        else:
            self.sock.settimeout(seconds)

    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`pyredisson._net.wire.Wire.call`."""
        return self.exchange(data, timeout)

    def post(self, data: bytes, timeout: float) -> None:
        """Send a request whose reply is received later. Raises ``OSError``: it did not leave in full."""
        if timeout != self._timeout:
            self.set_timeout(timeout)
        self.until = monotonic() + timeout
        self.sock.sendall(data)

    def receive_late(self, count: int, left: float, timeout: float) -> list[Any]:
        """Receive the replies to requests that were sent; of the timeout that was set only so much is left."""
        if self._plain:
            if not Readiness(self.sock).wait(left):
                raise Unanswered(no_reply(timeout))
        else:
            self.set_timeout(left)
        return self._read(count, timeout)

    def exchange(self, data: bytes | None, timeout: float) -> Any:
        """Send a request and return the reply, or the error that was one. ``None``: it was sent already.

        Without a reply the connection is closed: what comes on it later would be taken for the next one.

        Raises:
            NotSent, Unanswered: See :meth:`pyredisson._net.wire.Wire.call`.
        """
        try:
            if data is not None:
                if timeout != self._timeout:
                    self.set_timeout(timeout)
                try:
                    crowded = self._plain and self.sockets.crowded
                    sent = _send(self.sock.fileno(), data, len(data), socket.MSG_DONTWAIT) if crowded else 0
                    if sent != len(data):  # There was no room for all of it, or an error: this waits, or says which.
                        self.sock.sendall(data[max(sent, 0) :])
                except OSError as error:
                    raise_if_foreign(error, self.sock)
                    # The request did not leave in full: an incomplete one is never executed.
                    raise NotSent(rx.ConnectionError(f"Error while writing to socket: {error}")) from None
            try:
                chunk = self.sock.recv(FIRST_READ)
            except OSError as error:
                raise self._unanswered(error, timeout) from None
            # The replies of nearly every acquire and release.
            if chunk in (b"_\r\n", b"$-1\r\n"):
                return None
            if chunk == b":1\r\n":
                return 1
            return self._read(1, timeout, chunk)[0]
        except BaseException:
            self.close()
            raise

    def _read(self, count: int, timeout: float, chunk: bytes | None = None) -> list[Any]:
        """Return this number of replies; ``chunk`` is what was received of them."""
        if self._reader is None:
            self._reader = new_reader()
        until = monotonic() + timeout
        replies: list[Any] = []
        while len(replies) < count:
            try:
                if chunk is None:
                    if monotonic() > until:  # The socket's own timeout begins anew with every byte.
                        raise TimeoutError
                    chunk = self.sock.recv(READ_SIZE)
                if not chunk:
                    raise Unanswered(rx.ConnectionError("Connection closed by server."))
                self._reader.feed(chunk)
                while (reply := self._reader.gets()) is not False:
                    if type(reply) is list or not is_push(reply):
                        replies.append(reply)
                chunk = None
            except rx.InvalidResponse as error:
                raise Unanswered(rx.ConnectionError(f"Protocol error: {error}")) from None
            except OSError as error:
                raise self._unanswered(error, timeout) from None
        return replies

    def _unanswered(self, error: OSError, timeout: float) -> Unanswered:
        """Return what it means that a socket could not be read. What a signal handler has raised is raised again."""
        raise_if_foreign(error, self.sock)
        if isinstance(error, _WOULD_BLOCK):
            return Unanswered(no_reply(timeout))
        return Unanswered(rx.ConnectionError(f"Error while reading from socket: {error}"))

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`pyredisson._net.wire.Wire.call_many`. Some may have been executed if one did not leave."""
        if timeout != self._timeout:
            self.set_timeout(timeout)
        try:
            self.sock.sendall(b"".join(requests))
        except OSError as error:
            raise_if_foreign(error, self.sock)
            raise Unanswered(rx.ConnectionError(f"Error while writing to socket: {error}")) from None
        return self._read(len(requests), timeout)

    def usable(self) -> bool:
        """Whether an idle connection still stands, and nothing was received on it unasked."""
        if not self._plain:
            # Over TLS there may be something to read that is no reply.
            return hasattr(self.sock, "pending") or not Readiness(self.sock).wait(0)
        try:
            self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError as error:
            raise_if_foreign(error, self.sock)
            return isinstance(error, _WOULD_BLOCK)
        return False

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            self.sock.close()

    retire = close

    def abandon(self) -> None:
        """See :meth:`pyredisson._net.wire.Wire.abandon`."""
        close_inherited(self.sock)


class SocketStream:
    """A stream on a socket of our own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = new_reader()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._readiness = Readiness(sock, self._wake_read)
        sock.settimeout(1.0)  # Only for a moment in which the kernel's buffer is full, or a TLS record incomplete.

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    async def read(self, timeout: float) -> list[Any] | None:
        pending = getattr(self._sock, "pending", None)
        if not (pending and pending()):
            ready = self._readiness.wait(timeout)
            if self._wake_read in ready:
                with contextlib.suppress(OSError):
                    self._wake_read.recv(READ_SIZE)
            if self._sock not in ready:
                return []
        try:
            chunk = self._sock.recv(READ_SIZE)
            if not chunk:
                return None
            self._reader.feed(chunk)
            return _all(self._reader)
        except _WOULD_BLOCK:
            return []
        except (OSError, rx.InvalidResponse):
            return None

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_write.send(b".")

    def close(self) -> None:
        for sock in (self._sock, self._wake_read, self._wake_write):
            with contextlib.suppress(OSError):
                sock.close()


def _all(reader: Reader) -> list[Any]:
    found: list[Any] = []
    while (reply := reader.gets()) is not False:
        found.append(reply)
    return found


# ---- opening ---------------------------------------------------------------------------------------------------------
# Open sockets, and let go of those that the child of a fork has inherited.
#
# Nothing is sent on these: the connections are the parent's. Threads of the parent are not in the child, but greenlets
# go on there: one that waits for a reply would take it from the parent, and one that is connecting would talk into the
# parent's handshake.


#: With more connections than this, threads get in each other's way if they let go of Python's lock to send.
MANY = 48


class Sockets:
    """Opens the sockets of one link, and knows those that are open or about to be.

    Attributes:
        crowded: Whether there are very many.
    """

    crowded: bool = False

    def __init__(self) -> None:
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._opening: set[Any] = set()

    def open(self, connection_class: type[Any], settings: dict[str, Any], timeout: float) -> socket.socket:
        """Let redis-py connect and introduce itself, and take the socket.

        Raises:
            NotSent, Rejected: No connection could be made; see :func:`pyredisson._net.wire.not_opened`.
        """
        connection = connection_class(**own_settings(settings, timeout), retry=Retry(NoBackoff(), 0))
        opening = self._opening
        greet = connection.redis_connect_func or _greet
        connection.redis_connect_func = _unless(lambda: self._opening is not opening, greet)
        opening.add(connection)
        try:
            connection.connect()
            sock: socket.socket | None = connection._sock
            connection._sock = None  # Else it would be closed with the object.
            connection.disconnect()
        except (rx.RedisError, OSError) as error:
            raise not_opened(error) from None
        except Exception:  # Of the user's: redis-py leaves the socket open then.
            connection.disconnect()
            raise
        finally:
            opening.discard(connection)
        if sock is None:
            raise NotSent(rx.ConnectionError("the connection was closed while it was made"))
        if self._opening is not opening:
            close_inherited(sock)
            raise NotSent(rx.ConnectionError(_FORKED))
        self._open.add(sock)
        self.crowded = len(self._open) > MANY
        return sock

    def abandon(self) -> None:
        """This is the child of a fork: end all that are still used here, or being made."""
        used, self._open = list(self._open), weakref.WeakSet()
        opening, self._opening = list(self._opening), set()
        end_inherited([*used, *[connection._sock for connection in opening]])


_FORKED = "this process is the child of a fork, and the connection is its parent's"


def _greet(connection: Any) -> None:
    """Do what redis-py does on a new connection."""
    getattr(connection, "on_connect_check_health", connection.on_connect)()


def _unless(forked: Callable[[], bool], greet: Callable[[Any], object]) -> Callable[[Any], None]:
    """Return what says the first words on a new connection, but not where it is the parent's."""

    def connected(connection: Any) -> None:
        if forked():
            raise rx.ConnectionError(_FORKED)
        greet(connection)

    return connected


def close_inherited(sock: socket.socket) -> None:
    """Close this process's descriptor of a socket that is not used here. A farewell over TLS would reach the server."""
    with contextlib.suppress(OSError):
        socket.close(sock.detach())


def end_inherited(socks: Iterable[socket.socket | None]) -> None:
    """Let threads that still use these sockets here find them at their end, without a word to the server.

    A descriptor that a greenlet waits for must not be closed under it, since the number could be used for something
    else: another file is put in its place, one that can be read at once and at whose end it is.
    """
    descriptors = [sock.fileno() for sock in socks if sock is not None]
    if not any(descriptor >= 0 for descriptor in descriptors):
        return
    end, other = os.pipe()
    os.close(other)
    try:
        for descriptor in descriptors:
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.dup2(end, descriptor, inheritable=False)
    finally:
        os.close(end)


# ---- socket errors ---------------------------------------------------------------------------------------------------
# Distinguishes what a socket raised from what a signal handler raised while it was used.


def raise_if_foreign(error: OSError, sock: socket.socket) -> None:
    """Raise the error again unless the socket raised it.

    A handler's ``TimeoutError`` is an ``OSError``, too, and may come when all has been sent. Taken for the socket's it
    would say that the request was not executed; and a caller that has to learn of it never would.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # A socket written in C has no frame; those of `ssl`, gevent and eventlet have frames of their packages.
    raised_in = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    if raised_in.partition(".")[0] not in (__name__.partition(".")[0], type(sock).__module__.partition(".")[0]):
        raise error


# ---- readiness -------------------------------------------------------------------------------------------------------
# Wait until sockets can be read, with whatever this process has for that.


class Readiness:
    """Finds out which of some sockets can be read.

    Args:
        socks: The sockets.
    """

    def __init__(self, *socks: socket.socket) -> None:
        self._socks = socks
        # eventlet removes poll(). Its select() has no limit on descriptors, unlike the one of the C library.
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            for sock in socks:
                self._poll.register(sock, select.POLLIN)

    def wait(self, seconds: float) -> list[socket.socket]:
        """Wait at most ``seconds`` (may be infinite), and return the sockets that can be read or have ended."""
        if self._poll is not None:
            ready = {
                fd for fd, _ in self._poll.poll(None if seconds == math.inf else max(0, math.ceil(seconds * 1000)))
            }
            return [sock for sock in self._socks if sock.fileno() in ready]
        return select.select(self._socks, (), (), None if seconds == math.inf else max(0.0, seconds))[0]


# ---- dialling --------------------------------------------------------------------------------------------------------
# Connect in a thread of its own, so that a caller can go on before that has ended.


class ThreadDial:
    """Work in a thread of its own: making a connection, as a rule; see :class:`pyredisson._net.wire.Dial`."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], name: str = "pyredisson-connecting") -> None:
        self.began: float = monotonic()
        self.failure: BaseException | None = None
        self._work = work
        self._done = Flag()
        try:
            BackgroundThread(self._run, name).start()
        except RuntimeError:  # There can be no more threads; the interpreter is about to end, maybe.
            self._run()

    def _run(self) -> None:
        try:
            run(self._work())
        except BaseException as error:
            self.failure = error
        self._done.set()
        end_inherited_thread()

    def done(self) -> bool:
        return self._done.is_set()

    async def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)


def in_time(call: Callable[[], Any], timeout: float, unwanted: Callable[[Any], object]) -> Any:
    """Make a call that may take as long as it likes, and wait for it only so long; a late result is ``unwanted``.

    Raises:
        Connecting: It is not over yet.
    """
    results: list[Any] = []
    turn: list[None] = [None]  # Popped once: by the caller that waits no longer, or by the call that has returned.

    async def work() -> None:
        results.append(call())
        if not _is_first(turn):  # No caller waits any more.
            unwanted(results[0])

    dial = ThreadDial(work)
    try:
        over = run(dial.wait(timeout))
    except BaseException:
        if not _is_first(turn):
            unwanted(results[0])
        raise
    if not over and _is_first(turn):
        raise Connecting(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))
    run(dial.wait(1.0))
    if dial.failure is not None:
        raise dial.failure
    return results[0]


def _is_first(turn: list[None]) -> bool:
    try:
        turn.pop()
    except IndexError:
        return False
    return True


# ---- fan out ---------------------------------------------------------------------------------------------------------
# Requests to several servers at once, under threads: all are sent, then all replies are received.


RequestT = TypeVar("RequestT", bound=ServerRequest)


class Dialled:
    """Requests to one server for which a connection has to be made first."""

    def __init__(self, link: ServerLink, pool: Pool, requests: Sequence[ServerRequest]) -> None:
        self._link = link
        self._pool = pool
        self._requests = requests
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        timeout = requests[0].timeout
        self._until = monotonic() + (timeout if link.away else max(timeout, CONNECTING))
        self._dial: Dial = pool.dial()

    def receive(self) -> Sequence[Reply | Failure]:
        """Return the replies. Raises as ``Runtime.eval`` does, at their timeout at the latest."""
        dial = self._dial
        over = run(dial.wait(max(0.0, self._until - monotonic())))
        if not over:
            self._pool.leave_dial(dial)
            self._link.away = True
            raise NotSent(rx.TimeoutError("no connection in time; it is still being made"))
        if dial.failure is not None:
            self._link.away = True
            raise dial.failure if isinstance(dial.failure, Failure) else NotSent(rx.ConnectionError(str(dial.failure)))
        for request in self._requests:
            request.connected()
        begun = _begin(self._requests)
        if isinstance(begun, Failure):
            raise begun
        if isinstance(begun, Connection):
            return _receive(self._requests, begun)
        begun.close()  # Another caller was quicker, and the next one is being made.
        raise NotSent(rx.ConnectionError("the connection was used for something else"))

    def close(self) -> None:
        """Forget it: its reply is not of interest any more."""
        self._pool.leave_dial(self._dial)  # The connection stays, for the next one.


class InThread:
    """Requests in a thread of their own, over a link that only blocks; replicas are waited for there, too."""

    def __init__(self, link: Link, requests: Sequence[ServerRequest]) -> None:
        timeout, replica_wait = requests[0].timeout, requests[0].replica_wait
        self._timeout = timeout if replica_wait is None else 2 * timeout
        self._until = monotonic() + max(self._timeout, CONNECTING)
        self._answers: list[Any] = []
        self._link = link
        self._requests = requests
        self._dial = ThreadDial(self._work, "pyredisson-request")

    async def _work(self) -> None:
        link: Any = self._link
        request, timeout = self._requests[0], self._requests[0].timeout
        if request.replica_wait is not None:
            self._answers.append(await link.eval_synced(request.prepared, timeout, request.replica_wait, timeout))
        elif len(self._requests) == 1:
            self._answers.append(await link.eval(request.prepared, timeout))
        else:
            self._answers = await link.eval_all([each.prepared for each in self._requests], timeout)

    def receive(self) -> Sequence[Reply | Failure]:
        """See :meth:`Dialled.receive`."""
        if not run(self._dial.wait(max(0.0, self._until - monotonic()))):
            raise Unanswered(no_reply(self._timeout))
        failure = self._dial.failure
        if isinstance(failure, Exception) and not isinstance(failure, Failure):
            raise Unanswered(failure)
        if failure is not None:
            raise failure
        return self._answers

    def close(self) -> None:
        """Do nothing: its thread ends by itself."""


def _begin(requests: Sequence[ServerRequest]) -> Connection | Dialled | InThread | Failure:
    """Send requests to one server now, or begin to connect for them; or say why that cannot be."""
    request = requests[0]
    link: Link = request.runtime.link  # type: ignore[attr-defined]
    if not isinstance(link, ServerLink) or link.pool is None or request.replica_wait is not None:
        return InThread(link, requests)
    first: Any = request.prepared
    data = first.data if len(requests) == 1 else b"".join([each.prepared.data for each in requests])
    while True:
        wire: Any = link.pool.get()
        if wire is None:
            try:
                return Dialled(link, link.pool, requests)
            except Failure as failure:  # Its client was closed.
                return failure
        try:
            wire.post(data, request.timeout)
        except OSError as error:
            wire.close()
            raise_if_foreign(error, wire.sock)
            if len(requests) > 1:  # Some may have left in full.
                return Unanswered(rx.ConnectionError(f"Error while writing to socket: {error}"))
            continue
        except BaseException:
            wire.close()
            raise
        return wire  # type: ignore[no-any-return]


def _receive(requests: Sequence[ServerRequest], wire: Connection) -> Sequence[Reply | Failure]:
    """Return the replies to requests that were sent on this connection."""
    link: Any = requests[0].runtime.link  # type: ignore[attr-defined]
    timeout, left, count = requests[0].timeout, wire.until - monotonic(), len(requests)
    replies: list[Any]
    try:
        # The socket's own timeout begins only now. For those that are taken while it has hardly run, that will do.
        late = count > 1 or left <= 0.9 * timeout
        replies = wire.receive_late(count, left, timeout) if late else [wire.exchange(None, timeout)]
    except BaseException as error:
        wire.close()
        link.away = link.away or isinstance(error, Unanswered)
        raise
    link.away = False
    link.pool.put_back(wire)
    for index, reply in enumerate(replies):
        if isinstance(reply, Exception):
            try:
                replies[index] = run(link.answer(reply, requests[index].prepared, timeout))
            except Failure as failure:
                replies[index] = failure
    return replies


async def fan_out(requests: Iterable[RequestT]) -> list[RequestT]:
    """See ``Runtime.fan_out``: send everything, then receive the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too. Of those to one server, the
    first has a connection to itself, and all that follow share one: there may be hundreds.
    """
    made: list[RequestT] = []
    begun: list[tuple[Sequence[RequestT], Connection | Dialled | InThread | Failure]] = []
    more: dict[object, list[RequestT]] = {}
    received = 0
    try:
        for request in requests:
            made.append(request)
            link: Any = request.runtime.link  # type: ignore[attr-defined]
            server = link.server_of(request.prepared) if link.scattered else link
            if server in more and request.replica_wait is None:
                more[server].append(request)
            else:
                more.setdefault(server, [])
                begun.append(((request,), _begin((request,))))
        for others in filter(None, more.values()):
            begun.append((others, _begin(others)))
        for several, each in begun:
            answers: Sequence[Any]
            try:
                if isinstance(each, Failure):  # The others have their replies all the same.
                    raise each
                answers = _receive(several, each) if isinstance(each, Connection) else each.receive()
            except Connecting as failure:
                answers = [NotSent(failure.cause)] * len(several)  # One of several is not waited for.
            except Failure as failure:
                answers = [failure] * len(several)
            received += 1
            for request, answer in zip(several, answers, strict=True):
                request.answer = answer
    except BaseException:
        for _, each in begun[received:]:
            if not isinstance(each, Failure):
                each.close()  # A reply that comes later would be taken for the answer to something else.
        raise
    return made


# ---- transport -------------------------------------------------------------------------------------------------------
# Makes the connections of a link.


#: What a request fails with for which there is no idle connection: the general path sends it.
NO_CONNECTION: Final = NotSent(ConnectionError("no idle connection"))


class SocketTransport(Transport):
    """Sockets of our own, made from the settings of a client. As many as requests are in flight at once."""

    def __init__(self, connection_class: type[Any], settings: dict[str, Any]) -> None:
        self._class = connection_class
        self._settings = settings
        self._sockets = Sockets()

    def caller(self) -> object:
        return threading.get_ident()

    async def open(self, address: Address | None, timeout: float) -> Connection:
        return Connection(self._sockets, self._open(address, timeout), monotonic(), address)

    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        return SocketStream(self._open(address, timeout))

    def _open(self, address: Address | None, timeout: float) -> Any:
        settings = self._settings if address is None else {**self._settings, "host": address[0], "port": address[1]}
        return self._sockets.open(self._class, settings, timeout)

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        sentinel: Any = redis.Redis(**settings, retry=Retry(NoBackoff(), 0))
        with sentinel:
            return sentinel.execute_command(*command)

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return ThreadDial(work)

    def abandon(self) -> None:
        self._sockets.abandon()


def exchange_idle(client: ClientCore, data: bytes, timeout: float) -> Any:
    """Send a request on an idle connection. Returns the reply, or the failure.

    The calls of ``ServerLink`` spelt out, for what nearly always happens.
    """
    pool: Any = client.fast_pool
    try:
        wire = pool.idle.pop()
    except (AttributeError, IndexError):  # The client was closed; or all are in use.
        return NO_CONNECTION
    if monotonic() - wire.used > FRESH:
        pool.idle.append(wire)
        return NO_CONNECTION
    try:
        reply = wire.exchange(data, timeout)
    except Failure as failure:
        return failure
    wire.used = monotonic()
    pool.idle.append(wire)
    if client.closed or len(pool.idle) > KEEP_IDLE:
        pool.tidy()
    return reply


async def eval_idle(client: ClientCore, link: Any, request: Request, timeout: float) -> Reply:
    """Run a script on an idle connection. What is out of the ordinary is left to the ``ServerLink``."""
    reply = exchange_idle(client, request.data, timeout)
    if isinstance(reply, NotSent):
        return await link.eval(request, timeout)  # type: ignore[no-any-return]
    if isinstance(reply, Failure):
        raise reply
    if isinstance(reply, Exception):
        return await link.answer(reply, request, timeout)  # type: ignore[no-any-return]
    return reply  # type: ignore[no-any-return]


# ---- user class ------------------------------------------------------------------------------------------------------
# Connections of a class that is the user's, for threads; see :mod:`pyredisson._net.urls`.


class ThreadUserWire(UserWire):
    """A connection of the user's class."""

    async def _send(self, data: bytes) -> None:
        self.connection.send_packed_command([data], check_health=False)

    async def _receive(self, timeout: float) -> Any:
        if not self.connection.can_read(timeout):
            raise no_reply(timeout)
        return self.connection.read_response(disable_decoding=True)

    def usable(self) -> bool:
        try:
            return not self.connection.can_read(0)
        except (rx.RedisError, OSError):
            return False

    def close(self) -> None:
        self.connection.disconnect()

    def abandon(self) -> None:
        self.close()


class ThreadUserTransport(UserTransport):
    """Makes connections as the pool of a client does."""

    wire: type[UserWire] = ThreadUserWire

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()

    def caller(self) -> object:
        return threading.get_ident()

    async def _connect(self, connection: Any, timeout: float) -> None:
        self._made.add(connection)
        in_time(connection.connect, timeout, lambda _: connection.disconnect())

    async def open_stream(self, address: Address | None, timeout: float) -> ThreadUserStream:
        return ThreadUserStream(await self._make(timeout))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return ThreadDial(work)

    def abandon(self) -> None:
        made, self._made = list(self._made), weakref.WeakSet()
        end_inherited(getattr(each, "_sock", None) for each in made)


class ThreadUserStream:
    """A stream on a connection of the user's class, of which we know only that it can be read with a timeout.

    Attributes:
        address: Where it leads.
    """

    #: It cannot be woken, so it is looked at so often; that costs the server nothing.
    GLANCE = 0.02

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.address: Any = place_of(connection)
        self._mutex = threading.Lock()

    def send(self, data: bytes) -> None:
        with self._mutex:
            self._connection.send_packed_command([data], check_health=False)

    async def read(self, timeout: float) -> list[Any] | None:
        try:
            if not self._connection.can_read(min(timeout, self.GLANCE)):
                return []
            return [self._connection.read_response(disable_decoding=True, push_request=True)]
        except REFUSED as error:
            return [as_reply(error)]
        except (rx.RedisError, OSError):
            return None

    def wake(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.disconnect()


FORM = Form(redis, SocketTransport, ThreadUserTransport, ThreadTicket)
