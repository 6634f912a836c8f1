"""The simulated cluster answers as a real one does while a slot moves: what it takes, and where it sends the rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson._net.topology import slot_of
from tests.clusters import RunningCluster
from tests.servers import HOST, REDIS_6, Server
from tests.simulated.engine.cluster import ClusterNode, SimulatedCluster
from tests.simulated.engine.network import Network, Port, Wire
from tests.simulated.engine.redis import ServerError
from tests.simulated.engine.world import World
from tests.waiting import until

#: The keys of one slot that a request may be about, by where they are when it comes.
HERE, THERE, NOWHERE = "{%s}here", "{%s}there", "{%s}nowhere"

READ = "local found = 0 for _, key in ipairs(KEYS) do found = found + redis.call('exists', key) end return found"


class Pair:
    """One slot on its way from one master to another, in a real cluster and in a simulated one."""

    def __init__(self, real: RunningCluster, name: str) -> None:
        self.real = real
        self.slot = slot_of(name)
        self.keys = [pattern % name for pattern in (HERE, THERE, NOWHERE)]
        self.source = real.master_of(name)
        self.target, self.third = (each for each in real.masters() if each is not self.source)
        self.world = World(0, nodes=0)
        self.network = Network(self.world)
        self.simulated = SimulatedCluster(self.world, self.network)
        shard = self.simulated.shard_of(name)
        others = [each.master for each in self.simulated.shards if each is not shard]
        self.nodes: dict[str, ClusterNode] = {"source": shard.master, "target": others[0], "third": others[1]}
        self.servers: dict[str, Server] = {"source": self.source, "target": self.target, "third": self.third}

    def begin(self) -> None:
        """The slot is on its way, and so is one of its keys."""
        here, there, _ = self.keys
        real, source, target = self.real, self.source, self.target
        for key in (here, there):
            real.command(source, "SET", key, "1")
            self.nodes["source"].redis.command("SET", key, "1")
        self.set_slot(target, "IMPORTING", real.id_of(source))
        self.set_slot(source, "MIGRATING", real.id_of(target))
        real.command(source, "MIGRATE", HOST, target.port, "", 0, 3000, "KEYS", there)
        self.nodes["target"].importing[self.slot] = self.nodes["source"]
        self.nodes["source"].migrating[self.slot] = self.nodes["target"]
        self.nodes["source"].redis.move_key(there.encode(), self.nodes["target"].redis)

    def end(self) -> None:
        """It goes no further."""
        assert self.ask_real("source", ("DEL", self.keys[0]), asking=False) == 1
        assert self.ask_real("target", ("DEL", self.keys[1]), asking=True) == 1
        for node in (self.source, self.target):
            self.set_slot(node, "STABLE")

    def set_slot(self, node: Server, *words: object) -> None:
        """Tell a master what becomes of the slot. Since Valkey 8 it refuses that while its replica is late."""

        def taken() -> bool:
            try:
                self.real.command(node, "CLUSTER", "SETSLOT", self.slot, *words)
            except rx.ResponseError as error:
                if "NOREPLICAS" not in str(error):
                    raise
                return False
            return True

        until(taken, what="the replica is heard of")

    def ask_real(self, where: str, words: tuple[str, ...], *, asking: bool) -> Any:
        connection = redis.Connection(host=HOST, port=self.servers[where].port, protocol=2, socket_timeout=5)
        try:
            connection.connect()
            if asking:
                connection.send_command("ASKING")
                connection.read_response()
            connection.send_command(*words)
            try:
                return connection.read_response()
            except rx.ResponseError as error:
                return self._said(error, {f"{HOST}:{server.port}": name for name, server in self.servers.items()})
        finally:
            connection.disconnect()

    def ask_simulated(self, where: str, words: tuple[str, ...], *, asking: bool) -> Any:
        node = self.nodes[where]
        wire = Wire(Port(self.world.process("p"), self.network), node, None)
        wire.asking = asking
        try:
            return node.serve([word.encode() for word in words], wire)
        except ServerError as error:
            named = {f"{each.address[0]}:{each.address[1]}": name for name, each in self.nodes.items()}
            return self._said(error, named)

    @staticmethod
    def _said(error: Exception, names: dict[str, str]) -> tuple[str, str]:
        """The first word of an error, and which node it names."""
        # redis-py takes these words off.
        known: dict[type[Exception], str] = {rx.MovedError: "MOVED", rx.AskError: "ASK", rx.TryAgainError: "TRYAGAIN"}
        known[rx.ClusterCrossSlotError] = "CROSSSLOT"
        text = str(error)
        word = known.get(type(error), text.split(" ", 1)[0])
        return word, next((name for address, name in names.items() if address in text), "")


@pytest.fixture
def pair(any_cluster: RunningCluster, unique_name: str) -> Iterator[Pair]:
    if any_cluster.build is REDIS_6:
        pytest.skip("the model is Redis 7.0, which says TRYAGAIN where 6.2 says ASK")
    found = Pair(any_cluster, unique_name)
    found.begin()
    yield found
    found.end()


def test_which_node_executes_requests_while_a_slot_moves(pair):
    requests = [
        ("EVAL", READ, str(count), *keys) for count in (1, 2, 3) for keys in itertools.combinations(pair.keys, count)
    ]
    requests.append(("EVAL", READ, "2", pair.keys[2], pair.keys[2]))
    requests += [("EXISTS", key) for key in pair.keys]
    said = {}
    for words, where, asking in itertools.product(requests, pair.servers, (False, True)):
        answers = [ask(where, words, asking=asking) for ask in (pair.ask_real, pair.ask_simulated)]
        said[words, where, asking] = answers
    assert {case: answers for case, answers in said.items() if answers[0] != answers[1]} == {}
    words_heard = {answers[0][0] for answers in said.values() if isinstance(answers[0], tuple)}
    assert words_heard == {"MOVED", "ASK", "TRYAGAIN"}


def test_keys_of_two_slots_are_refused(pair):
    words = ("EVAL", READ, "2", pair.keys[0], pair.keys[0].replace("{", "{other"))
    assert pair.ask_real("source", words, asking=False)[0] == "CROSSSLOT"
    assert pair.ask_simulated("source", words, asking=False)[0] == "CROSSSLOT"
