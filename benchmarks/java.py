"""Compared with Redisson itself, in a warm JVM: one thread, many threads, Redlock, hand-overs and held locks.

Where there is Go, redsync takes part in the first three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median, quantiles

from tests.interop.peer import JavaClient

from . import held_locks as held
from . import processes
from . import redlock as quorum
from .contestants import PYREDISSON, RAW, REDIS_PY
from .go import REDSYNC, Redsync, built_redsync
from .jvm import REDISSON, WAIT_SECONDS, do, pairs_in_java, redisson, redissons
from .load import cpu_seconds_of
from .report import Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .separate_locks import measure
from .server import Server
from .throughput import rates
from .waiters import monitored

__all__ = ["java_hand_over", "java_held_locks", "java_many_threads", "java_one_thread", "java_redlock"]

WARM_UP_SECONDS = 4.0
RED_LOCK = f"{REDISSON} getRedLock()"

Turns = dict[str, Callable[[], dict[str, float]]]


# ---- separate locks --------------------------------------------------------------------------------------------------


def _pairs(server: Server, client: JavaClient, threads: int, seconds: float) -> dict[str, float]:
    # An acquire and a release are one HINCRBY each; DEL is run for more than the locks.
    return rates(server, REDISSON, pairs_in_java([server], [client], threads, seconds), "hincrby", times=2)


def _redsync_pairs(server: Server, redsync: Redsync, threads: int, seconds: float) -> dict[str, float]:
    return rates(server, REDSYNC, redsync.pairs([server], threads, seconds))


def _rows(samples: Samples, raw: str, others: Sequence[str]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    others = [raw, *(other for other in others if other in samples)]
    rows = [
        (
            each,
            *(show(median_of(samples, each, column)) for column in ("pairs/s", "us/pair", "CPU us/pair")),
            *(show(median_ratio(samples, each, other, "pairs/s")) for other in others),
        )
        for each in samples
    ]
    heads = ("of raw", *(f"of {other}" for other in others[1:]))
    return ("contestant", "pairs/s", "us/pair", "CPU us/pair", *heads), rows


def _without(samples: Samples) -> list[str]:
    return [] if REDSYNC in samples else [f"{REDSYNC} could not be built here, and did not take part."]


def _separate(
    server: Server, name: str, title: str, threads: int, rounds: int, seconds: float, tournament: Tournament
) -> Figure:
    with redisson(server) as client, built_redsync() as redsync:
        _pairs(server, client, threads, WARM_UP_SECONDS)
        turns: Turns = {
            one.name: partial(measure, server, one, threads, seconds) for one in (RAW, REDIS_PY, PYREDISSON)
        }
        turns[REDISSON] = partial(_pairs, server, client, threads, seconds)
        if redsync is not None:
            turns[REDSYNC] = partial(_redsync_pairs, server, redsync, threads, seconds)
        samples = tournament.play(title, list(turns), rounds, lambda each: turns[each](), [client.jvm.pid])
    claims = [
        at_least(f"pairs of {other}'s", median_ratio(samples, PYREDISSON.name, other, "pairs/s"), 1, "x")
        for other in (REDISSON, *([REDSYNC] if threads > 1 else []))
        if other in samples
    ]
    who = "One thread" if threads == 1 else f"{threads} threads, a lock each"
    how = (
        f"{who}, {rounds} rounds of {seconds:g} s each. The JVM runs for {WARM_UP_SECONDS:g} s first, and stays; "
        "redsync is started anew each time. CPU is that of the client's process."
    )
    columns, rows = _rows(samples, RAW.name, (REDISSON, REDSYNC))
    return Figure(name, title, how, columns, rows, claims, _without(samples), samples)


def java_one_thread(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release by a single thread."""
    return _separate(server, "java_one_thread", "One thread, compared with Redisson", 1, rounds, seconds, tournament)


def java_many_threads(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64
) -> Figure:
    """Acquire and release by many threads, each on a lock of its own."""
    title = f"{threads} threads on separate locks, compared with Redisson"
    return _separate(server, "java_many_threads", title, threads, rounds, seconds, tournament)


# ---- Redlock ---------------------------------------------------------------------------------------------------------


def _red_lock(servers: Sequence[Server], clients: Sequence[JavaClient], seconds: float) -> dict[str, float]:
    counted = pairs_in_java(servers, clients, 1, seconds)
    return quorum.nodes_agree(servers, RED_LOCK, counted, thorough=True, proof="hincrby", times=2)


def java_redlock(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Redlock by one thread."""
    title = "Redlock on five nodes, compared with Redisson"
    with quorum.fleet(server) as servers, redissons(servers) as clients, built_redsync() as redsync:
        _red_lock(servers, clients, WARM_UP_SECONDS)
        turns: Turns = {
            one.name: partial(quorum.measure, servers, one, seconds) for one in (quorum.RAW, quorum.PYREDISSON)
        }
        turns[RED_LOCK] = partial(_red_lock, servers, clients, seconds)
        if redsync is not None:
            turns[REDSYNC] = partial(quorum.redsync_turn, servers, redsync, seconds)
        pids = [*(each.pid for each in servers[1:]), clients[0].jvm.pid]
        samples = tournament.play(title, list(turns), rounds, lambda name: turns[name](), pids)
    ratio = median_ratio(samples, quorum.PYREDISSON.name, RED_LOCK, "pairs/s")
    how = (
        f"Five independent nodes, a lock without contention, one thread, {rounds} rounds of {seconds:g} s each. "
        "Redisson's is lock() and unlock() of getRedLock() over a client of each node, in a JVM that has run for "
        f"{WARM_UP_SECONDS:g} s and stays: the class RedissonRedLock, deprecated in {REDISSON}."
    )
    notes = [
        "Redisson's asks one node after the other, and counts no validity; the others ask all five at once.",
        *_without(samples),
    ]
    columns, rows = _rows(samples, quorum.RAW.name, (RED_LOCK, REDSYNC))
    return Figure(
        *("java_redlock", title, how, columns, rows),
        claims=[at_least(f"pairs of {RED_LOCK}", ratio, 1, "x")],
        notes=notes,
        samples=samples,
    )


# ---- hand-over -------------------------------------------------------------------------------------------------------


def _turns(server: Server, clients: Sequence[JavaClient], seconds: float) -> dict[str, float]:
    server.reset()
    begin = time.monotonic_ns() + int(0.2e9)
    times = tuple(map(str, (begin, begin + int(seconds * 1e9), int(processes.HOLD_SECONDS * 1e9))))
    running = [each.jvm.start("bench", "turns", each.name, *times) for each in clients]
    waits = [[wait / 1e9 for wait in each.result(WAIT_SECONDS)] for each in running]
    together = [wait for one in waits for wait in one]
    counts = [len(one) for one in waits]
    if server.keys():
        raise RuntimeError(f"{REDISSON} left {server.keys()} keys behind")
    return {
        "acquisitions/s": len(together) / seconds,
        "median ms": median(together) * 1e3,
        "p99 ms": quantiles(together, n=100)[98] * 1e3,
        "longest ms": max(together) * 1e3,
        "busiest": max(counts),
        "idlest": min(counts),
    }


def java_hand_over(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, counts: Sequence[int] = (4, 8)
) -> Figure:
    """Processes that each take one and the same lock again and again."""
    title = f"Processes on one lock, held for {processes.HOLD_SECONDS * 1e3:g} ms, compared with Redisson"
    samples: dict[str, Sequence[dict[str, float]]] = {}
    with ExitStack() as closing:
        clients = [closing.enter_context(redisson(server)) for _ in range(max(counts))]
        _turns(server, clients, WARM_UP_SECONDS)
        for count in counts:

            def turn(contestant: str, count: int = count) -> dict[str, float]:
                if contestant == REDISSON:
                    return _turns(server, clients[:count], seconds)
                return processes.turn(server, contestant, count, seconds)

            names = (processes.REDIS_PY, processes.PYREDISSON, REDISSON)
            pids = [each.jvm.pid for each in clients]
            played = tournament.play(f"{title}: {count}", names, rounds, turn, pids)
            samples |= {f"{name}, {count}": list(map(dict, played[name])) for name in names}
    columns = ("acquisitions/s", "median ms", "p99 ms", "longest ms")
    rows = [
        (
            each,
            *(show(median_of(samples, each, column)) for column in columns),
            f"{show(median_of(samples, each, 'busiest'))} / {show(median_of(samples, each, 'idlest'))}",
        )
        for each in samples
    ]
    claims = [
        make(f"{what} of Redisson's, {count} processes", _compared(samples, column, count), 1, "x")
        for count in counts
        for what, column, make in (("acquisitions", "acquisitions/s", at_least), ("p99 wait", "p99 ms", at_most))
    ]
    how = (
        f"Each process takes the lock, keeps it for {processes.HOLD_SECONDS * 1e3:g} ms, frees it and asks again, for "
        f"{seconds:g} s; {rounds} rounds. The number behind a name is that of its processes. The JVMs are started "
        "once, and warm."
    )
    heads = ("contestant, processes", "acquisitions/s", "median wait ms", "p99 wait ms", "longest wait ms")
    return Figure("java_hand_over", title, how, (*heads, "busiest / idlest"), rows, claims, samples=samples)


def _compared(samples: Samples, column: str, count: int) -> float:
    return median_ratio(samples, f"{processes.PYREDISSON}, {count}", f"{REDISSON}, {count}", column)


# ---- locks that are kept ---------------------------------------------------------------------------------------------


def _keep(server: Server, locks: int, lease_seconds: float) -> dict[str, float]:
    server.reset()
    with redisson(server, lease_seconds) as client:
        do([client], "many", "take", held.PRACTICE_LOCKS)
        do([client], "many", "give", held.PRACTICE_LOCKS)
        used, resident = client.jvm.do("bench", "used"), held.resident_bytes(client.jvm.pid)
        do([client], "many", "take", locks)
        if server.keys() != locks:
            raise RuntimeError(f"{REDISSON} holds {server.keys()} of {locks} locks")
        result = {
            "heap bytes": (client.jvm.do("bench", "used") - used) / locks,
            "bytes": (held.resident_bytes(client.jvm.pid) - resident) / locks,
        }
        with monitored(server) as seen:
            cpu, begin = cpu_seconds_of(client.jvm.pid), time.perf_counter()
            time.sleep(lease_seconds)
            cpu, elapsed = cpu_seconds_of(client.jvm.pid) - cpu, time.perf_counter() - begin
            commands = seen.total()
        result |= {"commands a period": commands / held.PERIODS, "% of a core": cpu / elapsed * 100}
        result["still held"] = server.keys()
        do([client], "many", "give", locks)
    return result


def java_held_locks(
    server: Server, *, rounds: int, lease_seconds: float, tournament: Tournament, locks: int = 10_000
) -> Figure:
    """Many locks held by one process and kept alive."""
    title = f"{locks:,} locks held by one process, compared with Redisson"
    turns: dict[str, Callable[[], dict[str, float]]] = {
        held.REDIS_PY: lambda: held.turn(server, held.REDIS_PY, locks, lease_seconds),
        held.PYREDISSON: lambda: held.turn(server, held.PYREDISSON, locks, lease_seconds),
        REDISSON: lambda: _keep(server, locks, lease_seconds),
    }
    samples = tournament.play(title, list(turns), rounds, lambda name: turns[name]())
    shown = ("commands a period", "% of a core", "bytes", "still held")
    rows = [(each, *(show(median_of(samples, each, column)) for column in shown)) for each in samples]
    claims = [
        at_most(f"{what} of Redisson's", median_ratio(samples, held.PYREDISSON, REDISSON, column), bound, "x")
        for what, column, bound in (("commands", "commands a period", 1.1), ("CPU time", "% of a core", 1))
    ]
    how = (
        f"One thread takes {locks:,} locks; the watchdog timeout is {lease_seconds:g} s, and three periods "
        "are watched. Bytes are of resident memory; a JVM takes as much as it may before it throws anything away."
    )
    heap = show(median_of(samples, REDISSON, "heap bytes"))
    notes = [f"In the heap of the JVM a lock that is kept takes {heap} bytes."]
    return Figure("java_held_locks", title, how, ("contestant", *shown), rows, claims, notes, samples)
