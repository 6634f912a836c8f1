"""A client that is garbage-collected while it holds locks: they cannot be released any more.

The garbage collector may run anywhere, in the middle of one of our own methods, too. So functions for a finalizer only
read, and take no mutex; the rest is done where the client's watchdog runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core import events

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

#: How many names are reported.
NAMES = 10

REASON = "its client was garbage-collected"


def what_it_held(client: ClientCore) -> events.ClientCollected | None:
    """Describe the locks that a client holds that was not closed; ``None`` if there are none. For a finalizer."""
    held = [ownership.name for ownership in client.watchdog.ownerships() if ownership.watched()]
    tables = list(client.watchdog.tables.values())
    held += [owned.name for table in tables for owned in table.watched() if owned.watched()]
    if client.closed or not held:
        return None
    return events.ClientCollected(client.id, tuple(list(dict.fromkeys(held))[:NAMES]), len(held))


def report_collected(client: ClientCore, event: events.ClientCollected) -> None:
    """Notify the listeners, and each holder's ``on_lock_lost``. Not for a finalizer."""
    client.emit(event)
    for ownership in client.watchdog.ownerships():
        client.watchdog.unwatch(ownership)
        if ownership.lose(REASON):
            for call in ownership.on_loss:
                call()
            if client.config.on_lock_lost is not None:
                client.runtime.call_back(client.config.on_lock_lost, ownership.name, ownership.who.number)
    for table in list(client.watchdog.tables.values()):
        for owned in table.watched():
            table.drop(owned)
            for each in owned.clients():
                if each.config.on_lock_lost is not None and owned.watched():
                    each.runtime.call_back(each.config.on_lock_lost, owned.name, owned.who.number)
