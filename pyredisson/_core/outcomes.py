"""What a server's reply to an acquire can mean."""

from __future__ import annotations

from typing import Final, TypeAlias, final


class Value:
    """One of the outcomes: equal to another of its class with the same part. No dataclass: those are slow to import."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(part) for part in self._parts())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts() == self._parts()

    def __hash__(self) -> int:
        return hash((type(self), *self._parts()))

    def _parts(self) -> list[object]:
        names: tuple[str, ...] = self.__slots__
        return [getattr(self, name) for name in names]


@final
class LockAcquired(Value):
    """The owner holds the lock.

    Attributes:
        token: The fencing token of the hold, if its kind has one.
    """

    __slots__ = ("token",)

    def __init__(self, token: int | None = None) -> None:
        self.token: int | None = token


@final
class Refused(Value):
    """Another owner holds it.

    Attributes:
        retry_in_ms: Milliseconds for which asking again is in vain; ``None``: until it is released.
    """

    __slots__ = ("retry_in_ms",)

    def __init__(self, retry_in_ms: int | None) -> None:
        self.retry_in_ms: int | None = retry_in_ms


@final
class HoldLost(Value):
    """The owner does not hold the lock as often as its client counts."""

    __slots__ = ()


@final
class SelfBlocked(Value):
    """The owner would wait for a hold of its own."""

    __slots__ = ()


@final
class Stale(Value):
    """The request arrived after a later one of the same owner.

    Attributes:
        epoch: The owner's epoch, as the server knows it.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch


@final
class Granted(Value):
    """The permits were granted.

    Attributes:
        next_in_ms: After how many ms another waiter may be granted permits without a release; ``None``: never.
    """

    __slots__ = ("next_in_ms",)

    def __init__(self, next_in_ms: int | None) -> None:
        self.next_in_ms: int | None = next_in_ms


@final
class NeverSet(Value):
    """The semaphore was never given any permits.

    Attributes:
        retry_in_ms: As for :class:`Refused`.
    """

    __slots__ = ("retry_in_ms",)

    def __init__(self, retry_in_ms: int | None) -> None:
        self.retry_in_ms: int | None = retry_in_ms


ACQUIRED: Final = LockAcquired()
GRANTED: Final = Granted(None)
GRANTED_AND_MORE: Final = Granted(0)
LOST: Final = HoldLost()
AT_ONCE: Final = Refused(0)
SELF_BLOCKED: Final = SelfBlocked()
WITHOUT_END: Final = Refused(None)

Answer: TypeAlias = LockAcquired | Refused
"""What an attempt returns to a waiter."""

Outcome: TypeAlias = LockAcquired | Refused | HoldLost | SelfBlocked | Stale
"""All that the reply to an acquire of a lock can mean."""

PermitOutcome: TypeAlias = Granted | Refused | NeverSet
"""All that the reply to an acquire of permits can mean."""
