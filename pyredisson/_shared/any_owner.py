"""What all owners have in common."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.ownership import Ownership

_numbers = itertools.count(1)


class AnyOwner:
    """What all owners have in common.

    Attributes:
        number: Never used for another owner of this process.
        name: See ``Caller.name``.
        shared: See ``Caller.shared``.
        traced: See ``Caller.traced``.
    """

    __slots__ = ("name", "number")

    shared = False
    traced = False

    def __init__(self, name: str) -> None:
        self.number: int = next(_numbers)
        self.name: str = name

    def stack(self) -> tuple[str, ...]:
        """See ``Caller.stack``: it is no thread or task."""
        return ()

    @property
    def thread_number(self) -> int:
        """See ``Caller.thread_number``: no other call runs under this owner."""
        return self.number

    def divide(self) -> Self:
        """See ``Caller.divide``."""
        return self

    def left_behind(self, acquires: Ownership, now: float) -> Ownership | None:
        """See ``Caller.left_behind``."""
        return None
