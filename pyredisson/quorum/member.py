"""The members of a multi-lock: each is acquired, released and settled as a single lock is, but asked once.

These coroutines are run concurrently, by :func:`pyredisson.core.driver.together`: a server that does not answer in its
time does not keep the others waiting. What stays pending is settled by the watchdog of that member's client.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson.core.acquiring.attempt import adopt, ask, end_attempt, make_ready
from pyredisson.core.acquiring.release import ask_for_release, begin_release
from pyredisson.core.failures import Failure, Unanswered, superseded, without_effect
from pyredisson.core.outcomes import Stale
from pyredisson.core.requests.replicas import NotAcknowledged, ReplicaAcknowledgement
from pyredisson.core.requests.replies import read_stale, unusable
from pyredisson.core.requests.settle import settle
from pyredisson.core.runtime import Ask
from pyredisson.kinds.lock import LockCore
from pyredisson.quorum.decisions import node_timeout

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership.hold import Hold
    from pyredisson.core.ownership.ownership import Ownership
    from pyredisson.core.requests.call import Call
    from pyredisson.core.requests.server import ServerState
    from pyredisson.core.runtime import Reply, Request, Runtime


class Member:
    """One lock of a multi-lock.

    Args:
        lock: The lock, which is one of its attributes.
        quick: Whether its server has only the short timeout of one node among many.

    Attributes:
        client: The client.
        kind: The kind of lock.
        name: Its name.
        plain: Whether it is a plain lock, whose two usual requests are always the same.
        quick: As above.
        replicated: Whether replicas of its server have to acknowledge what is acquired.
        server: What is known of its server.
    """

    __slots__ = ("client", "kind", "lock", "name", "plain", "quick", "replicated", "server")

    def __init__(self, lock: LockCore, *, quick: bool) -> None:
        self.lock: LockCore = lock
        self.quick: bool = quick
        self.plain: bool = type(lock) is LockCore
        self.client: ClientCore = lock.client
        self.kind: LockKind = lock.kind
        self.name: str = lock.names.name
        # The other nodes are what replicas are elsewhere, unless a number of replicas is demanded.
        self.replicated: bool = self.client.config.min_replicas > 0
        self.server: ServerState = self.client.server

    def timeout(self, lease_ms: int) -> float:
        """How long its server has to answer: one that does not answer must not keep the others waiting."""
        if not self.quick:
            return self.client.attempt_timeout(lease_ms)
        return node_timeout(lease_ms, self.client.config.quorum_node_timeout, self.server.round_trip)


class MemberAsk(Ask):
    """A request to one member, as :meth:`ClientBase.exchange` makes it; but it is sent once.

    If the server knows a later epoch of the owner, one more copy is sent. The arguments behind the member are those of
    :meth:`ClientBase.exchange`.
    """

    __slots__ = ("_call", "_member", "_repeat", "_sent")

    def __init__(
        self,
        member: Member,
        call: Call,
        epoch: int,
        repeat: bool = False,
        budget: float | None = None,
        *,
        begun: object = None,
    ) -> None:
        # Without super(): five of these are made for an acquire of five nodes.
        self.runtime: Runtime = member.client.runtime
        self.request: Request = call.request(epoch, repeat)
        self.timeout: float = member.timeout(call.lease_ms)
        reader = call.reader if member.replicated else None
        self.sync = None if reader is None else ReplicaAcknowledgement(member.client.replicas, reader)
        self.answer: Any = None
        self._member = member
        self._call = call
        self._repeat = repeat
        self._sent = self.runtime.now()

    def connected(self) -> None:
        """See :meth:`Ask.connected`."""
        self.timeout = self._member.timeout(self._call.lease_ms)

    def __await__(self) -> Generator[MemberAsk, None, tuple[Reply, float, bool]]:
        yield self
        answer = self.answer
        if (answer is not None and type(answer) is not int) or self.sync is not None:
            answer = self._read()
            if type(answer) is Stale:
                self._begin_copy(answer)
                yield self
                answer = self._read()
                if type(answer) is Stale:
                    raise self._doubted(unusable(self.answer))
        server, took = self._member.server, self.runtime.now() - self._sent
        if took < server.round_trip:
            server.answered_within(took)
        return answer, self._sent, self._repeat

    def _read(self) -> Reply | Stale:
        answer, acknowledgement = self.answer, self.sync
        try:
            if isinstance(answer, Failure):
                raise answer
            if isinstance(acknowledgement, ReplicaAcknowledgement):
                answer, acked = answer
                if not acknowledgement.enough(acked):
                    raise NotAcknowledged(acknowledgement.count, acked, self.timeout, "quorum_node_timeout")
            return read_stale(answer) or answer
        except Unanswered as failure:
            raise self._doubted(failure) from failure.cause
        except Failure as failure:
            raise without_effect(failure, self._repeat) from failure.cause

    def _doubted(self, failure: Failure) -> Failure:
        self._call.ownership.doubt(self._call.request_id)
        return failure

    def _begin_copy(self, stale: Stale) -> None:
        call = self._call
        call.ownership.raise_epoch(call.request_id, above=stale.epoch)
        epoch = call.ownership.epoch_of(call.request_id)
        if epoch is None:
            raise superseded(call.ownership.name)
        self.request, self._sent = call.request(epoch, self._repeat), self.runtime.now()


async def acquire_part(member: Member, kind: LockKind, ownership: Ownership, hold: Hold) -> Answer:
    """Ask a member for its lock, of this kind, once.

    Raises:
        Failure: It is not known what became of it (``Unanswered``: it is pending), or it had no effect.
        RedissonError: Why its owner cannot acquire it.
    """
    client, exchange = member.client, partial(MemberAsk, member)
    if ownership.holds or ownership.in_flight.pending is not None:
        await make_ready(client, kind, ownership, exchange)
    if kind.queues:
        if ownership.kind is not kind:
            adopt(kind, ownership)
        kind.waiting.begin(ownership, 0.0, client.runtime.now())
    if member.plain and ownership.since and not ownership.holds:
        ready = ownership.ready
        if ready is None or ready[:2] != (ownership.epoch, hold.lease_ms):
            member.lock.make_ready(ownership, hold)
    call, outcome, sent = await ask(client, kind, ownership, hold, exchange)
    return end_attempt(client, call, outcome, sent)


async def release_part(member: Member, ownership: Ownership, hold: Hold) -> None:
    """Release a hold of a member, once, or settle its release, if that is pending.

    Raises:
        Failure: It is not known what became of it, or it had no effect: it is pending.
        LockLostError: It is lost.
    """
    client, exchange = member.client, partial(MemberAsk, member)
    held = hold in ownership.holds or ownership.expired > 0
    if ownership.in_flight.pending is not None:
        later = held and ownership.release_later(block=True)
        await settle(client, ownership, behind=True, exchange=exchange)
        held = not later and (len(ownership.holds) > 0 or ownership.expired > 0)
    if held:
        call, epoch = begin_release(client, member.kind, ownership, block=True)
        await ask_for_release(client, call, epoch, exchange)


async def settle_part(member: Member, ownership: Ownership) -> None:
    """Settle the pending request of a member, for a caller that has left. Raises ``Failure``: it is pending still."""
    await settle(member.client, ownership, behind=True, exchange=partial(MemberAsk, member))
