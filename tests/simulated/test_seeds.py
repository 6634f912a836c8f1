"""A seed is a history: the same one in each run, in each process, and whenever garbage is collected."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.simulated.cluster_history import ClusterHistory
from tests.simulated.lock_history import LockHistory, LockPlan, TokenHistory
from tests.simulated.permit_history import PermitHistory
from tests.simulated.quorum_history import QuorumHistory
from tests.simulated.sentinel_history import SentinelHistory
from tests.simulated.test_topology_histories import FAILING, SENTINELS_CHECKED

#: The histories, and their plans; waiters of a spin lock and of a fair one draw their pauses in ways of their own.
HISTORIES: dict[str, tuple[Any, ...]] = {
    "lock": (LockHistory,),
    "spin lock": (LockHistory, LockPlan(kind="spin_lock")),
    "fair lock": (LockHistory, LockPlan(kind="fair_lock")),
    "token lock": (TokenHistory,),
    "permits": (PermitHistory,),
    "quorum": (QuorumHistory,),
    "cluster": (ClusterHistory, FAILING),
    "sentinels": (SentinelHistory, SENTINELS_CHECKED),
}


def trace(name: str, seed: int) -> str:
    history, *plan = HISTORIES[name]
    return history(seed, *plan).run().world.trace  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", HISTORIES)
def test_a_seed_is_a_history(name: str) -> None:
    assert trace(name, 7) == trace(name, 7)
    assert trace(name, 7) != trace(name, 8)


def test_a_seed_is_the_same_history_in_another_process() -> None:
    code = (
        "from tests.simulated.test_seeds import HISTORIES, trace\n"
        "print([trace(name, seed) for name in HISTORIES for seed in range(3)])"
    )

    def run(hash_seed: str) -> str:
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("1") == run("2")


def test_a_seed_is_the_same_history_whenever_garbage_is_collected() -> None:
    """Cyclic garbage with finalizers is part of this history: collected at other moments, it was another one."""
    thresholds = gc.get_threshold()
    traces = set()
    try:
        for threshold in (50, 700, 1_000_000):
            gc.set_threshold(threshold, *thresholds[1:])
            traces.add(SentinelHistory(26).run().world.trace)
    finally:
        gc.set_threshold(*thresholds)
    assert len(traces) == 1
