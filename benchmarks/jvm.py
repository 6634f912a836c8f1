"""Redisson in a JVM, as it comes: with its defaults, on the JVM's. Needs Java and Maven.

``tests/interop/building.py`` builds it; what it can measure is in
``tests/interop/java/src/main/java/pyredisson/Benchmark.java``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.interop.building import CURRENT, peer_command
from tests.interop.peer import JavaClient, Jvm

from .load import cpu_seconds_of
from .server import Server
from .throughput import WARM_UP_SECONDS, Counted, Spent

__all__ = [
    "REDISSON",
    "WAIT_SECONDS",
    "do",
    "pairs_in_java",
    "redisson",
    "redissons",
]

REDISSON = f"Redisson {CURRENT}"
WAIT_SECONDS = 600.0
"""For one command to a JVM; only one that hangs takes that long."""


@contextmanager
def redissons(servers: Sequence[Server], watchdog_seconds: float = 30.0) -> Iterator[Sequence[JavaClient]]:
    """A JVM, and in it a client of each server."""
    jvm = Jvm(peer_command(CURRENT, settings=()))
    try:
        watchdog_ms = round(watchdog_seconds * 1000)
        yield [
            jvm.connect(each.url, mode="untouched", watchdog_ms=watchdog_ms, within=WAIT_SECONDS) for each in servers
        ]
    finally:
        jvm.kill()


@contextmanager
def redisson(server: Server, watchdog_seconds: float = 30.0) -> Iterator[JavaClient]:
    """A JVM, and in it a client."""
    with redissons([server], watchdog_seconds) as (client,):
        yield client


def do(clients: Sequence[JavaClient], verb: str, *args: object) -> list[int]:
    """Let clients of one JVM do something, and wait for the numbers that come of it."""
    names = ",".join(each.name for each in clients)
    answer: list[int] = clients[0].jvm.start("bench", verb, names, *map(str, args)).result(WAIT_SECONDS)
    return answer


def pairs_in_java(servers: Sequence[Server], clients: Sequence[JavaClient], threads: int, seconds: float) -> Counted:
    """Acquire and release, each thread a lock of its own: on one server, or a ``getRedLock()`` over several."""
    for each in servers:
        each.reset()
    pid = clients[0].jvm.pid
    cpu, begin = cpu_seconds_of(pid), time.perf_counter()
    within, window, in_all = do(clients, "pairs", threads, int(WARM_UP_SECONDS * 1e9), int(seconds * 1e9))
    cpu, elapsed = cpu_seconds_of(pid) - cpu, time.perf_counter() - begin
    return Counted(in_all, within, Spent(window / 1e9, cpu * window / 1e9 / elapsed))
