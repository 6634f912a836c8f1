"""A client that is garbage-collected while it holds locks: nobody can release them any more, or be asked to.

The garbage collector may run anywhere, in the middle of one of our own methods, too. So what is called from there only
looks, and takes no mutex; the rest is done where the client's watchdog runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core import events

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

__all__ = ["tell_of_collected", "what_it_held"]

#: So many names are told.
NAMES = 10

REASON = "its client was garbage-collected"


def what_it_held(home: ClientCore) -> events.ClientCollected | None:
    """What a client that was not closed holds; ``None`` if that is nothing. Plain reading, for a finalizer."""
    held = [claim.name for claim in home.watchdog.claims() if claim.watched()]
    held += [hold.name for hold in home.keeper.kept() if hold.watched()]
    if home.closed or not held:
        return None
    return events.ClientCollected(home.id, tuple(list(dict.fromkeys(held))[:NAMES]), len(held))


def tell_of_collected(home: ClientCore, event: events.ClientCollected) -> None:
    """Tell those who listen, and each holder's ``on_lock_lost``. Not for a finalizer."""
    home.emit(event)
    for claim in home.watchdog.claims():
        home.watchdog.unwatch(claim)
        if claim.lose(REASON):
            for told in claim.on_loss:
                told()
            if home.config.on_lock_lost is not None:
                home.runtime.call_back(home.config.on_lock_lost, claim.name, claim.who.number)
    for hold in home.keeper.kept():
        home.keeper.drop(hold)
        for each in dict.fromkeys(core.home for core in hold.cores):
            if each.config.on_lock_lost is not None and hold.watched():
                each.runtime.call_back(each.config.on_lock_lost, hold.name, hold.who.number)
