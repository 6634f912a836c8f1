"""Compared with etcd and ZooKeeper, each as one node with its data in memory, by the locks of their own clients."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import Array, c_longlong
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from .contestants import PYREDISSON
from .crowd import MILLISECONDS, PLAIN, SERVE_SECONDS, until_quiet, waiting_processes
from .etcd import ETCD, etcd
from .report import Figure, show
from .rounds import Samples, Tournament, median_of, median_ratio
from .separate_locks import measure
from .server import Server
from .wire import lock_name
from .zookeeper import JAR, ZOOKEEPER, ZooKeeper, connected, path_of, zookeeper

__all__ = [
    "CLIENTS",
    "DURABLE",
    "coordinators_hand_over",
    "coordinators_many_threads",
    "coordinators_one_thread",
    "participants",
]

DURABLE = "pyredisson, appendfsync always"
"""On a server that writes each change to a file, and waits for the disk, as etcd and ZooKeeper do."""

IN_MEMORY = Path("/dev/shm")
CLIENTS = 100

INSIDE, COUNTED, OVERLAPS = range(3)
"""The slots of the memory that all processes share without any lock but the one that is measured."""


class Contestant(Protocol):
    """One server with its usual client."""

    def pairs(self, threads: int, seconds: float) -> dict[str, float]:
        """Acquire and release, each thread a lock of its own."""
        ...

    def hand_over_seconds(self, clients: int) -> float:
        """Let clients wait for one lock, and take it once each. Return the time from the release on."""
        ...


@dataclasses.dataclass
class Participants:
    """Who takes part, the process ids of their servers, and why others do not."""

    contestants: dict[str, Contestant] = dataclasses.field(default_factory=dict)
    pids: list[int] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)


# ---- clients that wait, in several processes -------------------------------------------------------------------------


def kazoo_lock(address: str, closing: ExitStack) -> Any:
    """A lock of a new client."""
    return connected(address, closing).Lock(path_of(0))


def pyredisson_lock(url: str, closing: ExitStack) -> Any:
    """A lock of a new client."""
    from pyredisson import Redisson

    return closing.enter_context(Redisson.from_url(url)).get_lock(lock_name(0))


def wait_and_pass(
    open_lock: Callable[[ExitStack], Any], shared: Array[c_longlong], clients: int, out: Connection, served: Event
) -> None:
    """One process: let each client wait for the lock in a thread of its own, take it once, and release it."""

    def take(lock: Any) -> None:
        if not lock.acquire(timeout=SERVE_SECONDS):
            raise RuntimeError("the lock was not acquired in time")
        shared[INSIDE] += 1
        shared[OVERLAPS] += shared[INSIDE] != 1
        shared[COUNTED] += 1
        shared[INSIDE] -= 1
        lock.release()

    with ExitStack() as closing:
        threads = [Thread(target=take, args=(open_lock(closing),)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        out.send("waiting")
        for thread in threads:
            thread.join()
        out.send("served")
        served.wait(SERVE_SECONDS)  # To close connections is no part of a hand-over.


def hand_over_seconds(
    name: str,
    clients: int,
    open_lock: Callable[[ExitStack], Any],
    hold: Callable[[], Any],
    until_all_wait: Callable[[], object],
) -> float:
    """Let the clients of four processes wait while the lock is held, and serve them all."""
    shared = get_context("spawn").RawArray("q", 3)
    held = hold()
    with waiting_processes(name, partial(wait_and_pass, open_lock, shared), clients) as until_served:
        until_all_wait()
        begin = time.perf_counter()
        held.release()
        until_served()
        elapsed = time.perf_counter() - begin
    if shared[COUNTED] != clients or shared[OVERLAPS]:
        raise RuntimeError(
            f"{name}: {shared[COUNTED]} of {clients} counted under the lock, {shared[OVERLAPS]} overlaps"
        )
    return elapsed


class OnRedis:
    """This library."""

    def __init__(self, name: str, server: Server) -> None:
        self._name = name
        self._server = server

    def pairs(self, threads: int, seconds: float) -> dict[str, float]:
        """Acquire and release, each thread a lock of its own, all over one client."""
        return measure(self._server, PYREDISSON, threads, seconds)

    def hand_over_seconds(self, clients: int) -> float:
        """Let clients wait for one lock, and take it once each."""
        self._server.reset()
        open_lock = partial(pyredisson_lock, self._server.url)
        with ExitStack() as closing:

            def hold() -> Any:
                lock = open_lock(closing)
                lock.acquire()
                return lock

            elapsed = hand_over_seconds(self._name, clients, open_lock, hold, lambda: until_quiet(self._server, PLAIN))
        if self._server.keys():
            raise RuntimeError(f"{self._name} left {self._server.keys()} keys behind")
        return elapsed


class OnZooKeeper:
    """kazoo."""

    def __init__(self, server: ZooKeeper) -> None:
        self._server = server
        self.pairs = server.pairs

    def hand_over_seconds(self, clients: int) -> float:
        """Let clients wait for one lock, each on a session of its own, and take it once each."""
        server = self._server
        before, _ = server.changes_and_nodes()

        def until_all_wait() -> None:
            while server.changes_and_nodes()[1] != clients + 1:
                time.sleep(0.01)
            time.sleep(1.0)

        open_lock = partial(kazoo_lock, server.address)
        elapsed = hand_over_seconds(ZOOKEEPER, clients, open_lock, server.hold, until_all_wait)
        after, left = server.changes_and_nodes()
        if left or after - before != 2 * (clients + 1):
            raise RuntimeError(f"{ZOOKEEPER}: {after - before} changes of {clients + 1} locks, {left} nodes left")
        return elapsed


# ---- who takes part --------------------------------------------------------------------------------------------------


def missing(package: str, *needs: object) -> str | None:
    """What to install, unless all that is needed is there."""
    return None if all(needs) else f"did not take part. To install what it needs: {package}"


def etcd_missing() -> str | None:
    """What to install for etcd, if anything."""
    return missing("apt-get install etcd-server, and Go", shutil.which("etcd"), shutil.which("go"))


def zookeeper_missing() -> str | None:
    """What to install for ZooKeeper, if anything."""
    return missing(
        "apt-get install zookeeper, and pip install kazoo", shutil.which("java"), JAR.exists(), find_spec("kazoo")
    )


@contextmanager
def participants(server: Server) -> Iterator[Participants]:
    """Start the servers that are installed, with their data in memory."""
    found = Participants({PYREDISSON.name: OnRedis(PYREDISSON.name, server)})
    with ExitStack() as closing:
        memory = IN_MEMORY if IN_MEMORY.is_dir() else None
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        options = ("--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder))
        durable = closing.enter_context(Server(server.binary, *options))
        found.contestants[DURABLE] = OnRedis(DURABLE, durable)
        found.pids.append(durable.pid)
        if (why := etcd_missing()) is None:
            theirs = closing.enter_context(etcd(folder))
            if theirs is None:
                why = "did not take part: its client could not be built here"
            else:
                found.contestants[ETCD] = theirs
                found.pids.append(theirs.pid)
        if why is not None:
            found.notes.append(f"{ETCD} {why}")
        if (why := zookeeper_missing()) is None:
            kazoo = closing.enter_context(zookeeper(folder))
            found.contestants[ZOOKEEPER] = OnZooKeeper(kazoo)
            found.pids.append(kazoo.pid)
        else:
            found.notes.append(f"{ZOOKEEPER} {why}")
        yield found


# ---- the figures -----------------------------------------------------------------------------------------------------

SERVERS = "Each server is one node, with its data in memory."


def _rows(samples: Samples, quantities: Sequence[str], ratio: str) -> list[Sequence[str]]:
    return [
        (
            name,
            *(show(median_of(samples, name, each)) for each in quantities),
            show(median_ratio(samples, name, PYREDISSON.name, ratio)),
        )
        for name in samples
    ]


def _pairs(
    server: Server, name: str, title: str, who: str, threads: int, rounds: int, seconds: float, tournament: Tournament
) -> Figure:
    with participants(server) as found:
        samples = tournament.play(
            title,
            list(found.contestants),
            rounds,
            lambda each: found.contestants[each].pairs(threads, seconds),
            found.pids,
        )
    quantities = ("pairs/s", "us/pair", "CPU us/pair")
    columns = ("contestant", *quantities, "of pyredisson's pairs")
    rows = _rows(samples, quantities, "pairs/s")
    how = f"{who}, {rounds} rounds of {seconds:g} s each. {SERVERS} CPU is that of the client's process."
    return Figure(name, title, how, columns, rows, [], found.notes, samples)


def coordinators_one_thread(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release by a single thread."""
    title = "One thread, compared with etcd and ZooKeeper"
    who = "One thread or goroutine, a lock without contention"
    return _pairs(server, "coordinators_one_thread", title, who, 1, rounds, seconds, tournament)


def coordinators_many_threads(
    server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64
) -> Figure:
    """Acquire and release by many threads, each on a lock of its own."""
    title = f"{threads} threads, compared with etcd and ZooKeeper"
    who = f"{threads} threads or goroutines of one process, a lock each, over one client and one session"
    return _pairs(server, "coordinators_many_threads", title, who, threads, rounds, seconds, tournament)


def coordinators_hand_over(server: Server, *, rounds: int, tournament: Tournament, clients: int = CLIENTS) -> Figure:
    """Clients that wait for one lock, and take it once each."""
    title = f"A hand-over among {clients} clients, compared with etcd and ZooKeeper"
    with participants(server) as found:
        samples = tournament.play(
            title,
            list(found.contestants),
            rounds,
            lambda each: {MILLISECONDS: found.contestants[each].hand_over_seconds(clients) / clients * 1e3},
            found.pids,
        )
    how = (
        f"{clients} clients, each with a connection and a session of its own, wait for the lock, take it once, and "
        f"release it: the time from the first release to the last, by their number. {rounds} rounds. The "
        "clients of pyredisson and kazoo are threads of four processes, those of etcd goroutines of one. "
        f"{SERVERS}"
    )
    columns = ("contestant", MILLISECONDS, "of pyredisson's time")
    rows = _rows(samples, (MILLISECONDS,), MILLISECONDS)
    return Figure("coordinators_hand_over", title, how, columns, rows, [], found.notes, samples)
