"""Let go of what the child of a fork has inherited: sockets, and the threads that greenlets run in.

Nothing is sent: the connections are the parent's. Threads of the parent are not in the child, but greenlets go on
there: one that waits for a reply would take it from the parent, and one that is connecting would talk into the parent's
handshake.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson._core.failures import NotSent
from pyredisson._net.refusals import not_opened
from pyredisson._net.urls import own_settings
from pyredisson._shared.process import monotonic, on_fork

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
            NotSent, Rejected: No connection could be made; see :func:`pyredisson._net.refusals.not_opened`.
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


def end_inherited_thread() -> None:
    """Let the calling greenlet end quietly if it is the copy of one of the parent's threads.

    ``threading`` forgets all threads but one in the child of a fork. A greenlet goes on there, and at its end a
    ``KeyError`` is printed unless ``threading`` knows it again, as it does once asked which thread it is.
    """
    threading.current_thread()


#: The starts of threads that are under way. Each is set once its thread has begun, or cannot.
_starts: set[Flag] = set()

#: For how many seconds a fork waits for them.
PATIENCE = 1.0


class BackgroundThread(threading.Thread):
    """A daemon thread that begins although its start is interrupted or its process forks.

    ``threading`` forgets a thread that is about to begin if a signal handler raises an error in its start; and in the
    child of a fork, where a greenlet begins all the same. Either would print a ``KeyError``. So signal handlers do not
    reach the start, and a fork waits for it.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        super().__init__(target=target, name=name, daemon=True)

    def start(self) -> None:
        """Start it. What a signal handler raises meanwhile comes out, and the thread begins all the same.

        Signal handlers run in the main thread only, so another thread makes the start.

        Raises:
            RuntimeError: There can be no more threads, or the interpreter is about to end.
        """
        begun, failure = Flag(), list[BaseException]()
        try:
            _starts.add(begun)
            _thread.start_new_thread(self._start_uninterrupted, (begun, failure))
        except BaseException:
            _starts.discard(begun)
            raise
        begun.wait(math.inf)
        if failure:
            raise failure.pop()

    def _start_uninterrupted(self, begun: Flag, failure: list[BaseException]) -> None:
        # No logging and no current_thread() here: threading would list this thread even after its end.
        try:
            super().start()
        except BaseException as error:
            failure.append(error)
        with contextlib.suppress(RuntimeError):  # This is a greenlet in the child of a fork.
            begun.set()
        _starts.discard(begun)


def _finish_starts() -> None:
    """Before a fork: let the threads that are about to begin do so."""
    end = monotonic() + PATIENCE
    while (left := end - monotonic()) > 0:
        begun = next((each for each in tuple(_starts) if not each.is_set()), None)
        if begun is None:
            return
        begun.wait(left)


@on_fork
def _forget_starts() -> None:
    """This is the child of a fork: a caller that a signal handler forked in waits for a thread that is not here."""
    for begun in tuple(_starts):
        with contextlib.suppress(RuntimeError):  # It is set.
            begun.set()
    _starts.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_starts)

# ---- interruption ----------------------------------------------------------------------------------------------------
# Calls in the middle of calls: signal handlers and finalizers run between any two steps of the thread they interrupt.
#
# A mutex that protects plain state is reentrant, or such a call would wait for the very thread that it holds up. But
# what it finds may be half changed, or the request of the interrupted call in flight: then it has to be refused. What
# an owner holds says so itself (``Owned.call``).


def inside(mutex: Any) -> bool:
    """Whether the calling thread is inside of a reentrant mutex."""
    try:
        threading.Condition(mutex).notify(0)
    except RuntimeError:  # As documented: the calling thread has not acquired it.
        return False
    return True


class Flag:
    """What ``threading.Event`` is, for those who may be interrupted in it: that has a mutex which is not reentrant."""

    __slots__ = ("_lock", "_set")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, once, and let all go on who wait."""
        self._set = True
        self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set. Returns whether it is."""
        if not self._set and self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self._lock.release()  # For the next one.
        return self._set


# ---- late calls ------------------------------------------------------------------------------------------------------
# Calls that are made at a later time, for clients that were closed: their own threads have ended.
#
# One thread of the process makes them all. It begins with the first one that is wanted, and ends after the last.


#: The longest sleep, since the clock of a wait may stand still while the machine sleeps.
SLICE = 1.0


class LateCalls:
    """The calls that are to be made."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # Reentrant: a signal handler may close a client in the middle.
        self._calls: dict[object, tuple[float, Callable[[], object]]] = {}
        self._runs = False

    def add(self, at: float, call: Callable[[], object]) -> Callable[[], None]:
        """Make a call at that time. Returns what cancels it."""
        key = object()
        with self._changed:
            self._calls[key] = at, call
            if self._runs:
                self._changed.notify()
            else:
                with contextlib.suppress(RuntimeError):  # CPython 3.12.1 begins no thread at its exit.
                    BackgroundThread(self._run, "losses of closed clients").start()
                    self._runs = True

        def cancel() -> None:
            with self._changed:
                self._calls.pop(key, None)
                self._changed.notify()

        return cancel

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._calls:
                    self._runs = False
                    return
                key, (at, call) = min(self._calls.items(), key=lambda each: each[1][0])
                if (left := at - monotonic()) > 0:
                    self._changed.wait(min(left, SLICE))
                    continue
                del self._calls[key]
            call()


late_calls: LateCalls = LateCalls()


@on_fork
def _forget() -> None:
    """This is the child of a fork: it holds nothing of its parent's."""
    late_calls.__init__()  # type: ignore[misc]
