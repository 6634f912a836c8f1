"""Releasing: one hold is given back, exactly once, whatever becomes of the request and of its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson import events
from pyredisson.core.attempt import adopt, expire
from pyredisson.core.calls import ReleaseCall, last_release
from pyredisson.core.deadline import certain_for
from pyredisson.core.holder import GONE, lost_error
from pyredisson.core.in_flight import Pending, Unlock
from pyredisson.core.messages import held_here, not_held
from pyredisson.core.replies import read_release
from pyredisson.core.runtime import Failure, Rejected, Unusable, is_interruption
from pyredisson.core.wrong_type import explain_type
from pyredisson.errors import LockLostError, LockNotOwnedError

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Stale
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Progress, Reply

__all__ = [
    "end_last",
    "give_back",
    "holder_here",
    "leave_block",
    "release",
    "resume",
    "settle_or_explain",
    "unlock",
]


async def unlock(client: ClientCore, kind: LockKind, ownership: Ownership, progress: Progress | None) -> None:
    """Give back one hold of an owner, or continue to, if the last time could not be settled."""
    if ownership.in_flight.pending is not None:
        # Should an acquire not be settled now, this unlock is done behind it. Called again, it is this one still.
        later = ownership.pending is Pending.ACQUIRE and ownership.release_later(block=False)
        if await settle_or_explain(client, ownership) is Pending.RELEASE or later:
            ownership.take_released_behind()
            resume(client, ownership)
            return
    # Not before what is pending: what the background settles in between is seen here.
    if ownership.in_flight.released_behind and ownership.take_released_behind():
        resume(client, ownership)
        return
    await release(client, kind, ownership, progress)


async def leave_block(client: ClientCore, kind: LockKind, ownership: Ownership, progress: Progress | None) -> None:
    """Give back the hold of a block. Unlike :func:`unlock` this never stands for an earlier one that failed."""
    if ownership.pending is not None:
        if progress is not None:
            progress.begun = True
        # Nobody comes back for a block's hold: if it cannot be given back now, it is behind what is pending.
        later = ownership.release_later(block=True)
        try:
            await settle_or_explain(client, ownership)
        except LockLostError:
            if later:
                raise
            # Else that of an inner block, which has said so itself; ours comes now.
        if later:
            resume(client, ownership)
            return
    await release(client, kind, ownership, progress, block=True)


async def give_back(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Give back one hold for which nobody will come and ask; an interrupted caller sees to it that it is done.

    Raises as :func:`unlock`, but for a ``Failure`` of an earlier request: then it is given back behind that.
    """
    if ownership.pending is not None:
        later = ownership.release_later(block=True)
        await client.settle(ownership, behind=True)
        if later:
            return
    await _release(client, kind, ownership, block=True)


async def settle_or_explain(client: ClientCore, ownership: Ownership) -> Pending | None:
    """Settle what is pending. Raises the error to show if that fails."""
    try:
        return await client.settle(ownership)
    except Failure as failure:
        lease = client.watchdog.lease_ms
        raise client.explain(failure, ownership, "an earlier request", lease) from failure.cause


def resume(client: ClientCore, ownership: Ownership) -> None:
    """Watch the ownership if its holder wants to hear of a loss."""
    if ownership.watched():
        client.watchdog.watch(ownership)
    else:
        client.watchdog.unwatch(ownership)


async def release(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    progress: Progress | None = None,
    *,
    block: bool = False,
) -> None:
    """Give back one hold; if the caller is interrupted, in the background. ``progress``: see ``run_to_the_end``."""
    before = len(ownership.holds)
    try:
        if progress is not None:
            progress.begun = True
        await _release(client, kind, ownership, block)
    except BaseException as error:
        if is_interruption(error):  # The caller has no use for the hold in any case.
            if ownership.redo_release(before):
                ownership.settle_until()
                if isinstance(error, GeneratorExit) and client.runtime.suspends:
                    client.watchdog.settle(ownership)
                else:
                    await client.settle_on_leaving(ownership)
            resume(client, ownership)  # In any case: it may have been released, and be watched still.
        raise


async def _release(client: ClientCore, kind: LockKind, ownership: Ownership, block: bool) -> None:
    if ownership.holds and client.runtime.now() >= ownership.deadline:
        expire(client, ownership)
    reason = ownership.loss or "its lease expired"
    if ownership.kind is not kind:
        adopt(kind, ownership)
    begun = ownership.begin_release(block=block)
    request_id, epoch, count, lease, todo = begun
    if todo is Unlock.NOT_OWNED:
        raise LockNotOwnedError(
            not_held("lock", ownership.name, ownership.who, holder_here(kind, ownership)), name=ownership.name
        )
    lease = lease or client.watchdog.lease_ms
    if count == 1:
        request = last_release(kind, ownership, lease)
    else:
        request = kind.release(ownership, lease, count, epoch, repeat=False)
    sent = client.runtime.now()
    reply: Reply = None
    setback: Failure | Stale | None
    try:
        reply = await client.runtime.eval(request, client.attempt_timeout(lease))
        setback = None if type(reply) is int else read_release(reply)
    except Failure as failure:
        setback = failure
    if setback is not None or reply is None or todo is Unlock.LOST:
        call = ReleaseCall(kind, ownership, request_id, lease, count)
        reply, sent = await _finish(client, call, begun.todo, reason, sent, reply, setback)
    _released(client, ownership, request_id, count, lease, sent, reply)


async def _finish(
    client: ClientCore,
    call: ReleaseCall,
    todo: Unlock,
    reason: str,
    sent: float,
    reply: Reply,
    setback: Failure | Stale | None,
) -> tuple[Reply, float]:
    """Go on with a release whose first copy did not simply succeed. Returns the answer, and to what sent when."""
    ownership, count = call.ownership, call.count
    repeated = False
    try:
        if setback is not None:
            reply, sent, repeated = await client.persist(call, False, sent, setback)
    except Failure as failure:
        if todo is Unlock.LOST:
            raise lost_error(ownership, reason) from failure.cause
        ownership.settle_until()
        if not isinstance(failure, Rejected):  # The server would reject it again; the next unlock() asks.
            client.watchdog.settle(ownership)
        error = client.explain(failure, ownership, "an unlock", call.lease_ms)
        raise await explain_type(client, error, ownership.name, call.kind.layout) from failure.cause
    if todo is Unlock.LOST:
        raise lost_error(ownership, reason)
    if reply is None and not (repeated and count == 1 and client.runtime.now() < ownership.deadline):
        client.watchdog.unwatch(ownership)
        if ownership.lose_one(call.request_id, GONE, client.runtime.now()):
            client.tell_lost(ownership)
        raise lost_error(ownership)
    return reply, sent


def _released(
    client: ClientCore, ownership: Ownership, request_id: int, count: int, lease_ms: int, sent: float, reply: Reply
) -> None:
    """The server took one hold away."""
    ownership.released(request_id, sent + certain_for(lease_ms) if count > 1 else 0.0)
    if type(reply) is int and reply > 1 and ownership.kind is not None:
        ownership.kind.waiting.released(client, ownership.kind, ownership, reply - 1, sent)
    if count == 1 or not ownership.watched():
        client.watchdog.unwatch(ownership)
        # Left by another thread, the block's owner may hold it anew by now.
        if ownership.holds and ownership.watched():
            client.watchdog.watch(ownership)
    if client.talkative():
        held = client.runtime.now() - ownership.since[count - 1]
        client.emit(events.Released(ownership.name, ownership.owner, count - 1, held))


async def end_last(
    client: ClientCore, ownership: Ownership, request_id: int, lease_ms: int, sent: float, answer: Reply | Failure
) -> None:
    """Take the answer to a last release that was sent together with those to other nodes. Raises as :func:`unlock`."""
    kind = ownership.kind
    assert kind is not None
    reply: Reply = None
    setback: Failure | Stale | None
    try:
        if isinstance(answer, Failure):
            setback = answer
        else:
            reply, setback = answer, read_release(answer)
    except Unusable as failure:
        setback = failure
    if setback is not None or reply is None:
        call = ReleaseCall(kind, ownership, request_id, lease_ms, 1)
        reply, sent = await _finish(client, call, Unlock.RELEASE, GONE, sent, reply, setback)
    _released(client, ownership, request_id, 1, lease_ms, sent, reply)


def holder_here(kind: LockKind, ownership: Ownership) -> str | None:
    """Say who else of this client holds the lock, if somebody does."""
    others = ((each.who, each.kind or kind) for each in kind.holders() if each.who is not ownership.who)
    return next((held_here(who, by.layout, kind.layout) for who, by in others), None)
