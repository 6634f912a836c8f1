"""Who owns: the call chains that share a thread, what each of them holds of one lock, and the table of all.

Frameworks run many requests in one thread, one after another or by turns (thread pools, ``sync_to_async``), each in a
:mod:`contextvars` context of its own. Rules kept here:

1. An ownership is what one owner holds of one lock of one client: a number, and a stack of holds. Each hold has an
   identity: what is released, extended, lost or counted is that hold.
2. The number is the thread's (the task's, the made owner's), as long as no one else of this thread is in the lock.
3. A hold is visible in a context if it was acquired there, or in one that this was copied from since. The wait of a
   condition gives the same holds back, as visible as before.
4. A call acts as the ownership of that lock and thread that has a visible hold; if none has, as the thread's own
   number if nothing of that lock and thread is in use, else as a new number. Each lock is decided by itself.
5. A context is a persistent map already, so what is visible stands in it: in one context variable for each lock and
   thread, a list of traces, innermost first. A trace is known by identity alone: nothing old revives, no two clients
   meet. It is in no other place, and so it is gone when the last context is in which its hold can be released: then
   the hold is no longer renewed.
"""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyredisson._core.hold import HoldState, SingleHold, holder_alive
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Runtime


#: How many traces in a context are no reason to look for those that have ended.
FEW: Final = 16

_serials = itertools.count(1)

#: Context variables that no lock uses at this moment. Contexts keep each variable that was ever set in them, which is
#: why they are usually made at the top of modules; here there are never more than were in use at one time.
_free: Final[list[ContextVar[Trace | None]]] = []


class Trace:
    """Stands in contexts for a hold that was acquired there.

    Attributes:
        behind: How many traces there were.
        outer: The trace that was there before.
        serial: Of the :class:`CallChains`: another one may use its variable later.
        state: That of the hold.
        who: The owner of the hold.
    """

    __slots__ = ("__weakref__", "behind", "outer", "serial", "state", "who")

    behind: int
    outer: Trace | None
    serial: int
    state: HoldState
    who: Caller


class CallChains:
    """The call chains of one thread in one lock of one client; of a task there is one.

    Attributes:
        limit: How many traces there may be in a context until those that have ended are looked for.
        members: What each of them holds of it, or did: the ownerships that are in the client's table.
        serial: Its number.
        variable: Has the trace of the innermost hold that is visible in a context.
    """

    __slots__ = ("_in_use", "limit", "members", "serial", "variable")

    def __init__(self) -> None:
        self.limit: int = FEW
        self.serial: int = next(_serials)
        self.members: tuple[Ownership, ...] = ()
        try:
            self.variable: ContextVar[Trace | None] = _free.pop()
        except IndexError:
            self.variable = ContextVar("pyredisson.holds", default=None)
        self._in_use = [self.variable]

    def end(self) -> None:
        """No ownership is found by it any more: let others use its variable. Idempotent."""
        with suppress(IndexError):
            used = self._in_use.pop()  # In one step: several threads may end it.
            self.variable = ContextVar("pyredisson.holds", default=None)  # A call may be under way still.
            _free.append(used)

    # ---- what is visible -----------------------------------------------------------------------------------------

    def enter(self, hold: SingleHold, who: Caller) -> None:
        """Make a hold visible in the calling context."""
        trace = Trace()
        trace.serial, trace.state, trace.who = self.serial, hold.state, who
        hold.trace = weakref.ref(trace)
        before: Trace | None = None
        token: Token[Trace | None] | None = None
        while token is None or token.old_value not in (before, Token.MISSING):
            if token is not None:
                self.variable.reset(token)  # A signal handler has acquired the lock between two steps.
            before = outer = self.variable.get()
            while outer is not None and (outer.state is HoldState.OVER or outer.serial != self.serial):
                outer = outer.outer
            trace.behind = 0 if outer is None else outer.behind + 1
            if trace.behind > self.limit:
                outer = self._tidy(trace, outer)
            trace.outer = outer
            token = self.variable.set(trace)

    def _tidy(self, trace: Trace, outer: Trace | None) -> Trace | None:
        """Leave out all that has ended behind a trace: blocks are left in any order."""
        left: list[Trace] = []
        while outer is not None:
            if outer.state is not HoldState.OVER and outer.serial == self.serial:
                left.append(outer)
            outer = outer.outer
        for behind, each in enumerate(reversed(left)):
            each.outer, each.behind = outer, behind
            outer = each
        trace.behind = len(left)
        self.limit = 2 * len(left) + FEW  # So it costs nothing on average, however much is held.
        return outer

    def leave(self, trace: Trace) -> None:
        """Leave out a trace of a released hold, if it is the innermost of the calling context.

        Else each of many nested unlocks would pass those that have ended before it.
        """
        variable = self.variable
        if variable.get() is trace:
            token = variable.set(trace.outer)
            if token.old_value is not trace:
                variable.reset(token)  # A signal handler has acquired the lock between two steps.

    def trace_of(self, hold: SingleHold) -> Trace | None:
        """Return what stands for a hold in the calling context, if it is visible there."""
        known = hold.trace() if hold.trace is not None else None
        trace = self.variable.get() if known is not None else None
        while trace is not known and trace is not None:
            trace = trace.outer
        return trace

    def sees(self, hold: SingleHold) -> bool:
        """Return whether a hold is visible in the calling context."""
        return self.trace_of(hold) is not None

    def owner_here(self) -> Caller | None:
        """Return the owner of the innermost hold that is visible in the calling context, if there is one."""
        trace = self.variable.get()
        while trace is not None:
            if trace.state is HoldState.HELD and trace.serial == self.serial:
                return trace.who
            trace = trace.outer
        return None


# ---- callers ---------------------------------------------------------------------------------------------------------
# Who calls; ``_shared/`` has threads and tasks.


T = TypeVar("T")

_numbers = itertools.count(1)


class Caller(ABC):
    """A caller: a thread, a task or an owner that the user made.

    Attributes:
        number: Never used for another caller of this process, as in ``<client id>:<number>``.
        name: The name of the thread or task, as its program knows it.
        is_shared: Whether unrelated call chains may run under it; see :class:`CallChains`.
        traced: Whether its holds are visible in the contexts in which they were acquired.
    """

    __slots__ = ("name", "number")

    is_shared = False
    traced = False

    def __init__(self, name: str) -> None:
        self.number: int = next(_numbers)
        self.name: str = name

    def stack(self) -> tuple[str, ...]:
        """Return what it executes at this moment, in lines, the innermost call last; empty if that is not known."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """Return what to call it in a message."""

    @abstractmethod
    def alive(self) -> bool:
        """Return whether the thread or task still runs."""

    def closed(self) -> bool:
        """Return whether it was closed: nothing of it is to be renewed any more, blocks included."""
        return False

    @abstractmethod
    def gone_hint(self) -> str:
        """Describe one that ended while it held a lock."""

    @property
    def thread_number(self) -> int:
        """The number of the thread that it shares with other call chains; its own, if that cannot be."""
        return self.number

    def divide(self) -> Caller:
        """Return another call chain of the same thread, with a number of its own."""
        return self

    def left_behind(self, acquires: Ownership, now: float) -> Ownership | None:
        """Note what its thread acquires; return what that holds for another call chain, although it has gone on."""
        return None


class HandleOwner(Caller):
    """An object that owns the locks acquired through it; any caller that has the object may release them.

    Args:
        handle: The object.
        thread: The thread that alone may, if there is one.
        what: What the object is called in messages.
    """

    __slots__ = ("_handle", "_thread", "_what")

    def __init__(self, handle: object, thread: Caller | None = None, what: str = "the lock object") -> None:
        super().__init__(what)
        self.name: str = f"{what} {self.number}"
        self._handle = weakref.ref(handle)
        self._thread = thread
        self._what = what

    def __repr__(self) -> str:
        return f"<handle {self.number} {self._handle()!r}>"

    def describe(self) -> str:
        """See :meth:`Caller.describe`."""
        return self.name

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Make a call in its name, which is the only one: the object's user sees to that."""
        return call

    def check_open(self) -> None:
        """Raise ``LockError`` if it was closed: what it acquires would not be renewed."""
        if self.closed():
            raise LockError(f"{self.name} was closed; make another with client.new_owner()")

    def closed(self) -> bool:
        """See :meth:`Caller.closed`."""
        return getattr(self._handle(), "closed", False)

    def alive(self) -> bool:
        """Return whether there is still a caller that could release what it holds."""
        if self._handle() is None or self.closed():
            return False
        return self._thread is None or self._thread.alive()

    def gone_hint(self) -> str:
        """See :meth:`Caller.gone_hint`."""
        if self._thread is not None and not self._thread.alive():
            return self._thread.gone_hint()
        if self._handle() is not None:
            return f"{self._what} was closed without releasing it"
        return f"{self._what} was dropped without releasing it"


# ---- the table -------------------------------------------------------------------------------------------------------
# Where the entries of one lock, or of one thread in it, are found at once.


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
        """Return as whom the calling context acts: rule 4 of this module.

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

    def end_unless_needed(self) -> None:
        """The client has ended: do as :meth:`end`, unless a block may be left yet, if only to learn of its loss."""
        if not any(hold.watched for each in self for hold in (*each.holds, *each.ended)):
            self.end()

    def end(self, *, keep_lost: bool = False) -> None:
        """The client has ended, or is another one from now on: nothing is found here any more.

        ``keep_lost``: what was lost by that stays visible.
        """
        for chains in {id(each.chains): each.chains for each in self if each.chains is not None}.values():
            if not (keep_lost and any(each.holds or each.ended for each in chains.members)):
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
            elif not ownership.holds and not ownership.pending and not ownership.is_awaited():
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
