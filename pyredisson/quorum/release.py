"""Releasing a multi-lock: for an unlock, after a failed acquire, and after an interruption.

It is released on every server. What a server does not confirm is settled by the watchdog of its client.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING, TypeAlias

from pyredisson.core import events
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.client_base import CLEANUP_BUDGET
from pyredisson.core.diagnosis.error_text import held_here, not_held, timed_out
from pyredisson.core.diagnosis.holder_lookup import BUDGET, found_here
from pyredisson.core.diagnosis.wrong_type import explain_type, is_wrong_type
from pyredisson.core.driver import together
from pyredisson.core.failures import Failure, is_interruption
from pyredisson.core.ownership.liveness import lost_error
from pyredisson.core.ownership.owned import CallNote
from pyredisson.errors import (
    ClientClosedError,
    LockLostError,
    LockNotOwnedError,
    LockTimeoutError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
)
from pyredisson.quorum.member import release_part, settle_part
from pyredisson.quorum.table import multi_locks_of

if TYPE_CHECKING:
    from pyredisson.core.driver import Progress
    from pyredisson.holders import Holder
    from pyredisson.quorum.member import Member
    from pyredisson.quorum.ownership import MultiHold, MultiOwnership

Outcome: TypeAlias = "Failure | RedissonError | None"
"""The outcome of a release on one server: ``None`` if it has confirmed it."""

#: After a round in which too few servers answered.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


# ---- a failed acquire ------------------------------------------------------------------------------------------------


async def undo(owned: MultiOwnership, hold: MultiHold) -> None:
    """Release what was acquired for this hold."""
    owned.set_acquiring(None)
    multi_locks_of(owned.client).unwatch(owned)
    held = []
    for index, (member, ownership) in enumerate(owned.parts()):
        part, hold.parts[index] = hold.parts[index], None
        if part is not None and ownership.has(part):
            held.append((member, ownership, part))
        elif ownership.pending is not None:
            member.client.settle_later(ownership, hold.lease_ms)
    if held:
        await together(owned.client.runtime, starmap(release_part, held))


async def undo_interrupted(owned: MultiOwnership, hold: MultiHold, before: Sequence[int], error: BaseException) -> None:
    """The caller is interrupted (Ctrl-C, cancellation): release what any member may have granted.

    ``before``: how often the owner held each of them before.
    """
    forget(owned, hold)
    for (member, ownership), count in zip(owned.parts(), before, strict=True):
        if ownership.undo_acquire(count):
            ownership.settle_until(member.client.runtime.now() + hold.lease_ms / 1000)
    await _settle_on_leaving(owned, error)


async def _settle_on_leaving(owned: MultiOwnership, error: BaseException) -> None:
    """Settle the pending requests of the members, although the caller is leaving; the unanswered ones later."""
    runtime = owned.client.runtime
    try:
        if isinstance(error, GeneratorExit) and runtime.suspends:
            return  # A coroutine that is being closed cannot wait any more.
        open_ = [each for each in owned.parts() if each[1].pending is not None]
        await runtime.guard(together(runtime, starmap(settle_part, open_)), CLEANUP_BUDGET)
    finally:
        settle_all_later(owned)


def settle_all_later(owned: MultiOwnership) -> None:
    """Leave the pending requests of the members to the watchdogs of their clients."""
    for member, ownership in owned.parts():
        if ownership.pending is not None:
            member.client.watchdog.settle(ownership)
        elif ownership.watched():
            member.client.watchdog.watch(ownership)


# ---- an unlock -------------------------------------------------------------------------------------------------------


def forget(owned: MultiOwnership, hold: MultiHold) -> None:
    """Its owner has no use for a hold any more, whatever becomes of its parts."""
    owned.forget(hold)
    multi_locks_of(owned.client).unwatch(owned)


def hand_over(owned: MultiOwnership) -> None:
    """The block of a hold is being closed, and cannot wait: leave the release to the watchdogs."""
    hold = owned.holds[-1]
    forget(owned, hold)
    for (_, ownership), part in zip(owned.parts(), hold.parts, strict=True):
        if part is not None and ownership.has(part):
            ownership.move_to_top(part)
            ownership.hand_over()
    settle_all_later(owned)
    multi_locks_of(owned.client).tidy(owned)


async def release(owned: MultiOwnership, progress: Progress | None) -> None:
    """Release one hold, or continue a release that could not be confirmed.

    Raises:
        LockNotOwnedError: There is none.
        LockLostError: It is lost.
        LockError: It is lost, since the key of a member holds another type.
        OutcomeUnknownError: Too few servers have confirmed it.
    """
    client, table = owned.client, multi_locks_of(owned.client)
    until = client.runtime.now() + client.config.timeout
    client.refuse_interrupter(owned, *owned.ownerships)
    lost = table.find_loss(owned)
    hold = owned.next_to_release()
    if hold is None:
        raise lost_error(owned, "its lease expired") if owned.unlock_expired() else await _not_owned(owned)
    before = [len(ownership.holds) for ownership in owned.ownerships]
    note = CallNote(client.runtime.thread())
    try:
        owned.note_call(note)
        if progress is not None:
            progress.begun = True
        forget(owned, hold)
        outcomes = await _release_parts(owned, hold, until)
    except BaseException as error:
        if is_interruption(error):  # The caller has no use for the hold in any case.
            forget(owned, hold)
            for ownership, part, count in zip(owned.ownerships, hold.parts, before, strict=True):
                if part is not None and count and ownership.redo_release(count):
                    ownership.settle_until()
            await _settle_on_leaving(owned, error)
        raise
    finally:
        note.thread = 0
    # An outer hold may have been lost before the answers were read.
    lost = lost or table.find_loss(owned)
    if lost is not None:
        raise lost_error(owned, lost)
    await _end(owned, hold, outcomes)


async def _release_parts(owned: MultiOwnership, hold: MultiHold, until: float) -> dict[int, Outcome]:
    """Release one hold on every server, once, and wait until enough of them have confirmed it.

    Returns:
        The outcome for each member that was held: ``None``, or the error of its server.
    """
    runtime, parts = owned.client.runtime, owned.parts()
    held = {index: (*parts[index], part) for index, part in enumerate(hold.parts) if part is not None}
    for _, ownership, part in held.values():
        if ownership.holds[-1:] != [part] and ownership.has(part):  # Blocks may be left in any order.
            ownership.move_to_top(part)
    released = await together(runtime, starmap(release_part, held.values()))
    outcomes: dict[int, Outcome] = dict(zip(held, released, strict=True))
    failures = 0
    while any(outcomes.values()) and len(unsure := _unsure(outcomes)) > len(parts) - owned.quorum:
        if runtime.now() + RETRY.longest(failures) >= until:
            break
        await runtime.sleep(RETRY.pause(failures, runtime.jitter))
        failures += 1
        settled = await together(runtime, starmap(settle_part, [parts[index] for index in unsure]))
        outcomes |= zip(unsure, settled, strict=True)
    for index, outcome in outcomes.items():
        if isinstance(outcome, Failure) and is_wrong_type(outcome):
            parts[index][0].client.settle_later(parts[index][1], hold.lease_ms)
    return outcomes


def _unsure(outcomes: dict[int, Outcome]) -> list[int]:
    """Return which members have not confirmed a release. Raises ``ClientClosedError`` if a client is closed."""
    unsure = []
    for index, outcome in outcomes.items():
        if isinstance(outcome, ClientClosedError):
            raise outcome
        if isinstance(outcome, Failure) and not is_wrong_type(outcome):
            unsure.append(index)
    return unsure


async def _end(owned: MultiOwnership, hold: MultiHold, outcomes: dict[int, Outcome]) -> None:
    """Note the outcome of a release, and raise the error that says so unless enough servers have confirmed it."""
    client, gone, unsure = owned.client, 0, 0
    foreign: list[tuple[Member, Exception]] = []
    for index, outcome in outcomes.items():
        if isinstance(outcome, Failure) and is_wrong_type(outcome):
            foreign.append((owned.members[index], outcome.cause))
        gone += isinstance(outcome, LockLostError)
        unsure += isinstance(outcome, Failure)
    if len(outcomes) - gone - len(foreign) < owned.quorum:
        if not foreign:
            raise lost_error(owned)
        member, error = foreign[0]
        where = f" on {member.node}" if member.node else ""
        raise await explain_type(member.client.finder, error, member.name, member.kind.layout, where) from error
    confirmed = len(owned.members) - (unsure - len(foreign)) >= owned.quorum
    owned.set_unconfirmed(None if confirmed else hold)
    if not confirmed:
        unknown = OutcomeUnknownError(
            f"an unlock of multi-lock {owned.name!r} was sent, and too few nodes have confirmed it; it is being "
            "settled in the background until the lease expires",
            name=owned.name,
        )
        client.emit(events.OutcomeUnknown(owned.name, owned.owner, "an unlock", unknown))
        raise unknown
    if client.has_listeners():
        held_for = client.runtime.now() - hold.since
        client.emit_ordinary(events.Released(owned.name, owned.owner, len(owned.holds), held_for))


# ---- errors ----------------------------------------------------------------------------------------------------------


def unreachable(owned: MultiOwnership, states: dict[str, object], why: str, hint: str = "") -> QuorumUnreachableError:
    """Return the error for too few nodes. ``states``: that of each; ``why`` they are too few; what the user can do."""
    text = "; ".join(f"{node}: {state}" for node, state in states.items())
    return QuorumUnreachableError(
        f"multi-lock {owned.name!r} needs {owned.quorum} of {len(owned.members)} nodes, but {why} ({text}); what they "
        f"granted is released{hint}",
        name=owned.name,
        nodes=states,
    )


async def _not_owned(owned: MultiOwnership) -> LockNotOwnedError:
    text, holder, free = await other_holder(owned)
    held = text if other_local_holder(owned) is not None else None
    return LockNotOwnedError(
        not_held("multi-lock", owned.name, owned.who, held, free=free), name=owned.name, holder=holder
    )


def other_local_holder(owned: MultiOwnership) -> MultiOwnership | None:
    """Return what another owner of this client holds of it, if one does."""
    others = multi_locks_of(owned.client).of(owned.key[0])
    return next((each for each in others if each.holds and each.who is not owned.who), None)


async def other_holder(owned: MultiOwnership) -> tuple[str | None, Holder | None, bool]:
    """Find out who holds it, or one of its members.

    Returns:
        The holder in words, the holder, and whether it is known that no one holds any member.
    """
    other = other_local_holder(owned)
    if other is not None:
        held = next((each for each in other.ownerships if each.holds), other.ownerships[0])
        return held_here(other.who), found_here(other.client, held).holder, False
    now = owned.client.runtime.now
    until = now() + BUDGET
    free = 0
    for member in owned.members:
        found = await member.client.finder.find(member.name)
        free += found.free
        if found.holder is not None or now() >= until:
            text = found.describe()
            if text is not None and member.name != owned.name:
                text = f"{member.name!r} is {text}"
            return text, found.holder, False
    return None, None, free == len(owned.members)


async def timeout_error(owned: MultiOwnership, wait: float | None) -> LockTimeoutError:
    """Return the error for an owner that did not acquire it within ``wait`` seconds."""
    why, holder, _ = await other_holder(owned)
    return LockTimeoutError(timed_out("multi-lock", owned.name, wait, why), name=owned.name, holder=holder)
