"""Settling the pending request of an owner: an acquire without an answer is undone, a release completed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pyredisson._core import events
from pyredisson._core.backoff import RETRY
from pyredisson._core.deadline import CLEANUP_BUDGET, certain_for
from pyredisson._core.failures import Failure, Rejected, superseded
from pyredisson._core.kind import LockKind
from pyredisson._core.ownership.liveness import lost_error
from pyredisson._core.ownership.pending_request import Pending
from pyredisson._core.requests.call import ReleaseCall
from pyredisson._core.requests.replies import unusable

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership.ownership import Ownership
    from pyredisson._core.ownership.pending_request import SettleBegun
    from pyredisson._core.requests.call import Exchange
    from pyredisson._core.runtime import Reply


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
        exchange: How to ask the server; ``None``: as :meth:`ClientCore.exchange` does.

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
            if not _settled(client, ownership, begun, reply, sent, repeated=repeated, behind=behind):
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
                client.settle_in_background(ownership)
            raise
        last, since = begun.pending, begun.request_id


def _settled(
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
    elif not ownership.released(begun.request_id, sent + certain_for(begun.lease_ms), behind=behind):
        return False
    if not ownership.watched():
        client.unwatch(ownership)
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
            client.settle_in_background(ownership)


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
        await runtime.sleep(RETRY.pause(failures, runtime.jitter))
