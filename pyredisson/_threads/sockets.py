"""Blocking sockets: redis-py makes the connections, and what is sent on them afterwards goes straight to the socket.

That is the hot path of everything.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson._core.failures import NotSent, Unanswered
from pyredisson._net.wire import is_push, new_reader
from pyredisson._shared.clock import monotonic
from pyredisson._threads.inherited import Sockets, close_inherited
from pyredisson._threads.readiness import Readiness
from pyredisson._threads.socket_errors import raise_if_foreign

if TYPE_CHECKING:
    from hiredis import Reader

    from pyredisson._net.wire import Address

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
        self._timeout = -1.0
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

    def receive_late(self, left: float, timeout: float) -> Any:
        """Receive the reply to a request that was sent; of the timeout that was set only so much is left."""
        if self._plain:
            if not Readiness(self.sock).wait(left):
                raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
        else:
            self.set_timeout(left)
        return self.exchange(None, timeout)

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
                replies += [reply for reply in _all(self._reader) if not is_push(reply)]
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
            return Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
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


def _all(reader: Reader) -> list[Any]:
    found: list[Any] = []
    while (reply := reader.gets()) is not False:
        found.append(reply)
    return found
