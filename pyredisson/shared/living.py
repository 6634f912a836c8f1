"""The clients of this process: one of them may hold what another one waited for in vain."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

_clients: weakref.WeakSet[ClientCore] = weakref.WeakSet()


def add(client: ClientCore) -> None:
    """Note a client that was made."""
    _clients.add(client)


def clients() -> list[ClientCore]:
    """Return the clients that are neither closed nor gone; none if another thread makes one at this moment."""
    try:
        return [client for client in list(_clients) if not client.closed]
    except RuntimeError:  # The set has changed while it was copied.
        return []
