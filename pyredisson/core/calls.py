"""Requests of an owner as values: each can be made again, under a later epoch, until it is answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyredisson.core.kind import LockKind
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Reply, Request

__all__ = ["PERMITS", "AcquireCall", "Call", "ForceCall", "Reader", "ReleaseCall", "first_acquire", "last_release"]


class Reader(Protocol):
    """What tells whether replicas have to acknowledge something."""

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
        request_id: Its number; when the ownership has a later one, this is over.
        lease_ms: The lease that is at stake.
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
    """An acquire by an owner who holds the lock ``count`` times as yet."""

    __slots__ = ("count", "hold")

    def __init__(self, kind: LockKind, ownership: Ownership, request_id: int, hold: Hold, count: int) -> None:
        super().__init__(kind, ownership, request_id, hold.lease_ms)
        self.hold: Hold = hold
        self.count: int = count
        self.reader: Reader | None = kind

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        return self.kind.acquire(self.ownership, self.hold, self.count, epoch, repeat)


class ReleaseCall(Call):
    """A release of one of ``count`` holds; ``0``: of whatever stands there."""

    __slots__ = ("count",)

    def __init__(self, kind: LockKind, ownership: Ownership, request_id: int, lease_ms: int, count: int) -> None:
        super().__init__(kind, ownership, request_id, lease_ms)
        self.count: int = count

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        return self.kind.release(self.ownership, self.lease_ms, self.count, epoch, repeat)


class ForceCall(Call):
    """A release of the lock, whoever holds it."""

    __slots__ = ()

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        return self.kind.force(self.ownership, epoch)


def first_acquire(kind: LockKind, ownership: Ownership, hold: Hold) -> Request:
    """Make the first acquire of an owner, unless its bytes were kept."""
    prepared = ownership.prepared
    if prepared.acquire_lease_ms == hold.lease_ms and prepared.epoch == ownership.epoch:
        return prepared.acquire
    request = kind.acquire(ownership, hold, 0, ownership.epoch, repeat=False)
    if kind.constant(ownership):
        prepared.keep_acquire(request, hold.lease_ms, ownership.epoch)
    return request


def last_release(kind: LockKind, ownership: Ownership, lease_ms: int) -> Request:
    """Make the last release of an owner, unless its bytes were kept."""
    prepared = ownership.prepared
    if prepared.release is not None and prepared.epoch == ownership.epoch:
        return prepared.release
    request = kind.release(ownership, lease_ms, 1, ownership.epoch, repeat=False)
    if kind.constant(ownership):
        prepared.keep_release(request, ownership.epoch)
    return request
