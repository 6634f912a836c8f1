"""What is asked of the members of a multi-lock side by side: to acquire, to give back, to settle.

A request is noted in its owner's ownership, sent together with those to the other members, and its answer is noted
there, too. A server is asked once; what stays open is settled by the watchdog of that member's client.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson.core.attempt import adopt, begin_attempt, check_reentrant, end_attempt, must_settle
from pyredisson.core.calls import AcquireCall, ReleaseCall
from pyredisson.core.failures import Failure, Rejected, Unanswered
from pyredisson.core.outcomes import AT_ONCE, SelfBlocked
from pyredisson.core.release import begin_release, end_failed_release, end_release
from pyredisson.core.replicas import NotAcknowledged, Taking
from pyredisson.core.replies import unusable
from pyredisson.core.settling import call_to_settle, left_open, settled
from pyredisson.errors import RedissonError
from pyredisson.quorum.member import MemberAsk, send

if TYPE_CHECKING:
    from pyredisson.core.hold import Hold
    from pyredisson.core.in_flight import SettleBegun
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Reply, Runtime
    from pyredisson.quorum.member import Member

Said: TypeAlias = "Answer | Failure | RedissonError"
"""The outcome of one request to acquire a member."""


#: What is seen to before the outcomes are returned.
UNUSUAL = frozenset((SelfBlocked, NotAcknowledged))


Wanted: TypeAlias = "tuple[Member, LockKind, Ownership, Hold]"
"""The lock of one member that is to be acquired, and as what."""


# ---- acquiring -------------------------------------------------------------------------------------------------------


class AcquireAsk(MemberAsk[AcquireCall]):
    """A request to acquire the lock of a member."""

    __slots__ = ()

    def note(self, answer: Reply | Failure | NotAcknowledged) -> Said | SelfBlocked | NotAcknowledged:
        """See :meth:`MemberAsk.note`."""
        call = self.call
        try:
            if isinstance(answer, NotAcknowledged):
                return answer
            if isinstance(answer, Failure):
                raise answer
            outcome = call.kind.reads(answer)
            if type(outcome) is SelfBlocked and call.kind.own_rival is not None:
                call.ownership.refused(call.request_id)
                return outcome
            return end_attempt(self.member.client, call, outcome, self.sent)
        except Unanswered as failure:
            if failure is not answer:
                self.fail(failure)
            return failure
        except Failure as failure:
            call.ownership.refused(call.request_id)
            return failure
        except RedissonError as error:
            return error


def _asked_for(member: Member, kind: LockKind, ownership: Ownership, hold: Hold) -> AcquireAsk:
    """Note that a lock is about to be asked for, without waiting for it."""
    client = member.client
    if kind.queues:
        if ownership.kind is not kind:
            adopt(kind, ownership)
        kind.waiting.begin(ownership, 0.0, client.runtime.now())
    call, epoch = begin_attempt(client, kind, ownership, hold)
    ready = ownership.ready
    if member.plain and ownership.since and not call.count and (ready is None or ready[:2] != (epoch, hold.lease_ms)):
        member.lock.make_ready(ownership, hold)
    return AcquireAsk(member, call, epoch, call.repeat, Taking(client.replicas, kind) if member.replicated else None)


async def acquire_each(runtime: Runtime, wanted: Sequence[Wanted]) -> list[Said]:
    """Ask each member for its lock, once.

    Returns:
        The outcome of each. What is ``Unanswered`` is pending in its ownership.
    """
    errors: dict[int, Failure | RedissonError] = {}
    if any([ownership.holds or ownership.in_flight.pending for _, _, ownership, _ in wanted]):  # noqa: C419  # It is faster.
        errors = await _make_ready(runtime, wanted)
    todo = [each for index, each in enumerate(wanted) if index not in errors] if errors else wanted
    asks = await send(runtime, starmap(_asked_for, todo))
    if not UNUSUAL.isdisjoint([type(ask.answer) for ask in asks]):
        await _without_rivals(runtime, asks)
        await _give_back_unacknowledged(runtime, asks)
    return _in_order(errors, asks)


def _in_order(done: dict[int, Any], asks: Sequence[MemberAsk[Any]]) -> list[Any]:
    """Return the outcomes of all members: of those that are done, by number, and of all others, which were asked."""
    outcomes = [ask.answer for ask in asks]
    for index in sorted(done):
        outcomes.insert(index, done[index])
    return outcomes


async def _make_ready(runtime: Runtime, wanted: Sequence[Wanted]) -> dict[int, Failure | RedissonError]:
    """As :func:`pyredisson.core.attempt.make_ready`, for all of them. Returns why some cannot ask, by number."""
    errors: dict[int, Failure | RedissonError] = {}
    open_: dict[int, tuple[Member, Ownership]] = {}
    for index, (member, kind, ownership, _) in enumerate(wanted):
        try:
            if must_settle(member.client, kind, ownership):
                open_[index] = member, ownership
        except RedissonError as error:
            errors[index] = error
    failures = await settle_each(runtime, [*open_.values()])
    errors.update({index: failure for index, failure in zip(open_, failures, strict=True) if failure is not None})
    for index, (_, kind, ownership, _) in enumerate(wanted):
        if index not in errors:
            try:
                check_reentrant(kind, ownership)
            except RedissonError as error:
                errors[index] = error
    return errors


async def _without_rivals(runtime: Runtime, asks: list[AcquireAsk]) -> None:
    """Ask those once more whose owner is in its own way, by what can be given up."""
    again: dict[int, AcquireCall] = {}
    for index, ask in enumerate(asks):
        call = ask.call
        if isinstance(ask.answer, SelfBlocked) and call.kind.own_rival is not None:
            try:
                await call.kind.own_rival.give_up(ask.member.client, call.kind, call.ownership)
                again[index] = call
            except (Failure, RedissonError) as error:
                ask.answer = error
    todo = [_asked_for(asks[index].member, call.kind, call.ownership, call.hold) for index, call in again.items()]
    for index, ask in zip(again, await send(runtime, todo), strict=True):
        asks[index] = ask
        if isinstance(ask.answer, SelfBlocked):
            ask.answer = AT_ONCE


async def _give_back_unacknowledged(runtime: Runtime, asks: Sequence[AcquireAsk]) -> None:
    """Give back what too few replicas know of."""
    short = [ask for ask in asks if isinstance(ask.answer, NotAcknowledged)]
    for ask in short:
        ask.call.ownership.settle_until(runtime.now() + ask.call.lease_ms / 1000)
    failures = await settle_each(runtime, [(ask.member, ask.call.ownership) for ask in short])
    for ask, failure in zip(short, failures, strict=True):
        client = ask.member.client
        if failure is not None:
            client.watchdog.settle(ask.call.ownership)
        ask.answer = client.replicas.error(ask.member.name, ask.answer, given_back=failure is None)


# ---- giving back -----------------------------------------------------------------------------------------------------


class ReleaseAsk(MemberAsk[ReleaseCall]):
    """A request to give back a hold of a member."""

    __slots__ = ()

    def note(self, answer: Reply | Failure | NotAcknowledged) -> Failure | RedissonError | None:
        """See :meth:`MemberAsk.note`."""
        client, call = self.member.client, self.call
        try:
            if answer is not None and type(answer) is not int:  # It is, as a rule.
                failure = answer if isinstance(answer, Failure) else self.fail(unusable(answer))
                end_failed_release(client, call, failure)
                return failure
            end_release(client, call, answer, self.sent, repeated=self.repeat)
            return None
        except RedissonError as error:
            return error


class SettleAsk(MemberAsk[ReleaseCall]):
    """A request that settles what was taken over.

    Attributes:
        begun: That.
        behind: As for :func:`pyredisson.core.settling.settle`.
    """

    __slots__ = ("begun", "behind")

    def __init__(self, member: Member, ownership: Ownership, begun: SettleBegun, *, behind: bool) -> None:
        super().__init__(member, call_to_settle(ownership, begun), begun.epoch, begun.repeat)
        self.begun: SettleBegun = begun
        self.behind: bool = behind

    def note(self, answer: Reply | Failure | NotAcknowledged) -> Failure | RedissonError | None:
        """See :meth:`MemberAsk.note`."""
        client, ownership, begun = self.member.client, self.call.ownership, self.begun
        try:
            if isinstance(answer, Failure):
                raise answer
            assert not isinstance(answer, NotAcknowledged), "a release waits for no replica"
            settled(client, ownership, begun, answer, self.sent, repeated=self.repeat, behind=self.behind)
            return None
        except Rejected as failure:
            return failure
        except Failure as failure:
            left_open(client, ownership, begun)
            return failure
        except RedissonError as error:
            ownership.doubt(begun.request_id)
            left_open(client, ownership, begun)
            return error


def _given_back(member: Member, ownership: Ownership) -> ReleaseAsk:
    """Note that a hold is about to be given back."""
    call, epoch = begin_release(member.client, member.kind, ownership, block=True)
    return ReleaseAsk(member, call, epoch)


async def release_each(
    runtime: Runtime, held: Sequence[tuple[Member, Ownership]]
) -> list[Failure | RedissonError | None]:
    """Give back one hold of each member, once. Returns what each brought, ``None`` where it is given back."""
    done: dict[int, Failure | RedissonError | None] = {}
    open_ = [index for index, (_, ownership) in enumerate(held) if ownership.in_flight.pending is not None]
    if open_:
        later = [held[index][1].release_later(block=True) for index in open_]
        failures = await settle_each(runtime, [held[index] for index in open_], behind=True)
        for index, with_it, failure in zip(open_, later, failures, strict=True):
            ownership = held[index][1]
            if with_it or failure is not None or not (ownership.holds or ownership.expired):
                done[index] = failure
    todo = [each for index, each in enumerate(held) if index not in done] if done else held
    return _in_order(done, await send(runtime, starmap(_given_back, todo)))


async def settle_each(
    runtime: Runtime, open_: Sequence[tuple[Member, Ownership]], *, behind: bool = False
) -> list[Failure | RedissonError | None]:
    """Settle what is pending of each member. As :func:`pyredisson.core.settling.settle`, but asked once each.

    Returns:
        What each brought, ``None`` where nothing is pending any more.
    """
    results: list[Failure | RedissonError | None] = [None] * len(open_)
    todo = list(range(len(open_)))
    while todo:
        begun = {index: open_[index][1].take_over() for index in todo}
        begun = {index: each for index, each in begun.items() if each.pending is not None}
        try:
            asks = await send(runtime, [SettleAsk(*open_[index], each, behind=behind) for index, each in begun.items()])
        except BaseException:
            for index, each in begun.items():
                member, ownership = open_[index]
                ownership.doubt(each.request_id)
                left_open(member.client, ownership, each)
            raise
        for index, ask in zip(begun, asks, strict=True):
            results[index] = ask.answer
        todo = [index for index in begun if results[index] is None]  # There may be more due; or another call has it.
    return results
