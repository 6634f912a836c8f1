"""Freeing a lock, for any holder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.acquiring.attempt import expire
from pyredisson.core.acquiring.release import settle_or_explain
from pyredisson.core.diagnosis.wrong_type import explain_type
from pyredisson.core.failures import Failure
from pyredisson.core.requests.call import ForceCall
from pyredisson.core.requests.replies import unusable
from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import LockKind
    from pyredisson.core.ownership.ownership import Ownership


async def force_unlock(client: ClientCore, kind: LockKind, ownership: Ownership) -> bool:
    """Free the lock in the name of an owner. Returns whether it was locked."""
    if ownership.pending is not None:
        try:
            await settle_or_explain(client, ownership)
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
        reply, _, _ = await client.exchange(ForceCall(kind, ownership, request_id, lease), epoch)
    except Failure as failure:
        error = client.explain(failure, ownership, "a force_unlock", lease)
        raise await explain_type(client.finder, error, ownership.name, kind.layout) from failure.cause
    if type(reply) is bytes:
        raise client.explain(unusable(reply), ownership, "a force_unlock", lease)
    if reply is None and kind.one_sided:
        return False  # The other side is held, and stays so.
    for each, generation in victims:
        if each.who is ownership.who:
            each.clear()
            client.watchdog.unwatch(each)
        elif each.lose("it was force-unlocked by this client", generation):
            client.watchdog.unwatch(each)
            client.report_lost(each)
    return reply is not None
