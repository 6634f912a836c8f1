"""The table of what a client's owners hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.core.holds import Claim
    from pyredisson.core.runtime import Runtime

__all__ = ["Claims"]


class Claims:
    """The table of a client's claims, by (raw name, owner field).

    An idle claim stays for its owner's next time, until there are too many of them. The claims on one lock are found
    without a look at the others.
    """

    #: How many claims may be kept for nothing but to say "lost" to a late unlock.
    REMEMBERED = 1000

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._table: dict[tuple[str, str], Claim] = {}
        self._by_name: dict[str, dict[tuple[str, str], Claim]] = {}
        self._mutex = runtime.mutex()  # Keeps the two together.
        self._sweep_at = 2 * self.REMEMBERED

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Claim]:
        return iter(list(self._table.values()))

    def find(self, key: tuple[str, str]) -> Claim | None:
        """The claim, if there is one."""
        return self._table.get(key)

    def enter(self, claim: Claim) -> Claim:
        """Put a claim into the table, unless there is one: then return that."""
        if len(self._table) >= self._sweep_at:
            self._sweep()
        claim.listed = True
        with self._mutex:
            listed = self._table.get(claim.key, claim)
            # First by name: whoever is interrupted in between leaves at most a claim there that is not in the table.
            of_name = self._by_name.setdefault(claim.name, {})
            of_name[claim.key] = listed
            if (kept := self._by_name.setdefault(claim.name, of_name)) is not of_name:
                kept[claim.key] = listed  # A signal handler has dropped what was empty still, and entered another.
            self._table[claim.key] = listed
            return listed

    def drop(self, claim: Claim) -> None:
        """Take a claim out whose owner is gone."""
        claim.listed = False
        with self._mutex:
            self._table.pop(claim.key, None)
            of_name = self._by_name.get(claim.name)
            if of_name is not None:
                of_name.pop(claim.key, None)
                if not of_name:
                    del self._by_name[claim.name]

    def held(self) -> list[Claim]:
        """The claims that hold something, or may."""
        return [claim for claim in self if claim.levels or claim.pending]

    def of(self, name: str) -> list[Claim]:
        """All claims on one lock."""
        with self._mutex:
            found = list(self._by_name.get(name, {}).values())
        return [claim for claim in found if self._table.get(claim.key) is claim]

    def _sweep(self) -> None:
        now = self._runtime.now()
        remembered = []
        for claim in self:
            if not claim.pending and not claim.watched():  # The watchdog sees to the others, and tells of them.
                claim.expire(now)
            if claim.idle() or not claim.holder_alive():
                self._let_go(claim)
            elif not claim.levels and not claim.pending:
                remembered.append(claim)
        for claim in remembered[: -self.REMEMBERED]:
            self._let_go(claim)
        self._sweep_at = max(2 * self.REMEMBERED, 2 * len(self._table))

    def _let_go(self, claim: Claim) -> None:
        # Its owner may be about to use it: either we see its request noted, or it sees itself unlisted.
        with claim.mutex:
            if not claim.levels and not claim.pending:
                self.drop(claim)
