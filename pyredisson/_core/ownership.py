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
lost        some    any       one unlock for each hold, each with an error (``loss`` says why)
=========== ======= ========= ==========================================================================================

Rules kept here:

1. An ownership is shared by all handles and kinds of lock that use the same key and owner field.
2. It knows how often its owner holds the lock (``holds``), and until when that is certain (``deadline``, counted from
   before the request was sent). Past the deadline nothing is held, with or without an answer.
3. A request in flight is noted *before* it is sent (``in_flight``), and forgotten when its outcome is known, or when
   it cannot matter any more. The watchdog settles it, or the next call that finds it does so first, or repeats it,
   under the next epoch: older copies are then refused by the server. Each request has a number; an answer to an
   earlier one changes nothing.
   A request that a call is at (``busy``) is left to that: others wait for their turn. Only who leaves a block in
   another thread or task meets one. Its states: :class:`RequestState`.
4. State is changed by methods of this class, and by the two fast paths, which a test compares with them; which call
   runs (``call``) is noted by a multi-lock, too. They do no I/O, are atomic, and return what is now due.
   A release is of certain holds, which are noted with it. Holds of blocks that were left meanwhile are released after
   the request in flight (``in_flight.due``).
5. Lost is final: the holds of a lost ownership can only be unlocked, one by one, and each says so. What ran out by its
   fixed lease is held no longer (``ended``): its unlock says so, and nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyredisson._core.hold import ENDED, GONE, NO_CALL, CallNote, HoldState, InMargin, Owned, why_expired
from pyredisson._core.requests import (
    BACKGROUND,
    DOUBTFUL,
    OF_CALL,
    OPEN,
    SENT,
    UNDER_WAY,
    AcquireBegun,
    InFlight,
    Pending,
    ReleaseBegun,
    SettleBegun,
    Unlock,
)

if TYPE_CHECKING:
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.kind import HeldKind
    from pyredisson._core.owners import CallChains, Caller
    from pyredisson._core.requests import ReadyRequests
    from pyredisson._core.runtime import Runtime

T = TypeVar("T")

#: How many holds that have ended are remembered, for their unlocks to come.
REMEMBERED: Final = 100

_LEASE_MS: Final[Callable[[SingleHold], int]] = attrgetter("lease_ms")


def _no_one() -> None:
    """Stand for the lease of a block that no one can leave."""


class Ownership(Owned):
    """What one owner holds of one lock. See the module's rules."""

    __slots__ = (
        "call",
        "chains",
        "deadline",
        "doubtful",
        "ended",
        "ending",
        "epoch",
        "generation",
        "holds",
        "in_flight",
        "kind",
        "kind_state",
        "mutex",
        "ready",
        "table",
    )

    def __init__(self, key: tuple[str, str], who: Caller, runtime: Runtime) -> None:
        super().__init__(*key, who)
        self.kind: HeldKind | None = None  # That asked last: it knows how its requests look.
        self.kind_state: Any = None  # What that keeps for this owner from one call to the next.
        self.ready: ReadyRequests | None = None  # For who comes again.
        self.table: object = None  # In which it is listed.
        self.chains: CallChains | None = None  # Where its holds are visible; only for what is in a table.
        self.mutex: AbstractContextManager[Any] = runtime.mutex()
        self.holds: list[SingleHold] = []  # The innermost last.
        self.ended: tuple[SingleHold, ...] = ()  # Those that simply ran out, and whose unlock is to come.
        self.ending: InMargin | None = None  # Why they have, if that was before the server's time.
        self.deadline: float = 0.0
        self.doubtful: bool = False  # Whether the server may have ended it before that.
        self.call: CallNote = NO_CALL
        self.epoch: int = 0
        self.generation: int = 0  # Grows with each change of what is held: an answer about an earlier one says nothing.
        self.in_flight: InFlight = InFlight()

    def __repr__(self) -> str:
        state = f"lost ({self.loss})" if self.loss else f"×{len(self.holds)}"
        return f"<Ownership {self.name!r} {self.owner} {state}{f' {self.pending.value}?' if self.pending else ''}>"

    async def called(self, thread: int, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Make a call on it, and note so long which thread is in the middle of it."""
        note, before = CallNote(thread), self.call
        try:
            self.call = note
            return await call(*args)
        finally:
            note.thread = 0
            if before.thread:  # Of another thread, whose signal handlers have to know.
                self.call = before

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

    def renewable(self) -> bool:
        """Whether the watchdog has to renew it."""
        # An unlock ends the renewal, whatever becomes of it: a caller who gave up on one that could not be settled
        # must not leave a lock behind that is renewed forever. The owner's next successful step resumes it.
        in_flight = self.in_flight
        if in_flight.released_behind or in_flight.due or in_flight.pending is Pending.RELEASE:
            return False
        return self.loss is None and True in [hold.watchdog and hold.renewals_left != 0 for hold in self.holds]

    def watched(self) -> bool:
        """Whether its holder is to be notified when it is lost."""
        return self.loss is None and any(hold.watched for hold in self.holds)

    def idle(self) -> bool:
        """Whether it can be forgotten."""
        again = self.epoch and self.who.number == self.who.thread_number  # Another number never comes again.
        if self.in_use() or again or self.in_flight.queued_ms or self.is_awaited():
            return False
        with self.mutex:
            self._forget_unseen()
        return not self.ended

    def in_use(self) -> bool:
        """Whether its owner holds anything, or has anything under way."""
        in_flight = self.in_flight
        return bool(self.holds or in_flight.pending or in_flight.due) or (
            in_flight.released_behind and self._has_caller()
        )

    def is_awaited(self) -> bool:
        """Whether a condition has given up holds of it, and takes them again after its wait."""
        return any(hold.state is HoldState.GIVEN_UP for hold in self.in_flight.holds)

    def busy(self) -> bool:
        """Whether a call is at a request: its owner's, or that of another thread or task that leaves a block."""
        return self.in_flight.pending is not None and self.in_flight.state in OF_CALL

    def claimed(self) -> tuple[SingleHold, ...]:
        """The holds that are being released, or are to be."""
        in_flight = self.in_flight
        return (*in_flight.holds, *in_flight.due) if in_flight.pending is Pending.RELEASE else in_flight.due

    def unclaimed(self) -> int:
        """How many holds no one is releasing yet."""
        return len(self.holds) - len(self.claimed())

    def done_with(self) -> bool:
        """Whether nothing is open but the last release of a block: its owner has no more use for it."""
        in_flight = self.in_flight
        release = in_flight.pending is Pending.RELEASE and in_flight.of_block
        return release and self.unclaimed() <= 0

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(hold.block is None for hold in self.holds)

    def remaining(self, now: float) -> float:
        """Seconds for which it is certain."""
        return max(0.0, self.deadline - now) if self.holds and self.loss is None else 0.0

    def remaining_of(self, hold: SingleHold, now: float) -> float:
        """See :meth:`Owned.remaining_of`. What is being released may be another's by now."""
        return self.remaining(now) if hold.state is HoldState.HELD and hold not in self.claimed() else 0.0

    def given_up(self, hold: SingleHold) -> bool:
        """See :meth:`Owned.given_up`; also while its release has no answer."""
        return hold.state is HoldState.GIVEN_UP or hold in self._giving_up()

    def ended_by_owner(self, hold: SingleHold) -> bool:
        """See :meth:`Owned.ended_by_owner`."""
        return super().ended_by_owner(hold) or hold in self.claimed()

    def _giving_up(self) -> tuple[SingleHold, ...]:
        """The holds whose release, for the wait of a condition, has no answer."""
        in_flight = self.in_flight
        giving_up = in_flight.pending is Pending.RELEASE and in_flight.becoming is HoldState.GIVEN_UP
        return in_flight.holds if giving_up else ()

    def sees(self, hold: SingleHold) -> bool:
        """Whether a hold of this owner is visible to the calling context."""
        return self.chains is None or not self.who.is_shared or self.chains.sees(hold)

    @property
    def what(self) -> str:
        """See :attr:`Owned.what`."""
        return (self.kind and self.kind.what) or super().what

    @property
    def overlaps(self) -> str:
        """See :attr:`Owned.overlaps`."""
        return (self.kind and self.kind.overlaps) or super().overlaps

    def gone(self) -> str:
        """How a loss is explained that the server reported."""
        return GONE if self.kind is None else self.kind.gone

    def to_unlock(self) -> SingleHold | None:
        """The hold that an unlock is about: the innermost that is its owner's own, or that was, and has ended.

        It is visible to the calling context.
        """
        in_flight, chains = self.in_flight, self.chains
        claimed = in_flight.due if in_flight.pending is None else self.claimed()
        for hold in reversed(self.holds):
            if hold.whole is not None or hold in claimed:
                continue
            # As a rule it is the innermost that is visible, which costs no call.
            usual = chains is not None and hold.trace is not None and hold.trace() is chains.variable.get()
            if usual or self.sees(hold):
                return hold
        return self.ended_here()

    def held_here(self) -> SingleHold | None:
        """The innermost hold that no one is releasing, of a multi-lock as well, that the calling context sees."""
        claimed = self.claimed()
        return next((hold for hold in reversed(self.holds) if hold not in claimed and self.sees(hold)), None)

    def ended_here(self) -> SingleHold | None:
        """The hold whose unlock is to come, since it has ended, from the calling context: the last one."""
        return next((hold for hold in reversed(self.ended) if hold.whole is None and self.sees(hold)), None)

    def given_up_here(self) -> SingleHold | None:
        """A hold of its owner's own that a condition has given up, and that the calling signal handler sees."""
        own = (hold for hold in self.in_flight.given_up if hold.whole is None and hold.block is None)
        return next((hold for hold in own if hold.state is HoldState.GIVEN_UP and self.sees(hold)), None)

    # ---- the links to others -------------------------------------------------------------------------------------

    def adopt(self, kind: HeldKind) -> None:
        """From now on this kind of lock makes its requests. Those of another kind are of no use."""
        if type(self.kind) is not type(kind):
            self.ready = None
            self.kind_state = kind.new_state()
        self.kind = kind

    def make_ready(self, ready: ReadyRequests | None) -> None:
        """These are its usual requests."""
        self.ready = ready

    def listed_in(self, table: object, chains: CallChains | None = None) -> None:
        """It was put into this table, or taken out of the one that it was in. ``chains``: of its thread, or task."""
        self.table = table
        self.chains = chains

    # ---- its holds -----------------------------------------------------------------------------------------------

    def drop(self, hold: SingleHold, state: HoldState = HoldState.OVER) -> None:
        """A hold is held no longer; with the last one a loss is forgotten."""
        if self.holds[-1:] == [hold]:
            self.holds.pop()
        elif hold in self.holds:
            self.holds.remove(hold)
        if state in (HoldState.ENDED, HoldState.RELEASED):
            self.ended = (*self.ended, hold)
            self._forget_unseen()
            if len(self.ended) > REMEMBERED:
                self.ended[0].become(HoldState.OVER)
                self.ended = self.ended[1:]
        hold.state = state
        known = hold.trace() if hold.trace is not None else None
        if known is not None:
            known.state = state
        if not self.holds:
            self.loss = None
            self.doubtful = False

    def forfeit(self, holds: Sequence[SingleHold], reason: str) -> Sequence[SingleHold]:
        """What a condition has given up of these, or may have, is not held again, for this reason.

        Returns:
            The holds whose holders have to know.
        """
        with self.mutex:
            # One is new whose acquire is pending: the calling context can go on with that, but for another hold.
            lost = [hold for hold in holds if self.given_up(hold) or hold.state is HoldState.NEW]
            if self._giving_up():
                self.in_flight.of_block = True  # As there, its caller does not come back and ask after it.
            self.in_flight.becoming = HoldState.OVER
            self.in_flight.given_up = ()
            for hold in lost:
                hold.loss = reason
            for hold in holds:
                if hold.state in (HoldState.GIVEN_UP, HoldState.LEFT):
                    self.drop(hold)
            return [hold for hold in lost if hold.watched or hold.whole is not None]

    def leave_given_up(self, hold: SingleHold | None = None) -> bool:
        """A block is left whose hold a condition has given up: it is not held again. Returns whether that is so."""
        with self.mutex:
            if hold is None or hold.state is not HoldState.GIVEN_UP:
                return False
            hold.state = HoldState.LEFT
            return True

    def forget(self, hold: SingleHold) -> None:
        """The unlock of a hold that has ended has come."""
        with self.mutex:
            self._forget(hold)

    def _forget(self, hold: SingleHold) -> None:
        if hold in self.ended:
            self.ended = tuple([each for each in self.ended if each is not hold])
        if hold.state in (HoldState.ENDED, HoldState.RELEASED, HoldState.LOST):
            hold.become(HoldState.OVER)

    def _forget_unseen(self) -> None:
        """No unlock comes for what has ended where no context is left in which it was visible."""
        if self.who.is_shared:
            self.ended = tuple([hold for hold in self.ended if hold.trace is not None and hold.trace() is not None])

    def claim(self, hold: SingleHold) -> None:
        """The acquire for this hold is left pending: the calling context, and no other, goes on with it."""
        if self.pending is not None and hold in self.in_flight.holds and self.chains is not None and self.who.is_shared:
            hold.state = HoldState.NEW
            self.chains.enter(hold, self.who)

    def _disclaim(self) -> None:
        for hold in self.in_flight.holds:
            if hold.state is HoldState.NEW:
                hold.become(HoldState.OVER)

    def _has_caller(self) -> bool:
        """Whether there is a context still in which its last request was made."""
        return not self.who.is_shared or any(hold.trace is not None and hold.trace() for hold in self.in_flight.holds)

    def called_here(self) -> bool:
        """Whether its last request was made in the calling context."""
        return self.chains is None or any(map(self.chains.sees, self.in_flight.holds))

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def begin_acquire(self, hold: SingleHold) -> AcquireBegun | None:
        """Note that an acquire is about to be sent; ``None``: another call is at a request, or a release is pending."""
        with self.mutex:
            in_flight = self.in_flight
            release = in_flight.pending is Pending.RELEASE  # Of a block that was left meanwhile; it is settled first.
            if release or (in_flight.pending is not None and in_flight.state in OF_CALL):  # As `busy`.
                return None
            repeat = in_flight.pending is not None and in_flight.state is not OPEN
            if repeat:
                self._disclaim()
            in_flight.released_behind = in_flight.without_end = False
            in_flight.lease_ms = hold.lease_ms
            request_id = in_flight.begin(Pending.ACQUIRE, hold)
            if repeat:
                self.epoch += 1
                in_flight.doubt()
            return AcquireBegun(request_id, self.epoch, len(self.holds), repeat)

    def granted(self, request_id: int, hold: SingleHold, sent: float) -> bool:
        """The server took the hold, by a request that was ``sent`` then.

        Returns whether it stands: a later request may have given it back.
        """
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            if self.loss is not None:  # Its outer holds ended meanwhile: their release gives this one up as well.
                self.in_flight.pending = None
                return False
            self.generation += 1
            if self.ended:
                self._forget_unseen()
            deadline, hold.since = sent + hold.certain, sent
            if not self.holds or deadline > self.deadline:
                self.deadline = deadline
                self.doubtful = False
            # What a condition has given up is as visible as before.
            known = hold.trace() if hold.trace is not None else None
            if hold.state is HoldState.LEFT:
                self.in_flight.due = (*self.in_flight.due, hold)
            hold.state = HoldState.HELD
            self.holds.append(hold)
            if known is not None:
                known.state = HoldState.HELD
            elif self.chains is not None:
                self.chains.enter(hold, self.who)
            self.in_flight.holds = ()
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

    def begin_release(
        self, *releasing: SingleHold, block: bool = False, becoming: HoldState = HoldState.OVER
    ) -> ReleaseBegun | None:
        """Note that the unlock of these holds is about to be sent; ``None``: another request is under way, or pending.

        Args:
            releasing: One of them; all, for the wait of a condition.
            block: Whether it is the end of a block: no one will ask for its outcome.
            becoming: What becomes of them.
        """
        with self.mutex:
            if releasing[1:]:
                releasing = self._held_of(releasing)
            in_flight, hold = self.in_flight, releasing[0] if releasing else None
            held = hold is not None and hold.state is HoldState.HELD
            if in_flight.pending is not None:
                another = in_flight.holds != releasing and self.loss is None  # Of a block that was left meanwhile.
                if in_flight.state in UNDER_WAY or (another and held and in_flight.pending is Pending.RELEASE):
                    return None
            in_flight.released_behind = False
            if held and self.loss is None:
                request_id = in_flight.begin(Pending.RELEASE, *releasing)
                in_flight.becoming, in_flight.of_block = becoming, block
                if len(self.holds) == 1:
                    return ReleaseBegun(request_id, self.epoch, 1, releasing[0].lease_ms, Unlock.RELEASE)
                lease = self._lease_without(releasing) or releasing[-1].lease_ms
                return ReleaseBegun(request_id, self.epoch, self._count(), lease, Unlock.RELEASE)
            in_flight.request_id = request_id = in_flight.request_id + 1
            if hold is None or hold.state in (HoldState.NEW, HoldState.OVER):
                return ReleaseBegun(request_id, self.epoch, 0, 0, Unlock.NOT_OWNED)
            if held:
                in_flight.pending = None
                self.drop(hold)
                return ReleaseBegun(request_id, self._outrank(), 0, hold.lease_ms, Unlock.LOST)
            self._forget(hold)
            if self.holds:
                return ReleaseBegun(request_id, self.epoch, 0, 0, Unlock.ENDED)
            return ReleaseBegun(request_id, self._outrank(), 0, 0, Unlock.LOST)

    def _held_of(self, holds: tuple[SingleHold, ...]) -> tuple[SingleHold, ...]:
        """Those that are held still, or the first: blocks that were left meanwhile have been released."""
        return tuple([hold for hold in holds if hold.state is HoldState.HELD]) or holds[:1]

    def _outrank(self) -> int:
        """What comes next outranks the last request, which is not pending, and late copies of it. Returns its epoch."""
        self.in_flight.outranked = self.in_flight.request_id
        self.epoch += 1
        return self.epoch - 1

    def _count(self) -> int:
        """How many holds there are for a release, which takes one away."""
        return len(self.holds) - len(self.in_flight.holds) + 1

    def _lease_without(self, releasing: Sequence[SingleHold]) -> int:
        """The longest lease of the other holds; 0 if there are none."""
        if len(self.holds) <= len(releasing):
            return 0
        if self.holds[-1:] == [*releasing]:  # As a rule; with many nested holds this costs little.
            return max(map(_LEASE_MS, self.holds[:-1]))
        return max([hold.lease_ms for hold in self.holds if hold not in releasing], default=0)

    def begin_force(self) -> tuple[int, int]:
        """Note that the lock is about to be forced open. Returns the number of the request, and the epoch."""
        with self.mutex:
            if self.in_flight.state not in OF_CALL:
                self.in_flight.leave()
            self.in_flight.request_id += 1
            return self.in_flight.request_id, self.epoch

    def outrank(self, request_id: int) -> int:
        """A request that is not pending may be executed late: what comes next outranks it. Returns its epoch."""
        with self.mutex:
            return self._outrank() if request_id == self.in_flight.request_id else self.epoch

    def take_back_release(self, request_id: int) -> bool:
        """A condition's release that surely had no effect is not pending: its holds are held. Returns whether it is."""
        with self.mutex:
            in_flight = self.in_flight
            surely = request_id == in_flight.request_id and in_flight.state is OPEN
            if not surely or not self._giving_up():
                return False
            in_flight.pending = None
            return True

    def take_released_behind(self) -> bool:
        """Whether an unlock that had failed was settled since, and its owner has not asked yet."""
        with self.mutex:
            behind, self.in_flight.released_behind = self.in_flight.released_behind, False
            return behind

    def released(self, request_id: int, deadline: float, *, behind: bool = False) -> bool:
        """The server took what was to be released; the rest is certain until ``deadline`` at least.

        ``behind`` says that its caller did not wait for it: the next unlock learns that it is done.
        """
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            in_flight = self.in_flight
            in_flight.released_behind = behind and not in_flight.of_block
            in_flight.pending = None
            self.generation += 1
            if in_flight.becoming is HoldState.GIVEN_UP:
                in_flight.given_up = in_flight.holds
            for hold in in_flight.holds:  # The watchdog may have given it up for lost meanwhile.
                awaited = behind and hold.whole is not None and hold.whole.released
                self.drop(hold, HoldState.RELEASED if awaited else in_flight.becoming)
                if hold.state is HoldState.GIVEN_UP and hold in in_flight.due:
                    hold.state = HoldState.LEFT
                if self.holds and not behind and hold.state is HoldState.OVER and self.chains is not None:
                    trace = hold.trace() if hold.trace is not None else None
                    if trace is not None:
                        self.chains.leave(trace)
            if self.holds and deadline > self.deadline:
                self.deadline = deadline
            return True

    # ---- repeating ----------------------------------------------------------------------------------------------

    def answered(self, request_id: int) -> None:
        """The call that made this request has its answer, or gives up."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.in_flight.leave()

    def take_turn(self) -> None:
        """No one waits for the call any longer that is at a request: that may have run."""
        with self.mutex:
            if self.busy():
                self.in_flight.state = DOUBTFUL

    def epoch_of(self, request_id: int) -> int | None:
        """The epoch for the next copy of a request, or ``None`` if there is a later one: no copy may be sent then."""
        with self.mutex:
            in_flight = self.in_flight
            return self.epoch - (in_flight.outranked == request_id) if request_id == in_flight.request_id else None

    def doubt(self, request_id: int) -> None:
        """No reply was received, so the request may have run: further copies go under an epoch of their own."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.epoch += 1
                self.in_flight.doubt()

    def raise_epoch(self, request_id: int, above: int) -> None:
        """The server knows a later epoch of this owner."""
        with self.mutex:
            if request_id == self.in_flight.request_id:
                self.epoch = max(self.epoch, above) + 1

    # ---- settling ------------------------------------------------------------------------------------------------

    def release_later(self, hold: SingleHold | None, *, block: bool) -> bool:
        """A hold is done with: settling releases it after the pending request. Returns whether that is to come."""
        with self.mutex:
            in_flight = self.in_flight
            if in_flight.unlocking in in_flight.due and not block:
                return True  # It is the same unlock, called again.
            releasing = in_flight.holds if in_flight.pending is Pending.RELEASE else ()
            if hold is None or hold.state is not HoldState.HELD or hold in releasing:
                return False
            if hold not in in_flight.due:
                in_flight.due = (*in_flight.due, hold)
            if not block:
                in_flight.unlocking = hold
                return True
            # Who leaves a block does not come back to an unlock within it: the next one is another.
            within = self.holds[self.holds.index(hold) :] if hold in self.holds else []
            if in_flight.unlocking in within:
                in_flight.unlocking = None
            if releasing and releasing[0] in within:
                in_flight.of_block = True
            return True

    def take_over(self, since: int | None = None, *, background: bool = False) -> SettleBegun | None:
        """Take over the pending request, or what is due behind it: its answer no longer concerns an earlier sender.

        Args:
            since: The request that was left pending; if the owner has begun another one since, that is left to it.
            background: Whether no call waits for this: then calls take over from it, and do not wait for their turn.

        Returns:
            What to send; ``None``: another call is at a request.
        """
        with self.mutex:
            in_flight = self.in_flight
            if since not in (None, in_flight.request_id):
                return SettleBegun(in_flight.request_id, self.epoch, None, 0, 1, False)
            if self.busy():
                return None
            if in_flight.pending is None:
                if self.loss is not None:
                    self._drop_due()
                # No call between reading and writing: a signal handler, which passes the mutex, may add to it there.
                while in_flight.due and in_flight.due[0].state is not HoldState.HELD:
                    in_flight.due = in_flight.due[1:]
                if not in_flight.due:
                    return SettleBegun(in_flight.request_id, self.epoch, None, 0, 1, False)
                in_flight.begin(Pending.RELEASE, in_flight.due[0])
                in_flight.of_block = in_flight.due[0] is not in_flight.unlocking
                in_flight.until = self.deadline
                in_flight.due = in_flight.due[1:]
                repeat = False
            else:
                # An acquire is pending only while it is in doubt; a copy in the background may run yet.
                repeat = in_flight.pending is Pending.ACQUIRE or in_flight.state is not OPEN
                in_flight.request_id += 1
            in_flight.state = BACKGROUND if background else SENT
            if repeat:
                self.epoch += 1
                in_flight.doubt()
            releases = in_flight.pending is Pending.RELEASE
            count = self._count() if releases else len(self.holds) + 1
            lease = self._lease_without(in_flight.holds if releases else ()) or in_flight.lease_ms
            return SettleBegun(in_flight.request_id, self.epoch, in_flight.pending, count, lease, repeat)

    def given_back(self, request_id: int) -> bool:
        """What an unanswered acquire may have taken is surely not (or no longer) held."""
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return False
            self.generation += 1
            self._disclaim()
            self.in_flight.pending = None
            self.in_flight.queued_ms = 0
            return True

    def keep_pending_until(self, at: float = 0.0) -> None:
        """The pending request is worth settling until then, or as long as something is certain to be held."""
        self.in_flight.until = max(self.deadline, at)

    def abandon(self, request_id: int) -> None:
        """The time of the pending request has passed: whatever it did has ended with its lease."""
        with self.mutex:
            if request_id != self.in_flight.request_id:
                return
            self._give_up_release()
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
            in_flight.begin(Pending.WAIT, state=OPEN)
            in_flight.until = now
            return True

    # ---- interrupted ---------------------------------------------------------------------------------------------

    def hand_over(self, hold: SingleHold | None) -> bool:
        """A hold is done with, and its block can wait for nothing: the watchdog is to release it.

        Returns whether there is anything to settle.
        """
        if hold is None or self.leave_given_up(hold):
            return False
        with self.mutex:
            if hold.state is not HoldState.HELD:
                return False
            if self.loss is not None:
                self.drop(hold)
                return False
            in_flight = self.in_flight
            if in_flight.pending is None:
                in_flight.begin(Pending.RELEASE, hold, state=OPEN)
                in_flight.until = self.deadline
                in_flight.of_block = True
            elif hold not in in_flight.holds and hold not in in_flight.due:
                in_flight.due = (*in_flight.due, hold)
            return True

    def leave_behind_call(self, hold: SingleHold | None) -> bool:
        """A signal handler leaves a block in the middle of a call on this, which cannot go on before it returns.

        Args:
            hold: What is to be released behind that call. ``None``: the outermost of its owner's own, since the call
                may be about the innermost.

        Returns:
            Whether it is held, and that call does not release it.
        """
        if hold is None:
            # What a condition gives up is taken again.
            claimed = self.in_flight.due if self.in_flight.becoming is HoldState.GIVEN_UP else self.claimed()
            own = [each for each in self.holds if each.whole is None and each.block is None and self.sees(each)]
            hold = self.given_up_here() or next((each for each in own if each not in claimed), None)
        if hold is None or self.leave_given_up(hold):
            return hold is not None
        with self.mutex:
            in_flight = self.in_flight
            ending = in_flight.pending is Pending.RELEASE and in_flight.becoming is not HoldState.GIVEN_UP
            if hold.state is not HoldState.HELD or hold in in_flight.due or (ending and hold in in_flight.holds):
                return False
            in_flight.due = (*in_flight.due, hold)
            return True

    def undo_acquire(self, hold: SingleHold) -> bool:
        """The caller leaves in the middle of an acquire: what it took for this hold is to be released.

        Wherever it was, in the middle of one of our own methods, too. Returns whether there is anything to settle.
        """
        with self.mutex:
            in_flight, taken = self.in_flight, hold in self.holds
            if not taken and hold.state is HoldState.HELD:
                hold.become(HoldState.OVER)  # It was interrupted while it was taken.
            if in_flight.pending is None and not taken:
                if not in_flight.queued_ms:
                    return False
                in_flight.begin(Pending.WAIT, state=OPEN)
                return True
            if taken:
                self.drop(hold)
                self._due_again()
                in_flight.pending = Pending.ACQUIRE
            self.generation += 1
            in_flight.repeat(in_flight.pending or Pending.ACQUIRE)
            return True

    def redo_release(self, *releasing: SingleHold, becoming: HoldState = HoldState.OVER) -> bool:
        """The caller leaves in the middle of an unlock: these holds are to be released.

        Whether that was done already matters not, since it is settled as a repeat. Returns whether to settle it.
        """
        with self.mutex:
            in_flight = self.in_flight
            held = tuple([hold for hold in releasing if hold in self.holds])
            if not held:
                for hold in releasing:
                    if hold.state is HoldState.HELD:
                        self.drop(hold, becoming)  # It was interrupted in there.
                return False
            releasing = held
            self._due_again(*releasing)
            if self.loss is not None:  # Nothing is held that could be released; a copy may be under way still.
                self.epoch += in_flight.pending is not None
                in_flight.request_id += 1
                in_flight.pending = None
                self.drop(releasing[0])
                return False
            self.generation += 1
            in_flight.of_block = True  # The interrupted caller does not come back and ask after it.
            in_flight.holds, in_flight.becoming = releasing, becoming
            in_flight.repeat(Pending.RELEASE)
            return True

    def _due_again(self, *releasing: SingleHold) -> None:
        """The release of these is noted in place of the pending one: what that was about is due behind it."""
        in_flight = self.in_flight
        if in_flight.pending is Pending.RELEASE:
            noted = (*releasing, *in_flight.due)
            again = [hold for hold in in_flight.holds if hold.state is HoldState.HELD and hold not in noted]
            in_flight.due = (*again, *in_flight.due)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> Sequence[SingleHold]:
        """Draw the consequences if the deadline has passed. Returns the holds whose loss must be reported."""
        if not self.holds or now < self.deadline:
            return ()
        with self.mutex:
            watched = any(hold.watched for hold in self.holds)
            if not self.holds or now < self.deadline or (self.loss is not None and watched):
                return ()
            self.generation += 1
            ending, before = why_expired(self), (*self.holds,)
            if self.in_flight.pending is Pending.RELEASE:  # Its holder has no use for it any more: no loss.
                self._give_up_release()
            self._drop_due()
            holds = (*self.holds,)
            if any(hold.watched and hold.whole is None for hold in holds):
                self._lose(ending, before)
                return before  # Who is leaving an inner block learns of it, too.
            self.ending = ending if isinstance(ending, InMargin) else None
            for hold in holds:  # A multi-lock may be lost by it; its members are not, by themselves.
                self.drop(hold, HoldState.ENDED)
            return [hold for hold in holds if hold.watched]

    def why_ended(self) -> str:
        """See :meth:`Owned.why_ended`."""
        if self.holds and self.kind is not None and self.kind.client.runtime.now() >= self.deadline:
            return why_expired(self)
        return ENDED if self.ending is None or self.ending.left() is None else self.ending

    def disown(self) -> None:
        """Its client has become another one: what its owner is about to acquire is left to its lease.

        So is a release that failed: an unlock that is called again finds that the hold is lost.
        """
        with self.mutex:
            in_flight = self.in_flight
            in_flight.queued_ms, in_flight.due = 0, ()
            if in_flight.pending in (Pending.ACQUIRE, Pending.WAIT) or not self.busy():
                self._disclaim()
                in_flight.request_id += 1
                in_flight.pending = None

    def leave_to_lease(self) -> None:
        """No one can release its holds, or is to be notified; until its deadline the server has them."""
        with self.mutex:
            self.call_nothing()
            for hold in self.holds:
                hold.watchdog = hold.watched = False
                hold.block = _no_one

    def renew_no_longer(self) -> bool:
        """Its owner was closed. Returns whether a block can be left yet, whose holder is notified when it is lost."""
        for hold in self.holds:
            hold.renewals_left = 0
        return any(hold.block is not None and hold.block() is not None for hold in self.holds)

    def lose(self, reason: str, generation: int | None = None) -> Sequence[SingleHold]:
        """The hold was taken away. Returns the holds that are lost by it (none twice, nor one that is gone since).

        ``generation`` is the ownership's when the question was sent whose answer says so; ``None``: its owner asked.
        """
        with self.mutex:
            self.ending = None
            if isinstance(self.loss, InMargin):
                self.loss = reason
            if self.loss is not None or not self.holds or generation not in (None, self.generation):
                return ()
            if generation is not None and self.in_flight.pending is Pending.RELEASE:
                return ()  # The answer may have seen this very release. If not, the release says so itself.
            self.generation += 1
            return self._lose(reason, (*self.holds,))

    def _lose(self, reason: str, holds: tuple[SingleHold, ...]) -> tuple[SingleHold, ...]:
        """Note that these holds are lost: their blocks may be left before that is reported. Returns them."""
        self.loss = reason
        for hold in holds:
            hold.lost = True
        return holds

    def certain_until(self, at: float) -> None:
        """It is certain no longer than until then, unless a renewal is confirmed."""
        with self.mutex:
            self.doubtful = self.doubtful or at < self.deadline
            self.deadline = min(self.deadline, at)

    def renewed(self, generation: int, deadline: float, now: float, *, counts: bool = False) -> bool:
        """A renewal was confirmed, by which it is certain until then, unless it has ended: that is final.

        ``counts``: it may be renewed once less now. Returns whether the answer is of interest still.
        """
        with self.mutex:
            if generation != self.generation or self.loss is not None or now >= self.deadline:
                return False
            if deadline >= self.deadline:
                self.deadline = deadline
                self.doubtful = False
            for hold in self.holds if counts else ():
                if hold.renewals_left:
                    hold.renewals_left -= 1
            return True

    def lose_one(self, request_id: int, reason: str, now: float, *, behind: bool = False) -> Sequence[SingleHold]:
        """A release found that the hold was gone: that hold has ended with it, and the others are lost.

        What a condition would have given up is all lost, and none of it has ended.

        ``behind`` says that its caller did not wait for it: the next unlock learns of the loss.
        Returns the holds whose loss must be reported; not that of a plain hold that has expired.
        """
        with self.mutex:
            if request_id != self.in_flight.request_id or not self.holds:
                return ()
            self.generation += 1
            in_flight, holds = self.in_flight, (*self.holds,)
            in_flight.pending = None
            reported = self.loss is None and (now < self.deadline or any(hold.watched for hold in holds))
            self._lose(reason, holds)
            if in_flight.becoming is not HoldState.GIVEN_UP:
                for hold in in_flight.holds:
                    self.drop(hold, HoldState.ENDED if behind and self._is_awaited(hold) else HoldState.OVER)
            self._drop_due()
            return holds if reported else ()

    def clear(self) -> Sequence[SingleHold]:
        """The owner itself ended all its holds. Returns those that were of multi-locks, which are lost by it.

        What was lost before stays so, and what has ended in another call chain is none of its caller's.
        """
        with self.mutex:
            in_flight, holds, lost = self.in_flight, (*self.holds,), self.loss is not None
            self.epoch += in_flight.pending is not None
            self.generation += 1
            for hold in [each for each in self.ended if each.whole is None and self.sees(each)]:
                self._forget(hold)
            for hold in holds:
                if hold.whole is not None:  # The unlock of a multi-lock, which is to come, finds that it is lost.
                    self.drop(hold, HoldState.ENDED)
                elif not lost:
                    self.drop(hold)
            in_flight.request_id += 1
            in_flight.pending = None
            in_flight.due = ()
            in_flight.released_behind = False
            return [hold for hold in holds if hold.whole is not None]

    def _drop_due(self) -> None:
        """Nothing is held any more: what is done with need not be released."""
        in_flight = self.in_flight
        while in_flight.due:
            hold = in_flight.due[0]
            if hold is in_flight.unlocking:  # Its unlock is under way, or is called again.
                self.drop(hold, HoldState.ENDED)
            else:
                self.drop(hold)
                hold.state = HoldState.LOST  # For the end of its block alone, if that is under way.
            in_flight.due = in_flight.due[1:]

    def _give_up_release(self) -> None:
        """The request is not pending any more; the hold that it was to release has ended by itself.

        A copy may be under way still, and what comes next outranks it.
        """
        in_flight = self.in_flight
        if in_flight.pending is Pending.RELEASE and not self._giving_up():  # A condition's caller wants it back.
            for hold in in_flight.holds:
                if hold.state is HoldState.HELD:
                    self.drop(hold, HoldState.ENDED if self._is_awaited(hold) else HoldState.OVER)
        in_flight.request_id += 1
        in_flight.pending = None
        self.epoch += 1

    def _is_awaited(self, hold: SingleHold) -> bool:
        """Whether a caller will ask for the outcome of the release in flight."""
        return not self.in_flight.of_block or (hold.whole is not None and hold.whole.released)
