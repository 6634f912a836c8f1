"""The clients of this process: one of them may hold what another one waited for in vain."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore

#: Those that were closed, and not collected, as well.
known: weakref.WeakSet[ClientCore] = weakref.WeakSet()


def clients() -> list[ClientCore]:
    """Return the clients that are neither closed nor gone; none if another thread makes one at this moment."""
    try:
        return [client for client in list(known) if not client.closed]
    except RuntimeError:  # The set has changed while it was copied.
        return []
