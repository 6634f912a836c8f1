"""Redis Clusters for tests: three masters with a replica each, on free ports of 127.0.0.1, ready in two seconds."""

import itertools
import math
import time
from contextlib import suppress
from typing import Any

import redis
from redis.crc import key_slot

from tests.servers import HOST, Build, Server
from tests.waiting import until

MASTERS = 3
SLOTS = 16384

#: In milliseconds: after so long without an answer a node is taken for dead.
NODE_TIMEOUT = 600
#: Where no node is to be taken for dead, be the machine as busy as it likes.
PATIENT = 30_000


class RunningCluster:
    """A running cluster.

    Attributes:
        build: What runs.
        nodes: Its six servers; which of them are masters changes with every failover.
    """

    def __init__(self, build: Build) -> None:
        self.build = build
        self.nodes: list[Server] = []
        self._timeout = NODE_TIMEOUT
        try:
            for _ in range(2 * MASTERS):
                self.nodes.append(self._start_node())
            self._join()
        except BaseException:
            self.stop()
            raise

    def _start_node(self) -> Server:
        return Server(
            self.build,
            *("--cluster-enabled", "yes"),
            *("--cluster-node-timeout", str(NODE_TIMEOUT)),
            *("--repl-diskless-sync", "yes"),
            *("--repl-diskless-sync-delay", "0"),
            *("--repl-ping-replica-period", "1"),
        )

    def _join(self) -> None:
        masters, replicas = self.nodes[:MASTERS], self.nodes[MASTERS:]
        bounds = [round(SLOTS * each / MASTERS) for each in range(MASTERS + 1)]
        for index, (node, (first, end)) in enumerate(zip(masters, itertools.pairwise(bounds), strict=True), 1):
            self.command(node, "CLUSTER", "SET-CONFIG-EPOCH", index)
            self.command(node, "CLUSTER", "ADDSLOTS", *range(first, end))  # ADDSLOTSRANGE is of 7.0.
        for node in self.nodes[1:]:
            self.command(node, "CLUSTER", "MEET", HOST, self.nodes[0].port)
        until(lambda: all(len(self._table(node)) == len(self.nodes) for node in self.nodes), 15, what="all have met")
        for master, replica in zip(masters, replicas, strict=True):
            self.command(replica, "CLUSTER", "REPLICATE", self.id_of(master))
        until(self.ready, 20, what="the cluster is ready")

    def ready(self) -> bool:
        """Whether every running node knows three masters with all slots, and every replica follows its master."""
        nodes = [node for node in self.nodes if node.answers()]
        return all(self._agrees(node, len(nodes)) for node in nodes)

    def be_patient(self) -> None:
        """Take no node for dead from now on: who is a master changes only by ``fail_over()``."""
        self._set_timeout(PATIENT)

    def _set_timeout(self, milliseconds: int) -> None:
        for node in self.nodes:
            if not node.killed:
                self.command(node, "CONFIG", "SET", "cluster-node-timeout", milliseconds)
        self._timeout = milliseconds

    def _agrees(self, node: Server, running: int) -> bool:
        with suppress(redis.RedisError):
            info = self._info(node)
            if info["cluster_state"] != "ok" or info["cluster_slots_ok"] != str(SLOTS):
                return False
            slots = self.command(node, "CLUSTER", "SLOTS")
            if sum(len(each) - 2 for each in slots) < running:
                return False
            role = self.command(node, "ROLE")
            return role[0] == b"master" or role[3] == b"connected"
        return False

    def _info(self, node: Server) -> dict[str, str]:
        text = self.command(node, "CLUSTER", "INFO").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def _table(self, node: Server) -> dict[str, list[str]]:
        """What a node knows of all: by id, the words of its line."""
        lines = self.command(node, "CLUSTER", "NODES").decode().splitlines()
        return {line.split()[0]: line.split() for line in lines if "handshake" not in line}

    @staticmethod
    def command(node: Server, *words: Any) -> Any:
        """Run a command on one node, and return its reply as it comes."""
        with node.client(socket_timeout=3.0) as client:
            client.response_callbacks.clear()
            return client.execute_command(*words)

    def id_of(self, node: Server) -> str:
        return str(self.command(node, "CLUSTER", "MYID").decode())

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in self.nodes[:MASTERS])

    def masters(self) -> list[Server]:
        """Those that say they are."""
        return [node for node in self.nodes if node.answers() and self.command(node, "ROLE")[0] == b"master"]

    def master_of(self, key: str) -> Server:
        """Who serves a key's slot."""
        found = self.find_master_of(key)
        assert found is not None, f"nobody serves {key!r}"
        return found

    def find_master_of(self, key: str) -> Server | None:
        """Who serves a key's slot, ``None`` if nobody does at present."""
        slot = key_slot(key.encode())
        for node in self.nodes:
            if not node.answers():
                continue
            for first, last, (_, port, *_), *_ in self.command(node, "CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    found = next(each for each in self.nodes if each.port == port)
                    if found.answers():
                        return found
        return None

    def replica_of(self, master: Server) -> Server:
        """A replica that follows this master."""
        for node in self.nodes:
            if node.answers():
                role = self.command(node, "ROLE")
                if role[0] == b"slave" and role[2] == master.port and role[3] == b"connected":
                    return node
        raise AssertionError(f"{master} has no replica")

    def client(self, key: str, **kwargs: Any) -> redis.Redis:
        """A client of the node that serves this key at present."""
        return self.master_of(key).client(**kwargs)

    def all_keys(self) -> list[str]:
        """What is stored, anywhere."""
        return sorted(key.decode() for node in self.masters() for key in self.command(node, "KEYS", "*"))

    def fail_over(self, master: Server) -> Server:
        """``CLUSTER FAILOVER``: its replica takes over without losing anything. Returns that."""
        replica = self.replica_of(master)
        begun, timeout = -math.inf, self._timeout
        self._set_timeout(NODE_TIMEOUT)  # For twice as long nobody votes about the same master again.

        def taken_over() -> bool:
            nonlocal begun
            if self.command(replica, "ROLE")[0] == b"master":
                return True
            if time.monotonic() > begun + 6:  # It gives up after five seconds, and has to be told again.
                self.command(replica, "CLUSTER", "FAILOVER")
                begun = time.monotonic()
            return False

        until(taken_over, 30, what=f"{replica} has taken over")
        self._set_timeout(timeout)
        return replica

    def move_slot(self, slot: int, source: Server, target: Server, pause: Any = None) -> None:
        """Move a slot as ``redis-cli --cluster reshard`` does, key by key; ``pause`` is called in the middle."""
        there, here = self.id_of(target), self.id_of(source)
        self.command(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", here)
        self.command(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", there)
        if pause is not None:
            pause()
        while keys := self.command(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            self.command(source, "MIGRATE", HOST, target.port, "", 0, 3000, "KEYS", *keys)
        for node in (target, source, *(each for each in self.masters() if each not in (target, source))):
            self.command(node, "CLUSTER", "SETSLOT", slot, "NODE", there)

    def stop(self) -> None:
        """End all of it. Idempotent."""
        for node in self.nodes:
            node.stop()

    def __repr__(self) -> str:
        return f"<RunningCluster {self.build.id} on {[node.port for node in self.nodes]}>"


class SharedClusters:
    """One cluster a build, started when first asked for."""

    def __init__(self) -> None:
        self._clusters: dict[Build, RunningCluster] = {}

    def get(self, build: Build) -> RunningCluster:
        """The shared cluster of this build, whole."""
        cluster = self._clusters.get(build)
        if cluster is None:
            cluster = self._clusters[build] = RunningCluster(build)
            cluster.be_patient()
        until(cluster.ready, 20, what=f"{cluster!r} is whole")
        return cluster

    def stop(self) -> None:
        for cluster in self._clusters.values():
            cluster.stop()
