"""Where the callbacks of a client's user run: on one worker thread, one after another.

The thread is started when there is something to call, and ends when there has been nothing for a while, or with the
client. It is a daemon. A callback that blocks is left alone with its thread, and another one goes on with the rest.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable

from pyredisson.shared.clock import monotonic

#: Seconds for which the worker waits for something to call before it ends.
IDLE = 5.0

#: After so long, in seconds, a callback no longer keeps the others waiting.
STUCK = 1.0

#: The largest number of threads, whatever blocks.
MOST = 8

_log = logging.getLogger("pyredisson")


class Callbacks:
    """The callbacks of one client that are still to be called."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._worker: threading.Thread | None = None  # The one that takes from the queue.
        self._since = math.inf  # When it began with the callback that it is at.
        self._threads = 0
        self._starved = False  # No thread was available the last time.
        self._closed = False

    def add(self, callback: Callable[..., object], *args: object) -> None:
        """Call something soon, on a thread where it may take its time. Never blocks, and never raises."""
        with self._changed:
            self._queue.append((callback, args))
            if self._worker is None:
                self._start()
            else:
                self._changed.notify()

    def look(self) -> float:
        """See to it that nothing waits behind a callback that blocks. Returns in how many seconds to look again."""
        with self._changed:
            if not self._queue:
                return math.inf
            if self._worker is not None and (left := self._since + STUCK - monotonic()) > 0:
                return min(left, STUCK)
            if self._threads < MOST:
                self._start()
            return STUCK

    def close(self) -> None:
        """The client has ended: so does the worker, when it has called what there is."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _start(self) -> None:
        worker = threading.Thread(target=self._run, name="pyredisson-callback", daemon=True)
        self._worker, self._since = worker, math.inf
        self._threads += 1
        try:
            worker.start()
            self._starved = False
        except RuntimeError as error:  # The system has none left. When there is one again, look() starts it.
            self._worker = None
            self._threads -= 1
            if not self._starved:
                _log.error("pyredisson: no thread is available to call %r (%s); retrying", self._queue[0][0], error)
            self._starved = True

    def _run(self) -> None:
        try:
            while (call := self._next()) is not None:
                callback, args = call
                try:
                    callback(*args)
                except SystemExit:
                    pass  # It would end a thread of its own without a word.
                except Exception:
                    _log.exception("pyredisson: the callback %r failed", callback)
        finally:
            with self._changed:
                self._threads -= 1
                if self._worker is threading.current_thread():
                    self._worker = None
                    if self._queue:  # The callback has ended the thread.
                        self._start()

    def _next(self) -> tuple[Callable[..., object], tuple[object, ...]] | None:
        """What to call next; ``None`` when this thread is to end."""
        with self._changed:
            self._since = math.inf
            ours = self._worker is threading.current_thread()
            while ours and not self._queue and not self._closed:
                if not self._changed.wait(IDLE) and not self._queue:
                    break
            ours = self._worker is threading.current_thread()
            if not ours or not self._queue:
                if ours:
                    self._worker = None  # Here, so that nothing is left to a thread that ends.
                return None
            self._since = monotonic()
            return self._queue.popleft()
