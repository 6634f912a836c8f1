"""Connections of a class that is the user's, for an event loop; see :mod:`pyredisson._net.urls`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson._asyncio.pipe import StreamReplies
from pyredisson._asyncio.tasks import TaskDial, shielded, spawn
from pyredisson._net.refusals import as_redis_error, as_reply
from pyredisson._net.urls import REFUSED, UserTransport, UserWire, no_reply, place_of

if TYPE_CHECKING:
    from pyredisson._net.wire import Address, Dial


class AsyncUserWire(UserWire):
    """A connection of the user's class."""

    async def call(self, data: bytes, timeout: float) -> Any:
        return await shielded(super().call(data, timeout))

    async def _send(self, data: bytes) -> None:
        await self.connection.send_packed_command([data], check_health=False)

    async def _receive(self, timeout: float) -> Any:
        try:
            return await asyncio.wait_for(self.connection.read_response(disable_decoding=True), timeout)
        except asyncio.TimeoutError:
            raise no_reply(timeout) from None

    def usable(self) -> bool:
        at_eof = getattr(getattr(self.connection, "_reader", None), "at_eof", None)
        return bool(getattr(self.connection, "is_connected", True)) and not (at_eof is not None and at_eof())

    def close(self) -> None:
        _disconnect(self.connection)

    def abandon(self) -> None:
        pass


class AsyncUserTransport(UserTransport):
    """Makes connections as the pool of a client does."""

    wire: type[UserWire] = AsyncUserWire

    def caller(self) -> object:
        return asyncio.current_task()

    async def _connect(self, connection: Any, timeout: float) -> None:
        try:
            await connection.connect()
        except asyncio.CancelledError:
            await connection.disconnect(nowait=True)
            raise

    async def open_stream(self, address: Address | None, timeout: float) -> AsyncUserStream:
        return AsyncUserStream(await shielded(self._make(timeout), _disconnect))

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        return TaskDial(work())


def _disconnect(connection: Any) -> None:
    spawn(connection.disconnect(nowait=True))


class AsyncUserStream(StreamReplies):
    """A stream on a connection of the user's class. ``address``: where it leads."""

    def __init__(self, connection: Any) -> None:
        loop = asyncio.get_running_loop()
        super().__init__()
        self._connection = connection
        self.address: Any = place_of(connection)
        self._to_send: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks = [loop.create_task(self._repeat(step)) for step in (self._receive_one, self._send_one)]

    def send(self, data: bytes) -> None:
        self._to_send.put_nowait(data)

    async def _repeat(self, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            while self.broken is None:
                await step()
        except Exception as error:  # Also of a class that redis-py does not know: the connection class is the user's.
            self.broken = as_redis_error(error)
            self.ended()

    async def _receive_one(self) -> None:
        try:
            reply = await self._connection.read_response(
                disable_decoding=True, disconnect_on_error=False, push_request=True
            )
        except REFUSED as error:
            reply = as_reply(error)
        except rx.TimeoutError:
            return  # The user's socket_timeout: silence is no fault here.
        self.replied(reply)

    async def _send_one(self) -> None:
        await self._connection.send_packed_command([await self._to_send.get()], check_health=False)

    def close(self) -> None:
        self.broken = rx.ConnectionError("this connection was closed")
        with contextlib.suppress(RuntimeError):
            for task in self._tasks:
                task.cancel()
        _disconnect(self._connection)
