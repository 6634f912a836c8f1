"""Threads on separate locks, on a cluster compared with one server: what finding the right node costs."""

from __future__ import annotations

import itertools
import random
import socket
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from redis.crc import key_slot

from .contestants import PYREDISSON
from .report import Figure, at_least
from .rounds import Tournament, median_ratio
from .separate_locks import measure
from .server import HOST, START_SECONDS, Server
from .throughput import throughput_table
from .wire import lock_name

__all__ = ["Cluster", "cluster"]

NODES = 3
SLOTS = 16384

#: Below those of outgoing connections; the bus of a node listens 10,000 above.
PORTS = range(11_000, 21_000)

ONE_SERVER, CLUSTER = "one server", f"cluster of {NODES}"


def free_port() -> int:
    """A port on which no process listens now, and that leaves room for the bus."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port


class Cluster(Server):
    """Masters without replicas that look like one server to who measures: counters are those of all together.

    Args:
        binary: As for :class:`Server`.
    """

    def __init__(self, binary: str | None = None) -> None:
        self._closing = ExitStack()
        self._directories = [self._closing.enter_context(tempfile.TemporaryDirectory()) for _ in range(NODES)]
        self._nodes = [
            Server(binary, "--cluster-enabled", "yes", "--dir", directory, port=free_port())
            for directory in self._directories
        ]
        self.host = HOST
        self.port = self._nodes[0].port
        self.admin: Any = self  # Where it is asked for keys; see below.

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self._nodes)

    def __enter__(self) -> Cluster:
        try:
            for node in self._nodes:
                self._closing.enter_context(node)
            bounds = [round(SLOTS * each / NODES) for each in range(NODES + 1)]
            for index, (node, (first, end)) in enumerate(zip(self._nodes, itertools.pairwise(bounds), strict=True)):
                node.admin.execute_command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
                node.admin.execute_command("CLUSTER", "ADDSLOTS", *range(first, end))
                node.admin.execute_command("CLUSTER", "MEET", HOST, self.port)
            give_up = time.monotonic() + START_SECONDS
            while not all(self._is_ready(node) for node in self._nodes):
                if time.monotonic() > give_up:
                    raise RuntimeError(f"the cluster was not ready within {START_SECONDS:.0f} s")
                time.sleep(0.02)
        except BaseException:
            self._closing.close()
            raise
        return self

    @staticmethod
    def _is_ready(node: Server) -> bool:
        state = str(node.admin.execute_command("CLUSTER", "INFO"))
        return "cluster_state:ok" in state and len(node.admin.execute_command("CLUSTER", "SLOTS")) == NODES

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def reset(self) -> None:
        for node in self._nodes:
            node.reset()

    def calls(self) -> dict[str, int]:
        counted: Counter[str] = Counter()
        for node in self._nodes:
            counted.update(node.calls())
        return counted

    def bytes_received(self) -> int:
        return sum(node.bytes_received() for node in self._nodes)

    def keys(self) -> int:
        return sum(node.keys() for node in self._nodes)

    # ---- where a key is ------------------------------------------------------------------------------------------

    def _node_of(self, key: str) -> Server:
        return self._nodes[min(key_slot(key.encode()) * NODES // SLOTS, NODES - 1)]

    def exists(self, key: str) -> int:
        """As the command."""
        return int(self._node_of(key).admin.exists(key))

    def pttl(self, key: str) -> int:
        """As the command."""
        return int(self._node_of(key).admin.pttl(key))


def cluster(server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64) -> Figure:
    """Acquire and release by many threads, each on a lock of its own, here and there."""
    title = f"{threads} threads on separate locks, on a cluster"
    with Cluster(server.binary) as nodes:
        places = {ONE_SERVER: server, CLUSTER: nodes}
        samples = tournament.play(
            title, list(places), rounds, lambda name: measure(places[name], PYREDISSON, threads, seconds)
        )
    columns, rows = throughput_table(samples, ONE_SERVER)
    columns = [column.replace("raw", ONE_SERVER) for column in columns]
    claims = [
        at_least("pairs of one server", median_ratio(samples, CLUSTER, ONE_SERVER, "pairs/s"), 0.8, "x"),
    ]
    reached = len({key_slot(lock_name(number).encode()) * NODES // SLOTS for number in range(threads)})
    how = (
        f"{threads} threads of one process, each on its own lock, over one shared client, on one server and on a "
        f"cluster of {NODES} masters ({reached} of which have some of the locks). {rounds} rounds of {seconds:g} s "
        "each. The nodes share the machine's cores with each other and with the client."
    )
    return Figure("cluster", title, how, columns, rows, claims, samples=samples)
