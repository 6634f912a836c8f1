"""Looking at locks from outside: what is held, who holds it, who waits. Reads only, but for ``unlock``."""

from __future__ import annotations

from pyredisson.tools.inspection.foreign import foreign_text
from pyredisson.tools.inspection.graph import Edge, WaitGraph, wait_graph
from pyredisson.tools.inspection.inspector import Inspector, is_meant
from pyredisson.tools.inspection.model import ClientView, LockView, PresenceEntry, Snapshot, WaiterView, Who, as_json
from pyredisson.tools.inspection.replies import MAX_DOUBTFUL
from pyredisson.tools.inspection.servers import describe
from pyredisson.tools.inspection.unlock import Unlocked
from pyredisson.tools.inspection.views import DOUBTFUL, NEVER_EXPIRES, NOT_UTF8

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
