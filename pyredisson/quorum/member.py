"""The members of a multi-lock, and requests to them, which are values: made for each, and sent together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyredisson.core.calls import Call
from pyredisson.core.failures import Failure, Unanswered
from pyredisson.core.replicas import NotAcknowledged, Taking
from pyredisson.core.replies import read_stale
from pyredisson.core.runtime import Ask
from pyredisson.errors import OutcomeUnknownError
from pyredisson.kinds.lock import LockCore
from pyredisson.quorum.decisions import node_timeout

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Stale
    from pyredisson.core.runtime import Reply, Request, Runtime
    from pyredisson.core.server import Server

CallT = TypeVar("CallT", bound=Call)
AskT = TypeVar("AskT", bound="MemberAsk[Any]")

#: The answer to a request of which another copy is due: its server knows a later epoch of the owner.
ANOTHER = object()


class Member:
    """One lock of a multi-lock.

    Args:
        lock: The lock, which is one of its attributes.
        quick: Whether its server gets but the small timeout of one node among many.

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
        self.server: Server = self.client.server

    def timeout(self, lease_ms: int) -> float:
        """How long its server has to answer: one that does not answer must not keep the others waiting."""
        if not self.quick:
            return self.client.attempt_timeout(lease_ms)
        return node_timeout(lease_ms, self.client.config.quorum_node_timeout, self.server.round_trip)


class MemberAsk(Ask, Generic[CallT]):
    """A request to one member, whose answer is noted as soon as it is there.

    Args:
        member: The member.
        call: The request, of which another copy can be made.
        epoch: The epoch of the first copy.
        repeat: Whether an earlier copy may have run.
        sync: As for :class:`Ask`.

    Attributes:
        sent: A moment before it was sent.
        answer: What came of it, as :meth:`note` returns it.
    """

    __slots__ = ("call", "member", "repeat", "sent")

    def __init__(
        self, member: Member, call: CallT, epoch: int, repeat: bool = False, sync: Taking | None = None
    ) -> None:
        # Without super(): five of these are made for an acquire of five nodes.
        self.runtime: Runtime = member.client.runtime
        self.request: Request = call.request(epoch, repeat)
        self.timeout: float = member.timeout(call.lease_ms)
        self.sync = sync
        self.member: Member = member
        self.call: CallT = call
        self.repeat: bool = repeat
        self.answer: Any = None
        self.sent: float = self.runtime.now()

    def connected(self) -> None:
        """See :meth:`Ask.connected`."""
        self.timeout = self.member.timeout(self.call.lease_ms)

    def answered(self, answer: Any) -> None:
        """See :meth:`Ask.answered`."""
        if (answer is not None and type(answer) is not int) or self.sync is not None:
            answer = self._read(answer)
        self.answer = answer if answer is ANOTHER else self.note(answer)

    @abstractmethod
    def note(self, answer: Reply | Failure | NotAcknowledged) -> Any:
        """Note the answer in the ownership. Returns what came of the request."""

    def _read(self, answer: Any) -> Any:
        """Read an answer that is not the usual one. Returns what to note, or ``ANOTHER``."""
        taking = self.sync
        try:
            if isinstance(answer, Failure):
                raise answer
            if isinstance(taking, Taking):
                answer, acked = answer
                if not taking.enough(acked):
                    return NotAcknowledged(taking.count, acked, self.timeout, "quorum_node_timeout")
            stale = read_stale(answer)
        except Failure as failure:
            return self.fail(failure)
        return answer if stale is None else self._next_copy(stale)

    def _next_copy(self, stale: Stale) -> Any:
        call = self.call
        call.ownership.raise_epoch(call.request_id, above=stale.epoch)
        epoch = call.ownership.epoch_of(call.request_id)
        if epoch is None:
            return _unknown(call, "superseded by a later request of the same owner")
        if self.answer is ANOTHER:
            return self.fail(_unknown(call, "a later epoch of the same owner is known"))
        self.request, self.sent = call.request(epoch, self.repeat), self.runtime.now()
        return ANOTHER

    def fail(self, failure: Failure) -> Failure:
        """Note that it brought no answer of use. Returns what it is for the member."""
        if isinstance(failure, Unanswered):
            self.call.ownership.doubt(self.call.request_id)
        elif self.repeat:  # This copy had no effect; an earlier one may have had.
            return Unanswered(failure.cause)
        return failure


def _unknown(call: Call, why: str) -> Unanswered:
    return Unanswered(OutcomeUnknownError(why, name=call.ownership.name))


async def send(runtime: Runtime, requests: Iterable[AskT]) -> list[AskT]:
    """Send the requests, and note the answers. Returns them all.

    One server is at work while the next one's request is made. One that knows a later epoch of the owner is asked once
    more.
    """
    sent = runtime.now()
    asks = await runtime.fan_out(requests)
    took = runtime.now() - sent
    again: list[AskT] = []
    for ask in asks:
        if took < ask.member.server.round_trip and not isinstance(ask.answer, Exception):
            ask.member.server.answered_within(took)
        if ask.answer is ANOTHER:
            again.append(ask)
    if again:
        await runtime.fan_out(again)
    return asks
