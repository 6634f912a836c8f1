"""Redlock on five nodes, one thread or one task: pairs of acquire and release; and what nodes cost that do not answer.

The raw contestants are no locks, but the limit: the same ten scripts as ready-made bytes, five connections, everything
written before anything is read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
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
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

import redis
import redis.asyncio

from .coroutines import PipelinedConnection
from .go import REDSYNC, Redsync, built_redsync
from .report import Claim, Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .server import Server
from .throughput import WARM_UP_PAIRS, Counted, Spent, throughput_table
from .wire import ACQUIRED, RELEASED, LockRequests, load_scripts, lock_name

__all__ = [
    "PYREDISSON",
    "RAW",
    "fleet",
    "measure",
    "nodes_agree",
    "redlock",
    "redlock_asyncio",
    "redlock_nodes_away",
    "redsync_turn",
]

NODES = 5
LEASE_SECONDS = 30
NODE_TIMEOUT = 0.05
"""What the library gives a node by default, with leases of ten seconds and more."""

RATES_NODE_TIMEOUT = 1.0
"""Long enough for a busy machine: the rates count requests that every node has answered."""

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
def _open_pyredisson(servers: Servers, node_timeout: float | None = RATES_NODE_TIMEOUT) -> Iterator[tuple[Call, Call]]:
    from pyredisson import Config, Redisson

    config = Config(quorum_node_timeout=node_timeout, restart_guard=False)  # The servers have just been started.
    with ExitStack() as closing:
        clients = [closing.enter_context(Redisson.from_url(each.url, config=config)) for each in servers]
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
            raise RuntimeError("redlock-ng did not acquire a lock that no other owner uses")
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
async def _open_pyredisson_asyncio(
    servers: Servers, node_timeout: float | None = RATES_NODE_TIMEOUT
) -> AsyncIterator[tuple[AsyncCall, AsyncCall]]:
    from pyredisson.asyncio import Config, Redisson

    config = Config(quorum_node_timeout=node_timeout, restart_guard=False)  # The servers have just been started.
    clients = [Redisson.from_url(each.url, config=config) for each in servers]
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
            raise RuntimeError("redlock-ng did not acquire a lock that no other owner uses")
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


def nodes_agree(
    servers: Servers, name: str, counted: Counted, *, thorough: bool, proof: str = "del", times: int = 1
) -> dict[str, float]:
    """A turn's numbers, once the nodes' own counters agree with them.

    Args:
        servers: The nodes.
        name: Of the contestant.
        counted: What it says.
        thorough: It asks every node each time, and leaves nothing on any.
        proof: The command that each pair makes a node run, and
        times: how often.

    Raises:
        RuntimeError: The nodes saw less work than the contestant says, or keys are left.
    """
    seen = [each.calls().get(proof, 0) / times for each in servers]
    left = [key for each in servers for key in each.admin.scan_iter() if not key.startswith("pyredisson_epoch")]
    if thorough and (seen != [counted.in_all] * NODES or left):
        raise RuntimeError(
            f"{name} says {counted.in_all} pairs, the nodes saw {seen} by {proof}, and {len(left)} keys are left"
        )
    if sum(seen) < counted.in_all * (NODES // 2 + 1):
        raise RuntimeError(f"{name} says {counted.in_all} pairs, the nodes saw {seen}: less than majorities")
    if not counted.pairs:
        raise RuntimeError(f"{name} made no pair in the time that counts: give it more --seconds")
    return {
        "pairs/s": counted.pairs / counted.spent.wall,
        "us/pair": counted.spent.wall / counted.pairs * 1e6,
        "CPU us/pair": counted.spent.cpu / counted.pairs * 1e6,
        "bytes/pair": sum(each.bytes_received() for each in servers) / counted.in_all,
    }


def _reset(servers: Servers) -> None:
    for each in servers:
        each.reset()


def redsync_turn(servers: Servers, redsync: Redsync, seconds: float) -> dict[str, float]:
    """A turn of the Go contestant."""
    return nodes_agree(servers, REDSYNC, redsync.pairs(servers, 1, seconds), thorough=True)


def measure(servers: Servers, contestant: Contestant, seconds: float) -> dict[str, float]:
    """A turn of one thread."""
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
    counted = Counted(pairs, pairs, Spent(wall, cpu))
    return nodes_agree(servers, contestant.name, counted, thorough=contestant.thorough)


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
    counted = Counted(pairs, pairs, Spent(wall, cpu))
    return nodes_agree(servers, contestant.name, counted, thorough=contestant.thorough)


def _prove(servers: Servers) -> None:
    """A majority holds a key that ends by itself."""
    held = 0
    for each in servers:
        ttls = [each.admin.pttl(key) for key in each.admin.keys("*bench:*")]
        held += any(ttl > 0 for ttl in ttls)
    if held <= NODES // 2:
        raise RuntimeError(f"only {held} nodes hold a key that would end by itself")


def _missing(*modules: str) -> list[str]:
    return [module for module in modules if find_spec(module) is None]


def _notes(peers: Sequence[str]) -> list[str]:
    notes = [f"{peer} is not installed, and did not take part." for peer in peers]
    return [*notes, "pottery does not wait for the slower nodes once a majority has answered."]


def _claims(samples: Samples, own: str, raws: Sequence[str], peers: Sequence[str]) -> list[Claim]:
    claims = [at_most(f"time of {raw}", median_ratio(samples, own, raw, "us/pair"), 1.8, "x") for raw in raws]
    return claims + [
        at_least(f"pairs of {peer}", median_ratio(samples, own, peer, "pairs/s"), 2, "x") for peer in peers
    ]


def redlock(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Redlock by one thread."""
    title = "Redlock on five nodes, one thread"
    missing = _missing("pottery", "redlock")
    peers = [peer for peer, module in ((POTTERY, "pottery"), (REDLOCK_NG, "redlock")) if module not in missing]
    contestants = {one.name: one for one in (RAW, PYREDISSON, *peers)}
    with fleet(server) as servers, built_redsync() as redsync:
        turns: dict[str, Callable[[], dict[str, float]]] = {
            name: partial(measure, servers, one, seconds) for name, one in contestants.items()
        }
        if redsync is not None:
            turns[REDSYNC] = partial(redsync_turn, servers, redsync, seconds)
        samples = tournament.play(
            title, list(turns), rounds, lambda name: turns[name](), [each.pid for each in servers[1:]]
        )
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
    with _open_pyredisson(servers, None) as (acquire, release):
        acquire()
        release()
        with _stopped(servers[1:3]):
            for _ in range(times):
                began = time.perf_counter()
                acquire()
                took.append(time.perf_counter() - began)
                release()
        time.sleep(0.5)  # They release the locks now that they acquired meanwhile.
    return took


async def _acquires_asyncio(servers: Servers, times: int) -> list[float]:
    took = []
    async with _open_pyredisson_asyncio(servers, None) as (acquire, release):
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

        def away(name: str) -> dict[str, float]:
            _reset(servers)
            if name == PYREDISSON.name:
                took = _acquires(servers, times)
            else:
                took = asyncio.run(_acquires_asyncio(servers, times))
            return {"first ms": took[0] * 1e3, "median ms": median(took) * 1e3, "slowest ms": max(took) * 1e3}

        names = [PYREDISSON.name, PYREDISSON_ASYNCIO.name]
        samples = tournament.play(title, names, rounds, away, [each.pid for each in servers[1:]])
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
