"""Calls in the middle of calls: signal handlers and finalizers run between any two steps of the thread they interrupt.

A mutex that protects plain state is reentrant, or such a call would wait for the very thread that it holds up. But what
it finds may be half changed, or the request of the interrupted call in flight: then it has to be refused. What an owner
holds says so itself (``Owned.call``).
"""

from __future__ import annotations

import threading
from typing import Any


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
