"""Makes the connections of a link under threads."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson._core.failures import Failure, NotSent
from pyredisson._net.link import FRESH, KEEP_IDLE, Pool
from pyredisson._net.refusals import as_reply
from pyredisson._net.urls import REFUSED, Form, UserTransport, UserWire, no_reply, place_of
from pyredisson._shared.process import monotonic
from pyredisson._threads.background import Sockets, end_inherited
from pyredisson._threads.sockets import Connection, SocketStream, ThreadDial, in_time

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._net.link import Stream, Transport
    from pyredisson._net.wire import Address, Connect, Dial, Introduce

#: What a request fails with for which there is no idle connection: the general path sends it.
NO_CONNECTION: Final = NotSent(ConnectionError("no idle connection"))


class SocketTransport:
    """Sockets of our own, made from the settings of a client. As many as requests are in flight at once."""

    direct = True
    now: staticmethod[[], float] = staticmethod(monotonic)
    caller: staticmethod[[], object] = staticmethod(threading.get_ident)

    def __init__(self, connection_class: type[Any], settings: dict[str, Any]) -> None:
        self._class = connection_class
        self._settings = settings
        self._sockets = Sockets()
        self.watchdog: object = None

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
        pool = Pool(self, connect, connect_timeout)
        return pool, pool

    async def open(self, address: Address | None, timeout: float) -> Connection:
        return Connection(self._sockets, self._open(address, timeout), monotonic(), address)

    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        return SocketStream(self._open(address, timeout))

    def _open(self, address: Address | None, timeout: float) -> Any:
        settings = self._settings if address is None else {**self._settings, "host": address[0], "port": address[1]}
        return self._sockets.open(self._class, settings, timeout)

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        sentinel: Any = redis.Redis(**settings, retry=Retry(NoBackoff(), 0))
        with sentinel:
            return sentinel.execute_command(*command)

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return ThreadDial(work)

    async def room(self, timeout: float) -> bool:
        return True

    def close(self) -> None:
        pass  # The pool closes what is idle; the rest is in use.

    def abandon(self) -> None:
        self._sockets.abandon()


class ThreadMutex:
    """See :class:`pyredisson._net.cluster.TimedMutex`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def enter(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX)))

    def leave(self) -> None:
        self._lock.release()


def _as_the_pool_does(pool: Any) -> Transport:

    return ThreadUserTransport(pool)


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)


FORM = Form(redis, SocketTransport, _as_the_pool_does, ThreadMutex, _sleep)


def exchange_idle(client: ClientCore, data: bytes) -> Any:
    """Send a request on an idle connection. Returns the reply, or the failure.

    The calls of ``ServerLink`` spelt out, for the fast path.
    """
    pool: Any = client.fast_pool
    try:
        wire = pool.idle.pop()
    except (AttributeError, IndexError):  # The client was closed; or all are in use.
        return NO_CONNECTION
    if monotonic() - wire.used > FRESH:
        pool.idle.append(wire)
        return NO_CONNECTION
    try:
        reply = wire.exchange(data, client.plain_timeout)
    except Failure as failure:
        return failure
    wire.used = monotonic()
    pool.idle.append(wire)
    if client.closed or len(pool.idle) > KEEP_IDLE:
        pool.tidy()
    return reply


# ---- user class ------------------------------------------------------------------------------------------------------
# Connections of a class that is the user's, for threads; see :mod:`pyredisson._net.urls`.


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
