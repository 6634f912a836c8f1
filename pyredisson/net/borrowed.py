"""How the connections of a user's pool are used, in both forms: one a request, and returned at once."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from pyredisson.core.backoff import DoublingBackoff
from pyredisson.net.pool import Pool
from pyredisson.net.transport import Transport
from pyredisson.net.wire import Connect, Introduce, Wire
from pyredisson.shared.clock import monotonic

#: Between two looks for a connection of a pool that has none left.
RETRY = DoublingBackoff(first=0.001, maximum=0.02)


class Borrowed(Wire, Protocol):
    """A connection of redis-py.

    Attributes:
        own: Whether it was made for us; else it goes back to the user's pool.
        source: Its socket or stream.
    """

    own: bool

    @property
    def source(self) -> Any:
        """Return it. It is another one after each time that the connection was made anew."""
        ...


class Lender(Transport, Protocol):
    """A user's pool."""

    async def borrow(self, timeout: float) -> Borrowed:
        """Take a connection of the pool. Raises ``NotSent``."""
        ...

    def give_back(self, wire: Any) -> Awaitable[object] | None:
        """Let the pool have a connection back. Returns what to await for that, if anything."""
        ...


class BorrowedPool(Pool):
    """The connections of a user's pool. Only the watchdog's stay here.

    Args:
        transport: The user's pool.
        connect: Makes a connection for the watchdog.
        introduce: Lets the server at the end of a connection say who it is.
        connect_timeout: How long a connection may take to be made.
    """

    def __init__(self, transport: Any, connect: Connect, introduce: Introduce, connect_timeout: float) -> None:
        super().__init__(transport, connect, connect_timeout)
        self._lender: Lender = transport
        self._introduce = introduce
        # The sockets whose server was asked who it is: the pool makes a new one whenever it likes.
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def _reserved(self) -> bool:
        return self._lender.watchdog is not None and self._lender.caller() == self._lender.watchdog

    def get(self) -> Wire | None:
        """Return the watchdog's connection, if the watchdog asks."""
        return super().get() if self._reserved() else None

    async def connect(self, timeout: float) -> Wire:
        """Borrow a connection. Raises as :meth:`Pool.connect`."""
        if self._reserved():
            return await super().connect(timeout)
        wire = await self._lender.borrow(timeout)
        try:
            if wire.source not in self._known:
                await self._introduce(wire, timeout)
                self._known.add(wire.source)
        except BaseException:
            self.discard(wire)
            raise
        return wire

    def put_back(self, wire: Any) -> Awaitable[object] | None:
        """Give a connection back to its pool."""
        return super().put_back(wire) if wire.own else self._lender.give_back(wire)

    def discard(self, wire: Any) -> None:
        """Disconnect a connection whose request failed, and give it back."""
        wire.close()
        if not wire.own:
            self._lender.give_back(wire)


class BorrowedWire(ABC):
    """A connection of redis-py, as :class:`Borrowed` says. The arguments are its attributes."""

    def __init__(self, connection: Any, *, own: bool) -> None:
        self.connection: Any = connection
        self.own: bool = own
        self.address: Any = place_of(connection)
        self.used: float = monotonic()

    @abstractmethod
    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`Wire.call`."""

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`Wire.call_many`. One after another: redis-py reads no more than it was asked for."""
        over = monotonic() + timeout
        return [await self.call(each, max(0.001, over - monotonic())) for each in requests]

    def usable(self) -> bool:
        """Say that it is: it connects again by itself."""
        return True


class PoolTransport:
    """The part of :class:`Lender` that is the same for threads and for asyncio."""

    direct = False
    now: staticmethod[[], float] = staticmethod(monotonic)

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.watchdog: object = None

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
        """See :meth:`Transport.pools`."""
        pool = BorrowedPool(self, connect, introduce, connect_timeout)
        return pool, pool

    async def ask_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Never called: the user's pool asks who leads when it connects."""
        raise AssertionError("a user's pool finds its master by itself")

    async def room(self, timeout: float) -> bool:
        """Say that there is: the pool itself counts its connections."""
        return True

    def close(self) -> None:
        """Leave the pool to the user."""

    def abandon(self) -> None:
        """Leave the pool to the user."""


def place_of(connection: Any) -> Any:
    """Return where a connection of redis-py leads, as far as it says."""
    return getattr(connection, "host", None), getattr(connection, "port", None)


def own_settings_of(pool: Any) -> dict[str, Any]:
    """Return the settings for a connection outside a user's pool: its own, but for repeating."""
    return {key: value for key, value in pool.connection_kwargs.items() if key != "retry"}
