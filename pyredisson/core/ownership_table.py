"""The table of what a client's owners hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Runtime

__all__ = ["OwnershipTable"]


class OwnershipTable:
    """The table of a client's ownerships, by (raw name, owner field).

    An idle ownership stays for its owner's next acquire, until there are too many of them. Those of one lock are found
    without a search through the others.
    """

    #: How many ownerships may be kept for nothing but to say "lost" to a late unlock.
    REMEMBERED = 1000

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._table: dict[tuple[str, str], Ownership] = {}
        self._by_name: dict[str, dict[tuple[str, str], Ownership]] = {}
        self._mutex = runtime.mutex()  # Keeps the two together.
        self._sweep_at = 2 * self.REMEMBERED

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Ownership]:
        return iter(list(self._table.values()))

    def find(self, key: tuple[str, str]) -> Ownership | None:
        """The ownership, if there is one."""
        return self._table.get(key)

    def enter(self, ownership: Ownership) -> Ownership:
        """Put an ownership into the table, unless there is one: then return that."""
        if len(self._table) >= self._sweep_at:
            self._sweep()
        ownership.listed_in(self)
        with self._mutex:
            listed = self._table.get(ownership.key, ownership)
            # First by name: whoever is interrupted in between leaves at most one there that is not in the table.
            of_name = self._by_name.setdefault(ownership.name, {})
            of_name[ownership.key] = listed
            if (kept := self._by_name.setdefault(ownership.name, of_name)) is not of_name:
                kept[ownership.key] = listed  # A signal handler has dropped what was empty still, and entered another.
            self._table[ownership.key] = listed
            return listed

    def drop(self, ownership: Ownership) -> None:
        """Take an ownership out whose owner is gone."""
        ownership.listed_in(None)
        with self._mutex:
            self._table.pop(ownership.key, None)
            of_name = self._by_name.get(ownership.name)
            if of_name is not None:
                of_name.pop(ownership.key, None)
                if not of_name:
                    del self._by_name[ownership.name]

    def held(self) -> list[Ownership]:
        """The ownerships that hold something, or may."""
        return [ownership for ownership in self if ownership.holds or ownership.pending]

    def of(self, name: str) -> list[Ownership]:
        """All ownerships on one lock."""
        with self._mutex:
            found = list(self._by_name.get(name, {}).values())
        return [ownership for ownership in found if self._table.get(ownership.key) is ownership]

    def _sweep(self) -> None:
        now = self._runtime.now()
        remembered = []
        for ownership in self:
            if not ownership.pending and not ownership.watched():  # The watchdog sees to the others, and tells of them.
                ownership.expire(now)
            if ownership.idle() or not ownership.holder_alive():
                self._let_go(ownership)
            elif not ownership.holds and not ownership.pending:
                remembered.append(ownership)
        for ownership in remembered[: -self.REMEMBERED]:
            self._let_go(ownership)
        self._sweep_at = max(2 * self.REMEMBERED, 2 * len(self._table))

    def _let_go(self, ownership: Ownership) -> None:
        # Its owner may be about to use it: either we see its request noted, or it sees itself unlisted.
        with ownership.mutex:
            if not ownership.holds and not ownership.pending:
                self.drop(ownership)
