"""A private etcd of one node, its data in memory, and the lock of its own Go client. Needs ``etcd`` and ``go``."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .go import built
from .rounds import say
from .server import HOST, free_port, running
from .throughput import WARM_UP_SECONDS, Counted, Spent, proven
from .wire import lock_name

__all__ = ["ETCD", "Etcd", "etcd"]

ETCD = "etcd (Go)"
START_SECONDS = 60.0
END_SECONDS = 180.0

#: All names of locks: from the one to before the other.
FIRST_KEY, END_KEY = "bench:", "bench;"


class Etcd:
    """A contestant: its server, which counts what is done, and the program that does it."""

    def __init__(self, pid: int, port: int, program: Path) -> None:
        self.pid = pid
        self._address = f"http://{HOST}:{port}"
        self._program = program
        self._told("prove")

    def pairs(self, threads: int, seconds: float) -> dict[str, float]:
        """Acquire and release, each goroutine a lock of its own, all on one session."""
        before, _ = self._revision_and_keys()
        pairs, wall, cpu, in_all = self._told("pairs", WARM_UP_SECONDS, seconds, threads)
        after, left = self._revision_and_keys()
        counted = Counted(int(in_all), int(pairs), Spent(wall, cpu))
        # A key is stored, and removed: each change is one revision.
        return proven(ETCD, counted, after - before, left, proof="changes", times=2)

    def hand_over_seconds(self, clients: int) -> float:
        """Let clients wait for one lock, each on a session of its own, and take it once each."""
        before, _ = self._revision_and_keys()
        elapsed, counted, overlaps = self._told("turns", clients)
        after, left = self._revision_and_keys()
        if (counted, overlaps, after - before, left) != (clients, 0, 2 * (clients + 1), 0):
            raise RuntimeError(f"{ETCD}: {counted:g} of {clients} clients, {overlaps:g} overlaps, {left} keys left")
        return elapsed

    def election_gaps(self, candidates: int, terms: int, leads: float) -> list[float]:
        """Let candidates lead in turn. Return the seconds from each resignation until the next one leads."""
        return self._told("terms", candidates, terms, leads)

    def standing(self, lease: int) -> list[str]:
        """The command of a candidate with a session of that many seconds: it says when it leads, and goes on to."""
        return [str(self._program), "stand", self._address, str(lease)]

    def _told(self, form: str, *arguments: float) -> list[float]:
        words = [str(self._program), form, self._address, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=END_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{ETCD} failed: {done.stderr.strip().splitlines()[:1]}")
        return [float(word) for word in done.stdout.split()]

    def _revision_and_keys(self) -> tuple[int, int]:
        """How often the server has changed a key, and how many locks are held now."""
        first, end = (base64.b64encode(key.encode()).decode() for key in (FIRST_KEY, END_KEY))
        question = json.dumps({"key": first, "range_end": end, "count_only": True}).encode()
        with urllib.request.urlopen(f"{self._address}/v3/kv/range", question, timeout=START_SECONDS) as answer:
            answered = json.load(answer)
        return int(answered["header"]["revision"]), int(answered.get("count", 0))


@contextmanager
def etcd(folder: Path) -> Iterator[Etcd | None]:
    """Start etcd with its data in that folder; ``None``, and a word about why, where its client cannot be built."""
    assert FIRST_KEY < lock_name(0) < END_KEY
    with built("etcdlock") as program:
        if program is None:
            yield None
            return
        port, peers = free_port(), f"http://{HOST}:{free_port()}"
        clients = f"http://{HOST}:{port}"
        options = {
            "data-dir": str(folder / "etcd"),
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
        }
        words = ["etcd", *(f"--{name}={value}" for name, value in options.items())]
        say("etcd: starting")
        with running(words, port, within=START_SECONDS) as process:
            yield Etcd(process.pid, port, program)
