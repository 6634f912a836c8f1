"""Calls in the middle of calls: signal handlers and finalizers run between any two steps of the thread they interrupt.

A mutex that protects plain state is reentrant, or such a call would wait for the very thread that it holds up. But what
it finds may be half changed, or the request of the interrupted call in flight: then it has to be refused.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pyredisson.core.running import run

#: Where the protocol is.
_PROTOCOL: Final = tuple(
    str(Path(__file__).parent.parent / place) for place in ("core", "kinds", "quorum", "threads/fast_path.py")
)

#: Whether the calling thread is inside of a reentrant mutex.
inside: Callable[[Any], bool] = operator.methodcaller("_is_owned")


def interrupts(thing: object) -> bool:
    """Whether the calling thread has interrupted another call of its own that is at work on this."""
    return any(_is_at(value, thing) for frame in _interrupted() for value in frame.f_locals.values())


def interrupts_a_call() -> bool:
    """Whether the calling thread has interrupted any call of its own."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is run.__code__ or frame.f_code.co_filename == _PROTOCOL[-1]:
            return True
        frame = frame.f_back
    return False


def _interrupted() -> list[FrameType]:
    """What the calls that were interrupted are at in the protocol; this one's own is behind the first ``run``."""
    found: list[FrameType] = []
    calls = 0
    own = False  # The fast path that has handed this very call over.
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is run.__code__:
            calls += 1
            own = calls == 1
        else:
            if calls and not own and frame.f_code.co_filename.startswith(_PROTOCOL):
                found.append(frame)
            own = False
        frame = frame.f_back
    return found


def _is_at(value: object, thing: object) -> bool:
    if value is thing:
        return True
    several = value if isinstance(value, (list, tuple)) else getattr(value, "ownerships", None)
    return isinstance(several, (list, tuple)) and any(each is thing for each in several)


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
