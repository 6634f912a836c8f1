"""Looking at locks from outside: what is held, who holds it, who waits. Reads only, but for ``unlock``."""

from __future__ import annotations

from pyredisson._core.holder_lookup import PresenceEntry
from pyredisson.inspection.foreign import foreign_text
from pyredisson.inspection.graph import Edge, WaitGraph, wait_graph
from pyredisson.inspection.inspector import Inspector, is_meant
from pyredisson.inspection.model import (
    ClientView,
    LockView,
    Problem,
    Snapshot,
    WaiterView,
    Who,
    as_json,
)
from pyredisson.inspection.replies import MAX_DOUBTFUL
from pyredisson.inspection.servers import describe
from pyredisson.inspection.unlock import Unlocked
from pyredisson.inspection.views import DOUBTFUL, NEVER_EXPIRES, NOT_UTF8

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
