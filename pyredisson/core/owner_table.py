"""A table of what owners hold, in which the entries of one lock are found without a look at the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from pyredisson.core.runtime import Runtime

__all__ = ["OwnerTable"]


class Entry(Protocol):
    """What one owner holds of one lock."""

    @property
    def key(self) -> tuple[Any, Any]:
        """The lock, and its owner."""
        ...


EntryT = TypeVar("EntryT", bound=Entry)


class OwnerTable(Generic[EntryT]):
    """Entries by (lock, owner), indexed by lock."""

    def __init__(self, runtime: Runtime) -> None:
        self._table: dict[tuple[Any, Any], EntryT] = {}
        self._by_lock: dict[Any, dict[tuple[Any, Any], EntryT]] = {}
        self._mutex = runtime.mutex()  # Keeps the two together.

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[EntryT]:
        return iter(list(self._table.values()))

    def find(self, key: tuple[Any, Any]) -> EntryT | None:
        """Return the entry, if there is one."""
        return self._table.get(key)

    def enter(self, entry: EntryT, /) -> EntryT:
        """Put an entry into the table, unless there is one: then return that."""
        key = entry.key
        with self._mutex:
            listed = self._table.get(key, entry)
            # First by lock: a call that is interrupted in between leaves at most an entry that is not in the table.
            of_lock = self._by_lock.setdefault(key[0], {})
            of_lock[key] = listed
            if (kept := self._by_lock.setdefault(key[0], of_lock)) is not of_lock:
                kept[key] = listed  # A signal handler has dropped what was empty still, and entered another.
            self._table[key] = listed
            return listed

    def drop(self, entry: EntryT, /) -> None:
        """Take an entry out."""
        key = entry.key
        with self._mutex:
            self._table.pop(key, None)
            of_lock = self._by_lock.get(key[0])
            if of_lock is not None:
                of_lock.pop(key, None)
                if not of_lock:
                    del self._by_lock[key[0]]

    def of(self, lock: object) -> list[EntryT]:
        """Return all entries of one lock."""
        with self._mutex:
            found = list(self._by_lock.get(lock, {}).values())
        return [entry for entry in found if self._table.get(entry.key) is entry]
