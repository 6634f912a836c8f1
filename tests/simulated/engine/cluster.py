"""A cluster in a simulated world: masters with a replica each, slots that move, masters that fail.

What a node answers is what Redis 7.0 answers (``tests/real_servers/test_simulated_cluster.py`` compares them). Each
node has its own view of who serves what, and hears of changes from the others after a while; a change has an epoch,
and the higher one wins. Left out: a shard whose slots are on their way does not fail meanwhile, since what becomes of
such a slot is for an operator to say; elections always succeed; and a cluster that misses a master serves nothing
until there is one again (``cluster-require-full-coverage yes``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, final

from pyredisson._net.topology import SLOTS, slot_of
from pyredisson._net.wire import reply_error
from tests.simulated.engine.keyspace import OK
from tests.simulated.engine.network import Host, Network, Wire, keys_of
from tests.simulated.engine.redis import ServerError
from tests.simulated.engine.replication import Lag, Loss, ReplicatedNode, Replication, what_was_lost
from tests.simulated.engine.world import World

#: After so many seconds without an answer a node is taken for dead, by the others, and by itself if they are gone.
NODE_TIMEOUT = 0.6

#: Until a replica is elected it takes at least so long more, and at most twice.
ELECTION = 0.5

#: Others hear of a change within so many seconds.
GOSSIP = 0.3

#: A master that was started again takes no request before that: it may have been replaced.
REJOIN = 2.0


@lru_cache(maxsize=4096)
def _slot(key: bytes) -> int:
    return slot_of(key.decode())


@final
class View:
    """Who serves what, as one node knows it: by shard, but for the slots that were moved, and each with its epoch."""

    def __init__(self, bounds: Sequence[int], heads: Sequence[ClusterNode]) -> None:
        self._bounds = tuple(bounds)
        self.heads = [(0, head) for head in heads]
        self.moved: dict[int, tuple[int, int]] = {}

    def shard_of(self, slot: int) -> int:
        """The number of the shard that a slot belongs to."""
        if slot in self.moved:
            return self.moved[slot][1]
        return next(index for index, end in enumerate(self._bounds[1:]) if slot < end)

    def owner(self, slot: int) -> ClusterNode:
        """The master that serves a slot."""
        return self.heads[self.shard_of(slot)][1]

    def lead(self, shard: int, epoch: int, node: ClusterNode) -> None:
        """A node is a shard's master from this epoch on."""
        if epoch > self.heads[shard][0]:
            self.heads[shard] = (epoch, node)

    def move(self, slot: int, epoch: int, shard: int) -> None:
        """A slot is a shard's from this epoch on."""
        if epoch > self.moved.get(slot, (0, 0))[0]:
            self.moved[slot] = (epoch, shard)

    def learn(self, other: View) -> None:
        """Take over what is newer."""
        for shard, (epoch, node) in enumerate(other.heads):
            self.lead(shard, epoch, node)
        for slot, (epoch, shard) in other.moved.items():
            self.move(slot, epoch, shard)

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """All slots as ranges: the first, the last, and the shard."""
        moved = sorted(self.moved)
        edges = sorted({*self._bounds, *moved, *(slot + 1 for slot in moved)})
        for first, end in pairwise(edges):
            if end <= SLOTS:
                yield first, end - 1, self.shard_of(first)


class Shard:
    """A master and its replicas, as they really are.

    Attributes:
        number: Which one.
        nodes: Its servers.
        master: That which the cluster's majority has made the master.
        replication: From there.
        moving: How many of its slots are on their way.
        failing: Whether its master is being replaced.
    """

    def __init__(self, number: int, nodes: Sequence[ClusterNode], replication: Replication) -> None:
        self.number = number
        self.nodes = tuple(nodes)
        self.master = nodes[0]
        self.replication = replication
        self.moving = 0
        self.failing = False


class ClusterNode(ReplicatedNode):
    """One server of a cluster.

    Attributes:
        view: What it knows.
        migrating: The slots that it is giving away, and to whom.
        importing: The slots that it is being given, and by whom.
        down: Whether it takes the cluster for incomplete, and so serves nobody.
    """

    cluster: SimulatedCluster
    view: View

    def __init__(self, network: Network, name: str, address: tuple[str, int]) -> None:
        super().__init__(network, name, address)
        self.migrating: dict[int, ClusterNode] = {}
        self.importing: dict[int, ClusterNode] = {}
        self.down = False

    @property
    def shard(self) -> Shard:
        """That which it belongs to."""
        return next(shard for shard in self.cluster.shards if self in shard.nodes)

    def head(self) -> ClusterNode:
        """The master of its shard, as far as it knows."""
        return self.view.heads[self.shard.number][1]

    # ---- requests ------------------------------------------------------------------------------------------------

    def serve(self, words: Sequence[bytes], wire: Wire) -> Any:
        """Run a command, if its keys are served here; see :class:`Host`."""
        asking, wire.asking = wire.asking, False
        match words[0].upper():
            case b"ASKING":
                wire.asking = True
                return OK
            case b"CLUSTER":
                return self._slots()
            case b"PUBSUB":
                if not self.cluster.shards_for_messages:
                    raise ServerError("ERR", "Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'")
                return [words[-1], 0]
        error = self._refuses(keys_of(words), asking=asking)
        if error is not None:
            raise ServerError.from_text(error)
        return super().serve(words, wire)

    def _refuses(self, keys: Sequence[bytes], *, asking: bool) -> str | None:
        """Why a request about these keys is not served here: Redis's ``getNodeByQuery``."""
        if not keys:
            return None
        slots = {_slot(key) for key in keys}
        if len(slots) > 1:
            return "CROSSSLOT Keys in request don't hash to the same slot"
        (slot,) = slots
        owner = self.view.owner(slot)
        if self.down:
            return "CLUSTERDOWN The cluster is down"
        here = [self.redis.command("EXISTS", key) == 1 for key in dict.fromkeys(keys)]
        if owner is self:
            if slot not in self.migrating or all(here):
                return None
            return self._unstable() if any(here) else self._elsewhere("ASK", slot, self.migrating[slot])
        if asking and slot in self.importing:
            return self._unstable() if len(here) > 1 and not all(here) else None
        return self._elsewhere("MOVED", slot, owner)

    @staticmethod
    def _unstable() -> str:
        return "TRYAGAIN Multiple keys request during rehashing of slot"

    @staticmethod
    def _elsewhere(word: str, slot: int, node: ClusterNode) -> str:
        return f"{word} {slot} {node.address[0]}:{node.address[1]}"

    def _slots(self) -> Any:
        """The reply to ``CLUSTER SLOTS``."""
        reply = []
        for first, last, shard in self.view.ranges():
            head = self.view.heads[shard][1]
            nodes = [head, *(node for node in self.cluster.shards[shard].nodes if node is not head)]
            reply.append([first, last, *([*_told(node), node.name.encode()] for node in nodes)])
        return reply

    # ---- messages ------------------------------------------------------------------------------------------------

    def refuses_channel(self, channel: bytes) -> Exception | None:
        """Why a channel of a shard is not heard here."""
        # A replica is as good as its master, and so is a cluster that is down (cluster-allow-pubsubshard-when-down).
        slot = _slot(channel)
        owner = self.view.owner(slot)
        return None if owner is self.head() else reply_error(self._elsewhere("MOVED", slot, owner))

    def audience(self, channel: bytes, *, sharded: bool) -> list[Host]:
        """The servers whose subscribers hear what is published here: the shard's, or all."""
        nodes = self.shard.nodes if sharded else self.cluster.nodes
        return [node for node in nodes if node is self or (not (self.alone or node.alone) and node.redis.up)]

    def drop_channels(self, *, every: bool = False) -> None:
        """Tell those who listen to what is no longer of this shard, or to ``every`` channel."""
        for stream in list(self.streams):
            for channel, sharded in list(stream.channels):
                if sharded and (every or self.view.owner(_slot(channel)) is not self.head()):
                    del stream.channels[channel, sharded]
                    stream.push([b"sunsubscribe", channel, len(stream.channels)])

    # ---- what becomes of it --------------------------------------------------------------------------------------

    def learned(self) -> None:
        """Its view has changed: be what it says."""
        if self.head() is not self and self.replication is not None:
            self.world.note("demoted", self.name)
            self.step_down()
            self.drop_channels(every=True)
        if self.replication is None and not self.alone and self.redis.up:
            leader = self.shard.master
            if leader is not self and leader is self.head() and self not in self.shard.replication.replicas():
                self.shard.replication.add(self)
                self.redis.replicas = 0
        self.down = self.cluster.incomplete or (self.alone and self.down)
        self.drop_channels()


def _told(node: ClusterNode) -> list[Any]:
    return [node.address[0].encode(), node.address[1]]


@final
class SimulatedCluster:
    """A cluster.

    Args:
        world: Where it is. Its nodes become the world's.
        network: What connects them to clients.
        masters: How many masters, each with one replica.
        lag: How far the replicas are behind.
        shards_for_messages: Whether the servers know ``SPUBLISH``.

    Attributes:
        shards: Its shards.
        nodes: All its servers.
        on_loss: Called with what each failover has forgotten.
        incomplete: Whether a master is missing, and so nobody is served.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        *,
        masters: int = 3,
        lag: Lag | None = None,
        shards_for_messages: bool = True,
    ) -> None:
        self.world = world
        self.network = network
        self.shards_for_messages = shards_for_messages
        self._lag = lag or Lag()
        self.on_loss: list[Callable[[list[Loss]], None]] = []
        self.incomplete = False
        self._epoch = 0
        self._moving: set[int] = set()
        self.nodes = [ClusterNode(network, f"n{index}", (f"n{index}", 7000 + index)) for index in range(2 * masters)]
        self.shards: list[Shard] = []
        for number in range(masters):
            master, replica = self.nodes[number], self.nodes[masters + number]
            replication = master.replication = Replication(world, master, self._lag)
            self.shards.append(Shard(number, (master, replica), replication))
            replica.redis.role, replica.redis.read_only = "slave", True
        bounds = [round(SLOTS * each / masters) for each in range(masters + 1)]
        for node in self.nodes:
            node.cluster = self
            node.view = View(bounds, self.nodes[:masters])
        self.truth = View(bounds, self.nodes[:masters])
        for shard in self.shards:
            shard.replication.add(shard.nodes[1])
        world.nodes[:] = self.nodes

    @property
    def seeds(self) -> tuple[tuple[str, int], ...]:
        """The addresses of the first masters."""
        return tuple(node.address for node in self.nodes[: len(self.shards)])

    def shard_of(self, name: str) -> Shard:
        """The shard that a key belongs to."""
        return self.shards[self.truth.shard_of(slot_of(name))]

    def trusted(self, key: bytes) -> list[ClusterNode]:
        """The servers that may rightly say who holds a lock: its master, and that to which its slot is on its way."""
        slot = _slot(key)
        master = self.truth.owner(slot)
        return [master, *([master.migrating[slot]] if slot in master.migrating else [])]

    def states(self) -> Iterator[tuple[str, dict[bytes, Any]]]:
        """What each master stores."""
        for shard in self.shards:
            yield shard.master.name, shard.master.redis.dump()

    # ---- slots that move -----------------------------------------------------------------------------------------

    def migrate(self, slot: int, to: int, done: Callable[[], None] = lambda: None) -> bool:
        """Begin to move a slot to another shard, as ``redis-cli --cluster reshard`` does, key by key.

        Returns:
            Whether that can be done now. ``done`` is called when it is over.
        """
        source_shard, target_shard = self.shards[self.truth.shard_of(slot)], self.shards[to]
        source, target = source_shard.master, target_shard.master
        if source is target or source_shard.failing or target_shard.failing or slot in self._moving:
            return False
        if any(not node.redis.up or node.alone for node in (source, target)):
            return False
        world, rng = self.world, self.world.rng
        world.note("migrate", slot, source.name, target.name)
        self._moving.add(slot)
        source_shard.moving += 1
        target_shard.moving += 1
        target.importing[slot] = source

        def pause(longest: float = 0.1) -> float:
            return rng.uniform(0.001, longest)

        def when_served(call: Callable[[], None]) -> Callable[[], None]:
            def step() -> None:
                if source.redis.paused or target.redis.paused:
                    world.after(0.05, step)
                else:
                    call()

            return step

        def begin() -> None:
            source.migrating[slot] = target
            world.after(pause(0.4), when_served(move))

        def move() -> None:
            keys = sorted(key for key in source.redis.dump() if _slot(key) == slot)
            if not keys:
                world.after(pause(), when_served(hand_over))
                return
            for key in keys[: rng.randint(1, 2)]:
                source.redis.move_key(key, target.redis)
                for node in (source, target):
                    assert node.replication is not None, "a shard whose slots are on their way does not fail"
                    node.replication.wrote()
            world.after(pause(), when_served(move))

        def hand_over() -> None:
            self._epoch += 1
            epoch = self._epoch
            self.truth.move(slot, epoch, to)
            del target.importing[slot]
            target.view.move(slot, epoch, to)
            world.after(pause(), when_served(end))

        def end() -> None:
            epoch = self.truth.moved[slot][0]
            del source.migrating[slot]
            source.view.move(slot, epoch, to)
            source.drop_channels()
            self._moving.discard(slot)
            source_shard.moving -= 1
            target_shard.moving -= 1
            self._gossip()
            done()

        world.after(pause(), when_served(begin))
        return True

    def _gossip(self) -> None:
        """Let everybody hear of what has changed, in a while."""
        for node in self.nodes:
            self.world.after(self.world.rng.uniform(0.0, GOSSIP), lambda node=node: self._hear(node))

    def _hear(self, node: ClusterNode) -> None:
        if node.alone or not node.redis.up:
            return
        if node.redis.paused:
            self.world.after(0.05, lambda: self._hear(node))
            return
        node.view.learn(self.truth)
        node.learned()

    # ---- masters that fail ---------------------------------------------------------------------------------------

    def crash(self, shard: Shard, *, back_after: float, data: bool) -> bool:
        """End a shard's master, and start it again in a while, with or without its data; its replica takes over.

        Returns:
            Whether that can be done now.
        """
        master = shard.master
        if not self._may_fail(shard):
            return False
        shard.failing = True
        master.crash()
        self.world.after(NODE_TIMEOUT, lambda: self._fail(shard))

        def back() -> None:
            if shard.master is master:  # Its replica has not been elected yet.
                self.world.after(0.1, back)
                return
            master.restart(data=data)
            master.down = True
            self.world.after(REJOIN, lambda: self._hear(master))

        self.world.after(back_after, back)
        return True

    def isolate(self, shard: Shard, seconds: float) -> bool:
        """Cut a shard's master off from the other nodes, not from clients. It goes on for a while by itself.

        Returns:
            Whether that can be done now.
        """
        master = shard.master
        if not self._may_fail(shard):
            return False
        shard.failing = True
        self.world.note("isolate", master.name)
        master.alone = True
        assert master.replication is not None, "a master replicates"
        master.replication.fall_silent()

        def lonely() -> None:
            if master.alone:
                master.down = True

        self.world.after(NODE_TIMEOUT, lonely)
        self.world.after(NODE_TIMEOUT, lambda: self._fail(shard))

        def back() -> None:
            if shard.master is master:
                self.world.after(0.1, back)
                return
            self.world.note("rejoin", master.name)
            master.alone = False
            self._hear(master)

        self.world.after(seconds, back)
        return True

    def fail_over(self, shard: Shard) -> bool:
        """``CLUSTER FAILOVER``: the replica takes over when it knows everything; nothing is lost.

        Returns:
            Whether that can be done now.
        """
        if not self._may_fail(shard):
            return False
        shard.failing = True
        master, (replica,) = shard.master, tuple(shard.replication.replicas())
        self.world.note("fail_over", master.name)
        master.pause()  # It stops its clients until the replica has all.

        def take_over() -> None:
            replica.redis.follow(master.redis.snapshot())
            self._promote(shard)
            master.view.learn(self.truth)
            master.learned()
            master.resume()

        self.world.after(self.world.rng.uniform(0.002, 0.1), take_over)
        return True

    def _may_fail(self, shard: Shard) -> bool:
        """Whether there is somebody to take over, and nothing else is going on."""
        if shard.failing or shard.moving or any(other.failing for other in self.shards):
            return False
        nodes = [shard.master, *shard.replication.replicas()]
        return len(nodes) > 1 and all(node.redis.up and not node.redis.paused for node in nodes)

    def _fail(self, shard: Shard) -> None:
        """The others see that a master is missing."""
        self.world.note("fail", shard.master.name)
        self.incomplete = True
        for node in self.nodes:
            if node is not shard.master:
                node.down = True
        self.world.after(self.world.rng.uniform(ELECTION, 2 * ELECTION), lambda: self._promote(shard))

    def _promote(self, shard: Shard) -> None:
        """The replica takes over with what it has."""
        old = shard.master
        new = next(node for node in shard.nodes if node is not old)
        self._epoch += 1
        self.world.note("promote", new.name)
        losses = what_was_lost(old, new)
        shard.replication.sever()
        shard.master = new
        shard.failing = False
        shard.replication = new.replication = Replication(self.world, new, self._lag)
        new.redis.role, new.redis.read_only = "master", False
        new.redis.replicas = 0
        self.truth.lead(shard.number, self._epoch, new)
        new.view.learn(self.truth)
        self.incomplete = False
        for node in self.nodes:
            if node is not old or not node.alone:
                node.down = False
        new.learned()
        self._gossip()
        for told in self.on_loss:
            told(losses)

    def whole(self) -> bool:
        """Whether every master has its replica, and nothing is on its way."""
        return all(
            not shard.failing and not shard.moving and len(list(shard.replication.replicas())) == 1
            for shard in self.shards
        )
