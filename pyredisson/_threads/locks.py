# Generated from _asyncio/locks.py by `make facade`: change that file, and run it.

"""The locks: one statement a method over the core. What they do is in ``pyredisson._kinds``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final, overload

from pyredisson import _kinds as kinds
from pyredisson._core.deadline import Seconds, wait_seconds
from pyredisson._core.runtime import run, run_to_the_end
from pyredisson._shared.arguments import cores_of, refuse, wait_of
from pyredisson._shared.client import Handle
from pyredisson._threads import fast_path
from pyredisson._threads.hold import Hold
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from pyredisson._kinds.lock import FencedLockCore, LockCore
    from pyredisson._kinds.read_write_lock import ReadWriteLockCore
    from pyredisson._quorum.multi_lock import MultiLockCore


class AnyLock(Handle, shown="Lock"):
    """The methods that :class:`Lock` and :class:`MultiLock` share."""

    __slots__ = ()

    _core: LockCore | MultiLockCore

    def lock(self, lease_time: Seconds | None = None, **unknown: NoReturn) -> None:
        """Acquire the lock, waiting without a time limit.

        If the calling thread already holds the lock, acquire it once more. :meth:`hold` is simpler: it
        releases the lock at the end of a block, and reports a loss.

        Example::

            lock.lock()
            try:
                ...
            finally:
                lock.unlock()

        Args:
            lease_time: Seconds after which the lock expires by itself. ``None``: hold it until it is released; the
                watchdog renews it while this process and the calling thread live.

        Raises:
            LockLostError: The calling thread held the lock and lost it. It must unlock first.
            LockTimeoutError: Spin and token locks with ``tries`` only: all of them were in vain.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time.
            NoSyncedSlavesError: Too few replicas acknowledged the lock in time. It was released again.
            QuorumUnreachableError: Quorums only: too few nodes answered within ``Config.quorum_retry_timeout``.
            ValueError: Quorums only: two members are on the same server.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        if unknown:
            refuse(self.lock, unknown)
        fast_path.acquire(self._core, None, lease_time)

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None, **unknown: NoReturn) -> bool:
        """Try to acquire the lock, waiting at most ``wait_time`` seconds.

        Example::

            if lock.try_lock(wait_time=5):
                try:
                    ...
                finally:
                    lock.unlock()

        Args:
            wait_time: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.
            lease_time: As for :meth:`lock`.

        Returns:
            Whether the lock was acquired; ``False`` if another owner holds it.

        Raises:
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
            QuorumUnreachableError: Quorums only: too few nodes answered in time. What they granted was released.
            LockLostError, OutcomeUnknownError, NoSyncedSlavesError, ValueError, ClientClosedError: As :meth:`lock`.
        """
        if unknown:
            refuse(self.try_lock, unknown)
        return fast_path.acquire(self._core, wait_seconds(wait_time), lease_time)

    def unlock(self) -> None:
        """Release one hold of the calling thread. Releasing the last one frees the lock and wakes a waiter.

        A quorum releases on every node. A node that does not answer is retried in the background until the lease there
        has expired.

        Example::

            lock.lock(lease_time=60)
            lock.unlock()

        Raises:
            LockLostError: The lease expired, or the lock was deleted or force-unlocked. Of a quorum: too few members
                were still held.
            LockNotOwnedError: The calling thread does not hold the lock.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time; of a quorum: too
                few nodes have confirmed it within ``Config.timeout``. The lock is no longer renewed; call again to
                continue.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached. The release is completed in the background as
                soon as it can be; another call continues it, and releases no further hold.
        """
        run_to_the_end(fast_path.release, self._core, False, None)

    def extend(self, lease_time: Seconds) -> bool:
        """Let the hold of the calling thread last for at least ``lease_time`` seconds from now on; never shorten it.

        Of a quorum, a majority has to confirm it within its validity. The watchdog goes on to renew what it renews.

        Example::

            lock.lock(lease_time=30)
            if lock.extend(60):
                print("for another minute")
            lock.unlock()

        Args:
            lease_time: Seconds from now on.

        Returns:
            Whether it was confirmed within ``Config.timeout``. If not, the lease may still end as it would have.

        Raises:
            LockLostError: The lease expired, or the lock was deleted or force-unlocked.
            LockNotOwnedError: The calling thread does not hold the lock.
            ValueError, TypeError: The time is not valid.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server refused the request.
        """
        return run(self._core.extend(lease_time))

    def ensure_held(self) -> None:
        """Raise an error unless the calling thread's hold is certain at this moment. Asks no server.

        For a function that must be called only while the lock is held. A block of :meth:`hold` that was entered in
        another thread has its :class:`Lease` for that.

        Example::

            def save(order: int) -> None:
                lock.ensure_held()  # right before what only the holder may do
                print("saved", order)

        Raises:
            LockLostError: The lease expired, or the lock was deleted or force-unlocked.
            LockNotOwnedError: The calling thread does not hold the lock, or is releasing it.
        """
        self._core.ensure_held()

    def force_unlock(self) -> bool:
        """Free the lock, or all members of a multi-lock, regardless of the holder.

        Holders of this client are notified immediately, holders of other clients at their next check. A hold of the
        caller itself ends without a loss; one that was lost before stays lost, until it is unlocked.

        Example::

            if lock.force_unlock():
                print("it was locked")

        Returns:
            Whether it was locked.

        Raises:
            QuorumUnreachableError: Too few nodes of a quorum have confirmed that it is free.
        """
        return run(self._core.force_unlock())

    def is_locked(self) -> bool:
        """Return whether any owner holds the lock. For a multi-lock: whether too few members are free to acquire it.

        Example::

            if lock.is_locked():
                print("busy")

        Raises:
            QuorumUnreachableError: Too few nodes of a quorum have answered to decide it.
        """
        return run(self._core.is_locked())

    def is_held_by_current_thread(self) -> bool:
        """Return whether the calling thread holds the lock. A multi-lock answers without asking a server.

        Example::

            with lock.hold():
                assert lock.is_held_by_current_thread()
        """
        return run(self._core.is_held_by_current_thread())

    def get_hold_count(self) -> int:
        """Return how often the calling thread holds the lock; 0 if not. A multi-lock asks no server.

        Example::

            with lock.hold():
                assert lock.get_hold_count() == 1
        """
        return run(self._core.get_hold_count())

    def acquire(self, blocking: bool = True, timeout: float | None = -1, **unknown: NoReturn) -> bool:
        """Acquire the lock as ``threading.Lock.acquire`` does, with the same rules for its arguments.

        Example::

            if lock.acquire(timeout=5):
                lock.release()

        Args:
            blocking: Whether to wait.
            timeout: Seconds to wait at most; -1 or ``None``: without a time limit.

        Returns:
            Whether the lock was acquired.

        Raises:
            ValueError, TypeError, OverflowError: As ``threading.Lock.acquire``.
            RedissonError, redis.exceptions.RedisError: As :meth:`try_lock`.
        """
        if unknown:
            refuse(self.acquire, unknown)
        return fast_path.acquire(self._core, wait_of(blocking, timeout))

    def release(self) -> None:
        """Release one hold of the calling thread; see :meth:`unlock`.

        Example::

            lock.acquire()
            lock.release()
        """
        run_to_the_end(fast_path.release, self._core, False, None)

    def locked(self) -> bool:
        """Return whether any owner holds the lock; see :meth:`is_locked`.

        Example::

            with lock.hold():
                assert lock.locked()
        """
        return run(self._core.is_locked())

    def __enter__(self) -> Self:
        fast_path.acquire(self._core, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(fast_path.release, self._core, True, error)

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        on_loss: Callable[[], object] | None = None,
    ) -> Hold[Lease[None]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
    ) -> Hold[Lease[None] | None]: ...

    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        on_loss: Callable[[], object] | None = None,
        **unknown: NoReturn,
    ) -> Hold[Any]:
        """Return a context manager that holds the lock for its block and reports a loss.

        The hold belongs to the block: the block may be left in another thread.

        Example::

            with lock.hold(wait_time=5) as lease:
                ...
                lease.ensure_held()

        Args:
            wait_time: Seconds to wait at most. ``None``: wait without a time limit.
            lease_time: As for :meth:`lock`.
            skip: If the lock was not acquired in time, run the block without it, with ``None`` in place of a lease.
            on_loss: Called once, without arguments, if this block's hold is lost: ``stop.set``, say. It is called as
                ``Config.on_lock_lost`` is.

        Returns:
            A context manager whose value is a :class:`Lease`.

        Raises:
            LockTimeoutError: On entering: the lock was not acquired in time (unless ``skip``).
            LockLostError: On leaving: the lock was lost. An exception of the block takes precedence.
            RedissonError, redis.exceptions.RedisError: As :meth:`try_lock` and :meth:`unlock`.
        """
        if unknown:
            refuse(self.hold, unknown)
        return Hold(self, wait_time, lease_time, skip, on_loss)


class Lock(AnyLock):
    """A reentrant lock that excludes threads of any number of processes, including Java processes with Redisson.

    Made by :meth:`Redisson.get_lock`. A handle is cheap and may be shared by threads; two handles of one name are the
    same lock. The owner is the calling thread. Source: Redisson's ``RLock``.

    Example::

        lock = client.get_lock("orders")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()

    _core: LockCore  # pyright: ignore[reportIncompatibleVariableOverride]

    def is_held_by_thread(self, thread_id: int) -> bool:
        """Return whether the thread of this client with that :func:`pyredisson.current_thread_id` holds the lock.

        Example::

            with lock.hold():
                assert lock.is_held_by_thread(current_thread_id())
        """
        return run(self._core.is_held_by_thread(thread_id))

    def remain_time_to_live(self) -> float | None:
        """Return the seconds until the lock expires unless it is renewed; ``None`` if it is free.

        Example::

            with lock.hold(lease_time=60):
                print(lock.remain_time_to_live())
        """
        return run(self._core.remain_time_to_live())


@final
class NonReentrantLock(Lock):
    """A :class:`Lock` that its holder cannot acquire twice: trying to raises ``LockError`` immediately.

    Made by :meth:`Redisson.get_non_reentrant_lock`. Source: Redisson's ``RedissonNonReentrantLock``.

    Example::

        lock = client.get_non_reentrant_lock("report")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()


@final
class FairLock(Lock):
    """A :class:`Lock` granted in request order (first in, first out) across threads and processes.

    Made by :meth:`Redisson.get_fair_lock`. Waiters stand in a queue in Redis. A waiter that gives up leaves the queue;
    a waiter that dies delays those after it until its wait time ends, at most ``Config.fair_lock_wait_timeout``. A
    single attempt (``try_lock()``) neither joins the queue nor overtakes it. Source: Redisson's ``RedissonFairLock``.

    Example::

        lock = client.get_fair_lock("printer")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()


@final
class NonReentrantFairLock(Lock):
    """A :class:`FairLock` that its holder cannot acquire twice: trying to raises ``LockError`` immediately.

    Made by :meth:`Redisson.get_non_reentrant_fair_lock`. Source: Redisson's ``RedissonNonReentrantFairLock``.

    Example::

        lock = client.get_non_reentrant_fair_lock("report")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()


@final
class SpinLock(Lock):
    """A :class:`Lock` whose waiters retry with pauses (a back-off) instead of waiting for a notification.

    Made by :meth:`Redisson.get_spin_lock`. It excludes the holders of a :class:`Lock` of the same name, but wakes none
    of its waiters. Source: Redisson's ``RedissonSpinLock``.

    Example::

        lock = client.get_spin_lock("counter")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()


@final
class FencedLock(Lock):
    """A :class:`Lock` that gives each hold a fencing token, greater than the tokens of all earlier holds.

    Made by :meth:`Redisson.get_fenced_lock`. Send the token along with each write, and let the store refuse a token
    smaller than the greatest it has seen: then a holder that was paused past its lease does no harm. A re-entry has
    the token of the hold that it joins. Source: Redisson's ``RFencedLock``.

    Example::

        lock = client.get_fenced_lock("account")
        with lock.hold(wait_time=5) as lease:
            print(lease.token)
    """

    __slots__ = ()

    _core: FencedLockCore  # pyright: ignore[reportIncompatibleVariableOverride]

    def lock_and_get_token(self, lease_time: Seconds | None = None, **unknown: NoReturn) -> int:
        """Acquire the lock as :meth:`lock` does, and return the token of the hold.

        Example::

            token = lock.lock_and_get_token()
            lock.unlock()
        """
        refuse(self.lock_and_get_token, unknown)
        return run(self._core.lock_and_get_token(lease_time))

    def try_lock_and_get_token(
        self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None, **unknown: NoReturn
    ) -> int | None:
        """Try to acquire the lock as :meth:`try_lock` does.

        Example::

            token = lock.try_lock_and_get_token(wait_time=5)
            if token is not None:
                lock.unlock()

        Returns:
            The token of the hold, or ``None`` if the lock was not acquired in time.
        """
        refuse(self.try_lock_and_get_token, unknown)
        return run(self._core.try_lock_and_get_token(wait_time, lease_time))

    @overload  # type: ignore[override]  # The token is what makes the difference.
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        on_loss: Callable[[], object] | None = None,
    ) -> Hold[Lease[int]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
    ) -> Hold[Lease[int] | None]: ...

    def hold(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        on_loss: Callable[[], object] | None = None,
        **unknown: NoReturn,
    ) -> Hold[Any]:
        """Return a context manager as :meth:`Lock.hold` does; ``lease.token`` is the token of the hold.

        Example::

            with lock.hold(wait_time=5) as lease:
                print(lease.token)
        """
        if unknown:
            refuse(self.hold, unknown)
        return Hold(self, wait_time, lease_time, skip, on_loss)

    def get_token(self) -> int | None:
        """Return the token of the latest hold of any owner; ``None`` if there was no hold yet.

        Example::

            print(lock.get_token())
        """
        return run(self._core.get_token())


@final
class ReadWriteLock(Handle):
    """A lock for many readers or one writer, in any number of processes, including Java processes with Redisson.

    Made by :meth:`Redisson.get_read_write_lock`. Each side is a :class:`Lock`. The holder of the write lock may also
    acquire the read lock, and keep it when it releases the write lock. A reader that tries to acquire the write lock
    gets a ``LockError`` immediately. Source: Redisson's ``RReadWriteLock``.

    Example::

        prices = client.get_read_write_lock("prices")
        with prices.read_lock().hold(wait_time=5):
            ...
        with prices.write_lock().hold(wait_time=5):
            ...
    """

    __slots__ = ()

    _core: ReadWriteLockCore

    if not TYPE_CHECKING:  # Type checkers refuse such a block by themselves.

        def __enter__(self) -> NoReturn:
            raise TypeError("a read-write lock has two sides: use with lock.read_lock(): or lock.write_lock()")

        def __exit__(self, *exc: object) -> None:
            pass

    def read_lock(self) -> Lock:
        """Return a handle on the lock for reading: it excludes writers, not readers.

        Each reader has a lease of its own: a reader that dies stops counting when its lease expires. A reader that
        holds nothing yet waits for a moment while a writer of the same client waits.

        Example::

            with prices.read_lock().hold(wait_time=5):
                ...
        """
        return Lock(self._client, self._core.read_lock(), self._owner)

    def write_lock(self) -> Lock:
        """Return a handle on the lock for writing: it excludes all other owners.

        Each re-entry adds its lease to the remaining time. Acquiring it raises ``LockError`` if the calling thread
        holds the read lock.

        Example::

            with prices.write_lock().hold(wait_time=5):
                ...
        """
        return Lock(self._client, self._core.write_lock(), self._owner)


@final
class TokenLock(Lock):
    """A :class:`Lock` stored as a plain string, a random token, as by all clients of the Redlock family.

    Made by :meth:`Redisson.get_token_lock`. Its key is its name, and it excludes redis-py's ``Lock``, pottery's
    ``Redlock`` (whose keys begin with ``redlock:``), redsync, node-redlock and the like. Not reentrant: acquiring it
    twice raises ``LockError`` immediately. Such locks do not announce a release, so waiters retry with random pauses.
    Source: "Distributed Locks with Redis".

    Example::

        lock = client.get_token_lock("forecast")
        with lock.hold(wait_time=5):
            ...
    """

    __slots__ = ()

    @property
    def token(self) -> str | None:
        """The token of the caller's hold, which is what releases it; ``None`` if it holds nothing."""
        return self._core.held_token()  # type: ignore[attr-defined,no-any-return]


class MultiLock(AnyLock):
    """Several locks acquired as one, of any kind and of any number of clients: all of them, or a quorum of nodes.

    With a quorum it is the Redlock algorithm: one lock on each of several independent servers, requested
    concurrently, held while enough of them are certain to be held. It works while a minority of the servers is
    unavailable. Without a quorum, all members are acquired or none, one after another in the order of their names,
    which excludes deadlocks between multi-locks. Nested multi-locks over the same members count as one lock, whatever
    handles they are made of. The owner is the calling thread. Sources: "Distributed Locks with Redis"; Redisson's
    ``RedissonMultiLock``.

    Example::

        lock = MultiLock(*[client.get_lock("orders") for client in clients])  # five clients: three are enough
        with lock.hold(wait_time=5):
            ...

    Args:
        *locks: The members. A multi-lock cannot be a member.
        quorum: How many members are needed. ``None``: the majority if all have one name and each belongs to a client
            of its own, otherwise all.

    Raises:
        ValueError: No locks, a lock given twice, a quorum below the majority, or a quorum over locks of one client.
        TypeError: A member is not a lock, or is a lock for asyncio among locks for threads or the reverse.
    """

    __slots__ = ("_locks",)

    _core: MultiLockCore

    def __init__(self, *locks: Lock, quorum: int | None = None) -> None:
        self._core = kinds.multi_lock(cores_of(locks, Lock), quorum)  # pyright: ignore[reportIncompatibleVariableOverride]
        self._locks = locks  # They keep their clients going.

    @property
    def name(self) -> str:
        """The name that all members share, or all their names."""
        return self._core.name

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The members."""
        return self._locks

    @property
    def quorum(self) -> int:
        """The number of members that are needed."""
        return self._core.quorum

    def validity(self) -> float:
        """Return the seconds for which the calling thread's hold is certain; 0 if it holds nothing. Asks no server.

        That is the lease, less the time to acquire it and the clock drift, on a quorum of the members.

        Example::

            with lock.hold():
                assert lock.validity() > 0
        """
        return self._core.validity()


@final
class RedLock(MultiLock):
    """A :class:`MultiLock` over the majority of its members, whatever their names.

    Example::

        lock = RedLock(*[client.get_lock("orders") for client in clients])
        with lock.hold(wait_time=5):
            ...

    Args:
        *locks: One lock on each of several independent servers, an odd number of them.
    """

    __slots__ = ()

    def __init__(self, *locks: Lock) -> None:
        super().__init__(*locks, quorum=len(locks) // 2 + 1)
