"""Connections of the user's pool, one a request, for those that we cannot open ourselves.

Anything may stand behind such a pool: a subclass that tunnels, a fake in memory, a limit of one connection. The
watchdog and the subscriber must not wait behind the user's commands, so they have connections of their own.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson.net.borrowed import BorrowedWire, PoolTransport, no_reply, place_of
from pyredisson.threads.dialling import ThreadDial, in_time
from pyredisson.threads.inherited import end_inherited

if TYPE_CHECKING:
    from pyredisson.net.wire import Address, Dial


class BorrowedConnection(BorrowedWire):
    """A connection of redis-py."""

    async def _send(self, data: bytes) -> None:
        self.connection.send_packed_command([data], check_health=False)

    async def _receive(self, timeout: float) -> Any:
        if not self.connection.can_read(timeout):
            raise no_reply(timeout)
        return self.connection.read_response(disable_decoding=True)

    def close(self) -> None:
        self.connection.disconnect()

    def abandon(self) -> None:
        self.close()


class BorrowedTransport(PoolTransport):
    """The pool of a client that the user made."""

    wire: type[BorrowedWire] = BorrowedConnection

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        # Whether the server answered the last time. Else a connection may take as long to make as the pool's own
        # settings let it, and so it is made in a thread of its own.
        self._answers = False

    def caller(self) -> object:
        return threading.get_ident()

    async def _get(self, timeout: float) -> Any:
        get: Callable[[], Any] = self._pool.get_connection
        connection = get() if self._answers else in_time(get, timeout, self._pool.release)
        self._answers = False
        return connection

    def give_back(self, wire: BorrowedConnection) -> None:
        """Let the user's pool have a connection back."""
        self._answers = wire.answered
        self._pool.release(wire.connection)

    async def _connect(self, connection: Any, timeout: float) -> None:
        self._made.add(connection)
        in_time(connection.connect, timeout, lambda _: connection.disconnect())

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def open_stream(self, address: Address | None, timeout: float) -> BorrowedStream:
        return BorrowedStream(await self._make(timeout))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return ThreadDial(work)

    def abandon(self) -> None:
        made, self._made = list(self._made), weakref.WeakSet()
        end_inherited(getattr(each, "_sock", None) for each in made)


class BorrowedStream:
    """A stream on a connection of the user's kind, of which we know only that it can be read with a timeout.

    Attributes:
        address: Where it leads.
    """

    #: It cannot be woken, so it is looked at so often; that costs the server nothing.
    GLANCE = 0.02

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.address: Any = place_of(connection)
        self._mutex = threading.Lock()

    def send(self, data: bytes) -> None:
        with self._mutex:
            self._connection.send_packed_command([data], check_health=False)

    async def read(self, timeout: float) -> list[Any] | None:
        try:
            if not self._connection.can_read(min(timeout, self.GLANCE)):
                return []
            return [self._connection.read_response(disable_decoding=True, push_request=True)]
        except rx.ResponseError as error:
            return [error]
        except (rx.RedisError, OSError):
            return None

    def wake(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.disconnect()
