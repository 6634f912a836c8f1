"""A drop-in replacement for redis-py's asyncio ``Lock``: the same calls on the same key, based on the token lock."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import MutableMapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import redis.asyncio
import redis.exceptions as rx

from pyredisson._asyncio.client import Redisson
from pyredisson._core.failures import is_interruption
from pyredisson._core.owners import HandleOwner
from pyredisson.compat import LockBase, Place, acquire, client_behind, stored_value, text_of, translated
from pyredisson.errors import LockNotOwnedError, RedissonError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.client import ClientCore
    from pyredisson._kinds.token_lock import TokenLockCore

__all__ = ["Lock", "client_of"]

_log = logging.getLogger("pyredisson.lock")

_clients: MutableMapping[Any, Redisson] = weakref.WeakKeyDictionary()


def client_of(redis: redis.asyncio.Redis) -> Redisson:
    """Return the client that serves the locks of a redis-py client: one per connection pool.

    It ends with the pool, or when it is closed.
    """
    return client_behind(redis, Redisson, _clients, lambda client: client._core.closed)


class _PerTask(Place):
    """The holds of a lock object, one per task; any task may release the hold of a task that has ended.

    That is how ``asyncio.wait_for(lock.acquire(), 5)`` leaves it, which runs in a task of its own before Python 3.12.
    """

    def __init__(self) -> None:
        self._holds: dict[TokenLockCore, weakref.ref[asyncio.Task[Any]]] = {}

    @property
    def hold(self) -> TokenLockCore | None:
        """The hold of the running task."""
        running = asyncio.current_task()
        left_behind: TokenLockCore | None = None
        for hold, ref in self._holds.items():
            task = ref()
            if task is running:
                return hold
            if task is None or task.done():
                left_behind = hold
        return left_behind

    @hold.setter
    def hold(self, hold: TokenLockCore | None) -> None:
        task = asyncio.current_task()
        if hold is None:
            self._holds.pop(self.hold, None)  # type: ignore[arg-type]
            return
        assert task is not None
        for known, ref in list(self._holds.items()):
            by = ref()
            if by is task or ((by is None or by.done()) and known.remaining() <= 0):
                del self._holds[known]
        self._holds[hold] = weakref.ref(task)


class Lock(LockBase["redis.asyncio.Redis | Redisson", "str | bytes | memoryview"]):
    """A lock with the parameters, methods and errors of redis-py's asyncio ``Lock``.

    Args:
        redis: A redis-py client, or a client of this library.
        name: The key.
        timeout: The lease in seconds. ``None``: renew the lock until it is released; it expires soon after the
            process or, with ``thread_local``, the task has ended.
        sleep: The longest pause between two attempts, in seconds; pauses are random, at least half of it.
        blocking: Whether ``acquire()`` waits.
        blocking_timeout: Seconds to wait at most. ``None``: wait without a time limit.
        thread_local: Whether each task has a hold of its own. ``False``: any task that has the object may release the
            lock.
        raise_on_release_error: Whether leaving the block raises an error if the lock was lost; otherwise the loss is
            logged.

    Raises:
        ValueError, TypeError: An argument is not valid.
    """

    _places = _PerTask

    @staticmethod
    def _core_of(redis: redis.asyncio.Redis | Redisson) -> ClientCore:
        return (redis if isinstance(redis, Redisson) else client_of(redis))._core

    async def acquire(
        self, blocking: bool | None = None, blocking_timeout: float | None = None, token: str | bytes | None = None
    ) -> bool:
        """Acquire the lock. As in redis-py, there is no ``sleep`` parameter here.

        Args:
            blocking: Replaces the lock's ``blocking``.
            blocking_timeout: Replaces the lock's ``blocking_timeout``.
            token: The value to store. ``None``: 20 random bytes in hexadecimal.

        Returns:
            Whether the lock was acquired.

        Raises:
            redis.exceptions.RedisError: The server could not be reached, or refused the request. If the lock may have
                been acquired, it is released.
        """
        core = self._settings.core(self._core, HandleOwner(self), token=None if token is None else text_of(token))
        wait = self._wait(blocking, blocking_timeout)
        try:
            taken = await acquire(core, wait, self.timeout, self.sleep)
        except RedissonError as error:
            raise translated(error, self._settings.name) from error
        if taken:  # Nothing can come in between.
            self.local.hold = core
        return taken

    async def release(self) -> None:
        """Release the lock.

        Raises:
            redis.exceptions.LockError: The lock is not held.
            redis.exceptions.LockNotOwnedError: The lock was lost.
            redis.exceptions.RedisError: The server could not be reached; call again to continue.
        """
        hold = self._held("release a lock that's not owned or is already unlocked.")
        try:
            await hold.unlock()
        except RedissonError as error:
            if isinstance(error, LockNotOwnedError):
                self.local.hold = None
            raise translated(error, self._settings.name) from error
        except BaseException as error:
            if is_interruption(error):  # Cancelled: it is finished nevertheless.
                self.local.hold = None
            raise
        self.local.hold = None

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Extend the lease; it is never shortened.

        Args:
            additional_time: Seconds to add.
            replace_ttl: Count ``additional_time`` from now instead of adding it to the remaining time.

        Raises:
            redis.exceptions.LockError: The lock is not held, or has no timeout.
            redis.exceptions.LockNotOwnedError: The lock was lost.
        """
        return await self._extend("extend", additional_time, from_now=replace_ttl)

    async def reacquire(self) -> Literal[True]:
        """Extend the lease to the whole timeout from now. Raises as :meth:`extend`."""
        return await self._extend("reacquire", self.timeout, from_now=True)

    async def _extend(self, do: str, time: float | None, *, from_now: bool) -> Literal[True]:
        hold = self._held(f"{do} an unlocked lock")
        try:
            await hold.extend_by(self._settings.milliseconds(time, do), from_now=from_now)
        except RedissonError as error:
            raise translated(error, self._settings.name) from error
        return True

    async def locked(self) -> bool:
        """Return whether any owner holds the lock."""
        return await stored_value(self._asking) is not None

    async def owned(self) -> bool:
        """Return whether the lock is held by this object (in this task, with ``thread_local``)."""
        stored = await stored_value(self._asking)
        return self.local.hold is not None and stored == self.local.token

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise rx.LockError("Unable to acquire lock within the time specified", lock_name=self._settings.name)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except rx.LockError as lost:
            if self.raise_on_release_error:
                raise
            _log.warning("pyredisson: lock %r was lost before its block was left: %s", self.name, lost)
