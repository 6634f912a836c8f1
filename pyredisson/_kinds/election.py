"""The lock of an election: who holds it leads, and each term of a leader has a greater token than those before.

Source: Curator's ``LeaderLatch``, etcd's elections. It is a fenced lock that is not reentrant. What it adds is one
message when a new leader is elected, so that observers need not ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.deadline import Deadline
from pyredisson._core.failures import Failure
from pyredisson._core.holder_lookup import read_owner
from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames, elected_channel
from pyredisson._core.requests import ACQUIRED, WITHOUT_END, unreached
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.subscriptions import ALL, Waiter, WaitGroup
from pyredisson._core.waiting import wait_loop
from pyredisson._kinds.lock import FencedKind, LockCore
from pyredisson.holders import Holder

if TYPE_CHECKING:
    from pyredisson._core.requests import AcquireCall, Answer
    from pyredisson._core.runtime import Reply, Request


class ElectionKind(FencedKind):
    """The lock of an election."""

    __slots__ = ()

    word = "leader_election"
    reentrant = False
    not_reentrant_hint = ""

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; a new leader is announced."""
        channel = elected_channel(self.names.raw)
        return self.with_tokens("election_acquire", call, epoch, repeat, (channel,), (PUBLISH,))


class ElectionCore(LockCore):
    """One handle on an election."""

    __slots__ = ()

    stored = StoredKind(
        "leader_election", "election", "owners", LockNames, reentrant=False, force_unlock=FREES_ALL_OWNERS
    )
    kind_type = ElectionKind

    async def leader(self) -> Holder | None:
        """Return who leads; ``None`` if no one does. Raises an error if the server does not say."""
        field = _leader_in(await self.client.query("HKEYS", self.names.raw))
        if field is None or (owner := read_owner(field.encode())) is None:
            return None
        found = await self.client.finder.find(self.names.name, by_user=True)
        return found.holder or Holder(owner.client_id, owner.thread_id)

    async def leader_after(self, known: str | None, wait: float) -> str | None:
        """Return who leads as soon as that is not ``known``, or after ``wait`` seconds: the field of an owner."""
        client, names = self.client, self.names
        client.check_open()
        found = known
        # A resignation is announced as any release is; it needs no message of its own.
        channels = names.channel, elected_channel(names.raw)
        seen = [client.subscriptions.messages_of(channel) for channel in channels]

        async def attempt() -> Answer:
            nonlocal found
            found = _leader_in(await client.runtime.execute(("HKEYS", names.raw), client.config.timeout / 3))
            return WITHOUT_END if found == known else ACQUIRED

        ticket = client.runtime.ticket()
        groups = [WaitGroup[Waiter](client.subscriptions, each, "observer", lambda _: ALL) for each in channels]
        waiters = [Waiter(group, ticket) for group in groups]
        try:
            if await attempt() is WITHOUT_END:
                deadline = Deadline.after(wait, client.runtime.now())
                both = list(zip(waiters, seen, strict=True))
                await wait_loop(attempt, WITHOUT_END, both, client.runtime, deadline, 0.0)
        except Failure as failure:
            raise unreached(client, failure) from None
        return found


def _leader_in(fields: Reply) -> str | None:
    first = fields[0] if isinstance(fields, list) and fields else None
    return first.decode() if isinstance(first, bytes) else None
