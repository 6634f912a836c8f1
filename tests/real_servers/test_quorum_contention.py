"""Several processes of both forms contend for a quorum while its nodes come and go: still one at a time.

As :mod:`tests.real_servers.test_mutual_exclusion`, with five nodes, and the counter on a sixth server.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.real_servers.fleets import NODES, Fleet
from tests.real_servers.test_mutual_exclusion import Contenders
from tests.servers import VALKEY, Server
from tests.volumes import Volume
from tests.waiting import until


class Havoc:
    """Does one harm after another; what it did is counted when it took effect.

    Never to more than two nodes at once, and to none what makes it forget.
    """

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.did: Counter[str] = Counter()
        self._fleet = fleet
        self._random = random.Random(seed)

    def harm(self) -> None:
        """Do one, for a moment."""
        harm = self._random.choice([self._stop, self._cut, self._deafen, self._delay, self._drop, self._flush])
        harm(self._random.sample(range(NODES), self._random.randint(1, 2)))
        time.sleep(self._random.uniform(0, 0.05))

    def _moment(self) -> None:
        time.sleep(self._random.uniform(0.02, 0.2))

    def _stop(self, nodes: list[int]) -> None:
        for index in nodes:
            self._fleet.servers[index].pause()
        self._moment()
        for index in nodes:
            self._fleet.servers[index].resume()
        self.did["stopped"] += len(nodes)

    def _cut(self, nodes: list[int]) -> None:
        for index in nodes:
            self._fleet.proxy(index).cut()
        self._heal(nodes)
        self.did["cut"] += len(nodes)

    def _deafen(self, nodes: list[int]) -> None:
        for index in nodes:
            self._fleet.proxy(index).blackhole(self._random.choice(["up", "down", "both"]))  # type: ignore[arg-type]
        self._heal(nodes)
        self.did["swallowed"] += len(nodes)

    def _delay(self, nodes: list[int]) -> None:
        for index in nodes:
            self._fleet.proxy(index).latency(0.02, 0.1, direction="both")
        self._moment()
        for index in nodes:
            self._fleet.proxy(index).latency(0)
        self.did["slow"] += len(nodes)

    def _heal(self, nodes: list[int]) -> None:
        self._moment()
        for index in nodes:
            self._fleet.proxy(index).heal()

    def _drop(self, nodes: list[int]) -> None:
        dropped = [
            self._fleet.proxy(index).drop_reply("EVALSHA", self._random.randint(1, 5), then="reset") for index in nodes
        ]
        self._moment()
        for toxic in dropped:
            toxic.remove()
            self.did["reply lost"] += toxic.hits

    def _flush(self, nodes: list[int]) -> None:
        for index in nodes:
            with self._fleet.servers[index].client() as direct:
                direct.script_flush("SYNC")
        self.did["scripts flushed"] += len(nodes)


@pytest.mark.volume
@pytest.mark.parametrize("kind", ["lock", "fenced_lock"])
def test_only_one_owner_at_a_time_while_nodes_come_and_go(
    fleet: Fleet, fresh_server: Callable[..., Server], unique_name: str, volume: Volume, kind: str
) -> None:
    counter = fresh_server(VALKEY)
    for index in range(NODES):
        fleet.proxy(index)
    workers, rounds = 2, volume(4, full=200)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    havoc, urls = Havoc(fleet, seed), " ".join(fleet.urls())
    with counter.client(decode_responses=True) as direct:
        direct.set(f"{unique_name}-go", 1)
        with Contenders(urls, counter, unique_name, 2, workers, rounds, kind) as contenders:
            until(lambda: direct.exists(f"{unique_name}-counter"), within=20, what="they have begun")
            while contenders.under_way():
                havoc.harm()
            assert contenders.losses() == 0  # No outage of a majority, and none as long as a lease.
        assert int(direct.get(f"{unique_name}-counter") or 0) == 2 * workers * rounds
    print(havoc.did)
    for index in range(NODES):
        # Connections that were deaf for a while stay so, and the nodes have not heard of their end.
        fleet.proxy(index).cut()
        fleet.proxy(index).heal()
    assert sum(havoc.did.values()) >= rounds / 4
    fleet.free(unique_name, within=10)
