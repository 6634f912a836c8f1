"""A lease: the state of a hold, for the block of ``with lock.hold() as lease:``, without asking the server."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, final

from pyredisson._core.deadline import lease_ms
from pyredisson._core.hold import LEFT_MEANWHILE, lost_error
from pyredisson._core.runtime import run
from pyredisson._shared.arguments import NotPortable
from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pyredisson._core.deadline import Seconds
    from pyredisson._core.hold import Owned
    from pyredisson._core.runtime import Runtime

    TokenT_co = TypeVar("TokenT_co", bound="int | None", covariant=True, default="int | None")
else:  # typing_extensions is slow to import, and the default is for type checkers.
    from typing import TypeVar

    TokenT_co = TypeVar("TokenT_co", bound="int | None", covariant=True)

__all__ = ["AnyLease", "AsyncLease", "Lease"]

#: How the child of a fork loses what it inherits.
FORKED = "the process was forked, and the hold is its parent's"


class AnyLease(NotPortable, Generic[TokenT_co], shown="Lease"):
    """What the leases for threads and for asyncio have alike."""

    __slots__ = ("__weakref__", "_ended", "_extend", "_hold", "_on_loss", "_ownership", "_process", "_runtime")

    def __init__(
        self,
        ownership: Owned,
        hold: Any,
        runtime: Runtime,
        extend: Callable[[int], Coroutine[Any, Any, bool]],
    ) -> None:
        self._ownership = ownership
        self._hold = hold  # Its own: a SingleHold, or that of a multi-lock.
        hold.block = weakref.ref(self)  # Held as long as this object lives, and so as long as its block can be left.
        self._runtime = runtime
        self._extend = extend
        self._process = os.getpid()
        self._ended = False
        self._on_loss: tuple[Callable[[], None], ...] = ()

    def __repr__(self) -> str:
        state = "lost" if self.lost else "ended" if self._ended else f"{self.remaining():.3f} s"
        return f"<Lease of {self._ownership.name!r}: {state}>"

    def remaining(self) -> float:
        """Return the seconds for which this hold is certain; 0 if it has ended or was lost. Renewal extends them."""
        if self._ended or self._inherited():
            return 0.0
        return self._ownership.remaining_of(self._hold, self._runtime.now())

    @property
    def lost(self) -> bool:
        """Whether the hold ended before its block did. This is final: a lost lease never becomes valid again."""
        return not self._ended and self.remaining() <= 0.0 and (self._inherited() or not self._given_up())

    @property
    def token(self) -> TokenT_co:
        """The fencing token of the hold; ``None`` for a kind of lock without tokens."""
        return self._hold.token  # type: ignore[no-any-return]  # The kind of lock decides on both.

    def ensure_held(self) -> None:
        """Raise an error unless the hold is certain at this moment. Asks no server.

        Raises:
            LockLostError: The lock was lost, the block of this lease was left, or this process is the child of a fork.
        """
        held = self._ownership
        if self._ended:
            raise LockLostError(
                f"{held.what} {held.name!r} is held no longer by {held.who.describe()}: "
                "its block has already been left",
                name=held.name,
            )
        self._check_process()
        if self._given_up():
            raise LockLostError(
                f"{held.what} {held.name!r} is not held by {held.who.describe()} while a condition waits in its block",
                name=held.name,
            )
        if self.remaining() <= 0.0:
            expired = LEFT_MEANWHILE if held.ended_by_owner(self._hold) else held.why_ended()
            raise lost_error(held, self._hold.loss or held.loss or expired)

    def _extending(self, lease_time: Seconds) -> Coroutine[Any, Any, bool]:
        lease = lease_ms(lease_time)
        self.ensure_held()
        return self._extend(lease)

    def _inherited(self) -> bool:
        """Whether this process is the child of a fork, and the lease is its parent's."""
        return os.getpid() != self._process

    def _given_up(self) -> bool:
        """Whether a condition waits that has given it up, and takes it again."""
        return self._ownership.given_up(self._hold)

    def _check_process(self) -> None:
        """Raise ``LockLostError`` in the child of a fork."""
        if self._inherited():
            raise lost_error(self._ownership, FORKED)

    def _when_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, once, when the hold is known to be lost."""
        self._on_loss = (*self._on_loss, callback)
        self._ownership.call_when_lost(self._hold, callback)

    @property
    def _held(self) -> Owned:
        """What its owner holds of the lock."""
        return self._ownership

    def _end(self) -> None:
        """The block was left."""
        self._ended = True
        for each in self._on_loss:
            self._ownership.call_no_more(each)


@final
class Lease(AnyLease[TokenT_co]):
    """One hold of a lock, from acquiring it to leaving its block.

    A ``Lease[int]``, as that of a :class:`pyredisson.FencedLock`, has a fencing token; a ``Lease[None]`` has none.

    Source: Gray and Cheriton, "Leases" (1989). The holder counts the lease from before the request was sent, and
    shortens it by the possible drift between two clocks (1 % and 2 ms here), so that it ends here before it ends on
    the server.
    """

    __slots__ = ()

    def extend(self, lease_time: Seconds) -> bool:
        """Let the hold last for at least ``lease_time`` seconds from now on; never shorten it. See :meth:`Lock.extend`.

        Example::

            with lock.hold(lease_time=30) as lease:
                if lease.extend(60):
                    print("for another minute")

        Raises:
            LockLostError: The lock was lost, the block of this lease was left, or this process is the child of a fork.
            ValueError, TypeError: The time is not valid.
            redis.exceptions.RedisError: The server refused the request.
        """
        return run(self._extending(lease_time))


@final
class AsyncLease(AnyLease[TokenT_co]):
    """One hold of a lock, from acquiring it to leaving its block.

    A ``Lease[int]``, as that of a :class:`pyredisson.FencedLock`, has a fencing token; a ``Lease[None]`` has none.

    Source: Gray and Cheriton, "Leases" (1989). The holder counts the lease from before the request was sent, and
    shortens it by the possible drift between two clocks (1 % and 2 ms here), so that it ends here before it ends on
    the server.
    """

    __slots__ = ()

    async def extend(self, lease_time: Seconds) -> bool:
        """Let the hold last for at least ``lease_time`` seconds from now on; never shorten it. See :meth:`Lock.extend`.

        Example::

            async with lock.hold(lease_time=30) as lease:
                if await lease.extend(60):
                    print("for another minute")

        Raises:
            LockLostError: The lock was lost, the block of this lease was left, or this process is the child of a fork.
            ValueError, TypeError: The time is not valid.
            redis.exceptions.RedisError: The server refused the request.
        """
        return await self._extending(lease_time)
