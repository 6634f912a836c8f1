"""Labels of metrics: few values, whatever the names of the locks are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

Label: TypeAlias = Callable[[str], str]
"""A function that returns the label of a lock, given its name."""

#: The label of all locks beyond the limit.
OTHER = "other"

#: How many labels there are at most, by default.
MAX_LABELS = 100

#: For how many names the label is remembered.
NAMES = 1024

T = TypeVar("T")

_logger = logging.getLogger("pyredisson.lock")


class PerLabel(Generic[T]):
    """What belongs to each label, made when a label is first used; beyond the limit, all share one.

    Args:
        label: Returns the label of a lock; ``None``: all locks are one.
        limit: The number of labels. Later ones count as ``"other"``.
        make: Returns what belongs to a label, given the label; ``None`` if there are none.
    """

    __slots__ = ("_complained", "_label", "_limit", "_made", "_make", "by_name", "single")

    def __init__(self, label: Label | None, limit: int, make: Callable[[str | None], T]) -> None:
        if label is not None and not callable(label):
            raise TypeError("label must be a function of the lock's name")
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise TypeError(f"max_labels must be an int, not {type(limit).__name__}")
        if limit < 1:
            raise ValueError(f"max_labels must be at least 1, not {limit}")
        self._label = label
        self._limit = limit
        self._make = make
        self._made: dict[str, T] = {}
        self._complained = False
        #: What belongs to the names that were used last: quicker than to call the function.
        self.by_name: dict[str, T] = {}
        #: What belongs to all locks, if there are no labels.
        self.single: T | None = make(None) if label is None else None

    def of(self, name: str) -> T:
        """Return what belongs to the label of the lock with this name."""
        if self.single is not None:
            return self.single
        known = self.by_name.get(name)
        if known is not None:
            return known
        value = self._value(name)
        made = self._made.get(value)
        if made is None:
            if len(self._made) >= self._limit:
                value = OTHER
            made = self._made.get(value) or self._made.setdefault(value, self._make(value))
        if len(self.by_name) >= NAMES:
            self.by_name.clear()
        self.by_name[name] = made
        return made

    def used(self) -> list[T]:
        """Return what belongs to the labels that were used so far."""
        return [self.single] if self.single is not None else list(self._made.copy().values())

    def _value(self, name: str) -> str:
        assert self._label is not None
        try:
            value = self._label(name)
        except Exception:
            # Not propagated: the event would not be counted, and an error be logged for each.
            if not self._complained:
                self._complained = True
                _logger.exception("pyredisson: the label of lock %r failed; it counts as %r from now on", name, OTHER)
            return OTHER
        return value if type(value) is str else str(value)
