"""The base classes of events, in a file of its own: the events themselves are loaded when the first is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, eq=False, repr=False)
class Event:
    """The base class of all events of a client."""

    # Written once here instead of being generated for each: that was a third of the time to import the library.

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash((type(self), *self._items()))

    def _items(self) -> list[tuple[str, Any]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self) if each.compare]


@dataclass(frozen=True, eq=False, repr=False)
class LockEvent(Event):
    """The base class of the events of one lock and one owner.

    Attributes:
        name: The name of the lock.
        owner: The owner's field in Redis: ``<client id>:<thread id>``.
        who: What to call that owner, where it need not be the thread or task that emits this; two events that differ
            in that alone are equal.
    """

    name: str
    owner: str
    who: str = field(default="", kw_only=True, compare=False)


Event.__module__ = LockEvent.__module__ = "pyredisson.events"
