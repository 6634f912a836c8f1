"""Connections of a class, or of a factory, that is the user's, in both forms.

Anything may stand behind it: a class that tunnels, a fake in memory, redis-py's own that asks sentinels. They are made
from the settings of the user's pool, and are ours: they are neither taken from that pool nor counted there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import redis.exceptions as rx

from pyredisson._core.failures import NotSent, Unanswered
from pyredisson._net.link import CONNECTING
from pyredisson._net.pool import Pool
from pyredisson._net.refusals import as_redis_error, as_reply, not_opened
from pyredisson._net.urls import kept_settings
from pyredisson._net.wire import Address, Connect, Introduce
from pyredisson._shared.clock import monotonic

#: What redis-py's own reader raises for an error reply, some of which it makes errors of the connection.
REFUSED = (rx.ResponseError, rx.BusyLoadingError, rx.AuthenticationError)


class UserWire(ABC):
    """A connection of the user's class."""

    def __init__(self, connection: Any) -> None:
        self.connection: Any = connection
        self.address: Any = place_of(connection)
        self.used: float = monotonic()

    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`Wire.call`."""
        try:
            await self._send(data)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            return await self._receive(timeout)
        except REFUSED as error:
            return as_reply(error)
        except (rx.RedisError, OSError) as error:
            raise Unanswered(as_redis_error(error)) from None

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Send a request."""

    @abstractmethod
    async def _receive(self, timeout: float) -> Any:
        """Return the reply. Raises an error of redis-py, also for no reply in time."""

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`Wire.call_many`. One after another: redis-py reads no more than it was asked for."""
        over = monotonic() + timeout
        return [await self.call(each, max(0.001, over - monotonic())) for each in requests]

    @abstractmethod
    def usable(self) -> bool:
        """See :meth:`Wire.usable`."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def retire(self) -> None:
        """Close it: nothing is in flight on it."""
        self.close()

    @abstractmethod
    def abandon(self) -> None:
        """See :meth:`Wire.abandon`."""


class UserTransport(ABC):
    """Makes connections as the pool of a client does. See :class:`pyredisson._net.link.Transport`."""

    direct = False
    now: staticmethod[[], float] = staticmethod(monotonic)
    #: What the connections are here.
    wire: type[UserWire]

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.watchdog: object = None

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
        """See :meth:`Transport.pools`."""
        pool = Pool(self, connect, connect_timeout)
        return pool, pool

    async def open(self, address: Address | None, timeout: float) -> UserWire:
        """See :meth:`Transport.open`."""
        return self.wire(await self._make(timeout))

    async def _make(self, timeout: float) -> Any:
        """Make a connection as the pool does, but one that redis-py does not repeat."""
        try:
            connection = self._pool.connection_class(**kept_settings(self._pool.connection_kwargs))
            await self._connect(connection, max(timeout, CONNECTING))
        except (rx.RedisError, OSError) as error:
            raise not_opened(error) from None
        return connection

    @abstractmethod
    async def _connect(self, connection: Any, timeout: float) -> None:
        """Connect it, however long it likes to take. Raises an error of redis-py, ``OSError`` or ``Connecting``."""

    @abstractmethod
    def caller(self) -> object:
        """See :meth:`Transport.caller`."""

    @abstractmethod
    def dial(self, work: Any) -> Any:
        """See :meth:`Dialler.dial`."""

    async def ask_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Never called: the user's connections ask who leads when they connect."""
        raise AssertionError("a connection of the user's class finds its master by itself")

    async def room(self, timeout: float) -> bool:
        """Say that there is."""
        return True

    def close(self) -> None:  # noqa: B027  # The pool of ours closes what is idle; the rest is in use.
        """Do nothing."""

    def abandon(self) -> None:  # noqa: B027  # Only threads have something to do.
        """Do nothing."""


def place_of(connection: Any) -> Any:
    """Return where a connection of redis-py leads, as far as it says."""
    return getattr(connection, "host", None), getattr(connection, "port", None)


def no_reply(timeout: float) -> rx.TimeoutError:
    """Return the error for a reply that was not received in time."""
    return rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")
