"""The members of a multi-lock, and requests to them, which are values: made for each, and sent together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyredisson.core.calls import Call
from pyredisson.core.failures import Failure, Unanswered
from pyredisson.core.replicas import NotAcknowledged, Taking
from pyredisson.core.replies import read_stale
from pyredisson.core.runtime import Ask
from pyredisson.errors import OutcomeUnknownError
from pyredisson.quorum.decisions import node_timeout

if TYPE_CHECKING:
    from pyredisson.core.callers import Caller
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Stale
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Reply, Request, Runtime
    from pyredisson.core.server import Server
    from pyredisson.kinds.lock import LockCore

CallT = TypeVar("CallT", bound=Call)


class Member:
    """One lock of a multi-lock.

    Args:
        lock: The lock.
        quick: Whether its server gets but the small timeout of one node among many.

    Attributes:
        client: The client.
        kind: The kind of lock.
        name: Its name.
        quick: As above.
        replicated: Whether replicas of its server have to acknowledge what is acquired.
        server: What is known of its server.
    """

    __slots__ = ("_last", "_lock", "client", "kind", "name", "quick", "replicated", "server")

    def __init__(self, lock: LockCore, *, quick: bool) -> None:
        self._lock = lock
        self.quick: bool = quick
        self.client: ClientCore = lock.client
        self.kind: LockKind = lock.kind
        self.name: str = lock.names.name
        # The other nodes are what replicas are elsewhere, unless a number of replicas is demanded.
        self.replicated: bool = self.client.config.min_replicas > 0
        self.server: Server = self.client.server
        #: A lease that was asked for and the round trip of that time, and the timeout that they make.
        self._last: tuple[int, float, float] = (0, 0.0, 0.0)

    def ownership_of(self, who: Caller) -> Ownership:
        """What an owner holds of it."""
        return self._lock.ownership_of(who)

    def taken(self, who: Caller) -> bool:
        """Whether this owner has anything open here."""
        return self._lock.taken(who)

    def timeout(self, lease_ms: int) -> float:
        """How long its server has to answer: one that does not answer must not keep the others waiting."""
        last_lease_ms, last_round_trip, timeout = self._last
        round_trip = self.server.round_trip
        if last_lease_ms != lease_ms or last_round_trip != round_trip:
            if self.quick:
                timeout = node_timeout(lease_ms, self.client.config.quorum_node_timeout, round_trip)
            else:
                timeout = self.client.attempt_timeout(lease_ms)
            self._last = (lease_ms, round_trip, timeout)
        return timeout


class MemberAsk(Ask, Generic[CallT]):
    """A request to one member.

    Attributes:
        member: The member.
        call: The request, of which another copy can be made.
        repeat: Whether an earlier copy may have run.
        sent: When it was sent.
    """

    __slots__ = ("call", "member", "repeat", "sent")

    sent: float
    timeout: float
    answer: Reply | Failure | NotAcknowledged

    def __init__(self, member: Member, call: CallT, request: Request, repeat: bool, sync: Taking | None = None) -> None:
        # Without super(): five of these are made for an acquire of five nodes.
        self.runtime: Runtime = member.client.runtime
        self.request: Request = request
        self.timeout = member.timeout(call.lease_ms)
        self.sync = sync
        self.member: Member = member
        self.call: CallT = call
        self.repeat: bool = repeat

    def connected(self) -> None:
        """See :meth:`Ask.connected`."""
        self.timeout = self.member.timeout(self.call.lease_ms)

    def read(self, sent: float, *, last: bool) -> bool:
        """Read the answer to a copy that was ``sent`` then. Returns whether to send one more; not after the last."""
        self.sent = sent
        answer: Any = self.answer
        taking = self.sync
        if isinstance(taking, Taking) and not isinstance(answer, Failure):
            answer, acked = answer
            if not taking.enough(acked):
                answer = NotAcknowledged(taking.count, acked, self.timeout, "quorum_node_timeout")
        self.answer = answer
        if not isinstance(answer, (Failure, NotAcknowledged)):
            try:
                stale = read_stale(answer)
            except Failure as failure:
                self.fail(failure)
                return False
            if stale is not None:
                return self._next_copy(stale, last=last)
        elif isinstance(answer, Failure):
            self.fail(answer)
        return False

    def _next_copy(self, stale: Stale, *, last: bool) -> bool:
        call = self.call
        call.ownership.raise_epoch(call.request_id, above=stale.epoch)
        epoch = call.ownership.epoch_of(call.request_id)
        if epoch is None:
            self.answer = _unknown(call, "superseded by a later request of the same owner")
        elif last:
            self.fail(_unknown(call, "a later epoch of the same owner is known"))
        else:
            self.request = call.request(epoch, self.repeat)
            return True
        return False

    def fail(self, failure: Failure) -> None:
        """It brought no answer of use."""
        if isinstance(failure, Unanswered):
            self.call.ownership.doubt(self.call.request_id)
        elif self.repeat:  # This copy had no effect; an earlier one may have had.
            failure = Unanswered(failure.cause)
        self.answer = failure


def _unknown(call: Call, why: str) -> Unanswered:
    return Unanswered(OutcomeUnknownError(why, name=call.ownership.name))


async def send(runtime: Runtime, requests: Iterable[MemberAsk[CallT]]) -> list[MemberAsk[CallT]]:
    """Send the requests, and read the answers. Returns them all.

    One server is at work while the next one's request is made. One that knows a later epoch of the owner is asked once
    more.
    """
    sent = runtime.now()
    asks = await runtime.fan_out(requests)
    took = runtime.now() - sent
    again: list[MemberAsk[CallT]] = []
    for ask in asks:
        answer = ask.answer
        if took < ask.member.server.round_trip and not isinstance(answer, Failure):
            ask.member.server.answered_within(took)
        if (answer is None or type(answer) is int) and ask.sync is None:  # As a rule.
            ask.sent = sent
        elif ask.read(sent, last=False):
            again.append(ask)
    if again:
        sent = runtime.now()
        for ask in await runtime.fan_out(again):
            ask.read(sent, last=True)
    return asks
