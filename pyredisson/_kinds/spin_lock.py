"""The spin lock: the reentrant lock without messages. Waiters make attempts with pauses in between.

Source: ``org.redisson.RedissonSpinLock``. For locks with short holds and few waiters, where a subscription costs more
than it saves. What differs on purpose: a pause never outlasts the caller's wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.kind import FREES_ALL_OWNERS, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._core.wait_queue import NEVER_YIELDS, Fairness
from pyredisson._core.waiting import Polling
from pyredisson._kinds.lock import LockCore, PlainKind

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import Waiting
    from pyredisson._core.waiting import Delays


#: How it is stored, for inspections.
STORED = (
    StoredKind(
        "spin_lock", "spin", "owners", LockNames, announces=False, subscribes=False, force_unlock=FREES_ALL_OWNERS
    ),
)


class SpinKind(PlainKind):
    """The spin lock, whose releases are not announced."""

    __slots__ = ("waiting",)

    word = "spin_lock"
    label = "spin"
    publish = ""
    has_wait_queue = False

    def __init__(self, client: ClientCore, names: LockNames, delays: Delays, tries: int | None) -> None:
        super().__init__(client, names)
        self.waiting: Waiting = Polling(delays, until_free=False, tries=tries)

    def new_state(self) -> Fairness:
        """See :meth:`LockKind.new_state`; the kind keeps nothing."""
        return NEVER_YIELDS


class SpinLockCore(LockCore):
    """One handle on a spin lock.

    Args:
        client: The client.
        name: The lock's name.
        delays: The pauses between attempts.
        tries: How many attempts a waiter makes at most.
    """

    __slots__ = ()

    def __init__(self, client: ClientCore, name: str, delays: Delays, tries: int | None = None) -> None:
        names = LockNames(name, client.config.prefix)
        super().__init__(client, names, SpinKind(client, names, delays, tries))
