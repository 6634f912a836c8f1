"""Locks on a simulated cluster, and on a master that sentinels watch: histories, scenes, and planted bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from redis.exceptions import ResponseError

from pyredisson._core.deadline import DoublingBackoff
from pyredisson._core.failures import Rejected
from pyredisson._core.watchdog import Watchdog
from pyredisson._net import cluster, wire
from pyredisson._net.cluster import ClusterMap, NodeSubscribers
from pyredisson._net.subscriber import Conversation
from pyredisson._net.topology import AskRedirect, Moved, Whereabouts, read_redirection, slot_of
from pyredisson.errors import NoSyncedSlavesError
from tests.simulated.engine.cluster import SimulatedCluster
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.network import Network
from tests.simulated.engine.replication import Lag
from tests.simulated.engine.routed import RoutedClient, cluster_client, sentinel_client
from tests.simulated.engine.runtime import SimulatedOwner
from tests.simulated.engine.sentinel import SimulatedSentinels
from tests.simulated.engine.world import Task, World
from tests.simulated.history import quiet
from tests.simulated.planted import Bug, all_of, check_found, in_code, in_script
from tests.simulated.seeds import first_of
from tests.simulated.topology_history import (
    CONFIG,
    PLAN,
    ClusterHistory,
    SentinelHistory,
    TopologyHistory,
    TopologyPlan,
    counted,
    overlaps_of,
)

#: Slots move and replicas take over, without anything going wrong.
CALM = TopologyPlan(failovers=2, faults=Faults(), calm=True, config=replace(CONFIG, timeout=3.0))

#: Masters fail, and no client waits for replicas.
FAILING = TopologyPlan(failovers=3)

#: Masters fail, but none of them goes on alone; replicas are waited for where they are connected (the default).
CHECKED = TopologyPlan(failovers=3, isolate=False, config=replace(CONFIG, check_lock_synced_slaves=True))

#: The same behind sentinels: the one of two replicas that has acknowledged need not be the one that is promoted.
SENTINELS_CHECKED = replace(PLAN, isolate=False, config=CHECKED.config)

#: Whatever was acquired, the replica that takes over knows of it.
SYNCED = replace(CHECKED, config=replace(CONFIG, min_replicas=1))
SENTINELS_SYNCED = replace(SENTINELS_CHECKED, config=replace(CONFIG, min_replicas=2))

#: Tokens follow the servers' clock.
CLOCKED = replace(CHECKED, kinds=("fenced_lock",), config=replace(CONFIG, fence_from_clock=True))
SENTINELS_CLOCKED = replace(SENTINELS_CHECKED, kinds=CLOCKED.kinds, config=CLOCKED.config)


# ---- histories -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Regime:
    """Histories of one plan.

    Attributes:
        kind: The histories.
        plan: Their plan.
        usual: How many seeds there are.
        full: How many there are at the full volume.
        chunks: By how many tests they are run.
        seen: What has to happen in the histories of each test.
        overlaps: The causes for which two owners may be inside at once; ``None``: any.
    """

    kind: Callable[[int, TopologyPlan], TopologyHistory]
    plan: TopologyPlan
    usual: int = 30
    full: int = 200
    chunks: int = 2
    seen: tuple[str, ...] = ("promote",)
    overlaps: frozenset[str] | None = None


LOSSES = frozenset({"hold", "lease", "isolated"})
#: A renewal is never waited for.
RENEWALS = frozenset({"lease"})

REGIMES = {
    # Nothing is lost by moving slots.
    "slots move": Regime(ClusterHistory, TopologyPlan(), 80, 600, 8, ("migrate",), frozenset()),
    "cluster": Regime(ClusterHistory, FAILING, 80, 600, 8, overlaps=LOSSES),
    "cluster, min_replicas": Regime(ClusterHistory, SYNCED, seen=("promote", "WAIT"), overlaps=RENEWALS),
    "cluster, checked": Regime(ClusterHistory, CHECKED),
    "cluster, tokens from the clock": Regime(ClusterHistory, CLOCKED),
    "sentinels": Regime(SentinelHistory, PLAN, 80, 600, 8, overlaps=LOSSES),
    "sentinels, min_replicas": Regime(SentinelHistory, SENTINELS_SYNCED, seen=("promote", "WAIT"), overlaps=RENEWALS),
    "sentinels, checked": Regime(SentinelHistory, SENTINELS_CHECKED),
    "sentinels, tokens from the clock": Regime(SentinelHistory, SENTINELS_CLOCKED),
}


@pytest.mark.volume
@pytest.mark.parametrize(("name", "chunk"), [(name, n) for name, each in REGIMES.items() for n in range(each.chunks)])
def test_each_overlap_has_a_cause(name, chunk, volume):
    regime = REGIMES[name]
    seeds = range(chunk, volume(regime.usual, full=regime.full), regime.chunks)
    seen = counted(partial(regime.kind, plan=regime.plan), seeds)
    assert all(seen[what] > 0 for what in regime.seen), f"{seen}, so nothing was tested"
    assert regime.overlaps is None or overlaps_of(seen) <= regime.overlaps


ON_A_CLUSTER = partial(ClusterHistory, plan=FAILING)

#: Seeds that found a bug once.
ONCE_FOUND: list[tuple[Callable[[int], TopologyHistory], int]] = [
    *((ON_A_CLUSTER, seed) for seed in (51000069, 51000096)),
    (partial(ClusterHistory, plan=CHECKED), 570000091),
    (partial(SentinelHistory, plan=SENTINELS_CHECKED), 81000629),
    *((SentinelHistory, seed) for seed in (427, 1000, 44003222, 44004033, 44007643, 44010197, 44013482)),
]


@pytest.mark.parametrize(("history", "seed"), ONCE_FOUND)
def test_seeds_that_found_a_bug_before(history, seed):
    history(seed).run()


@pytest.mark.parametrize(
    ("history", "first", "seeds", "causes"),
    [(ON_A_CLUSTER, 113, 600, {"hold"}), (SentinelHistory, 241, 200, {"hold", "isolated"})],
    ids=["cluster", "sentinels"],
)
def test_overlaps_can_be_seen(history, first, seeds, causes):
    """A regime in which no two owners are ever inside at once, though locks are lost, would not look."""
    overlaps = Counter()
    for seed in first_of(first, seeds):  # The first one showed them the last time.
        overlaps.update(history(seed).run().overlaps)
        if causes <= overlaps.keys():
            return
    raise AssertionError(f"only {overlaps} were seen")


@pytest.mark.parametrize(
    ("kind", "plan", "seeds"),
    [(ClusterHistory, CALM, 40), (ClusterHistory, quiet(TopologyPlan()), 10), (SentinelHistory, quiet(PLAN), 10)],
    ids=["slots move and replicas take over by command", "cluster", "sentinels"],
)
def test_without_faults_no_call_fails(kind, plan, seeds):
    for seed in range(seeds):
        result = kind(seed, plan).run()
        assert (result.unknown, result.errors, result.overlaps) == (0, 0, {}), f"seed {seed}: {result}"


# ---- scenes ----------------------------------------------------------------------------------------------------------


class Scene:
    """A cluster, or a master with sentinels, and two clients; nothing is random but the time that things take."""

    def __init__(self, seed: int, *, sentinels: bool = False, lag: Lag | None = None, **changes: Any) -> None:
        self.world = World(seed, nodes=0)
        network = Network(self.world)
        processes = [self.world.process(name) for name in ("a", "b")]
        self.clients: list[RoutedClient]
        if sentinels:
            self.sentinels = SimulatedSentinels(self.world, network)
            self.clients = [sentinel_client(each, network, self.sentinels.url, config=CONFIG) for each in processes]
        else:
            self.cluster = SimulatedCluster(self.world, network, lag=lag)
            config = replace(CONFIG, **{"lock_watchdog_timeout": 60.0, "max_wait_without_check": 60.0, **changes})
            self.clients = [cluster_client(each, self.cluster, config=config) for each in processes]

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.end()

    def start(self, client: RoutedClient, work: Coroutine[Any, Any, Any], owner: Any = None) -> Task[Any]:
        """Let a client do something."""
        return client.runtime.process.start(work, "task", owner)

    def do(self, client: RoutedClient, work: Coroutine[Any, Any, Any], owner: Any = None, within: float = 60.0) -> Any:
        """Let a client do something, and wait for its end."""
        task = self.start(client, work, owner)
        assert self.world.run(until=task.done, seconds=within), f"not within {within} s"
        return task.outcome.result()


def a_waiter_hears_of_a_release_where_the_slot_went(seed: int) -> None:
    """By a message: its next check would be in a minute."""
    with Scene(seed) as scene:
        holder, waiter = scene.clients
        owner = SimulatedOwner(scene.world)
        lock = holder.get_lock("orders")
        scene.do(holder, lock.lock(), owner, within=5)
        waiting = scene.start(waiter, waiter.get_lock("orders").lock())
        scene.world.run(seconds=1)
        slot = slot_of("orders")
        for _ in range(3):
            moved: list[bool] = []
            to = (scene.cluster.truth.shard_of(slot) + 1) % 3
            assert scene.cluster.migrate(slot, to, lambda moved=moved: moved.append(True))
            assert scene.world.run(until=lambda moved=moved: bool(moved), seconds=10)
        scene.world.run(seconds=1.5)
        assert not waiting.done()
        scene.start(holder, lock.unlock(), owner)
        assert scene.world.run(until=waiting.done, seconds=0.5), "it was not notified"


def the_successor_of_a_master_that_stays_dead_is_found(seed: int) -> None:
    """No server is left that would say that it was replaced."""
    with Scene(seed) as scene:
        client = scene.clients[0]
        lock = client.get_lock("orders")

        async def use() -> None:
            async with lock:
                pass

        scene.do(client, use(), within=20)
        assert scene.cluster.crash(scene.cluster.shard_of("orders"), back_after=600.0, data=True)
        scene.world.run(seconds=3)
        scene.do(client, use(), within=20)


def a_wait_that_a_demotion_breaks_off_is_not_the_last(seed: int) -> None:
    """The server says that it waits no more, which is not to say that it cannot."""
    slow = Lag(least=0.6, most=0.8, stall=0.0)
    with Scene(seed, lag=slow, check_lock_synced_slaves=True, slaves_sync_timeout=0.5) as scene:
        client = scene.clients[0]
        acquiring = scene.start(client, client.get_lock("orders").lock())
        scene.world.run(seconds=scene.world.rng.uniform(0.2, 0.4))
        assert scene.cluster.fail_over(scene.cluster.shard_of("orders"))
        assert scene.world.run(until=acquiring.done, seconds=20)
        with pytest.raises(NoSyncedSlavesError):
            acquiring.outcome.result()
        assert not client.core.replicas.given_up


def a_master_that_was_replaced_is_left_before_it_knows(seed: int) -> None:
    """Although the subscriber may have found the new one already, when the requests come to ask for it."""
    with Scene(seed, sentinels=True) as scene:
        client, other = scene.clients
        runtime, world, old = client.runtime, scene.world, scene.sentinels.servers[0]

        async def wait_without_end() -> None:
            await other.get_lock("another").lock()
            await client.get_lock("another").lock()

        def subscriber_reconnects() -> None:
            for stream in list(runtime.port.streams):
                stream.broken()

        async def work() -> float:
            await world.pause_of(runtime.process, 0.5)
            assert scene.sentinels.isolate(20.0)
            world.after(world.rng.uniform(0.8, 2.5), subscriber_reconnects)
            last = world.now
            while world.now < 10.0:
                async with client.get_lock("orders"):
                    if b"orders" in old.redis.dump():
                        last = world.now
                await world.pause_of(runtime.process, 0.2)
            return last

        scene.start(client, wait_without_end())
        assert scene.do(client, work()) < 5.0


SCENES: tuple[Callable[[int], None], ...] = (
    a_waiter_hears_of_a_release_where_the_slot_went,
    the_successor_of_a_master_that_stays_dead_is_found,
    a_wait_that_a_demotion_breaks_off_is_not_the_last,
)


@pytest.mark.parametrize(
    ("scene", "seed"),
    [
        *((scene, seed) for scene in SCENES for seed in range(10)),
        *((a_master_that_was_replaced_is_left_before_it_knows, seed) for seed in range(20)),
    ],
)
def test_scene(scene, seed):
    scene(seed)


# ---- planted bugs ----------------------------------------------------------------------------------------------------

FOLLOW = ClusterMap.follow


def _repeated_at_the_old(self: ClusterMap, redirection: Moved | AskRedirect) -> Any:
    return self.owners[redirection.slot] or FOLLOW(self, redirection)


def _ask_is_moved(*args: Any) -> Moved | None:
    found = read_redirection(*args)
    return Moved(*found) if found is not None else None


def _nothing(*_: object) -> None:
    return None


def _first_address(self: Whereabouts, address: tuple[str, int]) -> None:
    if self._address is None:
        self._address = address


def _dropped_without_a_word(self: Watchdog) -> None:
    """Instead of telling the holders of what has expired."""
    for ownership in list(self._watched):
        if ownership.deadline <= self._runtime.now():
            self._watched.pop(ownership)
    self._find_earliest()


OF_BOTH = {
    "tokens go back": in_script("fenced_acquire", ("redis.call('incr', KEYS[3])", "redis.call('incr', KEYS[3]) % 7")),
    "a loss is not told": in_code(Watchdog, "_report_expired", _dropped_without_a_word),
    "a WAIT that a demotion breaks off is the last one": in_code(
        wire, "_TABLE", {**wire._TABLE, "UNBLOCKED": (ResponseError, wire.Meaning.FINAL)}
    ),
}
BUGS: dict[str, dict[str, Bug]] = {
    "cluster": {
        "a redirected request is repeated at the old node": in_code(ClusterMap, "follow", _repeated_at_the_old),
        "ASK is taken for MOVED": in_code(cluster, "read_redirection", _ask_is_moved),
        "a channel is not heard where its slot went": all_of(
            in_code(Conversation, "_displaced", _nothing), in_code(NodeSubscribers, "_relocate", _nothing)
        ),
        "a failover keeps the old address": all_of(
            in_code(ClusterMap, "suspect", _nothing), in_code(cluster, "_unreachable", lambda failure: False)
        ),
        "a request about a slot on its way is refused": all_of(
            in_code(cluster, "REROUTE", DoublingBackoff(first=1e6, maximum=1e6)), in_code(cluster, "NotNow", Rejected)
        ),
        **OF_BOTH,
    },
    "sentinels": {
        "connections to the old master are kept": in_code(Whereabouts, "has_left", lambda self, address: False),
        "the new master is forgotten at once": in_code(Whereabouts, "found", _first_address),
        "nobody asks who is the master": in_code(Whereabouts, "doubtful", lambda self, now: False),
        "a master that took over does not learn of greater tokens": in_script(
            "fenced_acquire", ("if behind then", "if behind and false then")
        ),
        **OF_BOTH,
    },
}

TESTS: dict[str, dict[str, Callable[[int], object]]] = {
    "cluster": {
        **{scene.__name__: scene for scene in SCENES},
        "calm": lambda seed: ClusterHistory(seed, CALM).run(),
        "failing": lambda seed: ClusterHistory(seed, FAILING).run(),
        "checked": lambda seed: ClusterHistory(seed, CHECKED).run(),
    },
    "sentinels": {
        "the old master": a_master_that_was_replaced_is_left_before_it_knows,
        "failing": lambda seed: SentinelHistory(seed).run(),
        "checked": lambda seed: SentinelHistory(seed, SENTINELS_CHECKED).run(),
    },
}

SEEDS = 60

#: Which seed found it the last time, where that is not among the first: tried before the others, which take longer.
FOUND_BY = {
    ("cluster", "a redirected request is repeated at the old node"): 5,
    ("cluster", "ASK is taken for MOVED"): 8,
    ("cluster", "a request about a slot on its way is refused"): 4,
    ("cluster", "a loss is not told"): 5,
    ("sentinels", "connections to the old master are kept"): 31,
    ("sentinels", "nobody asks who is the master"): 5,
    ("sentinels", "a master that took over does not learn of greater tokens"): 217,
    ("sentinels", "a WAIT that a demotion breaks off is the last one"): 139,
}


@pytest.mark.planted
@pytest.mark.parametrize(("servers", "name"), [(servers, name) for servers, bugs in BUGS.items() for name in bugs])
def test_a_planted_bug_is_found(servers, name, monkeypatch):
    def tests():
        for seed in first_of(FOUND_BY.get((servers, name)), SEEDS):
            for what, test in TESTS[servers].items():
                yield f"{what} {seed}", partial(test, seed)

    check_found(monkeypatch, name, BUGS[servers][name], tests())
