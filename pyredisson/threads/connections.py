"""Connections for threads: blocking sockets of our own, or ones borrowed from the user's pool.

redis-py makes our connections (addresses, TLS, credentials, handshake); what is sent and received on them afterwards
is the hot path of everything, and goes straight to the socket.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import redis
import redis.exceptions as rx

from pyredisson.core.runtime import (
    Acknowledging,
    Ask,
    AskSynced,
    Failure,
    NotNow,
    NotSent,
    Reply,
    Request,
    Unanswered,
    run,
)
from pyredisson.net.bounded_sources import LIED, bound_handshake, bounded_exchange
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
from pyredisson.net.urls import kept_settings
from pyredisson.shared.clock import monotonic
from pyredisson.threads.inherited import Sockets, close_inherited, end_inherited
from pyredisson.threads.interruption import Flag
from pyredisson.threads.readiness import Readiness
from pyredisson.threads.socket_errors import raise_if_foreign

if TYPE_CHECKING:
    from pyredisson.net.bounds import Reader
    from pyredisson.net.sentinel import Address, Locator

__all__ = ["Apart", "BorrowedLink", "Connection", "OwnLink", "fan_out", "link_to"]

#: A connection that has been idle for longer is looked at before it is used: its server may have closed it.
FRESH = 1.0

#: Beyond this many, connections that have been idle for so long (seconds) are closed when another one comes back.
KEEP_IDLE = 8
IDLE_FOR = 60.0

READ_SIZE = 65536

#: What is read first: nearly all replies are a few bytes, and the room for a large one would cost more than the rest.
FIRST_READ = 256

_WOULD_BLOCK = (BlockingIOError, TimeoutError, InterruptedError)


class Connection:
    """One connection to one server, used by one thread at a time. With a request under way it is a :class:`Begun`.

    Attributes:
        sock: The socket.
        used: When it was used last.
        address: Where sentinels said that the server is.
        link: Whose request is under way, if it is one of several; ``None`` when that is over.
        request: What was sent then.
        until: When its time is over.
    """

    __slots__ = ("_plain", "_reader", "_timeout", "address", "link", "request", "sock", "until", "used")

    def __init__(self, sock: socket.socket, now: float, address: Address | None = None) -> None:
        self.sock = sock
        self.used = now
        self.address = address
        self.link: OwnLink | None = None
        self.request: Packed | None = None
        self.until = now
        self._reader: Reader | None = None
        self._timeout = -1.0
        # TLS needs Python's own timeouts, and so do greenlets, whose socket class stands in place of Python's; on a
        # plain socket the kernel's cost a system call less each time.
        self._plain = type(sock).__module__ == "socket"
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

    def call(self, data: bytes, timeout: float) -> Any:
        """Send a request and return the reply, or the error that came as one.

        Raises:
            NotSent: Nothing that the server could execute has left.
            Unanswered: It has, and no reply came.
        """
        if timeout != self._timeout:
            self.set_timeout(timeout)
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise_if_foreign(error, self.sock)
            # The request did not leave in full: an incomplete one is never executed.
            raise NotSent(rx.ConnectionError(f"Error while writing to socket: {error}")) from None
        return self.receive(timeout)

    def post(self, link: OwnLink, request: Packed, timeout: float, now: float) -> None:
        """Send one of several requests; the reply is for :meth:`take`. Raises ``OSError``: it did not leave in full."""
        self.link = link
        self.request = request
        self.until = now + timeout
        if timeout != self._timeout:
            self.set_timeout(timeout)
        self.sock.sendall(request.data)

    def receive_late(self, left: float, timeout: float) -> Any:
        """As :meth:`receive`, when of the timeout that was set only so much is left."""
        if self._plain:
            if not Readiness(self.sock).wait(left):
                raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
        else:
            self.set_timeout(left)
        return self.receive(timeout)

    def receive(self, timeout: float) -> Any:
        """Return the reply to what was sent, or the error that came as one. Raises ``Unanswered``."""
        try:
            chunk = self.sock.recv(FIRST_READ)
        except _WOULD_BLOCK as error:
            raise_if_foreign(error, self.sock)
            raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")) from None
        except OSError as error:
            raise_if_foreign(error, self.sock)
            raise Unanswered(rx.ConnectionError(f"Error while reading from socket: {error}")) from None
        # The replies of nearly every acquire and release.
        if chunk in (b"_\r\n", b"$-1\r\n"):
            return None
        if chunk == b":1\r\n":
            return 1
        if chunk == b":0\r\n":  # The release of a reader among others.
            return 0
        return self._read(chunk, timeout)

    def _read(self, chunk: bytes, timeout: float) -> Any:
        reader = self._reader
        if reader is None:
            reader = self._reader = new_reader()
        until = monotonic() + timeout
        while True:
            if not chunk:
                raise Unanswered(rx.ConnectionError("Connection closed by server."))
            try:
                reader.feed(chunk)
                reply = reader.gets()
                while is_push(reply):
                    reply = reader.gets()
            except rx.InvalidResponse as error:
                raise Unanswered(rx.ConnectionError(f"Protocol error: {error}")) from None
            if reply is not False:
                return reply
            try:
                if monotonic() > until:  # The socket's own timeout begins anew with every byte.
                    raise TimeoutError
                chunk = self.sock.recv(READ_SIZE)
            except _WOULD_BLOCK as error:
                raise_if_foreign(error, self.sock)
                raise Unanswered(rx.TimeoutError(f"no full reply from the server within {timeout:.3g} s")) from None
            except OSError as error:
                raise_if_foreign(error, self.sock)
                raise Unanswered(rx.ConnectionError(f"Error while reading from socket: {error}")) from None

    def call_all(self, data: bytes, count: int, timeout: float) -> list[Any]:
        """Send several requests at once and return the reply of each, or the error that came as one.

        Raises:
            Unanswered: Not all of them were answered; any may have been executed.
        """
        if timeout != self._timeout:
            self.set_timeout(timeout)
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise_if_foreign(error, self.sock)
            raise Unanswered(rx.ConnectionError(f"Error while writing to socket: {error}")) from None
        until = monotonic() + timeout
        reader = new_reader()
        replies: list[Any] = []
        while len(replies) < count:
            try:
                if monotonic() > until:  # The socket's own timeout begins anew with every byte.
                    raise TimeoutError
                chunk = self.sock.recv(READ_SIZE)
                if not chunk:
                    raise Unanswered(rx.ConnectionError("Connection closed by server."))
                reader.feed(chunk)
                replies += [reply for reply in _all(reader) if not is_push(reply)]
            except _WOULD_BLOCK as error:
                raise_if_foreign(error, self.sock)
                raise Unanswered(rx.TimeoutError(f"no full reply from the server within {timeout:.3g} s")) from None
            except rx.InvalidResponse as error:
                raise Unanswered(rx.ConnectionError(f"Protocol error: {error}")) from None
            except OSError as error:
                raise_if_foreign(error, self.sock)
                raise Unanswered(rx.ConnectionError(f"Error while reading from socket: {error}")) from None
        return replies

    def usable(self) -> bool:
        """Whether an idle connection still stands, and nothing has come on it that nobody asked for."""
        if not self._plain:
            # Over TLS there may be something to read that is no reply.
            return hasattr(self.sock, "pending") or not Readiness(self.sock).wait(0)
        try:
            self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError as error:
            raise_if_foreign(error, self.sock)
            return isinstance(error, _WOULD_BLOCK)
        return False

    def take(self) -> Reply:
        """See :meth:`Begun.take`. Afterwards the connection is free again."""
        link, timeout = self.link, self._timeout
        assert link is not None, "nothing is under way on this connection"
        self.link = None
        now = monotonic()
        left = self.until - now
        try:
            # The socket's own timeout begins only now. For those that are taken while it has hardly run, that will do.
            reply = self.receive(timeout) if left > 0.9 * timeout else self.receive_late(left, timeout)
        except BaseException as error:
            self.close()
            if isinstance(error, Unanswered):
                link.away = True
            raise
        link.put_back(self, now)
        if isinstance(reply, Exception):
            assert self.request is not None
            return link.answer(reply, self.request, timeout)
        return reply  # type: ignore[no-any-return]

    def drop(self) -> None:
        """See :meth:`Begun.drop`."""
        self.close()  # Its reply would be taken for the answer to something else.

    def close(self) -> None:
        """Close it."""
        with contextlib.suppress(OSError):
            self.sock.close()


class SocketStream:
    """A stream on a socket of our own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._reader = new_reader()
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._ring.setblocking(False)
        self._readiness = Readiness(sock, self._bell)
        sock.settimeout(1.0)  # Only for a moment in which the kernel's buffer is full, or a TLS record incomplete.

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    async def read(self, timeout: float) -> list[Any] | None:
        pending = getattr(self._sock, "pending", None)
        if not (pending and pending()):
            ready = self._readiness.wait(timeout)
            if self._bell in ready:
                with contextlib.suppress(OSError):
                    self._bell.recv(READ_SIZE)
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
            self._ring.send(b".")

    def close(self) -> None:
        for sock in (self._sock, self._bell, self._ring):
            with contextlib.suppress(OSError):
                sock.close()


class BorrowedStream:
    """A stream on a connection of the user's kind, of which we know only that it can be read with a timeout."""

    #: It cannot be woken, so it is looked at so often; that costs the server nothing.
    GLANCE = 0.02

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._mutex = threading.Lock()

    def send(self, data: bytes) -> None:
        with self._mutex:
            self._connection.send_packed_command([data], check_health=False)

    async def read(self, timeout: float) -> list[Any] | None:
        try:
            if not self._connection.can_read(min(timeout, self.GLANCE)):
                return []
            return [self._connection.read_response(disable_decoding=True, push_request=True)]
        except rx.ResponseError as error:
            return [error]
        except (rx.RedisError, OSError):
            return None

    def wake(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.disconnect()


def _all(reader: Reader) -> list[Any]:
    found: list[Any] = []
    while (reply := reader.gets()) is not False:
        found.append(reply)
    return found


class Begun(Protocol):
    """A request under way."""

    def take(self) -> Reply:
        """Its reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
        ...

    def drop(self) -> None:
        """Nobody wants its reply any more."""
        ...


class Dialled:
    """A request for which a connection has to be made first, in a thread of its own."""

    def __init__(self, link: OwnLink, request: Packed, timeout: float) -> None:
        self._link = link
        self._request = request
        self._timeout = timeout
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        self._until = monotonic() + (timeout if link.away else max(timeout, CONNECTING))
        self._dial = link.dial()

    def take(self) -> Reply:
        if not self._dial.done.wait(max(0.0, self._until - monotonic())):
            raise NotSent(rx.TimeoutError("no connection in time; it is still being made"))
        if self._dial.failure is not None:
            raise self._dial.failure
        begun = self._link.begin(self._request, self._timeout)
        if isinstance(begun, Dialled):  # Somebody was quicker, and the next one is being made.
            raise NotSent(rx.ConnectionError("the connection was used for something else"))
        return begun.take()

    def drop(self) -> None:
        pass  # The connection stays, for the next one.


class Dial:
    """A connection being made."""

    def __init__(self) -> None:
        self.done = Flag()
        self.failure: Failure | None = None


class Apart:
    """A request in a thread of its own, over a link that knows nothing but to block."""

    def __init__(self, link: Link, request: Request, timeout: float) -> None:
        self._timeout = timeout
        self._until = monotonic() + max(timeout, CONNECTING)
        self._done = Flag()
        self._answer: Any = None
        threading.Thread(target=self._run, args=(link, request), name="pyredisson-request", daemon=True).start()

    def _run(self, link: Link, request: Request) -> None:
        try:
            self._answer = run(self._call(link, request))
        except Failure as failure:
            self._answer = failure
        except Exception as error:
            self._answer = Unanswered(error)
        self._done.set()

    def _call(self, link: Link, request: Request) -> Coroutine[Any, Any, Any]:
        return link.eval(request, self._timeout)

    def take(self) -> Reply:
        if not self._done.wait(max(0.0, self._until - monotonic())):
            raise Unanswered(rx.TimeoutError(f"no reply from the server within {self._timeout:.3g} s"))
        answer = self._answer
        if isinstance(answer, Failure):
            raise answer
        return answer  # type: ignore[no-any-return]

    def drop(self) -> None:
        pass


class ApartSynced(Apart):
    """One that replicas are to acknowledge: they are waited for by whoever sent it."""

    def __init__(self, link: Link, ask: AskSynced) -> None:
        self._ask = ask
        super().__init__(link, ask.request, ask.timeout + ask.sync_timeout)

    def _call(self, link: Link, request: Request) -> Coroutine[Any, Any, Any]:
        return link.eval_synced(request, self._ask.timeout, self._ask.sync, self._ask.sync_timeout)


class OwnLink:
    """Connections of our own, made from the settings of a client. As many as requests are under way at once."""

    def __init__(self, connection_class: type[Any], settings: dict[str, Any], locator: Locator | None = None) -> None:
        self._class = connection_class
        self._locator = locator
        self._master = Whereabouts()
        self._settings = settings
        self._idle: list[Connection] = []
        self._watchdog: int | None = None
        self._closed = False
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody
        self._sockets = Sockets()
        self._dialling: Dial | None = None
        self.away = False  # It did not answer the last time; only for those who ask many servers at once.

    async def eval(self, request: Packed, timeout: float) -> Reply:
        reply = self._call(request.data, timeout)
        if isinstance(reply, Exception):
            return self.answer(reply, request, timeout)
        return reply  # type: ignore[no-any-return]

    def answer(self, error: Exception, request: Packed, timeout: float) -> Reply:
        """What to make of an error reply: a script that the server does not know is sent in full."""
        if not is_no_script(error):
            raise self._failure(error)
        return self._checked(self._call(request.in_full(), timeout))

    def begin(self, request: Packed, timeout: float) -> Begun:
        if self._locator is not None:
            return Apart(self, request, timeout)  # Which master it is has to be looked up.
        idle = self._idle
        while True:
            try:
                connection = idle.pop()
            except IndexError:
                return Dialled(self, request, timeout)
            now = monotonic()
            if now - connection.used > FRESH and not connection.usable():
                connection.close()
                continue
            try:
                connection.post(self, request, timeout, now)
            except OSError as error:
                connection.close()
                raise_if_foreign(error, connection.sock)
                continue
            except BaseException:
                connection.close()
                raise
            return connection

    def put_back(self, connection: Connection, now: float) -> None:
        """A connection is free again."""
        self.away = False
        connection.used = now
        idle = self._idle
        idle.append(connection)
        if self._closed or (len(idle) > KEEP_IDLE and now - idle[0].used > IDLE_FOR):
            self._trim()

    def dial(self) -> Dial:
        """Make a connection, in a thread of its own. One that is being made to a server that was away serves all."""
        dial = self._dialling
        if dial is not None and self.away and not dial.done.is_set():
            return dial
        dial = self._dialling = Dial()
        threading.Thread(target=self._dial, args=(dial,), name="pyredisson-connecting", daemon=True).start()
        return dial

    def _dial(self, dial: Dial) -> None:
        try:
            self.put_back(self._connect(CONNECTING), monotonic())
        except Failure as failure:
            self.away = True
            dial.failure = failure
        except Exception as error:
            dial.failure = NotSent(error)
        dial.done.set()

    async def eval_synced(
        self,
        request: Packed,
        timeout: float,
        sync: Acknowledging,
        sync_timeout: float,
        *,
        asking: bool = False,
    ) -> tuple[Reply, int | Failure]:
        while True:
            try:
                connection, pooled = self._idle.pop(), True
            except IndexError:
                connection, pooled = self._connect(timeout), False
            if pooled and monotonic() - connection.used > FRESH and not connection.usable():
                connection.close()
                continue
            if pooled and self._elsewhere(connection, timeout):
                connection.close()
                continue
            try:
                if asking:
                    connection.call(ASKING, timeout)
                # In full: ASKING is about one request, and the answer could be that the script is not known.
                reply = connection.call(request.in_full() if asking else request.data, timeout)
                if is_no_script(reply):
                    reply = connection.call(request.in_full(), timeout)
                acked: int | Failure = 0
                if not isinstance(reply, Exception) and (replicas := sync.asked(reply)):
                    acked = _acknowledged(connection.call, replicas, timeout, sync_timeout)
            except NotSent:
                connection.close()
                if pooled:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            if self._locator is not None and self._master.demoted(reply):
                self._leave(connection)
                if pooled:
                    continue
            elif isinstance(acked, Unanswered):
                connection.close()
            else:
                connection.used = monotonic()
                self._idle.append(connection)
                if self._closed:
                    self._trim()
            return self._checked(reply), acked

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        over = monotonic() + timeout
        try:
            replies = self._call(b"".join([request.data for request in requests]), timeout, len(requests))
            if again := resent(requests, replies):
                left = max(0.001, over - monotonic())
                answers = self._call(b"".join(again.values()), left, len(again))
                for index, reply in zip(again, answers, strict=True):
                    replies[index] = reply
        except Failure as failure:
            return [failure] * len(requests)
        return [self._failure(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def call_asking(self, data: bytes, timeout: float) -> Reply:
        return self._checked(self._call(ASKING + data, timeout, 2)[1])

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        return self._checked(self._call(pack(*command), timeout))

    def _failure(self, error: Exception) -> Failure:
        return failure_of(error, found=self._locator is not None)

    def _checked(self, reply: Any) -> Reply:
        if isinstance(reply, Exception):
            raise self._failure(reply)
        return reply  # type: ignore[no-any-return]

    def _call(self, data: bytes, timeout: float, several: int = 0) -> Any:
        """Send a request, or ``several`` at once, and return the reply, or a list of them."""
        idle = self._idle
        while True:
            try:
                connection = idle.pop()
            except IndexError:
                connection, pooled = self._connect(timeout), False
            else:
                pooled = True
                if monotonic() - connection.used > FRESH and not connection.usable():
                    connection.close()
                    continue
                if self._locator is not None and self._elsewhere(connection, timeout):
                    connection.close()
                    continue
            try:
                reply = connection.call_all(data, several, timeout) if several else connection.call(data, timeout)
            except NotSent:
                connection.close()
                if pooled:  # It had been closed behind our back; another one may do.
                    continue
                raise
            except BaseException:
                # Whatever comes on it later would be taken for the answer to something else.
                connection.close()
                raise
            if self._locator is not None and self._master.demoted(*(reply if several else (reply,))):
                self._leave(connection)
                if several or not pooled:
                    return reply
                continue  # It had no effect; the master is elsewhere now.
            connection.used = monotonic()
            idle.append(connection)
            if self._closed or (len(idle) > KEEP_IDLE and connection.used - idle[0].used > IDLE_FOR):
                self._trim()
            return reply

    def _leave(self, connection: Connection) -> None:
        """Close a connection to a server that is not to be used any more, and all that are idle."""
        connection.close()
        self._close_idle()

    def _close_idle(self) -> None:
        idle, self._idle[:] = list(self._idle), []
        for each in idle:
            each.close()

    def _connect(self, timeout: float) -> Connection:
        # A short lease must not keep a caller from ever connecting. The watchdog, though, has deadlines to tell of.
        if threading.get_ident() != self._watchdog:
            timeout = max(timeout, CONNECTING)
        address, settings = self._where(timeout)
        connection = Connection(self._sockets.open(self._class, settings, timeout), monotonic(), address)
        if self.inspect is not None:
            try:
                self.inspect(inspected(connection.call(INFO, timeout), found=self._locator is not None))
            except Unanswered as failure:
                connection.close()
                raise NotSent(failure.cause) from None
            except NotNow:
                connection.close()
                if self._locator is not None:
                    self._locator.doubt()
                raise
            except BaseException:
                connection.close()
                raise
        return connection

    def _where(self, timeout: float, *, to_hear: bool = False) -> tuple[Address | None, dict[str, Any]]:
        """Where the next connection leads, if that has to be looked up, and its settings."""
        if self._locator is None:
            return None, self._settings
        self._master.asked(monotonic())
        address = self._locator.locate(timeout)
        if to_hear:
            self._master.hears_at(address)
        self._found(address)
        return address, {**self._settings, "host": address[0], "port": address[1]}

    def _found(self, address: Address) -> None:
        """That is where the master is."""
        if self._master.found(address):
            self._close_idle()  # Those in use are closed when they are to be used again.
        if self._master.hears_elsewhere():
            self.on_change()

    def _elsewhere(self, connection: Connection, timeout: float) -> bool:
        """Whether the master is another by now, as far as the sentinels tell, than the one at the end of this."""
        self._look_again(timeout)
        return self._master.was_at(connection.address)

    def _look_again(self, timeout: float) -> None:
        """Ask who the master is, if that was not asked a moment ago."""
        if self._locator is None or not self._master.doubtful(monotonic()):
            return
        try:
            self._found(self._locator.locate(min(timeout, CONNECTING)))
        except NotSent:
            self._master.nobody_knew(monotonic())

    async def follow(self) -> bool:
        self._look_again(CONNECTING)
        return self._locator is not None

    async def stream(self, timeout: float) -> Stream:
        return SocketStream(self._sockets.open(self._class, self._where(timeout, to_hear=True)[1], timeout))

    def reserve(self) -> None:
        self._watchdog = threading.get_ident()  # Each request has a connection of its own anyway.

    def _trim(self) -> None:
        try:
            (self._idle.pop() if self._closed else self._idle.pop(0)).close()
        except IndexError:
            pass

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._trim()

    def abandon(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            close_inherited(connection.sock)
        self._sockets.abandon()
        self._dialling = None


def in_time(call: Callable[[], Any], timeout: float, unwanted: Callable[[Any], object]) -> Any:
    """Make a call that may take as long as it likes, and wait for it only so long; a late result is ``unwanted``.

    Raises:
        NotSent: It is not over yet.
    """
    over = Flag()
    outcome: list[Any] = []
    state: list[None] = [None]  # Popped once: by whoever waits no longer, or by whoever is done.

    def work() -> None:
        error: BaseException | None = None
        result = None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        outcome[:] = [result, error]
        try:
            state.pop()
        except IndexError:  # Nobody waits any more.
            if error is None:
                with contextlib.suppress(Exception):
                    unwanted(result)
        over.set()

    threading.Thread(target=work, name="pyredisson-connecting", daemon=True).start()
    try:
        done = over.wait(timeout)
    except BaseException:
        _give_up(state, outcome, unwanted)
        raise
    if not done and _give_up(state, outcome, None):
        raise NotSent(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))
    over.wait(1.0)
    result, error = outcome
    if error is not None:
        raise error
    return result


def _give_up(state: list[None], outcome: list[Any], unwanted: Callable[[Any], object] | None) -> bool:
    """Wait no longer. Returns whether that was in time; else the result is here, and ``unwanted`` maybe."""
    try:
        state.pop()
    except IndexError:
        if unwanted is not None and outcome and outcome[1] is None:
            unwanted(outcome[0])
        return False
    return True


def _left(until: float, timeout: float) -> float:
    """What is left for a reply; some of it in any case, lest a request be sent for nothing."""
    return min(timeout, max(until - monotonic(), timeout / 4))


class BorrowedLink:
    """Connections of the user's pool, one a request, for those that we cannot open ourselves.

    Anything may stand behind such a pool: a subclass that tunnels, a fake in memory, a limit of one connection. The
    watchdog and the subscriber must not wait behind the user's commands, so they have connections of their own.
    """

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._reserved: Any = None
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self._reserved_lock = threading.Lock()
        self._reserved_for: int | None = None
        # Whether the server answered the last time. Else a connection may take as long to make as the pool's own
        # settings let it, and so it is made in a thread of its own.
        self._answers = False
        self._heard_at: object = None  # Where the subscriber is.
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody
        # The sockets whose server was asked who it is: the pool makes a new one whenever it likes.
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def reserve(self) -> None:
        self._reserved_for = threading.get_ident()

    def begin(self, request: Packed, timeout: float) -> Begun:
        return Apart(self, request, timeout)

    async def eval(self, request: Packed, timeout: float) -> Reply:
        reply = self._call(request.data, timeout)
        if is_no_script(reply):
            reply = self._call(request.in_full(), timeout)
        return _checked(reply)

    async def eval_synced(
        self, request: Packed, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        connection = self._borrow(timeout)

        def call(data: bytes, timeout: float) -> Any:
            return self._exchange(connection, data, timeout)

        try:
            reply = call(request.data, timeout)
            if is_no_script(reply):
                reply = call(request.in_full(), timeout)
            acked: int | Failure = 0
            if not isinstance(reply, Exception) and (replicas := sync.asked(reply)):
                acked = _acknowledged(call, replicas, timeout, sync_timeout)
            return _checked(reply), acked
        finally:
            self._pool.release(connection)

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        return await eval_each(self.eval, requests, timeout)

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        return _checked(self._call(pack(*command), timeout))

    def _call(self, data: bytes, timeout: float) -> Any:
        until = monotonic() + max(timeout, CONNECTING)
        if self._reserved_for == threading.get_ident():
            with self._reserved_lock:
                if self._reserved is None:
                    self._reserved = self.make(timeout)
                return self._exchange(self._reserved, data, _left(until, timeout))
        connection = self._borrow(timeout)
        try:
            return self._exchange(connection, data, _left(until, timeout))
        finally:
            self._pool.release(connection)

    def _borrow(self, timeout: float) -> Any:
        until = monotonic() + timeout
        pause = 0.001
        get: Callable[[], Any] = self._pool.get_connection
        while True:
            try:
                return get() if self._answers else in_time(get, max(timeout, CONNECTING), self._pool.release)
            except rx.MaxConnectionsError as error:
                if monotonic() + pause > until:
                    raise NotSent(error) from None
            except (rx.RedisError, OSError, *LIED) as error:
                raise NotSent(as_redis_error(error)) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _exchange(self, connection: Any, data: bytes, timeout: float) -> Any:
        self._answers = False
        reply = self._inspect_and_exchange(connection, data, timeout)
        self._answers = True
        return reply

    def _inspect_and_exchange(self, connection: Any, data: bytes, timeout: float) -> Any:
        if self.inspect is not None and (way := getattr(connection, "_sock", None) or connection) not in self._known:
            try:
                self.inspect(inspected(self._exchange_once(connection, INFO, timeout)))
            except Unanswered as failure:
                raise NotSent(failure.cause) from None
            self._known.add(way)
            if self._heard_at not in (None, place_of(connection)):  # A pool that sentinels lead has found another.
                self._heard_at = None
                self.on_change()
        return self._exchange_once(connection, data, timeout)

    def _exchange_once(self, connection: Any, data: bytes, timeout: float) -> Any:
        try:
            connection.send_packed_command([data], check_health=False)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            with bounded_exchange(connection):
                if not connection.can_read(timeout):
                    raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
                return connection.read_response(disable_decoding=True)
        except rx.ResponseError as reply:
            return reply
        except (rx.RedisError, OSError) as error:
            connection.disconnect()
            raise Unanswered(as_redis_error(error)) from None
        except BaseException:
            connection.disconnect()
            raise

    def make(self, timeout: float) -> Any:
        """A connection outside the pool, of the pool's kind."""
        try:
            settings = {key: value for key, value in self._pool.connection_kwargs.items() if key != "retry"}
            connection = bound_handshake(self._pool.connection_class(**settings))
            self._made.add(connection)
            in_time(connection.connect, max(timeout, CONNECTING), lambda _: connection.disconnect())
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        return connection

    async def stream(self, timeout: float) -> Stream:
        connection = self.make(timeout)
        self._heard_at = place_of(connection)
        return BorrowedStream(connection)

    async def follow(self) -> bool:
        return False  # Who leads the user's pool is asked when it connects.

    def close(self) -> None:
        reserved, self._reserved = self._reserved, None
        if reserved is not None:
            reserved.disconnect()

    def abandon(self) -> None:
        self._reserved = None
        self._reserved_lock = threading.Lock()
        made, self._made = list(self._made), weakref.WeakSet()
        end_inherited(getattr(each, "_sock", None) for each in made)


def _acknowledged(
    call: Callable[[bytes, float], Any], replicas: int, timeout: float, sync_timeout: float
) -> int | Failure:
    """How many replicas know of what was done last on a connection; or why that is not known."""
    try:
        acked = call(wait_command(replicas, sync_timeout), timeout + sync_timeout)
    except Failure as failure:
        return Unanswered(failure.cause)  # Whether or not the question left, the connection is of no use.
    return failure_of(acked) if isinstance(acked, Exception) else acked


def _checked(reply: Any) -> Reply:
    if isinstance(reply, Exception):
        raise failure_of(reply)
    return reply  # type: ignore[no-any-return]


def link_to(client: redis.Redis, locator: Locator | None = None) -> Link:
    """The way to the server of a client that the user made, or that we made for a URL.

    ``locator`` tells where that is each time; then host and port of the client mean nothing.
    """
    pool: Any = client.connection_pool
    ours = (redis.Connection, redis.UnixDomainSocketConnection, redis.SSLConnection)
    if type(pool) is redis.ConnectionPool and pool.connection_class in ours:
        return OwnLink(pool.connection_class, kept_settings(pool.connection_kwargs), locator)
    return BorrowedLink(pool)


async def fan_out(asks: Iterable[Ask]) -> list[Reply | Failure]:
    """See ``Runtime.fan_out``: send everything, then take the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    begun: list[Begun] = []
    answers: list[Reply | Failure] = []
    try:
        for ask in asks:
            link: Link = ask.runtime.link  # type: ignore[attr-defined]
            begun.append(ApartSynced(link, ask) if type(ask) is AskSynced else link.begin(ask.request, ask.timeout))
        for each in begun:
            try:
                answers.append(each.take())
            except Failure as failure:
                answers.append(failure)
    except BaseException:
        for each in begun[len(answers) :]:
            each.drop()
        raise
    return answers
