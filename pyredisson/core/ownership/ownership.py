"""What this client holds, as far as it can know: one :class:`Ownership` for each (lock, owner).

Its states. ``holds`` are the nested holds, ``pending`` is the request in flight:

=========== ======= ========= ==========================================================================================
state       holds   pending   what ends it
=========== ======= ========= ==========================================================================================
idle        none    none      an acquire
acquiring   any     ACQUIRE   the reply: granted or refused; or settling, which releases what it may have acquired
held        some    none      a release; the deadline; a loss
releasing   some    RELEASE   the reply; or settling, which completes it; or the deadline
queued      none    WAIT      settling, which gives up the place in the queue
lost        some    none      one unlock for each hold, each with an error (``loss`` says why)
expired     none    any       one unlock for each hold that ran out, each with an error (``expired`` counts them)
=========== ======= ========= ==========================================================================================

Rules kept here:

1. An ownership is shared by all handles and kinds of lock that use the same key and owner field.
2. It knows how often its owner holds the lock (``holds``), and until when that is certain (``deadline``, counted from
   before the request was sent). Past the deadline nothing is held, with or without an answer.
3. A request in flight is noted *before* it is sent (``in_flight``) and forgotten only when its outcome is known. The
   next call that finds one settles it first, or repeats it, under the next epoch: older copies are then refused by the
   server. Each request has a number; an answer to an earlier one changes nothing.
4. State is changed by methods of this class alone. They do no I/O, are atomic, and return what is now due.
   Holds of blocks that were left meanwhile are released after the request in flight (``releases_due``).
5. Lost is final: the holds of a lost ownership can only be unlocked, one by one, and each says so.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyredisson.core.deadline import certain_for
from pyredisson.core.ownership.liveness import OVERLAPS
from pyredisson.core.ownership.owned import NO_CALL, CallNote, Owned
from pyredisson.core.ownership.pending_request import (
    AcquireBegun,
    InFlight,
    Pending,
    ReadyRequests,
    ReleaseBegun,
    SettleBegun,
    Unlock,
)

if TYPE_CHECKING:
    from pyredisson.core.kind import LockKind
    from pyredisson.core.ownership.hold import Hold
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.core.runtime import Runtime


class Ownership(Owned):
    """What one owner holds of one lock. See the module's rules."""

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
        """Whether its owner holds anything, has anything under way, or has yet to be notified of an end."""
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

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def begin_acquire(self, hold: Hold) -> AcquireBegun:
        """Note that an acquire is about to be sent."""
        with self.mutex:
            in_flight = self.in_flight
            repeat = in_flight.pending is not None and (in_flight.doubtful or in_flight.settling)
            if repeat:
                self.epoch += 1
            in_flight.released_behind = in_flight.without_end = False
            in_flight.lease_ms = hold.lease_ms
            request_id = in_flight.begin(Pending.ACQUIRE)
            in_flight.doubtful = repeat
            return AcquireBegun(request_id, self.epoch, len(self.holds), repeat)

    def granted(self, request_id: int, hold: Hold, deadline: float) -> bool:
        """The server took the hold. Returns whether it stands: a later request may have given it back."""
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            if self.loss is not None:  # Its outer holds ended meanwhile: their release gives this one up as well.
                self.in_flight.pending = None
                return False
            self.generation += 1
            depth = len(self.holds)
            if not depth or deadline > self.deadline:
                self.deadline = deadline
            self.since = (*self.since[:depth], deadline - hold.certain)
            self.holds.append(hold)
            self.in_flight.pending = None
            self.in_flight.queued_ms = 0
            return True

    def refused(self, request_id: int, *, without_end: bool = False) -> None:
        """The server surely took no hold for this request, nor for an earlier copy of it."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.in_flight.pending = None
                self.in_flight.without_end = without_end

    # ---- releasing -----------------------------------------------------------------------------------------------

    def begin_release(self, *, block: bool = False) -> ReleaseBegun:
        """Note that an unlock is about to be sent; the pending request is settled by now.

        ``block`` says that it is the end of a block: no one will ask for its outcome.
        """
        with self.mutex:
            holds, in_flight = self.holds, self.in_flight
            in_flight.released_behind = False
            if self.loss is None and holds:
                request_id = in_flight.begin(Pending.RELEASE)
                in_flight.of_block = block
                if len(holds) == 1:
                    return ReleaseBegun(request_id, self.epoch, 1, holds[0].lease_ms, Unlock.RELEASE)
                lease = max(hold.lease_ms for hold in holds[:-1])
                return ReleaseBegun(request_id, self.epoch, len(holds), lease, Unlock.RELEASE)
            in_flight.request_id = request_id = in_flight.request_id + 1
            if self.loss is not None:
                in_flight.pending = None
                lease = self._pop().lease_ms
                return ReleaseBegun(request_id, self.epoch, 0, lease, Unlock.LOST)
            if not self.expired:
                return ReleaseBegun(request_id, self.epoch, 0, 0, Unlock.NOT_OWNED)
            self.expired -= 1
            return ReleaseBegun(request_id, self.epoch, 0, 0, Unlock.LOST)

    def begin_force(self) -> tuple[int, int]:
        """Note that the lock is about to be forced open. Returns the number of the request, and the epoch."""
        with self.mutex:
            self.in_flight.request_id += 1
            return self.in_flight.request_id, self.epoch

    def take_released_behind(self) -> bool:
        """Whether an unlock that had failed was settled since, and its owner has not asked yet."""
        with self.mutex:
            behind, self.in_flight.released_behind = self.in_flight.released_behind, False
            return behind

    def ended_meanwhile(self) -> None:
        """The hold that was being released had ended by itself, and the call that releases it reports that."""
        with self.mutex:
            self.expired -= not self.in_flight.of_block and self.expired > 0

    def released(self, request_id: int, deadline: float, *, behind: bool = False) -> bool:
        """The server took one hold away; the rest is certain until ``deadline`` at least.

        ``behind`` says that its caller did not wait for it: the next unlock learns that it is done.
        """
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            in_flight = self.in_flight
            in_flight.released_behind = behind and not in_flight.of_block
            in_flight.pending = None
            self.generation += 1
            self._pop()  # The watchdog may have given it up for lost meanwhile.
            if self.holds and deadline > self.deadline:
                self.deadline = deadline
            return True

    # ---- repeating ----------------------------------------------------------------------------------------------

    def epoch_of(self, request_id: int) -> int | None:
        """The epoch for the next copy of a request, or ``None`` if there is a later one: no copy may be sent then."""
        with self.mutex:
            return self.epoch if request_id == self.in_flight.request_id else None

    def doubt(self, request_id: int) -> None:
        """No reply was received, so the request may have run: further copies go under an epoch of their own."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.epoch += 1
                self.in_flight.doubtful = True

    def raise_epoch(self, request_id: int, above: int) -> None:
        """The server knows a later epoch of this owner."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.epoch = max(self.epoch, above) + 1

    # ---- settling ------------------------------------------------------------------------------------------------

    def release_later(self, *, block: bool) -> bool:
        """One more hold is done with: settling releases it after the pending request. Returns whether there is one."""
        with self.mutex:
            in_flight = self.in_flight
            if in_flight.releases_due and not block:
                return True
            if self.unclaimed() <= 0:
                return False
            in_flight.releases_due += 1
            in_flight.of_block = block
            return True

    def take_over(self, since: int | None = None) -> SettleBegun:
        """Take over the pending request, or what is due behind it: its answer no longer concerns an earlier sender.

        Args:
            since: The request that was left pending; if the owner has begun another one since, that is left to it.
        """
        with self.mutex:
            in_flight = self.in_flight
            if since not in (None, in_flight.request_id):
                return SettleBegun(in_flight.request_id, self.epoch, None, 0, 1, False)
            if in_flight.pending is None:
                if self.loss is not None:
                    self._drop_due()
                if not in_flight.releases_due or not self.holds:
                    in_flight.releases_due = 0
                    return SettleBegun(in_flight.request_id, self.epoch, None, 0, 1, False)
                in_flight.releases_due -= 1
                in_flight.begin(Pending.RELEASE)
            else:
                in_flight.request_id += 1
            # An acquire is pending only while it is in doubt; and who settled it before us may be at it still.
            in_flight.doubtful = repeat = (
                in_flight.doubtful or in_flight.settling or in_flight.pending is Pending.ACQUIRE
            )
            in_flight.settling = True
            self.epoch += repeat
            count = len(self.holds) + (in_flight.pending is not Pending.RELEASE)
            lease = max((hold.lease_ms for hold in self.holds[: count - 1]), default=in_flight.lease_ms)
            return SettleBegun(in_flight.request_id, self.epoch, in_flight.pending, count, lease, repeat)

    def given_back(self, request_id: int) -> bool:
        """What an unanswered acquire may have taken is surely not (or no longer) held."""
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            self.generation += 1
            self.in_flight.pending = None
            self.in_flight.queued_ms = 0
            return True

    def settle_until(self, at: float = 0.0) -> None:
        """The pending request is worth settling until then, or as long as something is certain to be held."""
        self.in_flight.until = max(self.deadline, at)

    def abandon(self, request_id: int) -> None:
        """The time of the pending request has passed: whatever it did has ended with its lease."""
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return
            if self.in_flight.pending is Pending.RELEASE and self.holds:
                self._give_up_release()
            else:
                self._outrank()
            self._drop_due()
            self.in_flight.queued_ms = 0

    # ---- waiting -------------------------------------------------------------------------------------------------

    def may_stand_in_queue(self, wait_ms: int) -> None:
        """From now on its owner may stand in the lock's queue, with that wait; 0: it surely does not."""
        self.in_flight.queued_ms = wait_ms

    def stop_waiting(self, now: float) -> bool:
        """The owner waits no longer: its place in the queue is to be given up. Returns whether it may have one."""
        with self.mutex:
            in_flight = self.in_flight
            if not in_flight.queued_ms or in_flight.pending is not None:
                return False
            in_flight.begin(Pending.WAIT)
            in_flight.until = now
            return True

    # ---- interrupted ---------------------------------------------------------------------------------------------

    def hand_over(self) -> bool:
        """One hold is done with, and its block can wait for nothing: the watchdog is to release it.

        Returns whether there is anything to settle.
        """
        with self.mutex:
            in_flight = self.in_flight
            if self.loss is not None:
                if self.holds:
                    self._pop()
                return False
            if in_flight.pending is not None:
                in_flight.releases_due += self.unclaimed() > 0
                return True
            if not self.holds:
                return False
            in_flight.begin(Pending.RELEASE)
            in_flight.until = self.deadline
            in_flight.of_block = True
            return True

    def undo_acquire(self, count: int) -> bool:
        """The caller leaves in the middle of an acquire: what it took beyond ``count`` holds is to be released.

        Wherever it was, in the middle of one of our own methods, too. ``count`` is negative if it was not that far yet.
        Returns whether there is anything to settle.
        """
        with self.mutex:
            in_flight = self.in_flight
            if in_flight.pending is None and (count < 0 or len(self.holds) <= count):
                if not in_flight.queued_ms:
                    return False
                in_flight.begin(Pending.WAIT)
                return True
            if count >= 0:
                del self.holds[count:]
                if not self.holds:
                    self.loss = None
            self.generation += 1
            in_flight.repeat(Pending.ACQUIRE if count >= 0 else in_flight.pending or Pending.ACQUIRE)
            return True

    def redo_release(self, count: int) -> bool:
        """The caller leaves in the middle of an unlock, begun with ``count`` holds: one of them is to be released.

        Whether that was done already matters not, since it is settled as a repeat. Returns whether to settle it.
        """
        with self.mutex:
            if not count or len(self.holds) < count:
                return False
            if self.loss is not None:  # Nothing is held that could be released; a copy may be under way still.
                self.epoch += self.in_flight.pending is not None
                self.in_flight.request_id += 1
                self.in_flight.pending = None
                self._pop()
                return False
            self.generation += 1
            self.in_flight.of_block = True  # The interrupted caller does not come back and ask after it.
            self.in_flight.repeat(Pending.RELEASE)
            return True

    # ---- ending ------------------------------------------------------------------------------------------------------

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
        """The hold was taken away. Returns whether its holder is to be notified (not twice, nor for a hold since gone).

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

    def lose_one(self, request_id: int, reason: str, now: float, *, behind: bool = False) -> bool:
        """An unlock found that the hold was gone: that hold has ended with it, and the others are lost.

        ``behind`` says that its caller did not wait for it: the next unlock learns of the loss.
        Returns whether the loss must be reported; not that of a plain hold that has expired.
        """
        with self.mutex:
            if request_id != self.in_flight.request_id or not self.holds:
                return False
            self.generation += 1
            self.in_flight.pending = None
            reported = self.loss is None and (now < self.deadline or any(hold.watched for hold in self.holds))
            if self.holds.pop().part and all(hold.part for hold in self.holds):
                reported = False
            self.expired += behind and not self.in_flight.of_block
            self.loss = reason
            self._drop_due()
            return reported

    def clear(self) -> None:
        """The owner itself ended all its holds."""
        with self.mutex:
            in_flight = self.in_flight
            self.epoch += in_flight.pending is not None
            self.generation += 1
            self.holds.clear()
            self.expired = 0
            self.loss = None
            in_flight.request_id += 1
            in_flight.pending = None
            in_flight.releases_due = 0
            in_flight.released_behind = False

    def _pop(self) -> Hold:
        """The innermost hold has ended; with the last one a loss is forgotten."""
        hold = self.holds.pop()
        if not self.holds:
            self.loss = None
        return hold

    def _drop_due(self) -> None:
        """Nothing is held any more: what is done with need not be released."""
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
