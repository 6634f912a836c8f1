"""What a quorum decides: plain functions of what the nodes replied.

Source: "Distributed Locks with Redis" (redis.io), "The Redlock Algorithm".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

#: The least time that a node has to answer: a two-hundredth of the lease, within these bounds, in seconds.
NODE_TIMEOUT_SHARE = 1 / 200
NODE_TIMEOUT_MIN = 0.005
NODE_TIMEOUT_MAX = 0.05

#: The time for a node with longer round trips: this number of them, but at most this share of the lease.
NODE_TIMEOUT_ROUND_TRIPS = 4
NODE_TIMEOUT_LARGEST_SHARE = 1 / 10

#: The random pause between two rounds: this range at first, in seconds, doubled after each lost round, to at most that.
SPREAD_MIN = 0.002
SPREAD_MAX = 0.25


def majority(nodes: int) -> int:
    """Return the least number of nodes such that any two such sets have one in common."""
    return nodes // 2 + 1


def weakness_of(nodes: int, quorum: int) -> str | None:
    """Say what a majority of the nodes tolerates, if fewer nodes would do as well; else ``None``."""
    if quorum != majority(nodes) or (nodes % 2 and nodes > 1):
        return None
    spare = nodes - quorum
    failed = f"{spare or 'no'} failed node{'s' * (spare > 1)}"
    fewer = f", as a quorum of {nodes - 1} would" if nodes > 2 else ", as a lock on one server"
    return f"a quorum of {nodes} node{'s' * (nodes > 1)} tolerates {failed}{fewer}: use three or five nodes"


@lru_cache(maxsize=100)
def node_timeout(lease_ms: int, configured: float | None, round_trip: float) -> float:
    """Seconds that one node has to answer.

    Args:
        lease_ms: The lease that is asked for.
        configured: ``Config.quorum_node_timeout``.
        round_trip: Seconds that a request to this node takes; 0: not known.
    """
    if configured is not None:
        return configured
    lease = lease_ms / 1000
    least = min(max(lease * NODE_TIMEOUT_SHARE, NODE_TIMEOUT_MIN), NODE_TIMEOUT_MAX)
    return max(least, min(round_trip * NODE_TIMEOUT_ROUND_TRIPS, lease * NODE_TIMEOUT_LARGEST_SHARE))


def certain_until(deadlines: Iterable[float], quorum: int) -> float:
    """Until when a quorum is certain, if each of these nodes is until then; minus infinity if they are too few."""
    latest = sorted(deadlines, reverse=True)
    return latest[quorum - 1] if len(latest) >= quorum else -math.inf


def free_in_ms(refusals: Sequence[int | None], free: int, quorum: int) -> int | None:
    """For how many ms a quorum is sure to be refused: until enough of those that refused are free by time alone.

    Args:
        refusals: For how long each of them is held by another; ``None``: until a release.
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
    """Return the longest random pause before the next round, in seconds, after a number of lost rounds in a row.

    Clients that were woken by one message would otherwise ask at the same moment again and again, and none would win.
    """
    return min(max(SPREAD_MIN, round_took) * 2.0 ** min(rounds, 10), SPREAD_MAX)
