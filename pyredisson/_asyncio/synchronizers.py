"""Events, conditions, barriers, bounded semaphores: one statement a method over the core (``pyredisson._kinds``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

from pyredisson._shared.arguments import BY_HAND, refuse
from pyredisson._shared.callback import check_callback
from pyredisson._shared.client import Handle

if TYPE_CHECKING:
    from pyredisson._asyncio.locks import FairLock, Lock
    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.semaphores import BoundedSemaphoreCore
    from pyredisson._kinds.synchronizers import BarrierCore, ConditionCore, EventCore

T = TypeVar("T")


@final
class Event(Handle):
    """A flag for tasks of any number of processes: they wait until it is set.

    Made by :meth:`Redisson.get_event`. A new event is not set. Source: ``threading.Event``.

    Example::

        ready = client.get_event("ready")
        await ready.set()  # in any process
        await ready.wait(timeout=60)
    """

    __slots__ = ()

    _core: EventCore

    async def is_set(self) -> bool:
        """Return whether the event is set.

        Example::

            if await ready.is_set():
                ...
        """
        return await self._core.is_set()

    async def set(self) -> None:
        """Set the event, and wake all waiters. If it is set, do nothing.

        Example::

            await ready.set()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.set()

    async def clear(self) -> None:
        """Clear the event: :meth:`wait` waits again until it is set. Raises as :meth:`set`.

        Example::

            await ready.clear()
        """
        await self._core.clear()

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the event is set; also return if it was set and cleared again during the wait.

        Example::

            if not await ready.wait(timeout=0.1):
                print("not in time")

        Args:
            timeout: Seconds to wait at most. 0: check once. ``None``: wait without a time limit.

        Returns:
            Whether the event was set.

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
        """
        return await self._core.wait(timeout)


@final
class Condition(Handle):
    """A lock whose holders can wait for a notification by a holder in any process, without the lock meanwhile.

    Made by :meth:`Redisson.get_condition`. Source: ``threading.Condition``; Redisson's locks have no conditions. A
    waiter that cannot receive messages may wake without a notification, so use :meth:`wait_for`, or wait in a loop.

    Example::

        condition = client.get_condition("orders")
        async with condition:
            await condition.wait_for(lambda: orders, timeout=60)
        async with condition:
            await condition.notify()  # in any process
    """

    __slots__ = ("_lock",)

    _core: ConditionCore
    _lock: Lock | FairLock

    def __init__(self, client: object = BY_HAND, core: object = BY_HAND, lock: Any = None) -> None:
        super().__init__(client, core)
        self._lock = lock

    async def acquire(self, blocking: bool = True, timeout: float = -1, **unknown: NoReturn) -> bool:
        """Acquire the lock of the condition; see :meth:`Lock.acquire`.

        Example::

            if await condition.acquire(timeout=5):
                await condition.release()
        """
        if unknown:
            refuse(self.acquire, unknown)
        return await self._lock.acquire(blocking, timeout)

    async def release(self) -> None:
        """Release one hold of the lock; see :meth:`Lock.unlock`.

        Example::

            await condition.acquire()
            await condition.release()
        """
        await self._lock.release()

    async def locked(self) -> bool:
        """Return whether any owner holds the lock.

        Example::

            async with condition:
                assert await condition.locked()
        """
        return await self._lock.locked()

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Release the lock, wait for a notification, and acquire the lock again.

        All holds of the calling task are released, and acquired again before this returns or raises, however
        long that takes.

        Example::

            async with condition:
                await condition.wait(timeout=0.1)

        Args:
            timeout: Seconds to wait for the notification at most. ``None``: wait without a time limit.

        Returns:
            Whether there was a notification.

        Raises:
            LockNotOwnedError: The calling task does not hold the lock.
            LockLostError: The calling task held the lock and lost it.
            OutcomeUnknownError: A request was sent, and its outcome could not be determined in time.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused a request. The lock may not have
                been acquired again.
        """
        return await self._core.wait(timeout)

    async def wait_for(self, predicate: Callable[[], T], timeout: Seconds | None = None) -> T:
        """Wait until ``predicate()`` is true, which is called with the lock held. Raises as :meth:`wait`.

        Example::

            async with condition:
                await condition.wait_for(lambda: orders, timeout=5)

        Args:
            predicate: A function; its result is taken as a truth value.
            timeout: Seconds to wait at most. ``None``: wait without a time limit.

        Returns:
            What ``predicate()`` returned last; it is false if the time has elapsed.
        """
        return await self._core.wait_for(check_callback("predicate", predicate, awaited=False), timeout)

    async def notify(self, n: int = 1) -> None:
        """Wake ``n`` waiters, those who have waited longest; the calling task must hold the lock.

        Example::

            async with condition:
                await condition.notify()

        Raises:
            LockNotOwnedError: The calling task does not hold the lock.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.notify(n)

    async def notify_all(self) -> None:
        """Wake all waiters; the calling task must hold the lock. Raises as :meth:`notify`.

        Example::

            async with condition:
                await condition.notify_all()
        """
        await self._core.notify_all()

    async def __aenter__(self) -> bool:
        await self._lock.__aenter__()
        return True

    async def __aexit__(self, *exc: Any) -> None:
        await self._lock.__aexit__(*exc)


@final
class Barrier(Handle):
    """A number of parties in any number of processes, which wait for each other; a block begins with ``wait()``.

    Made by :meth:`Redisson.get_barrier`. A client that dies at the barrier is counted for three times
    ``Config.max_wait_without_check``. Source: ``threading.Barrier``.

    Example::

        barrier = client.get_barrier("start", parties=1)  # as many as there are workers
        await barrier.wait(timeout=60)
    """

    __slots__ = ()

    _core: BarrierCore

    async def wait(self, timeout: Seconds | None = None) -> int:
        """Wait until as many callers wait as the barrier has parties. A wait that times out breaks the barrier.

        Example::

            if await barrier.wait(timeout=60) == 0:
                print("all are here")

        Args:
            timeout: Seconds to wait at most. ``None``: that of the barrier.

        Returns:
            A number from 0 to ``parties`` - 1, which is another one for each of those who waited.

        Raises:
            threading.BrokenBarrierError: The barrier is broken, or was broken or reset meanwhile.
            OutcomeUnknownError: A request was sent, and its outcome could not be determined in time.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
        """
        return await self._core.wait(timeout)

    async def reset(self) -> None:
        """Make the barrier empty and whole; those who wait receive ``BrokenBarrierError``. Raises as :meth:`abort`.

        Example::

            await barrier.reset()
        """
        await self._core.reset()

    async def abort(self) -> None:
        """Break the barrier: those who wait, or come until it is reset, receive ``BrokenBarrierError``.

        Example::

            await barrier.abort()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.abort()

    async def __aenter__(self) -> int:
        return await self._core.wait(None)

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def parties(self) -> int:
        """The number of parties."""
        return self._core.parties

    @property
    async def n_waiting(self) -> int:
        """The number of those who wait."""
        return await self._core.n_waiting()

    @property
    async def broken(self) -> bool:
        """Whether the barrier is broken."""
        return await self._core.broken()


@final
class BoundedSemaphore(Handle):
    """A number of permits that refuses to be released more often than it was acquired.

    Made by :meth:`Redisson.get_bounded_semaphore`. A permit has no owner, as that of a :class:`Semaphore`. Source:
    ``threading.BoundedSemaphore``.

    Example::

        semaphore = client.get_bounded_semaphore("printers", value=3)
        async with semaphore:
            ...
    """

    __slots__ = ()

    _core: BoundedSemaphoreCore

    async def acquire(self, blocking: bool = True, timeout: Seconds | None = None, **unknown: NoReturn) -> bool:
        """Acquire a permit.

        Example::

            if await semaphore.acquire(timeout=5):
                await semaphore.release()

        Args:
            blocking: Whether to wait.
            timeout: Seconds to wait at most. ``None``: wait without a time limit.

        Returns:
            Whether a permit was acquired in time.

        Raises:
            ValueError: A timeout, though it is not to wait.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`Semaphore.acquire`.
        """
        if unknown:
            refuse(self.acquire, unknown)
        return await self._core.take(blocking, timeout)

    async def release(self, n: int = 1, **unknown: NoReturn) -> None:
        """Release ``n`` permits, whichever caller acquired them, and wake that number of waiters.

        Example::

            await semaphore.acquire()
            await semaphore.release()

        Raises:
            ValueError: More would be available than the semaphore had at first; nothing was released. Or ``n`` < 1.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`Semaphore.release`.
        """
        if unknown:
            refuse(self.release, unknown)
        await self._core.give(n)

    async def locked(self) -> bool:
        """Return whether no permit is available.

        Example::

            print(await semaphore.locked())
        """
        return await self._core.locked()

    async def __aenter__(self) -> bool:
        return await self._core.enter()

    async def __aexit__(self, *exc: Any) -> None:
        await self._core.leave(exc[1])
