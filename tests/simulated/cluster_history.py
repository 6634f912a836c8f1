"""Random histories of locks on a cluster: slots that move, masters that fail, nodes that some clients do not reach."""

from __future__ import annotations

from pyredisson.net.slots import slot_of
from tests.simulated.engine.cluster import SimulatedCluster
from tests.simulated.engine.failover_rules import FailoverRules
from tests.simulated.engine.routed import RoutedClient, cluster_client
from tests.simulated.engine.world import Process
from tests.simulated.topology_history import TROUBLE, TopologyHistory, TopologyPlan

__all__ = ["ClusterHistory"]

#: A failover that began is over so soon, and what was replaced is back: within the time of trouble.
FAILOVER = 4.0


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
            self.sometime(lambda slot=slot, to=to: cluster.migrate(slot, to), before=TROUBLE - 2.0)  # type: ignore[misc]
        hows = ("fail_over",) if self.plan.calm else ("crash", "crash", "isolate", "fail_over")
        for _ in range(rng.randint(0, self.plan.failovers)):
            name, how = rng.choice(self.names()), rng.choice(hows)
            back, data = rng.uniform(0.2, 3.0), rng.random() < 0.5
            if how == "crash":
                self.sometime(
                    lambda name=name, back=back, data=data: cluster.crash(  # type: ignore[misc]
                        cluster.shard_of(name), back_after=back, data=data
                    ),
                    before=TROUBLE - FAILOVER,
                )
            elif how == "fail_over":
                self.sometime(lambda name=name: cluster.fail_over(cluster.shard_of(name)))  # type: ignore[misc]
            elif self.plan.isolate:
                self.sometime(
                    lambda name=name, back=back: cluster.isolate(cluster.shard_of(name), back),  # type: ignore[misc]
                    before=TROUBLE - FAILOVER,
                )
        if self.plan.calm:
            return
        for node in cluster.nodes:
            if rng.random() < 0.1:
                at = self.sometime(lambda node=node: None if node.redis.paused else node.pause())  # type: ignore[misc]
                self.world.at(at + rng.uniform(0.05, 0.4), node.resume)  # type: ignore[misc]

    def whole(self) -> bool:
        return self.cluster.whole()
