"""What became of a call that runs on one process at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, final

from pyredisson.holders import Holder

__all__ = ["Ran", "Skipped"]

R_co = TypeVar("R_co", covariant=True)


@final
@dataclass(frozen=True)
class Ran(Generic[R_co]):
    """The function was called. It is true, whatever the function returned.

    Attributes:
        value: What it returned.
    """

    value: R_co

    def __bool__(self) -> Literal[True]:
        """Return that it ran."""
        return True


@final
@dataclass(frozen=True)
class Skipped:
    """The function was not called: another owner holds the lock, or has run it within ``at_least``. It is false.

    Attributes:
        holder: Who that is; ``None`` if it is not known.
    """

    holder: Holder | None = None

    def __bool__(self) -> Literal[False]:
        """Return that it did not run."""
        return False
