"""Waiting for a lock by its messages, and yielding to those who do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.attempt import attempt
from pyredisson.core.waiters import lock_message
from pyredisson.core.waiting import until_taken

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Answer, Refused
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.waiters import Message, Party
    from pyredisson.core.yielding import Yielding

__all__ = ["Attempt", "ByMessage", "until_acquired"]


class Attempt:
    """An attempt of one owner to acquire one lock, to be made as often as it takes."""

    __slots__ = ("client", "hold", "kind", "ownership")

    def __init__(self, client: ClientCore, kind: LockKind, ownership: Ownership, hold: Hold) -> None:
        self.client: ClientCore = client
        self.kind: LockKind = kind
        self.ownership: Ownership = ownership
        self.hold: Hold = hold

    def __call__(self) -> Coroutine[Any, Any, Answer]:
        return attempt(self.client, self.kind, self.ownership, self.hold)


def until_acquired(
    made: Attempt,
    refused: Refused,
    seen: int | None,
    deadline: Deadline,
    *,
    channel: str,
    message: Message = lock_message,
    party: Party | None = None,
) -> Coroutine[Any, Any, bool]:
    """Make attempts after a first one was refused. See :func:`until_taken`."""
    client = made.client
    return until_taken(
        made,
        refused,
        runtime=client.runtime,
        wakeups=client.wakeups,
        lock=made.ownership.name,
        channel=channel,
        kind=made.kind.label,
        message=message,
        seen=seen,
        deadline=deadline,
        free_after=made.hold.lease_ms / 1000,
        party=party,
    )


class ByMessage:
    """A release wakes one waiter of each client.

    The message and the request of a waiter take their time; an owner that asks again at once would overtake them each
    time. So it yields for a moment to those who wait for what it has just released.

    Args:
        message: How many waiters a message wakes.
    """

    announced = True

    def __init__(self, message: Message = lock_message) -> None:
        self._message = message

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """The lock's own."""
        return kind.names.channel

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """There is nothing to note."""

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        yielding: Yielding = ownership.kind_state
        return yielding.refuse(wait, now) if yielding.until > now else None

    def released(self, client: ClientCore, kind: LockKind, ownership: Ownership, heard: int, sent: float) -> None:
        """See :meth:`Waiting.released`."""
        wakeups, channel = client.wakeups, kind.names.channel
        if wakeups.glance(channel) is not None and not wakeups.waiting(channel):
            heard -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        ownership.kind_state.released(heard, sent, client.runtime.now())

    async def wait(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: Hold,
        refused: Refused,
        seen: int | None,
        deadline: Deadline,
    ) -> bool:
        """See :meth:`Waiting.wait`."""
        made = Attempt(client, kind, ownership, hold)
        acquired = await until_acquired(
            made, refused, seen, deadline, channel=kind.names.channel, message=self._message
        )
        ownership.kind_state.waited(client.runtime.now())
        return acquired
