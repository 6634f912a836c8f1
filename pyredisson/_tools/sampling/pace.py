"""How often something that costs a server time may be repeated, and where it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, final

T = TypeVar("T")


@final
class Pace:
    """Lets a repeated work take only a part of the time, however long it takes.

    Args:
        rest: How many times as long as the work took pass until the next one is due.
        least: Seconds that pass at least.
        ahead: Seconds by which it may be repeated too early: a few times in a row.
    """

    def __init__(self, rest: float, *, least: float = 0.0, ahead: float = 0.0) -> None:
        self._rest, self._least, self._ahead = rest, least, ahead
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it may be done now."""
        return time.monotonic() >= self._due

    def pause_after(self, seconds: float) -> float:
        """Return for how many seconds to rest after work that took this many."""
        return max(self._least, self._rest * seconds)

    def worked(self, seconds: float) -> None:
        """Note that it was done just now."""
        self._due = max(self._due, time.monotonic() - self._ahead) + self.pause_after(seconds)


def in_daemon_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Call a function in a thread that the end of this process does not wait for. It may only read."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # From now on it cannot be cancelled: it has a result in any case.

    def run() -> None:
        try:
            value = call()
        except Exception as error:
            result.set_exception(error)
        else:
            result.set_result(value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result
