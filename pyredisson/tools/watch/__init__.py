"""``pyredisson watch``: what happens to locks, as it happens. It only reads, and never changes a setting."""

from __future__ import annotations

from pyredisson.tools.watch.run import run_watch

__all__ = ["run_watch"]
