"""``Redisson``, the client for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, final

import redis.asyncio

from pyredisson.asyncio.factory import Factory
from pyredisson.asyncio.runtime import AsyncioRuntime
from pyredisson.asyncio.transport import FORM
from pyredisson.config import Config
from pyredisson.core.names import check_name
from pyredisson.shared import process
from pyredisson.shared.arguments import own_keywords, refuse
from pyredisson.shared.base_client import BaseClient

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.holders import Holder


@final
@own_keywords
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
        return (await self._core.finder.find(check_name(name), asked=True)).holder

    async def close(self) -> None:
        """Close the client: end its tasks, its connections and its embedded server. Idempotent.

        Waiters are woken with ``ClientClosedError``. Locks that are still held are not released: as after a crash,
        they expire with their leases.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            await client.close()
        """
        process.check()
        self._core.close()
        try:
            await self._core.end()
        finally:
            await self._runtime.close()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
