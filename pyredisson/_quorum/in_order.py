"""All of several locks, acquired one after another in one order, so that no clients wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.acquiring import acquire, check_not_lost, check_reentrant
from pyredisson._core.deadline import Deadline
from pyredisson._core.failures import Failure
from pyredisson._quorum.release import RETRY, extend, undo, unreachable

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._quorum.hold import MultiHold

#: Of its lease: if the acquires took longer, the lease of a multi-lock begins anew when all are there.
WHILE = 1 / 20


class InOrder:
    """Acquires all members one after another. The members are sorted by name.

    Args:
        client: The client of the first member.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client

    async def acquire(self, whole: MultiHold, wait: float | None, asked: float) -> bool:
        """Acquire all members, within ``wait`` seconds (``None``: however long it takes).

        If it returns ``False``, nothing is held; if it raises, its caller releases everything.
        """
        runtime = self._client.runtime
        deadline = Deadline.after(wait, asked)
        reached = asked
        failures = 0
        while True:
            try:
                acquired = await self._acquire_each(whole, wait, deadline)
            except Failure as failure:
                states: dict[str, object] = {f"{member.name!r}": "not asked" for member in whole.members}
                states |= {f"{member.name!r}": "granted" for _, member, _, _ in whole.held()}
                await undo(whole)
                now = runtime.now()
                retry_timeout = self._client.config.quorum_retry_timeout
                left = deadline.left(now) if wait is not None else retry_timeout - (now - reached)
                if left <= RETRY.longest(failures) or wait == 0:
                    states["the one that failed"] = failure.cause
                    raise unreachable(whole, states, "too few could be reached in time") from failure.cause
            else:
                if acquired and whole.certain_until() > runtime.now():
                    return True
                await undo(whole)
                reached = runtime.now()
                # If they were acquired, one of them expired while others were waited for.
                if not acquired or deadline.passed(reached):
                    return False
            await runtime.sleep(RETRY.pause(failures, runtime.jitter))
            failures += 1

    async def _acquire_each(self, whole: MultiHold, wait: float | None, deadline: Deadline) -> bool:
        runtime = self._client.runtime
        for member, ownership in zip(whole.members, whole.ownerships, strict=True):
            check_not_lost(member.client, ownership)  # Before anything is acquired.
            check_reentrant(member.kind, ownership)
            if member.kind.own_rival is not None and not ownership.holds:
                await member.kind.own_rival.refuse(member.kind, ownership)
        began = runtime.now()
        for index, (member, ownership) in enumerate(zip(whole.members, whole.ownerships, strict=True)):
            whole.parts[index] = part = whole.new_part(index)
            acquired = await acquire(member.client, member.kind, ownership, part, 0, for_multi_lock=True)
            if not acquired and wait != 0:
                _keep(whole, renewed=True)  # While this one is waited for.
                left = None if wait is None else deadline.left(runtime.now())
                acquired = await acquire(member.client, member.kind, ownership, part, left, for_multi_lock=True)
            if not acquired:
                return False
        _keep(whole, renewed=whole.watchdog)
        if runtime.now() - began > whole.lease_ms() / 1000 * WHILE:
            await extend(whole, whole.lease_ms())  # The lease begins now, for all of them.
        return True


def _keep(whole: MultiHold, *, renewed: bool) -> None:
    """Let the members that are held be renewed, or not, whatever the lease is."""
    if whole.watchdog:
        return
    for _, member, ownership, part in whole.held():
        part.watchdog, part.watched = renewed, renewed or whole.watched
        if renewed:
            member.client.watchdog.renew_every_third(ownership, part.lease_ms)
        elif not ownership.watched():
            member.client.watchdog.unwatch(ownership)
