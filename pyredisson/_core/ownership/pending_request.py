"""The request of an owner whose outcome is not known (yet), and what is due once it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from pyredisson._core.ownership.hold import HoldState

if TYPE_CHECKING:
    from pyredisson._core.ownership.hold import Hold
    from pyredisson._core.runtime import Request

#: For how long, in seconds, a place in a queue is worth giving up while the server is away.
QUEUE_FOR = 900.0

#: For how long, in seconds, after its lease an acquire without an answer is settled: a server that stood still may read
#: it only then, and block the lock without an owner. As long as the server keeps the epoch that refuses such a copy.
LATE_FOR = 60.0


class Pending(Enum):
    """The request of an ownership whose outcome is not known (yet)."""

    ACQUIRE = "acquire"
    WAIT = "wait"  # Nothing is in flight; but it stands in a queue that its owner has left.
    RELEASE = "release"


class Unlock(Enum):
    """What an unlock has to do."""

    RELEASE = "release"  # ask the server to take one hold away
    LOST = "lost"  # nothing is held any more: give up what may still stand in Redis
    ENDED = "ended"  # that hold has ended, and its owner holds the lock anew
    NOT_OWNED = "not owned"


class ReadyRequests(NamedTuple):
    """An owner's two usual requests: its first acquire and its last release.

    Attributes:
        epoch: The epoch of both.
        lease_ms: The lease.
        acquire: The acquire; of a lock with a queue, for a wait without a time limit.
        release: The release.
        queued_ms: The wait with which the acquire joins the queue; 0: there is none.
    """

    epoch: int
    lease_ms: int
    acquire: Request
    release: Request
    queued_ms: int


class AcquireBegun(NamedTuple):
    """An acquire that is about to be sent."""

    request_id: int
    epoch: int
    hold_count: int  # of holds, before it
    repeat: bool  # whether an earlier copy of it may have run


class ReleaseBegun(NamedTuple):
    """An unlock that is about to be sent."""

    request_id: int
    epoch: int
    hold_count: int  # of holds, before it
    lease_ms: int  # the longest lease of the holds that remain, or of the one that goes if none does; 0 if unknown
    todo: Unlock


class SettleBegun(NamedTuple):
    """A request that was left open, and is about to be settled."""

    request_id: int
    epoch: int
    pending: Pending | None
    hold_count: int  # of holds, to take one from
    lease_ms: int  # what remains with the rest
    repeat: bool  # whether an earlier copy of it may have run


@dataclass(slots=True, eq=False, repr=False)
class InFlight:
    """The last request of an ownership. Changed by :class:`Ownership` alone, under its mutex.

    Attributes:
        request_id: The number of the last request: an answer to an earlier one is no longer of interest.
        pending: What it was, until its outcome is known.
        until: When settling it is no longer worth while.
        doubtful: A copy of it may have run.
        asking: A call is at it, and waits for its answer.
        background: The number of the request whose copy is under way, while no call waits for its answer.
        lease_ms: The lease that was asked for last.
        holds: The holds that it is about: one, but for the wait of a condition, which releases all.
        becoming: What becomes of those that are released.
        of_block: It is the release of a block: no caller will ask for its outcome.
        queued_ms: The wait with which its owner stands in the lock's queue, or may; 0: it surely does not.
        due: The holds that are to be released once it is settled, since their blocks were left.
        without_end: It was refused until the lock is released, whose key never expires.
        released_behind: A release that had failed was settled since, and its owner does not know that yet.
    """

    request_id: int = 0
    pending: Pending | None = None
    until: float = 0.0
    doubtful: bool = False
    asking: bool = False
    background: int = 0
    lease_ms: int = 1
    holds: tuple[Hold, ...] = ()
    becoming: HoldState = HoldState.OVER
    of_block: bool = False
    queued_ms: int = 0
    due: tuple[Hold, ...] = ()
    without_end: bool = False
    released_behind: bool = False

    def begin(self, pending: Pending, *holds: Hold) -> int:
        """Note a request that no earlier copy of can have run. Returns its number."""
        self.doubtful, self.asking = False, True
        self.holds, self.becoming = holds, HoldState.OVER
        self.pending = pending
        self.request_id = number = self.request_id + 1
        return number

    def repeat(self, pending: Pending) -> None:
        """Note that the request has to be settled, under a new number: a copy of it may have run."""
        self.request_id += 1
        self.pending = pending
        self.doubtful, self.asking = True, False

    def under_way(self) -> bool:
        """Whether a copy of it is under way."""
        return self.pending is not None and (self.asking or self.background == self.request_id)

    def open_until(self) -> float:
        """Until when it is worth settling."""
        if self.queued_ms:
            return self.until + max(2 * self.queued_ms / 1000, QUEUE_FOR)
        return self.until + LATE_FOR * (self.pending is Pending.ACQUIRE)
