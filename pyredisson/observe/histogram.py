"""A histogram that is cheap to add to: values are sorted into its buckets later, when it is read."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

#: How many values wait to be sorted at most.
BUFFER = 512


class Totals(NamedTuple):
    """What a histogram holds: the number of values in each bucket, the last one above all bounds; and their sum."""

    counts: list[int]
    sum: float

    def plus(self, other: Totals) -> Totals:
        """Return the totals of two histograms with the same bounds."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Totals(counts, self.sum + other.sum)


class BufferedHistogram:
    """A histogram to which an acquire adds a value by appending to a list.

    That needs no mutex, where ``prometheus_client`` needs two. Who appends calls :meth:`sort` when the list is long.
    """

    __slots__ = ("_bounds", "_counts", "_mutex", "_sum", "add", "values")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self.values: list[float] = []
        self.add: Callable[[float], None] = self.values.append
        self._mutex = threading.Lock()

    def sort(self) -> None:
        """Sort the values into the buckets, unless that is being done."""
        if self._mutex.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._mutex.release()

    def totals(self) -> Totals:
        """Return the numbers and the sum of all values."""
        with self._mutex:
            self._sort()
            return Totals(list(self._counts), self._sum)

    def _sort(self) -> None:
        # Others may append meanwhile, to the end; only the holder of the mutex removes.
        values = self.values[:]
        del self.values[: len(values)]
        for value in values:
            self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += sum(values)
