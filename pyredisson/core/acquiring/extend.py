"""Extending: what an owner holds lasts longer than it would. It is renewed once, by another lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.acquiring.attempt import expire
from pyredisson.core.acquiring.release import settle_or_explain
from pyredisson.core.background.renewal import Renewal
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.diagnosis.error_text import not_held
from pyredisson.core.failures import Failure, Rejected, Unusable
from pyredisson.core.ownership.liveness import lost_error
from pyredisson.errors import LockNotOwnedError

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.ownership.ownership import Ownership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)


async def extend(client: ClientCore, ownership: Ownership, lease_ms: int) -> bool:
    """Let what an owner holds last for ``lease_ms`` from now on; what lasts longer stays as it is.

    A renewal never shortens a lease, so that it may be repeated.

    Returns:
        Whether the server has confirmed it within ``Config.timeout``.

    Raises:
        LockLostError: It was lost.
        LockNotOwnedError: Its owner does not hold it.
    """
    if ownership.pending is not None:
        await settle_or_explain(client, ownership)
    expire(client, ownership)
    if not ownership.holds and not ownership.expired:
        raise LockNotOwnedError(not_held("lock", ownership.name, ownership.who, None), name=ownership.name)
    _raise_if_lost(ownership)
    runtime, failures = client.runtime, 0
    over = runtime.now() + client.config.timeout
    while (left := over - runtime.now()) > 0:
        renewal = Renewal(client, [ownership], lease_ms, min(left, client.attempt_timeout(lease_ms)))
        try:
            renewal.answer = await runtime.eval(renewal.request, renewal.timeout)
        except Failure as failure:
            renewal.answer = failure
        failed = renewal.note()
        _raise_if_lost(ownership)
        if failed is None:
            return True
        if isinstance(failed, (Rejected, Unusable)):
            raise client.explain(failed, ownership, "an extension", lease_ms) from failed.cause
        await runtime.sleep(min(RETRY.pause(failures, runtime.jitter), max(0.0, over - runtime.now())))
        failures += 1
        expire(client, ownership)
        _raise_if_lost(ownership)
    return False


def _raise_if_lost(ownership: Ownership) -> None:
    if ownership.loss is not None or not ownership.holds:
        raise lost_error(ownership, ownership.loss or "its lease expired")
