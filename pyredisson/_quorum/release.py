"""Releasing a multi-lock: for an unlock, after a failed acquire, and after an interruption; and extending it.

It is released on every server. What a server does not confirm is settled by the watchdog of its client.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, TypeAlias

from pyredisson._core import events
from pyredisson._core.acquiring import resume, wait_for_turn
from pyredisson._core.deadline import CLEANUP_BUDGET, DoublingBackoff
from pyredisson._core.failures import Failure, NotNow, Passing, Unanswered, is_interruption
from pyredisson._core.hold import CallNote, HoldState, lost_error
from pyredisson._core.messages import explain_type, is_wrong_type
from pyredisson._core.releasing import settle_later
from pyredisson._core.runtime import together
from pyredisson._core.watchdog import Renewal
from pyredisson._quorum.member import release_part, settle_part
from pyredisson.errors import (
    ClientClosedError,
    LockLostError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
)

if TYPE_CHECKING:
    from pyredisson._core.hold import Hold
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Progress
    from pyredisson._quorum.hold import MultiHold
    from pyredisson._quorum.member import Member

Outcome: TypeAlias = "Failure | RedissonError | None"
"""The outcome of a release on one server: ``None`` if it has confirmed it."""

#: After a round in which too few servers answered.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


# ---- a failed acquire ------------------------------------------------------------------------------------------------


async def wait_for_turns(whole: MultiHold) -> None:
    """Wait until no other call is at a request of a member: requests to all at once cannot wait in between."""
    now = whole.client.runtime.now
    for member, own in zip(whole.members, whole.ownerships, strict=True):
        if own.in_flight.asking and own.in_flight.pending is not None:  # As `busy`, without the call.
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
        await together(whole.client.runtime, starmap(release_part, held))


async def undo_interrupted(whole: MultiHold, error: BaseException) -> None:
    """The caller is interrupted (Ctrl-C, cancellation): release what any member may have granted."""
    whole.state = HoldState.OVER
    for _, member, own, part in whole.each():
        if own.undo_acquire(part):
            own.settle_until(member.client.runtime.now() + part.lease_ms / 1000)
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
        settle_all_later(whole)


def settle_all_later(whole: MultiHold) -> None:
    """Leave the pending requests of the members to the watchdogs of their clients."""
    for _, member, own, _ in whole.each():
        if own.pending is not None:
            member.client.watchdog.settle(own)
        resume(member.client, own)


# ---- extending -------------------------------------------------------------------------------------------------------


async def extend(whole: MultiHold, lease_ms: int) -> None:
    """Renew all members at once, each by this lease."""
    renewals = [Renewal(member.client, [own], lease_ms, member.timeout(lease_ms)) for _, member, own, _ in whole.held()]
    for renewal in await whole.client.runtime.fan_out(renewals):
        await renewal.learn_cause()
        renewal.note()


# ---- an unlock -------------------------------------------------------------------------------------------------------


def hand_over(whole: MultiHold) -> None:
    """The block of a hold is being closed, and cannot wait: leave the release to the watchdogs."""
    for _, _, own, part in whole.each():
        own.hand_over(part)
    whole.over()
    settle_all_later(whole)
    for _, member, own, _ in whole.each():
        if own.pending is not None:
            settle_later(member.client, own)


async def release(whole: MultiHold, progress: Progress | None, *, block: bool = False) -> None:
    """Release a hold, or continue a release that could not be confirmed.

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
    lost = whole.find_loss()
    if lost is None and not whole.released and whole.certain_until() <= client.runtime.now():
        lost = "its lease expired"
    note = CallNote(client.runtime.thread())
    confirmed = True
    try:
        whole.note_call(note)
        if progress is not None:
            progress.begun = True
        whole.released = True  # From here on a loss is not reported, but raised.
        if whole.block is not None and client.runtime.owner().thread_number != whole.who.thread_number:
            # Its owner may acquire a member anew at this moment. The rest of a lease that has ended runs out by itself.
            whole.forget_ended()
        await wait_for_turns(whole)
        outcomes, in_doubt = await _release_parts(whole, until, block=block)
        if lost is None:
            confirmed = await _confirmed(whole, outcomes)
    except BaseException as error:
        if is_interruption(error):  # The caller has no use for the hold in any case.
            for _, _, own, part in whole.each():
                if own.redo_release(part):
                    own.settle_until()
            await _settle_on_leaving(whole, error)
        raise
    finally:
        note.thread = 0
        if confirmed:
            whole.over()
    if lost is not None:
        raise lost_error(whole, lost)
    if not confirmed:
        raise _unknown(whole) if in_doubt else _not_asked(whole, outcomes)
    if client.has_listeners():
        held_for = client.runtime.now() - whole.since
        client.emit_ordinary(events.Released(whole.name, whole.owner, whole.depth(), held_for))


async def _release_parts(whole: MultiHold, until: float, *, block: bool) -> tuple[dict[int, Outcome], bool]:
    """Release one hold on every server, once, and wait until enough of them have confirmed it.

    Returns:
        The outcome for each member that was held: ``None``, or the error of its server; and whether a request that this
        call has sent has no answer.
    """
    runtime = whole.client.runtime
    parts: dict[int, tuple[Member, Ownership, Hold]] = {}
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


def _not_asked(whole: MultiHold, outcomes: dict[int, Outcome]) -> QuorumUnreachableError:
    """Return the error for a release that too few servers have confirmed, since others could not be asked."""
    states: dict[str, object] = {}
    for index, each in outcomes.items():
        member = whole.members[index]
        state = each.cause if isinstance(each, Failure) else each
        states[member.node or repr(member.name)] = state or "released"
    return unreachable(whole, states, "too few could be asked to release it", then="it is released in the background")


# ---- errors ----------------------------------------------------------------------------------------------------------


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
