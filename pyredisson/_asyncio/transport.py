"""Makes the connections of a link for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import redis.asyncio
import redis.asyncio.retry
import redis.exceptions as rx
from redis.backoff import NoBackoff

from pyredisson._asyncio.pipe import AsyncSocketStream, Pipe, StreamReplies, open_connection
from pyredisson._asyncio.tasks import TaskDial, shielded, spawn
from pyredisson._core.failures import NotSent
from pyredisson._net.link import Pool, SharedPool
from pyredisson._net.refusals import as_redis_error, as_reply
from pyredisson._net.urls import REFUSED, Form, UserTransport, UserWire, no_reply, place_of
from pyredisson._shared.process import monotonic

if TYPE_CHECKING:
    from pyredisson._net.link import Stream, Transport
    from pyredisson._net.wire import Address, Connect, Dial, Introduce

#: How many acquires wait for replicas at once, each on a connection of its own.
MOST = 64


class PipeTransport:
    """Connections of our own, made from the settings of a client: one that all tasks share, and some that wait."""

    direct = True
    now: staticmethod[[], float] = staticmethod(monotonic)

    def __init__(self, connection_class: type[Any], settings: dict[str, Any]) -> None:
        self._class = connection_class
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._pipes: weakref.WeakSet[Pipe] = weakref.WeakSet()
        self._dials: set[asyncio.Task[None]] = set()
        self.watchdog: object = None

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
        return SharedPool(self, connect, connect_timeout), Pool(self, connect, connect_timeout)

    def caller(self) -> object:
        return asyncio.current_task()

    async def open(self, address: Address | None, timeout: float) -> Pipe:
        pipe = Pipe(self._loop, address)
        await pipe.adopt(*await open_connection(self._class, self._settings_for(address), timeout))
        self._pipes.add(pipe)
        return pipe

    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        return await shielded(self._stream(address, timeout), AsyncSocketStream.close)

    async def _stream(self, address: Address | None, timeout: float) -> AsyncSocketStream:
        stream = AsyncSocketStream()
        await stream.adopt(*await open_connection(self._class, self._settings_for(address), timeout))
        return stream

    def _settings_for(self, address: Address | None) -> dict[str, Any]:
        return self._settings if address is None else {**self._settings, "host": address[0], "port": address[1]}

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        return await shielded(self._query(settings, command))

    async def _query(self, settings: dict[str, Any], command: tuple[str, ...]) -> Any:
        sentinel: Any = redis.asyncio.Redis(**settings, retry=redis.asyncio.retry.Retry(NoBackoff(), 0))
        try:
            return await sentinel.execute_command(*command)
        finally:
            await sentinel.aclose()

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        dial = TaskDial(work())
        self._dials.add(dial.task)
        dial.task.add_done_callback(self._dials.discard)
        return dial

    async def room(self, timeout: float) -> bool:
        if sum(pipe.usable() for pipe in self._pipes) + len(self._dials) <= MOST:
            return True
        if timeout <= 0:
            raise NotSent(rx.TimeoutError(f"{MOST} requests wait for replicas already"))
        await asyncio.sleep(0.005)
        return False

    def close(self) -> None:
        for task in list(self._dials):
            with contextlib.suppress(RuntimeError):
                task.cancel()
        for pipe in list(self._pipes):
            pipe.close()

    def abandon(self) -> None:
        # Its loop is not ours, and may even be the parent's of a fork: close the descriptors and nothing else.
        for pipe in list(self._pipes):
            pipe.abandon()


class TaskMutex:
    """See :class:`pyredisson._net.cluster.TimedMutex`."""

    def __init__(self) -> None:
        self._taken: asyncio.Future[None] | None = None

    async def enter(self, seconds: float) -> bool:
        over = monotonic() + seconds
        while self._taken is not None:
            left = over - monotonic()
            if left <= 0:
                return False
            await asyncio.wait({self._taken}, timeout=left)
        self._taken = asyncio.get_running_loop().create_future()
        return True

    def leave(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            taken.set_result(None)


def _as_the_pool_does(pool: Any) -> Transport:

    return AsyncUserTransport(pool)


FORM = Form(redis.asyncio, PipeTransport, _as_the_pool_does, TaskMutex, asyncio.sleep)

# ---- user class ------------------------------------------------------------------------------------------------------
# Connections of a class that is the user's, for an event loop; see :mod:`pyredisson._net.urls`.


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
