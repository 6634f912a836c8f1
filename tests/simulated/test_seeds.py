"""A seed is a history: the same one in each run and in each process."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import Any

from tests.simulated.lock_history import LockHistory, LockPlan, TokenHistory
from tests.simulated.permit_history import PermitHistory
from tests.simulated.quorum_history import QuorumHistory
from tests.simulated.test_topology_histories import FAILING, SENTINELS_CHECKED
from tests.simulated.topology_history import ClusterHistory, SentinelHistory

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
    return history(seed, *plan).run().world.trace


def test_a_seed_is_the_same_history_in_another_process():
    code = "from tests.simulated.test_seeds import HISTORIES, trace\nprint([trace(name, 7) for name in HISTORIES])"

    def run(hash_seed):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    traces = run("1")
    assert traces == run("2")
    assert len(set(ast.literal_eval(traces))) == len(HISTORIES)
