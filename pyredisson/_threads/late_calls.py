"""Calls that are made at a later time, for clients that were closed: their own threads have ended.

One thread of the process makes them all. It begins with the first one that is wanted, and ends after the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyredisson._owners.forks import on_fork
from pyredisson._shared.clock import monotonic
from pyredisson._threads.inherited import BackgroundThread

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
