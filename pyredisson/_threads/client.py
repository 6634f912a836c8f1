# Generated from _asyncio/client.py by `make facade`: change that file, and run it.

"""``Redisson``, the client, and the methods that make its locks and synchronizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import BrokenBarrierError
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, ParamSpec, TypeVar, final, overload

import redis

from pyredisson import _kinds as kinds
from pyredisson._core.client import ClientCore
from pyredisson._core.deadline import AT_LEAST
from pyredisson._core.names import check_name
from pyredisson._core.runtime import run
from pyredisson._shared import process
from pyredisson._shared.arguments import NotPortable, lock_of_condition, pauses, refuse, settings_by_name
from pyredisson._shared.callback import check_callback
from pyredisson._shared.client import BaseClient
from pyredisson._shared.owners import Owner, caller_of, lock_core, make_core
from pyredisson._threads.locks import (
    FairLock,
    FencedLock,
    Lock,
    MultiLock,
    NonReentrantFairLock,
    NonReentrantLock,
    ReadWriteLock,
    RedLock,
    SpinLock,
    TokenLock,
)
from pyredisson._threads.runtime import ThreadsRuntime
from pyredisson._threads.semaphores import CountDownLatch, PermitExpirableSemaphore, Semaphore
from pyredisson._threads.sockets import FORM
from pyredisson._threads.synchronizers import Barrier, BoundedSemaphore, Condition, Event
from pyredisson.config import Backoff, Config, ExponentialBackoff

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.deadline import Seconds
    from pyredisson._shared.synchronized import Guarding, WhenBusy
    from pyredisson._threads.election import LeaderElection
    from pyredisson._threads.run_once import RunOnce
    from pyredisson.holders import Holder
    from pyredisson.inspection import ClientView, LockView, WaitGraph
    from pyredisson.runs import Skipped

P = ParamSpec("P")
R = TypeVar("R")


class Factory(NotPortable, shown="Redisson"):
    """Make a client's locks and synchronizers. Simulated clients of tests do so, too."""

    _core: ClientCore

    def get_lock(self, name: str, *, owner: Owner | None = None) -> Lock:
        """Return a handle on the reentrant lock with this name.

        Example::

            lock = client.get_lock("orders")
            with lock.hold(wait_time=5) as lease:
                lease.ensure_held()

        Args:
            name: The lock's name: a non-empty ``str`` of at most 65,536 bytes in UTF-8.
            owner: The owner for which this handle acts, independent of the caller; see :meth:`new_owner`. ``None``:
                the running thread, or the calling thread if no thread is running.

        Raises:
            TypeError, ValueError: The name is not valid, or its keys would not share one slot of the cluster; or
                ``owner`` is not an owner.
            LockError: The owner was closed.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        return Lock(self, lock_core(self._core, name, caller_of(owner)), owner)

    def get_non_reentrant_lock(self, name: str, *, owner: Owner | None = None) -> NonReentrantLock:
        """Return a handle on the non-reentrant lock with this name. Raises as :meth:`get_lock`.

        Example::

            with client.get_non_reentrant_lock("report").hold(wait_time=5):
                ...
        """
        return NonReentrantLock(self, make_core(self._core, kinds.NonReentrantLockCore, name, owner=owner), owner)

    def get_fair_lock(self, name: str, *, owner: Owner | None = None) -> FairLock:
        """Return a handle on the fair lock with this name. Raises as :meth:`get_lock`.

        Example::

            with client.get_fair_lock("printer").hold(wait_time=5):
                ...
        """
        return FairLock(self, make_core(self._core, kinds.FairLockCore, name, owner=owner), owner)

    def get_non_reentrant_fair_lock(self, name: str, *, owner: Owner | None = None) -> NonReentrantFairLock:
        """Return a handle on the non-reentrant fair lock with this name. Raises as :meth:`get_lock`.

        Example::

            with client.get_non_reentrant_fair_lock("report").hold(wait_time=5):
                ...
        """
        return NonReentrantFairLock(
            self, make_core(self._core, kinds.NonReentrantFairLockCore, name, owner=owner), owner
        )

    def get_spin_lock(
        self,
        name: str,
        backoff: Backoff | None = None,
        *,
        tries: int | None = None,
        owner: Owner | None = None,
    ) -> SpinLock:
        """Return a handle on the spin lock with this name. Raises as :meth:`get_lock`.

        Example::

            lock = client.get_spin_lock("counter", ExponentialBackoff(maximum=0.05))
            with lock.hold(wait_time=5):
                ...

        Args:
            name: The lock's name.
            backoff: The pauses between the attempts of a waiter. ``None``: ``ExponentialBackoff()``.
            tries: How many attempts a waiter makes at most: the first one counts, and so do those without an answer.
                After them a call with a time limit ends as if that had passed, and one without raises
                :class:`LockTimeoutError`. ``None``: without a limit. In a multi-lock, only the time counts.
            owner: As for :meth:`get_lock`.

        Raises:
            TypeError, ValueError: ``backoff`` has no method ``delays()``, or ``tries`` is not a positive whole number.
        """
        how = pauses(backoff, tries, ExponentialBackoff())
        return SpinLock(self, make_core(self._core, kinds.SpinLockCore, name, *how, owner=owner), owner)

    def get_fenced_lock(self, name: str, *, owner: Owner | None = None) -> FencedLock:
        """Return a handle on the fenced lock with this name. Raises as :meth:`get_lock`.

        Example::

            with client.get_fenced_lock("account").hold(wait_time=5) as lease:
                print(lease.token)
        """
        return FencedLock(self, make_core(self._core, kinds.FencedLockCore, name, owner=owner), owner)

    def get_read_write_lock(self, name: str, *, owner: Owner | None = None) -> ReadWriteLock:
        """Return a handle on the read-write lock with this name. Raises as :meth:`get_lock`.

        Example::

            prices = client.get_read_write_lock("prices")
            with prices.read_lock().hold(wait_time=5):
                ...
        """
        return ReadWriteLock(self, make_core(self._core, kinds.ReadWriteLockCore, name, owner=owner), owner)

    def get_semaphore(self, name: str, permits: int | None = None, *, resize: bool = False) -> Semaphore:
        """Return a handle on the semaphore with this name. Raises as :meth:`get_lock`.

        Its permits have no owner: those of a process that dies stay taken, until someone else releases them. For
        permits that return use the ``hold()`` of :meth:`get_permit_expirable_semaphore`.

        Example::

            with client.get_semaphore("printers", permits=3).hold(wait_time=5):
                ...

        Args:
            name: The semaphore's name.
            permits: The number of permits to set when the handle is first used, unless the semaphore has permits by
                then; every process may pass it. If it has another number, that is logged once at WARNING. ``None``:
                they are set elsewhere.
            resize: Set this number in any case, when the handle is first used: see :meth:`Semaphore.resize`.
        """
        return Semaphore(self, make_core(self._core, kinds.SemaphoreCore, name, permits, resize))

    def get_permit_expirable_semaphore(
        self, name: str, permits: int | None = None, *, resize: bool = False
    ) -> PermitExpirableSemaphore:
        """Return a handle on the semaphore with this name whose permits may expire. Raises as :meth:`get_lock`.

        A permit that its ``hold()`` takes returns when its process dies. Do not use it and :meth:`get_semaphore` with
        the same name: a handle made with ``permits`` raises ``LockError`` where that can be seen.

        Example::

            with client.get_permit_expirable_semaphore("seats", permits=3).hold(wait_time=5):
                ...

        Args:
            name: The semaphore's name.
            permits: As for :meth:`get_semaphore`.
            resize: As for :meth:`get_semaphore`.
        """
        return PermitExpirableSemaphore(self, make_core(self._core, kinds.PermitSemaphoreCore, name, permits, resize))

    def get_count_down_latch(self, name: str) -> CountDownLatch:
        """Return a handle on the count-down latch with this name. Raises as :meth:`get_lock`.

        Example::

            latch = client.get_count_down_latch("import")
            latch.try_set_count(3)
        """
        return CountDownLatch(self, make_core(self._core, kinds.LatchCore, name))

    def get_event(self, name: str) -> Event:
        """Return a handle on the event with this name, which is also its key. Raises as :meth:`get_lock`.

        Example::

            client.get_event("ready").set()
        """
        return Event(self, make_core(self._core, kinds.EventCore, name))

    def get_condition(self, name_or_lock: str | Lock) -> Condition:
        """Return a handle on the condition of a lock. Raises as :meth:`get_lock`.

        Example::

            condition = client.get_condition("orders")
            with condition:
                condition.notify_all()

        Args:
            name_or_lock: The name of a lock; or a :class:`Lock` or :class:`FairLock`, which may act for an owner.

        Raises:
            TypeError: It is a lock of another kind.
        """
        lock = lock_of_condition(name_or_lock, self.get_lock, (Lock, FairLock))
        return Condition(self, kinds.ConditionCore(lock._core), lock)

    def get_barrier(
        self, name: str, parties: int, action: Callable[[], object] | None = None, timeout: Seconds | None = None
    ) -> Barrier:
        """Return a handle on the barrier with this name, which is also its key. Raises as :meth:`get_lock`.

        Example::

            client.get_barrier("start", parties=1).wait(timeout=60)

        Args:
            name: The barrier's name.
            parties: How many callers wait for each other: the same number in all processes.
            action: Called by the last of them, before the others go on. If it raises, the barrier is broken.
            timeout: Seconds that :meth:`Barrier.wait` waits at most if it is called without a time.
        """
        if action is not None:
            check_callback("action", action)
        return Barrier(
            self, make_core(self._core, kinds.BarrierCore, name, BrokenBarrierError, parties, action, timeout)
        )

    def get_bounded_semaphore(self, name: str, value: int = 1) -> BoundedSemaphore:
        """Return a handle on the bounded semaphore with this name. Raises as :meth:`get_lock`.

        Do not use it and :meth:`get_semaphore` with the same name.

        Example::

            with client.get_bounded_semaphore("printers", value=3):
                ...

        Args:
            name: The semaphore's name.
            value: The number of permits, at least 1, which are set when the handle is first used: the same in all
                processes.
        """
        return BoundedSemaphore(self, make_core(self._core, kinds.BoundedSemaphoreCore, name, value))

    def get_token_lock(
        self,
        name: str,
        backoff: Backoff | None = None,
        *,
        tries: int | None = None,
        owner: Owner | None = None,
    ) -> TokenLock:
        """Return a handle on the token lock with this name, which is also its key. Raises as :meth:`get_lock`.

        Example::

            lock = client.get_token_lock("forecast", ConstantBackoff(0.2, jitter=0.1), tries=10)
            with lock.hold():
                ...

        Args:
            name: The lock's name.
            backoff: The pauses between the attempts of a waiter, which end early with the holder's lease. ``None``:
                random ones that double, of 1 ms at first and 128 ms at most.
            tries: As for :meth:`get_spin_lock`.
            owner: As for :meth:`get_lock`.

        Raises:
            TypeError, ValueError: As :meth:`get_spin_lock`.
        """
        how = pauses(backoff, tries, None)
        return TokenLock(self, make_core(self._core, kinds.TokenLockCore, name, *how, owner=owner), owner)

    def get_leader_election(self, name: str) -> LeaderElection:
        """Return a handle on the election with this name. Raises as :meth:`get_lock`.

        Example::

            with client.get_leader_election("scheduler").term() as term:
                print(term.token)
        """
        from pyredisson._threads.election import LeaderElection  # Few programs need it.

        return LeaderElection(self, make_core(self._core, kinds.ElectionCore, name))

    def new_owner(self) -> Owner:
        """Return a new owner of locks, independent of its callers, for ``get_lock(name, owner=owner)``.

        Example::

            lock = client.get_lock("orders", owner=client.new_owner())
            lock.lock()  # in one thread
            lock.unlock()  # in another

        Raises:
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        return Owner()

    def get_multi_lock(self, *locks: Lock) -> MultiLock:
        """Return a :class:`MultiLock` over several locks, which may belong to other clients.

        Example::

            transfer = client.get_multi_lock(client.get_lock("account:1"), client.get_lock("account:2"))
            with transfer.hold(wait_time=5):
                ...

        Raises:
            TypeError, ValueError: As :class:`MultiLock`.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        return MultiLock(*locks)

    def get_red_lock(self, *locks: Lock) -> RedLock:
        """Return a :class:`RedLock` over several locks, each of a client of its own.

        Example::

            lock = client.get_red_lock(*[each.get_lock("orders") for each in clients])
            with lock.hold(wait_time=5):
                ...

        Raises:
            TypeError, ValueError: As :class:`MultiLock`.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        return RedLock(*locks)

    @overload
    def synchronized(
        self,
        key: str,
        *,
        wait_time: Seconds | None = ...,
        lease_time: Seconds | None = ...,
        kind: Guarding = ...,
        when_busy: Literal["wait", "raise"] = ...,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def synchronized(
        self,
        key: str,
        *,
        wait_time: Seconds | None = ...,
        lease_time: Seconds | None = ...,
        kind: Guarding = ...,
        when_busy: Literal["skip"],
    ) -> Callable[[Callable[P, R]], Callable[P, R | Skipped]]: ...

    def synchronized(
        self,
        key: str,
        *,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        kind: Guarding = "lock",
        when_busy: WhenBusy = "wait",
    ) -> Callable[[Callable[P, R]], Callable[P, R | Skipped]]:
        """Return a decorator that runs each call of a function under a lock named after the call's arguments.

        Example::

            @client.synchronized("orders:{order_id}", wait_time=5)
            def ship(order_id: int) -> None: ...

        Args:
            key: The lock's name, with replacement fields as in ``str.format`` that begin with a parameter:
                ``{order_id}``, ``{self.id}``, ``{args[0]}``. Write a literal brace twice.
            wait_time: Seconds to wait at most. ``None``: wait without a time limit.
            lease_time: As for :meth:`Lock.lock`.
            kind: Which lock: ``"lock"``, ``"fair"``, ``"fenced"``, ``"spin"`` or ``"token"``.
            when_busy: If another owner holds the lock: ``"wait"`` for it; ``"skip"``: return ``Skipped(holder)``;
                ``"raise"`` :class:`LockTimeoutError`. The last two wait only if ``wait_time`` is given.

        Raises:
            TypeError, ValueError: On decorating: not a function that can be decorated (a ``def`` by a client for
                threads, an ``async def`` by a client for asyncio), a field that is not a parameter, an invalid time.
            LockTimeoutError: On calling: the lock was not acquired in time; the function was not called.
            LockLostError: On calling: the lock was lost while the function ran.
        """
        self._core.check_open()
        from pyredisson._shared.synchronized import guard_of  # Few programs need it.

        guard = guard_of(self, self._skipped, key, wait_time, lease_time, kind, when_busy)
        return guard.function

    def run_once(self, name: str, *, at_most: Seconds | None = 600, at_least: Seconds = AT_LEAST) -> RunOnce:
        """Return a block, or a decorator, for what runs on one process at a time; other processes skip it at once.

        As the block of ``async with`` it has a lease, or ``None`` if another owner runs it, or has begun it within
        ``at_least``. A decorated function returns ``Ran(value)`` or ``Skipped(holder)``; its name may be a template as
        for :meth:`synchronized`. Source: ShedLock.

        Example::

            @client.run_once("report:{day}", at_most=600, at_least=60)
            def report(day: str) -> int: ...

        Args:
            name: The name of the lock.
            at_most: Seconds after which it is free if the process crashes. A run that takes longer is lost: leaving it
                raises ``LockLostError``. ``None``: the run is renewed until it ends, however long it takes, and after a
                crash it is free within ``Config.lock_watchdog_timeout``.
            at_least: Seconds from its beginning, by the server's clock, for which it does not run again, not even here.
                By default 10, or ``at_most`` if that is less. With 0 a short run takes place on each host.

        Raises:
            TypeError, ValueError: The name or a time is not valid, or ``at_least`` is more than ``at_most``.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        from pyredisson._threads.run_once import RunOnce  # Few programs need it.

        return RunOnce(self, name, at_most, at_least, self._skipped)

    def _skipped(self, name: str) -> Skipped:
        from pyredisson.runs import Skipped  # Few programs need it.

        return Skipped(run(self._core.finder.find(name, by_user=True)).holder)


@final
class Redisson(BaseClient, Factory):
    """A client, which makes locks and synchronizers and serves them with one watchdog and one subscriber.

    It connects when a lock or synchronizer is first used. Handles keep their client alive; once the client and all its
    handles are gone, or after :meth:`close`, its threads and connections end. In the child of a fork it is a different
    client, which holds none of its parent's locks.

    Example::

        with Redisson.from_url("redis://localhost:6379") as client:
            lock = client.get_lock("orders")

    Args:
        redis: A redis-py client to copy the settings from (a ``redis.Redis`` or a
            ``redis.RedisCluster``). It remains the caller's and is not closed. ``None``:
            ``redis://localhost:6379``.
        config: The settings that differ from the defaults.
    """

    _form = FORM
    _runtime_class = ThreadsRuntime
    _runtime: ThreadsRuntime  # pyright: ignore[reportIncompatibleVariableOverride]

    @settings_by_name
    def __init__(
        self,
        redis: redis.Redis | redis.RedisCluster | None = None,
        *,
        config: Config | None = None,
        **unknown: NoReturn,
    ) -> None:
        refuse(self.__init__, unknown)
        self._start(redis, config)

    def holder_of(self, name: str) -> Holder | None:
        """Return who holds the lock of this name, as far as the server knows within a moment.

        Example::

            holder = client.holder_of("orders")

        Args:
            name: The name of a lock. The holders of a semaphore or a multi-lock cannot be determined.

        Returns:
            The holder; of a read-write lock that is read, one of them. ``None`` if there is none, or it is not known.

        Raises:
            TypeError: The name is not a ``str``.
            ValueError: The name is not valid.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        found = run(self._core.finder.find(check_name(name), by_user=True))
        return found.holder

    def inspect(self, name: str) -> LockView | None:
        """Return what is stored under a name: its kind, who holds it, who waits. It changes nothing.

        Example::

            view = client.inspect("orders")
            if view is not None and view.held:
                print(view.holders[0].label)

        Args:
            name: The name of a lock or synchronizer.

        Returns:
            What there is; ``None`` if it is free and no one waits for it.

        Raises:
            TypeError, ValueError: The name is not valid; or the connections of the client, such as those of a fake
                server, cannot be used for this.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server does not answer, or refuses.
        """
        check_name(name)
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.lock(name)))

    def find_locks(self, pattern: str = "*") -> Iterator[LockView]:
        """Yield the locks and synchronizers whose names match a pattern, as they are found. Raises as :meth:`inspect`.

        All keys of the server are searched (``SCAN``), unless the pattern is a name.

        Example::

            for view in client.find_locks("order:*"):
                print(view.name, view.kind, view.remaining)

        Args:
            pattern: As for ``SCAN MATCH``.
        """
        wanted = pattern if pattern != "*" else None
        yield from self._runtime.found(self._inspector(), lambda inspector: inspector.locks(wanted))

    def find_leaks(self) -> Iterator[LockView]:
        """Yield what never expires, or whose holder or queue is gone. Raises as :meth:`inspect`.

        Example::

            for view in client.find_leaks():
                print(view.name, view.problems)
        """
        yield from self._runtime.found(self._inspector(), lambda inspector: inspector.leaks())

    def count_locks(self, pattern: str = "*") -> dict[str, int]:
        """Return how many locks are held, by kind: the word of ``get_*``. Raises as :meth:`inspect`.

        Example::

            counts = client.count_locks()

        Args:
            pattern: As for :meth:`find_locks`.
        """
        wanted = pattern if pattern != "*" else None
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.counts(wanted)))

    def wait_graph(self) -> WaitGraph:
        """Return who waits for whom, and the deadlocks among them. Raises as :meth:`inspect`.

        Example::

            graph = client.wait_graph()
            for cycle in graph.cycles:
                print(" -> ".join(edge.waiter.label for edge in cycle))
        """
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.wait_graph()))

    def clients(self) -> list[ClientView]:
        """Return the clients of the server, by their connections and what they report. Raises as :meth:`inspect`.

        Example::

            for each in client.clients():
                print(each.app, each.host, len(each.holds))
        """
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.clients()))

    def close(self) -> None:
        """Close the client: end its threads, its connections and its embedded server. Idempotent.

        Waiters are woken with ``ClientClosedError``. Locks that are still held are renewed no longer; a block
        that is left before its lease ends releases its lock all the same.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            client.close()
        """
        process.check_forked()
        self._core.close()
        try:
            run(self._core.end())
        finally:
            run(self._runtime.close())
        self._end()

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
