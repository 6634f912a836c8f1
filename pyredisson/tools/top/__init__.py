"""``pyredisson top``: what all locks do, once a second. It only reads, and keeps its load on the server small."""

from __future__ import annotations

from pyredisson.tools.top.run import run_top

__all__ = ["run_top"]
