"""A seed is a history: the same one in each run and in each process."""

from __future__ import annotations

import ast
from typing import Any

from tests.command_line import run_python
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
    traces, again = (run_python(code, PYTHONHASHSEED=seed).stdout for seed in "12")
    assert traces == again
    assert len(set(ast.literal_eval(traces))) == len(HISTORIES)
