"""The spin lock: the reentrant lock without messages. Waiters ask again and again, with pauses in between.

Source: ``org.redisson.RedissonSpinLock``. For locks that are held so briefly, and wanted so rarely, that a subscription
costs more than it saves. What differs on purpose: a pause never outlasts the caller's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.names import LockNames
from pyredisson.core.polling import Polling
from pyredisson.kinds.lock import LockCore, PlainKind

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import Waiting
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.polling import Delays
    from pyredisson.core.runtime import Request

__all__ = ["SpinKind", "SpinLockCore"]


class SpinKind(PlainKind):
    """As a reentrant lock, whose releases are not announced."""

    __slots__ = ("waiting",)

    label = "spin"

    def __init__(self, client: ClientCore, names: LockNames, delays: Delays) -> None:
        super().__init__(client, names)
        self.waiting: Waiting = Polling(delays, until_free=False)

    def new_state(self) -> None:
        """Nothing is kept."""

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        return scripts.release_lock(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=lease_ms,
            holds=count,
            epoch=epoch,
            repeat=repeat,
            publish=scripts.NOBODY,
        )

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`."""
        return scripts.force_unlock(
            self.client.runtime, self.names, ownership.owner, epoch=epoch, publish=scripts.NOBODY
        )


class SpinLockCore(LockCore):
    """One handle on a spin lock."""

    __slots__ = ()

    def __init__(self, client: ClientCore, name: str, delays: Delays) -> None:
        names = LockNames(name)
        super().__init__(client, names, SpinKind(client, names, delays))
