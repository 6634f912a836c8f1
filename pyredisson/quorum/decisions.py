"""What a quorum decides: plain functions over what the nodes said.

Source: "Distributed Locks with Redis" (redis.io), "The Redlock Algorithm".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["certain_until", "free_in_ms", "majority", "node_timeout", "spread"]

#: What a node gets to answer: a two-hundredth of the lease, within these bounds, in seconds.
NODE_TIMEOUT_SHARE = 1 / 200
NODE_TIMEOUT_MIN = 0.005
NODE_TIMEOUT_MAX = 0.05

#: Between two rounds: at least so much chance, in seconds, doubled each time that votes were split, up to so much.
SPREAD_MIN = 0.002
SPREAD_MAX = 0.25


def majority(nodes: int) -> int:
    """How many of so many nodes no two holders can have without one in common."""
    return nodes // 2 + 1


def node_timeout(lease_ms: int, configured: float | None) -> float:
    """Seconds that one node gets to answer; ``configured`` is ``Config.quorum_node_timeout``."""
    if configured is not None:
        return configured
    return min(max(lease_ms / 1000 * NODE_TIMEOUT_SHARE, NODE_TIMEOUT_MIN), NODE_TIMEOUT_MAX)


def certain_until(deadlines: Iterable[float], quorum: int) -> float:
    """Until when a quorum is certain, if each of these nodes is until then; minus infinity if they are too few."""
    latest = sorted(deadlines, reverse=True)
    return latest[quorum - 1] if len(latest) >= quorum else -math.inf


def free_in_ms(refusals: Sequence[int | None], free: int, quorum: int) -> int | None:
    """For how many ms a quorum is sure to be refused: until enough of those that refused are free by time alone.

    Args:
        refusals: For how long each of them is another's; ``None``: until a release.
        free: How many nodes did not refuse.
        quorum: How many are needed.

    Returns:
        Milliseconds, 0 if it is free; ``None``: until a release.
    """
    missing = quorum - free
    if missing <= 0:
        return 0
    ends = sorted(ms for ms in refusals if ms is not None)
    return ends[missing - 1] if missing <= len(ends) else None


def spread(rounds: int, round_took: float) -> float:
    """Over how many seconds the next round is to be put by chance, after so many in a row were lost.

    Clients that were woken by one message would otherwise ask at the same moment again and again, and none would win.
    """
    return min(max(SPREAD_MIN, round_took) * 2.0 ** min(rounds, 10), SPREAD_MAX)
