"""Coroutines on separate locks, over one event loop.

The raw contestant is one connection that all coroutines share: requests made in one turn of the loop leave in one
write, and replies, one line each, are handed to their futures in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import redis.asyncio

from .contestants import REDIS_PY_LEASE_SECONDS
from .report import Figure, at_least
from .rounds import Tournament, median_ratio
from .server import Server
from .throughput import WARM_UP_PAIRS, WARM_UP_SECONDS, Counted, Spent, Window, rates, throughput_table
from .wire import ACQUIRED, RELEASED, STRANGER_ID, LockRequests, load_scripts, lock_name

__all__ = ["many_coroutines"]


@dataclass(frozen=True, slots=True)
class LockCalls:
    """What the measured loop awaits."""

    acquire: Callable[[], Awaitable[bool]]
    release: Callable[[], Awaitable[object]]


class Session(Protocol):
    """A contestant connected to the server."""

    def lock(self, number: int) -> LockCalls:
        """The calls of one lock, for one task."""
        ...

    async def stranger_gets(self, number: int) -> bool:
        """Return whether another owner acquires that lock now, without waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """A name for the report, and how to connect."""

    name: str
    open: Callable[[Server], AbstractAsyncContextManager[Session]]


class PipelinedConnection(asyncio.Protocol):
    """One connection, many requests under way; every reply is a line."""

    transport: asyncio.WriteTransport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._unsent: list[bytes] = []
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_exception(error or ConnectionError("the raw connection was closed"))

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        for line in lines:
            self._waiting.popleft().set_result(line)

    def request(self, packed: bytes) -> asyncio.Future[bytes]:
        """Send one request with the others of this turn of the loop."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(packed)
        future = self._loop.create_future()
        self._waiting.append(future)
        return future

    def _flush(self) -> None:
        self.transport.write(b"".join(self._unsent))
        self._unsent.clear()


class _RawSession:
    def __init__(self, connection: PipelinedConnection) -> None:
        self._connection = connection

    def lock(self, number: int) -> LockCalls:
        return self._calls(LockRequests.of(number))

    async def stranger_gets(self, number: int) -> bool:
        return await self._calls(LockRequests.of(number, STRANGER_ID)).acquire()

    def _calls(self, requests: LockRequests) -> LockCalls:
        request = self._connection.request
        acquire_request, release_request = requests.acquire, requests.release
        acquired, released = ACQUIRED.strip(), RELEASED.strip()

        async def acquire() -> bool:
            return await request(acquire_request) == acquired

        async def release() -> None:
            if await request(release_request) != released:
                raise RuntimeError("the raw connection's lock was not released")

        return LockCalls(acquire, release)


class _RedisPySession:
    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client

    def lock(self, number: int) -> LockCalls:
        lock = self._client.lock(lock_name(number), timeout=REDIS_PY_LEASE_SECONDS)
        return LockCalls(lock.acquire, lock.release)

    async def stranger_gets(self, number: int) -> bool:
        stranger = self._client.lock(lock_name(number), timeout=REDIS_PY_LEASE_SECONDS)
        return bool(await stranger.acquire(blocking=False))


@asynccontextmanager
async def _open_raw(server: Server) -> AsyncIterator[Session]:
    load_scripts(server)
    loop = asyncio.get_running_loop()
    transport, connection = await loop.create_connection(PipelinedConnection, server.host, server.port)
    try:
        yield _RawSession(connection)
    finally:
        transport.close()


@asynccontextmanager
async def _open_redis_py(server: Server) -> AsyncIterator[Session]:
    client = redis.asyncio.Redis(host=server.host, port=server.port)
    try:
        yield _RedisPySession(client)
    finally:
        await client.aclose()


@asynccontextmanager
async def _open_pyredisson(server: Server) -> AsyncIterator[Session]:
    from pyredisson.asyncio import Redisson

    class PyredissonSession:
        def __init__(self) -> None:
            self.client = client

        def lock(self, number: int) -> LockCalls:
            lock = client.get_lock(lock_name(number))
            return LockCalls(lock.acquire, lock.release)

        async def stranger_gets(self, number: int) -> bool:
            return await asyncio.create_task(client.get_lock(lock_name(number)).try_lock())

    async with Redisson.from_url(server.url) as client:
        yield PyredissonSession()


RAW = Contestant("one pipelined raw connection", _open_raw)
REDIS_PY = Contestant("redis.asyncio.Lock", _open_redis_py)
PYREDISSON = Contestant("pyredisson.asyncio", _open_pyredisson)


async def prove_exclusion(server: Server, session: Session, number: int = 0) -> None:
    """Take a lock, see that it is in the server and that a stranger is refused, and free it."""
    name = lock_name(number)
    calls = session.lock(number)
    if not await calls.acquire() or server.admin.pttl(name) <= 0:
        raise RuntimeError("the lock was not taken")
    if await session.stranger_gets(number):
        raise RuntimeError("another owner acquired a lock that was held")
    await calls.release()
    if server.admin.exists(name):
        raise RuntimeError("the lock was not freed")


async def pairs_until(deadline: float, calls: LockCalls) -> int:
    """Acquire and release until the time has ended; the measured loop of every contestant."""
    acquire, release, now = calls.acquire, calls.release, time.perf_counter
    pairs = 0
    while now() < deadline:
        if not await acquire():
            raise RuntimeError("a lock that no other owner uses was refused")
        await release()
        pairs += 1
    return pairs


async def measure(server: Server, contestant: Contestant, coroutines: int, seconds: float) -> dict[str, float]:
    """One contestant's turn, with the proof that the work was done."""
    server.reset()
    async with contestant.open(server) as session:
        await prove_exclusion(server, session)
        locks = [session.lock(number) for number in range(coroutines)]
        server.reset()
        return rates(server, contestant.name, await side_by_side(locks, seconds))


async def side_by_side(locks: Sequence[LockCalls], seconds: float) -> Counted:
    """Let one task for each lock acquire and release, and count in a window in which all of them are at it."""
    ready = 0
    window: asyncio.Future[Window] = asyncio.get_running_loop().create_future()

    async def work(calls: LockCalls) -> tuple[int, int]:
        nonlocal ready
        for _ in range(WARM_UP_PAIRS):
            await calls.acquire()
            await calls.release()
        ready += 1
        if ready == len(locks):
            window.set_result(Window.after(WARM_UP_SECONDS, seconds))
        opened = await window
        return await pairs_until(opened.begin, calls), await pairs_until(opened.end, calls)

    async def watch() -> Spent:
        return await asyncio.to_thread((await window).watch)

    watching = asyncio.create_task(watch())
    counts = await asyncio.gather(*map(work, locks))
    before, within = (sum(column) for column in zip(*counts, strict=True))
    return Counted(WARM_UP_PAIRS * len(locks) + before + within, within, await watching)


def many_coroutines(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, coroutines: int = 100
) -> Figure:
    """Acquire and release by many coroutines, each on a lock of its own."""
    title = f"{coroutines} coroutines on separate locks"
    contestants = {one.name: one for one in (RAW, REDIS_PY, PYREDISSON)}
    samples = tournament.play(
        title,
        list(contestants),
        rounds,
        lambda name: asyncio.run(measure(server, contestants[name], coroutines, seconds)),
    )
    columns, rows = throughput_table(samples, RAW.name)
    claims = [
        at_least(
            "pairs of one pipelined raw connection",
            median_ratio(samples, PYREDISSON.name, RAW.name, "pairs/s"),
            0.4,
            "x",
        ),
        at_least(
            "pairs of redis.asyncio.Lock",
            median_ratio(samples, PYREDISSON.name, REDIS_PY.name, "pairs/s"),
            3.5,
            "x",
            aim=5,
        ),
    ]
    how = (
        f"{coroutines} tasks of one event loop, each on its own lock, over one shared client. Raw: one connection for "
        f"all, requests of one turn of the loop in one write. {rounds} rounds of {seconds:g} s each."
    )
    return Figure("many_coroutines", title, how, columns, rows, claims, samples=samples)
