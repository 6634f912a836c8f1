"""The synchronizers for threads: one statement a method over the core. What they do is in ``pyredisson.core``."""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, final

from pyredisson.arguments import wait_of
from pyredisson.core.fenced_lock import FencedLockCore
from pyredisson.core.lock import LockCore
from pyredisson.core.runtime import run, run_to_the_end
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds
    from pyredisson.threads.client import Redisson

__all__ = ["FairLock", "FencedLock", "Hold", "Lock", "NonReentrantFairLock", "NonReentrantLock", "SpinLock"]


class Lock:
    """A reentrant lock that excludes threads of any number of processes, Java ones on Redisson among them.

    Made by :meth:`Redisson.get_lock`. A handle is cheap and may be shared by threads; two handles of one name are the
    same lock. The owner is the calling thread. Source: Redisson's ``RLock``.

    Example::

        lock = client.get_lock("orders")
        with lock:
            ...
    """

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Redisson, core: LockCore) -> None:
        self._client = client  # Keeps the client's threads going as long as a handle is in use.
        self._core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._core.names.raw

    def lock(self, lease_time: Seconds | None = None) -> None:
        """Take the lock, waiting as long as it takes; once more if the calling thread holds it already.

        Args:
            lease_time: Seconds after which the lock ends by itself. ``None``: it is held until it is released, and the
                watchdog keeps it alive as long as this process and the calling thread live.

        Raises:
            LockLostError: This thread held it already, and lost it: unlock first.
            OutcomeUnknownError: The request was sent and could not be settled.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        run(self._core.lock(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> bool:
        """Take the lock if it is to be had within ``wait_time``.

        Args:
            wait_time: Seconds to wait at most; 0 is one attempt, ``None`` is as long as it takes.
            lease_time: As for :meth:`lock`.

        Returns:
            Whether the calling thread holds it now.

        Raises:
            LockLostError, OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`lock`; an
                error of the connection also when the time ended while the server was away.
        """
        return run(self._core.try_lock(wait_time, lease_time))

    def unlock(self) -> None:
        """Give back one hold of the calling thread; the last one frees the lock and wakes a waiter.

        Raises:
            LockLostError: The lease ran out, or the lock was taken away.
            LockNotOwnedError: The calling thread does not hold it.
            OutcomeUnknownError: The request was sent and could not be settled. The lock is renewed no longer; calling
                again continues.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached; calling again continues.
        """
        run_to_the_end(self._core.unlock)

    def force_unlock(self) -> bool:
        """Free the lock, whoever holds it. Its holders of this client are told at once, others when they next look.

        Returns:
            Whether it was locked.
        """
        return run(self._core.force_unlock())

    def is_locked(self) -> bool:
        """Return whether anybody holds the lock."""
        return run(self._core.is_locked())

    def is_held_by_current_thread(self) -> bool:
        """Return whether the calling thread holds the lock."""
        return run(self._core.is_held_by_current_thread())

    def is_held_by_thread(self, thread_id: int) -> bool:
        """Return whether a thread of this client, named by its :func:`pyredisson.current_thread_id`, holds it."""
        return run(self._core.is_held_by_thread(thread_id))

    def get_hold_count(self) -> int:
        """Return how often the calling thread holds the lock; 0 if it does not."""
        return run(self._core.get_hold_count())

    def remain_time_to_live(self) -> float | None:
        """Return for how many seconds the lock is locked as things stand, ``None`` if it is free."""
        return run(self._core.remain_time_to_live())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock as ``threading.Lock.acquire`` does, with its very rules for the arguments.

        Raises:
            ValueError, TypeError, OverflowError: As ``threading.Lock.acquire``.
        """
        return run(self._core.acquire(wait_of(blocking, timeout)))

    def release(self) -> None:
        """Give back one hold; see :meth:`unlock`."""
        run_to_the_end(self._core.unlock)

    def locked(self) -> bool:
        """Return whether anybody holds the lock."""
        return run(self._core.is_locked())

    def __enter__(self) -> bool:
        run(self._core.lock())
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._core.leave, error)

    def hold(self, wait_time: Seconds | None = None, lease_time: Seconds | None = None) -> Hold:
        """Hold the lock for a block that is told when it loses it.

        Example::

            with lock.hold(wait_time=5) as lease:
                ...
                lease.ensure_held()

        Args:
            wait_time: Seconds to wait at most; ``None``: as long as it takes.
            lease_time: As for :meth:`lock`.

        Raises:
            LockTimeoutError: On entering: it was not got in time.
            LockLostError: On leaving: it was lost meanwhile. An exception of the body goes first.
        """
        return Hold(self, wait_time, lease_time)


@final
class NonReentrantLock(Lock):
    """A :class:`Lock` that its holder cannot take twice: trying to raises ``LockError`` at once.

    Made by :meth:`Redisson.get_non_reentrant_lock`. Source: Redisson's ``RedissonNonReentrantLock``.
    """

    __slots__ = ()


@final
class FairLock(Lock):
    """A :class:`Lock` that is had in the order in which it was asked for, across threads and processes.

    Made by :meth:`Redisson.get_fair_lock`. Those who wait stand in a queue in Redis. One that gives up leaves it; one
    that dies delays those behind it until its time there is over (its wait, or ``Config.fair_lock_wait_timeout``).
    One attempt (``try_lock()``) never queues up, and overtakes nobody. Source: Redisson's ``RedissonFairLock``.
    """

    __slots__ = ()


@final
class NonReentrantFairLock(Lock):
    """A :class:`FairLock` that its holder cannot take twice: trying to raises ``LockError`` at once.

    Made by :meth:`Redisson.get_non_reentrant_fair_lock`. Source: Redisson's ``RedissonNonReentrantFairLock``.
    """

    __slots__ = ()


@final
class SpinLock(Lock):
    """A :class:`Lock` whose waiters ask again and again, with pauses, instead of being told.

    Made by :meth:`Redisson.get_spin_lock`. It excludes the holders of a :class:`Lock` of the same name, but wakes none
    of its waiters. Source: Redisson's ``RedissonSpinLock``.
    """

    __slots__ = ()


@final
class FencedLock(Lock):
    """A :class:`Lock` that gives each hold a token, greater than those of all holds before it.

    Made by :meth:`Redisson.get_fenced_lock`. Send the token along with each write, and let the place that is written to
    refuse a smaller one than it has seen: a holder that was paused past its lease then does no harm. A re-entry has
    the token of the hold that it joins. Source: Redisson's ``RFencedLock``.
    """

    __slots__ = ("_core",)

    _core: FencedLockCore

    def __init__(self, client: Redisson, core: FencedLockCore) -> None:
        super().__init__(client, core)
        self._core = core

    def lock_and_get_token(self, lease_time: Seconds | None = None) -> int:
        """Take the lock as :meth:`lock` does, and return the token of the hold."""
        return run(self._core.lock_and_get_token(lease_time))

    def try_lock_and_get_token(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> int | None:
        """Take the lock as :meth:`try_lock` does, and return the token of the hold; ``None`` if it was not got."""
        return run(self._core.try_lock_and_get_token(wait_time, lease_time))

    def get_token(self) -> int | None:
        """Return the token that was handed out last, to whomever; ``None`` if none ever was."""
        return run(self._core.get_token())


@final
class Hold:
    """What ``lock.hold()`` returns: a context manager whose value is a :class:`Lease`. One use each."""

    __slots__ = ("_lease", "_lease_time", "_lock", "_wait_time")

    def __init__(self, lock: Lock, wait_time: Seconds | None, lease_time: Seconds | None) -> None:
        self._lock = lock
        self._wait_time = wait_time
        self._lease_time = lease_time
        self._lease: Lease | None = None

    def __enter__(self) -> Lease:
        self._lease = run(self._lock._core.hold(self._wait_time, self._lease_time))
        return self._lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._leave, error)

    def _leave(self, error: BaseException | None, begun: list[None]) -> Coroutine[Any, Any, None]:
        if self._lease is not None:
            self._lease.end()
        return self._lock._core.leave(error, begun)
