"""What is asked of the members of a multi-lock side by side: to acquire, to give back, to settle.

A request is noted in its owner's ownership, sent together with those to the other members, and its answer is noted
there, too. A server is asked once; what stays open is settled by the watchdog of that member's client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyredisson.core.attempt import adopt, begin_attempt, check_reentrant, end_attempt, must_settle
from pyredisson.core.failures import Failure, Rejected, Unanswered
from pyredisson.core.outcomes import AT_ONCE, SelfBlocked
from pyredisson.core.release import begin_release, end_failed_release, end_release
from pyredisson.core.replicas import NotAcknowledged, Taking
from pyredisson.core.replies import unusable
from pyredisson.core.settling import call_to_settle, left_open, settled
from pyredisson.errors import RedissonError
from pyredisson.quorum.member import MemberAsk, send

if TYPE_CHECKING:
    from pyredisson.core.calls import AcquireCall, ReleaseCall
    from pyredisson.core.hold import Hold
    from pyredisson.core.in_flight import SettleBegun
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Runtime
    from pyredisson.quorum.member import Member

Said: TypeAlias = "Answer | Failure | RedissonError"
"""The outcome of one request to acquire a member."""


#: What is seen to before the outcomes are returned.
UNUSUAL = frozenset((SelfBlocked, NotAcknowledged))


class Wanted(NamedTuple):
    """The lock of one member, to be acquired."""

    member: Member
    kind: LockKind  # for this time
    ownership: Ownership
    hold: Hold


# ---- acquiring -------------------------------------------------------------------------------------------------------


def _asked_for(wanted: Wanted) -> MemberAsk[AcquireCall]:
    """Note that a lock is about to be asked for, without waiting for it."""
    member, kind, ownership, hold = wanted
    client = member.client
    if kind.queues:
        if ownership.kind is not kind:
            adopt(kind, ownership)
        kind.waiting.begin(ownership, 0.0, client.runtime.now())
    call, epoch = begin_attempt(client, kind, ownership, hold)
    sync = Taking(client.replicas, kind) if member.replicated else None
    return MemberAsk(member, call, call.request(epoch, call.repeat), call.repeat, sync)


async def acquire_each(runtime: Runtime, wanted: Sequence[Wanted]) -> list[Said]:
    """Ask each member for its lock, once.

    Returns:
        The outcome of each. What is ``Unanswered`` is pending in its ownership.
    """
    said: list[Any] = [None] * len(wanted)
    todo = wanted
    if any([each.ownership.holds or each.ownership.in_flight.pending for each in wanted]):  # noqa: C419  # It is faster.
        await _make_ready(runtime, wanted, said)
        todo = [each for each, error in zip(wanted, said, strict=True) if error is None]
    outcomes = map(_acquired, await send(runtime, map(_asked_for, todo)))
    said = [next(outcomes) if error is None else error for error in said]
    if not UNUSUAL.isdisjoint(map(type, said)):
        await _without_rivals(runtime, wanted, said)
        await _give_back_unacknowledged(runtime, wanted, said)
    return said


def _acquired(ask: MemberAsk[AcquireCall]) -> Said | SelfBlocked | NotAcknowledged:
    """Note the answer of one member."""
    call, answer = ask.call, ask.answer
    try:
        if answer is not None and type(answer) is not int:  # It is, as a rule.
            if isinstance(answer, NotAcknowledged):
                return answer
            if isinstance(answer, Failure):
                raise answer
        outcome = call.kind.reads(answer)
        if type(outcome) is SelfBlocked and call.kind.own_rival is not None:
            call.ownership.refused(call.request_id)
            return outcome
        return end_attempt(ask.member.client, call, outcome, ask.sent)
    except Unanswered as failure:
        if failure is not answer:
            ask.fail(failure)
        return failure
    except Failure as failure:
        call.ownership.refused(call.request_id)
        return failure
    except RedissonError as error:
        return error


async def _make_ready(runtime: Runtime, wanted: Sequence[Wanted], said: list[Any]) -> None:
    """As :func:`pyredisson.core.attempt.make_ready`, for all of them. Notes in ``said`` which of them cannot ask."""
    open_: list[int] = []
    for index, each in enumerate(wanted):
        try:
            if must_settle(each.member.client, each.kind, each.ownership):
                open_.append(index)
        except RedissonError as error:
            said[index] = error
    failures = await settle_each(runtime, [(wanted[at].member, wanted[at].ownership) for at in open_])
    for index, failure in zip(open_, failures, strict=True):
        said[index] = failure
    for index, each in enumerate(wanted):
        if said[index] is None:
            try:
                check_reentrant(each.kind, each.ownership)
            except RedissonError as error:
                said[index] = error


async def _without_rivals(runtime: Runtime, wanted: Sequence[Wanted], said: list[Any]) -> None:
    """Ask those once more whose owner is in its own way, by what can be given up."""
    todo: list[int] = []
    for index, each in enumerate(wanted):
        rival = each.kind.own_rival
        if isinstance(said[index], SelfBlocked) and rival is not None:
            try:
                await rival.give_up(each.member.client, each.kind, each.ownership)
                todo.append(index)
            except (Failure, RedissonError) as error:
                said[index] = error
    asks = await send(runtime, [_asked_for(wanted[index]) for index in todo])
    for index, ask in zip(todo, asks, strict=True):
        outcome = _acquired(ask)
        said[index] = AT_ONCE if isinstance(outcome, SelfBlocked) else outcome


async def _give_back_unacknowledged(runtime: Runtime, wanted: Sequence[Wanted], said: list[Any]) -> None:
    """Give back what too few replicas know of."""
    short = {index: outcome for index, outcome in enumerate(said) if isinstance(outcome, NotAcknowledged)}
    for index in short:
        wanted[index].ownership.settle_until(runtime.now() + wanted[index].hold.lease_ms / 1000)
    failures = await settle_each(runtime, [(wanted[at].member, wanted[at].ownership) for at in short])
    for (index, why), failure in zip(short.items(), failures, strict=True):
        member = wanted[index].member
        if failure is not None:
            member.client.watchdog.settle(wanted[index].ownership)
        said[index] = member.client.replicas.error(member.name, why, given_back=failure is None)


# ---- giving back -----------------------------------------------------------------------------------------------------


def _given_back(held: tuple[Member, Ownership]) -> MemberAsk[ReleaseCall]:
    """Note that a hold is about to be given back."""
    member, ownership = held
    call, epoch = begin_release(member.client, member.kind, ownership, block=True)
    return MemberAsk(member, call, call.request(epoch, False), False)


def _to_settle(member: Member, ownership: Ownership, begun: SettleBegun) -> MemberAsk[ReleaseCall]:
    """The request that settles what was taken over."""
    call = call_to_settle(ownership, begun)
    return MemberAsk(member, call, call.request(begun.epoch, begun.repeat), begun.repeat)


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
    results = map(_released, await send(runtime, map(_given_back, todo)))
    return [done[index] if index in done else next(results) for index in range(len(held))]


def _released(ask: MemberAsk[ReleaseCall]) -> Failure | RedissonError | None:
    """Note the answer of one member."""
    client, call, answer = ask.member.client, ask.call, ask.answer
    try:
        if answer is not None and type(answer) is not int:  # It is, as a rule.
            if not isinstance(answer, Failure):
                ask.fail(unusable(answer))
                answer = ask.answer
            assert isinstance(answer, Failure), "a failure was noted"
            end_failed_release(client, call, answer)
            return answer
        end_release(client, call, answer, ask.sent, repeated=ask.repeat)
        return None
    except RedissonError as error:
        return error


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
            asks = await send(runtime, [_to_settle(*open_[index], each) for index, each in begun.items()])
        except BaseException:
            for index, each in begun.items():
                member, ownership = open_[index]
                ownership.doubt(each.request_id)
                left_open(member.client, ownership, each)
            raise
        todo = []
        for (index, each), ask in zip(begun.items(), asks, strict=True):
            failure = _settled(ask, each, behind=behind)
            if failure is None:
                todo.append(index)  # There may be more due; or another call has taken it over.
            results[index] = failure
    return results


def _settled(ask: MemberAsk[ReleaseCall], begun: SettleBegun, *, behind: bool) -> Failure | RedissonError | None:
    """Note the answer of one member."""
    client, ownership, answer = ask.member.client, ask.call.ownership, ask.answer
    try:
        if isinstance(answer, Failure):
            raise answer
        assert not isinstance(answer, NotAcknowledged), "a release waits for no replica"
        settled(client, ownership, begun, answer, ask.sent, repeated=ask.repeat, behind=behind)
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
