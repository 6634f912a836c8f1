"""What a waiter repeats until it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.kinds.lock import LockCore

__all__ = ["Attempt"]


class Attempt:
    """An attempt of one owner to take one lock, to be made as often as it takes."""

    __slots__ = ("hold", "lock", "ownership")

    def __init__(self, lock: LockCore, ownership: Ownership, hold: Hold) -> None:
        self.lock = lock
        self.ownership = ownership
        self.hold = hold

    def __call__(self) -> Coroutine[Any, Any, Answer]:
        return self.lock.attempt(self.ownership, self.hold)
