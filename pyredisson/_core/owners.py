"""Who owns: the call chains that share a thread, and what each of them holds of one lock.

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
from collections.abc import Coroutine
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pyredisson._core.hold import HoldState

if TYPE_CHECKING:
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.ownership import Ownership

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

    __slots__ = ("limit", "members", "serial", "variable")

    def __init__(self) -> None:
        self.limit: int = FEW
        self.serial: int = next(_serials)
        self.members: tuple[Ownership, ...] = ()
        try:
            self.variable: ContextVar[Trace | None] = _free.pop()
        except IndexError:
            self.variable = ContextVar("pyredisson.holds", default=None)

    def end(self) -> None:
        """No ownership is found by it any more: let others use its variable."""
        _free.append(self.variable)
        self.variable = ContextVar("pyredisson.holds", default=None)  # A call may be under way still.

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


# ---- owner protocols -------------------------------------------------------------------------------------------------
# Callers; ``_shared/`` has the classes.


T = TypeVar("T")


class Caller(Protocol):
    """A caller: a thread, a task or an owner that the user made, by a number that is never used for another."""

    @property
    def number(self) -> int:
        """The number, as in ``<client id>:<number>``."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether call chains that have nothing to do with each other may run under it; see :class:`CallChains`."""
        ...

    @property
    def traced(self) -> bool:
        """Whether its holds are visible in the contexts in which they were acquired."""
        ...

    @property
    def name(self) -> str:
        """The name of the thread or task, as its program knows it."""
        ...

    def stack(self) -> tuple[str, ...]:
        """What it executes at this moment, in lines, the innermost call last; empty if that is not known."""
        ...

    def describe(self) -> str:
        """What to call it in a message."""
        ...

    def alive(self) -> bool:
        """Whether the thread or task still runs."""
        ...

    def gone_hint(self) -> str:
        """Describe one that ended while it held a lock."""
        ...

    @property
    def thread_number(self) -> int:
        """The number of the thread that it shares with other call chains; its own, if that cannot be."""
        ...

    def divide(self) -> Caller:
        """Return another call chain of the same thread, with a number of its own."""
        ...

    def left_behind(self, acquires: Ownership, now: float) -> Ownership | None:
        """Note what its thread acquires; return what that holds for another call chain, although it has gone on."""
        ...


class MadeCaller(Caller, Protocol):
    """An owner that the user made: it may be used from any thread or task, for one call at a time."""

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Make a call in its name. Raises ``LockError`` if another one runs."""
        ...

    def check_open(self) -> None:
        """Raise ``LockError`` if it was closed: what it acquires would not be renewed."""
        ...
