"""How soon the next leader leads, compared with etcd's election: after a resignation, and after a leader was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from typing import Protocol

from .contestants import PYREDISSON
from .coordinators import IN_MEMORY, etcd_missing
from .etcd import ETCD, Etcd, etcd
from .report import Figure, show
from .rounds import Tournament, median_of, median_ratio
from .server import Server
from .wire import lock_name

__all__ = ["elections"]

CANDIDATES = 10
TERMS = 200

#: Seconds that each leads, until it resigns.
LEADS = 0.005

#: Seconds of the lease, or of the session.
LEASE = 3
END_SECONDS = 60.0

RESIGNED, LATE, KILLED = "ms after a resignation", "p99, ms", "s after kill -9"

STAND = """
import sys, time
from pyredisson import Config, Redisson
client = Redisson.from_url(sys.argv[1], config=Config(lock_watchdog_timeout=float(sys.argv[3])))
with client.get_leader_election(sys.argv[2]).term():
    print("leads", flush=True)
    time.sleep(3600)
"""


class Contestant(Protocol):
    """One server with its usual client."""

    def gaps(self) -> list[float]:
        """Let candidates lead in turn. Return the seconds from each resignation until the next one leads."""
        ...

    def stand(self) -> Sequence[str]:
        """The command of a candidate that says when it leads, and goes on to lead."""
        ...


class OnRedis:
    """This library: threads of one process, each with a client of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def gaps(self) -> list[float]:
        """See :meth:`Contestant.gaps`."""
        from pyredisson import Redisson

        self._server.reset()
        gaps: list[float] = []
        resigned: list[float] = []  # Changed by the leader alone.
        tokens: list[int] = []

        def stand(client: Redisson) -> None:
            election = client.get_leader_election(lock_name(0))
            while len(gaps) < TERMS:
                with election.term() as term:
                    if resigned:
                        gaps.append(time.perf_counter() - resigned[-1])
                    tokens.append(term.token)
                    time.sleep(LEADS)
                    resigned.append(time.perf_counter())

        with ExitStack() as closing:
            clients = [closing.enter_context(Redisson.from_url(self._server.url)) for _ in range(CANDIDATES)]
            threads = [Thread(target=stand, args=(client,)) for client in clients]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if tokens != list(range(1, len(tokens) + 1)):
            raise RuntimeError("two led with one token, or a token was not greater than the one before")
        return gaps[:TERMS]

    def stand(self) -> Sequence[str]:
        """See :meth:`Contestant.stand`."""
        self._server.reset()
        return sys.executable, "-c", STAND, self._server.url, lock_name(0), str(LEASE)


class OnEtcd:
    """The election of etcd's Go client: goroutines of one process, each with a session of its own."""

    def __init__(self, server: Etcd) -> None:
        self._server = server

    def gaps(self) -> list[float]:
        """See :meth:`Contestant.gaps`."""
        return self._server.election_gaps(CANDIDATES, TERMS, LEADS)

    def stand(self) -> Sequence[str]:
        """See :meth:`Contestant.stand`."""
        return self._server.standing(LEASE)


def take_over_seconds(command: Sequence[str]) -> float:
    """Kill a leader, and return the seconds until another candidate leads."""
    with ExitStack() as closing:

        def started() -> subprocess.Popen[str]:
            process = closing.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            closing.callback(process.kill)
            return process

        leader = started()
        _until_it_leads(leader)
        next_one = started()
        time.sleep(1.5)  # It waits, and the leader has renewed its lease since.
        leader.kill()
        begin = time.perf_counter()
        _until_it_leads(next_one)
        return time.perf_counter() - begin


def _until_it_leads(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "leads\n":
        raise RuntimeError("a candidate ended before it led")


@contextmanager
def participants(server: Server) -> Iterator[tuple[dict[str, Contestant], list[int], list[str]]]:
    """Who takes part, the process ids of further servers, and why others do not."""
    contestants: dict[str, Contestant] = {PYREDISSON.name: OnRedis(server)}
    with ExitStack() as closing:
        if (why := etcd_missing()) is None:
            memory = IN_MEMORY if IN_MEMORY.is_dir() else None
            folder = Path(closing.enter_context(tempfile.TemporaryDirectory(dir=memory)))
            theirs = closing.enter_context(etcd(folder))
            if theirs is not None:
                contestants[ETCD] = OnEtcd(theirs)
                yield contestants, [theirs.pid], []
                return
            why = "did not take part: its client could not be built here"
        yield contestants, [], [f"{ETCD} {why}"]


def elections(server: Server, *, rounds: int, tournament: Tournament) -> Figure:
    """Candidates that lead in turn, and one that takes over from a killed leader."""
    title = "Elections, compared with etcd"

    def measure(contestant: Contestant) -> dict[str, float]:
        gaps = [1000 * each for each in contestant.gaps()]
        return {
            RESIGNED: median(gaps),
            LATE: quantiles(gaps, n=100)[98],
            KILLED: take_over_seconds(contestant.stand()),
        }

    with participants(server) as (found, pids, notes):
        samples = tournament.play(title, list(found), rounds, lambda each: measure(found[each]), pids)
    quantities = (RESIGNED, LATE, KILLED)
    rows = [
        (
            name,
            *(show(median_of(samples, name, each)) for each in quantities),
            show(median_ratio(samples, name, PYREDISSON.name, RESIGNED)),
        )
        for name in samples
    ]
    how = (
        f"{CANDIDATES} candidates, each with a connection and a session of its own, lead for {LEADS * 1000:g} ms in "
        f"turn, {TERMS} times: the time from a resignation until the next one leads. Then a leader with a lease of "
        f"{LEASE} s is killed while another candidate waits. {rounds} rounds. The candidates of pyredisson are threads "
        "of one process, those of etcd goroutines of one. Each server is one node, with its data in memory."
    )
    return Figure(
        "coordinators_elections",
        title,
        how,
        ("contestant", *quantities, "of pyredisson's time"),
        rows,
        [],
        notes,
        samples,
    )
