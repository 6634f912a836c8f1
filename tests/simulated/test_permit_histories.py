"""Histories of semaphores and latches in virtual time: no seed loses or invents a permit, or takes a count twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulated.history import quiet
from tests.simulated.permit_history import CONFIG, PermitHistory, PermitPlan
from tests.simulated.seeds import runs
from tests.volumes import Volume

CHUNKS = 4


@pytest.mark.volume
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_loses_or_invents_anything(chunk: int, volume: Volume) -> None:
    taken = unknown = cancelled = 0
    for result in runs(PermitHistory, range(chunk, volume(40, full=2_000), CHUNKS)):
        taken += result.grants
        unknown += result.unknown
        cancelled += result.cancelled
    assert taken > 0
    assert unknown > 0, "nothing was ever in doubt, so nothing was tested"
    assert cancelled > 0


def test_without_faults_nothing_is_ever_unknown() -> None:
    plan = quiet(PermitPlan(config=replace(CONFIG, max_wait_without_check=30.0)))
    for seed in range(30):
        history = PermitHistory(seed, plan)
        result = history.run()
        assert (result.unknown, result.cancelled) == (0, 0), f"seed {seed}"
        assert result.grants > 0
        assert not any(client.core.subscriptions.last_resorts for client in history.clients), f"seed {seed}"
