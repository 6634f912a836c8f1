"""The argument rules that locks share with ``threading``."""

from __future__ import annotations

import threading

__all__ = ["wait_of"]


def wait_of(blocking: bool, timeout: float) -> float | None:
    """Return for how many seconds ``acquire(blocking, timeout)`` has to wait; ``None``: without end.

    Raises:
        ValueError, TypeError, OverflowError: As ``threading.Lock.acquire``.
    """
    if blocking is True and type(timeout) is int and timeout == -1:
        return None
    threading.Lock().acquire(blocking, timeout)  # A free one takes any arguments that are in order.
    if not blocking:
        return 0
    return None if timeout == -1 else timeout
