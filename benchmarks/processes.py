"""Processes that contend for one lock: how many acquisitions, how long the waits, how even the shares."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import Array, c_longlong
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from statistics import median, quantiles

import redis

from .report import Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .server import Server
from .wire import lock_name

__all__ = ["contending_processes", "fair_processes"]

START_SECONDS = 60.0
HOLD_SECONDS = 0.001
LEASE_SECONDS = 30
PRACTICE_LOCK, CONTENDED_LOCK = 1, 0

REDIS_PY, PYREDISSON, FAIR = "redis-py Lock", "pyredisson", "pyredisson FairLock"

INSIDE, COUNTED, OVERLAPS = range(3)
"""The slots of the memory that all processes share without any lock but the one that is measured."""


def contend(
    contestant: str, url: str, number: int, seconds: float, start: Barrier, shared: Array[c_longlong], out: Connection
) -> None:
    """One process: wait for the lock, hold it for a moment, again, and send back how long each wait was."""
    with ExitStack() as closing:
        if contestant == REDIS_PY:
            client = closing.enter_context(redis.Redis.from_url(url))
            practice = client.lock(lock_name(PRACTICE_LOCK + number), timeout=LEASE_SECONDS)
            contended = client.lock(lock_name(CONTENDED_LOCK), timeout=LEASE_SECONDS)
            calls = (practice.acquire, practice.release), (contended.acquire, contended.release)
        else:
            from pyredisson import Redisson

            ours = closing.enter_context(Redisson.from_url(url))
            get = ours.get_fair_lock if contestant == FAIR else ours.get_lock
            practice_lock = get(lock_name(PRACTICE_LOCK + number))
            lock = get(lock_name(CONTENDED_LOCK))
            calls = (practice_lock.acquire, practice_lock.release), (lock.acquire, lock.release)
        (practise, stop_practising), (acquire, release) = calls
        for _ in range(5):
            practise()
            stop_practising()
        waits: list[float] = []
        now = time.perf_counter
        start.wait(START_SECONDS)
        deadline = now() + seconds
        while True:
            asked = now()
            if asked >= deadline:
                break
            if not acquire():
                raise RuntimeError("an acquire without a time limit returned without the lock")
            waits.append(now() - asked)
            shared[INSIDE] += 1
            if shared[INSIDE] != 1:
                shared[OVERLAPS] += 1
            counted = shared[COUNTED]
            time.sleep(HOLD_SECONDS)
            shared[COUNTED] = counted + 1
            shared[INSIDE] -= 1
            release()
        out.send(waits)
        out.close()


def turn(server: Server, contestant: str, processes: int, seconds: float) -> dict[str, float]:
    """All processes of one contestant, once, with the proof that one at a time was inside."""
    server.reset()
    spawning = multiprocessing.get_context("spawn")
    start = spawning.Barrier(processes + 1)
    shared = spawning.RawArray("q", 3)
    ends = [spawning.Pipe(duplex=False) for _ in range(processes)]
    workers = [
        spawning.Process(target=contend, args=(contestant, server.url, number, seconds, start, shared, write))
        for number, (_, write) in enumerate(ends)
    ]
    try:
        for worker in workers:
            worker.start()
        for _, write in ends:
            write.close()
        start.wait(START_SECONDS)
        begin = time.perf_counter()
        waits = [read.recv() for read, _ in ends]
        elapsed = time.perf_counter() - begin
        for worker in workers:
            worker.join(START_SECONDS)
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.kill()
    together = [wait for one in waits for wait in one]
    if shared[OVERLAPS] or shared[COUNTED] != len(together):
        raise RuntimeError(
            f"{contestant}: {len(together)} acquisitions, {shared[COUNTED]} counted under the lock, "
            f"{shared[OVERLAPS]} overlaps"
        )
    if server.keys():
        raise RuntimeError(f"{contestant} left {server.keys()} keys behind")
    counts = [len(one) for one in waits]
    return {
        "acquisitions/s": len(together) / elapsed,
        "median ms": median(together) * 1e3,
        "p99 ms": quantiles(together, n=100)[98] * 1e3,
        "longest ms": max(together) * 1e3,
        "busiest": max(counts),
        "idlest": min(counts),
        "busiest/idlest": max(counts) / max(1, min(counts)),
    }


def _rows(samples: Samples) -> Sequence[Sequence[str]]:
    columns = ("acquisitions/s", "median ms", "p99 ms", "longest ms")
    return [
        (
            name,
            *(show(median_of(samples, name, column)) for column in columns),
            f"{show(median_of(samples, name, 'busiest'))} / {show(median_of(samples, name, 'idlest'))}",
        )
        for name in samples
    ]


def contending_processes(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, processes: int = 8
) -> Figure:
    """Processes that each take one and the same lock again and again."""
    title = f"{processes} processes on one lock, held for {HOLD_SECONDS * 1e3:g} ms"
    samples = tournament.play(
        title, (REDIS_PY, PYREDISSON), rounds, lambda name: turn(server, name, processes, seconds)
    )
    claims = [
        at_least(
            "acquisitions of redis-py's Lock", median_ratio(samples, PYREDISSON, REDIS_PY, "acquisitions/s"), 0.95, "x"
        ),
        # Short while more than one acquire in a hundred is a hand-over; redis-py hands over less often.
        at_most("p99 wait of redis-py's", median_ratio(samples, PYREDISSON, REDIS_PY, "p99 ms"), 1, "x", below=True),
        at_most("longest wait of redis-py's", median_ratio(samples, PYREDISSON, REDIS_PY, "longest ms"), 0.25, "x"),
        at_most("busiest process of the idlest", median_of(samples, PYREDISSON, "busiest/idlest"), 2, "x"),
    ]
    how = (
        f"Each process takes the lock, sleeps for {HOLD_SECONDS * 1e3:g} ms, frees it and asks again, "
        f"for {seconds:g} s; {rounds} rounds. redis-py with its default sleep of 0.1 s."
    )
    columns = ("contestant", "acquisitions/s", "median wait ms", "p99 wait ms", "longest wait ms", "busiest / idlest")
    return Figure("contending_processes", title, how, columns, _rows(samples), claims, samples=samples)


def fair_processes(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, processes: int = 8
) -> Figure:
    """Processes that each take one and the same lock again and again, in turn."""
    title = f"{processes} processes in turn, held for {HOLD_SECONDS * 1e3:g} ms"
    samples = tournament.play(
        title, (REDIS_PY, PYREDISSON, FAIR), rounds, lambda name: turn(server, name, processes, seconds)
    )
    claims = [
        at_least("acquisitions of redis-py's Lock", median_ratio(samples, FAIR, REDIS_PY, "acquisitions/s"), 0.85, "x"),
        at_least(
            "acquisitions of the plain lock's", median_ratio(samples, FAIR, PYREDISSON, "acquisitions/s"), 0.85, "x"
        ),
        at_most("busiest process of the idlest", median_of(samples, FAIR, "busiest/idlest"), 1.1, "x"),
    ]
    how = (
        f"Each process takes the lock, sleeps for {HOLD_SECONDS * 1e3:g} ms, frees it and asks again, "
        f"for {seconds:g} s; {rounds} rounds. The plain lock lets its holder take it again for a while; the fair one "
        "is handed over each time. redis-py with its default sleep of 0.1 s."
    )
    columns = ("contestant", "acquisitions/s", "median wait ms", "p99 wait ms", "longest wait ms", "busiest / idlest")
    return Figure("fair_processes", title, how, columns, _rows(samples), claims, samples=samples)
