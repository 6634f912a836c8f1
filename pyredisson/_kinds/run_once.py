"""The lock of what runs on one process at a time, and not again for a time after it began.

Source: ShedLock (``lockAtMostFor``, ``lockAtLeastFor``). It is a lock, stored as any other, so that a crash frees it;
its lease is fixed unless it is to be renewed. What differs is its release: until ``at_least`` has passed, by the
server's clock, the key stays, under a field that no owner has. So hosts whose clocks differ do not run it twice.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._kinds.lock import LockCore, NonReentrantKind

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import ReleaseCall
    from pyredisson._core.runtime import Request


class RunOnceKind(NonReentrantKind):
    """A lock that may stay when it is released.

    Attributes:
        at_most_ms: Its lease; ``None``: the watchdog renews it.
        at_least_ms: For how long it stays from its beginning.
        began: When the run was known to have begun. Its lease does not tell if it was extended.
    """

    __slots__ = ("at_least_ms", "at_most_ms", "began")

    word = "run_once"
    has_ready_requests = False

    def __init__(self, client: ClientCore, names: LockNames, at_most_ms: int | None, at_least_ms: int) -> None:
        super().__init__(client, names)
        self.at_most_ms: int | None = at_most_ms
        self.at_least_ms: int = at_least_ms
        self.began: float = math.inf

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`. No one waits for it, so no one is notified."""
        if call.count > 1:  # A lock of its owner's with the same name.
            return super().release(call, epoch, repeat)
        app, host, pid, _ = self.client.runtime.identity()
        runs_ms = int(1000 * max(0.0, self.client.runtime.now() - self.began))
        lease = call.lease_ms if self.at_most_ms is None else self.at_most_ms
        args = lease, self.at_least_ms, f"{app or ''}:{host}:{pid}", runs_ms
        return self.request("run_once_release", call.ownership, args, epoch=epoch, repeat=repeat)


class RunOnceCore(LockCore):
    """One handle on what runs once."""

    __slots__ = ()

    stored = StoredKind(
        "run_once", "run once", "owners", LockNames, "ran", reentrant=False, force_unlock=FREES_ALL_OWNERS
    )
    kind: RunOnceKind  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str, at_most_ms: int | None, at_least_ms: int) -> None:
        names = LockNames(name, client.config.prefix)
        super().__init__(client, names, RunOnceKind(client, names, at_most_ms, at_least_ms))

    async def acquire_as_owner(self, wait: float | None, hold: SingleHold, held: Ownership | None) -> bool:
        """See :meth:`HolderCore.acquire_as_owner`. Who runs it already skips it, too."""
        if held is not None and held.holds:
            return False
        acquired = await super().acquire_as_owner(wait, hold, held)
        self.kind.began = self.client.runtime.now()
        return acquired
