"""A master, its replicas and their sentinels in a simulated world: the master fails, or is cut off, and is replaced.

Left out: sentinels that disagree for long, and failovers that do not come off. What one of them knows may be behind
what the others have agreed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from tests.simulated.engine.network import Host, Network, Wire
from tests.simulated.engine.replication import Lag, Loss, ReplicatedNode, Replication, what_was_lost
from tests.simulated.engine.world import World

#: After so many seconds without an answer from the master the sentinels begin to replace it.
DOWN_AFTER = 0.5

#: Until one of them has been elected to do so, at least, and at most twice.
ELECTION = 0.1

#: The others hear of the new master within so many seconds.
GOSSIP = 1.0

#: A master that was replaced and is there again is told to be a replica after so many seconds, at most.
DEMOTION = 2.0


class DataNode(ReplicatedNode):
    """A server whose master is as it was told last."""

    def audience(self, channel: bytes, *, sharded: bool) -> list[Host]:
        """The servers whose subscribers hear what is published here: its own, and its replicas'."""
        found: list[Host] = [self]
        if self.replication is not None and not self.alone:
            found += [node for node in self.replication.replicas() if isinstance(node, Host) and node.redis.up]
        return found

    def lead(self, lag: Lag) -> Replication:
        """``REPLICAOF NO ONE``."""
        replication = self.replication = Replication(self.world, self, lag)
        self.redis.role, self.redis.read_only = "master", False
        return replication

    def follow(self, master: Replication) -> None:
        """``REPLICAOF``: forget what is here, and store what that one stores."""
        self.step_down()
        self.redis.replicas = 0
        if self not in master.replicas():
            master.add(self)


class SentinelNode(Host):
    """A sentinel.

    Attributes:
        service: The only service that it knows.
        master: Where it believes the master to be.
    """

    service: str
    master: DataNode

    def serve(self, words: Sequence[bytes], wire: Wire) -> Any:
        """Tell where the master is."""
        match [word.lower() for word in words]:
            case [b"sentinel", b"get-master-addr-by-name", name]:
                if name.decode() != self.service:
                    return None
                host, port = self.master.address
                return [host.encode(), str(port).encode()]
        return super().serve(words, wire)


@final
class SimulatedSentinels:
    """A master with replicas, watched by sentinels.

    Args:
        world: Where it is. Its data servers become the world's.
        network: What connects them to clients.
        replicas: How many replicas.
        sentinels: How many sentinels.
        lag: How far the replicas are behind.

    Attributes:
        service: The name under which the sentinels know the master.
        servers: The data servers.
        sentinels: The sentinels.
        master: That which the sentinels' majority has made the master.
        replication: From there.
        failing: Whether it is being replaced.
        on_loss: Called with what each failover has forgotten.
    """

    service = "locks"

    def __init__(
        self, world: World, network: Network, *, replicas: int = 2, sentinels: int = 3, lag: Lag | None = None
    ) -> None:
        self.world = world
        self._lag = lag or Lag()
        self.servers = [DataNode(network, f"d{index}", (f"d{index}", 6379)) for index in range(1 + replicas)]
        self.sentinels = [SentinelNode(network, f"s{index}", (f"s{index}", 26379)) for index in range(sentinels)]
        self.master = self.servers[0]
        self.replication = self.master.lead(self._lag)
        for node in self.servers[1:]:
            node.follow(self.replication)
        for sentinel in self.sentinels:
            sentinel.service, sentinel.master = self.service, self.master
        self.failing = False
        self._returning = 0
        self.on_loss: list[Callable[[list[Loss]], None]] = []
        world.nodes[:] = self.servers

    @property
    def url(self) -> str:
        """Where the service is, as a client is told it."""
        listed = ",".join(f"{host}:{port}" for host, port in (sentinel.address for sentinel in self.sentinels))
        return f"redis+sentinel://{listed}/{self.service}"

    def trusted(self, key: bytes) -> list[DataNode]:
        """The servers that may rightly say who holds a lock: the master."""
        return [self.master]

    def states(self) -> Iterator[tuple[str, dict[bytes, Any]]]:
        """What the master stores."""
        yield self.master.name, self.master.redis.dump()

    # ---- masters that fail ---------------------------------------------------------------------------------------

    def crash(self, *, back_after: float, data: bool, best: bool = True) -> bool:
        """End the master, and start it again in a while, with or without its data; a replica takes over.

        Args:
            back_after: Seconds, at least; not before it has been replaced.
            data: Whether it has its data then.
            best: Whether the replica that knows most is promoted; else any.

        Returns:
            Whether that can be done now.
        """
        if not self._may_fail():
            return False
        old = self.master
        self.failing = True
        old.crash()
        self._replace(old, best=best)

        def back() -> None:
            if self.master is old:
                self.world.after(0.1, back)
                return
            # It believes to be a master until a sentinel tells it otherwise.
            old.restart(data=data)
            old.lead(self._lag)
            self._demote(old)

        self._returning += 1
        self.world.after(back_after, back)
        return True

    def isolate(self, seconds: float, *, best: bool = True) -> bool:
        """Cut the master off from replicas and sentinels, not from clients: it goes on, and does not know better.

        Returns:
            Whether that can be done now.
        """
        if not self._may_fail():
            return False
        old = self.master
        self.failing = True
        self.world.note("isolate", old.name)
        old.alone = True
        self.replication.fall_silent()
        self._replace(old, best=best)

        def back() -> None:
            if self.master is old:
                self.world.after(0.1, back)
                return
            self.world.note("rejoin", old.name)
            old.alone = False
            self._demote(old)

        self._returning += 1
        self.world.after(seconds, back)
        return True

    def fail_over(self, *, best: bool = True) -> bool:
        """``SENTINEL FAILOVER``: a replica is promoted with what it has; the old master is told within seconds.

        Returns:
            Whether that can be done now.
        """
        if not self._may_fail():
            return False
        old = self.master
        self.failing = True
        self.world.note("fail_over", old.name)
        self._returning += 1

        def promote() -> None:
            self._promote(old, best=best)
            self._demote(old)

        self.world.after(self.world.rng.uniform(ELECTION, 2 * ELECTION), promote)
        return True

    def _may_fail(self) -> bool:
        """Whether there is somebody to take over, and nothing else is going on."""
        nodes = [self.master, *self.replication.replicas()]
        well = all(node.redis.up and not node.redis.paused for node in nodes)
        return not self.failing and not self._returning and len(nodes) == len(self.servers) and well

    def _replace(self, old: DataNode, *, best: bool) -> None:
        after = DOWN_AFTER + self.world.rng.uniform(ELECTION, 2 * ELECTION)
        self.world.after(after, lambda: self._promote(old, best=best))

    def _promote(self, old: DataNode, *, best: bool) -> None:
        """One of the replicas takes over with what it has; the others follow it."""
        candidates = [node for node in self.servers if node is not old]
        candidates.sort(key=self.replication.progress_of, reverse=True)
        new = candidates[0] if best else self.world.rng.choice(candidates)
        self.world.note("promote", new.name)
        losses = what_was_lost(old, new)
        self.replication.abandon()
        self.master = new
        self.replication = new.lead(self._lag)
        for node in candidates:
            if node is not new:
                node.follow(self.replication)
        self.failing = False
        for sentinel in self.sentinels:
            self.world.after(self.world.rng.uniform(0.0, GOSSIP), lambda sentinel=sentinel: self._hear(sentinel))
        for told in self.on_loss:
            told(losses)

    def _hear(self, sentinel: SentinelNode) -> None:
        sentinel.master = self.master

    def _demote(self, old: DataNode) -> None:
        """The sentinels tell the old master, once they see it, that it is none; and close its connections."""

        def demote() -> None:
            if old.redis.paused:
                self.world.after(0.05, demote)
                return
            self.world.note("demoted", old.name)
            old.follow(self.replication)
            self.world.break_connections(old)
            self._returning -= 1

        self.world.after(self.world.rng.uniform(0.1, DEMOTION), demote)

    def whole(self) -> bool:
        """Whether everybody follows the master, and the sentinels agree."""
        agreed = all(sentinel.master is self.master for sentinel in self.sentinels)
        followed = len(list(self.replication.replicas())) == len(self.servers) - 1
        return not self.failing and not self._returning and agreed and followed
