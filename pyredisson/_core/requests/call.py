"""Requests of an owner as values: each can be made again, under a later epoch, until it is answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership.hold import Hold
    from pyredisson._core.ownership.ownership import Ownership
    from pyredisson._core.runtime import Reply, Request
    from pyredisson._core.waiting.wait_queue import QueueUpdate


class Reader(Protocol):
    """What finds out whether replicas have to acknowledge something."""

    def acquired(self, reply: Reply, /) -> bool:
        """Whether a reply says that something was acquired."""
        ...


class PermitsReader:
    """Reads whether the reply to a request that takes permits says that there were some."""

    def acquired(self, reply: Reply) -> bool:
        """See :meth:`Reader.acquired`."""
        first = reply[0] if isinstance(reply, list) and reply else reply
        return isinstance(first, int) and first > 0


PERMITS = PermitsReader()


class Call(ABC):
    """One request of an owner.

    Attributes:
        ownership: Whose it is.
        request_id: Its number; when the ownership has a later one, this one is superseded.
        lease_ms: The lease that it is about.
        reader: What reads its reply, if something may be acquired.
    """

    __slots__ = ("kind", "lease_ms", "ownership", "reader", "request_id")

    def __init__(self, kind: LockKind, ownership: Ownership, request_id: int, lease_ms: int) -> None:
        self.kind: LockKind = kind
        self.ownership: Ownership = ownership
        self.request_id: int = request_id
        self.lease_ms: int = lease_ms
        self.reader: Reader | None = None

    @abstractmethod
    def request(self, epoch: int, repeat: bool) -> Request:
        """Make a copy of it for an epoch; ``repeat`` says that an earlier one may have run."""


class AcquireCall(Call):
    """An acquire by an owner who holds the lock ``count`` times as yet.

    Attributes:
        hold: What is to be held.
        count: How often the owner holds the lock.
        repeat: Whether an earlier copy of it may have run when it began.
        update: How it changes the wait queue.
    """

    __slots__ = ("count", "hold", "repeat", "update")

    def __init__(
        self,
        kind: LockKind,
        ownership: Ownership,
        request_id: int,
        hold: Hold,
        count: int,
        repeat: bool,
        update: QueueUpdate | None = None,
    ) -> None:
        # Without super(), here and below: this is the path of all that users do.
        self.kind = kind
        self.ownership = ownership
        self.request_id = request_id
        self.lease_ms: int = hold.lease_ms
        self.reader: Reader | None = kind
        self.hold: Hold = hold
        self.count: int = count
        self.repeat: bool = repeat
        self.update: QueueUpdate | None = update

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        ready = self.ownership.ready
        # Where there is a queue, the ready one is for a wait without a time limit.
        if (
            ready is not None
            and ready[:2] == (epoch, self.lease_ms)
            and not (repeat or self.count or self.update or ready.queued_ms)
        ):
            return ready.acquire
        return self.kind.acquire(self, epoch, repeat)


class Exchange(Protocol):
    """Asks a server until it answers: :meth:`ClientCore.exchange`, or what stands for that in a multi-lock."""

    def __call__(
        self,
        call: Call,
        epoch: int,
        repeat: bool = False,
        budget: float | None = None,
        *,
        begun: tuple[Any, float] | None = None,
    ) -> Awaitable[tuple[Reply, float, bool]]:
        """See :meth:`ClientCore.exchange`."""
        ...


class ReleaseCall(Call):
    """A release of one of ``count`` holds; ``0``: of any value stored there.

    Attributes:
        count: How often the owner holds the lock.
        lost: Why nothing is held any more, if that is known before it is sent.
    """

    __slots__ = ("count", "lost")

    def __init__(
        self,
        kind: LockKind,
        ownership: Ownership,
        request_id: int,
        lease_ms: int,
        count: int,
        lost: str | None = None,
    ) -> None:
        self.kind = kind
        self.ownership = ownership
        self.request_id = request_id
        self.lease_ms = lease_ms
        self.reader: Reader | None = None
        self.count: int = count
        self.lost: str | None = lost

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        ready, may_queue = self.ownership.ready, self.kind.client.subscriptions.may_queue
        if ready is not None and ready[:2] == (epoch, self.lease_ms) and self.count == 1 and not repeat and may_queue:
            return ready.release
        return self.kind.release(self, epoch, repeat)


class ForceCall(Call):
    """A forced release of the lock, for any holder."""

    __slots__ = ()

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        return self.kind.force(self.ownership, epoch)
