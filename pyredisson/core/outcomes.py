"""What a server's reply to an acquire can mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, final

__all__ = [
    "ACQUIRED",
    "AT_ONCE",
    "GRANTED",
    "GRANTED_AND_MORE",
    "LOST",
    "SELF_BLOCKED",
    "WITHOUT_END",
    "Acquired",
    "Answer",
    "Granted",
    "Lost",
    "NeverSet",
    "Outcome",
    "PermitOutcome",
    "Refused",
    "SelfBlocked",
    "Stale",
]


@final
@dataclass(frozen=True, slots=True)
class Acquired:
    """The owner holds the lock.

    Attributes:
        token: The fencing token of the hold, if its kind has one.
    """

    token: int | None = None


@final
@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody else holds it.

    Attributes:
        retry_in_ms: Milliseconds for which asking again is in vain; ``None``: until somebody releases it.
    """

    retry_in_ms: int | None


@final
@dataclass(frozen=True, slots=True)
class Lost:
    """The owner does not hold the lock as often as its client counts."""


@final
@dataclass(frozen=True, slots=True)
class SelfBlocked:
    """The owner would wait for a hold of its own."""


@final
@dataclass(frozen=True, slots=True)
class Stale:
    """The request arrived after a later one of the same owner.

    Attributes:
        epoch: The owner's epoch, as the server knows it.
    """

    epoch: int


@final
@dataclass(frozen=True, slots=True)
class Granted:
    """The permits were granted.

    Attributes:
        next_in_ms: After how many ms another waiter may be granted permits without a release; ``None``: never.
    """

    next_in_ms: int | None


@final
@dataclass(frozen=True, slots=True)
class NeverSet:
    """The semaphore was never given any permits.

    Attributes:
        retry_in_ms: As for :class:`Refused`.
    """

    retry_in_ms: int | None


ACQUIRED: Final = Acquired()
GRANTED: Final = Granted(None)
GRANTED_AND_MORE: Final = Granted(0)
LOST: Final = Lost()
AT_ONCE: Final = Refused(0)
SELF_BLOCKED: Final = SelfBlocked()
WITHOUT_END: Final = Refused(None)

Answer: TypeAlias = Acquired | Refused
"""What an attempt returns to a waiter."""

Outcome: TypeAlias = Acquired | Refused | Lost | SelfBlocked | Stale
"""All that the reply to an acquire of a lock can mean."""

PermitOutcome: TypeAlias = Granted | Refused | NeverSet
"""All that the reply to an acquire of permits can mean."""
