"""How the connections of a user's pool are used, in both forms: one a request, and given back at once."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable
from typing import Any, Protocol

from pyredisson.core.backoff import DoublingBackoff
from pyredisson.net.pool import Pool
from pyredisson.net.transport import Transport
from pyredisson.net.wire import Connect, Introduce, Wire

__all__ = ["RETRY", "BorrowedPool", "own_settings_of", "place_of"]

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
    def source(self) -> Any: ...


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
        """Give a connection back to where it came from."""
        return super().put_back(wire) if wire.own else self._lender.give_back(wire)

    def discard(self, wire: Any) -> None:
        """Disconnect a connection whose request failed, and give it back."""
        wire.close()
        if not wire.own:
            self._lender.give_back(wire)


def place_of(connection: Any) -> Any:
    """Return where a connection of redis-py leads, as far as it says."""
    return getattr(connection, "host", None), getattr(connection, "port", None)


def own_settings_of(pool: Any) -> dict[str, Any]:
    """Return the settings for a connection outside a user's pool: its own, but for repeating."""
    return {key: value for key, value in pool.connection_kwargs.items() if key != "retry"}
