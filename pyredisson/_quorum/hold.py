"""One hold of a multi-lock: one ordinary hold of each member, and what makes them one.

A multi-lock has nothing of its own in Redis, and is not renewed by itself: each part is a hold in its member's
ownership, acquired, renewed, extended, lost and released as any other. What is kept here says which parts
there are, how many are needed, and until when that many are certain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache, partial
from itertools import starmap
from operator import attrgetter
from types import coroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from pyredisson._core import events
from pyredisson._core.acquiring import (
    FirstRequest,
    adopt,
    begin_attempt,
    end_attempt,
    late_again,
    make_ready,
    request_lock,
    resume,
    settle,
    usual_outcome,
    wait_for_turn,
)
from pyredisson._core.deadline import CLEANUP_BUDGET, RETRY
from pyredisson._core.failures import (
    ANOTHER,
    Failure,
    NotNow,
    Passing,
    Rejected,
    Unanswered,
    explain_type,
    is_interruption,
    is_wrong_type,
    superseded,
    without_effect,
)
from pyredisson._core.hold import (
    ENDED,
    NOT_RENEWED,
    CallNote,
    HoldState,
    InMargin,
    Owned,
    SingleHold,
    given_up,
    lost_error,
)
from pyredisson._core.ownership import Ownership
from pyredisson._core.releasing import (
    begin_release,
    end_release,
    force_unlock,
    leave_block,
    leave_release,
    release_all,
    request_release,
    send_release,
)
from pyredisson._core.replicas import NotAcknowledged, ReplicaAcknowledgement
from pyredisson._core.requests import OF_CALL, Answer, Call, read_stale, unusable
from pyredisson._core.runtime import Progress, Reply, Request, Runtime, ServerRequest, together
from pyredisson._core.watchdog import Renewal
from pyredisson.errors import (
    ClientClosedError,
    LockLostError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
)

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import LockKind
    from pyredisson._core.owners import Caller
    from pyredisson._core.server import ServerState
    from pyredisson._kinds.lock import LockCore

T = TypeVar("T")

#: Seconds after which a node that did not answer is lost, and for which a lost one is not believed to be back.
LOST_AFTER = 0.5
BACK_AFTER = 3.0

#: Why a multi-lock is lost if none of its members says it.
TOO_FEW: Final = "too few of its members are certain to be held"

#: The kind of all multi-locks, quorums included, as inspection shows it.
KIND: Final = "multi_lock"

_lease_of: Callable[[Member], int] = attrgetter("client.watchdog.lease_ms")
_numbers = itertools.count(1)


class MultiHold(Owned):
    """One hold of a multi-lock by one owner; a :class:`pyredisson.Lease` can be of it.

    Attributes:
        block: As for :class:`SingleHold`; for all parts.
        client: The first member's client.
        forced: Whether its owner is forcing its members open: no loss is reported until that is done.
        key: Which multi-lock this is.
        members: Its members.
        number: The greater, the later it was begun.
        ownerships: What the owner holds of each member.
        parts: The hold of each member; ``None`` where none was acquired.
        quorum: How many are needed.
        released: Whether its unlock was sent, which too few servers have confirmed.
        since: When it was acquired; without listeners, when it was requested.
        state: What has become of it: NEW, HELD or OVER.
        votes: Which members count.
        watchdog: Whether it is renewed until it is released.
        watched: Whether its holder is notified when it is lost.
    """

    __slots__ = (
        "_ends",
        "_gone",
        "_lease",
        "block",
        "client",
        "forced",
        "key",
        "members",
        "number",
        "ownerships",
        "parts",
        "quorum",
        "released",
        "since",
        "state",
        "votes",
        "watchdog",
        "watched",
    )

    loss: str | None
    #: A multi-lock has no fencing token: each member has its own.
    token = None

    def __init__(
        self,
        members: tuple[Member, ...],
        quorum: int,
        key: object,
        name: str,
        who: Caller,
        lease: int | None,
        *,
        block: bool = False,
    ) -> None:
        self.client: ClientCore = members[0].client
        super().__init__(name, f"{self.client.id}:{who.number}", who)
        self.members: tuple[Member, ...] = members
        self.quorum: int = quorum
        self.key: object = key
        self.number: int = next(_numbers)
        self.watchdog: bool = lease is None
        self.watched: bool = block or self.watchdog
        self.block: Callable[[], object | None] | None = None
        self.ownerships: tuple[Ownership, ...] = ()
        self.parts: list[SingleHold | None] = [None] * len(members)
        self.votes: list[bool] = [True] * len(members)
        self.since: float = 0.0
        self.state: HoldState = HoldState.NEW
        self.released: bool = False
        self.forced: bool = False
        self._lease = lease
        self._ends = 0.0  # By its lease, if no member is lost.
        self._gone = False

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdogs renew it."""
        return None if self._lease is None else self._lease / 1000

    @property
    def lost(self) -> bool:
        """Whether it is lost, and not by the end of its client."""
        return self.loss is not None and not self.client.closed

    def lease_ms(self, member: Member | None = None) -> int:
        """Return the lease of the part of a member; of all parts the longest."""
        if self._lease is not None:
            return self._lease
        if member is not None:
            return member.client.watchdog.lease_ms
        return max(map(_lease_of, self.members))

    def each(self) -> list[tuple[int, Member, Ownership, SingleHold]]:
        """Return the parts that were acquired, each with its index, its member, and what the owner holds of that."""
        found = []
        for index, part in enumerate(self.parts):
            if part is not None:
                found.append((index, self.members[index], self.ownerships[index], part))
        return found

    def depth(self) -> int:
        """Return how often its owner holds this multi-lock, as far as these members know."""
        now, parts = self.client.runtime.now(), (part for own in self.ownerships for part in own.holds)
        wholes = {id(part.whole): part.whole for part in parts if part.whole is not None}
        return sum(each.key == self.key and each.remaining(now) > 0 for each in wholes.values())

    def held(self) -> list[tuple[int, Member, Ownership, SingleHold]]:
        """Return the parts that are held, in the same form."""
        return [each for each in self.each() if each[3].state is HoldState.HELD]

    def note_node(self, index: int, failure: Failure | None) -> None:
        """Note whether a node of a quorum answers. Emits that it does not, or does again, once each.

        One late answer is no outage: it counts as lost if it has not answered for a while.
        """
        member, now = self.members[index], self.client.runtime.now()
        client = member.client
        since = client.away_since
        if failure is None:
            if since is None or (client.away_reported and now - since < BACK_AFTER):
                return
            reported, client.away_since, client.away_reported = client.away_reported, None, False
            if reported:
                self.client.emit(events.QuorumNodeBack(self.name, member.node, now - since))
        elif since is None:
            client.away_since = now
        elif not client.away_reported and now - since >= LOST_AFTER and member.node:
            client.away_reported = True
            left = sum(not each.client.away_reported for each in self.members)
            self.client.emit(events.QuorumNodeLost(self.name, member.node, failure.cause, left, self.quorum))

    def note_client(self, client: ClientCore, failure: Failure | None) -> None:
        """See :meth:`note_node`; by the client of a node."""
        index = next((at for at, member in enumerate(self.members) if member.client is client), None)
        if index is not None:
            self.note_node(index, failure)

    def clients(self) -> list[ClientCore]:
        """Return the clients of its members, each once."""
        return list(dict.fromkeys(member.client for member in self.members))

    def certain_until(self) -> float:
        """Until when enough members are certain; minus infinity if they are too few. Given up ones are not lost."""
        deadlines = []
        for own, part, vote in zip(self.ownerships, self.parts, self.votes, strict=True):
            if part is None or not vote:
                continue
            usual = own.in_flight.pending is None and not own.in_flight.due and part.state is HoldState.HELD
            if not usual and own.given_up(part):
                deadlines.append(math.inf)
            elif own.loss is None and (usual or (part.state is HoldState.HELD and part not in own.claimed())):
                deadlines.append(own.deadline)
        return certain_until(deadlines, self.quorum)

    def why_ended(self) -> str:
        """See :meth:`Owned.why_ended`."""
        return self._why_lost(self.client.runtime.now(), ENDED)

    def _why_lost(self, now: float, otherwise: str | None = None) -> str:
        """Return why a member was taken away; if all that are gone have but reached their margin, the first one's.

        ``otherwise``: what to say if nothing was taken away; ``None``: whether its lease has ended.
        """
        if otherwise is None:
            otherwise = f"{ENDED}{NOT_RENEWED}" if self._lease is not None and now >= self._ends else TOO_FEW
        gone = [(own, part.loss or own.loss) for _, _, own, part in self.each() if own.remaining_of(part, now) <= 0]
        reasons = [loss or own.why_ended() for own, loss in gone]
        in_margin = [each for each in reasons if isinstance(each, InMargin)]
        if in_margin and len(in_margin) == len(gone):
            return min(in_margin, key=attrgetter("until"))
        return next((loss for _, loss in gone if loss and not isinstance(loss, InMargin)), otherwise)

    def remaining_of(self, hold: Any, now: float) -> float:
        """See :meth:`Owned.remaining_of`; it is the hold itself."""
        return 0.0 if self.given_up(hold) else self.remaining(now)

    def given_up(self, hold: Any) -> bool:
        """See :meth:`Owned.given_up`."""
        return self.loss is None and any(own.given_up(part) for _, _, own, part in self.each())

    def ended_by_owner(self, hold: Any) -> bool:
        """See :meth:`Owned.ended_by_owner`."""
        return super().ended_by_owner(hold) or self.released

    def remaining(self, now: float) -> float:
        """Seconds for which enough members are certain."""
        if self.state is not HoldState.HELD or self.released or self.loss is not None:
            return 0.0
        until = self.certain_until()
        return max(0.0, until - now) if until < math.inf else 0.0

    # ---- changes -------------------------------------------------------------------------------------------------

    def new_part(self, index: int, *, renewed: bool = False) -> SingleHold:
        """Return the hold of a member, which is yet to be acquired. ``renewed``: in any case, until all are there."""
        watchdog, lease = self.members[index].client.watchdog, self._lease
        if lease is None:
            part = SingleHold(watchdog.lease_ms, watchdog.certain, watchdog=True, whole=self)
        else:
            part = SingleHold(lease, self.members[index].client.certain_for(lease), watchdog=renewed, whole=self)
        part.watched = self.watched or renewed
        part.block = self.block
        bound = self.client.config.quorum_max_extensions
        if bound is not None and self.members[index].node:
            part.renewals_left = bound
        return part

    def note_call(self, note: CallNote) -> None:
        """Note a call on its members."""
        for each in self.ownerships:
            each.call = note

    def acquired(self) -> None:
        """Enough members are held."""
        self.state = HoldState.HELD
        if self._lease is not None:
            self._ends = self.certain_until()

    def extended(self) -> None:
        """Its members were renewed by its owner."""
        self._ends = max(self._ends, self.certain_until())

    def over(self) -> None:
        """Its owner has no use for it any more, whatever becomes of its parts."""
        self.state = HoldState.OVER
        if [part for part in self.parts if part is not None and part.state is not HoldState.OVER]:
            self.forget_ended()

    def forget_ended(self) -> None:
        """No one asks any more what became of the parts that have ended."""
        for _, _, own, part in self.each():
            if part.state is not HoldState.OVER:
                own.forget(part)

    def late_again(self, late: tuple[float, ...], took: float) -> tuple[float, ...]:
        """Note that enough members were granted too late; see :func:`pyredisson._core.acquiring.late_again`."""
        margin = max(client.config.loss_margin for client in self.clients())
        return late_again(late, "multi-lock", self.name, self.lease_ms(), took, margin)

    # ---- losses --------------------------------------------------------------------------------------------------

    def lost_part(self, *, quietly: bool = False, known: bool = False) -> None:
        """A part was lost: if too few members are left, this is lost as well, and reported to all clients involved.

        A fixed lease of no block that simply ran out is no loss. ``known``: its owner gets another error that says so.
        """
        now = self.client.runtime.now()
        with self.ownerships[0].mutex:
            standing = self.certain_until() > now or self._ran_out(now)
            ending = self.released or self.forced or self.state is not HoldState.HELD
            if standing or ending or self.loss is not None:
                return
            self.loss = self._why() or self._why_lost(now)
        if known:
            return
        self.client.notify(self, (self,))
        for client in self.clients():
            client.announce_loss(self, self.loss, quietly=quietly)

    def _why(self) -> str | None:
        """Say that it was extended as often as it may be, if that is why it is lost."""
        bound = self.client.config.quorum_max_extensions
        extended = not self.who.closed() and any(part.renewals_left == 0 for _, _, _, part in self.each())
        if bound is None or not extended:
            return None
        return f"it was extended {bound} times, as often as Config.quorum_max_extensions allows"

    def find_loss(self) -> str | None:
        """Return why it is lost, if it is; a loss that was not noticed before is reported."""
        now = self.client.runtime.now()
        for _, member, own, _ in self.each():
            if now >= own.deadline:
                member.client.report_lost(own, own.expire(now))
        if self.state is HoldState.HELD and self.watched and self.certain_until() <= now:
            self.lost_part()
        return self.loss

    def raise_if_lost(self) -> None:
        """Raise ``LockLostError`` if it is lost, so that its owner cannot acquire once more.

        A fixed lease of no block would have ended by now in any case: then those around it matter.
        """
        now, found = self.client.runtime.now(), {self}
        if self.find_loss() is None and self.certain_until() > now:
            return
        for own in self.ownerships:
            found.update(part.whole for part in (*own.holds, *own.ended) if part.whole is not None and own.sees(part))
        for whole in found:
            if whole.key != self.key or whole.state is not HoldState.HELD or whole.released or whole._ran_out(now):
                continue
            if (lost := whole.find_loss()) is not None:
                raise lost_error(whole, lost)

    def _ran_out(self, now: float) -> bool:
        return not self.watched and now >= self._ends

    def holder_gone(self, hint: str) -> None:
        """No one can release it any more: emit that once, not for each member."""
        if not self._gone:
            self._gone = True
            self.client.emit(events.HolderGone(self.name, self.owner, hint, who=self.who.describe()))


def innermost(ownerships: Iterable[Ownership], key: object, found: MultiHold | None = None) -> MultiHold | None:
    """Return the innermost hold of a multi-lock, of ``found`` and among these, as far as it is visible here."""
    for own in ownerships:
        for part in (*reversed(own.holds), *reversed(own.ended)) if own.holds or own.ended else ():
            whole: MultiHold | None = part.whole
            if whole is None:
                continue
            if found is not None and whole.number <= found.number:
                break
            if whole.key == key and whole.state is HoldState.HELD and own.sees(part):
                found = whole
                break
    return found


# ---- member ----------------------------------------------------------------------------------------------------------
# The members of a multi-lock: each is acquired, released and settled as a single lock is, but asked once.
#
# These coroutines are run concurrently, by :func:`pyredisson._core.runtime.together`: a server that does not answer in
# its time does not keep the others waiting. What stays pending is settled by the watchdog of that member's client.


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


class MemberRequest(ServerRequest):
    """One copy of a request to the server of a member."""

    __slots__ = ("_lease_ms", "_member")

    def __init__(self, member: Member, call: Call, epoch: int, repeat: bool) -> None:
        # Without super(): five of these are made for an acquire of five nodes.
        client = member.client
        self.runtime: Runtime = client.runtime
        self.prepared: Request = call.request(epoch, repeat)
        self.timeout: float = member.timeout(call.lease_ms)
        # The other nodes are what replicas are elsewhere, unless a number of replicas is demanded.
        reader = call.reader if client.config.min_replicas else None
        self.replica_wait: ReplicaAcknowledgement | None = (
            None if reader is None else ReplicaAcknowledgement(client.replicas, reader)
        )
        self.answer: Any = None
        self._member = member
        self._lease_ms = call.lease_ms

    def connected(self) -> None:
        """See :meth:`ServerRequest.connected`."""
        self.timeout = self._member.timeout(self._lease_ms)


@coroutine
def request_once(
    member: Member, call: Call, epoch: int, repeat: bool = False, budget: float | None = None, *, begun: Any = None
) -> Generator[MemberRequest, None, tuple[Reply, float, bool]]:
    """Send a request to the server of a member once; once more if it knows a later epoch of the owner.

    The arguments behind the member, and all that it returns and raises, are those of :meth:`ClientCore.exchange`; but
    what has ``begun`` is the request that was sent, with its answer.
    """
    ownership, server, now = call.ownership, member.server, member.client.runtime.now
    if not ownership.owner.startswith(member.client.id):
        raise Rejected(ClientClosedError(ANOTHER))
    answer: Any = None
    try:
        for _ in range(2):
            if begun is None:
                sent, request = now(), MemberRequest(member, call, epoch, repeat)
                yield request
            else:
                (request, sent), begun = begun, None
            answer, acknowledgement = request.answer, request.replica_wait
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


def reuse_requests(member: Member, kind: LockKind, ownership: Ownership, hold: SingleHold) -> None:
    """Make the usual requests ready, of an owner that comes again, if they are the same each time."""
    constant = kind.has_ready_requests and not (kind.ready_once or kind.has_fair_queue)
    if constant and ownership.generation and not ownership.holds:
        member.lock.make_ready(ownership, hold.lease_ms, 0, 0.0)


def acquire_part(
    member: Member, kind: LockKind, ownership: Ownership, hold: SingleHold
) -> Generator[MemberRequest, None, Answer]:
    """Request the lock of a member, of this kind, once.

    Raises:
        Failure: It is not known what became of it (``Unanswered``: it is pending), or it had no effect.
        RedissonError: Why its owner cannot acquire it.
    """
    client, exchange = member.client, partial(request_once, member)
    if ownership.holds or ownership.in_flight.pending is not None:
        yield from make_ready(client, kind, ownership, exchange).__await__()
    if kind.has_fair_queue:
        if ownership.kind is not kind:
            adopt(kind, ownership)
        kind.waiting.begin(ownership, 0.0, client.runtime.now())
    if (ready := ownership.ready) is None or ready[:2] != (ownership.epoch, hold.lease_ms):
        reuse_requests(member, kind, ownership, hold)
    first, started = None, None if ownership.holds else begin_attempt(client, kind, ownership, hold)
    if started is not None:  # What nearly always happens is spelt out, for as many nodes as there are.
        (call, epoch), sent = started, client.runtime.now()
        request = MemberRequest(member, call, epoch, call.repeat)
        yield request
        usual = None if request.replica_wait is not None else usual_outcome(call, request.answer)
        if usual is not None:
            if (took := client.runtime.now() - sent) < member.server.round_trip:
                member.server.answered_within(took)
            return end_attempt(client, call, usual, sent)
        first = FirstRequest(call, epoch, (request, sent))
    requesting = request_lock(client, kind, ownership, hold, exchange, first=first)
    call, outcome, sent = yield from requesting.__await__()
    return end_attempt(client, call, outcome, sent)


def release_part(member: Member, ownership: Ownership, hold: SingleHold) -> Generator[MemberRequest, None, None]:
    """Release the hold of a member, once, or settle its release, if that is pending.

    Raises:
        Failure: It is not known what became of it, or it had no effect: it is pending.
        LockLostError: It is lost.
    """
    client, exchange = member.client, partial(request_once, member)
    if not ownership.owner.startswith(client.id):
        reason = ownership.loss or hold.loss or ANOTHER
        ownership.drop(hold)
        raise lost_error(ownership, reason)
    if hold.state is HoldState.GIVEN_UP and ownership.leave_given_up(hold):
        return
    if ownership.in_flight.pending is not None:
        yield from leave_block(client, member.kind, ownership, hold, exchange=exchange).__await__()
    if hold.state not in (HoldState.HELD, HoldState.ENDED, HoldState.LOST):
        return
    try:
        started = begin_release(client, member.kind, ownership, (hold,), block=True)
        if started is not None:  # As in :func:`acquire_part`.
            (call, epoch), sent = started, client.runtime.now()
            request = MemberRequest(member, call, epoch, repeat=False)
            yield request
            if request.answer is None or type(request.answer) is int:
                end_release(client, call, request.answer, sent, repeated=False)
            else:
                releasing = request_release(client, call, epoch, exchange, begun=(request, sent))
                yield from releasing.__await__()
            return
    except BaseException as error:
        yield from leave_release(client, ownership, (hold,), error, exchange).__await__()
        raise
    yield from release_all(client, member.kind, ownership, (hold,), None, exchange, block=True).__await__()


async def force_part(member: Member, ownership: Ownership) -> bool:
    """Free the lock of a member, for any holder, once. Returns whether it was locked.

    Raises:
        Failure: It is not known to be free.
        LockError: A signal handler is in the middle of a call on it.
    """
    return await force_unlock(member.client, member.kind, ownership, partial(request_once, member))


async def is_part_locked(member: Member) -> bool:
    """Return whether the lock of a member is held, asked once. Raises ``Failure``."""
    runtime, lock = member.client.runtime, member.lock
    timeout = member.timeout(member.client.watchdog.lease_ms)
    return lock.read_locked(
        await _answer(ServerRequest(runtime, runtime.prepare_command(lock.locked_command()), timeout))
    )


@coroutine
def _answer(request: ServerRequest) -> Generator[ServerRequest, None, Reply]:
    yield request
    if isinstance(request.answer, Failure):
        raise request.answer
    return request.answer  # type: ignore[no-any-return]


async def settle_part(member: Member, ownership: Ownership) -> None:
    """Settle the pending request of a member, for a caller that has left. Raises ``Failure``: it is pending still."""
    await settle(member.client, ownership, behind=True, exchange=partial(request_once, member))


# ---- decisions -------------------------------------------------------------------------------------------------------
# What a quorum decides: plain functions of what the nodes replied.
#
# Source: "Distributed Locks with Redis" (redis.io), "The Redlock Algorithm".


#: The least time that a node has to answer: a two-hundredth of the lease, within these bounds, in seconds.
NODE_TIMEOUT_SHARE = 1 / 200
NODE_TIMEOUT_MIN = 0.005
NODE_TIMEOUT_MAX = 0.05

#: The time for a node with longer round trips: this number of them, but at most this share of the lease.
NODE_TIMEOUT_ROUND_TRIPS = 4
NODE_TIMEOUT_LARGEST_SHARE = 1 / 10


def majority(nodes: int) -> int:
    """Return the least number of nodes such that any two such sets have one in common."""
    return nodes // 2 + 1


@lru_cache(maxsize=100)
def node_timeout(lease_ms: int, configured: float | None, round_trip: float) -> float:
    """Seconds that one node has to answer.

    Args:
        lease_ms: The lease that is asked for.
        configured: ``Config.quorum_node_timeout``.
        round_trip: Seconds that a request to this node takes; 0: not known.
    """
    if configured is not None:
        return configured
    lease = lease_ms / 1000
    least = min(max(lease * NODE_TIMEOUT_SHARE, NODE_TIMEOUT_MIN), NODE_TIMEOUT_MAX)
    return max(least, min(round_trip * NODE_TIMEOUT_ROUND_TRIPS, lease * NODE_TIMEOUT_LARGEST_SHARE))


def certain_until(deadlines: Iterable[float], quorum: int) -> float:
    """Until when a quorum is certain, if each of these nodes is until then; minus infinity if they are too few."""
    latest = sorted(deadlines, reverse=True)
    return latest[quorum - 1] if len(latest) >= quorum else -math.inf


# ---- release ---------------------------------------------------------------------------------------------------------
# Releasing a multi-lock: for an unlock, after a failed acquire, and after an interruption; and extending it.
#
# It is released on every server. What a server does not confirm is settled by the watchdog of its client.


Outcome: TypeAlias = "Failure | RedissonError | None"
"""The outcome of a release on one server: ``None`` if it has confirmed it."""


# ---- a failed acquire ------------------------------------------------------------------------------------------------


async def wait_for_turns(whole: MultiHold) -> None:
    """Wait until no other call is at a request of a member: requests to all at once cannot wait in between."""
    now = whole.client.runtime.now
    for member, own in zip(whole.members, whole.ownerships, strict=True):
        if own.in_flight.pending is not None and own.in_flight.state in OF_CALL:  # As `busy`, without the call.
            await wait_for_turn(member.client, own, now() + member.client.config.timeout, None)


async def undo(whole: MultiHold) -> None:
    """Release what was acquired for this hold."""
    held = []
    for _, member, own, part in whole.each():
        if part.state is HoldState.HELD:
            held.append((member, own, part))
        elif own.pending is not None:
            member.client.settle_later(own, part.lease_ms)
            own.claim(part)
    whole.parts = [None] * len(whole.parts)
    if held:
        await wait_for_turns(whole)
        outcomes = await together(whole.client.runtime, starmap(release_part, held))
        until = whole.client.runtime.now() + CLEANUP_BUDGET
        for (member, own, _), outcome in zip(held, outcomes, strict=True):
            client, left = member.client, until - whole.client.runtime.now()
            if isinstance(outcome, Failure) and client.closed and left > 0:  # Its background settles nothing any more.
                await send_release(client, partial(settle, client, own, left, behind=True))


async def undo_interrupted(whole: MultiHold, error: BaseException) -> None:
    """The caller is interrupted (Ctrl-C, cancellation): release what any member may have granted."""
    whole.state = HoldState.OVER
    for _, member, own, part in whole.each():
        if own.undo_acquire(part):
            own.keep_pending_until(member.client.runtime.now() + part.lease_ms / 1000)
    await _settle_on_leaving(whole, error)
    for _, _, own, part in whole.each():
        own.claim(part)


async def _settle_on_leaving(whole: MultiHold, error: BaseException) -> None:
    """Settle the pending requests of the members, although the caller is leaving; the unanswered ones later."""
    runtime = whole.client.runtime
    try:
        if isinstance(error, GeneratorExit) and runtime.suspends:
            return  # A coroutine that is being closed cannot wait any more.
        open_ = [(member, own) for _, member, own, _ in whole.each() if own.pending is not None]
        await runtime.guard(together(runtime, starmap(settle_part, open_)), CLEANUP_BUDGET)
    finally:
        for _, member, own, _ in whole.each():
            if own.pending is not None:
                member.client.watchdog.settle_later(own)
            resume(member.client, own)


# ---- extending -------------------------------------------------------------------------------------------------------


async def extend(whole: MultiHold, lease_ms: int) -> bool:
    """Renew all members at once, each by this lease. Returns whether enough of them have confirmed it."""
    held = [(member, own) for _, member, own, _ in whole.held() if own.owner.startswith(member.client.id)]
    renewals = [Renewal(member.client, [own], lease_ms, member.timeout(lease_ms)) for member, own in held]
    confirmed = 0
    for renewal in await whole.client.runtime.fan_out(renewals):
        confirmed += await renewal.note() is None and renewal.effective
    return confirmed >= whole.quorum


# ---- an unlock -------------------------------------------------------------------------------------------------------


async def release(whole: MultiHold, progress: Progress | None, *, block: bool = False) -> bool:
    """Release a hold, or continue a release that could not be confirmed. Returns whether it was held still.

    ``block``: a block is left, which releases what closed clients hold as well.

    Raises:
        LockLostError: It is lost.
        LockError: It is lost, since the key of a member holds another type.
        OutcomeUnknownError: Too few servers have confirmed it, and one that was asked did not answer.
        QuorumUnreachableError: Too few servers could be asked, and all that were have answered.
    """
    client = whole.client
    until = client.runtime.now() + (CLEANUP_BUDGET if client.closed else client.config.timeout)
    client.refuse_interrupter(*whole.ownerships)
    lost = whole.loss
    if lost is None and whole.certain_until() <= client.runtime.now():
        lost = whole.find_loss() or (None if whole.released else whole.why_ended())
    early = None if lost is None else given_up(lost)
    note, confirmed = CallNote(client.runtime.thread()), True
    try:
        whole.note_call(note)
        if whole.state is HoldState.OVER:
            return False
        if progress is not None:
            progress.begun = True
        whole.released = True  # From here on a loss is not reported, but raised.
        if whole.block is not None and client.runtime.owner().thread_number != whole.who.thread_number:
            # Its owner may acquire a member anew at this moment. The rest of a lease that has ended runs out by itself.
            whole.forget_ended()
        await wait_for_turns(whole)
        # If it is lost the outcome is known: what no server confirms at once is released in the background.
        outcomes, in_doubt = await _release_parts(whole, until if lost is None else 0.0, block=block)
        if lost is None:
            confirmed = await _confirmed(whole, outcomes)
    except BaseException as error:
        if is_interruption(error):
            await _redo_release(whole, error)
        raise
    finally:
        note.thread = 0
        if confirmed:
            whole.over()
    if lost is not None and early is not None:
        in_time, confirmed = _given_up_in_time(outcomes)
        raise lost_error(whole, early if in_time else str(lost), confirmed=confirmed)
    if not confirmed:
        raise _unknown(whole) if in_doubt else _not_reached(whole, outcomes)
    if client.has_listeners():
        held_for = client.runtime.now() - whole.since
        client.emit(events.Released(whole.name, whole.owner, whole.depth(), held_for), ordinary=True)
    return True


def _given_up_in_time(outcomes: dict[int, Outcome]) -> tuple[bool, bool]:
    """Return whether all parts were given up before anyone else could acquire them, and whether that is confirmed."""
    in_time = confirmed = True
    for outcome in outcomes.values():
        if isinstance(outcome, LockLostError):
            in_time, confirmed = in_time and outcome._early, confirmed and outcome._confirmed
        elif outcome is not None:  # It was certain when its release was sent.
            in_time = in_time and isinstance(outcome, Failure) and not is_wrong_type(outcome)
            confirmed = False
    return in_time, confirmed


async def _redo_release(whole: MultiHold, error: BaseException) -> None:
    """Release it although the caller is leaving, who has no use for the hold in any case."""
    for _, _, own, part in whole.each():
        if own.redo_release(part):
            own.keep_pending_until()
    await _settle_on_leaving(whole, error)


async def _release_parts(whole: MultiHold, until: float, *, block: bool) -> tuple[dict[int, Outcome], bool]:
    """Release one hold on every server, once, and wait until enough of them have confirmed it.

    Returns:
        The outcome for each member that was held: ``None``, or the error of its server; and whether a request that this
        call has sent has no answer.
    """
    runtime = whole.client.runtime
    parts: dict[int, tuple[Member, Ownership, SingleHold]] = {}
    for index, member, own, part in whole.each():
        if block or not member.client.closed:  # Else that one's lease runs out by itself, as after a crash.
            parts[index] = member, own, part
    released = await together(runtime, starmap(release_part, parts.values()))
    for member in whole.members:
        if member.client.closed and not block:
            member.client.check_open()
    outcomes: dict[int, Outcome] = dict(zip(parts, released, strict=True))
    failures, in_doubt = 0, any(outcomes.values()) and _doubted(outcomes)
    while any(outcomes.values()) and len(unsure := _unsure(outcomes)) > len(whole.members) - whole.quorum:
        refused = sum(
            isinstance(outcomes[index], Passing) and not isinstance(outcomes[index], NotNow) for index in unsure
        )
        if (whole.client.closed and not block) or refused > len(whole.members) - whole.quorum:
            break
        if runtime.now() + RETRY.longest(failures) >= until:
            break
        await runtime.sleep(RETRY.pause(failures, runtime.jitter))
        failures += 1
        settled = await together(runtime, starmap(release_part, [parts[index] for index in unsure]))
        outcomes |= zip(unsure, settled, strict=True)
        in_doubt |= _doubted(outcomes)
    for index, outcome in outcomes.items():
        if isinstance(outcome, Failure) and is_wrong_type(outcome):
            parts[index][0].client.settle_later(parts[index][1], whole.lease_ms())
    return outcomes, in_doubt


def _doubted(outcomes: dict[int, Outcome]) -> bool:
    """Whether one of these requests was sent, and has no answer."""
    return any(isinstance(each, Unanswered) and not each.earlier for each in outcomes.values())


def _unsure(outcomes: dict[int, Outcome]) -> list[int]:
    """Return which members have not confirmed a release. Raises ``ClientClosedError`` if a client is closed."""
    unsure = []
    for index, outcome in outcomes.items():
        if isinstance(outcome, ClientClosedError):
            raise outcome
        if isinstance(outcome, Failure) and not is_wrong_type(outcome):
            unsure.append(index)
    return unsure


async def _confirmed(whole: MultiHold, outcomes: dict[int, Outcome]) -> bool:
    """Return whether enough servers have confirmed a release. Raises the error if it is lost."""
    gone = unsure = 0
    foreign: list[tuple[Member, Exception]] = []
    for index, outcome in outcomes.items():
        if isinstance(outcome, Failure) and is_wrong_type(outcome):
            foreign.append((whole.members[index], outcome.cause))
        gone += isinstance(outcome, LockLostError)
        unsure += isinstance(outcome, Failure)
    if len(outcomes) - gone - len(foreign) < whole.quorum:
        if not foreign:
            raise lost_error(whole)
        member, error = foreign[0]
        where = f" on {member.node}" if member.node else ""
        raise await explain_type(member.client.finder, error, member.name, member.kind.layout, where) from error
    return len(whole.members) - (unsure - len(foreign)) >= whole.quorum


def _unknown(whole: MultiHold) -> OutcomeUnknownError:
    """Emit that too few servers have confirmed a release, and return the error that says so."""
    error = OutcomeUnknownError(
        f"an unlock of multi-lock {whole.name!r} was sent, and too few nodes have confirmed it; it is being "
        "settled in the background until the lease expires",
        name=whole.name,
    )
    who = whole.who.describe()
    whole.client.emit(events.OutcomeUnknown(whole.name, whole.owner, "an unlock", error, who=who))
    return error


def _not_reached(whole: MultiHold, outcomes: dict[int, Outcome]) -> QuorumUnreachableError:
    """Return the error for a release that too few servers have confirmed, since others could not be asked."""
    states: dict[str, object] = {}
    for index, each in outcomes.items():
        member = whole.members[index]
        state = each.cause if isinstance(each, Failure) else each
        states[member.node or repr(member.name)] = state or "released"
    return unreachable(whole, states, "too few could be asked to release it", then="it is released in the background")


# ---- errors ----------------------------------------------------------------------------------------------------------


async def explain_states(members: Sequence[Member], states: dict[str, object], until: float) -> None:
    """For a node whose key holds another type, let its state say which, by that time."""
    for member in members:
        state = states[member.node]
        if isinstance(state, Exception) and member.client.runtime.now() < until:
            states[member.node] = await explain_type(member.client.finder, state, member.name, member.kind.layout)


def unreachable(
    whole: MultiHold,
    states: dict[str, object],
    why: str,
    hint: str = "",
    then: str = "what they granted is released",
) -> QuorumUnreachableError:
    """Return the error for too few nodes. ``states``: that of each; ``why`` they are too few; what the user can do."""
    text = "; ".join(f"{node}: {state}" for node, state in states.items())
    return QuorumUnreachableError(
        f"multi-lock {whole.name!r} needs {whole.quorum} of {len(whole.members)} nodes, but {why} ({text}); "
        f"{then}{hint}",
        name=whole.name,
        nodes=states,
    )
