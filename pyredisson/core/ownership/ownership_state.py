"""What an :class:`~pyredisson.core.ownership.ownership.Ownership` is made of, and how it ends by itself: see there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyredisson.core.deadline import certain_for
from pyredisson.core.ownership.liveness import OVERLAPS
from pyredisson.core.ownership.owned import NO_CALL, CallNote, Owned
from pyredisson.core.ownership.pending_request import InFlight, Pending

if TYPE_CHECKING:
    from pyredisson.core.kind import LockKind
    from pyredisson.core.ownership.hold import Hold
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.core.runtime import Request, Runtime


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


class OwnershipState(Owned):
    """What one owner holds of one lock, until it is lost or its deadline has passed."""

    what = "lock"
    overlaps = OVERLAPS

    __slots__ = (
        "deadline",
        "epoch",
        "expired",
        "generation",
        "in_flight",
        "kind",
        "kind_state",
        "loss",
        "name",
        "owner",
        "ready",
        "since",
        "table",
        "who",
    )

    def __init__(self, key: tuple[str, str], who: Caller, runtime: Runtime) -> None:
        self.name: str = key[0]
        self.owner: str = key[1]
        self.who: Caller = who
        self.kind: LockKind | None = None  # That asked last: it knows how its requests look.
        self.kind_state: Any = None  # What that keeps for this owner from one call to the next.
        self.ready: ReadyRequests | None = None  # For who comes again.
        self.table: object = None  # In which it is listed.
        self.mark: Callable[[], Any] | None = None  # What its hold has left in the context of its owner; see Mark.
        self.mutex: AbstractContextManager[Any] = runtime.mutex()
        self.holds: list[Hold] = []
        self.since: tuple[float, ...] = ()  # When each hold was asked for that is held, or was at that depth last.
        self.deadline: float = 0.0
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()
        self.call: CallNote = NO_CALL
        self.expired: int = 0  # Holds that simply ran out, and whose unlock is to come.
        self.epoch: int = 0
        self.generation: int = 0  # Grows with each change of what is held: an answer about an earlier one says nothing.
        self.in_flight: InFlight = InFlight()

    def __repr__(self) -> str:
        state = f"lost ({self.loss})" if self.loss else f"×{len(self.holds)}"
        return f"<Ownership {self.name!r} {self.owner} {state}{f' {self.pending.value}?' if self.pending else ''}>"

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def key(self) -> tuple[str, str]:
        """Its place in the table."""
        return self.name, self.owner

    @property
    def pending(self) -> Pending | None:
        """The request whose outcome is not known (yet)."""
        return self.in_flight.pending

    @property
    def request_id(self) -> int:
        """The number of the last request."""
        return self.in_flight.request_id

    @property
    def queued_ms(self) -> int:
        """The wait with which its owner stands in the lock's queue, or may; 0: it surely does not."""
        return self.in_flight.queued_ms

    def renewable(self) -> bool:
        """Whether the watchdog has to renew it."""
        # An unlock ends the renewal, whatever becomes of it: a caller who gave up on one that could not be settled
        # must not leave a lock behind that is renewed forever. The owner's next successful step resumes it.
        in_flight = self.in_flight
        if in_flight.released_behind or in_flight.releases_due or in_flight.pending is Pending.RELEASE:
            return False
        return self.loss is None and True in [hold.watchdog for hold in self.holds]

    def watched(self) -> bool:
        """Whether its holder is to be notified when it is lost."""
        return self.loss is None and any(hold.watched for hold in self.holds)

    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not (self.in_use() or self.epoch or self.in_flight.queued_ms)

    def in_use(self) -> bool:
        """Whether its owner holds anything, has anything under way, or has yet to hear of an end."""
        in_flight = self.in_flight
        open_ = in_flight.pending or in_flight.released_behind or in_flight.releases_due
        return bool(self.holds or open_ or self.expired)

    def unclaimed(self) -> int:
        """How many holds no one is releasing yet."""
        in_flight = self.in_flight
        return len(self.holds) - (in_flight.pending is Pending.RELEASE) - in_flight.releases_due

    def done_with(self) -> bool:
        """Whether nothing is open but the last release of a block: its owner has no more use for it."""
        in_flight = self.in_flight
        release = in_flight.pending is Pending.RELEASE and in_flight.of_block
        return release and not self.expired and self.unclaimed() <= 0

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        return max(0.0, self.deadline - now) if self.holds and self.loss is None else 0.0

    # ---- ending by itself ----------------------------------------------------------------------------------------

    def expire(self, now: float) -> bool:
        """Draw the consequences if the deadline has passed. Returns whether a loss must be reported."""
        if not self.holds or now < self.deadline or self.loss is not None:
            return False
        with self.mutex:
            if not self.holds or now < self.deadline or self.loss is not None:
                return False
            self.generation += 1
            if self.in_flight.pending is Pending.RELEASE:  # Its holder has no use for it any more: no loss.
                self._give_up_release()
            self._drop_due()
            if any(hold.watched for hold in self.holds):
                self.loss = "its lease expired before it could be renewed"
                return True
            self.expired += len(self.holds)
            self.holds.clear()
            return False

    def lose(self, reason: str, generation: int | None = None) -> bool:
        """The hold was taken away. Returns whether its holder must hear of it (not twice, nor for a hold since gone).

        The holder of a multi-lock is notified by the multi-lock.

        ``generation`` is the ownership's when the question was sent whose answer says so; ``None``: its owner asked.
        """
        with self.mutex:
            if self.loss is not None or not self.holds or generation not in (None, self.generation):
                return False
            if generation is not None and self.in_flight.pending is Pending.RELEASE:
                return False  # The answer may have seen this very release. If not, the release says so itself.
            self.generation += 1
            self.loss = reason
            return not all(hold.part for hold in self.holds)

    def renewed(self, generation: int, sent: float, lease_ms: int) -> None:
        """A renewal that was sent at ``sent`` was confirmed."""
        with self.mutex:
            if generation == self.generation and self.loss is None:
                self.deadline = max(self.deadline, sent + certain_for(lease_ms))

    def _pop(self) -> Hold:
        """The innermost hold has ended; with the last one a loss is forgotten."""
        hold = self.holds.pop()
        if not self.holds:
            self.loss = None
        return hold

    def _drop_due(self) -> None:
        """Nothing is held any more: what is done with need not be given back."""
        in_flight = self.in_flight
        del self.holds[max(0, len(self.holds) - in_flight.releases_due) :]
        in_flight.releases_due = 0
        if not self.holds:
            self.loss = None

    def _outrank(self) -> None:
        """Nothing is pending any more; but a copy may be under way still, and what comes next outranks it."""
        self.in_flight.request_id += 1
        self.in_flight.pending = None
        self.epoch += 1

    def _give_up_release(self) -> None:
        """The hold that is being released has ended by itself."""
        self._outrank()
        self.holds.pop()
        self.expired += not self.in_flight.of_block

    # ---- the links to others -------------------------------------------------------------------------------------

    def adopt(self, kind: LockKind) -> None:
        """From now on this kind of lock makes its requests. Those of another kind are of no use."""
        if type(self.kind) is not type(kind):
            self.ready = None
            self.kind_state = kind.new_state()
        self.kind = kind

    def make_ready(self, ready: ReadyRequests) -> None:
        """These are its usual requests."""
        self.ready = ready

    def listed_in(self, table: object) -> None:
        """It was put into this table, or taken out of the one that it was in."""
        self.table = table
