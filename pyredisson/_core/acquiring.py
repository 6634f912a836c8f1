"""Acquiring: attempts until the lock is acquired or the time has elapsed; settling what stayed open."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pyredisson._core import events
from pyredisson._core.deadline import CLEANUP_BUDGET, REPEAT, Deadline
from pyredisson._core.failures import (
    Failure,
    Rejected,
    Unanswered,
    Unusable,
    explain_type,
    of_earlier,
    reason_of,
    superseded,
)
from pyredisson._core.hold import HoldState, holder_alive, lost_error
from pyredisson._core.kind import LockKind
from pyredisson._core.names import owner_field, writer_field
from pyredisson._core.replicas import NotAcknowledged
from pyredisson._core.requests import (
    AT_ONCE,
    AcquireCall,
    HoldLost,
    LockAcquired,
    Pending,
    Refused,
    ReleaseCall,
    SelfBlocked,
    unusable,
    waits_through,
)
from pyredisson.errors import LockError, RedissonError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer, Exchange, Outcome, SettleBegun
    from pyredisson._core.runtime import Reply
    from pyredisson._core.waiting import QueueUpdate


async def acquire(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold,
    wait: float | None,
    *,
    for_multi_lock: bool = False,
    first: FirstRequest | None = None,
) -> bool:
    """Acquire a lock for a hold.

    Args:
        client: The client.
        kind: The kind of lock.
        ownership: What its owner holds of it.
        hold: What is to be held.
        wait: Seconds; ``None``: as long as it takes.
        for_multi_lock: Whether a multi-lock acquires it, which emits events, and explains a ``Failure``.
        first: The first request, if it has been noted already.
    """
    began = client.runtime.now()
    if kind.own_rival is not None and not ownership.holds:
        await kind.own_rival.refuse(kind, ownership)
    try:
        if first is None and (ownership.holds or ownership.in_flight.pending is not None):
            await make_ready(client, kind, ownership)
        elif first is None:
            client.note_acquire(ownership)
        if ownership.kind is not kind:
            adopt(kind, ownership)
        return await make_attempts(Attempt(client, kind, ownership, hold), wait, began, first)
    except BaseException as error:
        await leave(client, kind, ownership, hold, began, error, for_multi_lock=for_multi_lock)
        raise


async def make_attempts(attempt: Attempt, wait: float | None, began: float, first: FirstRequest | None = None) -> bool:
    """Attempt until the lock is acquired or the time has elapsed, and emit how that ended, unless a multi-lock does.

    ``first``: the fast path has begun with that.
    """
    client, kind, ownership = attempt.client, attempt.kind, attempt.ownership
    waiting = kind.waiting
    answer: Answer | None = None
    seen = None if first is None else first.seen
    if wait != 0 and first is None:
        if client.subscriptions.channels:  # Else no message can arrive.
            seen = client.subscriptions.messages_of(waiting.channel(kind, ownership))
        if not ownership.holds:
            answer = waiting.yields(kind, ownership, wait, began)
    if kind.has_fair_queue:
        waiting.begin(ownership, wait, began)
    if answer is None:
        try:
            answer = await attempt(first=first)
            while attempt.late and wait == 0 and attempt.hold.watched and attempt.hold.whole is None:
                answer = await attempt()  # A block that is skipped would seem to be held by another owner.
        except Failure as failure:
            # What a condition has given up is waited for in any case.
            patience = math.inf if attempt.hold.state is HoldState.GIVEN_UP else wait
            if not await waits_through(client, failure, patience, began):
                raise
            answer = AT_ONCE
    acquired = type(answer) is LockAcquired
    if type(answer) is Refused and wait != 0:
        acquired = await _keep_trying(attempt, answer, seen, Deadline.after(wait, began))
        waiting.waited(ownership, client.runtime.now())
        if ownership.in_flight.queued_ms:
            await leave_queue(client, ownership)
    if attempt.hold.whole is None and client.has_listeners():
        key, holds = (ownership.name, ownership.owner), len(ownership.holds)
        report_outcome(client, kind.word, key, began, acquired, holds, attempt.hold.fixed_lease)
    return acquired


async def leave(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold,
    began: float,
    error: BaseException,
    *,
    for_multi_lock: bool = False,
) -> None:
    """Leave with an error, or since the caller leaves in the middle; then nothing may remain acquired.

    Raises:
        Exception: The error to show instead.
    """
    if isinstance(error, Failure):
        try:
            raise await _failed(client, kind, ownership, hold, began, error, for_multi_lock) from error.cause
        finally:
            ownership.claim(hold)
    if isinstance(error, RedissonError):
        if ownership.in_flight.queued_ms:
            await leave_queue(client, ownership)
        if not for_multi_lock:
            report_failed(client, kind.word, (ownership.name, ownership.owner), began, error)
    elif for_multi_lock:
        pass  # It settles what all its members were asked for, at once.
    elif isinstance(error, GeneratorExit):  # A coroutine that is being closed can wait for nothing any more.
        if ownership.undo_acquire(hold):
            client.settle_later(ownership, hold.lease_ms)
        resume(client, ownership)
    else:
        await undo_interrupted(client, ownership, hold)


async def _failed(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold,
    began: float,
    failure: Failure,
    for_multi_lock: bool,
) -> Exception:
    """Leave after a request without an answer of use.

    Returns:
        The error to raise; for a multi-lock the failure, if another attempt may help.
    """
    error: Exception = failure
    if not for_multi_lock or isinstance(failure, (Rejected, Unusable)):
        error = client.explain(failure, ownership, "an acquire", hold.lease_ms)
    elif isinstance(failure, Unanswered):
        client.settle_later(ownership, hold.lease_ms)
    if ownership.in_flight.queued_ms:
        await leave_queue(client, ownership, at_once=isinstance(failure, Rejected))
    error = await explain_type(client.finder, error, ownership.name, kind.layout)
    if not for_multi_lock:
        report_failed(client, kind.word, (ownership.name, ownership.owner), began, error)
    return error


async def _keep_trying(attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
    """Wait for a lock after a first attempt was refused. Raises ``LockError`` if that would never end."""
    client, kind, ownership = attempt.client, attempt.kind, attempt.ownership
    check_own_holds(client, kind, ownership)
    if not client.runtime.suspends:
        check_not_stuck(client, kind, ownership)
    wait = client.presence.begin_wait(kind.word, ownership.name, ownership.owner, ownership.who)
    try:
        if attempt.hold.whole is not None or not client.has_listeners():
            return await kind.waiting.wait(attempt, refused, seen, deadline)
        wait_on = partial(kind.waiting.wait, attempt, refused, seen, deadline)
        return await announce_wait(client, (ownership.name, ownership.owner), wait_on)
    finally:
        client.presence.end_wait(wait)


async def announce_wait(client: ClientCore, key: tuple[str, str], wait_on: Callable[[], Awaitable[bool]]) -> bool:
    """Wait, and emit when that begins and when it ends, however it does. ``key``: the name and the owner."""
    began = client.runtime.now()
    acquired = False
    try:
        client.emit(events.WaitBegan(*key))
        acquired = await wait_on()
        return acquired
    finally:
        client.emit(events.WaitEnded(*key, client.runtime.now() - began, acquired))


def report_outcome(
    client: ClientCore, kind: str, key: tuple[str, str], began: float, acquired: bool, holds: int, lease: float | None
) -> None:
    """Emit that an acquire, which ``began`` then, has succeeded, or has not in time."""
    waited = client.runtime.now() - began
    if acquired:
        client.emit(events.Acquired(*key, waited, holds, lease, kind), ordinary=True)
    else:
        client.emit(events.TimedOut(*key, waited, kind), ordinary=True)


def report_failed(client: ClientCore, kind: str, key: tuple[str, str], began: float, error: BaseException) -> None:
    """Emit that an acquire, which ``began`` then, has ended with an error."""
    if client.has_listeners():
        waited = client.runtime.now() - began
        client.emit(events.AcquireFailed(*key, waited, reason_of(error), error, kind), ordinary=True)


async def undo_interrupted(client: ClientCore, ownership: Ownership, hold: SingleHold) -> None:
    """The caller is interrupted during an acquire (Ctrl-C, cancellation): release what it may have acquired."""
    if ownership.undo_acquire(hold):
        ownership.keep_pending_until(client.runtime.now() + hold.lease_ms / 1000)
        await settle_on_leaving(client, ownership)
        ownership.claim(hold)
        resume(client, ownership)


async def leave_queue(client: ClientCore, ownership: Ownership, *, at_once: bool = True) -> None:
    """The owner waits no longer: its place is given up, and what an unanswered request may have acquired."""
    if ownership.stop_waiting(client.runtime.now()) or ownership.pending is not None:
        if at_once:
            await settle_on_leaving(client, ownership, leaving=False)
        else:
            client.watchdog.settle_later(ownership)


def check_own_holds(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Raise ``LockError`` if an owner would wait for what it holds itself, as another kind."""
    for field in (owner_field, writer_field):
        own = client.ownerships.find((ownership.name, field(client.id, ownership.who.number)))
        if own is not None and own.holds and own.loss is None and client.runtime.now() < own.deadline:
            check_layout(kind, own)


def check_not_stuck(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Raise ``LockError`` if a holder can only release the lock once this call has returned."""
    for each in kind.holders():
        if each.who is not ownership.who and (each.bound() or not each.who.is_shared) and holder_alive(each):
            why = client.runtime.stuck_behind(each.who)
            if why is not None:
                raise LockError(f"waiting for lock {ownership.name!r} would never end: {why}", name=ownership.name)


#: After as many grants in a row that arrived too late the lease is too short.
LATE_GRANTS = 3


def late_again(
    late: tuple[float, ...], what: str, name: str, lease_ms: int, took: float, margin: float = 0.0
) -> tuple[float, ...]:
    """Note that a grant arrived when its lease had ended, ``took`` seconds after its request was sent.

    ``margin``: how many seconds before the end of a lease a hold counts as lost.

    Returns:
        The times of such grants, which ``late`` were before.

    Raises:
        LockError: They are too many.
    """
    late = (*late, took)
    if len(late) < LATE_GRANTS:
        return late
    times = ", ".join(f"{1000 * each:.3g}" for each in late)
    less = f", less Config.loss_margin ({1000 * margin:g} ms)," if margin else ""
    raise LockError(
        f"{what} {name!r} can never be held: {len(late)} times in a row a lease of {lease_ms} ms{less} was no longer "
        f"certain when its grant arrived, {times} ms after it was requested. Use a longer lease",
        name=name,
    )


# ---- attempt ---------------------------------------------------------------------------------------------------------
# One attempt to acquire a lock: the request is noted, sent, read, and repeated if it has to be.


# ---- before it -------------------------------------------------------------------------------------------------------


def adopt(kind: LockKind, ownership: Ownership) -> None:
    """Let this kind make the ownership's requests from now on. Raises ``LockError`` if it is held in another layout."""
    if ownership.holds:
        check_layout(kind, ownership)
    ownership.adopt(kind)


def check_layout(kind: LockKind, own: Ownership) -> None:
    """Raise ``LockError`` if what an owner holds is of another layout."""
    if own.kind is not None and own.kind.layout != kind.layout:
        raise LockError(
            f"{own.name!r} is held by {own.who.describe()} as a {own.kind.layout}; a {kind.layout} needs another name",
            name=own.name,
        )


async def make_ready(
    client: ClientCore, kind: LockKind, ownership: Ownership, exchange: Exchange | None = None
) -> None:
    """Bring an ownership that has a past into a state from which it can acquire. ``exchange``: as for
    :func:`request_lock`.
    """
    if _has_to_settle(client, kind, ownership):
        try:
            await settle(client, ownership, exchange=exchange)
        except Failure as failure:
            raise of_earlier(failure) from failure.cause
    check_reentrant(kind, ownership)


def _has_to_settle(client: ClientCore, kind: LockKind, ownership: Ownership) -> bool:
    """Whether an acquire has to be preceded by :func:`settle`. Raises ``LockLostError`` if the outer holds are lost."""
    check_not_lost(client, ownership)
    pending = ownership.pending
    # What a lock of another kind left open is settled as that kind does it; and a place in a queue from an earlier time
    # is not taken over, but given up.
    return (
        pending is Pending.RELEASE
        or len(ownership.in_flight.due) > 0
        or (pending is not None and (kind.has_fair_queue or type(ownership.kind) is not type(kind)))
    )


def check_not_lost(client: ClientCore, ownership: Ownership) -> None:
    """Raise ``LockLostError`` if what an owner holds is lost."""
    expire(client, ownership)
    if ownership.loss is not None:
        raise lost_error(ownership, ownership.loss)


def check_reentrant(kind: LockKind, ownership: Ownership) -> None:
    """Raise ``LockError`` if the owner holds a lock already that can be acquired only once."""
    if ownership.holds and not kind.reentrant:
        raise LockError(
            f"lock {ownership.name!r} is not reentrant, and {ownership.who.describe()} holds it already: release it "
            f"first{kind.not_reentrant_hint}",
            name=ownership.name,
        )


def expire(client: ClientCore, ownership: Ownership) -> None:
    """Draw the consequences if the ownership's deadline has passed."""
    client.report_lost(ownership, ownership.expire(client.runtime.now()))


def resume(client: ClientCore, ownership: Ownership) -> None:
    """Watch the ownership if its holder is to be notified of a loss."""
    if ownership.watched():
        client.watchdog.watch(ownership)
    else:
        client.watchdog.unwatch(ownership)


# ---- the attempt -----------------------------------------------------------------------------------------------------


class FirstRequest(NamedTuple):
    """The first request of an acquire, which the fast path has noted.

    Attributes:
        call: The request.
        epoch: The epoch of its first copy.
        begun: As for :meth:`ClientCore.exchange`; ``None``: it was not sent.
        seen: What :meth:`Subscriptions.messages_of` returned before.
    """

    call: AcquireCall
    epoch: int
    begun: tuple[Any, float] | None
    seen: int | None = None


class Attempt:
    """An attempt of one owner to acquire one lock for one hold; each call makes it once."""

    __slots__ = ("_exchange", "_in_doubt", "client", "hold", "kind", "late", "ownership")

    def __init__(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: SingleHold,
        exchange: Exchange | None = None,
    ) -> None:
        self.client: ClientCore = client
        self.kind: LockKind = kind
        self.ownership: Ownership = ownership
        self.hold: SingleHold = hold
        self._exchange = exchange  # How to send the request, as for :func:`request_lock`.
        self._in_doubt = False  # Whether the last request that left in one of the calls has no answer.
        self.late: tuple[float, ...] = ()  # After how many seconds grants arrived whose lease had ended.

    async def __call__(self, update: QueueUpdate | None = None, first: FirstRequest | None = None) -> Answer:
        """Request the lock once.

        Args:
            update: How to change the wait queue.
            first: The request, if it has been noted already.

        Raises:
            Failure: It is not known what became of it (``Unanswered``), or it had no effect.
            LockLostError: The owner's outer holds are gone.
        """
        client, kind, ownership, hold = self.client, self.kind, self.ownership, self.hold
        queued_ms = ownership.in_flight.queued_ms if first is None else 0
        if kind.has_fair_queue and not ownership.holds:
            ownership.may_stand_in_queue(kind.wait_ms(ownership))
        try:
            call, outcome, sent = await request_lock(client, kind, ownership, hold, self._exchange, update, first)
            self._in_doubt = False
            if type(outcome) is HoldLost and self._exchange is None:
                await client.learn_cause(ownership.name)
            if type(outcome) is LockAcquired:
                now = client.runtime.now()
                over = not call.count and now >= sent + hold.certain
                if over and (hold.watched or hold.certain > 0):  # Else the lease is so short that it never is certain.
                    # It arrived when its lease had ended: that is no hold, so give it back, and attempt again.
                    ownership.answered(call.request_id)
                    await settle(client, ownership, exchange=self._exchange)
                    margin = client.config.loss_margin
                    self.late = late_again(self.late, "lock", ownership.name, hold.lease_ms, now - sent, margin)
                    return AT_ONCE
            self.late = ()
            return end_attempt(client, call, outcome, sent)
        except Unanswered as failure:
            if failure.earlier and self._in_doubt:  # What is in doubt was sent by this very acquire.
                raise Unanswered(failure.cause) from failure.cause
            self._in_doubt = not failure.earlier
            raise
        except Failure:  # It had no effect: an owner that was not in the queue is not in it now.
            if kind.has_fair_queue:
                ownership.may_stand_in_queue(queued_ms)
            raise


def begin_attempt(
    client: ClientCore, kind: LockKind, ownership: Ownership, hold: SingleHold, update: QueueUpdate | None = None
) -> tuple[AcquireCall, int] | None:
    """Note that the lock is about to be requested. Returns the request, and the epoch of its first copy.

    Returns ``None`` while another call is at a request, or a release is to be settled first.

    Raises:
        ClientClosedError: The client has become another one.
    """
    if not ownership.owner.startswith(client.id):
        raise client.former(ownership)
    if ownership.kind is not kind:
        adopt(kind, ownership)
    begun = ownership.begin_acquire(hold)
    if begun is None:
        return None
    request_id, epoch, count, repeat = begun
    if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
        client.ownerships.enter(ownership)
    return AcquireCall(kind, ownership, request_id, hold, count, repeat, update), epoch


async def request_lock(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold,
    exchange: Exchange | None = None,
    update: QueueUpdate | None = None,
    first: FirstRequest | None = None,
) -> tuple[AcquireCall, Outcome, float]:
    """Request the lock until there is an answer.

    Args:
        client: The client.
        kind: The kind of lock.
        ownership: What its owner holds of it.
        hold: What is to be held.
        exchange: How to send the request; ``None``: as :meth:`ClientCore.exchange` does.
        update: How to change the wait queue.
        first: The request, if it has been noted already.

    Returns:
        The request, the outcome, and when the copy was sent that was answered. :func:`end_attempt` notes it.
    """
    begun = None
    if first is None:
        started = begin_attempt(client, kind, ownership, hold, update)
        call, epoch = started or await _begin_in_turn(client, kind, ownership, hold, exchange, update)
    else:
        call, epoch, begun, _ = first
    rival = kind.own_rival
    while True:
        try:
            reply, sent, _ = await (exchange or client.exchange)(call, epoch, call.repeat, begun=begun)
            outcome = kind.reads(reply)
        except NotAcknowledged as short:
            ownership.answered(call.request_id)
            raise await _give_back_unacknowledged(client, ownership, hold, short, exchange) from short.cause
        except Failure as failure:
            ownership.answered(call.request_id)
            if isinstance(failure, Unusable):
                ownership.doubt(call.request_id)
            elif not isinstance(failure, Unanswered):  # Else it stays pending: the next call repeats it or undoes it.
                ownership.refused(call.request_id)
            raise
        if type(outcome) is HoldLost:
            expire(client, ownership)  # What ran out while this request was under way has ended: it is not lost.
        if type(outcome) is SelfBlocked and rival is not None:
            ownership.refused(call.request_id)
            await rival.give_up(kind, ownership, exchange)
            rival = None
        elif type(outcome) is HoldLost and not ownership.holds:
            ownership.refused(call.request_id)
        elif type(outcome) is LockAcquired and call.count and client.runtime.now() >= ownership.deadline:
            await _release_late(client, call, exchange)
        else:
            return call, outcome, sent
        begun = None
        call, epoch = await _begin_in_turn(client, kind, ownership, hold, exchange, update)


async def _release_late(client: ClientCore, call: AcquireCall, exchange: Exchange | None) -> None:
    """Release what was granted when that which it was to join had ended, which is final."""
    call.ownership.answered(call.request_id)
    await settle(client, call.ownership, exchange=exchange)
    check_not_lost(client, call.ownership)


async def _begin_in_turn(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: SingleHold,
    exchange: Exchange | None,
    update: QueueUpdate | None,
) -> tuple[AcquireCall, int]:
    """Do as :func:`begin_attempt`, behind another call that is at a request, or a release that is to be settled."""
    if kind.has_fair_queue and not ownership.holds:
        ownership.may_stand_in_queue(kind.wait_ms(ownership))  # What it held when the acquire began may have ended.
    while (begun := begin_attempt(client, kind, ownership, hold, update)) is None:
        await wait_for_turn(client, ownership, client.runtime.now() + client.config.timeout, exchange)
        await make_ready(client, kind, ownership, exchange)
    return begun


def usual_outcome(call: AcquireCall, reply: Any) -> LockAcquired | Refused | None:
    """Return the outcome of a request, by the reply or the failure, if nothing is left to do but to note it."""
    if call.count or isinstance(reply, Failure):
        return None
    try:
        outcome = call.kind.reads(reply)
    except Failure:
        return None
    return outcome if type(outcome) is LockAcquired or type(outcome) is Refused else None


def end_attempt(client: ClientCore, call: AcquireCall, outcome: Outcome, sent: float) -> Answer:
    """Note what the server replied to a request that was ``sent`` then.

    Raises:
        LockLostError: What its owner holds is lost.
        ClientClosedError: The client has become another one meanwhile: what was granted is left to its lease.
    """
    ownership, hold = call.ownership, call.hold
    if not ownership.owner.startswith(client.id):
        raise client.former(ownership)
    if type(outcome) is LockAcquired:
        if outcome.token is not None:
            hold.number(outcome.token)
        if not ownership.granted(call.request_id, hold, sent):
            if ownership.loss is not None:
                raise lost_error(ownership, ownership.loss)
            return AT_ONCE
        if hold.watched:
            client.watchdog.watch(ownership)
        elif hold.certain > client.presence.first:
            client.presence.expect(sent)
        return outcome
    ownership.refused(call.request_id, without_end=type(outcome) is Refused and outcome.retry_in_ms is None)
    if type(outcome) is Refused:
        return outcome
    if type(outcome) is SelfBlocked:
        return AT_ONCE
    reason = client.cause_of(ownership)
    client.report_lost(ownership, ownership.lose(reason))
    raise lost_error(ownership, reason)


async def _give_back_unacknowledged(
    client: ClientCore, ownership: Ownership, hold: SingleHold, short: NotAcknowledged, exchange: Exchange | None
) -> Exception:
    """The lock was acquired, and too few replicas know of it: give it back. Returns the error that says so."""
    ownership.keep_pending_until(client.runtime.now() + hold.lease_ms / 1000)
    given_back = True
    try:
        await settle(client, ownership, exchange=exchange)
    except Failure:
        client.watchdog.settle_later(ownership)
        given_back = False
    return client.replicas.error(ownership.name, short, given_back=given_back)


# ---- settle ----------------------------------------------------------------------------------------------------------
# Settling the pending request of an owner: an acquire without an answer is undone, a release completed.


async def settle(
    client: ClientCore,
    ownership: Ownership,
    budget: float | None = None,
    *,
    since: int | None = None,
    behind: bool = False,
    exchange: Exchange | None = None,
) -> Pending | None:
    """Settle the pending request (an acquire is undone, a release completed), then the releases due.

    Args:
        client: The client.
        ownership: The ownership.
        budget: Seconds; ``Config.timeout`` if ``None``.
        since: The request that was left pending, if it matters that no later one has begun.
        behind: Whether the caller has gone, so that the next unlock has to learn that it is done.
        exchange: How to send the request; ``None``: as :meth:`ClientCore.exchange` does.

    Returns:
        The kind of the last pending request; ``None`` if there was none, or another call took it over.

    Raises:
        Failure: It could not be settled; it is pending still.
        LockLostError: It was a release, and the hold was lost before (unless ``behind``).
    """
    until = client.runtime.now() + (client.config.timeout if budget is None else budget)
    last, background = None, since is not None
    while True:
        while (begun := ownership.take_over(since, background=background)) is None:
            await wait_for_turn(client, ownership, until, exchange)
        if begun.pending is None:
            return last
        try:
            kind = ownership.kind
            assert isinstance(kind, LockKind), "a request is pending that no kind of lock has made"
            call = ReleaseCall(kind, ownership, begun.request_id, begun.lease_ms, begun.hold_count)
            left = max(0.001, until - client.runtime.now())
            reply, sent, repeated = await (exchange or client.exchange)(call, begun.epoch, begun.repeat, left)
            if reply is None and begun.pending is Pending.RELEASE and exchange is None:
                await client.learn_cause(ownership.name)
            if not _take_reply(client, ownership, begun, reply, sent, repeated=repeated, behind=behind):
                if background:
                    return None
                if exchange is not None:
                    raise superseded(ownership.name)
                since = None
                continue  # Its owner cannot go on before it is settled, whichever call has it now.
        except BaseException as error:
            ownership.answered(begun.request_id)
            if isinstance(error, Rejected):
                raise
            if not isinstance(error, Failure):
                ownership.doubt(begun.request_id)
            # It was taken over, so no other call remembers it: leave it to the watchdog.
            if ownership.pending is not None and ownership.request_id == begun.request_id:
                client.watchdog.settle_later(ownership)
            raise
        last, since = begun.pending, begun.request_id


def _take_reply(
    client: ClientCore,
    ownership: Ownership,
    begun: SettleBegun,
    reply: Reply,
    sent: float,
    *,
    repeated: bool,
    behind: bool,
) -> bool:
    """Take the answer of the server. Returns whether it is of interest still: another call may have taken over.

    Raises:
        Failure: It is no answer.
        LockLostError: As for :func:`settle`.
    """
    if begun.pending is not Pending.RELEASE:
        if not ownership.given_back(begun.request_id):
            return False
        if begun.pending is Pending.ACQUIRE:
            client.emit(events.GivenBack(ownership.name, ownership.owner, who=ownership.who.describe()))
    elif type(reply) is list:
        raise unusable(reply)
    elif reply is None and not (repeated and begun.hold_count == 1 and client.runtime.now() < ownership.deadline):
        # "Already gone" means "done by the earlier copy" only as long as nothing else can have ended the hold.
        reason = client.cause_of(ownership)
        lost = ownership.lose_one(begun.request_id, reason, client.runtime.now(), behind=behind)
        client.report_lost(ownership, lost, reason)
        if not behind:
            raise lost_error(ownership, reason)
    else:
        renews = client.runtime.now() < ownership.deadline  # What has ended does not become valid again.
        deadline = sent + client.certain_for(begun.lease_ms) if renews else 0.0
        if not ownership.released(begun.request_id, deadline, behind=behind):
            return False
    if not ownership.watched():
        client.watchdog.unwatch(ownership)
    return True


async def settle_on_leaving(client: ClientCore, ownership: Ownership, *, leaving: bool = True) -> None:
    """Settle although the caller is being interrupted; what cannot be done at once is left to the watchdog.

    ``leaving`` is as for :meth:`Runtime.guard`: whether it was interrupted, or may be meanwhile.
    """

    async def try_to_settle() -> None:
        try:
            await settle(client, ownership, CLEANUP_BUDGET, behind=True)
        except Failure:
            pass

    try:
        await client.runtime.guard(try_to_settle(), CLEANUP_BUDGET, leaving=leaving)
    finally:
        if ownership.pending is not None:
            client.watchdog.settle_later(ownership)


async def wait_for_turn(client: ClientCore, ownership: Ownership, until: float, exchange: Exchange | None) -> None:
    """Another call is at a request, of a thread or task that leaves a block of its owner, say. Wait for its answer.

    ``until``: how long. What asks by ``exchange`` cannot wait, and takes over at once; its caller has waited.
    """
    runtime = client.runtime
    for failures in itertools.count():
        if not ownership.busy():
            return
        if exchange is not None or runtime.now() >= until:
            ownership.take_turn()
            return
        await runtime.sleep(REPEAT.pause(failures, runtime.jitter))
