"""A crowd of clients that wait for one lock: what a hand-over costs the server, and how long it takes."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import redis.asyncio

from .report import Figure, at_most, show
from .rounds import Tournament, median_of, median_ratio
from .server import Server
from .wire import lock_name

__all__ = ["crowd"]

PLAIN, FAIR, REDIS_PY = "pyredisson Lock", "pyredisson FairLock", "redis-py Lock"

PROCESSES = 4
START_SECONDS = 120.0
SERVE_SECONDS = 300.0
QUIET_SECONDS = 1.0
LEASE_SECONDS = 300

#: The bounds are for this number of clients and more.
MANY = 200

SCRIPTS = "scripts a hand-over"
COMMANDS = "commands a hand-over"
MILLISECONDS = "ms a hand-over"

#: Beyond this many clients redis-py's polls keep a small machine busy with nothing else.
MOST_OF_REDIS_PY = 80


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
                locks.append(ours.get_fair_lock(lock_name(0)) if contestant == FAIR else ours.get_lock(lock_name(0)))

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


def _calls(server: Server) -> tuple[int, int]:
    """How many scripts clients have run, and how many commands in all, those inside scripts included."""
    stats: dict[str, dict[str, int]] = server.admin.info("commandstats")
    scripts = sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
    ignored = {"cmdstat_info", "cmdstat_ping"}
    return scripts, sum(each["calls"] for name, each in stats.items() if name not in ignored)


def _until_quiet(server: Server) -> None:
    """Wait until the waiters ask no more than they do while they wait."""
    rate = float("inf")
    while True:
        before = _calls(server)[1]
        time.sleep(QUIET_SECONDS)
        now = _calls(server)[1] - before
        if now >= 0.8 * rate or now == 0:
            return
        rate = now


def _turn(server: Server, contestant: str, clients: int) -> dict[str, float]:
    server.reset()
    spawning = multiprocessing.get_context("spawn")
    served = spawning.Event()
    processes = min(PROCESSES, clients)
    shares = [clients // processes + (index < clients % processes) for index in range(processes)]
    ends = [spawning.Pipe(duplex=False) for _ in shares]
    workers = [
        spawning.Process(target=wait_and_pass, args=(contestant, server.url, share, write, served))
        for share, (_, write) in zip(shares, ends, strict=True)
    ]
    closing = ExitStack()
    try:
        release = _hold(server, contestant, closing)
        for worker in workers:
            worker.start()
        for read, write in ends:
            write.close()
            if not read.poll(START_SECONDS):
                raise RuntimeError(f"{contestant}: no sign of a process")
            read.recv()
        _until_quiet(server)
        scripts, commands = _calls(server)
        begin = time.perf_counter()
        release()
        for read, _ in ends:
            if not read.poll(SERVE_SECONDS):
                raise RuntimeError(f"{contestant}: not all clients were served")
            read.recv()
        elapsed = time.perf_counter() - begin
        scripts_after, commands_after = _calls(server)
        served.set()
        for worker in workers:
            worker.join(START_SECONDS)
    finally:
        closing.close()
        for worker in workers:
            if worker.is_alive():
                worker.kill()
    return {
        SCRIPTS: (scripts_after - scripts) / clients,
        COMMANDS: (commands_after - commands) / clients,
        MILLISECONDS: elapsed / clients * 1e3,
    }


def _hold(server: Server, contestant: str, closing: ExitStack) -> Callable[[], object]:
    """Hold the lock as one more client. Returns what releases it."""
    lock: Any
    if contestant == REDIS_PY:
        lock = server.admin.lock(lock_name(0), timeout=LEASE_SECONDS)
        lock.acquire()
    else:
        from pyredisson import Redisson

        holder = closing.enter_context(Redisson.from_url(server.url))
        lock = holder.get_fair_lock(lock_name(0)) if contestant == FAIR else holder.get_lock(lock_name(0))
        lock.lock(LEASE_SECONDS)
    release: Callable[[], object] = lock.release
    return release


def crowd(server: Server, *, rounds: int, tournament: Tournament, sizes: Sequence[int] = (5, 20, 80, 200)) -> Figure:
    """Clients that wait for one lock, and take it once each."""
    title = "A crowd of clients on one lock"
    rows: list[Sequence[str]] = []
    samples: dict[str, Sequence[Any]] = {}
    for clients in sizes:
        contestants = [PLAIN, FAIR, *([REDIS_PY] if clients <= MOST_OF_REDIS_PY else [])]
        of_size = tournament.play(
            f"{title}: {clients}", contestants, rounds, lambda name, clients=clients: _turn(server, name, clients)
        )
        for name in contestants:
            rows.append(
                (
                    name,
                    str(clients),
                    *(show(median_of(of_size, name, each)) for each in (SCRIPTS, COMMANDS, MILLISECONDS)),
                )
            )
            samples[f"{name}, {clients}"] = of_size[name]
    how = (
        f"Each client has one task, which waits for the lock, takes it once, and gives it back; the clients are in "
        f"{PROCESSES} processes. {rounds} rounds. Counted in the server from the release on. redis-py with its default "
        "sleep of 0.1 s."
    )
    claims = [
        claim
        for clients in sizes
        if clients >= 200
        for claim in (
            at_most(f"scripts a hand-over, {clients} clients", median_of(samples, f"{PLAIN}, {clients}", SCRIPTS), 3.5),
            at_most(
                f"time a hand-over of the fair lock's, {clients} clients",
                median_ratio(
                    {name: samples[f"{name}, {clients}"] for name in (PLAIN, FAIR)}, PLAIN, FAIR, MILLISECONDS
                ),
                1.5,
                " x",
            ),
        )
    ]
    columns = ("contestant", "clients", SCRIPTS, COMMANDS, MILLISECONDS)
    return Figure("crowd", title, how, columns, rows, claims, [], samples)
