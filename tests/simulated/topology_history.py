"""Random histories of locks whose master is not always the same: on a cluster, and behind sentinels.

On a cluster slots move, masters fail, and some clients do not reach some nodes. Behind sentinels the master crashes, is
cut off, or is replaced by hand.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyredisson._net.topology import slot_of
from pyredisson.config import Config
from tests.simulated.engine.checkers import Violation
from tests.simulated.engine.cluster import SimulatedCluster
from tests.simulated.engine.failover_rules import FailoverRules
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.network import Network
from tests.simulated.engine.replication import Lag
from tests.simulated.engine.routed import RoutedClient, cluster_client, sentinel_client
from tests.simulated.engine.sentinel import SimulatedSentinels
from tests.simulated.engine.world import Process
from tests.simulated.history import HandleHistory, Plan
from tests.simulated.seeds import runs

CONFIG = Config(
    lock_watchdog_timeout=6.0,
    timeout=0.9,
    max_wait_without_check=8.0,
    ping_interval=2.0,
    ping_timeout=1.0,
    slaves_sync_timeout=0.4,
    check_lock_synced_slaves=False,
)

NETWORK = Faults(
    lose_request=0.01,
    lose_reply=0.02,
    duplicate=0.01,
    straggle=0.01,
    straggle_seconds=5.0,
    reset=0.01,
    delay=0.03,
    delay_seconds=0.2,
    forget_scripts=0.01,
    lose_message=0.03,
    drop_subscriber=0.03,
)

#: When the last fault is over, in seconds.
TROUBLE = 9.0

#: After the last fault, until connections that were cut are known to be dead and made anew.
SETTLING = 4.0

#: For so long after the last fault users begin something new; and all must have finished so long after that.
NEWS = 8.0
BOUND = 40.0


@dataclass(frozen=True)
class TopologyPlan(Plan):
    """What a history consists of.

    Attributes:
        locks: How many locks there are.
        calm: Slots may move, and nothing goes wrong: no call may fail.
        migrations: How many slots move, at most.
        failovers: How many masters fail, at most.
        isolate: Whether a master may be cut off from the others.
        lag: How late replicas are.
        kinds: The kinds of the locks, in turn.
    """

    faults: Faults = NETWORK
    config: Config = CONFIG
    locks: int = 2
    calm: bool = False
    migrations: int = 4
    failovers: int = 0
    isolate: bool = True
    lag: Lag = field(default_factory=Lag)
    kinds: tuple[str, ...] = ("lock", "fenced_lock")


class TopologyHistory(HandleHistory):
    """One history, from its seed. Subclasses say what the servers are."""

    plan: TopologyPlan
    trouble = TROUBLE
    leases = (0.4, 5.0)
    longest_rest = 1.0

    def __init__(self, seed: int, plan: TopologyPlan) -> None:
        super().__init__(seed, plan, nodes=0)
        self.network = Network(self.world)

    # ---- what each set of servers says ---------------------------------------------------------------------------

    @abstractmethod
    def client(self, process: Process) -> RoutedClient:
        """Return a client of the servers."""

    @abstractmethod
    def watch(self) -> FailoverRules:
        """See :class:`History`."""

    @abstractmethod
    def disturb_servers(self) -> None:
        """Let something happen to the servers."""

    @abstractmethod
    def whole(self) -> bool:
        """Return whether all servers are up and connected."""

    # ---- the history ---------------------------------------------------------------------------------------------

    def clients_in(self, process: Process) -> list[Any]:
        return [self.client(process)]

    def live(self) -> None:
        world = self.world
        world.run(seconds=TROUBLE)
        world.faults = Faults()
        self.network.heal_all()
        world.run(until=self.whole, seconds=8)
        assert self.whole(), "the servers have not come together again"
        self.rules.quiet_from = world.now + SETTLING
        assert world.run(until=self.over, seconds=NEWS + BOUND), f"somebody waits for ever: {self.open()}"

    def remains(self, left: list[str]) -> list[str]:
        return [each for each in left if "redisson_lock_token" not in each]

    def check(self) -> None:
        super().check()
        if self.plan.config.check_lock_synced_slaves:
            gave_up = [client for client in self.clients if client.core.replicas.given_up]
            assert not gave_up, f"replicas are waited for no more by {gave_up}"
        result, rules = self.result, self.rules
        result.grants, result.tokens, result.overlaps = rules.grants, rules.tokens, dict(rules.overlaps)

    def disturb(self) -> None:
        if not self.plan.calm:
            self._disturb_clients()
        self.disturb_servers()

    def _disturb_clients(self) -> None:
        for client in self.clients:
            process = client.runtime.process
            self.perhaps(0.2, process.pause, process.resume, (0.1, 3.0), before=TROUBLE - 3.0)
            self.perhaps(0.1, process.crash)
            for host in self.network.hosts.values():
                self.perhaps(
                    0.1,
                    lambda process=process, host=host: self.network.cut(process, host),
                    lambda process=process, host=host: self.network.heal(process, host),
                    (0.1, 3.0),
                )
        self.cancel_some(0.25, 80)

    # ---- users ---------------------------------------------------------------------------------------------------

    def rounds(self) -> Iterable[int]:
        return itertools.takewhile(lambda _: self.world.now < TROUBLE + NEWS, itertools.count())

    def handle(self, clients: list[Any], number: int, previous: Any) -> Any:
        which = self.world.rng.randrange(self.plan.locks)
        kind = self.plan.kinds[which % len(self.plan.kinds)]
        return getattr(clients[0], f"get_{kind}")(f"{kind}{which}")

    def failed(self, error: Exception, began: float) -> None:
        if began > self.rules.quiet_from or self.plan.calm:
            raise Violation(f"a call failed although all is well: {error!r}") from error

    def uses(self, lock: Any) -> tuple[Callable[[Process, Any, float], Awaitable[None]], ...]:
        return (
            self.block,
            self.try_lock,
            self.nested_try_lock,
            self.hold,
            self._tokens if hasattr(lock, "lock_and_get_token") else self.lease_then_renewed,
            self.lease_then_renewed,
        )

    async def _tokens(self, process: Process, lock: Any, lease: float) -> None:
        token = await lock.lock_and_get_token()
        assert await lock.try_lock_and_get_token() == token, "a re-entry has another token than the hold it joins"
        await self.work(process)
        await lock.unlock()
        await lock.unlock()


# ---- on a cluster ----------------------------------------------------------------------------------------------------

#: A failover that began is over so soon, and what was replaced is back: within the time of trouble.
CLUSTER_FAILOVER = 4.0


class ClusterHistory(TopologyHistory):
    """One history on a cluster of three masters with a replica each."""

    def __init__(self, seed: int, plan: TopologyPlan | None = None) -> None:
        super().__init__(seed, plan or TopologyPlan())
        sharded = self.plan.config.sharded_subscription_mode != "OFF" and self.world.rng.random() < 0.8
        self.cluster = SimulatedCluster(self.world, self.network, lag=self.plan.lag, shards_for_messages=sharded)
        rate = self.rate()
        for node in self.cluster.nodes:
            node.rate = rate

    def client(self, process: Process) -> RoutedClient:
        return cluster_client(process, self.cluster, config=self.plan.config)

    def watch(self) -> FailoverRules:
        rules = FailoverRules(
            self.world, self.clients, self.cluster.trusted, always_growing=self.plan.config.fence_from_clock
        )
        self.cluster.on_loss.append(rules.failed_over)
        return rules

    def names(self) -> list[str]:
        """The names of the locks."""
        kinds = self.plan.kinds
        return [f"{kinds[number % len(kinds)]}{number}" for number in range(self.plan.locks)]

    def disturb_servers(self) -> None:
        rng, cluster = self.world.rng, self.cluster
        for _ in range(rng.randint(0, self.plan.migrations)):
            slot = slot_of(rng.choice(self.names()))
            to = rng.randrange(len(cluster.shards))
            self.sometime(lambda slot=slot, to=to: cluster.migrate(slot, to), before=TROUBLE - 2.0)
        hows = ("fail_over",) if self.plan.calm else ("crash", "crash", "isolate", "fail_over")
        for _ in range(rng.randint(0, self.plan.failovers)):
            name, how = rng.choice(self.names()), rng.choice(hows)
            back, data = rng.uniform(0.2, 3.0), rng.random() < 0.5
            if how == "crash":
                self.sometime(
                    lambda name=name, back=back, data=data: cluster.crash(
                        cluster.shard_of(name), back_after=back, data=data
                    ),
                    before=TROUBLE - CLUSTER_FAILOVER,
                )
            elif how == "fail_over":
                self.sometime(lambda name=name: cluster.fail_over(cluster.shard_of(name)))
            elif self.plan.isolate:
                self.sometime(
                    lambda name=name, back=back: cluster.isolate(cluster.shard_of(name), back),
                    before=TROUBLE - CLUSTER_FAILOVER,
                )
        if self.plan.calm:
            return
        for node in cluster.nodes:
            if rng.random() < 0.1:
                at = self.sometime(lambda node=node: None if node.redis.paused else node.pause())
                self.world.at(at + rng.uniform(0.05, 0.4), node.resume)

    def whole(self) -> bool:
        return self.cluster.whole()


# ---- behind sentinels ------------------------------------------------------------------------------------------------

#: A failover that began is over so soon, and what was replaced is told so: within the time of trouble.
SENTINEL_FAILOVER = 5.0

PLAN = TopologyPlan(failovers=2, migrations=0)


class SentinelHistory(TopologyHistory):
    """One history on a master with two replicas and three sentinels."""

    def __init__(self, seed: int, plan: TopologyPlan | None = None) -> None:
        super().__init__(seed, plan or PLAN)
        self.sentinels = SimulatedSentinels(self.world, self.network, lag=self.plan.lag)
        rate = self.rate()
        for node in (*self.sentinels.servers, *self.sentinels.sentinels):
            node.rate = rate

    def client(self, process: Process) -> RoutedClient:
        return sentinel_client(process, self.network, self.sentinels.url, config=self.plan.config)

    def watch(self) -> FailoverRules:
        rules = FailoverRules(
            self.world, self.clients, self.sentinels.trusted, always_growing=self.plan.config.fence_from_clock
        )
        self.sentinels.on_loss.append(rules.failed_over)
        return rules

    def disturb_servers(self) -> None:
        rng, sentinels = self.world.rng, self.sentinels
        hows = ("crash", "crash", "isolate", "fail_over") if self.plan.isolate else ("crash",)
        for _ in range(rng.randint(0, self.plan.failovers)):
            how, away, data, best = rng.choice(hows), rng.uniform(0.2, 3.0), rng.random() < 0.5, rng.random() < 0.7
            calls = {
                "crash": lambda away=away, data=data, best=best: sentinels.crash(back_after=away, data=data, best=best),
                "isolate": lambda away=away, best=best: sentinels.isolate(away, best=best),
                "fail_over": lambda best=best: sentinels.fail_over(best=best),
            }
            self.sometime(calls[how], before=TROUBLE - SENTINEL_FAILOVER)
        for node in sentinels.sentinels:
            if rng.random() < 0.2:
                self.world.at(rng.uniform(0.0, TROUBLE - 2.0), node.crash)
                self.world.at(TROUBLE - 1.0, lambda node=node: node.restart())
        for server in sentinels.servers:
            if rng.random() < 0.1:
                at = self.sometime(lambda server=server: None if server.redis.paused else server.pause())
                self.world.at(at + rng.uniform(0.05, 0.3), server.resume)

    def whole(self) -> bool:
        return self.sentinels.whole()


# ---- what happened in them ------------------------------------------------------------------------------------------


def counted(history: Callable[[int], TopologyHistory], seeds: Iterable[int]) -> Counter[str]:
    """Run the history of each seed, and count what happened in all of them. Fails as ``runs`` does."""
    seen: Counter[str] = Counter()
    for result in runs(history, seeds):
        seen.update(result.world.counts)
        seen.update(grants=result.grants, tokens=result.tokens, unsynced=result.unsynced)
        seen.update({f"overlap by {cause}": count for cause, count in result.overlaps.items()})
    assert seen["grants"] > 0
    assert seen["tokens"] > 0
    return seen


def overlaps_of(seen: Counter[str]) -> set[str]:
    """The causes for which two were in at once."""
    return {name.removeprefix("overlap by ") for name in seen if name.startswith("overlap by ")}
