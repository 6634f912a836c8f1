"""The table of what a client's owners hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.ownership.liveness import holder_alive
from pyredisson.core.ownership.owner_table import OwnerTable

if TYPE_CHECKING:
    from pyredisson.core.ownership.ownership import Ownership
    from pyredisson.core.runtime import Runtime


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
