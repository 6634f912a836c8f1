"""The table of what owners hold, in which the entries of one lock, or of one thread in it, are found at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pyredisson._core.hold import holder_alive
from pyredisson._core.owners import CallChains

if TYPE_CHECKING:
    from pyredisson._core.owners import Caller
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Runtime

#: How many ownerships may be kept for nothing but to say "lost" to a late unlock.
REMEMBERED: Final = 1000


class OwnershipTable:
    """The ownerships of a client, by (name, owner field).

    An idle ownership stays for its owner's next acquire, until there are too many of them.
    """

    def __init__(self, runtime: Runtime) -> None:
        #: As a rule a lock has one entry, which stands here by itself; several are in a dictionary, by their owners.
        self._by_lock: dict[str, Ownership | dict[str, Ownership]] = {}
        #: By lock and thread, of locks with several entries.
        self._chains: dict[tuple[str, int], CallChains] = {}
        self._size = 0
        self._sweep_at = 2 * REMEMBERED
        self._mutex = runtime.mutex()
        self._now = runtime.now

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Ownership]:
        return iter([entry for of_lock in list(self._by_lock.values()) for entry in _each(of_lock)])

    def find(self, key: tuple[str, str]) -> Ownership | None:
        """Return the entry, if there is one."""
        of_lock = self._by_lock.get(key[0])
        if isinstance(of_lock, dict):
            return of_lock.get(key[1])
        return of_lock if of_lock is not None and of_lock.owner == key[1] else None

    def of(self, name: str) -> list[Ownership]:
        """Return all entries of one lock."""
        with self._mutex:
            return _each(self._by_lock.get(name, {}))

    def held(self) -> list[Ownership]:
        """The ownerships that hold something, or may."""
        return [ownership for ownership in self if ownership.holds or ownership.pending]

    # ---- who acts ------------------------------------------------------------------------------------------------

    def acting(self, name: str, who: Caller, thread: int, in_backlog: Callable[[Ownership], bool]) -> Caller:
        """Return as whom the calling context acts: rule 4 of :mod:`pyredisson._core.owners`.

        Args:
            name: The lock.
            who: The calling thread.
            thread: Its identifier: a signal handler in the middle of a call is who makes that call.
            in_backlog: Whether the pending request of an ownership is left to the background.
        """
        chains = self._find_chains(name, who)
        if chains is None:
            return who
        owner = chains.owner_here()
        if owner is not None:
            return owner
        in_use = False
        for each in chains.members:
            if each.call.thread == thread:
                return each.who
            if not each.watched():
                each.expire(self._now())  # What simply ran out is not in use.
            if each.in_use() and not (each.done_with() and in_backlog(each)):
                if not each.holds and each.called_here():
                    return each.who
                in_use = True
            elif each.who is not who and each.idle():
                self._let_go(each)
        return who.divide() if in_use else who

    def of_thread(self, name: str, who: Caller, field: str) -> list[Ownership]:
        """Return the entries of one lock of the call chains of a thread; for other owners that of a ``field``."""
        if who.is_shared:
            chains = self._find_chains(name, who)
            return [] if chains is None else list(chains.members)
        found = self.find((name, field))
        return [] if found is None else [found]

    def _find_chains(self, name: str, who: Caller) -> CallChains | None:
        of_lock = self._by_lock.get(name)
        if of_lock is None or isinstance(of_lock, dict):
            return self._chains.get((name, who.thread_number))
        return of_lock.chains if of_lock.who.thread_number == who.thread_number else None

    def end(self) -> None:
        """The client has ended, or is another one from now on: nothing is found here any more."""
        for chains in {id(each.chains): each.chains for each in self if each.chains is not None}.values():
            chains.end()

    # ---- changes -------------------------------------------------------------------------------------------------

    def enter(self, ownership: Ownership) -> Ownership:
        """Put an ownership into the table, unless there is one: then return that."""
        if self._size >= self._sweep_at:
            self._sweep()
        with self._mutex:
            known = self._find_chains(ownership.name, ownership.who) if ownership.who.is_shared else None
            listed = self._list(ownership)
            if listed is ownership and ownership.table is not self:
                self._size += 1
                self._join(ownership, known)
            return listed

    def _join(self, ownership: Ownership, chains: CallChains | None) -> None:
        """Let an ownership be found by its thread. ``chains``: those of that thread, if there are any."""
        if ownership.who.traced:
            chains = chains or CallChains()
            chains.members = (*chains.members, ownership)
            ownership.listed_in(self, chains)
        else:
            ownership.listed_in(self)
        of_lock = self._by_lock.get(ownership.name)
        if isinstance(of_lock, dict):
            for each in of_lock.values() if len(of_lock) == 2 else (ownership,):
                if each.who.is_shared and each.chains is not None:
                    self._chains[each.name, each.who.thread_number] = each.chains

    def _list(self, entry: Ownership) -> Ownership:
        lock, owner = entry.key
        while True:
            of_lock = self._by_lock.setdefault(lock, entry)
            if isinstance(of_lock, dict):
                listed = of_lock.setdefault(owner, entry)
                if self._by_lock.get(lock) is of_lock:  # Else a signal handler has dropped it, empty still.
                    return listed
            elif (other := of_lock.owner) == owner:
                return of_lock
            else:
                both = {other: of_lock}
                # Signal handlers, which may enter and drop others, run behind calls alone.
                if lock in self._by_lock and self._by_lock[lock] is of_lock:
                    self._by_lock[lock] = both

    def drop(self, ownership: Ownership) -> None:
        """Take an ownership out that is idle, or whose owner is gone."""
        lock, owner = ownership.key
        with self._mutex:
            chains = ownership.chains
            ownership.listed_in(None)
            of_lock = self._by_lock.get(lock)
            found = of_lock.pop(owner, None) if isinstance(of_lock, dict) else of_lock
            self._size -= found is ownership
            if lock in self._by_lock and self._by_lock[lock] is of_lock and (of_lock is ownership or not of_lock):
                del self._by_lock[lock]
            if chains is not None and ownership in chains.members:
                chains.members = tuple([each for each in chains.members if each is not ownership])
                if not chains.members:
                    self._chains.pop((lock, ownership.who.thread_number), None)
                    chains.end()

    def _sweep(self) -> None:
        now = self._now()
        remembered = []
        for ownership in self:
            if not ownership.pending and not ownership.watched():  # The watchdog sees to the others, and reports them.
                ownership.expire(now)
            if ownership.idle() or not holder_alive(ownership):
                self._let_go(ownership)
            elif not ownership.holds and not ownership.pending:
                remembered.append(ownership)
        for ownership in remembered[:-REMEMBERED]:
            self._let_go(ownership)
        self._sweep_at = max(2 * REMEMBERED, 2 * len(self))

    def _let_go(self, ownership: Ownership) -> None:
        # Its owner may be about to use it: either we see its request noted, or it sees itself unlisted.
        with ownership.mutex:
            if not ownership.holds and not ownership.pending:
                self.drop(ownership)


def _each(of_lock: Ownership | dict[str, Ownership]) -> list[Ownership]:
    return list(of_lock.values()) if isinstance(of_lock, dict) else [of_lock]
