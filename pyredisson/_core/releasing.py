"""Releasing: one hold is released exactly once, whatever becomes of the request and of its caller.

And freeing a lock, for any holder.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.acquiring import adopt, expire, resume, settle, settle_on_leaving, wait_for_turn
from pyredisson._core.deadline import CLEANUP_BUDGET, RETRY
from pyredisson._core.failures import (
    Failure,
    Rejected,
    Unusable,
    cannot_wait,
    ended_inside,
    explain_type,
    held_here,
    is_interruption,
    not_held,
)
from pyredisson._core.hold import LEFT_MEANWHILE, HoldState, InMargin, InTime, given_up, lost_error
from pyredisson._core.holder_lookup import found_here
from pyredisson._core.requests import UNDER_WAY, ForceCall, Pending, ReleaseCall, Unlock, unusable
from pyredisson._core.runtime import run
from pyredisson._core.waiting import released_as
from pyredisson._core.watchdog import Renewal
from pyredisson.errors import LockLostError, LockNotOwnedError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import Owned, SingleHold
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Exchange
    from pyredisson._core.runtime import Progress, Reply
    from pyredisson.holders import Holder


async def unlock(client: ClientCore, kind: LockKind, ownership: Ownership, progress: Progress | None) -> None:
    """Release the innermost hold of an owner, or continue the last release if that could not be settled."""
    ownership = to_release(kind, ownership)
    if ownership.in_flight.pending is not None:
        # If an acquire, or the end of a block, is not settled now, this unlock is done behind it. Called again, it is
        # this one still.
        hold, in_flight = ownership.to_unlock(), ownership.in_flight
        other = in_flight.pending is Pending.ACQUIRE or in_flight.of_block
        later, settled = other and ownership.release_later(hold, block=False), None
        if later:
            hold = in_flight.unlocking
        try:
            settled = await settle_or_explain(client, ownership)
        except LockLostError:
            if not (hold is not None and _ended_meanwhile(hold, later=later)):
                raise
            # Else that of the block, which has reported it; ours comes now.
        # Without a hold, its caller may be the one who was interrupted.
        if later or (settled is Pending.RELEASE and not (other and hold is not None)):
            if hold is not None and _ended_meanwhile(hold, later=later):
                await release_all(client, kind, ownership, (hold,), progress)
            ownership.take_released_behind()
            resume(client, ownership)
            return
    # Looked at after the pending request: what the background settles in between is seen here.
    if ownership.in_flight.released_behind and ownership.take_released_behind():
        resume(client, ownership)
        return
    hold = ownership.to_unlock()
    await release_all(client, kind, ownership, () if hold is None else (hold,), progress)


def _ended_meanwhile(hold: SingleHold, *, later: bool) -> bool:
    """Return whether a hold has ended that was to be released behind another request; ``later``: by this unlock."""
    return hold.state is HoldState.LOST or (later and hold.state is HoldState.ENDED)


async def leave_block(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold | None,
    progress: Progress | None = None,
    exchange: Exchange | None = None,
) -> bool:
    """Release the hold of a block. Unlike :func:`unlock` this never stands for an earlier one that failed.

    ``hold``: that; ``None``: its owner's innermost, which is chosen here, since a signal handler may have released it
    before. ``exchange``: how to send the request; ``None``: as :meth:`ClientCore.exchange` does.

    Returns ``False`` if there is none, and the client was closed.
    """
    if hold is None:
        hold = ownership.to_unlock() or ownership.given_up_here()
        if hold is None and client.closed:
            return False
    if ownership.pending is not None:
        if progress is not None:
            progress.begun = True
        # No one returns to a block's hold: if it cannot be released now, it is released after the pending request.
        later = ownership.release_later(hold, block=True)
        mine = hold in ownership.in_flight.holds  # A multi-lock may ask again.
        try:
            await settle_or_explain(client, ownership, exchange)
        except LockLostError:
            if later or mine:
                raise
            # Else that of an inner block, which has reported it; ours comes now.
        if hold is not None and (later or mine) and is_released(hold):
            resume(client, ownership)
            return True
    if ownership.leave_given_up(hold):
        return True
    await release_all(client, kind, ownership, () if hold is None else (hold,), progress, exchange, block=True)
    return True


def is_released(hold: SingleHold) -> bool:
    """Return whether the hold of a block was released in the settling of what was in its way."""
    return hold.state in (HoldState.OVER, HoldState.RELEASED)


def leave_behind_call(
    held: Owned, parts: Sequence[tuple[ClientCore, Ownership, SingleHold | None]], lost: str | None
) -> None:
    """Leave a block in a signal handler, in the middle of a call of its thread on its lock.

    That call cannot go on before the handler returns: what the block holds is released behind it.

    Args:
        held: What the block holds.
        parts: The same at each client: the client, what the owner holds there, and the hold.
        lost: Why it is lost, if it is.

    Raises:
        LockLostError: It is lost.
        LockNotOwnedError: It holds nothing that this call does not release.
    """
    left = [(client, own) for client, own, hold in parts if own.leave_behind_call(hold)]
    for client, ownership in left:
        client.watchdog.settle_later(ownership)
        release_later(client, partial(settle, client, ownership, CLEANUP_BUDGET, behind=True))
    if lost is not None:
        raise lost_error(held, lost)
    if not left:
        raise ended_inside(held.what, held.name)


async def settle_or_explain(
    client: ClientCore, ownership: Ownership, exchange: Exchange | None = None
) -> Pending | None:
    """Settle the pending request. Raises the error to show if that fails; the ``Failure`` if an ``exchange`` is given.

    ``exchange``: as for :func:`settle`.
    """
    try:
        return await settle(client, ownership, exchange=exchange)
    except Failure as failure:
        if exchange is not None:
            raise
        lease = client.watchdog.lease_ms
        raise client.explain(failure, ownership, "an earlier request", lease) from failure.cause


async def release_all(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    holds: Sequence[SingleHold],
    progress: Progress | None = None,
    exchange: Exchange | None = None,
    *,
    block: bool = False,
    becoming: HoldState = HoldState.OVER,
) -> None:
    """Release these holds in one request: one, or all, for the wait of a condition.

    If the caller is interrupted, they are released in the background.

    Args:
        client: The client.
        kind: The kind of lock.
        ownership: What its owner holds.
        holds: The holds; without one, this is an error.
        progress: See ``run_to_the_end``.
        exchange: How to send the request; ``None``: as :meth:`ClientCore.exchange` does.
        block: Whether it is the end of a block.
        becoming: What the holds become. A condition, which gives them up, repeats the request itself.

    Raises:
        Failure: Only for an ``exchange`` or a condition; others raise the error to show.
    """
    try:
        if progress is not None:
            progress.begun = True
        while (begun := begin_release(client, kind, ownership, holds, block=block, becoming=becoming)) is None:
            if block and holds:  # No one returns to it, whatever becomes of the other request.
                ownership.release_later(holds[0], block=True)
            await wait_for_turn(client, ownership, client.runtime.now() + client.config.timeout, exchange)
            with suppress(LockLostError):  # That of another hold. Ours tells its own.
                await settle_or_explain(client, ownership, exchange)
            if block and (ownership.leave_given_up(*holds) or any(map(is_released, holds))):
                return
        call, epoch = begun
        if exchange is None and becoming is not HoldState.GIVEN_UP:
            await finish_release(client, call, epoch)
        else:
            await request_release(client, call, epoch, exchange)
    except BaseException as error:
        await leave_release(client, ownership, holds, error, exchange, becoming=becoming)
        raise


async def leave_release(
    client: ClientCore,
    ownership: Ownership,
    holds: Sequence[SingleHold],
    error: BaseException,
    exchange: Exchange | None = None,
    *,
    becoming: HoldState = HoldState.OVER,
) -> None:
    """Clean up after an error, or after an interruption, whose caller has no use for the holds in any case."""
    if is_interruption(error):
        if ownership.redo_release(*holds, becoming=becoming):
            ownership.keep_pending_until()
            if exchange is not None or (isinstance(error, GeneratorExit) and client.runtime.suspends):
                client.watchdog.settle_later(ownership)  # A multi-lock settles all its members at once, if it can wait.
            else:
                await settle_on_leaving(client, ownership)
        resume(client, ownership)  # In any case: it may have been released, and be watched still.
    elif type(error) is LockNotOwnedError and error.holder is None:
        raise await _with_holder(client, ownership, error) from None


async def finish_release(
    client: ClientCore,
    call: ReleaseCall,
    epoch: int,
    *,
    begun: tuple[Any, float] | None = None,
) -> None:
    """Send a release until there is an answer, and note it. Raises the error to show if there is none.

    ``begun``: as for :meth:`ClientCore.exchange`.
    """
    try:
        await request_release(client, call, epoch, begun=begun)
    except Failure as failure:
        error = client.explain(failure, call.ownership, "an unlock", call.lease_ms)
        raise await explain_type(client.finder, error, call.ownership.name, call.kind.layout) from failure.cause


async def request_release(
    client: ClientCore,
    call: ReleaseCall,
    epoch: int,
    exchange: Exchange | None = None,
    *,
    begun: tuple[Any, float] | None = None,
) -> None:
    """Send a release until there is an answer, and note it; what has none stays pending, and raises ``Failure``.

    ``exchange``: how to send the request; ``None``: as :meth:`ClientCore.exchange` does. ``begun``: as for that.
    """
    try:
        reply, sent, repeated = await (exchange or client.exchange)(call, epoch, begun=begun)
        if type(reply) is list:
            raise unusable(reply)
    except Failure as failure:
        call.ownership.answered(call.request_id)
        if isinstance(failure, Unusable):
            call.ownership.doubt(call.request_id)
        _end_failed_release(client, call, failure)
        raise
    if reply is None and exchange is None and call.lost is None:
        await client.learn_cause(call.ownership.name)
    end_release(client, call, reply, sent, repeated=repeated)


def begin_release(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    holds: Sequence[SingleHold],
    *,
    block: bool,
    becoming: HoldState = HoldState.OVER,
) -> tuple[ReleaseCall, int] | None:
    """Note that these holds are about to be released. Returns the request, and the epoch of its first copy.

    Returns ``None`` while another request is under way, or is to be settled first.

    Raises:
        LockNotOwnedError: There is none.
        LockLostError: It has ended, and its owner holds the lock anew.
    """
    if ownership.holds and client.runtime.now() >= ownership.deadline:
        expire(client, ownership)
    lost, reason = None, ownership.loss or ownership.ending
    if ownership.loss is not None or ownership.ended:
        lost = given_up(ownership.loss or ownership.why_ended())
    if ownership.kind is not kind:
        adopt(kind, ownership)
    begun = ownership.begin_release(*holds, block=block, becoming=becoming)
    if begun is None:
        return None
    request_id, epoch, count, lease, todo = begun
    if todo is Unlock.NOT_OWNED:
        raise not_owned(kind, ownership)
    if todo is Unlock.ENDED:
        raise lost_error(ownership, ownership.why_ended())
    held = (*ownership.holds, *ownership.ended)
    if isinstance(reason, InMargin) and isinstance(lost, InTime) and any(each in held for each in reason.holds):
        reason.request_id = request_id  # Nothing is sent, which would let others begin: the work around it goes on.
        raise lost_error(ownership, reason)
    lease = lease or client.watchdog.lease_ms
    lost = (lost or ownership.why_ended()) if todo is Unlock.LOST else None
    return ReleaseCall(kind, ownership, request_id, lease, count, lost), epoch


def to_release(kind: LockKind, ownership: Ownership) -> Ownership:
    """Return what a release is about: what its caller acts as, or what has ended there under another number."""
    return (ownership.to_unlock() is None and _where_ended(kind, ownership)) or ownership


def _where_ended(kind: LockKind, ownership: Ownership) -> Ownership | None:
    """Return what its thread has under another number, if a hold of the calling context has ended there.

    What has ended keeps no one out: the thread may hold the lock anew by now, for another call chain.
    """
    client = kind.client
    others = client.ownerships.of_thread(ownership.name, ownership.who, ownership.owner)
    mine = [each for each in others if each.owner == kind.field(each.who.number)]
    mine += client.find_lost(kind, ownership.who)
    return next((each for each in mine if each.ended_here() is not None), None)


def ensure_held(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Raise an error unless its owner holds it for certain, by itself or through a multi-lock. Asks no server.

    Raises:
        LockLostError: It was lost.
        LockNotOwnedError: Its owner does not hold it, or an unlock of it is under way.
    """
    expire(client, ownership)
    hold = ownership.held_here() or ownership.ended_here()
    if hold is None:
        raise not_owned(kind, ownership, releases=False)
    raise_if_lost(ownership, hold)


def not_owned(kind: LockKind, ownership: Ownership, *, releases: bool = True) -> LockNotOwnedError:
    """Return the error for an owner that holds nothing of its own; look whether another one of this client does.

    ``releases``: whether it was to be released.
    """
    kind.client.check_open()  # A signal handler may have closed it since the call began.
    ended = _where_ended(kind, ownership)
    if ended is not None:
        return lost_error(ended, ended.why_ended())
    whole = next((hold.whole for hold in ownership.holds if hold.whole is not None and ownership.sees(hold)), None)
    if whole is not None:
        return LockNotOwnedError(
            f"lock {ownership.name!r} is held through multi-lock {whole.name!r} alone: release or extend that",
            name=ownership.name,
            holder=found_here(kind.client, ownership).holder,
        )
    other = other_local_holder(kind, ownership)
    return LockNotOwnedError(
        not_held("lock", ownership.name, ownership.who, _as_text(other, kind), releases=releases),
        name=ownership.name,
        holder=None if other is None else found_here(kind.client, other).holder,
    )


def _end_failed_release(client: ClientCore, call: ReleaseCall, failure: Failure) -> None:
    """Note that a release has no answer: it stays pending, unless it surely had no effect and was a condition's.

    Raises:
        LockLostError: Nothing was held any more.
    """
    ownership = call.ownership
    if call.lost is not None:
        raise lost_error(ownership, call.lost, confirmed=False) from failure.cause
    reason = ownership.loss
    if reason is not None:  # Its client has become another one meanwhile.
        ownership.lose_one(call.request_id, reason, client.runtime.now())
        raise lost_error(ownership, reason) from failure.cause
    if ownership.take_back_release(call.request_id):
        resume(client, ownership)
        return
    ownership.keep_pending_until()
    if not isinstance(failure, Rejected):  # The server would reject it again; the next unlock() asks.
        client.watchdog.settle_later(ownership)


def end_release(client: ClientCore, call: ReleaseCall, reply: Reply, sent: float, *, repeated: bool) -> None:
    """Note the reply to a request that was ``sent`` then: it took one hold away, or raise ``LockLostError``.

    ``repeated``: an earlier copy may have run.
    """
    ownership, count = call.ownership, call.count
    if call.lost is not None:
        gone = reply is None and not repeated  # Else an earlier copy may have released it.
        raise lost_error(ownership, str(call.lost) if gone else call.lost, confirmed=reply is not None)
    if reply is None and not (repeated and count == 1 and client.runtime.now() < ownership.deadline):
        reason = client.cause_of(ownership)
        lost = ownership.lose_one(call.request_id, reason, client.runtime.now())
        client.watchdog.unwatch(ownership)
        client.report_lost(ownership, lost, reason)
        raise lost_error(ownership, reason)
    hold = next(iter(ownership.in_flight.holds), None)
    renews = count > 1 and client.runtime.now() < ownership.deadline  # What has ended does not become valid again.
    stands = ownership.released(call.request_id, sent + client.certain_for(call.lease_ms) if renews else 0.0)
    if not stands and hold is not None:  # The answer was read when the lease had ended.
        ownership.forget(hold)
        if ownership.loss is not None:
            raise lost_error(ownership, ownership.loss)
    if type(reply) is int and reply not in (0, 1):
        call.kind.waiting.released(call.kind, ownership, released_as(client, reply) - 1, sent)
    if count == 1 or not ownership.watched():
        client.watchdog.unwatch(ownership)
    if hold is not None and hold.whole is None and client.has_listeners():
        held = client.runtime.now() - hold.since
        client.emit(events.Released(ownership.name, ownership.owner, count - 1, held), ordinary=True)


# ---- forced ----------------------------------------------------------------------------------------------------------


async def _look_after_force(
    client: ClientCore, ownership: Ownership, request_id: int, until: float, looks: int, timeout: float
) -> None:
    """Look whether what an owner held, or requested, when its lock was freed is held still: the order is not known.

    ``until``: how long that matters. ``looks``: how often that has brought nothing.
    """
    if client.closed:
        return  # All is left to its lease.
    requested = ownership.pending is Pending.ACQUIRE and ownership.request_id == request_id
    if not (requested and ownership.in_flight.state in UNDER_WAY):
        expire(client, ownership)
        if not ownership.holds or ownership.loss is not None or not ownership.owner.startswith(client.id):
            return
        left = max(1, int(1000 * ownership.remaining(client.runtime.now())))  # It is not to end later by this.
        renewal = Renewal(client, [ownership], left, timeout)
        await renewal.send()
        expire(client, ownership)  # What has simply run out meanwhile is not lost.
        failure = await renewal.note()
        if failure is not None:
            raise failure
        if renewal.effective:
            return
    at = client.runtime.now() + RETRY.pause(looks, client.runtime.jitter)
    client.watchdog.do_later(partial(_look_after_force, client, ownership, request_id, until, looks + 1), until, at)


async def force_unlock(
    client: ClientCore, kind: LockKind, ownership: Ownership, exchange: Exchange | None = None
) -> bool:
    """Free the lock in the name of an owner. Returns whether it was locked.

    ``exchange``: how to send the request; ``None``: as :meth:`ClientCore.exchange` does.

    Raises:
        Failure: Only for an ``exchange``; others raise the error to show.
    """
    if ownership.pending is not None:
        try:
            await settle_or_explain(client, ownership, exchange)
        except LockLostError:
            pass
    held = dict.fromkeys((ownership, *kind.ended_by_force()))
    client.refuse_interrupter(*[each for each in held if each is not ownership])
    for each in held:
        expire(client, each)  # A hold that has expired already is not lost by this call.
    victims = [(each, each.generation) for each in held]
    request_id, epoch = ownership.begin_force()
    lease = client.watchdog.lease_ms
    try:
        reply, _, _ = await (exchange or client.exchange)(ForceCall(kind, ownership, request_id, lease), epoch)
    except BaseException as failure:
        ownership.outrank(request_id)
        if exchange is not None or not isinstance(failure, Failure):
            raise
        error = client.explain(failure, ownership, "a force_unlock", None)
        raise await explain_type(client.finder, error, ownership.name, kind.layout) from failure.cause
    if type(reply) is bytes:
        answer = unusable(reply)
        raise answer if exchange is not None else client.explain(answer, ownership, "a force_unlock", None)
    if reply is None and kind.one_sided:
        return False  # The other side is held, and stays so.
    for each, generation in victims:
        own = each.who is ownership.who
        lost = each.clear() if own else each.lose("it was force-unlocked by this client", generation)
        client.watchdog.unwatch(each)
        client.report_lost(each, lost)
    until = client.runtime.now() + lease / 1000
    for each in kind.ended_by_force():
        # What has changed since the request was sent may have been granted before that, or after.
        if (each.holds and each.loss is None) or each.pending is Pending.ACQUIRE:
            client.watchdog.do_later(partial(_look_after_force, client, each, each.request_id, until, 0), until)
    return reply is not None


# ---- who holds it instead --------------------------------------------------------------------------------------------


def other_local_holder(kind: LockKind, ownership: Ownership) -> Ownership | None:
    """Return what another owner of this client holds of the lock, if one does."""
    return next((each for each in kind.holders() if each.who is not ownership.who), None)


def _as_text(other: Ownership | None, kind: LockKind) -> str | None:
    return None if other is None else held_here(other.who, (other.kind or kind).layout, kind.layout)


async def other_holder(client: ClientCore, kind: LockKind, ownership: Ownership) -> tuple[str | None, Holder | None]:
    """Find out who holds the lock that this owner did not acquire. Returns that in words, and the holder."""
    other = other_local_holder(kind, ownership)
    if other is not None:
        return _as_text(other, kind), found_here(client, other).holder
    found = await client.finder.find(ownership.name)
    return found.describe(), found.holder


async def _with_holder(client: ClientCore, ownership: Ownership, error: LockNotOwnedError) -> LockNotOwnedError:
    """Return the error, with the holder if it is another client's."""
    name = ownership.name
    found = await client.finder.find(name)
    if found.free:
        return LockNotOwnedError(not_held("lock", name, ownership.who, None, free=True), name=name)
    if found.holder is None:
        return error
    return LockNotOwnedError(f"{error}. The lock is {found.describe()}", name=error.name, holder=found.holder)


# ---- extend ----------------------------------------------------------------------------------------------------------
# Extending: what an owner holds lasts longer than it would. It is renewed once, by another lease.


async def extend(
    client: ClientCore,
    ownership: Ownership,
    lease_ms: int,
    hold: SingleHold | None = None,
    kind: LockKind | None = None,
) -> bool:
    """Let what an owner holds last for ``lease_ms`` from now on; what lasts longer stays as it is.

    A renewal never shortens a lease, so that it may be repeated.

    Args:
        client: The client.
        ownership: What the owner holds.
        lease_ms: The lease.
        hold: The hold that is meant; ``None``: the innermost of its own, of a lock of this ``kind``.
        kind: As above.

    Returns:
        Whether the server has confirmed it within ``Config.timeout``.

    Raises:
        LockLostError: It was lost.
        LockNotOwnedError: Its owner does not hold it.
        ValueError: The loss margin leaves nothing of the lease.
    """
    client.check_lease(lease_ms)
    if ownership.pending is not None:
        await settle_or_explain(client, ownership)
    expire(client, ownership)
    if hold is None:
        hold = ownership.to_unlock()
    if hold is None:
        assert kind is not None, "an owner extends a lock of some kind"
        raise not_owned(kind, ownership, releases=False)
    raise_if_lost(ownership, hold)
    runtime, failures = client.runtime, 0
    over = runtime.now() + client.config.timeout
    while (left := over - runtime.now()) > 0:
        renewal = Renewal(client, [ownership], lease_ms, min(left, client.attempt_timeout(lease_ms)))
        try:
            renewal.answer = await runtime.eval(renewal.prepared, renewal.timeout)
        except Failure as failure:
            renewal.answer = failure
        failed = await renewal.note()
        expire(client, ownership)  # The answer may be too late.
        raise_if_lost(ownership, hold)
        if failed is None and renewal.effective:  # Else its owner's holds have changed meanwhile.
            return True
        if isinstance(failed, (Rejected, Unusable)):
            raise client.explain(failed, ownership, "an extension", None) from failed.cause
        await runtime.sleep(min(RETRY.pause(failures, runtime.jitter), max(0.0, over - runtime.now())))
        failures += 1
        expire(client, ownership)
        raise_if_lost(ownership, hold)
    return False


def raise_if_lost(ownership: Ownership, hold: SingleHold) -> None:
    """Raise ``LockLostError`` unless a hold is held."""
    if ownership.loss is not None or hold.state is not HoldState.HELD:
        ended = LEFT_MEANWHILE if hold.state is HoldState.OVER else ownership.why_ended()
        raise lost_error(ownership, ownership.loss or ended)


# ---- late ------------------------------------------------------------------------------------------------------------
# What a client leaves behind that was closed.


def report_held(client: ClientCore) -> None:
    """Report what a client holds that is being closed: an event for each hold, and one about all of them."""
    now, found = client.runtime.now(), dict[object, tuple[str, str, float]]()
    for own in client.all_held():
        claimed = own.claimed()  # Their callers have done with them.
        for hold in [each for each in own.holds if each not in claimed] if own.loss is None else ():
            if hold.whole is None:
                found[hold] = own.name, own.owner, own.remaining_of(hold, now)
            else:
                found[hold.whole] = hold.whole.name, own.owner, hold.whole.remaining(now)
    certain = [each for each in found.values() if each[2] > 0]
    for name, owner, remaining in certain:
        client.emit(events.HeldAtClose(name, owner, remaining))
    if certain:
        names = tuple(dict.fromkeys(name for name, _, _ in certain))
        shortest = min(remaining for _, _, remaining in certain)
        client.emit(events.ClosedWhileHolding(client.id, names[:10], len(names), shortest))


async def hand_over(parts: Sequence[tuple[ClientCore, Ownership, SingleHold | None]], error: GeneratorExit) -> None:
    """Release what a block holds in which a generator is closed: now if that can wait, else in the background."""
    pending: list[tuple[ClientCore, Ownership]] = []
    for client, ownership, hold in parts:
        if ownership.hand_over(hold):
            client.watchdog.settle_later(ownership)
            pending.append((client, ownership))
        if not ownership.watched():
            client.watchdog.unwatch(ownership)
    if cannot_wait(error):
        for client, ownership in pending:
            release_later(client, partial(settle, client, ownership, CLEANUP_BUDGET, behind=True))
        return

    async def settle_now() -> None:
        for client, ownership in pending:
            await send_release(client, partial(settle, client, ownership, CLEANUP_BUDGET, behind=True))

    if pending:
        await pending[0][0].runtime.guard(settle_now(), CLEANUP_BUDGET, leaving=False)


def release_later(client: ClientCore, release: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Send the release of a block that can wait for nothing, if its client is closed, and has no background."""
    sending = partial(send_release, client, release)
    if client.closed:
        with suppress(RuntimeError):  # The event loop is gone, and the release with it.
            client.runtime.call_back(sending if client.runtime.suspends else lambda: run(sending()))


async def send_release(client: ClientCore, release: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Send the release of a block, whose client may be closed."""
    if reopened := client.closed:
        client.runtime.reopen()
    try:
        with suppress(Failure, LockNotOwnedError):
            await release()
            if reopened:
                await client.presence.end()
    finally:
        if reopened:
            client.runtime.close_again()
            with suppress(RuntimeError):  # The event loop is gone.
                client.watchdog.report_when_closed()
