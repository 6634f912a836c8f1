"""Replication in a simulated world: a master's replicas hear of each write later, in order, or never."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from pyredisson._net.wire import reply_error
from tests.simulated.engine.network import Host, Wire
from tests.simulated.engine.redis import Entry, ServerError
from tests.simulated.engine.world import Node, Promise, World


@dataclass(frozen=True)
class Lag:
    """How far replicas are behind.

    Attributes:
        least: Seconds that a write takes at least.
        most: And at most, as a rule.
        stall: With this probability a write, and with it all behind it, takes up to ``stall_seconds`` longer.
        stall_seconds: See ``stall``.
    """

    least: float = 0.0005
    most: float = 0.01
    stall: float = 0.05
    stall_seconds: float = 0.6


@dataclass
class _Replica:
    node: Node
    hears_at: float = 0.0
    has: int = 0
    known_to_have: int = 0


@dataclass
class _Waiting:
    offset: int
    replicas: int
    done: Callable[[int | None], None]
    over: bool = False


@final
class Replication:
    """One master's stream to its replicas.

    Args:
        world: Where it is.
        master: Whose writes are told.
        lag: By how much the replicas are behind.
    """

    def __init__(self, world: World, master: Node, lag: Lag) -> None:
        self._world = world
        self.master = master
        self._lag = lag
        self._replicas: dict[Node, _Replica] = {}
        self._waiting: list[_Waiting] = []
        self._offset = 0
        self._writes = master.redis.writes
        self._silent = False

    @property
    def offset(self) -> int:
        """How much has been written."""
        return self._offset

    def replicas(self) -> Iterable[Node]:
        """Those that follow."""
        return list(self._replicas)

    def add(self, node: Node) -> None:
        """A server follows from now on: it gets everything there is first, and then what is written."""
        self._replicas[node] = _Replica(node, hears_at=self._world.now)
        self.master.redis.replicas = len(self._replicas)
        self._ship(self._replicas[node])

    def fall_silent(self) -> None:
        """Nothing arrives at the replicas any more, nor what they acknowledge here; nobody has noticed as yet."""
        self._silent = True

    def progress_of(self, node: Node) -> int:
        """How much of what was written a replica has."""
        return self._replicas[node].has if node in self._replicas else -1

    def abandon(self) -> None:
        """The replicas follow another master now; the old one has not noticed as yet."""
        self._silent = True
        self._replicas.clear()

    def sever(self) -> None:
        """It is over: nobody follows any more."""
        self._silent = True
        self._replicas.clear()
        self.master.redis.replicas = 0

    def wrote(self) -> None:
        """Tell the replicas, if anything has been written since."""
        if self.master.redis.writes == self._writes:
            return
        self._writes = self.master.redis.writes
        self._offset += 1
        for replica in self._replicas.values():
            self._ship(replica)

    def _ship(self, replica: _Replica) -> None:
        world, lag = self._world, self._lag
        takes = world.rng.uniform(lag.least, lag.most)
        if lag.stall and world.rng.random() < lag.stall:
            world.note("stall")
            takes += world.rng.uniform(0.0, lag.stall_seconds)
        replica.hears_at = max(replica.hears_at, world.now + takes)
        offset, state = self._offset, self.master.redis.snapshot()

        def arrive() -> None:
            if self._silent or self._replicas.get(replica.node) is not replica or not replica.node.redis.up:
                return
            if replica.node.redis.paused:
                world.after(0.05, arrive)
                return
            if offset >= replica.has:
                replica.node.redis.follow(state)
                replica.has = offset
            world.after(world.travel(), acknowledge)

        def acknowledge() -> None:
            if not self._silent:
                replica.known_to_have = max(replica.known_to_have, offset)
                self._look()

        world.at(replica.hears_at, arrive)

    # ---- WAIT ----------------------------------------------------------------------------------------------------

    def wait(self, offset: int, replicas: int, seconds: float, done: Callable[[int | None], None]) -> None:
        """``WAIT``: call back with how many replicas know of what was written up to ``offset``.

        When that are enough, or the time is over; with ``None`` if the master is demoted meanwhile.
        """
        waiting = _Waiting(offset, replicas, done)
        self._waiting.append(waiting)
        self._look()
        if not waiting.over:
            self._world.after(seconds, lambda: self._end(waiting, self._count(waiting)))

    def _count(self, waiting: _Waiting) -> int:
        return sum(replica.known_to_have >= waiting.offset for replica in self._replicas.values())

    def _look(self) -> None:
        for waiting in list(self._waiting):
            count = self._count(waiting)
            if count >= waiting.replicas:
                self._end(waiting, count)

    def _end(self, waiting: _Waiting, count: int | None) -> None:
        if not waiting.over:
            waiting.over = True
            self._waiting.remove(waiting)
            waiting.done(count)

    def unblock(self) -> None:
        """The master is none any more: whoever waits is told so."""
        for waiting in list(self._waiting):
            self._end(waiting, None)


class ReplicatedNode(Host):
    """A server that has replicas, or is one.

    Attributes:
        replication: To its replicas; ``None`` if it is one itself.
        alone: Whether no other server reaches it.
    """

    replication: Replication | None = None
    alone = False

    def serve(self, words: Sequence[bytes], wire: Wire) -> Any:
        """Run a command; see :class:`Host`."""
        if words[0].upper() == b"WAIT":
            return self._wait(int(words[1]), int(words[2]) / 1000 or math.inf, wire)
        try:
            return super().serve(words, wire)
        finally:
            if self.replication is not None:
                self.replication.wrote()
                wire.offset = self.replication.offset

    def _wait(self, replicas: int, seconds: float, wire: Wire) -> Promise[Any]:
        """The reply to a ``WAIT`` that came on this connection; it comes when it does."""
        if self.replication is None:
            raise ServerError("ERR", "WAIT cannot be used with replica instances.")
        promise: Promise[Any] = Promise()

        def done(count: int | None) -> None:
            if count is None:
                text = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
                promise.settle(reply_error(text))
            else:
                promise.settle(count)

        self.replication.wait(wire.offset, replicas, seconds, done)
        return promise

    def step_down(self) -> None:
        """Be a replica; whoever waits for replicas of this server is told so."""
        former, self.replication = self.replication, None
        if former is not None:
            former.sever()
            former.unblock()
        self.redis.role, self.redis.read_only = "slave", True


@dataclass(frozen=True)
class Loss:
    """A failover forgot something about one key.

    Attributes:
        key: Of which key.
        was: What the old master had; ``None``: nothing.
        remains: What the new one has.
    """

    key: bytes
    was: Entry | None
    remains: Entry | None


#: Of two expiries that differ by less, in milliseconds, neither was lost.
SAME_TIME = 1


def what_was_lost(old: Node, new: Node) -> list[Loss]:
    """Compare what two servers store: what the new one does not know of the old one's, or only an older version of."""
    before, after = old.redis.dump(), new.redis.dump()
    found = []
    for key in before.keys() | after.keys():
        was, remains = before.get(key), after.get(key)
        if not _same(was, remains):
            found.append(Loss(key, was, remains))
    return sorted(found, key=lambda loss: loss.key)


def _same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None or one.value != other.value:
        return one is other
    return abs((one.ttl_ms or 0) - (other.ttl_ms or 0)) <= SAME_TIME
