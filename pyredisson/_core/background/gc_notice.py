"""A client that is garbage-collected while it holds locks: they cannot be released any more.

The garbage collector may run anywhere, in the middle of one of our own methods, too. So functions for a finalizer only
read, and take no mutex; the rest is done where the client's watchdog runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core import events

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore

#: How many names are reported.
NAMES = 10

REASON = "its client was garbage-collected"


def what_it_held(client: ClientCore) -> events.ClientCollected | None:
    """Describe the locks that a client holds that was not closed; ``None`` if there are none. For a finalizer."""
    watched = [ownership for ownership in client.watchdog.ownerships() if ownership.watched()]
    held = [hold.whole.name if hold.whole else own.name for own in watched for hold in own.holds]
    held = list(dict.fromkeys(held))
    if client.closed or not held:
        return None
    return events.ClientCollected(client.id, tuple(held[:NAMES]), len(held))


def report_collected(client: ClientCore, event: events.ClientCollected) -> None:
    """Notify the listeners, and each holder's ``on_lock_lost``. Not for a finalizer."""
    client.emit(event)
    for ownership in client.watchdog.ownerships():
        client.report_lost(ownership, ownership.lose(REASON), quietly=True)
