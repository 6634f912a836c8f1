"""Connections of a class that is the user's, for threads; see :mod:`pyredisson._net.urls`."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson._net.refusals import as_reply
from pyredisson._net.urls import REFUSED, UserTransport, UserWire, no_reply, place_of
from pyredisson._threads.dialling import ThreadDial, in_time
from pyredisson._threads.inherited import end_inherited

if TYPE_CHECKING:
    from pyredisson._net.wire import Address, Dial


class ThreadUserWire(UserWire):
    """A connection of the user's class."""

    async def _send(self, data: bytes) -> None:
        self.connection.send_packed_command([data], check_health=False)

    async def _receive(self, timeout: float) -> Any:
        if not self.connection.can_read(timeout):
            raise no_reply(timeout)
        return self.connection.read_response(disable_decoding=True)

    def usable(self) -> bool:
        try:
            return not self.connection.can_read(0)
        except (rx.RedisError, OSError):
            return False

    def close(self) -> None:
        self.connection.disconnect()

    def abandon(self) -> None:
        self.close()


class ThreadUserTransport(UserTransport):
    """Makes connections as the pool of a client does."""

    wire: type[UserWire] = ThreadUserWire

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()

    def caller(self) -> object:
        return threading.get_ident()

    async def _connect(self, connection: Any, timeout: float) -> None:
        self._made.add(connection)
        in_time(connection.connect, timeout, lambda _: connection.disconnect())

    async def open_stream(self, address: Address | None, timeout: float) -> ThreadUserStream:
        return ThreadUserStream(await self._make(timeout))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return ThreadDial(work)

    def abandon(self) -> None:
        made, self._made = list(self._made), weakref.WeakSet()
        end_inherited(getattr(each, "_sock", None) for each in made)


class ThreadUserStream:
    """A stream on a connection of the user's class, of which we know only that it can be read with a timeout.

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
        except REFUSED as error:
            return [as_reply(error)]
        except (rx.RedisError, OSError):
            return None

    def wake(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.disconnect()
