"""A private ZooKeeper of one node, its data in memory, and kazoo, its usual client in Python. Needs Java, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .contestants import LockCalls
from .rounds import say
from .separate_locks import side_by_side
from .server import HOST, free_port, running
from .throughput import proven
from .wire import lock_name

__all__ = ["JAR", "ZOOKEEPER", "ZooKeeper", "zookeeper"]

ZOOKEEPER = "ZooKeeper (kazoo)"

JAR = Path("/usr/share/java/zookeeper.jar")
"""Where Debian's package puts it; it names the other files that it needs."""

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_SECONDS = 60.0

#: By default, the JVM has compiled little of the server until then.
WARM_UP_SECONDS = 4.0
WARM_UP_THREADS = 64


def connected(address: str, closing: ExitStack) -> Any:
    """Return a client with a session of its own."""
    from kazoo.client import KazooClient

    client = KazooClient(address)
    client.start(START_SECONDS)
    closing.callback(client.close)
    closing.callback(client.stop)
    return client


def path_of(number: int) -> str:
    """The node whose children are the owner of a lock, and those that wait for it."""
    return f"/{lock_name(number)}"


class ZooKeeper:
    """A contestant: its server, which counts what is done, and clients in this process or in others."""

    def __init__(self, pid: int, port: int, closing: ExitStack) -> None:
        self.pid = pid
        self.address = f"{HOST}:{port}"
        self._client = connected(self.address, closing)
        self._prove_exclusion()
        self.pairs(WARM_UP_THREADS, WARM_UP_SECONDS)

    def pairs(self, threads: int, seconds: float) -> dict[str, float]:
        """Acquire and release, each thread a lock of its own, all on one session."""
        before, _ = self.changes_and_nodes(threads)
        locks = [self._client.Lock(path_of(number)) for number in range(threads)]
        counted = side_by_side([LockCalls(lock.acquire, lock.release) for lock in locks], seconds)
        after, left = self.changes_and_nodes(threads)
        return proven(ZOOKEEPER, counted, after - before, left, proof="changes", times=2)

    def changes_and_nodes(self, locks: int = 1) -> tuple[int, int]:
        """How often nodes of these locks were made or removed, and how many there are now."""
        found = [self._client.exists(path_of(number)) for number in range(locks)]
        return sum(each.cversion for each in found if each), sum(each.numChildren for each in found if each)

    def hold(self) -> Any:
        """Acquire the first lock, and return it."""
        lock = self._client.Lock(path_of(0))
        lock.acquire(timeout=START_SECONDS)
        return lock

    def _prove_exclusion(self) -> None:
        held = self.hold()
        (node,) = self._client.get_children(path_of(0))
        if self._client.exists(f"{path_of(0)}/{node}").ephemeralOwner != self._client.client_id[0]:
            raise RuntimeError("the lock would never end if its holder died")
        with ExitStack() as closing:
            if connected(self.address, closing).Lock(path_of(0)).acquire(blocking=False):
                raise RuntimeError("another owner acquired a lock that was held")
        held.release()


@contextmanager
def zookeeper(folder: Path) -> Iterator[ZooKeeper]:
    """Start ZooKeeper with its data in that folder, and let it warm up."""
    port = free_port()
    settings = {
        "tickTime": 2000,
        "dataDir": folder / "zookeeper",
        "clientPort": port,
        "clientPortAddress": HOST,
        # By default 60 of a machine.
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    file = folder / "zoo.cfg"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    say("ZooKeeper: starting")
    words = ["java", "-cp", str(JAR), "-Dzookeeper.admin.enableServer=false", MAIN, str(file)]
    with running(words, port, within=START_SECONDS) as process, ExitStack() as closing:
        yield ZooKeeper(process.pid, port, closing)
