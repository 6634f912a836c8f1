"""A crowd of clients that wait for one lock: what a hand-over costs the server, and how long it takes."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import redis.asyncio

from tests.interop.peer import JavaClient

from .jvm import REDISSON, redissons
from .report import Figure, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .server import Server
from .wire import lock_name

__all__ = [
    "MILLISECONDS",
    "PLAIN",
    "QUICK_SIZES",
    "SERVE_SECONDS",
    "SIZES",
    "crowd",
    "java_crowd",
    "until_quiet",
    "waiting_processes",
]

PLAIN, FAIR, REDIS_PY = "pyredisson Lock", "pyredisson FairLock", "redis-py Lock"
SEMAPHORE = "pyredisson Semaphore"

#: The permits of the semaphore, and how many clients wait for them.
PERMITS = 10
CLIENTS_OF_PERMITS = 200

PROCESSES = 4
START_SECONDS = 120.0
SERVE_SECONDS = 300.0
QUIET_SECONDS = 1.0
LEASE_SECONDS = 300

SIZES = (5, 20, 80, 200, 1000)
QUICK_SIZES = (5, 20, 80)

#: What a crowd must not make slower or more expensive than this one.
FEW = 20

#: The bounds are for this number of clients and more.
MANY = 200

REQUESTS = "requests a hand-over"
COMMANDS = "commands a hand-over"
MILLISECONDS = "ms a hand-over"

#: Beyond this many clients redis-py's polls keep a small machine busy with nothing else.
MOST_OF_REDIS_PY = 80

#: Clients in JVMs, which need more memory.
JAVA_SIZES = (5, 20)
JAVA_SECONDS = 0.05


def _of(client: Any, contestant: str) -> Any:
    """What the contestant waits for, of a client."""
    if contestant == FAIR:
        return client.get_fair_lock(lock_name(0))
    if contestant == SEMAPHORE:
        return client.get_semaphore(lock_name(0))
    return client.get_lock(lock_name(0))


async def _wait_and_pass(contestant: str, url: str, clients: int, out: Connection, served: Event) -> None:
    """Let each client wait for the lock in a task of its own, take it once, and give it back."""
    async with AsyncExitStack() as closing:
        locks: list[Any] = []
        for _ in range(clients):
            if contestant == REDIS_PY:
                theirs = await closing.enter_async_context(redis.asyncio.Redis.from_url(url))
                locks.append(theirs.lock(lock_name(0), timeout=LEASE_SECONDS))
            else:
                from pyredisson.asyncio import Redisson

                ours = await closing.enter_async_context(Redisson.from_url(url))
                locks.append(_of(ours, contestant))

        async def take(lock: Any) -> None:
            await lock.acquire()
            await lock.release()

        tasks = [asyncio.create_task(take(lock)) for lock in locks]
        await asyncio.sleep(0)
        out.send("waiting")
        await asyncio.wait_for(asyncio.gather(*tasks), SERVE_SECONDS)
        out.send("served")
        await asyncio.to_thread(served.wait, SERVE_SECONDS)  # To close connections is no part of a hand-over.


def wait_and_pass(contestant: str, url: str, clients: int, out: Connection, served: Event) -> None:
    """One process with several clients."""
    asyncio.run(_wait_and_pass(contestant, url, clients, out, served))


def _calls(server: Server, contestant: str) -> tuple[int, int]:
    """How many requests clients have sent, and how many commands ran in all, those inside scripts included."""
    stats: dict[str, dict[str, int]] = server.admin.info("commandstats")
    # redis-py's Lock polls with SET; in others SET only runs inside a script.
    sent = ("eval", "evalsha", "set") if contestant == REDIS_PY else ("eval", "evalsha")
    requests = sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in sent)
    ignored = {"cmdstat_info", "cmdstat_ping"}
    return requests, sum(each["calls"] for name, each in stats.items() if name not in ignored)


def until_quiet(server: Server, contestant: str) -> None:
    """Wait until the waiters ask no more than they do while they wait."""
    rate = float("inf")
    while True:
        before = _calls(server, contestant)[1]
        time.sleep(QUIET_SECONDS)
        now = _calls(server, contestant)[1] - before
        if now >= 0.8 * rate or now == 0:
            return
        rate = now


@contextmanager
def waiting_processes(
    contestant: str, work: Callable[[int, Connection, Event], None], clients: int
) -> Iterator[Callable[[], None]]:
    """Start processes that share the clients evenly, and yield what waits until all of these have been served.

    Args:
        contestant: Its name, for errors.
        work: What a process does: given the number of its clients, send a word when they wait, and one when they were
            served, and end after the event.
        clients: How many there are in all.
    """
    spawning = multiprocessing.get_context("spawn")
    served = spawning.Event()
    processes = min(PROCESSES, clients)
    shares = [clients // processes + (index < clients % processes) for index in range(processes)]
    ends = [spawning.Pipe(duplex=False) for _ in shares]
    workers = [
        spawning.Process(target=work, args=(share, write, served))
        for share, (_, write) in zip(shares, ends, strict=True)
    ]

    def until_served() -> None:
        for read, _ in ends:
            if not read.poll(SERVE_SECONDS):
                raise RuntimeError(f"{contestant}: not all clients were served")
            read.recv()

    try:
        for worker in workers:
            worker.start()
        for read, write in ends:
            write.close()
            if not read.poll(START_SECONDS):
                raise RuntimeError(f"{contestant}: no sign of a process")
            read.recv()
        yield until_served
        served.set()
        for worker in workers:
            worker.join(START_SECONDS)
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()


def _turn(server: Server, contestant: str, clients: int) -> dict[str, float]:
    server.reset()
    with ExitStack() as closing:
        release = _hold(server, contestant, closing)
        work = partial(wait_and_pass, contestant, server.url)
        until_served = closing.enter_context(waiting_processes(contestant, work, clients))

        def serve() -> None:
            release()
            until_served()

        return _measure(server, contestant, clients, serve)


def _measure(server: Server, contestant: str, clients: int, serve: Callable[[], None]) -> dict[str, float]:
    """Count what it takes until all clients that wait have been served."""
    until_quiet(server, contestant)
    requests, commands = _calls(server, contestant)
    begin = time.perf_counter()
    serve()
    elapsed = time.perf_counter() - begin
    requests_after, commands_after = _calls(server, contestant)
    return {
        REQUESTS: (requests_after - requests) / clients,
        COMMANDS: (commands_after - commands) / clients,
        MILLISECONDS: elapsed / clients * 1e3,
    }


def _hold(server: Server, contestant: str, closing: ExitStack) -> Callable[[], object]:
    """Hold the lock, or all permits, as one more client. Returns what releases it."""
    lock: Any
    if contestant == REDIS_PY:
        lock = server.admin.lock(lock_name(0), timeout=LEASE_SECONDS)
        lock.acquire()
    else:
        from pyredisson import Redisson

        lock = _of(closing.enter_context(Redisson.from_url(server.url)), contestant)
        if contestant == SEMAPHORE:
            lock.try_set_permits(PERMITS)
            lock.acquire(PERMITS)
            return lambda: lock.release(PERMITS)
        lock.lock(LEASE_SECONDS)
    release: Callable[[], object] = lock.release
    return release


def _java_turn(server: Server, clients: Sequence[JavaClient]) -> dict[str, float]:
    """The same with clients of Redisson; the one that has the lock before is ours."""
    server.reset()
    with ExitStack() as closing:
        release = _hold(server, PLAIN, closing)
        begin = time.monotonic_ns() + int(0.2e9)
        # They ask again only until the end of that window, before which none of them is served.
        window = (str(begin), str(begin + int(JAVA_SECONDS * 1e9)), "0")
        running = [
            each.jvm.start(f"bench {number}", "turns", each.name, *window) for number, each in enumerate(clients)
        ]
        time.sleep(0.2 + JAVA_SECONDS)

        def serve() -> None:
            release()
            for each in running:
                each.result(SERVE_SECONDS)

        return _measure(server, REDISSON, len(clients), serve)


def _row(samples: Samples, name: str) -> Sequence[str]:
    return (name, *(show(median_of(samples, name, each)) for each in (REQUESTS, COMMANDS, MILLISECONDS)))


HEADS = ("contestant, clients", REQUESTS, COMMANDS, MILLISECONDS)
HOW = (
    "Each client has one task, which waits for the lock, takes it once, and gives it back; the clients are in "
    f"{PROCESSES} processes. Counted in the server, from the release on."
)


def crowd(server: Server, *, rounds: int, tournament: Tournament, sizes: Sequence[int] = SIZES) -> Figure:
    """Clients that wait for one lock, and take it once each."""
    title = "A crowd of clients on one lock"
    samples: dict[str, Sequence[Mapping[str, float]]] = {}
    for clients in sizes:
        contestants = [PLAIN, FAIR]
        if clients <= MOST_OF_REDIS_PY:
            contestants.append(REDIS_PY)
        if clients == CLIENTS_OF_PERMITS:
            contestants.append(SEMAPHORE)
        of_size = tournament.play(
            f"{title}: {clients}", contestants, rounds, lambda name, clients=clients: _turn(server, name, clients)
        )
        samples |= {f"{name}, {clients}": each for name, each in of_size.items()}
    claims = []
    for clients in filter(MANY.__le__, sizes):
        plain = f"{PLAIN}, {clients}"
        claims += [
            at_most(f"requests a hand-over, {clients} clients", median_of(samples, plain, REQUESTS), 3.5),
            at_most(
                f"time of the fair lock's, {clients} clients",
                median_ratio(samples, plain, f"{FAIR}, {clients}", MILLISECONDS),
                1.5,
                "x",
            ),
            at_most(
                f"time of that with {FEW} clients, {clients} clients",
                median_ratio(samples, plain, f"{PLAIN}, {FEW}", MILLISECONDS),
                1.5,
                "x",
            ),
        ]
    permits = f"{SEMAPHORE}, {CLIENTS_OF_PERMITS}"
    if permits in samples:
        claims.append(at_most("requests a permit that is passed on", median_of(samples, permits, REQUESTS), 3.5))
    how = f"{HOW} {rounds} rounds. redis-py polls every 0.1 s, its default. The semaphore has {PERMITS} permits."
    rows = [_row(samples, name) for name in samples]
    return Figure("crowd", title, how, HEADS, rows, claims, [], samples)


def java_crowd(server: Server, *, rounds: int, tournament: Tournament) -> Figure:
    """The same, compared with Redisson."""
    title = "A crowd of clients on one lock, compared with Redisson"
    samples: dict[str, Sequence[Mapping[str, float]]] = {}
    with ExitStack() as closing:
        shares = [closing.enter_context(redissons([server] * (max(JAVA_SIZES) // PROCESSES))) for _ in range(PROCESSES)]
        # One of each JVM in turn.
        clients = [each for together in zip(*shares, strict=True) for each in together]
        _java_turn(server, clients)
        for size in JAVA_SIZES:

            def turn(contestant: str, size: int = size) -> dict[str, float]:
                return _java_turn(server, clients[:size]) if contestant == REDISSON else _turn(server, contestant, size)

            pids = [each[0].jvm.pid for each in shares]
            played = tournament.play(f"{title}: {size}", [PLAIN, REDISSON], rounds, turn, pids)
            samples |= {f"{name}, {size}": each for name, each in played.items()}
    how = f"{HOW} {rounds} rounds. The JVMs are started once, and warm."
    rows = [_row(samples, name) for name in samples]
    claims = [
        at_most(
            f"requests of Redisson's, {size} clients",
            median_ratio(samples, f"{PLAIN}, {size}", f"{REDISSON}, {size}", REQUESTS),
            1,
            "x",
        )
        for size in JAVA_SIZES
    ]
    return Figure("java_crowd", title, how, HEADS, rows, claims, [], samples)
