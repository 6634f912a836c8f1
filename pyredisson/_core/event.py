"""The base classes of events, and of other frozen records, for which nothing is generated when they are imported.

They are in a file of their own: the events themselves are loaded with the first client.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # typing_extensions is slow to import, and this is for type checkers.

    def dataclass_transform(**_: object) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a class derived from :class:`Record` a dataclass. What is usually generated was a third of the import."""
    return dataclass(init=False, eq=False, repr=False)(cls)


class Record:
    """What frozen dataclasses have in common."""

    def __init__(self, *args: Any, **others: Any) -> None:
        known = {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in fields(self)  # type: ignore[arg-type]
        }
        values = dict(zip(type(self).__match_args__, args, strict=False))  # type: ignore[attr-defined]
        wrong = len(args) > len(values) or values.keys() & others.keys() or others.keys() - known.keys()
        known |= values | others
        if wrong or MISSING in known.values():
            raise TypeError(f"{type(self).__name__}() takes {', '.join(known)}: each required one once, and no other")
        self.__dict__.update(known)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash((type(self), *self._items()))

    def _items(self) -> list[tuple[str, Any]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self) if each.compare]  # type: ignore[arg-type]


@record
class Event(Record):
    """The base class of all events of a client."""


@record
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
