"""Locks on a simulated cluster: histories, scenes, and planted bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pyredisson.core.background.watchdog import Watchdog
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.failures import Rejected
from pyredisson.errors import NoSyncedSlavesError
from pyredisson.net import cluster, resp
from pyredisson.net.cluster_map import ClusterMap
from pyredisson.net.conversation import Conversation
from pyredisson.net.node_subscribers import NodeSubscribers
from pyredisson.net.slots import AskRedirect, Moved, read_redirection, slot_of
from tests.simulated.cluster_history import ClusterHistory
from tests.simulated.engine.cluster import SimulatedCluster
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.network import Network
from tests.simulated.engine.replication import Lag
from tests.simulated.engine.routed import RoutedClient, cluster_client
from tests.simulated.engine.runtime import SimulatedOwner
from tests.simulated.engine.world import Task, World
from tests.simulated.history import quiet
from tests.simulated.planted import finding, in_script
from tests.simulated.seeds import first_of
from tests.simulated.topology_history import CONFIG, TopologyPlan, counted, overlaps_of
from tests.volumes import Volume

CHUNKS = 8

#: Slots move and replicas take over, without anything going wrong.
CALM = TopologyPlan(failovers=2, faults=Faults(), calm=True, config=replace(CONFIG, timeout=3.0))

#: Masters fail, and nobody waits for replicas.
FAILING = TopologyPlan(failovers=3)

#: Masters fail, but none of them goes on alone; and whatever was taken, the replica that takes over knows of it.
SYNCED = TopologyPlan(failovers=3, isolate=False, config=replace(CONFIG, min_replicas=1))

#: The same, by the default settings: where replicas are connected they are waited for.
CHECKED = TopologyPlan(failovers=3, isolate=False, config=replace(CONFIG, check_lock_synced_slaves=True))

#: Tokens follow the servers' clock.
CLOCKED = replace(FAILING, kinds=("fenced_lock",), isolate=False, config=replace(CONFIG, fence_from_clock=True))


# ---- histories -------------------------------------------------------------------------------------------------------


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule_while_slots_move(chunk: int, volume: Volume) -> None:
    """Nothing is lost by moving slots, so nobody is ever in at once."""
    seen = counted(partial(ClusterHistory, plan=TopologyPlan()), range(chunk, volume(80, full=600), CHUNKS))
    assert overlaps_of(seen) == set()
    assert seen["migrate"] > 0, "no slot was moved, so nothing was tested"


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_each_overlap_has_a_cause_where_masters_fail(chunk: int, volume: Volume) -> None:
    seen = counted(partial(ClusterHistory, plan=FAILING), range(chunk, volume(80, full=600), CHUNKS))
    assert overlaps_of(seen) <= {"hold", "lease", "isolated"}
    assert seen["promote"] > 0, "no master was replaced, so nothing was tested"


#: A request to a node that the map forgot meanwhile ended with the error of a closed client.
ONCE_FOUND = (51000069, 51000096)


@pytest.mark.parametrize("seed", ONCE_FOUND)
def test_seeds_that_found_a_bug_before(seed: int) -> None:
    ClusterHistory(seed, FAILING).run()


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS // 4))
@pytest.mark.parametrize("plan", [SYNCED, CHECKED, CLOCKED], ids=["min_replicas", "checked", "tokens from the clock"])
def test_holds_that_replicas_acknowledged_survive_a_failover(plan: TopologyPlan, chunk: int, volume: Volume) -> None:
    """A hold that the promoted replica has acknowledged is known there; tokens that follow the clock never go back."""
    seen = counted(partial(ClusterHistory, plan=plan), range(chunk, volume(30, full=200), CHUNKS // 4))
    assert seen["promote"] > 0
    if plan.config.min_replicas:
        assert overlaps_of(seen) <= {"lease"}  # A renewal is never waited for.
        assert seen["WAIT"] > 0


def test_an_overlap_can_be_seen() -> None:
    """A regime in which nobody is ever in at once, though locks are lost, would not look."""
    overlaps: Counter[str] = Counter()
    for seed in first_of(113, 600):  # That showed one the last time.
        overlaps.update(ClusterHistory(seed, FAILING).run().overlaps)
        if overlaps["hold"]:
            return
    raise AssertionError("no lost lock was ever taken by another while its holder believed in it")


def test_while_all_is_well_no_call_fails() -> None:
    """Slots that move and replicas that take over by command are no reason for an error."""
    for seed in range(40):
        result = ClusterHistory(seed, CALM).run()
        assert (result.unknown, result.errors, result.overlaps) == (0, 0, {}), f"seed {seed}: {result}"


def test_without_faults_nothing_is_lost_or_unknown() -> None:
    for seed in range(10):
        result = ClusterHistory(seed, quiet(TopologyPlan())).run()
        assert (result.unknown, result.errors) == (0, 0), f"seed {seed}: {result}"


# ---- scenes ----------------------------------------------------------------------------------------------------------


class Scene:
    """A cluster and two clients; nothing is random but the time that things take."""

    def __init__(self, seed: int = 0, lag: Lag | None = None, **changes: Any) -> None:
        self.world = World(seed, nodes=0)
        self.cluster = SimulatedCluster(self.world, Network(self.world), lag=lag)
        config = replace(CONFIG, **{"lock_watchdog_timeout": 60.0, "max_wait_without_check": 60.0, **changes})
        self.clients = [cluster_client(self.world.process(name), self.cluster, config=config) for name in ("a", "b")]

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.end()

    def start(self, client: RoutedClient, work: Coroutine[Any, Any, Any]) -> Task[Any]:
        """Let a client do something."""
        return client.runtime.process.start(work, "task")

    def do(self, client: RoutedClient, work: Coroutine[Any, Any, Any], within: float = 20.0) -> Any:
        """Let a client do something, and wait for its end."""
        task = self.start(client, work)
        assert self.world.run(until=task.done, seconds=within), f"not within {within} s"
        return task.outcome.result()


def a_waiter_hears_of_a_release_where_the_slot_went(seed: int) -> None:
    """By a message: its next look would be in a minute."""
    with Scene(seed) as scene:
        holder, waiter = scene.clients
        owner = SimulatedOwner(scene.world)
        lock = holder.get_lock("orders")
        taken = holder.runtime.process.start(lock.lock(), "take", owner)
        scene.world.run(until=taken.done, seconds=5)
        waiting = scene.start(waiter, waiter.get_lock("orders").lock())
        scene.world.run(seconds=1)
        slot = slot_of("orders")
        for _ in range(3):
            moved: list[bool] = []
            to = (scene.cluster.truth.shard_of(slot) + 1) % 3
            assert scene.cluster.migrate(slot, to, lambda moved=moved: moved.append(True))  # type: ignore[misc]
            assert scene.world.run(until=lambda moved=moved: bool(moved), seconds=10)  # type: ignore[misc]
        scene.world.run(seconds=1.5)
        assert not waiting.done()
        holder.runtime.process.start(lock.unlock(), "give", owner)
        assert scene.world.run(until=waiting.done, seconds=0.5), "nobody told it"


def the_successor_of_a_master_that_stays_dead_is_found(seed: int) -> None:
    """Nobody is left who would say that it was replaced."""
    with Scene(seed) as scene:
        client = scene.clients[0]
        lock = client.get_lock("orders")

        async def use() -> None:
            async with lock:
                pass

        scene.do(client, use())
        assert scene.cluster.crash(scene.cluster.shard_of("orders"), back_after=600.0, data=True)
        scene.world.run(seconds=3)
        scene.do(client, use())


def a_wait_that_a_demotion_breaks_off_is_not_the_last(seed: int) -> None:
    """The server says that it waits no more, which is not to say that it cannot."""
    slow = Lag(least=0.6, most=0.8, stall=0.0)
    with Scene(seed, slow, check_lock_synced_slaves=True, slaves_sync_timeout=0.5) as scene:
        client = scene.clients[0]
        lock = client.get_lock("orders")
        taking = scene.start(client, lock.lock())
        scene.world.run(seconds=scene.world.rng.uniform(0.2, 0.4))
        assert scene.cluster.fail_over(scene.cluster.shard_of("orders"))
        assert scene.world.run(until=taking.done, seconds=20)
        with pytest.raises(NoSyncedSlavesError):
            taking.outcome.result()
        assert not client.core.replicas.given_up


SCENES: tuple[Callable[[int], None], ...] = (
    a_waiter_hears_of_a_release_where_the_slot_went,
    the_successor_of_a_master_that_stays_dead_is_found,
    a_wait_that_a_demotion_breaks_off_is_not_the_last,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
@pytest.mark.parametrize("seed", range(10))
def test_scene(scene: Callable[[int], None], seed: int) -> None:
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


def _channels_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Conversation, "_displaced", _nothing)
    patch.setattr(NodeSubscribers, "_relocate", _nothing)


def _old_address(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterMap, "suspect", _nothing)
    patch.setattr(cluster, "_unreachable", lambda failure: False)


def _not_asked_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cluster, "RETRY", DoublingBackoff(first=1e6, maximum=1e6))
    patch.setattr(cluster, "NotNow", Rejected)


def dropped_without_a_word(self: Watchdog) -> None:
    """Instead of telling the holders of what has expired."""
    for ownership in list(self._watched):
        if ownership.deadline <= self._runtime.now():
            self.unwatch(ownership)
    self._find_earliest()


BUGS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "a redirected request is repeated at the old node": lambda patch: patch.setattr(
        ClusterMap, "follow", _repeated_at_the_old
    ),
    "ASK is taken for MOVED": lambda patch: patch.setattr(cluster, "read_redirection", _ask_is_moved),
    "a channel is not heard where its slot went": _channels_stay,
    "a failover keeps the old address": _old_address,
    "a request about a slot on its way is refused": _not_asked_again,
    "tokens go back": in_script(
        "fenced_acquire", ("redis.call('incr', KEYS[3])", "redis.call('incr', KEYS[3]) % 7")
    ).plant,
    "a loss is not told": lambda patch: patch.setattr(Watchdog, "_report_expired", dropped_without_a_word),
    "a WAIT that a demotion breaks off is the last one": lambda patch: patch.setattr(
        resp, "_NOT_NOW", resp._NOT_NOW - {"UNBLOCKED"}
    ),
}

SEEDS = 60

#: Which seed found it the last time, where that is not among the first: tried before the others, which take longer.
FOUND_BY = {
    "a redirected request is repeated at the old node": 5,
    "ASK is taken for MOVED": 8,
    "a request about a slot on its way is refused": 4,
    "a loss is not told": 5,
}


def _found(bug: str) -> str | None:
    tests: dict[str, Callable[[int], object]] = {scene.__name__: scene for scene in SCENES}
    for name, plan in {"calm": CALM, "failing": FAILING, "checked": CHECKED}.items():
        tests[f"history, {name}"] = lambda seed, plan=plan: ClusterHistory(seed, plan).run()  # type: ignore[misc]
    for seed in first_of(FOUND_BY.get(bug), SEEDS):
        for name, test in tests.items():
            try:
                test(seed)
            except BaseException as error:
                return f"{name} {seed}: {finding(error)}: {error}"
    return None


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_the_cluster_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name](monkeypatch)
    found = _found(name)
    print(f"{name}: {found}")
    assert found is not None, "nothing found it"
