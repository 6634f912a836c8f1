"""The tables of what owners hold, in which the entries of one lock are found without a look at the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pyredisson.core.ownership.liveness import holder_alive

if TYPE_CHECKING:
    from pyredisson.core.ownership.ownership import Ownership
    from pyredisson.core.runtime import Runtime


class TableEntry(Protocol):
    """What one owner holds of one lock."""

    @property
    def key(self) -> tuple[Any, Any]:
        """The lock, and its owner."""
        ...


EntryT = TypeVar("EntryT", bound=TableEntry)


class OwnerTable(Generic[EntryT]):
    """Entries by (lock, owner), indexed by lock."""

    def __init__(self, runtime: Runtime) -> None:
        #: As a rule a lock has one entry, which stands here by itself; several are in a dictionary, by their owners.
        self._by_lock: dict[Any, EntryT | dict[Any, EntryT]] = {}
        self._size = 0
        self._mutex = runtime.mutex()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[EntryT]:
        return iter([entry for of_lock in list(self._by_lock.values()) for entry in _each(of_lock)])

    def find(self, key: tuple[Any, Any]) -> EntryT | None:
        """Return the entry, if there is one."""
        of_lock = self._by_lock.get(key[0])
        if isinstance(of_lock, dict):
            return of_lock.get(key[1])
        return of_lock if of_lock is not None and of_lock.key[1] == key[1] else None

    def enter(self, entry: EntryT, /) -> EntryT:
        """Put an entry into the table, unless there is one: then return that."""
        with self._mutex:
            listed = self._list(*entry.key, entry)
            self._size += listed is entry
            return listed

    def _list(self, lock: object, owner: object, entry: EntryT) -> EntryT:
        while True:
            of_lock = self._by_lock.setdefault(lock, entry)
            if isinstance(of_lock, dict):
                listed = of_lock.setdefault(owner, entry)
                if self._by_lock.get(lock) is of_lock:  # Else a signal handler has dropped it, empty still.
                    return listed
            elif (other := of_lock.key[1]) == owner:
                return of_lock
            else:
                both = {other: of_lock}
                # Signal handlers, which may enter and drop others, run behind calls alone.
                if lock in self._by_lock and self._by_lock[lock] is of_lock:
                    self._by_lock[lock] = both

    def drop(self, entry: EntryT, /) -> None:
        """Take an entry out."""
        lock, owner = entry.key
        with self._mutex:
            of_lock = self._by_lock.get(lock)
            found = of_lock.pop(owner, None) if isinstance(of_lock, dict) else of_lock
            self._size -= found is entry
            if lock in self._by_lock and self._by_lock[lock] is of_lock and (of_lock is entry or not of_lock):
                del self._by_lock[lock]

    def of(self, lock: object) -> list[EntryT]:
        """Return all entries of one lock."""
        with self._mutex:
            return _each(self._by_lock.get(lock, {}))


def _each(of_lock: EntryT | dict[Any, EntryT]) -> list[EntryT]:
    return list(of_lock.values()) if isinstance(of_lock, dict) else [of_lock]


class OwnershipTable(OwnerTable["Ownership"]):
    """The table of a client's ownerships, by (raw name, owner field).

    An idle ownership stays for its owner's next acquire, until there are too many of them.
    """

    #: How many ownerships may be kept for nothing but to say "lost" to a late unlock.
    REMEMBERED = 1000

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._runtime = runtime
        self._sweep_at = 2 * self.REMEMBERED

    def enter(self, ownership: Ownership) -> Ownership:
        """Put an ownership into the table, unless there is one: then return that."""
        if len(self) >= self._sweep_at:
            self._sweep()
        ownership.listed_in(self)
        return super().enter(ownership)

    def drop(self, ownership: Ownership) -> None:
        """Take an ownership out whose owner is gone."""
        ownership.listed_in(None)
        super().drop(ownership)

    def held(self) -> list[Ownership]:
        """The ownerships that hold something, or may."""
        return [ownership for ownership in self if ownership.holds or ownership.pending]

    def _sweep(self) -> None:
        now = self._runtime.now()
        remembered = []
        for ownership in self:
            if not ownership.pending and not ownership.watched():  # The watchdog sees to the others, and reports them.
                ownership.expire(now)
            if ownership.idle() or not holder_alive(ownership):
                self._let_go(ownership)
            elif not ownership.holds and not ownership.pending:
                remembered.append(ownership)
        for ownership in remembered[: -self.REMEMBERED]:
            self._let_go(ownership)
        self._sweep_at = max(2 * self.REMEMBERED, 2 * len(self))

    def _let_go(self, ownership: Ownership) -> None:
        # Its owner may be about to use it: either we see its request noted, or it sees itself unlisted.
        with ownership.mutex:
            if not ownership.holds and not ownership.pending:
                self.drop(ownership)
