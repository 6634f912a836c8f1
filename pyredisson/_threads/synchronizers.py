# Generated from _asyncio/synchronizers.py by `make facade`: change that file, and run it.

"""Events, conditions, barriers, bounded semaphores: one statement a method over the core (``pyredisson._kinds``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

from pyredisson._core.runtime import run, run_to_the_end
from pyredisson._shared.arguments import BY_HAND, refuse
from pyredisson._shared.callback import check_callback
from pyredisson._shared.client import Handle

if TYPE_CHECKING:
    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.semaphores import BoundedSemaphoreCore
    from pyredisson._kinds.synchronizers import BarrierCore, ConditionCore, EventCore
    from pyredisson._threads.locks import FairLock, Lock

T = TypeVar("T")


@final
class Event(Handle):
    """A flag for threads of any number of processes: they wait until it is set.

    Made by :meth:`Redisson.get_event`. A new event is not set. Source: ``threading.Event``.

    Example::

        ready = client.get_event("ready")
        ready.set()  # in any process
        ready.wait(timeout=60)
    """

    __slots__ = ()

    _core: EventCore

    def is_set(self) -> bool:
        """Return whether the event is set.

        Example::

            if ready.is_set():
                ...
        """
        return run(self._core.is_set())

    def set(self) -> None:
        """Set the event, and wake all waiters. If it is set, do nothing.

        Example::

            ready.set()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        run_to_the_end(self._core.set)

    def clear(self) -> None:
        """Clear the event: :meth:`wait` waits again until it is set. Raises as :meth:`set`.

        Example::

            ready.clear()
        """
        run_to_the_end(self._core.clear)

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the event is set; also return if it was set and cleared again during the wait.

        Example::

            if not ready.wait(timeout=0.1):
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
        return run(self._core.wait(timeout))


@final
class Condition(Handle):
    """A lock whose holders can wait for a notification by a holder in any process, without the lock meanwhile.

    Made by :meth:`Redisson.get_condition`. Source: ``threading.Condition``; Redisson's locks have no conditions. A
    waiter that cannot receive messages may wake without a notification, so use :meth:`wait_for`, or wait in a loop.

    Example::

        condition = client.get_condition("orders")
        with condition:
            condition.wait_for(lambda: orders, timeout=60)
        with condition:
            condition.notify()  # in any process
    """

    __slots__ = ("_lock",)

    _core: ConditionCore
    _lock: Lock | FairLock

    def __init__(self, client: object = BY_HAND, core: object = BY_HAND, lock: Any = None) -> None:
        super().__init__(client, core)
        self._lock = lock

    def acquire(self, blocking: bool = True, timeout: float = -1, **unknown: NoReturn) -> bool:
        """Acquire the lock of the condition; see :meth:`Lock.acquire`.

        Example::

            if condition.acquire(timeout=5):
                condition.release()
        """
        if unknown:
            refuse(self.acquire, unknown)
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release one hold of the lock; see :meth:`Lock.unlock`.

        Example::

            condition.acquire()
            condition.release()
        """
        self._lock.release()

    def locked(self) -> bool:
        """Return whether any owner holds the lock.

        Example::

            with condition:
                assert condition.locked()
        """
        return self._lock.locked()

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Release the lock, wait for a notification, and acquire the lock again.

        All holds of the calling thread are released, and acquired again before this returns or raises, however
        long that takes.

        Example::

            with condition:
                condition.wait(timeout=0.1)

        Args:
            timeout: Seconds to wait for the notification at most. ``None``: wait without a time limit.

        Returns:
            Whether there was a notification.

        Raises:
            LockNotOwnedError: The calling thread does not hold the lock.
            LockLostError: The calling thread held the lock and lost it.
            OutcomeUnknownError: A request was sent, and its outcome could not be determined in time.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused a request. The lock may not have
                been acquired again.
        """
        return run(self._core.wait(timeout))

    def wait_for(self, predicate: Callable[[], T], timeout: Seconds | None = None) -> T:
        """Wait until ``predicate()`` is true, which is called with the lock held. Raises as :meth:`wait`.

        Example::

            with condition:
                condition.wait_for(lambda: orders, timeout=5)

        Args:
            predicate: A function; its result is taken as a truth value.
            timeout: Seconds to wait at most. ``None``: wait without a time limit.

        Returns:
            What ``predicate()`` returned last; it is false if the time has elapsed.
        """
        return run(self._core.wait_for(check_callback("predicate", predicate, awaited=False), timeout))

    def notify(self, n: int = 1) -> None:
        """Wake ``n`` waiters, those who have waited longest; the calling thread must hold the lock.

        Example::

            with condition:
                condition.notify()

        Raises:
            LockNotOwnedError: The calling thread does not hold the lock.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        run_to_the_end(self._core.notify, n)

    def notify_all(self) -> None:
        """Wake all waiters; the calling thread must hold the lock. Raises as :meth:`notify`.

        Example::

            with condition:
                condition.notify_all()
        """
        run_to_the_end(self._core.notify_all)

    def __enter__(self) -> bool:
        self._lock.__enter__()
        return True

    def __exit__(self, *exc: Any) -> None:
        self._lock.__exit__(*exc)


@final
class Barrier(Handle):
    """A number of parties in any number of processes, which wait for each other; a block begins with ``wait()``.

    Made by :meth:`Redisson.get_barrier`. A client that dies at the barrier is counted for three times
    ``Config.max_wait_without_check``. Source: ``threading.Barrier``.

    Example::

        barrier = client.get_barrier("start", parties=1)  # as many as there are workers
        barrier.wait(timeout=60)
    """

    __slots__ = ()

    _core: BarrierCore

    def wait(self, timeout: Seconds | None = None) -> int:
        """Wait until as many callers wait as the barrier has parties. A wait that times out breaks the barrier.

        Example::

            if barrier.wait(timeout=60) == 0:
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
        return run(self._core.wait(timeout))

    def reset(self) -> None:
        """Make the barrier empty and whole; those who wait receive ``BrokenBarrierError``. Raises as :meth:`abort`.

        Example::

            barrier.reset()
        """
        run(self._core.reset())

    def abort(self) -> None:
        """Break the barrier: those who wait, or come until it is reset, receive ``BrokenBarrierError``.

        Example::

            barrier.abort()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        run(self._core.abort())

    def __enter__(self) -> int:
        return run(self._core.wait(None))

    def __exit__(self, *_: object) -> None:
        return None

    @property
    def parties(self) -> int:
        """The number of parties."""
        return self._core.parties

    @property
    def n_waiting(self) -> int:
        """The number of those who wait."""
        return run(self._core.n_waiting())

    @property
    def broken(self) -> bool:
        """Whether the barrier is broken."""
        return run(self._core.broken())


@final
class BoundedSemaphore(Handle):
    """A number of permits that refuses to be released more often than it was acquired.

    Made by :meth:`Redisson.get_bounded_semaphore`. A permit has no owner, as that of a :class:`Semaphore`. Source:
    ``threading.BoundedSemaphore``.

    Example::

        semaphore = client.get_bounded_semaphore("printers", value=3)
        with semaphore:
            ...
    """

    __slots__ = ()

    _core: BoundedSemaphoreCore

    def acquire(self, blocking: bool = True, timeout: Seconds | None = None, **unknown: NoReturn) -> bool:
        """Acquire a permit.

        Example::

            if semaphore.acquire(timeout=5):
                semaphore.release()

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
        return run(self._core.take(blocking, timeout))

    def release(self, n: int = 1, **unknown: NoReturn) -> None:
        """Release ``n`` permits, whichever caller acquired them, and wake that number of waiters.

        Example::

            semaphore.acquire()
            semaphore.release()

        Raises:
            ValueError: More would be available than the semaphore had at first; nothing was released. Or ``n`` < 1.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`Semaphore.release`.
        """
        if unknown:
            refuse(self.release, unknown)
        run_to_the_end(self._core.give, n)

    def locked(self) -> bool:
        """Return whether no permit is available.

        Example::

            print(semaphore.locked())
        """
        return run(self._core.locked())

    def __enter__(self) -> bool:
        return run(self._core.enter())

    def __exit__(self, *exc: Any) -> None:
        run_to_the_end(self._core.leave, exc[1])
