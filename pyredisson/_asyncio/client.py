"""``Redisson``, the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, final

import redis.asyncio

from pyredisson._asyncio.factory import Factory
from pyredisson._asyncio.pipe import FORM
from pyredisson._asyncio.runtime import AsyncioRuntime
from pyredisson._core.names import check_name
from pyredisson._shared import process
from pyredisson._shared.arguments import refuse, settings_by_name
from pyredisson._shared.client import BaseClient
from pyredisson.config import Config

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.holders import Holder
    from pyredisson.inspection import ClientView, LockView, WaitGraph


@final
class Redisson(BaseClient, Factory):
    """A client, which makes locks and synchronizers and serves them with one watchdog and one subscriber.

    It connects when a lock or synchronizer is first used. Handles keep their client alive; once the client and all its
    handles are gone, or after :meth:`close`, its tasks and connections end. In the child of a fork it is a different
    client, which holds none of its parent's locks.

    It serves one event loop at a time. If that loop was closed, the client starts afresh on the next one, and its
    earlier holds are lost; use from a second live loop raises ``RuntimeError``.

    Example::

        async with Redisson.from_url("redis://localhost:6379") as client:
            lock = client.get_lock("orders")

    Args:
        redis: A redis-py client to copy the settings from (a ``redis.asyncio.Redis`` or a
            ``redis.asyncio.RedisCluster``). It remains the caller's and is not closed. ``None``:
            ``redis://localhost:6379``.
        config: The settings that differ from the defaults.
    """

    _form = FORM
    _runtime_class = AsyncioRuntime
    _runtime: AsyncioRuntime  # pyright: ignore[reportIncompatibleVariableOverride]

    @settings_by_name
    def __init__(
        self,
        redis: redis.asyncio.Redis | redis.asyncio.RedisCluster | None = None,
        *,
        config: Config | None = None,
        **unknown: NoReturn,
    ) -> None:
        refuse(self.__init__, unknown)
        self._start(redis, config)

    async def holder_of(self, name: str) -> Holder | None:
        """Return who holds the lock of this name, as far as the server knows within a moment.

        Example::

            holder = await client.holder_of("orders")

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
        found = await self._core.finder.find(check_name(name), by_user=True)
        return found.holder

    async def inspect(self, name: str) -> LockView | None:
        """Return what is stored under a name: its kind, who holds it, who waits. It changes nothing.

        Example::

            view = await client.inspect("orders")
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
        return await self._runtime.inspect(self._inspector(), lambda inspector: inspector.lock(name))

    async def find_locks(self, pattern: str = "*") -> AsyncIterator[LockView]:
        """Yield the locks and synchronizers whose names match a pattern, as they are found. Raises as :meth:`inspect`.

        All keys of the server are searched (``SCAN``), unless the pattern is a name.

        Example::

            async for view in client.find_locks("order:*"):
                print(view.name, view.kind, view.remaining)

        Args:
            pattern: As for ``SCAN MATCH``.
        """
        wanted = pattern if pattern != "*" else None
        async for each in self._runtime.found(self._inspector(), lambda inspector: inspector.locks(wanted)):
            yield each

    async def find_leaks(self) -> AsyncIterator[LockView]:
        """Yield what never expires, or whose holder or queue is gone. Raises as :meth:`inspect`.

        Example::

            async for view in client.find_leaks():
                print(view.name, view.problems)
        """
        async for each in self._runtime.found(self._inspector(), lambda inspector: inspector.leaks()):
            yield each

    async def count_locks(self, pattern: str = "*") -> dict[str, int]:
        """Return how many locks are held, by kind: the word of ``get_*``. Raises as :meth:`inspect`.

        Example::

            counts = await client.count_locks()

        Args:
            pattern: As for :meth:`find_locks`.
        """
        wanted = pattern if pattern != "*" else None
        return await self._runtime.inspect(self._inspector(), lambda inspector: inspector.counts(wanted))

    async def wait_graph(self) -> WaitGraph:
        """Return who waits for whom, and the deadlocks among them. Raises as :meth:`inspect`.

        Example::

            graph = await client.wait_graph()
            for cycle in graph.cycles:
                print(" -> ".join(edge.waiter.label for edge in cycle))
        """
        return await self._runtime.inspect(self._inspector(), lambda inspector: inspector.wait_graph())

    async def clients(self) -> list[ClientView]:
        """Return the clients of the server, by their connections and what they report. Raises as :meth:`inspect`.

        Example::

            for each in await client.clients():
                print(each.app, each.host, len(each.holds))
        """
        return await self._runtime.inspect(self._inspector(), lambda inspector: inspector.clients())

    async def close(self) -> None:
        """Close the client: end its tasks, its connections and its embedded server. Idempotent.

        Waiters are woken with ``ClientClosedError``. Locks that are still held are renewed no longer; a block
        that is left before its lease ends releases its lock all the same.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            await client.close()
        """
        process.check_forked()
        self._core.close()
        try:
            await self._core.end()
        finally:
            await self._runtime.close()
        self._end()

    async def aclose(self) -> None:
        """Close the client; the same as :meth:`close`, for ``contextlib.aclosing()``.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            await client.aclose()
        """
        await self.close()

    async def __aenter__(self) -> Self:
        self._core.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
