"""Threads of the library's own: how they begin and end, calls in the middle of calls, and calls made later."""

from __future__ import annotations

import _thread
import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable
from typing import Any

from pyredisson._shared.process import monotonic, on_fork

_log = logging.getLogger("pyredisson")


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

    __slots__ = ("_lock", "_set", "_to_release")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._to_release = [self._lock]
        self._set = False

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and let all go on who wait."""
        self._set = True
        with contextlib.suppress(IndexError):  # It was set before, maybe by a call that this one interrupts.
            self._to_release.pop().release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set. Returns whether it is."""
        if not self._set and self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
            self._lock.release()  # For the next one.
        return self._set


class ThreadTicket:
    """A lock that is taken by waiting and released by a notification: it remembers one."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def notify(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # It was notified already.

    async def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=-1 if seconds == math.inf else min(seconds, threading.TIMEOUT_MAX))


# ---- late calls ------------------------------------------------------------------------------------------------------
# Calls that are made at a later time, for clients of which the watchdog's thread waits for a server, or has ended.
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
                    BackgroundThread(self._run, "losses").start()
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
            try:
                call()  # Without the lock: what it needs may be held by who adds one.
            except Exception:  # The other calls are of other clients.
                _log.exception("pyredisson: %r failed in the background", call)


late_calls: LateCalls = LateCalls()


@on_fork
def _forget() -> None:
    """This is the child of a fork: it holds nothing of its parent's."""
    late_calls.__init__()  # type: ignore[misc]
