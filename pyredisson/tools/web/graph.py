"""The wait-for graph, drawn as SVG: who waits for whom. Cycles, which are deadlocks, stand out."""

from __future__ import annotations

from pyredisson.tools.web.seen import Seen

__all__ = ["draw_graph"]


def draw_graph(seen: Seen) -> None:
    """Draw the graph of a snapshot."""
    return
