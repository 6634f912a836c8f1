"""Waiting for a lock by the messages of its releases, and yielding to its waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.kind import Waiting
from pyredisson.core.waiters import lock_message
from pyredisson.core.waiting import HeardOn, until_taken

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson.core.attempt import Attempt
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Refused
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.waiters import Message, Party
    from pyredisson.core.yielding import Yielding

__all__ = ["ByMessage", "until_acquired"]


def until_acquired(
    attempt: Attempt,
    refused: Refused,
    seen: int | None,
    deadline: Deadline,
    *,
    channel: str,
    message: Message = lock_message,
    free_after: float | None = None,
    party: Party | None = None,
) -> Coroutine[Any, Any, bool]:
    """Attempt again after a first attempt was refused. See :func:`until_taken`."""
    client = attempt.client
    return until_taken(
        attempt,
        refused,
        runtime=client.runtime,
        channels=(HeardOn(client.wakeups, channel, seen),),
        lock=attempt.ownership.name,
        kind=attempt.kind.label,
        message=message,
        deadline=deadline,
        free_after=attempt.hold.lease_ms / 1000 if free_after is None else free_after,
        party=party,
    )


class ByMessage(Waiting):
    """Waiting for the message of a release, which wakes one waiter of each client.

    The message, and the request of a waiter, take time; an owner that acquires again at once would always be faster.
    So it yields for a moment to the waiters for the lock that it has just released.

    Args:
        message: How many waiters a message wakes.
    """

    announced = True

    def __init__(self, message: Message = lock_message) -> None:
        self._message = message

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

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        channel = attempt.kind.names.channel
        acquired = await until_acquired(attempt, refused, seen, deadline, channel=channel, message=self._message)
        attempt.ownership.kind_state.waited(attempt.client.runtime.now())
        return acquired
