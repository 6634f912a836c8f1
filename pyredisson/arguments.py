"""The rules for arguments that façades look at themselves: those of ``threading``, and back-offs."""

from __future__ import annotations

import threading

from pyredisson.config import Backoff, ExponentialBackoff

__all__ = ["backoff_of", "wait_of"]


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


def backoff_of(backoff: Backoff | None) -> Backoff:
    """Return the back-off to use; ``None`` is the usual one.

    Raises:
        TypeError: It is no back-off: it has no ``delays()``.
    """
    if backoff is None:
        return ExponentialBackoff()
    if not callable(getattr(backoff, "delays", None)):
        raise TypeError(f"backoff must have a method delays(), and {type(backoff).__name__} has none")
    return backoff
