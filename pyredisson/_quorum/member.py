"""The members of a multi-lock: each is acquired, released and settled as a single lock is, but asked once.

These coroutines are run concurrently, by :func:`pyredisson._core.runtime.together`:
a server that does not answer in its
time does not keep the others waiting. What stays pending is settled by the watchdog of that member's client.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any

from pyredisson._core.acquiring import adopt, ask, end_attempt, make_ready, settle
from pyredisson._core.failures import Failure, Unanswered, superseded, without_effect
from pyredisson._core.hold import HoldState
from pyredisson._core.releasing import leave_block, release_all
from pyredisson._core.replicas import NotAcknowledged, ReplicaAcknowledgement
from pyredisson._core.requests import read_stale, unusable
from pyredisson._core.runtime import Ask
from pyredisson._kinds.lock import LockCore
from pyredisson._quorum.decisions import node_timeout

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import Hold
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer, Call
    from pyredisson._core.runtime import Acknowledging, Reply, Request, Runtime
    from pyredisson._core.server import ServerState


class Member:
    """One lock of a multi-lock.

    Args:
        lock: The lock, which is one of its attributes.
        node: What messages call its server, if that is one node among many, with their short timeout; else empty.

    Attributes:
        client: The client.
        kind: The kind of lock.
        name: Its name.
        node: As above.
        server: What is known of its server.
    """

    __slots__ = ("client", "kind", "lock", "name", "node", "server")

    def __init__(self, lock: LockCore, node: str = "") -> None:
        self.lock: LockCore = lock
        self.node: str = node
        self.client: ClientCore = lock.client
        self.kind: LockKind = lock.kind
        self.name: str = lock.names.name
        self.server: ServerState = self.client.server

    def timeout(self, lease_ms: int) -> float:
        """How long its server has to answer: one that does not answer must not keep the others waiting."""
        if not self.node:
            return self.client.attempt_timeout(lease_ms)
        return node_timeout(lease_ms, self.client.config.quorum_node_timeout, self.server.round_trip)


class MemberAsk(Ask):
    """One copy of a request to the server of a member."""

    __slots__ = ("_lease_ms", "_member")

    def __init__(self, member: Member, call: Call, epoch: int, repeat: bool) -> None:
        # Without super(): five of these are made for an acquire of five nodes.
        client = member.client
        self.runtime: Runtime = client.runtime
        self.request: Request = call.request(epoch, repeat)
        self.timeout: float = member.timeout(call.lease_ms)
        # The other nodes are what replicas are elsewhere, unless a number of replicas is demanded.
        reader = call.reader if client.config.min_replicas else None
        self.sync: Acknowledging | None = None if reader is None else ReplicaAcknowledgement(client.replicas, reader)
        self.answer: Any = None
        self._member = member
        self._lease_ms = call.lease_ms

    def connected(self) -> None:
        """See :meth:`Ask.connected`."""
        self.timeout = self._member.timeout(self._lease_ms)


@coroutine
def ask_once(
    member: Member, call: Call, epoch: int, repeat: bool = False, budget: float | None = None, *, begun: object = None
) -> Generator[MemberAsk, None, tuple[Reply, float, bool]]:
    """Ask the server of a member once; once more if it knows a later epoch of the owner.

    The arguments behind the member, and all that it returns and raises, are those of :meth:`ClientCore.exchange`.
    """
    ownership, server, now = call.ownership, member.server, member.client.runtime.now
    answer: Any = None
    try:
        for _ in range(2):
            sent, request = now(), MemberAsk(member, call, epoch, repeat)
            yield request
            answer, acknowledgement = request.answer, request.sync
            if isinstance(answer, Failure):
                raise (answer if isinstance(answer, Unanswered) else without_effect(answer, repeat)) from answer.cause
            if isinstance(acknowledgement, ReplicaAcknowledgement):
                answer, acked = answer
                if not acknowledgement.enough(acked):
                    raise NotAcknowledged(acknowledgement.count, acked, request.timeout, "quorum_node_timeout")
            stale = None if answer is None or type(answer) is int else read_stale(answer)
            if stale is None:
                if (took := now() - sent) < server.round_trip:
                    server.answered_within(took)
                return answer, sent, repeat
            ownership.raise_epoch(call.request_id, above=stale.epoch)
            newer = ownership.epoch_of(call.request_id)
            if newer is None:
                raise superseded(ownership.name)
            epoch = newer
        raise unusable(answer)
    except Unanswered:
        ownership.doubt(call.request_id)
        raise


async def acquire_part(member: Member, kind: LockKind, ownership: Ownership, hold: Hold) -> Answer:
    """Ask a member for its lock, of this kind, once.

    Raises:
        Failure: It is not known what became of it (``Unanswered``: it is pending), or it had no effect.
        RedissonError: Why its owner cannot acquire it.
    """
    client, exchange = member.client, partial(ask_once, member)
    if ownership.holds or ownership.in_flight.pending is not None:
        await make_ready(client, kind, ownership, exchange)
    if kind.queues:
        if ownership.kind is not kind:
            adopt(kind, ownership)
        kind.waiting.begin(ownership, 0.0, client.runtime.now())
    if type(member.lock) is LockCore and ownership.generation and not ownership.holds:
        ready = ownership.ready
        if ready is None or ready[:2] != (ownership.epoch, hold.lease_ms):
            member.lock.make_ready(ownership, hold.lease_ms)
    call, outcome, sent = await ask(client, kind, ownership, hold, exchange)
    return end_attempt(client, call, outcome, sent)


async def release_part(member: Member, ownership: Ownership, hold: Hold) -> None:
    """Release the hold of a member, once, or settle its release, if that is pending.

    Raises:
        Failure: It is not known what became of it, or it had no effect: it is pending.
        LockLostError: It is lost.
    """
    if hold.state is HoldState.GIVEN_UP and ownership.leave_given_up(hold):
        return
    exchange = partial(ask_once, member)
    if ownership.in_flight.pending is not None:
        await leave_block(member.client, member.kind, ownership, hold, exchange=exchange)
    if hold.state in (HoldState.HELD, HoldState.ENDED, HoldState.LOST):
        await release_all(member.client, member.kind, ownership, (hold,), None, exchange, block=True)


async def settle_part(member: Member, ownership: Ownership) -> None:
    """Settle the pending request of a member, for a caller that has left. Raises ``Failure``: it is pending still."""
    await settle(member.client, ownership, behind=True, exchange=partial(ask_once, member))
