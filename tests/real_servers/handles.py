"""Handles by the names of their kinds. For processes that tests start, too: it imports nothing that takes its time."""

from __future__ import annotations

from typing import Any


def handle(client: Any, kind: str, name: str) -> Any:
    """A handle on something of a kind, by its name; the sides of a read-write lock are kinds, too."""
    if kind in ("read_lock", "write_lock"):
        return getattr(client.get_read_write_lock(name), kind)()
    return getattr(client, f"get_{kind}")(name)
