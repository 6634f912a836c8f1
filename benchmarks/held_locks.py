"""Thousands of locks held by one process: what renewing them costs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import redis
from redis.lock import Lock as RedisPyLock

from .report import Figure, at_least, at_most, show
from .rounds import Samples, Tournament, median_of
from .server import Server
from .waiters import monitored
from .wire import lock_name

if TYPE_CHECKING:
    from pyredisson import Lock

__all__ = ["PERIODS", "PRACTICE_LOCKS", "PYREDISSON", "REDIS_PY", "held_locks", "resident_bytes", "turn"]

REDIS_PY, PYREDISSON = "redis-py Lock, reacquire() each", "pyredisson"

PERIODS = 3
"""Renewal periods that are watched; together they are one lease, so that no lock outlives them without renewal."""

PRACTICE_LOCKS = 200
TRACED_LEASE_SECONDS = 300.0
ANSWER_SECONDS = 600.0


def resident_bytes(process: int | str = "self") -> int:
    """What a process occupies in memory (Linux)."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Holder(Protocol):
    """A contestant that takes locks and keeps them."""

    def take(self, number: int) -> None:
        """Take one lock."""
        ...

    def keep(self) -> None:
        """Keep the acquired locks held."""
        ...

    def free_all(self) -> None:
        """Give everything back."""
        ...


class RedisPyHolder:
    """redis-py has no watchdog: what a careful user writes, a thread that renews each lock every period."""

    def __init__(self, url: str, lease_seconds: float, closing: ExitStack) -> None:
        self._client = closing.enter_context(redis.Redis.from_url(url))
        self._lease_seconds = lease_seconds
        self._locks: list[RedisPyLock] = []
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None
        closing.callback(self._stop.set)

    def take(self, number: int) -> None:
        # The renewing thread has to know the token: thread_local=False is how redis-py allows that.
        lock = self._client.lock(lock_name(number), timeout=self._lease_seconds, thread_local=False)
        if not lock.acquire(blocking=False):
            raise RuntimeError("a lock that no other owner uses was refused")
        self._locks.append(lock)

    def keep(self) -> None:
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()

    def _renew(self) -> None:
        period = self._lease_seconds / PERIODS
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += period
            for lock in self._locks:
                if self._stop.is_set():
                    return
                lock.reacquire()

    def free_all(self) -> None:
        if self._renewing is not None:
            self._stop.set()
            self._renewing.join()
        for lock in self._locks:
            lock.release()
        self._locks.clear()


class PyredissonHolder:
    """The watchdog renews by itself."""

    def __init__(self, url: str, lease_seconds: float, closing: ExitStack) -> None:
        from pyredisson import Config, Redisson

        self.lost: list[str] = []
        # What is measured is the renewal; the figure "presence" is about the rest.
        config = Config(
            lock_watchdog_timeout=lease_seconds,
            on_lock_lost=lambda name, thread: self.lost.append(name),
            presence=False,
        )
        self._client = closing.enter_context(Redisson.from_url(url, config=config))
        self._locks: list[Lock] = []

    def take(self, number: int) -> None:
        lock = self._client.get_lock(lock_name(number))
        if not lock.try_lock():
            raise RuntimeError("a lock that no other owner uses was refused")
        self._locks.append(lock)

    def keep(self) -> None:
        pass

    def free_all(self) -> None:
        if self.lost:
            raise RuntimeError(f"{len(self.lost)} locks were reported lost")
        for lock in self._locks:
            lock.unlock()
        self._locks.clear()


HOLDERS: dict[str, Callable[[str, float, ExitStack], Holder]] = {REDIS_PY: RedisPyHolder, PYREDISSON: PyredissonHolder}


def hold_many(contestant: str, url: str, locks: int, lease_seconds: float, trace: bool, link: Connection) -> None:
    """The holding process. It reports what the locks occupy, then, on request, its CPU time, then frees everything."""
    with ExitStack() as closing:
        holder = HOLDERS[contestant](url, lease_seconds, closing)
        for number in range(locks, locks + PRACTICE_LOCKS):
            holder.take(number)
        holder.free_all()
        gc.collect()
        if trace:
            tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0] if trace else resident_bytes()
        begin = time.perf_counter()
        for number in range(locks):
            holder.take(number)
        taken_in = time.perf_counter() - begin
        gc.collect()
        after = tracemalloc.get_traced_memory()[0] if trace else resident_bytes()
        holder.keep()
        link.send({"bytes": (after - before) / locks, "seconds to take all": taken_in})
        while link.recv() == "cpu":
            link.send(time.process_time())
        holder.free_all()
        link.send("freed")
        link.recv()


def turn(server: Server, contestant: str, locks: int, lease_seconds: float, *, trace: bool = False) -> dict[str, float]:
    """One contestant's process; with ``trace`` only what its locks occupy in the Python heap is measured."""
    if trace:  # Which makes acquiring slow: nothing must expire meanwhile.
        lease_seconds = max(lease_seconds, TRACED_LEASE_SECONDS)
    server.reset()
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    worker = spawning.Process(target=hold_many, args=(contestant, server.url, locks, lease_seconds, trace, there))
    worker.start()
    there.close()
    try:
        taken = _answer(here)
        if server.keys() != locks:
            raise RuntimeError(f"{contestant} holds {server.keys()} of {locks} locks")
        result = {} if trace else _watch(server, here, locks, lease_seconds)
        here.send("free")
        if _answer(here) != "freed":
            raise RuntimeError(f"{contestant} did not free its locks")
        if server.keys():
            raise RuntimeError(f"{contestant} left {server.keys()} keys behind")
        here.send("end")
        worker.join(ANSWER_SECONDS)
    finally:
        if worker.is_alive():
            worker.kill()
    return {**result, **taken}


def _answer(link: Connection) -> Any:
    if not link.poll(ANSWER_SECONDS):
        raise RuntimeError("the holding process does not answer")
    return link.recv()


def _cpu_seconds(link: Connection) -> float:
    link.send("cpu")
    return float(_answer(link))


def _watch(server: Server, link: Connection, locks: int, lease_seconds: float) -> dict[str, float]:
    with monitored(server) as seen:
        cpu, begin = _cpu_seconds(link), time.perf_counter()
        time.sleep(lease_seconds)
        cpu, elapsed = _cpu_seconds(link) - cpu, time.perf_counter() - begin
        commands = seen.total()
    # A tenth of a lease later, so that the last lock that was taken has outlived its first lease too.
    time.sleep(lease_seconds / 10)
    with server.admin.pipeline(transaction=False) as asking:
        for number in range(locks):
            asking.pttl(lock_name(number))
        left = asking.execute()
    return {
        "commands a period": commands / PERIODS,
        "% of a core": cpu / elapsed * 100,
        "CPU us a renewal": cpu / (locks * PERIODS) * 1e6,
        "still held": sum(ttl > 0 for ttl in left),
        "shortest time left, s": min(left) / 1e3,
    }


def _rows(watched: Samples, traced: Samples) -> Sequence[Sequence[str]]:
    return [
        (
            name,
            show(median_of(watched, name, "commands a period")),
            show(median_of(watched, name, "% of a core")),
            show(median_of(watched, name, "CPU us a renewal")),
            show(median_of(watched, name, "bytes")),
            show(median_of(traced, name, "bytes")),
            show(median_of(watched, name, "still held")),
        )
        for name in watched
    ]


def held_locks(
    server: Server, *, rounds: int, lease_seconds: float, tournament: Tournament, locks: int = 10_000
) -> Figure:
    """Many locks held by one process and kept alive."""
    title = f"{locks:,} locks held by one process"
    names = (REDIS_PY, PYREDISSON)
    traced = tournament.play(
        f"{title}, memory", names, 1, lambda name: turn(server, name, locks, lease_seconds, trace=True)
    )
    watched = tournament.play(title, names, rounds, lambda name: turn(server, name, locks, lease_seconds))

    def ours(number: str) -> float:
        return median_of(watched, PYREDISSON, number)

    period = lease_seconds / PERIODS
    claims = [
        at_most(f"commands in a period of {period:g} s", ours("commands a period"), 110),
        at_most("CPU time", ours("% of a core"), 2, "% of a core", below=True),
        at_most("resident memory a lock, handle included", ours("bytes"), 2048, "bytes"),
        at_least("held after three periods", min(one["still held"] for one in watched[PYREDISSON]), locks),
    ]
    how = (
        f"One thread takes {locks:,} locks without a lease time; the watchdog timeout is {lease_seconds:g} s, the "
        f"period {period:g} s; three periods are watched. {rounds} rounds. redis-py has no watchdog: a thread renews "
        "each lock once a period."
    )
    notes = []
    if lease_seconds != 30:
        notes.append(
            f"With the default timeout of 30 s the same work is spread over {30 / lease_seconds:.2g} times the time: "
            f"{show(ours('% of a core') * lease_seconds / 30)} % of a core if the cost is all renewal."
        )
    shortest = min(one["shortest time left, s"] for one in watched[PYREDISSON])
    notes.append(f"Shortest time left on any lock at the end: {show(shortest)} s.")
    columns = (
        "contestant",
        "commands a period",
        "% of a core",
        "CPU us a renewal",
        "bytes a lock (RSS)",
        "(Python heap)",
        "still held",
    )
    samples = {name: [*watched[name], {"traced bytes": traced[name][0]["bytes"]}] for name in names}
    return Figure("held_locks", title, how, columns, _rows(watched, traced), claims, notes, samples)
