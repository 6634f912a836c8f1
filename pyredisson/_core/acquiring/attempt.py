"""One attempt to acquire a lock: the request is noted, sent, read, and repeated if it has to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyredisson._core.failures import Failure, Unanswered, Unusable, of_earlier
from pyredisson._core.outcomes import AT_ONCE, HoldLost, LockAcquired, Refused, SelfBlocked
from pyredisson._core.ownership.liveness import lost_error
from pyredisson._core.ownership.pending_request import Pending
from pyredisson._core.requests.call import AcquireCall
from pyredisson._core.requests.replicas import NotAcknowledged
from pyredisson._core.requests.settle import settle, wait_for_turn
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import LockKind
    from pyredisson._core.outcomes import Answer, Outcome
    from pyredisson._core.ownership.hold import Hold
    from pyredisson._core.ownership.ownership import Ownership
    from pyredisson._core.requests.call import Exchange
    from pyredisson._core.waiting.wait_queue import QueueUpdate


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
    """Bring an ownership that has a past into a state from which it can acquire. ``exchange``: as for :func:`ask`."""
    if _must_settle(client, kind, ownership):
        try:
            await settle(client, ownership, exchange=exchange)
        except Failure as failure:
            raise of_earlier(failure) from failure.cause
    check_reentrant(kind, ownership)


def _must_settle(client: ClientCore, kind: LockKind, ownership: Ownership) -> bool:
    """Whether an acquire has to be preceded by :func:`settle`. Raises ``LockLostError`` if the outer holds are lost."""
    check_not_lost(client, ownership)
    pending = ownership.pending
    # What a lock of another kind left open is settled as that kind does it; and a place in a queue from an earlier time
    # is not taken over, but given up.
    return (
        pending is Pending.RELEASE
        or len(ownership.in_flight.due) > 0
        or (pending is not None and (kind.queues or type(ownership.kind) is not type(kind)))
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

    __slots__ = ("_exchange", "_in_doubt", "client", "hold", "kind", "ownership")

    def __init__(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, hold: Hold, exchange: Exchange | None = None
    ) -> None:
        self.client: ClientCore = client
        self.kind: LockKind = kind
        self.ownership: Ownership = ownership
        self.hold: Hold = hold
        self._exchange = exchange  # How to ask the server, as for :func:`ask`.
        self._in_doubt = False  # Whether the last request that left in one of the calls has no answer.

    async def __call__(self, update: QueueUpdate | None = None, first: FirstRequest | None = None) -> Answer:
        """Ask for the lock once.

        Args:
            update: How to change the wait queue.
            first: The request, if it has been noted already.

        Raises:
            Failure: It is not known what became of it (``Unanswered``), or it had no effect.
            LockLostError: The owner's outer holds are gone.
        """
        client, kind, ownership, hold = self.client, self.kind, self.ownership, self.hold
        queued_ms = ownership.queued_ms if first is None else 0
        if kind.queues and not ownership.holds:
            ownership.may_stand_in_queue(kind.wait_ms(ownership))
        try:
            call, outcome, sent = await ask(client, kind, ownership, hold, self._exchange, update=update, first=first)
            self._in_doubt = False
            if type(outcome) is HoldLost and self._exchange is None:
                await client.learn_cause(ownership.name)
            if type(outcome) is LockAcquired:
                deadline = sent + hold.certain
                over = client.runtime.now() >= (max(deadline, ownership.deadline) if call.count else deadline)
                if over and (hold.watched or hold.certain > 0):  # Else the lease is so short that it never is certain.
                    # It arrived when its lease had ended: that is no hold, so give it back, and attempt again.
                    ownership.answered(call.request_id)
                    await settle(client, ownership, exchange=self._exchange)
                    return AT_ONCE
            return end_attempt(client, call, outcome, sent)
        except Unanswered as failure:
            if failure.earlier and self._in_doubt:  # What is in doubt was sent by this very acquire.
                raise Unanswered(failure.cause) from failure.cause
            self._in_doubt = not failure.earlier
            raise
        except Failure:  # It had no effect: an owner that was not in the queue is not in it now.
            if kind.queues:
                ownership.may_stand_in_queue(queued_ms)
            raise


def begin_attempt(
    client: ClientCore, kind: LockKind, ownership: Ownership, hold: Hold, update: QueueUpdate | None = None
) -> tuple[AcquireCall, int] | None:
    """Note that the lock is about to be asked for. Returns the request, and the epoch of its first copy.

    Returns ``None`` while another call is at a request.
    """
    if ownership.kind is not kind:
        adopt(kind, ownership)
    begun = ownership.begin_acquire(hold)
    if begun is None:
        return None
    request_id, epoch, count, repeat = begun
    if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
        client.ownerships.enter(ownership)
    return AcquireCall(kind, ownership, request_id, hold, count, repeat, update), epoch


async def ask(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: Hold,
    exchange: Exchange | None = None,
    *,
    update: QueueUpdate | None = None,
    first: FirstRequest | None = None,
) -> tuple[AcquireCall, Outcome, float]:
    """Ask for the lock until there is an answer.

    Args:
        client: The client.
        kind: The kind of lock.
        ownership: What its owner holds of it.
        hold: What is to be held.
        exchange: How to ask the server; ``None``: as :meth:`ClientCore.exchange` does.
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
        else:
            return call, outcome, sent
        begun = None
        call, epoch = await _begin_in_turn(client, kind, ownership, hold, exchange, update)


async def _begin_in_turn(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: Hold,
    exchange: Exchange | None,
    update: QueueUpdate | None,
) -> tuple[AcquireCall, int]:
    """Do as :func:`begin_attempt`, behind another call that is at a request."""
    while (begun := begin_attempt(client, kind, ownership, hold, update)) is None:
        await wait_for_turn(client, ownership, client.runtime.now() + client.config.timeout, exchange)
        await make_ready(client, kind, ownership, exchange)
    return begun


def end_attempt(client: ClientCore, call: AcquireCall, outcome: Outcome, sent: float) -> Answer:
    """Note what the server replied to a request that was ``sent`` then. Raises ``LockLostError``."""
    ownership, hold = call.ownership, call.hold
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
    client: ClientCore, ownership: Ownership, hold: Hold, short: NotAcknowledged, exchange: Exchange | None
) -> Exception:
    """The lock was acquired, and too few replicas know of it: give it back. Returns the error that says so."""
    ownership.settle_until(client.runtime.now() + hold.lease_ms / 1000)
    given_back = True
    try:
        await settle(client, ownership, exchange=exchange)
    except Failure:
        client.watchdog.settle(ownership)
        given_back = False
    return client.replicas.error(ownership.name, short, given_back=given_back)
