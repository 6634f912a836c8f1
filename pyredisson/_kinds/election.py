"""Locks that choose one of several processes: the leader of an election, and what runs once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyredisson._core.deadline import Deadline
from pyredisson._core.failures import Failure
from pyredisson._core.holder_lookup import read_owner
from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames, elected_channel
from pyredisson._core.requests import ACQUIRED, WITHOUT_END, AcquireCall, Answer, ReleaseCall, unreached
from pyredisson._core.runtime import PUBLISH, Reply, Request
from pyredisson._core.subscriptions import ALL, Waiter, WaitGroup
from pyredisson._core.waiting import wait_loop
from pyredisson._kinds.lock import FencedKind, LockCore, NonReentrantKind
from pyredisson.holders import Holder

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.ownership import Ownership


# ---- election --------------------------------------------------------------------------------------------------------
# The lock of an election: who holds it leads, and each term of a leader has a greater token than those before.
#
# Source: Curator's LeaderLatch, etcd's elections. It is a fenced lock that is not reentrant. What it adds is one
# message when a new leader is elected, so that observers need not ask.


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


# ---- run once --------------------------------------------------------------------------------------------------------
# The lock of what runs on one process at a time, and not again for a time after it began.
#
# Source: ShedLock (lockAtMostFor, lockAtLeastFor). It is a lock, stored as any other, so that a crash frees it. Its
# lease is fixed unless it is to be renewed. What differs is its release: until at_least has passed, by the server's
# clock, the key stays, under a field that no owner has. So hosts whose clocks differ do not run it twice.


class RunOnceKind(NonReentrantKind):
    """A lock that may stay when it is released.

    Attributes:
        at_most_ms: Its lease; ``None``: the watchdog renews it.
        at_least_ms: For how long it stays from its beginning.
        began: When the run was known to have begun, infinite before. Its lease does not tell if it was extended.
    """

    __slots__ = ("at_least_ms", "at_most_ms", "began")

    word = "run_once"
    has_ready_requests = False

    def __init__(self, client: ClientCore, names: LockNames, at_most_ms: int | None, at_least_ms: int) -> None:
        super().__init__(client, names)
        self.at_most_ms: int | None = at_most_ms
        self.at_least_ms: int = at_least_ms
        self.began: float = math.inf

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`. No one waits for it, so no one is notified."""
        if call.count > 1:  # A lock of its owner's with the same name.
            return super().release(call, epoch, repeat)
        app, host, pid, _ = self.client.runtime.identity()
        runs_ms = int(1000 * max(0.0, self.client.runtime.now() - self.began))
        lease = call.lease_ms if self.at_most_ms is None else self.at_most_ms
        least_ms = self.at_least_ms if self.began < math.inf else 0  # An acquire that is undone was no run.
        args = lease, least_ms, f"{app or ''}:{host}:{pid}", runs_ms
        return self.request("run_once_release", call.ownership, args, epoch=epoch, repeat=repeat)


class RunOnceCore(LockCore):
    """One handle on what runs once."""

    __slots__ = ()

    stored = StoredKind(
        "run_once", "run once", "owners", LockNames, "ran", reentrant=False, force_unlock=FREES_ALL_OWNERS
    )
    kind: RunOnceKind  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str, at_most_ms: int | None, at_least_ms: int) -> None:
        names = LockNames(name, client.config.prefix)
        super().__init__(client, names, RunOnceKind(client, names, at_most_ms, at_least_ms))

    async def acquire_as_owner(self, wait: float | None, hold: SingleHold, held: Ownership | None) -> bool:
        """See :meth:`HolderCore.acquire_as_owner`. Who runs it already skips it, too."""
        if held is not None and held.holds:
            return False
        acquired = await super().acquire_as_owner(wait, hold, held)
        self.kind.began = self.client.runtime.now()
        return acquired
