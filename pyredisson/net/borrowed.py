"""How the connections of a user's pool are used, in both forms: one a request, and returned at once."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import Any

import redis.exceptions as rx

from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.failures import NotSent, Unanswered
from pyredisson.net.link import CONNECTING
from pyredisson.net.pool import Pool
from pyredisson.net.refusals import as_redis_error
from pyredisson.net.wire import Address, Connect, Introduce, Wire
from pyredisson.shared.clock import monotonic

#: Between two looks for a connection of a pool that has none left.
RETRY = DoublingBackoff(first=0.001, maximum=0.02)


class BorrowedWire(ABC):
    """A connection of redis-py.

    Args:
        connection: The connection.
        own: Whether it was made for us; else it goes back to the user's pool.

    Attributes:
        answered: Whether its server answered the last time.
    """

    def __init__(self, connection: Any, *, own: bool) -> None:
        self.connection: Any = connection
        self.own: bool = own
        self.address: Any = place_of(connection)
        self.used: float = monotonic()
        self.answered: bool = False

    @property
    def source(self) -> Any:
        """Return its socket or stream, which is another one after each time that it was connected."""
        connection = self.connection
        return getattr(connection, "_sock", None) or getattr(connection, "_reader", None) or connection

    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`Wire.call`."""
        self.answered = False
        try:
            await self._send(data)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            reply = await self._receive(timeout)
        except rx.ResponseError as error:
            reply = error
        except (rx.RedisError, OSError) as error:
            raise Unanswered(as_redis_error(error)) from None
        self.answered = True
        return reply

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

    def usable(self) -> bool:
        """Say that it is: it connects again by itself."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def retire(self) -> None:
        """Close it: nothing is in flight on it."""
        self.close()

    @abstractmethod
    def abandon(self) -> None:
        """See :meth:`Wire.abandon`."""


class PoolTransport(ABC):
    """The pool of a client that the user made. See :class:`pyredisson.net.link.Transport`."""

    direct = False
    now: staticmethod[[], float] = staticmethod(monotonic)
    #: What the connections are here.
    wire: type[BorrowedWire]

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.watchdog: object = None

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
        """See :meth:`Transport.pools`."""
        pool = BorrowedPool(self, connect, introduce, connect_timeout)
        return pool, pool

    async def borrow(self, timeout: float) -> BorrowedWire:
        """Take a connection of the user's pool. Raises ``NotSent``."""
        until = monotonic() + timeout
        failures = 0
        while True:
            pause = RETRY.longest(failures)
            try:
                return self.wire(await self._get(max(timeout, CONNECTING)), own=False)
            except rx.MaxConnectionsError as error:
                if monotonic() + pause > until:
                    raise NotSent(error) from None
            except (rx.RedisError, OSError) as error:
                raise NotSent(as_redis_error(error)) from None
            await self._sleep(pause)
            failures += 1

    @abstractmethod
    def give_back(self, wire: Any) -> Awaitable[object] | None:
        """Let the user's pool have a connection back. Returns what to await for that, if anything."""

    async def open(self, address: Address | None, timeout: float) -> BorrowedWire:
        """See :meth:`Transport.open`."""
        return self.wire(await self._make(timeout), own=True)

    async def _make(self, timeout: float) -> Any:
        """Make a connection outside the pool, of the pool's kind, but that redis-py does not repeat."""
        settings = {key: value for key, value in self._pool.connection_kwargs.items() if key != "retry"}
        try:
            connection = self._pool.connection_class(**settings)
            await self._connect(connection, max(timeout, CONNECTING))
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        return connection

    @abstractmethod
    def caller(self) -> object:
        """See :meth:`Transport.caller`."""

    @abstractmethod
    async def _get(self, timeout: float) -> Any:
        """Let the user's pool connect within a timeout. Raises an error of redis-py, ``OSError`` or ``Connecting``."""

    @abstractmethod
    async def _connect(self, connection: Any, timeout: float) -> None:
        """Connect a connection of redis-py. Raises as :meth:`_get`."""

    @abstractmethod
    async def _sleep(self, seconds: float) -> None:
        """Let time pass."""

    async def ask_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Never called: the user's pool asks who leads when it connects."""
        raise AssertionError("a user's pool finds its master by itself")

    async def room(self, timeout: float) -> bool:
        """Say that there is: the pool itself counts its connections."""
        return True

    def close(self) -> None:  # noqa: B027  # Nothing to do in either form.
        """Leave the pool to the user."""

    def abandon(self) -> None:  # noqa: B027  # Only threads have something to do.
        """Leave the pool to the user."""


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
        self._lender: PoolTransport = transport
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


def place_of(connection: Any) -> Any:
    """Return where a connection of redis-py leads, as far as it says."""
    return getattr(connection, "host", None), getattr(connection, "port", None)


def no_reply(timeout: float) -> rx.TimeoutError:
    """Return the error for a reply that was not received in time."""
    return rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")
