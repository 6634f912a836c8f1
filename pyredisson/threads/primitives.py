"""The synchronizers for threads: one statement a method over the core. What they do is in ``pyredisson.core``."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, final, overload

from pyredisson.core.deadline import wait_seconds
from pyredisson.core.runtime import run, run_to_the_end
from pyredisson.kinds.fenced_lock import FencedLockCore
from pyredisson.kinds.latch import LatchCore
from pyredisson.kinds.lock import LockCore
from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore
from pyredisson.kinds.read_write_lock import ReadWriteLockCore
from pyredisson.kinds.semaphore import SemaphoreCore
from pyredisson.lease import Lease
from pyredisson.quorum.decisions import majority
from pyredisson.quorum.multi_lock import multi_lock
from pyredisson.shared.arguments import cores_of, wait_of
from pyredisson.shared.misuse import BY_HAND, NotPortable, core_of
from pyredisson.threads.hold import HoldContext as Hold
from pyredisson.threads.permit_hold import PermitHold

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds
    from pyredisson.shared.owners import Owner
    from pyredisson.threads.client import Redisson

__all__ = [
    "CountDownLatch",
    "FairLock",
    "FencedLock",
    "Hold",
    "Lock",
    "MultiLock",
    "NonReentrantFairLock",
    "NonReentrantLock",
    "PermitExpirableSemaphore",
    "ReadWriteLock",
    "RedLock",
    "Semaphore",
    "SpinLock",
    "TokenLock",
]


class Lock(NotPortable):
    """A reentrant lock that excludes threads of any number of processes, Java ones on Redisson among them.

    Made by :meth:`Redisson.get_lock`. A handle is cheap and may be shared by threads; two handles of one name are the
    same lock. The owner is the calling thread. Source: Redisson's ``RLock``.

    Example::

        lock = client.get_lock("orders")
        with lock:
            ...
    """

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    def __init__(self, client: Redisson = BY_HAND, core: LockCore = BY_HAND, owner: Owner | None = None) -> None:
        # They stay alive as long as a handle is in use.
        self._client, self._owner = client, owner
        self._core = core_of(LockCore, core, self, client)

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

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> Hold[Lease[None]]: ...

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool
    ) -> Hold[Lease[None] | None]: ...

    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool = False
    ) -> Hold[Any]:
        """Hold the lock for a block that is told when it loses it.

        Example::

            with lock.hold(wait_time=5) as lease:
                ...
                lease.ensure_held()

        Args:
            wait_time: Seconds to wait at most; ``None``: as long as it takes.
            lease_time: As for :meth:`lock`.
            skip: Run the block without the lock if it was not acquired in time: its value is ``None`` then.

        Raises:
            LockTimeoutError: On entering: it was not acquired in time (unless ``skip``).
            LockLostError: On leaving: it was lost meanwhile. An exception of the body goes first.
        """
        return Hold(self, wait_time, lease_time, skip)


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

    def __init__(self, client: Redisson = BY_HAND, core: FencedLockCore = BY_HAND, owner: Owner | None = None) -> None:
        super().__init__(client, core, owner)
        self._core = core_of(FencedLockCore, core, self, client)

    def lock_and_get_token(self, lease_time: Seconds | None = None) -> int:
        """Take the lock as :meth:`lock` does, and return the token of the hold."""
        return run(self._core.lock_and_get_token(lease_time))

    def try_lock_and_get_token(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> int | None:
        """Take the lock as :meth:`try_lock` does, and return the token of the hold; ``None`` if it was not got."""
        return run(self._core.try_lock_and_get_token(wait_time, lease_time))

    @overload  # type: ignore[override]  # The token is what makes the difference.
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> Hold[Lease[int]]: ...

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool
    ) -> Hold[Lease[int] | None]: ...

    def hold(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool = False
    ) -> Hold[Any]:
        """Hold the lock for a block as :meth:`Lock.hold` does; ``lease.token`` is the token of the hold."""
        return Hold(self, wait_time, lease_time, skip)

    def get_token(self) -> int | None:
        """Return the token that was handed out last, to whomever; ``None`` if none ever was."""
        return run(self._core.get_token())


@final
class ReadWriteLock(NotPortable):
    """Many readers or one writer, of any number of processes, Java ones on Redisson among them.

    Made by :meth:`Redisson.get_read_write_lock`. Each side is a :class:`Lock`. Whoever holds the write side may take
    the read side, too, and keep it when it gives back the write side; a reader that asks for the write side gets a
    ``LockError`` at once. Source: Redisson's ``RReadWriteLock``.

    Example::

        prices = client.get_read_write_lock("prices")
        with prices.read_lock():
            ...
        with prices.write_lock():
            ...
    """

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    def __init__(
        self, client: Redisson = BY_HAND, core: ReadWriteLockCore = BY_HAND, owner: Owner | None = None
    ) -> None:
        self._client, self._owner = client, owner
        self._core = core_of(ReadWriteLockCore, core, self, client)

    def __repr__(self) -> str:
        return f"<ReadWriteLock {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The name of both locks."""
        return self._core.names.raw

    def read_lock(self) -> Lock:
        """Return a handle on the lock for reading: it excludes writers, not readers.

        Each reader has a lease of its own, and a reader that dies is counted no longer once it is over. A reader that
        holds nothing yet gives way for a moment while a writer of the same client waits.
        """
        return Lock(self._client, self._core.read_lock(), self._owner)

    def write_lock(self) -> Lock:
        """Return a handle on the lock for writing: it excludes everybody else.

        Each re-entry adds its lease to what is left. Taking it raises ``LockError`` where the calling thread reads.
        """
        return Lock(self._client, self._core.write_lock(), self._owner)


@final
class TokenLock(Lock):
    """A :class:`Lock` that is a plain string in Redis, the token of its hold, as for all clients of the Redlock kind.

    Made by :meth:`Redisson.get_token_lock`. Its key is its name, and it excludes redis-py's ``Lock``, pottery's
    ``Redlock`` (whose keys begin with ``redlock:``), redsync, node-redlock and the like. Not reentrant: taking it twice
    raises ``LockError`` at once. Releases of such locks are told to nobody, so waiters ask again and again, with random
    pauses. Source: "Distributed Locks with Redis".
    """

    __slots__ = ()


class MultiLock(NotPortable):
    """Several locks taken as one, of any kind and of any number of clients: all of them, or a quorum of nodes.

    With a quorum it is the Redlock algorithm: one lock on each of several independent servers, all asked at once, held
    as long as enough of them are certain to be. It lives on while a minority of them is away. Without one, all of them
    are taken or none, one after another in the order of their names, so that nobody waits for another in a circle.
    Nested, the same members count as one lock, whatever handles they are taken by. The owner is the calling thread.
    Sources: "Distributed Locks with Redis"; Redisson's ``RedissonMultiLock``.

    Example::

        lock = MultiLock(*[client.get_lock("orders") for client in clients])  # five clients: three are enough
        with lock:
            ...

    Args:
        *locks: The members. A multi-lock cannot be one.
        quorum: How many it takes. ``None``: the majority if all carry one name and each belongs to a client of its own,
            else all of them.

    Raises:
        ValueError: No locks, one of them twice, a quorum below the majority, or one over locks of one client.
        TypeError: Something else than a lock, or a lock of the other colour.
    """

    __slots__ = ("__weakref__", "_core", "_locks")

    def __init__(self, *locks: Lock, quorum: int | None = None) -> None:
        self._core = multi_lock(cores_of(locks, Lock), quorum)
        self._locks = locks  # They keep their clients' threads going.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The name that all members have, or all their names."""
        return self._core.name

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The members."""
        return self._locks

    @property
    def quorum(self) -> int:
        """How many of them it takes."""
        return self._core.quorum

    def lock(self, lease_time: Seconds | None = None) -> None:
        """Take it, waiting as long as it takes; once more if the calling thread holds it already.

        Args:
            lease_time: As for :meth:`Lock.lock`.

        Raises:
            QuorumUnreachableError: Too few nodes have answered for ``Config.quorum_retry_timeout``.
            LockLostError: This thread held it already, and lost it: unlock first.
            ValueError: Two members of a quorum turned out to be on one server.
            ClientClosedError: One of the clients was closed.
        """
        run(self._core.lock(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> bool:
        """Take it if it is to be had within ``wait_time``.

        Args:
            wait_time: Seconds to wait at most; 0 is one attempt, ``None`` is as long as it takes.
            lease_time: As for :meth:`Lock.lock`.

        Returns:
            Whether the calling thread holds it now. ``False``: enough nodes answered, and somebody else has it.

        Raises:
            QuorumUnreachableError: Too few nodes could be reached in time. What was taken is given back.
            LockLostError, ValueError, ClientClosedError: As :meth:`lock`.
        """
        return run(self._core.try_lock(wait_time, lease_time))

    def unlock(self) -> None:
        """Give back one hold of the calling thread, on every node.

        A node that does not answer is seen to in the background, until its lease is over.

        Raises:
            LockLostError: Too few of the members were still held.
            LockNotOwnedError: The calling thread does not hold it.
            OutcomeUnknownError: Too few nodes have confirmed it within ``Config.timeout``; calling again continues.
            ClientClosedError: One of the clients was closed.
        """
        run_to_the_end(self._core.unlock)

    def force_unlock(self) -> bool:
        """Free all members, whoever holds them.

        Returns:
            Whether any was locked.
        """
        return run(self._core.force_unlock())

    def validity(self) -> float:
        """Return for how many seconds the calling thread's hold is certain; 0 if it holds nothing. Asks no server.

        That is the lease, less the time that it took to get it and the drift of clocks, for a quorum of the members.
        """
        return self._core.validity()

    def is_locked(self) -> bool:
        """Return whether so many members are locked, by anybody, that nobody else can take it."""
        return run(self._core.is_locked())

    def is_held_by_current_thread(self) -> bool:
        """Return whether the calling thread holds it for certain. Asks no server."""
        return run(self._core.is_held_by_current_thread())

    def get_hold_count(self) -> int:
        """Return how often the calling thread holds it. Asks no server."""
        return run(self._core.get_hold_count())

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it as ``threading.Lock.acquire`` does. Raises as :meth:`Lock.acquire` and :meth:`lock`."""
        return run(self._core.acquire(wait_of(blocking, timeout)))

    def release(self) -> None:
        """Give back one hold; see :meth:`unlock`."""
        run_to_the_end(self._core.unlock)

    def locked(self) -> bool:
        """Return whether nobody else can take it; see :meth:`is_locked`."""
        return run(self._core.is_locked())

    def __enter__(self) -> bool:
        run(self._core.lock())
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._core.leave, error)

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> Hold[Lease[None]]: ...

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool
    ) -> Hold[Lease[None] | None]: ...

    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool = False
    ) -> Hold[Any]:
        """Hold it for a block that is told when it loses it; see :meth:`Lock.hold`."""
        return Hold(self, wait_time, lease_time, skip)


@final
class RedLock(MultiLock):
    """A :class:`MultiLock` that takes the majority of its members, whatever their names.

    Args:
        *locks: One lock on each of several independent servers, an odd number of them.
    """

    __slots__ = ()

    def __init__(self, *locks: Lock) -> None:
        super().__init__(*locks, quorum=majority(len(locks)))


# ---- semaphores and latches ------------------------------------------------------------------------------------------


@final
class Semaphore(NotPortable):
    """So many permits, for threads of any number of processes to take and to give back.

    Made by :meth:`Redisson.get_semaphore`. Nobody owns a permit: whoever wants may release one, and the permits of a
    process that died stay taken; :class:`PermitExpirableSemaphore` is for those who mind. It has no permits until
    somebody gives it some: ``get_semaphore(name, permits=n)``, or :meth:`try_set_permits`. Source: Redisson's
    ``RSemaphore``.

    Each call takes effect once at most, whatever is lost on the way. One that is interrupted is undone if it takes
    permits, and finished if it does anything else.

    Example::

        semaphore = client.get_semaphore("printers", permits=3)
        with semaphore.hold(wait_time=5):
            ...
    """

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Redisson = BY_HAND, core: SemaphoreCore = BY_HAND) -> None:
        self._client = client  # Keeps the client's threads going as long as a handle is in use.
        self._core = core_of(SemaphoreCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The semaphore's name."""
        return self._core.names.raw

    def try_set_permits(self, n: int) -> bool:
        """Give the semaphore its ``n`` permits, unless it has some already.

        Returns:
            Whether it had none.

        Raises:
            OutcomeUnknownError: The request was sent, and could not be settled. It is finished in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        return run(self._core.try_set_permits(n))

    def acquire(self, permits: int = 1, *, timeout: Seconds | None = None) -> bool:
        """Take so many permits, all or none, waiting for them if need be.

        Args:
            permits: How many; 0 is always to be had.
            timeout: Seconds to wait at most; 0 is one attempt, ``None`` is as long as it takes.

        Returns:
            Whether they were to be had in time.

        Raises:
            OutcomeUnknownError: A request was sent and could not be settled. What it may have taken is given back in
                the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused; also when the time ended while
                the server was away.
        """
        return run(self._core.acquire(permits, wait_seconds(timeout, "timeout")))

    def try_acquire(self, permits: int = 1, wait_time: Seconds | None = 0) -> bool:
        """Take so many permits, all or none, if they are to be had within ``wait_time`` seconds.

        Raises as :meth:`acquire`.
        """
        return run(self._core.acquire(permits, wait_seconds(wait_time)))

    def release(self, permits: int = 1) -> None:
        """Give so many permits back, whoever took them, and wake as many who wait.

        Raises:
            OutcomeUnknownError: The request was sent and could not be settled. It is finished in the background, so do
                not call it again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        run_to_the_end(self._core.release, permits)

    def available_permits(self) -> int:
        """Return how many permits are available; less than 0 if more were taken away than there were."""
        return run(self._core.available_permits())

    def drain_permits(self) -> int:
        """Take all permits that are available, and return how many. Raises as :meth:`acquire`."""
        return run(self._core.drain_permits())

    def add_permits(self, n: int) -> None:
        """Make ``n`` more permits available; a negative number takes some away. Raises as :meth:`release`."""
        run_to_the_end(self._core.add_permits, n)

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool = False) -> PermitHold[Any]:
        """Hold so many permits, all or none, for a block.

        They belong to the block: whoever leaves it gives them back, in whatever thread that is.

        Example::

            with semaphore.hold(wait_time=5):
                ...
            with semaphore.hold(wait_time=0, skip=True) as lease:
                if lease is not None:
                    ...

        Args:
            permits: How many.
            wait_time: Seconds to wait at most; 0 is one attempt, ``None`` is as long as it takes.
            skip: Run the block with ``None`` instead of a lease if they were not available in time.

        Returns:
            A context manager. Its :class:`Lease` has no end: such permits do not expire.

        Raises:
            LockTimeoutError: On entering: they were not available in time.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire` and :meth:`release`.
        """
        return PermitHold(self._client, self._core.hold(permits, wait_time, skip=skip))

    def __enter__(self) -> bool:
        return run(self._core.acquire(1, None))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._core.leave, error)


@final
class PermitExpirableSemaphore(NotPortable):
    """A semaphore whose permits are told by an id each, are released by it, and may expire.

    Made by :meth:`Redisson.get_permit_expirable_semaphore`. :meth:`hold` keeps a permit for a block, and the watchdog
    renews it. One that :meth:`acquire` takes without a lease never expires, and nobody renews it: if its holder dies,
    it stays taken. Source: Redisson's ``RPermitExpirableSemaphore``.

    Example::

        permits = client.get_permit_expirable_semaphore("printers", permits=3)
        with permits.hold(wait_time=5):
            ...
        permit = permits.acquire(lease_time=30)
        ...
        permits.release(permit)
    """

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Redisson = BY_HAND, core: PermitSemaphoreCore = BY_HAND) -> None:
        self._client = client  # Keeps the client's threads going as long as a handle is in use.
        self._core = core_of(PermitSemaphoreCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The semaphore's name."""
        return self._core.names.raw

    def try_set_permits(self, n: int) -> bool:
        """Give the semaphore its ``n`` permits, unless it has some already. See :meth:`Semaphore.try_set_permits`."""
        return run(self._core.try_set_permits(n))

    def set_permits(self, n: int) -> None:
        """Make it ``n`` permits in all, those taken included. Raises as :meth:`Semaphore.release`.

        If more are taken than that, as many must be released before one is available again.
        """
        run(self._core.set_permits(n))

    def add_permits(self, n: int) -> None:
        """Make ``n`` more permits available; a negative number takes some away. See :meth:`Semaphore.add_permits`."""
        run_to_the_end(self._core.add_permits, n)

    def acquire(self, lease_time: Seconds | None = None) -> str:
        """Take a permit, waiting as long as it takes.

        Args:
            lease_time: Seconds after which the permit expires and is available again, by the server's clock.
                ``None``: never.

        Returns:
            The permit's id, 32 hex digits.

        Raises:
            OutcomeUnknownError: A request was sent and could not be settled. What it may have taken is given back in
                the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        return run(self._core.acquire(lease_time))

    def try_acquire(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> str | None:
        """Take a permit if there is one within ``wait_time`` seconds (``None``: however long it takes).

        Returns:
            The permit's id, or ``None`` if there was none in time.

        Raises:
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire`; an error of the
                connection also when the time ended while the server was away.
        """
        return run(self._core.try_acquire(wait_time, lease_time))

    def release(self, permit_id: str) -> None:
        """Give a permit back by its id, whoever took it, and wake one who waits.

        Raises:
            LockNotOwnedError: There is no such permit: it has been released, or has expired, or never was.
            OutcomeUnknownError: The request was sent and could not be settled. It is finished in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        run_to_the_end(self._core.release, permit_id)

    def try_release(self, permit_id: str) -> bool:
        """Give a permit back by its id. Raises as :meth:`release`, but for ``LockNotOwnedError``.

        Returns:
            Whether there was such a permit, and it had not expired.
        """
        return run(self._core.try_release(permit_id))

    def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """Let a permit expire so many seconds from now, sooner or later than it would (``None``: never).

        Returns:
            Whether there was such a permit, and it had not expired.

        Raises:
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`release`.
        """
        return run(self._core.update_lease_time(permit_id, lease_time))

    def available_permits(self) -> int:
        """Return how many permits are available, those that have just expired included."""
        return run(self._core.available_permits())

    def get_permits(self) -> int:
        """Return how many permits there are in all, available or taken; 0 if nobody has set any."""
        return run(self._core.get_permits())

    def acquired_permits(self) -> int:
        """Return how many permits are taken."""
        return run(self._core.acquired_permits())

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(
        self, wait_time: Seconds | None = None, lease_time: Seconds | None = None, *, skip: bool = False
    ) -> PermitHold[Any]:
        """Hold a permit for a block.

        It belongs to the block: whoever leaves it gives the permit back, in whatever thread that is.

        Example::

            with permits.hold(wait_time=5) as lease:
                ...
                lease.ensure_held()

        Args:
            wait_time: Seconds to wait at most; 0 is one attempt, ``None`` is as long as it takes.
            lease_time: Seconds after which the permit expires. ``None``: the watchdog renews it while the block runs,
                and it expires ``Config.lock_watchdog_timeout`` after its holder died.
            skip: Run the block with ``None`` instead of a lease if there was no permit in time.

        Raises:
            LockTimeoutError: On entering: there was no permit in time.
            LockLostError: On leaving: the permit has expired, or somebody released it. An exception of the body goes
                first.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire` and :meth:`release`.
        """
        return PermitHold(self._client, self._core.hold(wait_time, lease_time, skip=skip))


@final
class CountDownLatch(NotPortable):
    """A latch that lets all who wait through once it has been counted down to zero, in any number of processes.

    Made by :meth:`Redisson.get_count_down_latch`. Without a count it stands at 0, open: :meth:`wait` returns at once,
    also after a server has lost its data. Source: Redisson's ``RCountDownLatch``.

    Example::

        latch = client.get_count_down_latch("import")
        latch.try_set_count(3)
        latch.wait()  # until count_down() was called three times
    """

    __slots__ = ("__weakref__", "_client", "_core")

    def __init__(self, client: Redisson = BY_HAND, core: LatchCore = BY_HAND) -> None:
        self._client = client  # Keeps the client's threads going as long as a handle is in use.
        self._core = core_of(LatchCore, core, self, client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The latch's name."""
        return self._core.names.raw

    def try_set_count(self, n: int) -> bool:
        """Give the latch the count ``n``, unless it has one that was not yet counted down.

        Returns:
            Whether it had none.

        Raises:
            OutcomeUnknownError: The request was sent, and could not be settled. It is finished in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        return run(self._core.try_set_count(n))

    def count_down(self) -> None:
        """Take one from the count; at zero everybody who waits is let through. At zero already, it does nothing.

        Raises:
            OutcomeUnknownError: The request was sent and could not be settled. It is finished in the background, so do
                not call it again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused.
        """
        run_to_the_end(self._core.count_down)

    def get_count(self) -> int:
        """Return the count; 0 if the latch is open, or was never given one."""
        return run(self._core.get_count())

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the count is 0.

        Args:
            timeout: Seconds to wait at most; 0 is one look, ``None`` is as long as it takes.

        Returns:
            Whether the count was 0 at some moment of the wait.

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused; also when the time ended while
                the server was away.
        """
        return run(self._core.wait(timeout))
