"""The semaphores and the latch: one statement a method over the core (``pyredisson._kinds``)."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, final, overload

from pyredisson._asyncio.hold import PermitHold
from pyredisson._core.deadline import wait_seconds
from pyredisson._shared.arguments import refuse
from pyredisson._shared.client import Handle
from pyredisson.lease import AsyncLease as Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.semaphores import PermitSemaphoreCore, SemaphoreCore
    from pyredisson._kinds.synchronizers import LatchCore


class Expirable(Handle):
    """The methods of what exists in Redis until it is deleted or expires. Source: Redisson's ``RExpirable``."""

    __slots__ = ()

    _core: SemaphoreCore | PermitSemaphoreCore | LatchCore

    async def expire(self, seconds: Seconds) -> bool:
        """Delete it after a time, with all its keys, unless :meth:`clear_expire` is called before.

        Waiters are not notified then: those for a latch notice within ``Config.max_wait_without_check``. As in
        Redisson, ``add_permits()`` and ``drain_permits()`` make the number of available permits stay.

        Example::

            await semaphore.expire(3600)

        Args:
            seconds: Seconds from now, by the server's clock.

        Returns:
            Whether it exists.

        Raises:
            ValueError: ``seconds`` is not positive, or a plain number for more than a day: pass a ``timedelta`` then.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.expire(seconds)

    async def clear_expire(self) -> bool:
        """Keep what :meth:`expire` would delete later. Raises as :meth:`delete`.

        Example::

            await semaphore.expire(3600)
            await semaphore.clear_expire()

        Returns:
            Whether it would have expired.
        """
        return await self._core.clear_expire()

    async def delete(self) -> bool:
        """Delete it, with all its keys.

        A deleted latch is open, so its waiters return. A deleted semaphore has no permits: its waiters wait until some
        are set or released. A plain permit that was acquired before and is released later is added anew, so delete a
        :class:`Semaphore` while none is acquired.

        Example::

            await semaphore.delete()

        Returns:
            Whether it existed.

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.delete()

    async def exists(self) -> bool:
        """Return whether it exists: permits or a count were set, and it has neither been deleted nor expired.

        Example::

            print(await semaphore.exists())

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.exists()


class AnySemaphore(Expirable, shown="Semaphore"):
    """The methods that :class:`Semaphore` and :class:`PermitExpirableSemaphore` share."""

    __slots__ = ()

    _core: SemaphoreCore | PermitSemaphoreCore  # pyright: ignore[reportIncompatibleVariableOverride]

    async def try_set_permits(self, n: int, ttl: Seconds | None = None) -> bool:
        """Set the number of permits to ``n``, unless the semaphore already has permits.

        Example::

            await semaphore.try_set_permits(3)
            await semaphore.try_set_permits(3, ttl=3600)

        Args:
            n: How many.
            ttl: Seconds after which the semaphore no longer exists in Redis; ``add_permits()`` and ``drain_permits()``
                remove this limit. ``None``: it stays.

        Returns:
            Whether the number was set.

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.try_set_permits(n, ttl)

    async def add_permits(self, n: int) -> None:
        """Add ``n`` permits; a negative number removes some.

        Example::

            await semaphore.add_permits(2)
            await semaphore.add_permits(-1)

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.add_permits(n)

    async def available_permits(self) -> int:
        """Return the number of available permits; it is negative if more were removed than were available.

        Example::

            print(await semaphore.available_permits())
        """
        return await self._core.available_permits()

    async def resize(self, permits: int) -> None:
        """Set the total number of permits to ``permits``, whatever is acquired.

        Acquired permits are not touched: if there are more of them than ``permits``, the number of available permits
        is negative until enough are released. If the number grows, waiters are woken.

        A :class:`PermitExpirableSemaphore` counts its permits. Of a :class:`Semaphore` Redisson stores the available
        ones alone, so pyredisson records the total in ``pyredisson_permits:{name}`` when it sets or changes it. What
        Redisson's ``addPermits`` adds is not recorded: it stays in addition to ``permits``, until more permits are
        available than were recorded when ``resize`` is called. Where no total is recorded, because Redisson or an
        earlier version set the permits, it is assumed to be what this handle was made with
        (``get_semaphore(name, permits=n)``, without ``resize=True``).

        Example::

            await semaphore.resize(5)

        Raises:
            LockError: The total of a :class:`Semaphore` is not recorded, and the handle was made without one.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.resize(permits)


@final
class Semaphore(AnySemaphore):
    """A number of permits that tasks of any number of processes acquire and release.

    A permit has no owner: any caller may release one, and the permits of a process that died stay taken, in Redisson as
    here. If they are to return, use :class:`PermitExpirableSemaphore`.

    Made by :meth:`Redisson.get_semaphore`. A new semaphore has no permits: set them with
    ``get_semaphore(name, permits=n)`` or :meth:`try_set_permits`. Source: Redisson's ``RSemaphore``.

    Each call takes effect at most once, even if messages are lost. If a call is interrupted, an acquire is undone, and
    any other operation is completed.

    Example::

        semaphore = client.get_semaphore("printers", permits=3)
        async with semaphore.hold(wait_time=5):
            ...
    """

    __slots__ = ()

    _core: SemaphoreCore  # pyright: ignore[reportIncompatibleVariableOverride]

    async def acquire(self, permits: int = 1, *, timeout: Seconds | None = None, **unknown: NoReturn) -> bool:
        """Acquire ``permits`` permits, all or none, waiting for them if necessary.

        Example::

            if await semaphore.acquire(permits=2, timeout=5):
                await semaphore.release(2)

        Args:
            permits: How many; 0 succeeds immediately.
            timeout: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.

        Returns:
            Whether the permits were acquired in time.

        Raises:
            OutcomeUnknownError: A request was sent, and its outcome could not be determined in time. Permits that it
                may have acquired are released in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
        """
        if unknown:
            refuse(self.acquire, unknown)
        return await self._core.acquire(permits, wait_seconds(timeout, "timeout"))

    async def try_acquire(self, permits: int = 1, wait_time: Seconds | None = 0, **unknown: NoReturn) -> bool:
        """Try to acquire ``permits`` permits, all or none, waiting at most ``wait_time`` seconds.

        Example::

            if await semaphore.try_acquire(wait_time=5):
                await semaphore.release()

        Args:
            permits: How many; 0 succeeds immediately.
            wait_time: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.

        Returns:
            Whether the permits were acquired in time.

        Raises:
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire`.
        """
        if unknown:
            refuse(self.try_acquire, unknown)
        return await self._core.acquire(permits, wait_seconds(wait_time))

    async def release(self, permits: int = 1, **unknown: NoReturn) -> None:
        """Release ``permits`` permits, whichever caller acquired them, and wake that number of waiters.

        Example::

            await semaphore.acquire()
            await semaphore.release()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        if unknown:
            refuse(self.release, unknown)
        await self._core.release(permits)

    async def drain_permits(self) -> int:
        """Acquire all available permits, and return their number. Raises as :meth:`acquire`.

        Example::

            drained = await semaphore.drain_permits()
            await semaphore.release(drained)
        """
        return await self._core.drain_permits()

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: Literal[False] = False
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(
        self, permits: int = 1, wait_time: Seconds | None = None, *, skip: bool = False, **unknown: NoReturn
    ) -> PermitHold[Any]:
        """Return a context manager that holds ``permits`` permits, all or none, for its block.

        The permits belong to the block and are released when it is left, in any task.

        Example::

            async with semaphore.hold(wait_time=5):
                ...
            async with semaphore.hold(wait_time=0, skip=True) as lease:
                if lease is not None:
                    ...

        Args:
            permits: How many.
            wait_time: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.
            skip: If the permits were not acquired in time, run the block without them, with ``None`` in place of a
                lease.

        Returns:
            A context manager whose value is a :class:`Lease` without an end, as such permits do not expire.

        Raises:
            LockTimeoutError: On entering: the permits were not acquired in time (unless ``skip``).
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire` and :meth:`release`.
        """
        if unknown:
            refuse(self.hold, unknown)
        return PermitHold(self._client, self._core.hold(permits, wait_time, skip=skip))

    async def __aenter__(self) -> bool:
        return await self._core.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.leave(error)


@final
class PermitExpirableSemaphore(AnySemaphore):
    """A semaphore whose permits have an id each, are released by that id, and may expire.

    Made by :meth:`Redisson.get_permit_expirable_semaphore`. :meth:`hold` keeps a permit for a block, and the watchdog
    renews it. A permit that :meth:`acquire` returned without a lease never expires and is not renewed: if its holder
    dies, it stays acquired. Source: Redisson's ``RPermitExpirableSemaphore``.

    Example::

        permits = client.get_permit_expirable_semaphore("printers", permits=3)
        async with permits.hold(wait_time=5):
            ...
        permit = await permits.acquire(lease_time=30)
        ...
        await permits.release(permit)
    """

    __slots__ = ()

    _core: PermitSemaphoreCore  # pyright: ignore[reportIncompatibleVariableOverride]

    async def set_permits(self, n: int) -> None:
        """Set the total number of permits, including acquired ones, to ``n``. Raises as :meth:`add_permits`.

        If more permits than that are acquired, the surplus must be released before a permit is available again.

        Example::

            await permits.set_permits(5)
        """
        await self._core.resize(n)

    @overload
    async def acquire(self, lease_time: Seconds | None = None, *, permits: None = None) -> str: ...

    @overload
    async def acquire(self, lease_time: Seconds | None = None, *, permits: int) -> list[str]: ...

    async def acquire(
        self, lease_time: Seconds | None = None, *, permits: int | None = None, **unknown: NoReturn
    ) -> str | list[str]:
        """Acquire a permit, or several of them, waiting without a time limit.

        Example::

            permit = await permits.acquire(lease_time=30)
            await permits.release(permit)
            two = await permits.acquire(lease_time=30, permits=2)
            await permits.release(two)

        Args:
            lease_time: Seconds, by the server's clock, after which the permit expires and is available again.
                ``None``: it never expires.
            permits: How many, from 1 to 1,000, all or none. ``None``: one, whose id is returned without a list.

        Returns:
            The permit's id, 32 hexadecimal digits; with ``permits``, the list of the ids.

        Raises:
            OutcomeUnknownError: A request was sent, and its outcome could not be determined in time. Permits that it
                may have acquired are released in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        if unknown:
            refuse(self.acquire, unknown)
        return await self._core.acquire(lease_time, permits)

    @overload
    async def try_acquire(
        self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None, *, permits: None = None
    ) -> str | None: ...

    @overload
    async def try_acquire(
        self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None, *, permits: int
    ) -> list[str] | None: ...

    async def try_acquire(
        self,
        wait_time: Seconds | None = 0,
        lease_time: Seconds | None = None,
        *,
        permits: int | None = None,
        **unknown: NoReturn,
    ) -> str | list[str] | None:
        """Try to acquire a permit, or several of them, waiting at most ``wait_time`` seconds.

        Example::

            permit = await permits.try_acquire(wait_time=5, lease_time=30)
            if permit is not None:
                await permits.release(permit)

        Args:
            wait_time: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.
            lease_time: As for :meth:`acquire`.
            permits: As for :meth:`acquire`.

        Returns:
            The permit's id; with ``permits``, the list of the ids; ``None`` if they were not acquired in time.

        Raises:
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
            OutcomeUnknownError, ClientClosedError: As :meth:`acquire`.
        """
        if unknown:
            refuse(self.try_acquire, unknown)
        return await self._core.try_acquire(wait_time, lease_time, permits)

    async def release(self, permit_id: str | list[str], **unknown: NoReturn) -> None:
        """Release a permit by its id, whichever caller acquired it, and wake one waiter.

        Example::

            permit = await permits.acquire(lease_time=30)
            await permits.release(permit)
            two = await permits.acquire(lease_time=30, permits=2)
            await permits.release(two)

        Args:
            permit_id: The permit's id; or a list of from 1 to 1,000 different ids, whose permits are released all or
                none.

        Raises:
            LockNotOwnedError: There is no such permit: it was released, has expired, or never existed. Of a list, none
                was released.
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        if unknown:
            refuse(self.release, unknown)
        await self._core.release(permit_id)

    async def try_release(self, permit_id: str | list[str], **unknown: NoReturn) -> bool:
        """Release a permit by its id, or a list of them. Raises as :meth:`release`, except for ``LockNotOwnedError``.

        Example::

            permit = await permits.acquire(lease_time=30)
            assert await permits.try_release(permit)

        Args:
            permit_id: As for :meth:`release`.

        Returns:
            Whether the permit existed and had not expired; of a list, whether all did. Else none of them was released.
        """
        if unknown:
            refuse(self.try_release, unknown)
        return await self._core.try_release(permit_id)

    async def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """Set the time after which a permit expires, longer or shorter than before.

        Example::

            permit = await permits.acquire(lease_time=30)
            await permits.update_lease_time(permit, lease_time=60)

        Args:
            permit_id: The permit's id.
            lease_time: Seconds from now. ``None``: it never expires.

        Returns:
            Whether the permit existed and had not expired.

        Raises:
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`release`.
        """
        return await self._core.update_lease_time(permit_id, lease_time)

    async def get_lease_time(self, permit_id: str) -> float:
        """Return the seconds after which a permit expires; infinite if it never does.

        Example::

            permit = await permits.acquire(lease_time=30)
            print(await permits.get_lease_time(permit))

        Raises:
            LockNotOwnedError: There is no such permit: it was released, has expired, or never existed.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.get_lease_time(permit_id)

    async def get_permits(self) -> int:
        """Return the total number of permits, available or acquired; 0 if it was never set.

        Example::

            print(await permits.get_permits())
        """
        return await self._core.get_permits()

    async def acquired_permits(self) -> int:
        """Return the number of acquired permits.

        Example::

            print(await permits.acquired_permits())
        """
        return await self._core.acquired_permits()

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: Literal[False] = False,
        on_loss: Callable[[], object] | None = None,
    ) -> PermitHold[Lease[None]]: ...

    @overload
    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
    ) -> PermitHold[Lease[None] | None]: ...

    def hold(
        self,
        wait_time: Seconds | None = None,
        lease_time: Seconds | None = None,
        *,
        skip: bool = False,
        on_loss: Callable[[], object] | None = None,
        **unknown: NoReturn,
    ) -> PermitHold[Any]:
        """Return a context manager that holds a permit for its block.

        The permit belongs to the block and is released when it is left, in any task.

        Example::

            async with permits.hold(wait_time=5) as lease:
                ...
                lease.ensure_held()

        Args:
            wait_time: Seconds to wait at most. 0: make one attempt. ``None``: wait without a time limit.
            lease_time: Seconds after which the permit expires. ``None``: the watchdog renews it while the block runs,
                and it expires ``Config.lock_watchdog_timeout`` after its holder died.
            skip: If no permit was acquired in time, run the block without one, with ``None`` in place of a lease.
            on_loss: Called once, without arguments, if the block's permit is lost. It is called as
                ``Config.on_lock_lost`` is.

        Returns:
            A context manager whose value is a :class:`Lease`.

        Raises:
            LockTimeoutError: On entering: no permit was acquired in time (unless ``skip``).
            LockLostError: On leaving: the permit has expired, or was released by its id. An exception of the block
                takes precedence.
            OutcomeUnknownError, ClientClosedError, redis.exceptions.RedisError: As :meth:`acquire` and :meth:`release`.
        """
        if unknown:
            refuse(self.hold, unknown)
        return PermitHold(self._client, self._core.hold(wait_time, lease_time, skip=skip, on_loss=on_loss))


@final
class CountDownLatch(Expirable):
    """A latch that lets all waiters, in any number of processes, proceed once it has been counted down to zero.

    Made by :meth:`Redisson.get_count_down_latch`. A latch without a count is open: :meth:`wait` returns immediately,
    also after the server has lost its data. Source: Redisson's ``RCountDownLatch``.

    Example::

        latch = client.get_count_down_latch("import")
        await latch.try_set_count(1)
        await latch.count_down()  # in any process
        await latch.wait(timeout=60)
    """

    __slots__ = ()

    _core: LatchCore  # pyright: ignore[reportIncompatibleVariableOverride]

    async def try_set_count(self, n: int) -> bool:
        """Set the count to ``n``, unless the latch has a count above zero.

        Example::

            await latch.try_set_count(3)

        Returns:
            Whether the count was set.

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.try_set_count(n)

    async def count_down(self) -> None:
        """Reduce the count by one, and wake all waiters when it reaches zero. At zero, do nothing.

        Example::

            await latch.try_set_count(1)
            await latch.count_down()

        Raises:
            OutcomeUnknownError: The request was sent, and its outcome could not be determined in time. It is completed
                in the background; do not call again.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        await self._core.count_down()

    async def get_count(self) -> int:
        """Return the count; 0 if the latch is open, or never had a count.

        Example::

            print(await latch.get_count())
        """
        return await self._core.get_count()

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the count is 0.

        Example::

            if not await latch.wait(timeout=5):
                print("not in time")

        Args:
            timeout: Seconds to wait at most. 0: check once. ``None``: wait without a time limit.

        Returns:
            Whether the count was 0 at some moment of the wait.

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, also if the time ended during an outage; or
                it refused the request.
        """
        return await self._core.wait(timeout)
