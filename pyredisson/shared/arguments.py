"""The rules for arguments that façades look at themselves: those of ``threading``, back-offs, and other façades."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyredisson.config import Backoff, ExponentialBackoff

if TYPE_CHECKING:
    from pyredisson.core.backoff import Uniform
    from pyredisson.core.polling import Delays
    from pyredisson.kinds.lock import LockCore

__all__ = ["backoff_of", "cores_of", "wait_of"]


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


class UserBackoff:
    """A user's back-off, which has a source of random numbers of its own."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff

    def __repr__(self) -> str:
        return repr(self._backoff)

    def delays(self, uniform: Uniform) -> Iterable[float]:
        """See :class:`pyredisson.core.polling.Delays`."""
        return self._backoff.delays()


def backoff_of(backoff: Backoff | None) -> Delays:
    """Return the back-off to use; ``None`` is the usual one.

    Raises:
        TypeError: It is no back-off: it has no ``delays()``.
    """
    if backoff is None:
        return ExponentialBackoff()
    if isinstance(backoff, ExponentialBackoff):
        return backoff
    if not callable(getattr(backoff, "delays", None)):
        raise TypeError(f"backoff must have a method delays(), but {type(backoff).__name__} has none")
    return UserBackoff(backoff)


def cores_of(locks: Sequence[Any], kind: type[Any]) -> list[LockCore]:
    """Return the cores of locks of one form, for threads or for asyncio.

    Raises:
        TypeError: One is something else than a lock, or a lock of the other form.
    """
    for lock in locks:
        if not isinstance(lock, kind):
            form = kind.__module__.removesuffix(".primitives")
            raise TypeError(
                f"a multi-lock is made of locks of {form}, not of {type(lock).__module__}.{type(lock).__qualname__}"
            )
    return [lock._core for lock in locks]
