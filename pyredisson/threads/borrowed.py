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

from pyredisson.core.failures import NotSent, Unanswered
from pyredisson.net.borrowed import RETRY, BorrowedWire, PoolTransport, own_settings_of, place_of
from pyredisson.net.link import CONNECTING
from pyredisson.net.resp import as_redis_error
from pyredisson.shared.clock import monotonic
from pyredisson.threads.dialling import ThreadDial, in_time
from pyredisson.threads.inherited import end_inherited

if TYPE_CHECKING:
    from pyredisson.net.wire import Address, Dial


class BorrowedConnection(BorrowedWire):
    """A connection of redis-py. ``answered``: whether its server answered the last time."""

    answered: bool = False

    @property
    def source(self) -> Any:
        """What is another one after each time that it was connected."""
        return getattr(self.connection, "_sock", None) or self.connection

    async def call(self, data: bytes, timeout: float) -> Any:
        connection = self.connection
        self.answered = False
        try:
            connection.send_packed_command([data], check_health=False)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            if not connection.can_read(timeout):
                raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
            reply = connection.read_response(disable_decoding=True)
        except rx.ResponseError as error:
            reply = error
        except (rx.RedisError, OSError) as error:
            raise Unanswered(as_redis_error(error)) from None
        self.answered = True
        return reply

    def close(self) -> None:
        self.connection.disconnect()

    def retire(self) -> None:
        self.close()

    abandon = retire


class BorrowedTransport(PoolTransport):
    """The pool of a client that the user made."""

    caller: staticmethod[[], object] = staticmethod(threading.get_ident)

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        # Whether the server answered the last time. Else a connection may take as long to make as the pool's own
        # settings let it, and so it is made in a thread of its own.
        self._answers = False

    async def borrow(self, timeout: float) -> BorrowedConnection:
        """Take a connection of the user's pool. Raises ``NotSent``."""
        until = monotonic() + timeout
        get: Callable[[], Any] = self._pool.get_connection
        failures = 0
        while True:
            pause = RETRY.longest(failures)
            try:
                connection = get() if self._answers else in_time(get, max(timeout, CONNECTING), self._pool.release)
                self._answers = False
                return BorrowedConnection(connection, own=False)
            except rx.MaxConnectionsError as error:
                if monotonic() + pause > until:
                    raise NotSent(error) from None
            except (rx.RedisError, OSError) as error:
                raise NotSent(as_redis_error(error)) from None
            time.sleep(pause)
            failures += 1

    def give_back(self, wire: BorrowedConnection) -> None:
        """Let the user's pool have a connection back."""
        self._answers = wire.answered
        self._pool.release(wire.connection)

    async def open(self, address: Address | None, timeout: float) -> BorrowedConnection:
        return BorrowedConnection(self.make(timeout), own=True)

    def make(self, timeout: float) -> Any:
        """Make a connection outside the pool, of the pool's kind."""
        try:
            connection = self._pool.connection_class(**own_settings_of(self._pool))
            self._made.add(connection)
            in_time(connection.connect, max(timeout, CONNECTING), lambda _: connection.disconnect())
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        return connection

    async def open_stream(self, address: Address | None, timeout: float) -> BorrowedStream:
        return BorrowedStream(self.make(timeout))

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
