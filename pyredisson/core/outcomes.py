"""What a server's reply to an acquire can mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, final

__all__ = [
    "ACQUIRED",
    "AT_ONCE",
    "LOST",
    "WITHOUT_END",
    "Acquired",
    "Answer",
    "Lost",
    "Outcome",
    "Refused",
    "SelfBlocked",
    "Stale",
]


@final
@dataclass(frozen=True, slots=True)
class Acquired:
    """The owner holds what it asked for.

    Attributes:
        token: The fencing token of the hold, where its kind has such a thing.
    """

    token: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody else holds it.

    Attributes:
        retry_in_ms: For how long, in ms, asking again is sure to be in vain; ``None``: until somebody releases it.
    """

    retry_in_ms: int | None


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """The owner does not hold what its client counts."""


@final
@dataclass(frozen=True, slots=True)
class SelfBlocked:
    """The owner itself holds what is in the way, and would wait for itself."""


@final
@dataclass(frozen=True, slots=True)
class Stale:
    """The request came too late: a later one of the same owner is known.

    Attributes:
        epoch: The owner's epoch, as the server knows it.
    """

    epoch: int


ACQUIRED: Final = Acquired()
LOST: Final = Lost()
AT_ONCE: Final = Refused(0)
WITHOUT_END: Final = Refused(None)

Answer: TypeAlias = Acquired | Refused
"""What an attempt tells the one who waits."""

Outcome: TypeAlias = Acquired | Refused | Lost | SelfBlocked | Stale
"""All that the reply to an acquire can mean."""
