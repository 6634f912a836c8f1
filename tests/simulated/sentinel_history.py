"""Random histories of locks on a master that sentinels watch: it crashes, is cut off, or is replaced by hand."""

from __future__ import annotations

from tests.simulated.engine.failover_rules import FailoverRules
from tests.simulated.engine.routed import RoutedClient, sentinel_client
from tests.simulated.engine.sentinel import SimulatedSentinels
from tests.simulated.engine.world import Process
from tests.simulated.topology_history import TROUBLE, TopologyHistory, TopologyPlan

__all__ = ["PLAN", "SentinelHistory"]

#: A failover that began is over so soon, and what was replaced is told so: within the time of trouble.
FAILOVER = 5.0

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
                "crash": lambda away=away, data=data, best=best: sentinels.crash(  # type: ignore[misc]
                    back_after=away, data=data, best=best
                ),
                "isolate": lambda away=away, best=best: sentinels.isolate(away, best=best),  # type: ignore[misc]
                "fail_over": lambda best=best: sentinels.fail_over(best=best),  # type: ignore[misc]
            }
            self.sometime(calls[how], before=TROUBLE - FAILOVER)
        for node in sentinels.sentinels:
            if rng.random() < 0.2:
                self.world.at(rng.uniform(0.0, TROUBLE - 2.0), node.crash)
                self.world.at(TROUBLE - 1.0, lambda node=node: node.restart())  # type: ignore[misc]
        for server in sentinels.servers:
            if rng.random() < 0.1:
                at = self.sometime(lambda server=server: None if server.redis.paused else server.pause())  # type: ignore[misc]
                self.world.at(at + rng.uniform(0.05, 0.3), server.resume)

    def whole(self) -> bool:
        return self.sentinels.whole()
