"""Extending: what an owner holds lasts longer than it would. It is renewed once, by another lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.acquiring.attempt import expire
from pyredisson._core.acquiring.release import not_owned, settle_or_explain
from pyredisson._core.background.renewal import Renewal
from pyredisson._core.backoff import DoublingBackoff
from pyredisson._core.failures import Failure, Rejected, Unusable
from pyredisson._core.ownership.hold import HoldState
from pyredisson._core.ownership.liveness import lost_error

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership.hold import Hold
    from pyredisson._core.ownership.ownership import Ownership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)


async def extend(
    client: ClientCore, ownership: Ownership, lease_ms: int, hold: Hold | None = None, kind: LockKind | None = None
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
    """
    if ownership.pending is not None:
        await settle_or_explain(client, ownership)
    expire(client, ownership)
    if hold is None:
        hold = ownership.to_unlock()
    if hold is None:
        assert kind is not None, "an owner extends a lock of some kind"
        raise not_owned(kind, ownership)
    _raise_if_lost(ownership, hold)
    runtime, failures = client.runtime, 0
    over = runtime.now() + client.config.timeout
    while (left := over - runtime.now()) > 0:
        renewal = Renewal(client, [ownership], lease_ms, min(left, client.attempt_timeout(lease_ms)))
        try:
            renewal.answer = await runtime.eval(renewal.request, renewal.timeout)
        except Failure as failure:
            renewal.answer = failure
        await renewal.learn_cause()
        failed = renewal.note()
        _raise_if_lost(ownership, hold)
        if failed is None:
            return True
        if isinstance(failed, (Rejected, Unusable)):
            raise client.explain(failed, ownership, "an extension", lease_ms) from failed.cause
        await runtime.sleep(min(RETRY.pause(failures, runtime.jitter), max(0.0, over - runtime.now())))
        failures += 1
        expire(client, ownership)
        _raise_if_lost(ownership, hold)
    return False


def _raise_if_lost(ownership: Ownership, hold: Hold) -> None:
    if ownership.loss is not None or hold.state is not HoldState.HELD:
        raise lost_error(ownership, ownership.loss or "its lease expired")
