"""Let go of what the child of a fork has inherited: sockets, and the threads that greenlets run in.

Nothing is sent: the connections are the parent's. Threads of the parent are not in the child, but greenlets go on
there: one that waits for a reply would take it from the parent, and one that is connecting would talk into the parent's
handshake.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson.core.failures import NotSent
from pyredisson.net.resp import not_opened
from pyredisson.net.urls import own_settings


class Sockets:
    """Opens the sockets of one link, and knows those that are open or about to be."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._opening: set[Any] = set()

    def open(self, connection_class: type[Any], settings: dict[str, Any], timeout: float) -> socket.socket:
        """Let redis-py connect and introduce itself, and take the socket.

        Raises:
            NotSent, Rejected: No connection could be made; see :func:`pyredisson.net.resp.not_opened`.
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
        finally:
            opening.discard(connection)
        if sock is None:
            raise NotSent(rx.ConnectionError("the connection was closed while it was made"))
        if self._opening is not opening:
            close_inherited(sock)
            raise NotSent(rx.ConnectionError(_FORKED))
        self._open.add(sock)
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


def end_inherited_thread() -> None:
    """Let the calling greenlet end quietly if it is the copy of one of the parent's threads.

    ``threading`` forgets all threads but one in the child of a fork. A greenlet goes on there, and at its end a
    ``KeyError`` is printed unless ``threading`` knows it again, as it does once asked which thread it is.
    """
    threading.current_thread()


class BackgroundThread(threading.Thread):
    """A daemon thread that begins although ``threading`` has forgotten that it is about to.

    It forgets that when a signal handler interrupts the start; and in the child of a fork, where a greenlet begins all
    the same. Either would end with a ``KeyError`` that is printed.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)

    def start(self) -> None:
        """Start it. What a signal handler raises meanwhile comes out as it is.

        ``threading.Condition``, interrupted while it takes its lock back, raises an error of its own instead.
        """
        try:
            super().start()
        except RuntimeError as error:
            if error.args != ("release unlocked lock",) or error.__context__ is None:
                raise
            raise error.__context__ from None

    def _bootstrap_inner(self) -> None:
        about_to_begin: dict[threading.Thread, threading.Thread] = getattr(threading, "_limbo", {})
        about_to_begin.setdefault(self, self)
        super()._bootstrap_inner()  # type: ignore[misc]  # No part of the standard library's interface.
