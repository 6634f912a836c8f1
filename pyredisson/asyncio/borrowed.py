"""Connections of the user's pool, one a request, for those that we cannot open ourselves.

The watchdog and the subscriber have connections of their own, as under threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson.asyncio.tasks import TaskDial, in_time, shielded, spawn
from pyredisson.core.failures import NotSent, Unanswered
from pyredisson.net.borrowed import RETRY, BorrowedWire, PoolTransport, own_settings_of, place_of
from pyredisson.net.link import CONNECTING
from pyredisson.net.resp import as_redis_error
from pyredisson.shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson.net.wire import Address, Dial


class AsyncBorrowedConnection(BorrowedWire):
    """A connection of redis-py."""

    @property
    def source(self) -> Any:
        """What is another one after each time that it was connected."""
        return getattr(self.connection, "_reader", None) or self.connection

    async def call(self, data: bytes, timeout: float) -> Any:
        return await shielded(self._call(data, timeout))

    async def _call(self, data: bytes, timeout: float) -> Any:
        connection = self.connection
        try:
            await connection.send_packed_command([data], check_health=False)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            return await asyncio.wait_for(connection.read_response(disable_decoding=True), timeout)
        except rx.ResponseError as reply:
            return reply
        except asyncio.TimeoutError:
            raise Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")) from None
        except (rx.RedisError, OSError) as error:
            raise Unanswered(as_redis_error(error)) from None

    def close(self) -> None:
        spawn(self.connection.disconnect(nowait=True))

    retire = close

    def abandon(self) -> None:
        pass


class AsyncBorrowedTransport(PoolTransport):
    """The pool of a client that the user made."""

    def caller(self) -> object:
        return asyncio.current_task()

    async def borrow(self, timeout: float) -> AsyncBorrowedConnection:
        """Take a connection of the user's pool. Raises ``NotSent``."""
        until = monotonic() + timeout
        failures = 0
        while True:
            pause = RETRY.longest(failures)
            try:
                connection = await in_time(self._pool.get_connection(), max(timeout, CONNECTING), self._release)
                return AsyncBorrowedConnection(connection, own=False)
            except rx.MaxConnectionsError as error:
                if monotonic() + pause > until:
                    raise NotSent(error) from None
            except (rx.RedisError, OSError) as error:
                raise NotSent(as_redis_error(error)) from None
            await asyncio.sleep(pause)
            failures += 1

    def _release(self, connection: Any) -> None:
        spawn(self._pool.release(connection))

    def give_back(self, wire: AsyncBorrowedConnection) -> Awaitable[object]:
        """Let the user's pool have a connection back."""
        return asyncio.shield(asyncio.ensure_future(self._pool.release(wire.connection)))

    async def open(self, address: Address | None, timeout: float) -> AsyncBorrowedConnection:
        return AsyncBorrowedConnection(await self.make(), own=True)

    async def make(self) -> Any:
        """Make a connection outside the pool, of the pool's kind."""
        try:
            connection = self._pool.connection_class(**own_settings_of(self._pool))
            try:
                await connection.connect()
            except asyncio.CancelledError:
                await connection.disconnect(nowait=True)
                raise
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        return connection

    async def open_stream(self, address: Address | None, timeout: float) -> AsyncBorrowedStream:
        return AsyncBorrowedStream(await shielded(self.make(), _disconnect))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return TaskDial(work())


def _disconnect(connection: Any) -> None:
    spawn(connection.disconnect(nowait=True))


class AsyncBorrowedStream:
    """A stream on a connection of the user's kind. ``address``: where it leads."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.address: Any = place_of(connection)
        self._loop = asyncio.get_running_loop()
        self._out: deque[bytes] = deque()
        self._in: deque[Any] = deque()
        self._changed = asyncio.Event()
        self._to_send = asyncio.Event()
        self._ended = False
        self._tasks = [self._loop.create_task(self._pump_in()), self._loop.create_task(self._pump_out())]

    def send(self, data: bytes) -> None:
        self._out.append(data)
        self._to_send.set()

    def wake(self) -> None:
        self._changed.set()

    async def read(self, timeout: float) -> list[Any] | None:
        if not self._changed.is_set():
            changed = self._loop.create_task(self._changed.wait())
            try:
                await asyncio.wait({changed}, timeout=None if timeout == math.inf else timeout)
            finally:
                changed.cancel()
        self._changed.clear()
        replies = list(self._in)
        self._in.clear()
        return None if self._ended and not replies else replies

    async def _pump_in(self) -> None:
        try:
            while True:
                try:
                    self._in.append(
                        await self._connection.read_response(
                            disable_decoding=True, disconnect_on_error=False, push_request=True
                        )
                    )
                except rx.ResponseError as error:
                    self._in.append(error)
                except rx.TimeoutError:
                    continue  # The user's socket_timeout: silence is no fault here.
                self._changed.set()
        except (rx.RedisError, OSError):
            self._ended = True
            self._changed.set()

    async def _pump_out(self) -> None:
        try:
            while not self._ended:
                await self._to_send.wait()
                self._to_send.clear()
                while self._out:
                    await self._connection.send_packed_command([self._out.popleft()], check_health=False)
        except (rx.RedisError, OSError):
            self._ended = True
            self._changed.set()

    def close(self) -> None:
        self._ended = True
        with contextlib.suppress(RuntimeError):
            self._to_send.set()  # What redis-py awaits may swallow a cancellation; see tasks.py.
            for task in self._tasks:
                task.cancel()
        _disconnect(self._connection)
