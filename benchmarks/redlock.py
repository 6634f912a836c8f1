"""Redlock on five nodes, one thread or one task: pairs of acquire and release; and what nodes cost that do not answer.

The raw contestants are no locks, but the limit: the same ten scripts as ready-made bytes, five connections, everything
written before anything is read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import redis
import redis.asyncio

from .coroutines import PipelinedConnection
from .report import Claim, Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio, say
from .server import Server
from .throughput import WARM_UP_PAIRS, throughput_table
from .wire import ACQUIRED, RELEASED, LockRequests, load_scripts, lock_name

__all__ = ["redlock", "redlock_asyncio", "redlock_nodes_away"]

NODES = 5
LEASE_SECONDS = 30
NODE_TIMEOUT = 0.05
"""What the library gives a node by default, with leases of ten seconds and more."""

BURST = 10
"""Pairs between two looks at the clock."""

Servers = Sequence[Server]
Call = Callable[[], object]
AsyncCall = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A name for the report, and how to connect: what comes out is the acquire and the release.

    Attributes:
        thorough: It asks every node each time, and leaves nothing on any.
    """

    name: str
    open: Callable[[Servers], AbstractContextManager[tuple[Call, Call]]]
    thorough: bool = True


@dataclass(frozen=True, slots=True)
class AsyncContestant:
    """As :class:`Contestant`, for one task."""

    name: str
    open: Callable[[Servers], AbstractAsyncContextManager[tuple[AsyncCall, AsyncCall]]]
    thorough: bool = True


@contextmanager
def fleet(server: Server) -> Iterator[Servers]:
    """Five nodes, of which one runs already."""
    with ExitStack() as started:
        servers = [server, *(started.enter_context(Server(server.binary)) for _ in range(NODES - 1))]
        for each in servers:
            load_scripts(each)
        # What it says of nodes without persistence is true, and of no interest here.
        level = logging.getLogger("pyredisson").level
        logging.getLogger("pyredisson").setLevel(logging.ERROR)
        started.callback(logging.getLogger("pyredisson").setLevel, level)
        yield servers


# ---- one thread ------------------------------------------------------------------------------------------------------


@contextmanager
def _open_raw(servers: Servers) -> Iterator[tuple[Call, Call]]:
    with ExitStack() as closing:
        sockets = [closing.enter_context(socket.create_connection((each.host, each.port))) for each in servers]
        for each in sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sends, receives = [each.sendall for each in sockets], [each.recv for each in sockets]
        requests = LockRequests.of(0)

        def exchange(request: bytes, wanted: bytes) -> None:
            for send in sends:
                send(request)
            for receive in receives:
                if receive(4096) != wanted:
                    raise RuntimeError("a node refused")

        yield lambda: exchange(requests.acquire, ACQUIRED), lambda: exchange(requests.release, RELEASED)


@contextmanager
def _open_pyredisson(servers: Servers) -> Iterator[tuple[Call, Call]]:
    from pyredisson import Redisson

    with ExitStack() as closing:
        clients = [closing.enter_context(Redisson.from_url(each.url)) for each in servers]
        lock = clients[0].get_red_lock(*[client.get_lock(lock_name(0)) for client in clients])
        yield lock.acquire, lock.release


@contextmanager
def _open_pottery(servers: Servers) -> Iterator[tuple[Call, Call]]:
    from pottery import Redlock

    masters = {redis.Redis(host=each.host, port=each.port) for each in servers}
    lock = Redlock(key=lock_name(0), masters=masters, auto_release_time=LEASE_SECONDS)
    try:
        yield lock.acquire, lock.release
    finally:
        for master in masters:
            master.close()


@contextmanager
def _open_redlock_ng(servers: Servers) -> Iterator[tuple[Call, Call]]:
    from redlock import Redlock

    locks = Redlock([each.url for each in servers])
    held: list[Any] = []

    def acquire() -> None:
        lock = locks.acquire(lock_name(0), LEASE_SECONDS * 1000)
        if lock is None:
            raise RuntimeError("redlock-ng did not get a lock that nobody else uses")
        held.append(lock)

    try:
        yield acquire, lambda: locks.release(held.pop())
    finally:
        for instance in locks.client.instances:
            instance.close()


RAW = Contestant("raw sockets", _open_raw)
PYREDISSON = Contestant("pyredisson", _open_pyredisson)
POTTERY = Contestant("pottery", _open_pottery, thorough=False)
REDLOCK_NG = Contestant("redlock-ng", _open_redlock_ng)
REDSYNC = "redsync (Go)"

# ---- one task --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open_raw_protocol(servers: Servers) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(PipelinedConnection, each.host, each.port) for each in servers]
    connections = [connection for _, connection in made]
    requests = LockRequests.of(0)

    async def exchange(request: bytes, wanted: bytes) -> None:
        for future in [connection.request(request) for connection in connections]:
            if await future != wanted:
                raise RuntimeError("a node refused")

    try:
        yield (
            lambda: exchange(requests.acquire, ACQUIRED.strip()),
            lambda: exchange(requests.release, RELEASED.strip()),
        )
    finally:
        for transport, _ in made:
            transport.close()


@asynccontextmanager
async def _open_raw_streams(servers: Servers) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    streams = [await asyncio.open_connection(each.host, each.port) for each in servers]
    requests = LockRequests.of(0)

    async def exchange(request: bytes, wanted: bytes) -> None:
        for _, writer in streams:
            writer.write(request)
        for reader, _ in streams:
            if await reader.readexactly(len(wanted)) != wanted:
                raise RuntimeError("a node refused")

    try:
        yield lambda: exchange(requests.acquire, ACQUIRED), lambda: exchange(requests.release, RELEASED)
    finally:
        for _, writer in streams:
            writer.close()


@asynccontextmanager
async def _open_pyredisson_asyncio(servers: Servers) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    from pyredisson.asyncio import Redisson

    clients = [Redisson.from_url(each.url) for each in servers]
    lock = clients[0].get_red_lock(*[client.get_lock(lock_name(0)) for client in clients])
    try:
        yield lock.acquire, lock.release
    finally:
        for client in clients:
            await client.close()


@asynccontextmanager
async def _open_pottery_asyncio(servers: Servers) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    from pottery import AIORedlock

    masters = {redis.asyncio.Redis(host=each.host, port=each.port) for each in servers}
    lock = AIORedlock(key=lock_name(0), masters=masters, auto_release_time=LEASE_SECONDS)
    try:
        yield lock.acquire, lock.release
    finally:
        for master in masters:
            await master.aclose()


@asynccontextmanager
async def _open_redlock_ng_asyncio(servers: Servers) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    from redlock import AsyncRedlock

    locks = AsyncRedlock([each.url for each in servers])
    held: list[Any] = []

    async def acquire() -> None:
        lock = await locks.acquire(lock_name(0), LEASE_SECONDS * 1000)
        if lock is None:
            raise RuntimeError("redlock-ng did not get a lock that nobody else uses")
        held.append(lock)

    async def release() -> None:
        await locks.release(held.pop())

    try:
        yield acquire, release
    finally:
        for instance in locks.client.instances:
            await instance.aclose()


RAW_PROTOCOL = AsyncContestant("raw connections (asyncio.Protocol)", _open_raw_protocol)
RAW_STREAMS = AsyncContestant("raw connections (asyncio streams)", _open_raw_streams)
PYREDISSON_ASYNCIO = AsyncContestant("pyredisson.asyncio", _open_pyredisson_asyncio)
POTTERY_ASYNCIO = AsyncContestant("pottery AIORedlock", _open_pottery_asyncio)
REDLOCK_NG_ASYNCIO = AsyncContestant("redlock-ng AsyncRedlock", _open_redlock_ng_asyncio)

# ---- measuring -------------------------------------------------------------------------------------------------------


def _numbers(servers: Servers, name: str, *, thorough: bool, in_all: int, pairs: int, wall: float, cpu: float) -> Any:
    """A turn's numbers, once the nodes' own counters agree with them.

    Raises:
        RuntimeError: The nodes saw less work than the contestant says, or keys are left.
    """
    deleted = [each.calls().get("del", 0) for each in servers]
    left = [key for each in servers for key in each.admin.scan_iter() if not key.startswith("pyredisson_epoch")]
    if thorough and (deleted != [in_all] * NODES or left):
        raise RuntimeError(f"{name} says {in_all} pairs, the nodes deleted {deleted} keys, and {len(left)} are left")
    if sum(deleted) < in_all * (NODES // 2 + 1):
        raise RuntimeError(f"{name} says {in_all} pairs, and the nodes deleted {deleted} keys: less than majorities")
    return {
        "pairs/s": pairs / wall,
        "us/pair": wall / pairs * 1e6,
        "CPU us/pair": cpu / pairs * 1e6,
        "bytes/pair": sum(each.bytes_received() for each in servers) / in_all,
    }


def _reset(servers: Servers) -> None:
    for each in servers:
        each.reset()


def _measure(servers: Servers, contestant: Contestant, seconds: float) -> dict[str, float]:
    with contestant.open(servers) as (acquire, release):
        for _ in range(WARM_UP_PAIRS):
            acquire()
            _prove(servers)
            release()
        _reset(servers)
        pairs = 0
        wall, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < seconds:
            for _ in range(BURST):
                acquire()
                release()
            pairs += BURST
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    thorough = contestant.thorough
    return dict(_numbers(servers, contestant.name, thorough=thorough, in_all=pairs, pairs=pairs, wall=wall, cpu=cpu))


async def _measure_asyncio(servers: Servers, contestant: AsyncContestant, seconds: float) -> dict[str, float]:
    async with contestant.open(servers) as (acquire, release):
        for _ in range(WARM_UP_PAIRS):
            await acquire()
            _prove(servers)
            await release()
        _reset(servers)
        pairs = 0
        wall, cpu = time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < seconds:
            for _ in range(BURST):
                await acquire()
                await release()
            pairs += BURST
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    thorough = contestant.thorough
    return dict(_numbers(servers, contestant.name, thorough=thorough, in_all=pairs, pairs=pairs, wall=wall, cpu=cpu))


def _prove(servers: Servers) -> None:
    """A majority holds a key that ends by itself."""
    held = 0
    for each in servers:
        ttls = [each.admin.pttl(key) for key in each.admin.keys("*bench:*")]
        held += any(ttl > 0 for ttl in ttls)
    if held <= NODES // 2:
        raise RuntimeError(f"only {held} nodes hold a key that would end by itself")


class Redsync:
    """The Go contestant: a small program, built for the time of the figure, whose processor time is its own."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "redlock"

    @classmethod
    def build(cls, folder: Path) -> Redsync | None:
        """Build it, or say why not."""
        if shutil.which("go") is None:
            say("redsync: there is no go on the PATH")
            return None
        for name in ("main.go", "go.mod", "go.sum"):
            shutil.copy(Path(__file__).parent / "redsync" / f"{name}.txt", folder / name)
        built = subprocess.run(
            ["go", "build", "-mod=mod", "-o", "redlock", "."], cwd=folder, capture_output=True, text=True
        )
        if built.returncode:
            say(f"redsync: go build failed: {built.stderr.strip().splitlines()[-1:]}")
            return None
        return cls(folder)

    def measure(self, servers: Servers, seconds: float) -> dict[str, float]:
        """A turn."""
        _reset(servers)
        addresses = [f"{each.host}:{each.port}" for each in servers]
        said = subprocess.run(
            [str(self._program), str(seconds), *addresses], capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()
        pairs, wall, cpu = int(said[0]), float(said[1]), float(said[2])
        in_all = pairs + WARM_UP_PAIRS
        return dict(_numbers(servers, REDSYNC, thorough=False, in_all=in_all, pairs=pairs, wall=wall, cpu=cpu))


def _missing(*modules: str) -> list[str]:
    return [module for module in modules if find_spec(module) is None]


def _notes(peers: Sequence[str]) -> list[str]:
    notes = [f"{peer} is not installed, and did not take part." for peer in peers]
    return [*notes, "pottery does not wait for the slower nodes once a majority has answered."]


def _claims(samples: Samples, own: str, raws: Sequence[str], peers: Sequence[str]) -> list[Claim]:
    claims = [at_most(f"time of {raw}", median_ratio(samples, own, raw, "us/pair"), 1.6, "x") for raw in raws]
    return claims + [
        at_least(f"pairs of {peer}", median_ratio(samples, own, peer, "pairs/s"), 2, "x") for peer in peers
    ]


def redlock(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Redlock by one thread."""
    title = "Redlock on five nodes, one thread"
    missing = _missing("pottery", "redlock")
    peers = [peer for peer, module in ((POTTERY, "pottery"), (REDLOCK_NG, "redlock")) if module not in missing]
    contestants = {one.name: one for one in (RAW, PYREDISSON, *peers)}
    with fleet(server) as servers, tempfile.TemporaryDirectory() as folder:
        redsync = Redsync.build(Path(folder))

        def measure(name: str) -> dict[str, float]:
            if name == REDSYNC:
                assert redsync is not None
                return redsync.measure(servers, seconds)
            return _measure(servers, contestants[name], seconds)

        names = [*contestants, *([REDSYNC] if redsync is not None else [])]
        samples = tournament.play(title, names, rounds, measure, [each.pid for each in servers[1:]])
    columns, rows = throughput_table(samples, RAW.name)
    claims = _claims(samples, PYREDISSON.name, [RAW.name], [peer.name for peer in peers])
    how = (
        f"Five independent nodes, a lock without contention, one thread, {rounds} rounds of {seconds:g} s each. The "
        "raw sockets send the same ten scripts as ready-made bytes: to all five, then read all five."
    )
    return Figure("redlock", title, how, columns, rows, claims, _notes(missing), samples=samples)


def redlock_asyncio(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Redlock by one task."""
    title = "Redlock on five nodes, one task"
    missing = _missing("pottery", "redlock")
    peers = [
        peer
        for peer, module in ((POTTERY_ASYNCIO, "pottery"), (REDLOCK_NG_ASYNCIO, "redlock"))
        if module not in missing
    ]
    contestants = {one.name: one for one in (RAW_PROTOCOL, RAW_STREAMS, PYREDISSON_ASYNCIO, *peers)}
    with fleet(server) as servers:
        samples = tournament.play(
            title,
            list(contestants),
            rounds,
            lambda name: asyncio.run(_measure_asyncio(servers, contestants[name], seconds)),
            [each.pid for each in servers[1:]],
        )
    columns, rows = throughput_table(samples, RAW_PROTOCOL.name)
    raws = [RAW_PROTOCOL.name, RAW_STREAMS.name]
    claims = _claims(samples, PYREDISSON_ASYNCIO.name, raws, [peer.name for peer in peers])
    how = (
        f"As above, by one task of one event loop, {rounds} rounds of {seconds:g} s each; the raw connections once as "
        "an asyncio.Protocol of our own, once as asyncio streams."
    )
    return Figure("redlock_asyncio", title, how, columns, rows, claims, _notes(missing), samples=samples)


# ---- nodes that do not answer ----------------------------------------------------------------------------------------


@contextmanager
def _stopped(servers: Servers) -> Iterator[None]:
    for each in servers:
        os.kill(each.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in servers:
            os.kill(each.pid, signal.SIGCONT)


def _acquires(servers: Servers, times: int) -> list[float]:
    """Seconds that each acquire took, the first ones being the first that meet the nodes that do not answer."""
    took = []
    with _open_pyredisson(servers) as (acquire, release):
        acquire()
        release()
        with _stopped(servers[1:3]):
            for _ in range(times):
                began = time.perf_counter()
                acquire()
                took.append(time.perf_counter() - began)
                release()
        time.sleep(0.5)  # What they took meanwhile is given back now.
    return took


async def _acquires_asyncio(servers: Servers, times: int) -> list[float]:
    took = []
    async with _open_pyredisson_asyncio(servers) as (acquire, release):
        await acquire()
        await release()
        with _stopped(servers[1:3]):
            for _ in range(times):
                began = time.perf_counter()
                await acquire()
                took.append(time.perf_counter() - began)
                await release()
        await asyncio.sleep(0.5)
    return took


def redlock_nodes_away(server: Server, *, rounds: int, tournament: Tournament) -> Figure:
    """An acquire while two of five nodes do not answer."""
    title = "Redlock, two of five nodes stopped"
    times = 10
    with fleet(server) as servers:

        def measure(name: str) -> dict[str, float]:
            _reset(servers)
            if name == PYREDISSON.name:
                took = _acquires(servers, times)
            else:
                took = asyncio.run(_acquires_asyncio(servers, times))
            return {"first ms": took[0] * 1e3, "median ms": median(took) * 1e3, "slowest ms": max(took) * 1e3}

        names = [PYREDISSON.name, PYREDISSON_ASYNCIO.name]
        samples = tournament.play(title, names, rounds, measure, [each.pid for each in servers[1:]])
    numbers = ("first ms", "median ms", "slowest ms")
    rows = [[name, *(show(median_of(samples, name, number)) for number in numbers)] for name in names]
    bound = 1.2 * NODE_TIMEOUT * 1e3
    claims = [
        at_most(f"acquire, {name}, {number.removesuffix(' ms')}", median_of(samples, name, number), bound, "ms")
        for name in names
        for number in ("first ms", "median ms")
    ]
    how = (
        f"Two of five nodes are stopped (SIGSTOP) while a client is connected to them; {times} acquires follow, "
        f"{rounds} rounds. A node is given {NODE_TIMEOUT * 1e3:g} ms."
    )
    return Figure("redlock_nodes_away", title, how, ("contestant", *numbers), rows, claims, samples=samples)
