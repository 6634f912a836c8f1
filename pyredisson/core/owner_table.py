"""A table of what owners hold, in which the entries of one lock are found without a look at the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from pyredisson.core.runtime import Runtime


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
        self._by_lock: dict[Any, dict[Any, EntryT]] = {}
        self._size = 0
        self._mutex = runtime.mutex()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[EntryT]:
        return iter([entry for of_lock in list(self._by_lock.values()) for entry in list(of_lock.values())])

    def find(self, key: tuple[Any, Any]) -> EntryT | None:
        """Return the entry, if there is one."""
        of_lock = self._by_lock.get(key[0])
        return None if of_lock is None else of_lock.get(key[1])

    def enter(self, entry: EntryT, /) -> EntryT:
        """Put an entry into the table, unless there is one: then return that."""
        lock, owner = entry.key
        with self._mutex:
            of_lock = self._by_lock.setdefault(lock, {})
            listed = of_lock.setdefault(owner, entry)
            if (kept := self._by_lock.setdefault(lock, of_lock)) is not of_lock:
                listed = kept.setdefault(owner, entry)  # A signal handler has dropped what was empty still.
            self._size += listed is entry
            return listed

    def drop(self, entry: EntryT, /) -> None:
        """Take an entry out."""
        lock, owner = entry.key
        with self._mutex:
            of_lock = self._by_lock.get(lock)
            if of_lock is not None:
                self._size -= of_lock.pop(owner, None) is not None
                if not of_lock and self._by_lock.get(lock) is of_lock:
                    del self._by_lock[lock]

    def of(self, lock: object) -> list[EntryT]:
        """Return all entries of one lock."""
        with self._mutex:
            return list(self._by_lock.get(lock, {}).values())
