"""Looking at locks from outside: what is held, who holds it, who waits. Reads only, but for ``unlock``."""

from __future__ import annotations

from pyredisson._core.holder_lookup import PresenceEntry
from pyredisson.inspection.inspector import Inspector, Unlocked, is_meant
from pyredisson.inspection.libraries import foreign_text
from pyredisson.inspection.model import (
    DOUBTFUL,
    NEVER_EXPIRES,
    NOT_UTF8,
    ClientView,
    Edge,
    LockView,
    Problem,
    Snapshot,
    WaiterView,
    WaitGraph,
    Who,
    as_json,
    wait_graph,
)
from pyredisson.inspection.servers import MAX_DOUBTFUL, describe

__all__ = [
    "DOUBTFUL",
    "MAX_DOUBTFUL",
    "NEVER_EXPIRES",
    "NOT_UTF8",
    "ClientView",
    "Edge",
    "Inspector",
    "LockView",
    "PresenceEntry",
    "Problem",
    "Snapshot",
    "Unlocked",
    "WaitGraph",
    "WaiterView",
    "Who",
    "as_json",
    "describe",
    "foreign_text",
    "is_meant",
    "wait_graph",
]
