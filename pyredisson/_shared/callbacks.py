"""Where the callbacks of a client's user run: on threads of their own, where they may raise and block.

A thread is started when there is something to call, and ends when there is nothing more. It is a daemon.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pyredisson._core import events
from pyredisson._core.failures import is_contained
from pyredisson.errors import ClientClosedError, LockLostError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore

T = TypeVar("T")

#: The largest number of threads. If that number of callbacks block, the next one waits for one of them.
MOST = 8

#: Seconds after which one who stands for election, or observes one, looks whether it was stopped.
LOOK_EVERY = 10.0

#: Seconds until it goes on after an error.
PAUSE = 1.0

_log = logging.getLogger("pyredisson")


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


def check_callback(callback: object, *, awaited: bool = False) -> None:
    """Raise ``TypeError`` unless it is a callback; only one that is ``awaited`` may be a coroutine function."""
    if not callable(callback):
        raise TypeError(f"callback must be a function, not {type(callback).__name__}")
    if not awaited and inspect.iscoroutinefunction(callback):
        raise TypeError(f"callback must not be a coroutine function, as {callback!r} is: no one would await it")


def report_callback(name: str, error: BaseException) -> None:
    """Log the error of a callback."""
    _log.error("pyredisson: the callback of the election %r failed", name, exc_info=error)


def call_observer(name: str, callback: Callable[[T], object], leader: T) -> None:
    """Call the callback of one who observes an election."""
    try:
        callback(leader)
    except BaseException as error:
        if not is_contained(error):
            raise
        report_callback(name, error)


def pause_after(client: ClientCore, name: str, error: BaseException) -> float | None:
    """Return for how many seconds one who stands or observes pauses after an error; ``None``: its client was closed."""
    if isinstance(error, ClientClosedError):
        return None
    if not isinstance(error, LockLostError):  # The client has reported a loss.
        client.emit(events.CampaignFailed(name, error))
    return 0.0 if isinstance(error, LockLostError) else PAUSE
