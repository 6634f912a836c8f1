"""Pauses between attempts: each twice as long as the one before, up to a maximum, with jitter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, final

Uniform: TypeAlias = Callable[[float, float], float]
"""A source of random numbers between two bounds, such as :meth:`Runtime.jitter`."""

#: Doubling more often exceeds any maximum, and in the end the range of a ``float``.
MOST_DOUBLINGS = 64


@final
class DoublingBackoff:
    """Pauses that begin with ``first`` seconds and double with each failure, up to ``maximum`` seconds."""

    __slots__ = ("first", "maximum")

    def __init__(self, first: float, maximum: float) -> None:
        self.first: float = first
        self.maximum: float = maximum

    def longest(self, failures: int) -> float:
        """Return the longest pause, in seconds, after ``failures`` earlier pauses."""
        return min(self.first * 2.0 ** min(failures, MOST_DOUBLINGS), self.maximum)

    def pause(self, failures: int, uniform: Uniform) -> float:
        """Return a random pause, in seconds: at least half of :meth:`longest`."""
        longest = self.longest(failures)
        return uniform(longest / 2, longest)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Return the pauses, without end; see :class:`pyredisson._core.waiting.polling.Delays`."""
        return (self.pause(failures, uniform) for failures in itertools.count())


#: Between two tries of one request.
RETRY: Final = DoublingBackoff(first=0.01, maximum=0.25)
