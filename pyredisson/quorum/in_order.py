"""All of several locks, acquired one after another in one order, so that no clients wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.acquiring.acquire import acquire
from pyredisson.core.deadline import Deadline
from pyredisson.core.failures import Failure
from pyredisson.quorum.release import RETRY, undo, unreachable
from pyredisson.quorum.table import multi_locks_of

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.quorum.ownership import MultiHold, MultiOwnership

#: A part is covered by the mark of its multi-lock.
NO_MARK: tuple[str, ...] = ()


class InOrder:
    """Acquires all members one after another. The members are sorted by name.

    Args:
        client: The client of the first member.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client

    async def acquire(self, owned: MultiOwnership, hold: MultiHold, wait: float | None, asked: float) -> bool:
        """Acquire all members, within ``wait`` seconds (``None``: however long it takes).

        If it returns ``False``, nothing is held; if it raises, its caller releases everything.
        """
        runtime = self._client.runtime
        deadline = Deadline.after(wait, asked)
        reached = asked
        failures = 0
        while True:
            try:
                acquired = await self._acquire_each(owned, hold, wait, deadline)
            except Failure as failure:
                await undo(owned, hold)
                now = runtime.now()
                retry_timeout = self._client.config.quorum_retry_timeout
                left = deadline.left(now) if wait is not None else retry_timeout - (now - reached)
                if left <= RETRY.longest(failures) or wait == 0:
                    states: dict[str, object] = {
                        f"{member.name!r}": "granted" if ownership.holds else "not asked"
                        for member, ownership in owned.parts()
                    }
                    states["the one that failed"] = failure.cause
                    raise unreachable(owned, states, "too few could be reached in time") from failure.cause
            else:
                if acquired and owned.deadline_of(hold) > runtime.now():
                    return True
                await undo(owned, hold)
                reached = runtime.now()
                # If they were acquired, one of them expired while others were waited for.
                if not acquired or deadline.passed(reached):
                    return False
            await runtime.sleep(RETRY.pause(failures, runtime.jitter))
            failures += 1

    async def _acquire_each(
        self, owned: MultiOwnership, hold: MultiHold, wait: float | None, deadline: Deadline
    ) -> bool:
        runtime, table = self._client.runtime, multi_locks_of(self._client)
        began = runtime.now()
        for index, (member, ownership) in enumerate(owned.parts()):
            part = hold.new_part()
            acquired = await acquire(member.client, member.kind, ownership, part, 0, NO_MARK)
            if not acquired and wait != 0:
                # Those that were acquired before are renewed while this one is waited for.
                owned.set_acquiring(hold)
                table.enter(owned)
                table.watch(owned)
                left = None if wait is None else deadline.left(runtime.now())
                acquired = await acquire(member.client, member.kind, ownership, part, left, NO_MARK)
            if not acquired:
                return False
            hold.parts[index] = part
        if runtime.now() - began > hold.lease_ms / 20_000:
            # It took a while: the lease begins now, for all of them.
            owned.set_acquiring(hold)
            await table.renew([owned])
        owned.set_acquiring(None)
        return True
