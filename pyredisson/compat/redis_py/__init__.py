"""A drop-in replacement for redis-py's ``Lock``: the same calls on the same key, based on the token lock.

Processes that use redis-py's own lock and processes that use this one exclude each other. The lock for asyncio is
:class:`pyredisson.compat.redis_py.asyncio.Lock`.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import redis
import redis.exceptions as rx

from pyredisson._core.failures import is_interruption
from pyredisson._core.owners import HandleOwner
from pyredisson._core.runtime import run, run_to_the_end
from pyredisson._shared import process
from pyredisson._shared.owners import current_thread_owner
from pyredisson._threads.client import Redisson
from pyredisson.compat import LockBase, Place, acquire, client_behind, stored_value, text_of, translated
from pyredisson.errors import LockNotOwnedError, RedissonError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.client import ClientCore

__all__ = ["Lock", "client_of"]

_log = logging.getLogger("pyredisson.lock")

_clients: MutableMapping[Any, Redisson] = weakref.WeakKeyDictionary()
_making = threading.RLock()


def client_of(redis: redis.Redis) -> Redisson:
    """Return the client that serves the locks of a redis-py client: one per connection pool.

    It ends with the pool, or when it is closed.
    """
    with _making:
        return client_behind(redis, Redisson, _clients, lambda client: client._core.closed)


@process.on_fork
def _after_fork() -> None:
    global _making
    _making = threading.RLock()  # A thread of the parent's may be at it.


class _PerThread(Place, threading.local):
    """The hold of a lock object, of each thread its own."""


class Lock(LockBase["redis.Redis | Redisson", str]):
    """A lock with the parameters, methods and errors of redis-py's ``Lock``.

    Args:
        redis: A redis-py client, or a client of this library.
        name: The key.
        timeout: The lease in seconds. ``None``: renew the lock until it is released; it expires soon after the
            process or, with ``thread_local``, the thread has ended.
        sleep: The longest pause between two attempts, in seconds; pauses are random, at least half of it.
        blocking: Whether ``acquire()`` waits.
        blocking_timeout: Seconds to wait at most. ``None``: wait without a time limit.
        thread_local: Whether each thread has a hold of its own. ``False``: any thread that has the object may release
            the lock.
        raise_on_release_error: Whether leaving the block raises an error if the lock was lost; otherwise the loss is
            logged.

    Raises:
        ValueError, TypeError: An argument is not valid.
    """

    _places = _PerThread

    @staticmethod
    def _core_of(redis: redis.Redis | Redisson) -> ClientCore:
        return (redis if isinstance(redis, Redisson) else client_of(redis))._core

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock.

        Args:
            sleep: Replaces the lock's ``sleep``.
            blocking: Replaces the lock's ``blocking``.
            blocking_timeout: Replaces the lock's ``blocking_timeout``.
            token: The value to store. ``None``: 20 random bytes in hexadecimal.

        Returns:
            Whether the lock was acquired.

        Raises:
            redis.exceptions.RedisError: The server could not be reached, or refused the request. If the lock may have
                been acquired, it is released.
        """
        thread = current_thread_owner() if self.thread_local else None
        owner = HandleOwner(self, thread)
        core = self._settings.core(self._core, owner, token=None if token is None else text_of(token), sleep=sleep)
        wait = self._wait(blocking, blocking_timeout)
        try:
            if not run(acquire(core, wait, self.timeout, self.sleep if sleep is None else sleep)):
                return False
            self.local.hold = core
            return True
        except RedissonError as error:
            raise translated(error, self.name) from error
        except BaseException as error:  # Ctrl-C, perhaps when it was taken already, and noted nowhere.
            if is_interruption(error) and self.local.hold is not core:
                run_to_the_end(core.leave, error)
            raise

    def release(self) -> None:
        """Release the lock.

        Raises:
            redis.exceptions.LockError: The lock is not held.
            redis.exceptions.LockNotOwnedError: The lock was lost.
            redis.exceptions.RedisError: The server could not be reached; call again to continue.
        """
        try:
            run_to_the_end(self._held("release a lock that's not owned or is already unlocked.").unlock)
        except RedissonError as error:
            if isinstance(error, LockNotOwnedError):
                self.local.hold = None
            raise translated(error, self.name) from error
        except BaseException as error:
            if is_interruption(error) and self.local.hold is not None:  # Perhaps before anything was begun.
                hold, self.local.hold = self.local.hold, None
                run_to_the_end(hold.leave, error)
            raise
        self.local.hold = None

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Extend the lease; it is never shortened.

        Args:
            additional_time: Seconds to add.
            replace_ttl: Count ``additional_time`` from now instead of adding it to the remaining time.

        Raises:
            redis.exceptions.LockError: The lock is not held, or has no timeout.
            redis.exceptions.LockNotOwnedError: The lock was lost.
        """
        return self._extend("extend", additional_time, from_now=replace_ttl)

    def reacquire(self) -> Literal[True]:
        """Extend the lease to the whole timeout from now. Raises as :meth:`extend`."""
        return self._extend("reacquire", self.timeout, from_now=True)

    def _extend(self, do: str, time: float | None, *, from_now: bool) -> Literal[True]:
        hold = self._held(f"{do} an unlocked lock")
        try:
            run(hold.extend_by(self._settings.milliseconds(time, do), from_now=from_now))
        except RedissonError as error:
            raise translated(error, self.name) from error
        return True

    def locked(self) -> bool:
        """Return whether any owner holds the lock."""
        return run(stored_value(self._asking)) is not None

    def owned(self) -> bool:
        """Return whether the lock is held by this object (in this thread, with ``thread_local``)."""
        stored = run(stored_value(self._asking))
        return self.local.hold is not None and stored == self.local.token

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise rx.LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except rx.LockError as lost:
            if self.raise_on_release_error:
                raise
            _log.warning("pyredisson: lock %r was lost before its block was left: %s", self.name, lost)
