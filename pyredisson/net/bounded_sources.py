"""Bounds for the replies that redis-py reads: while it makes a connection, and on the connections of a user's pool.

redis-py's parsers read from a socket or from an asyncio stream. A stand-in for it passes everything on, and checks what
was read before the parser sees it. A connection of the user's has the stand-in for one exchange only, and is as it was
when it is given back. Its parser stays, so that push messages (invalidations of a cache) reach their handlers.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis.exceptions as rx

from pyredisson.net.bounds import MAX_BYTES, Framing

__all__ = [
    "bound_handshake",
    "bound_handshake_async",
    "bounded_exchange",
    "bounding",
    "bounding_async",
    "unbounded",
]


class _Count:
    """The bounds where the beginning of a reply was not seen: bytes can be counted, and no more."""

    def __init__(self) -> None:
        self._bytes = 0

    def read_along(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise rx.InvalidResponse(f"the server's reply has more than {MAX_BYTES} bytes")


class _BoundedSocket:
    """A socket whose replies are checked as they are read."""

    def __init__(self, sock: socket.socket, replies: Framing | _Count) -> None:
        self.source = sock
        self._replies = replies

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = self.source.recv(size, flags) if flags else self.source.recv(size)  # TLS takes no flags at all.
        if not flags:  # Else it was a look only, and the same comes again.
            self._replies.read_along(data)
        return data

    def recv_into(self, buffer: bytearray, size: int = 0) -> int:
        count = self.source.recv_into(buffer, size)
        self._replies.read_along(bytes(memoryview(buffer)[:count]))
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


class _BoundedStream:
    """An asyncio stream whose replies are checked as they are read."""

    def __init__(self, stream: asyncio.StreamReader, replies: Framing | _Count) -> None:
        self.source = stream
        self._replies = replies

    async def read(self, size: int = -1) -> bytes:
        return self._seen(await self.source.read(size))

    async def readexactly(self, size: int) -> bytes:
        return self._seen(await self.source.readexactly(size))

    async def readline(self) -> bytes:
        try:
            return self._seen(await self.source.readline())
        except ValueError:  # Of the stream, which has a bound of its own.
            raise rx.InvalidResponse("the server's reply has too long a line") from None

    def _seen(self, data: bytes) -> bytes:
        self._replies.read_along(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


def _bounded(source: Any, replies: Framing | _Count) -> Any:
    """Return a stand-in for a socket or a stream; anything else as it is."""
    if isinstance(source, socket.socket):
        return _BoundedSocket(source, replies)
    if isinstance(source, asyncio.StreamReader):
        return _BoundedStream(source, replies)
    return source


def unbounded(source: Any) -> Any:
    """Return the socket or stream behind a stand-in; anything else as it is."""
    return source.source if isinstance(source, (_BoundedSocket, _BoundedStream)) else source


def bound_handshake(connection: Any) -> Any:
    """Bound all replies on a connection of our own that is not connected yet, from the handshake on. Returns it."""
    connection.redis_connect_func = bounding(getattr(connection, "redis_connect_func", None))
    return connection


def bounding(connect_func: Callable[[Any], Any] | None = None) -> Callable[[Any], None]:
    """Return a ``redis_connect_func`` that bounds all replies on a connection, from the handshake on.

    Args:
        connect_func: What the user gave as such; ``None``: what redis-py does by itself.
    """
    greet = connect_func or _greet

    def connected(connection: Any) -> None:
        connection._sock = _bounded(connection._sock, Framing())
        with _sensible(connection):
            greet(connection)

    return connected


def bound_handshake_async(connection: Any) -> Any:
    """As :func:`bound_handshake`, for asyncio."""
    connection.redis_connect_func = bounding_async(getattr(connection, "redis_connect_func", None))
    return connection


def bounding_async(connect_func: Callable[[Any], Any] | None = None) -> Callable[[Any], Awaitable[None]]:
    """As :func:`bounding`, for asyncio."""
    greet = connect_func or _greet

    async def connected(connection: Any) -> None:
        connection._reader = _bounded(connection._reader, Framing())
        with _sensible(connection):
            greeting = greet(connection)
            if inspect.isawaitable(greeting):
                await greeting

    return connected


def _greet(connection: Any) -> Any:
    """Do what redis-py does on a new connection."""
    return getattr(connection, "on_connect_check_health", connection.on_connect)()


@contextmanager
def _sensible(connection: Any) -> Iterator[None]:
    """Raise ``InvalidResponse`` if ``HELLO`` was answered by no map, whatever redis-py makes of that."""
    try:
        yield
    except (AttributeError, TypeError):
        if _greeted(connection):
            raise
    if not _greeted(connection):
        raise rx.InvalidResponse("the server's reply to HELLO is no map")


def _greeted(connection: Any) -> bool:
    return isinstance(getattr(connection, "handshake_metadata", None), (dict, type(None)))


@contextmanager
def bounded_exchange(connection: Any) -> Iterator[None]:
    """Bound the replies that a connection of redis-py reads in this block, and leave it as it was."""
    cached = getattr(connection, "_conn", None)  # Of redis-py's connections with a cache on the client's side.
    parser = getattr(connection, "_parser", None) or getattr(cached, "_parser", None)
    buffer = getattr(parser, "_buffer", None)
    holder: Any = buffer if hasattr(buffer, "_sock") else parser
    name = "_sock" if hasattr(holder, "_sock") else "_stream"
    source = getattr(holder, name, None)
    replaced = _bounded(source, _Count() if _has_begun(parser) else Framing())
    if replaced is source:
        yield
        return
    setattr(holder, name, replaced)
    try:
        yield
    finally:
        if getattr(holder, name, None) is replaced:  # Else it was disconnected meanwhile.
            setattr(holder, name, source)


def _has_begun(parser: Any) -> bool:
    """Whether a parser holds bytes already, which may be the beginning of something."""
    reader = getattr(parser, "_reader", None)
    if reader is not None:
        return bool(reader.has_data())
    buffer = getattr(parser, "_buffer", None)
    unread = getattr(buffer, "unread_bytes", None)
    return bool(unread() if unread is not None else buffer)
