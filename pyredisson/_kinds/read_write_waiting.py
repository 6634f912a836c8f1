"""How the owners of the two sides of a read-write lock wait: readers yield to the writers of their client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyredisson._core.names import writer_field
from pyredisson._core.requests import Refused
from pyredisson._core.waiting import ByMessage

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.kind import LockAttempt, LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer
    from pyredisson._core.wait_queue import Fairness, QueueUpdate

#: Seconds for which a reader yields to waiting writers of its client; at most half of its own wait. As long as reads
#: take less, the current ones end meanwhile, and a writer acquires the lock however many readers there are.
YIELD = 0.5

#: The sides as they are stored, and the labels of their waiters on the one channel.
READERS: Final = "read"
WRITERS: Final = "write"


class YieldToWriters(ByMessage):
    """Waiting by message; readers yield to a waiting writer of the same client."""

    def yields(self, kind: LockKind, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        fairness: Fairness = ownership.kind_state
        if _writer_waits(kind) and not _writes(kind, ownership):
            return fairness.yield_for(YIELD if wait is None else min(YIELD, wait / 2), now)
        return super().yields(kind, ownership, wait, now)

    async def wait(self, attempt: LockAttempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client, fairness = attempt.client, attempt.ownership.kind_state
        try:
            return await super().wait(attempt, refused, seen, deadline)
        finally:
            fairness.stop()
            fairness.waited(client.runtime.now())

    async def attempt(self, attempt: LockAttempt, update: QueueUpdate | None = None) -> Answer:
        """See :meth:`ByMessage.attempt`; as long as a reader yields, wake-ups are for the writer, and it makes none."""
        left: float = attempt.ownership.kind_state.until - attempt.client.runtime.now()
        notified = update is not None and update.notified  # Its client is in the queue for another reader.
        if left > 0 and not notified and _writer_waits(attempt.kind):
            return Refused(int(1000 * left))
        return await super().attempt(attempt, update)


class BeforeReaders(ByMessage):
    """Waiting by message; readers of the same client yield to a waiting writer."""

    async def wait(self, attempt: LockAttempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        kind = attempt.kind
        try:
            return await super().wait(attempt, refused, seen, deadline)
        finally:
            # Readers that yield are not in the queue: the next release would not notify them.
            if not _writer_waits(kind) and _any_yields(kind):
                kind.client.subscriptions.hint(_own_channel(kind, READERS), READERS, 0)


def side_of(client: ClientCore, label: str) -> str:
    """Return what stands for one side's waiters of a client in the wait queue."""
    return f"{client.id}.{label}"


def _own_channel(kind: LockKind, label: str) -> str:
    return kind.names.own_channel(side_of(kind.client, label))


def _writer_waits(kind: LockKind) -> bool:
    has_waiters = kind.client.subscriptions.has_waiters
    return has_waiters(_own_channel(kind, WRITERS), WRITERS) or has_waiters(kind.names.channel, WRITERS)


def _any_yields(kind: LockKind) -> bool:
    client = kind.client
    now, own = client.runtime.now(), client.ownerships.of(kind.names.name)
    return any(each.kind_state.until > now for each in own if each.kind is not None and each.kind.layout == kind.layout)


def _writes(kind: LockKind, ownership: Ownership) -> bool:
    """Return whether the owner holds the write side, so that no other owner could acquire the lock first."""
    client = kind.client
    own = client.ownerships.find((ownership.name, writer_field(client.id, ownership.who.number)))
    return own is not None and bool(own.holds)
