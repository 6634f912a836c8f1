"""Blocks that are left after their client was closed.

``close()`` ends connections, renewals and the settling of requests, but releases nothing: a block that runs still is
protected until the deadline of its hold. When it is left before that, its release is sent once, on a connection of its
own. What comes of it is no error of the block's: its work was done while it held the lock, and what is not released
expires.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyredisson._core import events
from pyredisson._core.deadline import CLEANUP_BUDGET
from pyredisson._core.failures import OUR_ERRORS, Failure
from pyredisson._core.requests.settle import settle
from pyredisson.errors import LockNotOwnedError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership.ownership import Ownership

T = TypeVar("T")


async def leave_closed(
    clients: Sequence[ClientCore], key: tuple[str, str], release: Coroutine[Any, Any, T]
) -> T | None:
    """Make the release of a block; some of these clients are closed. An error of the server is reported, not raised.

    ``key``: the names of what is released and of its owner.

    Raises:
        LockNotOwnedError: The block held it no longer.
    """
    closed = [client for client in clients if client.closed]
    for client in closed:
        client.runtime.reopen()
    try:
        released = await release
        for client in closed:
            await client.presence.end()
        return released
    except (LockNotOwnedError, OutcomeUnknownError) as error:
        if isinstance(error, LockNotOwnedError):
            raise
    except tuple(OUR_ERRORS) as error:
        closed[0].emit(events.OutcomeUnknown(*key, "the release of a block", error))
    finally:
        for client in closed:
            client.runtime.close_again()
            client.watchdog.report_when_closed()
    return None


def release_later(client: ClientCore, release: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Send the release of a block that is being closed, and can await nothing: its closed client has no background."""

    async def send() -> None:
        client.runtime.reopen()
        try:
            with suppress(Failure, LockNotOwnedError):
                await release()
                await client.presence.end()
        finally:
            client.runtime.close_again()
            client.watchdog.report_when_closed()

    if client.closed and client.runtime.suspends:
        with suppress(RuntimeError):  # The event loop is gone, and the release with it.
            client.runtime.call_back(send)


def settle_later(client: ClientCore, ownership: Ownership) -> None:
    """Settle what such a block has left pending of an ownership: as :func:`release_later`."""
    release_later(client, partial(settle, client, ownership, CLEANUP_BUDGET, behind=True))


def report_held(client: ClientCore) -> None:
    """Report what a client holds that is being closed: an event for each hold, and one about all of them."""
    now, found = client.runtime.now(), dict[object, tuple[str, str, float]]()
    held = (*client.ownerships.held(), *client.watchdog.ownerships(), *list(client.presence.blocks))
    for own in dict.fromkeys(held):
        for hold in list(own.holds) if own.loss is None else ():
            if hold.whole is None:
                found[hold] = own.name, own.owner, own.remaining_of(hold, now)
            else:
                found[hold.whole] = hold.whole.name, own.owner, hold.whole.remaining(now)
    certain = [each for each in found.values() if each[2] > 0]
    for name, owner, remaining in certain:
        client.emit(events.HeldAtClose(name, owner, remaining))
    if certain:
        names = tuple(dict.fromkeys(name for name, _, _ in certain))
        shortest = min(remaining for _, _, remaining in certain)
        client.emit(events.ClosedWhileHolding(client.id, names[:10], len(names), shortest))
