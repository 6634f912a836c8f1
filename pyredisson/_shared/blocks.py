"""What the blocks of ``hold()`` have alike, for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from pyredisson._core.deadline import lease_ms, wait_seconds
from pyredisson._core.hold import check_skip
from pyredisson._shared.arguments import NotPortable, warn_never_entered
from pyredisson._shared.client import Handle
from pyredisson.errors import LockError
from pyredisson.lease import AnyLease, Lease

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.permits import Block

    LeaseT_co = TypeVar("LeaseT_co", bound="AnyLease | None", covariant=True, default="Lease")
    PermitLeaseT_co = TypeVar("PermitLeaseT_co", bound="AnyLease[None] | None", covariant=True, default="Lease[None]")
else:  # typing_extensions is slow to import, and the defaults are for type checkers.
    from typing import TypeVar

    LeaseT_co = TypeVar("LeaseT_co", bound="AnyLease | None", covariant=True)
    PermitLeaseT_co = TypeVar("PermitLeaseT_co", bound="AnyLease[None] | None", covariant=True)


class LockBlock(NotPortable, Generic[LeaseT_co], shown="Hold"):
    """A hold of a lock that can be entered once."""

    __slots__ = ("_entered", "_lease", "_lease_ms", "_lock", "_skip", "_wait")

    def __init__(self, lock: Handle, wait_time: Seconds | None, lease_time: Seconds | None, skip: bool) -> None:
        self._wait = wait_seconds(wait_time)
        self._lease_ms = None if lease_time is None else lease_ms(lease_time)
        check_skip(skip)
        self._lock = lock
        self._skip = skip
        self._entered = False
        self._lease: AnyLease[Any] | None = None

    def __repr__(self) -> str:
        return f"<Hold of {self._lock.name!r}>"

    def __del__(self) -> None:
        if not getattr(self, "_entered", True):
            warn_never_entered(self, self._lock.name)

    def _begin(self) -> tuple[Any, Any, Any]:
        """Note that it was entered. Returns the lock's core, what is to be held, and what its caller has by that."""
        if self._entered:
            name = self._lock.name
            raise LockError(f"a hold() of {name!r} can be entered only once: call hold() again", name=name)
        self._entered = True
        core = self._lock._core
        hold, held, self._lease = core.begin_block(self._lease_ms)
        return core, hold, held


class PermitsBlock(NotPortable, Generic[PermitLeaseT_co], shown="PermitHold"):
    """A hold of permits that can be entered once."""

    __slots__ = ("_block", "_client")

    def __init__(self, client: object, block: Block) -> None:
        self._client = client  # It lives as long as its block.
        self._block = block

    def __repr__(self) -> str:
        return f"<PermitHold of {self._block.name!r}>"

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None and block.entered:
            block.forget()
        elif block is not None:
            warn_never_entered(self, block.name)


class AnyTerm(NotPortable, shown="Term"):
    """A time of leadership."""

    def __init__(self, lease: AnyLease[int], end: Callable[[], None]) -> None:
        self._lease = lease
        lease._when_lost(end)

    def __repr__(self) -> str:
        return f"<Term {self.token}: {'lost' if self.lost else f'{self.remaining():.3f} s'}>"

    @property
    def token(self) -> int:
        """The fencing token of this term, greater than those of all terms before."""
        return self._lease.token

    @property
    def lost(self) -> bool:
        """Whether it leads no longer, although it did not resign."""
        return self._lease.lost

    def remaining(self) -> float:
        """Return the seconds for which it is certain that it leads; renewal extends them.

        Example::

            def lead(term: Term) -> None:
                print(term.remaining())
        """
        return self._lease.remaining()

    def ensure_held(self) -> None:
        """Raise ``LockLostError`` unless it is certain at this moment that it leads.

        Example::

            def lead(term: Term) -> None:
                term.ensure_held()  # right before what only a leader may do
        """
        self._lease.ensure_held()
