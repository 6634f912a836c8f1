"""Beside Redisson itself, in a warm JVM: one thread, many threads, processes that hand over, and locks that are kept.

Needs Java and Maven; see ``tests/interop/building.py``. Redisson runs with its defaults, on the JVM's defaults.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from tests.interop.building import CURRENT, peer_command
from tests.interop.peer import JavaClient, Jvm

from . import held_locks as held
from . import processes
from .contestants import PYREDISSON, RAW, REDIS_PY
from .report import Claim, Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .separate_locks import measure
from .server import Server
from .waiters import monitored

__all__ = ["java_hand_over", "java_held_locks", "java_many_threads", "java_one_thread"]

REDISSON = f"Redisson {CURRENT}"
WARM_UP_SECONDS = 4.0
WAIT_SECONDS = 600.0


@contextmanager
def _redisson(server: Server, watchdog_seconds: float = 30.0) -> Iterator[JavaClient]:
    jvm = Jvm(peer_command(CURRENT, settings=()))
    try:
        yield jvm.connect(server.url, mode="untouched", watchdog_ms=round(watchdog_seconds * 1000))
    finally:
        jvm.kill()


def _do(client: JavaClient, verb: str, *args: object) -> list[int]:
    answer: list[int] = client.jvm.start("bench", verb, client.name, *map(str, args)).result(WAIT_SECONDS)
    return answer


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- separate locks --------------------------------------------------------------------------------------------------


def _pairs(server: Server, client: JavaClient, threads: int, seconds: float) -> dict[str, float]:
    server.reset()
    cpu, begin = _cpu_seconds(client.jvm.pid), time.perf_counter()
    within, window, in_all = _do(client, "pairs", threads, int(0.1e9), int(seconds * 1e9))
    cpu, elapsed = _cpu_seconds(client.jvm.pid) - cpu, time.perf_counter() - begin
    done, left = server.calls().get("hincrby", 0), server.keys()
    if done != 2 * in_all:
        raise RuntimeError(f"{REDISSON} says {in_all} pairs, the server ran hincrby {done} times, and not twice each")
    if left:
        raise RuntimeError(f"{REDISSON} left {left} keys behind")
    return {
        "pairs/s": within / window * 1e9,
        "us/pair": window / within / 1e3,
        "CPU us/pair": cpu / elapsed * (window / 1e3) / within,
    }


def _separate(
    server: Server, name: str, title: str, threads: int, rounds: int, seconds: float, tournament: Tournament
) -> Figure:
    python = {one.name: one for one in (RAW, REDIS_PY, PYREDISSON)}
    with _redisson(server) as client:
        _pairs(server, client, threads, WARM_UP_SECONDS)

        def turn(contestant: str) -> dict[str, float]:
            if contestant == REDISSON:
                return _pairs(server, client, threads, seconds)
            return measure(server, python[contestant], threads, seconds)

        samples = tournament.play(title, [*python, REDISSON], rounds, turn)
    rows = [
        (
            each,
            *(show(median_of(samples, each, column)) for column in ("pairs/s", "us/pair", "CPU us/pair")),
            *(show(median_ratio(samples, each, other, "pairs/s")) for other in (RAW.name, REDISSON)),
        )
        for each in samples
    ]
    claims: list[Claim] = [
        at_least("pairs of Redisson's", median_ratio(samples, PYREDISSON.name, REDISSON, "pairs/s"), 1, "x"),
    ]
    how = (
        f"{threads} on separate locks, {rounds} rounds of {seconds:g} s each. The JVM runs for {WARM_UP_SECONDS:g} s "
        "first, and stays. CPU is that of the client's process."
    )
    columns = ("contestant", "pairs/s", "us/pair", "CPU us/pair", "of raw", "of Redisson")
    return Figure(name, title, how, columns, rows, claims, samples=samples)


def java_one_thread(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release by a single thread."""
    return _separate(server, "java_one_thread", "One thread, beside Redisson", 1, rounds, seconds, tournament)


def java_many_threads(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64
) -> Figure:
    """Acquire and release by many threads, each on a lock of its own."""
    title = f"{threads} threads on separate locks, beside Redisson"
    return _separate(server, "java_many_threads", title, threads, rounds, seconds, tournament)


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
    title = f"Processes on one lock, held for {processes.HOLD_SECONDS * 1e3:g} ms, beside Redisson"
    samples: dict[str, Sequence[dict[str, float]]] = {}
    with ExitStack() as closing:
        clients = [closing.enter_context(_redisson(server)) for _ in range(max(counts))]
        _turns(server, clients, WARM_UP_SECONDS)
        for count in counts:

            def turn(contestant: str, count: int = count) -> dict[str, float]:
                if contestant == REDISSON:
                    return _turns(server, clients[:count], seconds)
                return processes.turn(server, contestant, count, seconds)

            names = (processes.REDIS_PY, processes.PYREDISSON, REDISSON)
            played = tournament.play(f"{title}: {count}", names, rounds, turn)
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
        make(f"{what} of Redisson's, {count} processes", _beside(samples, column, count), 1, "x")
        for count in counts
        for what, column, make in (("acquisitions", "acquisitions/s", at_least), ("p99 wait", "p99 ms", at_most))
    ]
    how = (
        f"Each process takes the lock, keeps it for {processes.HOLD_SECONDS * 1e3:g} ms, frees it and asks again, for "
        f"{seconds:g} s; {rounds} rounds. The JVMs are started once, and warm."
    )
    heads = ("contestant, processes", "acquisitions/s", "median wait ms", "p99 wait ms", "longest wait ms")
    return Figure("java_hand_over", title, how, (*heads, "busiest / idlest"), rows, claims, samples=samples)


def _beside(samples: Samples, column: str, count: int) -> float:
    return median_ratio(samples, f"{processes.PYREDISSON}, {count}", f"{REDISSON}, {count}", column)


# ---- locks that are kept ---------------------------------------------------------------------------------------------


def _keep(server: Server, locks: int, lease_seconds: float) -> dict[str, float]:
    server.reset()
    with _redisson(server, lease_seconds) as client:
        _do(client, "many", "take", held.PRACTICE_LOCKS)
        _do(client, "many", "give", held.PRACTICE_LOCKS)
        used, resident = client.jvm.do("bench", "used"), _resident(client.jvm.pid)
        _do(client, "many", "take", locks)
        if server.keys() != locks:
            raise RuntimeError(f"{REDISSON} holds {server.keys()} of {locks} locks")
        result = {
            "heap bytes": (client.jvm.do("bench", "used") - used) / locks,
            "bytes": (_resident(client.jvm.pid) - resident) / locks,
        }
        with monitored(server) as seen:
            cpu, begin = _cpu_seconds(client.jvm.pid), time.perf_counter()
            time.sleep(lease_seconds)
            cpu, elapsed = _cpu_seconds(client.jvm.pid) - cpu, time.perf_counter() - begin
            commands = seen.total()
        result |= {"commands a period": commands / held.PERIODS, "% of a core": cpu / elapsed * 100}
        result["still held"] = server.keys()
        _do(client, "many", "give", locks)
    return result


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def java_held_locks(
    server: Server, *, rounds: int, lease_seconds: float, tournament: Tournament, locks: int = 10_000
) -> Figure:
    """Many locks held by one process and kept alive."""
    title = f"{locks:,} locks held by one process, beside Redisson"
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
