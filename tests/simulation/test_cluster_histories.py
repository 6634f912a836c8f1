"""Locks on a simulated cluster: histories, scenes, and planted bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.cluster_histories import ClusterHistory
from tests.simulation.seeds import runs
from tests.simulation.topology_histories import Plan, quiet

CHUNKS = 8


# ---- histories -------------------------------------------------------------------------------------------------------


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_breaks_a_rule_while_slots_move(chunk: int, volume: Callable[[int], int]) -> None:
    """Nothing is lost by moving slots, so nobody is ever in at once."""
    seen: Counter[str] = Counter()
    for result in runs(ClusterHistory, range(chunk, volume(4_000), CHUNKS)):
        assert result.overlaps == {}
        seen.update(result.world.counts)
        seen.update(grants=result.grants, tokens=result.tokens)
    assert seen["grants"] > 0
    assert seen["tokens"] > 0
    assert seen["migrate"] > 0, "no slot was moved, so nothing was tested"


def test_without_faults_nothing_is_lost_or_unknown() -> None:
    for seed in range(10):
        result = ClusterHistory(seed, quiet(Plan())).run()
        assert (result.unknown, result.errors) == (0, 0), f"seed {seed}: {result}"


def test_a_seed_is_a_history_of_the_cluster() -> None:
    assert ClusterHistory(7).run().world.trace == ClusterHistory(7).run().world.trace
    assert ClusterHistory(7).run().world.trace != ClusterHistory(8).run().world.trace
