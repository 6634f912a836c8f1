"""What this client holds, as far as it can know: one :class:`Ownership` for each (lock, owner).

Rules kept here:

1. A ownership is shared by all handles and kinds of lock that use the same key and owner field.
2. It knows how often its owner holds the lock (``levels``), and until when that is certain (``deadline``, counted from
   before the request was sent). Past the deadline nothing is held, whether or not anybody answered.
3. A request in flight is noted *before* it is sent (``pending``) and forgotten only when its outcome is known. Whoever
   finds one noted settles it first, or repeats it, under the next epoch: older copies are then refused by the server.
4. Methods do no I/O, are atomic, and return what is now due.
   Blocks that were left meanwhile are ``owed``: their holds are given back after what is pending.
5. Lost is final: the levels of a lost ownership can only be unlocked, one by one, and each says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from pyredisson.core.deadline import certain_for
from pyredisson.errors import LockLostError

if TYPE_CHECKING:
    from pyredisson.core.runtime import Caller, Request, Runtime
    from pyredisson.kinds.lock import LockCore

__all__ = [
    "BESIDE",
    "GONE",
    "Held",
    "HeldLevel",
    "Level",
    "Ownership",
    "Pending",
    "Unlock",
    "gone_hint",
    "holder_alive",
    "lost_error",
]

#: How a loss is explained that the server told us of.
GONE = "it was gone or taken over in Redis: ended there, forced open, or evicted"


#: What the holder of a lost lock is told.
BESIDE = "another holder; guard such writes with a fencing token"

#: For how long a place in a queue is worth giving up while the server is away: about as long as anybody minds.
QUEUE_FOR = 900.0


@final
class Level:
    """One hold among the nested ones of an owner. Never changed, so that many may share one.

    Attributes:
        lease_ms: The lease it was taken with.
        certain: For how many seconds after sending that lease is certain.
        watchdog: Renewed until it is released.
        watched: Its holder is told when it is lost. A plain hold with a fixed lease is not: it simply ends.
        block: Returns the lease of the ``hold()`` that this is, ``None`` once it was dropped. Without it, the hold is
            its owner's.
        token: What tells this hold from all others, for locks that have such a thing. Then the level is not shared.
    """

    __slots__ = ("block", "certain", "lease_ms", "token", "watchdog", "watched")

    def __init__(self, lease_ms: int, *, watchdog: bool, block: bool) -> None:
        self.block: Callable[[], object | None] | None = None
        self.token: int | None = None
        self.lease_ms = lease_ms
        self.certain = certain_for(lease_ms)
        self.watchdog = watchdog
        self.watched = watchdog or block  # The body of hold() wants to know, whatever its lease.


class Pending(Enum):
    """The request of an ownership whose outcome is not known (yet)."""

    ACQUIRE = "acquire"
    WAIT = "wait"  # Nothing is under way; but it stands in a queue that its owner has left.
    RELEASE = "release"


class Unlock(Enum):
    """What an unlock has to do."""

    RELEASE = "release"  # ask the server to take one hold away
    LOST = "lost"  # nothing is held any more: give up what may still stand in Redis
    NOT_OWNED = "not owned"


class Asking(NamedTuple):
    """An acquire that is about to be sent."""

    turn: int
    epoch: int
    holds: int  # as counted before it
    repeat: bool  # whether an earlier copy of it may have run


class Leaving(NamedTuple):
    """An unlock that is about to be sent."""

    turn: int
    epoch: int
    holds: int  # as counted before it
    lease_ms: int  # the longest lease of the holds that remain, or of the one that goes if none does; 0 if unknown
    todo: Unlock


class Settling(NamedTuple):
    """A request that was left open, and is about to be settled."""

    turn: int
    epoch: int
    pending: Pending | None
    holds: int  # to take one from
    lease_ms: int  # what remains with the rest
    repeat: bool  # whether an earlier copy of it may have run


class Ownership:
    """What one owner holds of one lock. See the module's rules."""

    what = "lock"
    beside = BESIDE

    __slots__ = (
        "acquire_request",
        "acquire_request_lease",
        "asked",
        "began",
        "by",
        "came",
        "client",
        "deadline",
        "doubtful",
        "epoch",
        "former",
        "generation",
        "key",
        "levels",
        "listed",
        "loss",
        "mark",
        "mutex",
        "name",
        "of_block",
        "on_loss",
        "over",
        "owed",
        "owner",
        "patience",
        "pending",
        "pending_until",
        "proof",
        "queued_ms",
        "release_request",
        "released_behind",
        "request_epoch",
        "settling",
        "since",
        "turn",
        "way",
        "who",
    )

    def __init__(self, key: tuple[str, str], who: Caller, client: str, runtime: Runtime) -> None:
        self.key = key
        self.name, self.owner = key
        self.proof = self.owner  # What stands for its hold in Redis. A kind with a token of its own for each sets it;
        self.former = ""  # and this is then the token of the hold before, which may be there still.
        self.who = who
        self.client = client
        self.by: LockCore | None = None  # The handle that asked last: it knows what its kind says to the server.
        self.listed = False  # In the table.
        self.mark: Callable[[], Any] | None = None  # What its hold has left in the context of its owner; see Mark.
        self.mutex = runtime.mutex()
        self.levels: list[Level] = []
        self.since: list[float] = []  # When each level was asked for that is held, or was at that depth last.
        self.deadline = 0.0
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()
        self.over = 0
        self.epoch = 0
        self.turn = 0
        self.generation = 0
        self.pending: Pending | None = None
        self.pending_until = 0.0
        self.patience: float | None = 0.0  # For how many seconds its owner means to wait this time; None: without end.
        self.began = 0.0  # When it began to wait this time.
        self.queued_ms = 0  # The wait with which it stands in the lock's queue, or may; 0: it surely does not.
        self.doubtful = False  # A copy of what is pending may have run.
        self.settling = False  # Somebody took what is pending over, and may be at it still.
        self.asked: Level | None = None
        self.owed = 0
        self.of_block = False
        self.released_behind = False
        self.came = 0.0  # When it was its owner's turn last, after a wait.
        self.way = 0.0  # Until when its owner gives way to others who want the lock that it has just released.
        # The bytes of the two usual requests: first acquire and last release. They are the same under one epoch.
        self.request_epoch = 0
        self.acquire_request: Request | None = None
        self.acquire_request_lease = 0
        self.release_request: Request | None = None

    def __repr__(self) -> str:
        state = f"lost ({self.loss})" if self.loss else f"×{len(self.levels)}"
        return f"<Ownership {self.name!r} {self.owner} {state}{f' {self.pending.value}?' if self.pending else ''}>"

    # ---- what it is ----------------------------------------------------------------------------------------------

    def renewable(self) -> bool:
        """Whether the watchdog has to renew it."""
        # An unlock ends the renewal, whatever becomes of it: a caller who gave up on one that could not be settled
        # must not leave a lock behind that is renewed for ever. The owner's next successful step resumes it.
        if self.loss is not None or self.released_behind or self.owed or self.pending is Pending.RELEASE:
            return False
        return any(level.watchdog for level in self.levels)

    def watched(self) -> bool:
        """Whether somebody wants to be told when it is lost."""
        return self.loss is None and any(level.watched for level in self.levels)

    def in_the_middle(self) -> bool:
        """Whether a call may be at work on it: a request is under way, or its owner stands in a queue."""
        return self.pending is not None or self.queued_ms > 0

    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not (self.levels or self.pending or self.over or self.epoch or self.released_behind or self.queued_ms)

    def has(self, level: Level) -> bool:
        """Whether that very level is among those that are held (or lost, and not yet unlocked)."""
        return level in self.levels

    def in_use(self) -> bool:
        """Whether its owner holds anything, has anything under way, or has yet to hear of an end."""
        return bool(self.levels or self.pending or self.over or self.released_behind or self.owed)

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(level.block is None for level in self.levels)

    def holder_alive(self) -> bool:
        """Whether anybody is there who could release it."""
        return holder_alive(self)

    def gone_hint(self) -> str:
        """What to tell if there is nobody any more."""
        return gone_hint(self)

    def has_only(self, level: Level, now: float) -> bool:
        """Whether that very level is all that is held, is certain, and nothing is open beside it."""
        levels = self.levels
        return (
            len(levels) == 1
            and levels[0] is level
            and self.deadline > now
            and not (self.pending or self.owed or self.loss)
        )

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        return max(0.0, self.deadline - now) if self.levels and self.loss is None else 0.0

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def begin_acquire(self, level: Level) -> Asking:
        """Note that an acquire is about to be sent."""
        with self.mutex:
            repeat = self.doubtful = (self.doubtful or self.settling) and self.pending is not None
            self.settling = False
            if repeat:
                self.epoch += 1
            self.turn += 1
            self.released_behind = False
            self.asked = level
            self.pending = Pending.ACQUIRE
            return Asking(self.turn, self.epoch, len(self.levels), repeat)

    def begin_first(self, level: Level) -> int:
        """As :meth:`begin_acquire`, where nothing is held and nothing open. Returns the turn."""
        with self.mutex:
            self.doubtful = self.settling = self.released_behind = False
            self.turn = turn = self.turn + 1
            self.asked = level
            self.pending = Pending.ACQUIRE
            return turn

    def granted(self, turn: int, level: Level, deadline: float) -> bool:
        """The server took the hold. Returns whether it stands: whoever has had the turn since has given it back."""
        with self.mutex:
            if turn != self.turn:
                return False
            self.generation += 1
            depth = len(self.levels)
            if not depth or deadline > self.deadline:
                self.deadline = deadline
            if depth < len(self.since):
                self.since[depth] = deadline - level.certain
            else:
                self.since.append(deadline - level.certain)
            self.levels.append(level)
            self.pending = None
            self.queued_ms = 0
            return True

    def refused(self, turn: int) -> None:
        """The server surely took no hold for this request, nor for an earlier copy of it."""
        with self.mutex:
            if turn == self.turn:
                self.pending = None

    # ---- releasing -----------------------------------------------------------------------------------------------

    def begin_release(self, *, block: bool = False) -> Leaving:
        """Note that an unlock is about to be sent; what was pending is settled by now.

        ``block`` says that it is the end of a block: nobody will come and ask after it.
        """
        with self.mutex:
            levels = self.levels
            self.turn += 1
            self.released_behind = False
            if self.loss is not None:
                self.pending = None
                lease = levels.pop().lease_ms
                if not levels:
                    self.loss = None
                return Leaving(self.turn, self.epoch, 0, lease, Unlock.LOST)
            if not levels:
                if not self.over:
                    return Leaving(self.turn, self.epoch, 0, 0, Unlock.NOT_OWNED)
                self.over -= 1
                return Leaving(self.turn, self.epoch, 0, 0, Unlock.LOST)
            self.pending = Pending.RELEASE
            self.doubtful = self.settling = False
            self.of_block = block
            if len(levels) == 1:
                return Leaving(self.turn, self.epoch, 1, levels[0].lease_ms, Unlock.RELEASE)
            lease = max(level.lease_ms for level in levels[:-1])
            return Leaving(self.turn, self.epoch, len(levels), lease, Unlock.RELEASE)

    def begin_last(self) -> int:
        """As :meth:`begin_release` for a block, where there is one hold, and :meth:`has_only`. Returns the turn."""
        with self.mutex:
            self.doubtful = self.settling = self.released_behind = False
            self.turn = turn = self.turn + 1
            self.of_block = True
            self.pending = Pending.RELEASE
            return turn

    def begin_force(self) -> tuple[int, int]:
        """Note that the lock is about to be forced open. Returns the turn and the epoch."""
        with self.mutex:
            self.turn += 1
            return self.turn, self.epoch

    def take_released_behind(self) -> bool:
        """Whether an unlock that had failed was settled since, and nobody has asked after it yet."""
        with self.mutex:
            behind, self.released_behind = self.released_behind, False
            return behind

    def released(self, turn: int, deadline: float, *, behind: bool = False) -> bool:
        """The server took one hold away; the rest is certain until ``deadline`` at least.

        ``behind`` says that its caller did not wait for it: the next unlock learns that it is done.
        """
        with self.mutex:
            if turn != self.turn:
                return False
            self.released_behind = behind and not self.of_block
            self.generation += 1
            self.pending = None
            self.levels.pop()
            if not self.levels:
                self.loss = None  # The watchdog may have given it up for lost meanwhile.
            elif deadline > self.deadline:
                self.deadline = deadline
            return True

    # ---- repeating ----------------------------------------------------------------------------------------------

    def epoch_of(self, turn: int) -> int | None:
        """The epoch for the next copy of a request, or ``None`` if its turn is over: no copy may be sent then."""
        with self.mutex:
            return self.epoch if turn == self.turn else None

    def doubt(self, turn: int) -> None:
        """No reply came, so that the request may have run: further copies go under an epoch of their own."""
        with self.mutex:
            if turn == self.turn:
                self.epoch += 1
                self.doubtful = True

    def raise_epoch(self, turn: int, above: int) -> None:
        """The server knows a later epoch of this owner."""
        with self.mutex:
            if turn == self.turn:
                self.epoch = max(self.epoch, above) + 1

    # ---- settling ------------------------------------------------------------------------------------------------

    def owe(self, *, block: bool) -> bool:
        """One more hold is done with: settling gives it back after what is pending. Returns whether there is one."""
        with self.mutex:
            if self.owed and not block:
                return True
            if len(self.levels) - (self.pending is Pending.RELEASE) <= self.owed:
                return False
            self.owed += 1
            self.of_block = block
            return True

    def take_over(self, since: int | None = None) -> Settling:
        """Take what is pending, or owed, upon oneself: whoever had it before finds its turn over.

        Args:
            since: The turn that left it pending; if the owner has begun something new since, that is its own affair.
        """
        with self.mutex:
            if since not in (None, self.turn):
                return Settling(self.turn, self.epoch, None, 0, 1, False)
            if self.pending is None:
                if self.loss is not None:
                    self._drop_owed()
                if not self.owed or not self.levels:
                    self.owed = 0
                    return Settling(self.turn, self.epoch, None, 0, 1, False)
                self.owed -= 1
                self.pending = Pending.RELEASE
                self.doubtful = self.settling = False
            self.turn += 1
            # An acquire is pending only while it is in doubt; and who settled it before us may be at it still.
            self.doubtful = self.doubtful or self.settling or self.pending is Pending.ACQUIRE
            self.settling = True
            self.epoch += self.doubtful
            count = len(self.levels) + (self.pending is not Pending.RELEASE)
            rest = self.levels[: count - 1]
            lease = max((level.lease_ms for level in rest), default=self.asked.lease_ms if self.asked else 1)
            return Settling(self.turn, self.epoch, self.pending, count, lease, self.doubtful)

    def _drop_owed(self) -> None:
        """Nothing is held any more: what is done with need not be given back."""
        del self.levels[max(0, len(self.levels) - self.owed) :]
        self.owed = 0
        if not self.levels:
            self.loss = None

    def given_back(self, turn: int) -> bool:
        """What an unanswered acquire may have taken is surely not (or no longer) held."""
        with self.mutex:
            if turn != self.turn:
                return False
            self.generation += 1
            self.pending = None
            self.queued_ms = 0
            return True

    def open_until(self) -> float:
        """Until when what is pending is worth settling."""
        return self.pending_until + max(2 * self.queued_ms / 1000, QUEUE_FOR) * bool(self.queued_ms)

    def abandon(self, turn: int) -> None:
        """The time of what is pending is over: whatever it did has ended with its lease."""
        with self.mutex:
            if turn != self.turn:
                return
            self.turn += 1
            self.epoch += 1  # A copy may be under way still: whatever comes next outranks it.
            if self.pending is Pending.RELEASE and self.levels:
                self.levels.pop()
                self.over += not self.of_block
            self._drop_owed()
            self.pending = None
            self.queued_ms = 0

    # ---- waiting -------------------------------------------------------------------------------------------------

    def stop_waiting(self, now: float) -> bool:
        """The owner waits no longer: its place in the queue is to be given up. Returns whether it may have one."""
        with self.mutex:
            if not self.queued_ms or self.pending is not None:
                return False
            self.turn += 1
            self.pending = Pending.WAIT
            self.pending_until = now
            self.doubtful = self.settling = False
            return True

    # ---- interrupted ---------------------------------------------------------------------------------------------

    def bring_up(self, level: Level) -> None:
        """Make this level the one that is released next."""
        with self.mutex:
            if self.levels and self.levels[-1] is not level:
                self.levels.remove(level)
                self.levels.append(level)

    def hand_over(self) -> bool:
        """One hold is done with, and its block can wait for nothing: somebody else is to release it.

        Returns whether there is anything to settle.
        """
        with self.mutex:
            if self.loss is not None:
                if self.levels:
                    self.levels.pop()
                if not self.levels:
                    self.loss = None
                return False
            if self.pending is not None:
                if len(self.levels) - (self.pending is Pending.RELEASE) > self.owed:
                    self.owed += 1
                return True
            if not self.levels:
                return False
            self.turn += 1
            self.pending = Pending.RELEASE
            self.pending_until = self.deadline
            self.of_block = True
            self.doubtful = self.settling = False
            return True

    def undo_acquire(self, holds: int) -> bool:
        """The caller leaves in the middle of an acquire: what it took beyond ``holds`` is to be given back.

        Wherever it was, in the middle of one of our own methods, too. ``holds`` is negative if it was not that far yet.
        Returns whether there is anything to settle.
        """
        with self.mutex:
            if self.pending is None and (holds < 0 or len(self.levels) <= holds):
                if not self.queued_ms:
                    return False
                self.turn += 1
                self.pending = Pending.WAIT
                self.doubtful = self.settling = False
                return True
            if holds >= 0:
                del self.levels[holds:]
                self.pending = Pending.ACQUIRE
                if not self.levels:
                    self.loss = None
            self.turn += 1
            self.generation += 1
            self.doubtful = True
            return True

    def redo_release(self, holds: int) -> bool:
        """The caller leaves in the middle of an unlock, begun with so many ``holds``: one of them is to be given back.

        Whether that was done already matters not, since it is settled as a repeat. Returns whether to settle it.
        """
        with self.mutex:
            if not holds or len(self.levels) < holds:
                return False
            if self.loss is not None:  # Nothing is held that could be given back; a copy may be under way still.
                self.turn += 1
                self.epoch += self.pending is not None
                self.pending = None
                self.levels.pop()
                if not self.levels:
                    self.loss = None
                return False
            self.pending = Pending.RELEASE
            self.of_block = True  # Whoever was interrupted does not come back and ask after it.
            self.turn += 1
            self.generation += 1
            self.doubtful = True
            return True

    # ---- ending --------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> bool:
        """Draw the consequences if the deadline has passed. Returns whether somebody must be told of a loss."""
        if not self.levels or now < self.deadline or self.loss is not None:
            return False
        with self.mutex:
            if not self.levels or now < self.deadline or self.loss is not None:
                return False
            self.generation += 1
            if self.pending is Pending.RELEASE:  # Its holder wants no more of it, so nobody need be told.
                self.turn += 1
                self.epoch += 1  # A copy may be under way still: whatever comes next outranks it.
                self.pending = None
                self.levels.pop()
                self.over += not self.of_block
            self._drop_owed()
            if any(level.watched for level in self.levels):
                self.loss = "its lease ran out before it could be renewed"
                return True
            self.over += len(self.levels)
            self.levels.clear()
            return False

    def lose(self, reason: str, generation: int | None = None) -> bool:
        """The hold was taken away. Returns whether somebody must be told (not twice, and not for a hold since gone).

        ``generation`` is the ownership's when the question was sent whose answer says so; ``None``: its owner asked.
        """
        with self.mutex:
            if self.loss is not None or not self.levels or generation not in (None, self.generation):
                return False
            if generation is not None and self.pending is Pending.RELEASE:
                return False  # The answer may have seen this very release. If not, the release says so itself.
            self.generation += 1
            self.loss = reason
            return True

    def lose_one(self, turn: int, reason: str, now: float, *, behind: bool = False) -> bool:
        """An unlock found that the hold was gone: that level is over with it, and the others are lost.

        ``behind`` says that its caller did not wait for it: the next unlock learns of the loss.
        Returns whether somebody must be told; not of a plain hold that simply ran out.
        """
        with self.mutex:
            if turn != self.turn or not self.levels:
                return False
            self.generation += 1
            self.pending = None
            tell = self.loss is None and (now < self.deadline or any(level.watched for level in self.levels))
            self.levels.pop()
            self.over += behind and not self.of_block
            self.loss = reason
            self._drop_owed()
            return tell

    def clear(self) -> None:
        """The owner itself ended all its holds."""
        with self.mutex:
            self.turn += 1
            self.epoch += self.pending is not None
            self.generation += 1
            self.levels.clear()
            self.over = 0
            self.loss = None
            self.pending = None
            self.owed = 0
            self.released_behind = False

    def renewed(self, generation: int, sent: float, lease_ms: int) -> None:
        """A renewal that was sent at ``sent`` was confirmed."""
        with self.mutex:
            if generation == self.generation and self.loss is None:
                self.deadline = max(self.deadline, sent + certain_for(lease_ms))


class Holder(Protocol):
    """Somebody's nested holds of one thing."""

    who: Caller
    mark: Callable[[], Any] | None

    @property
    def levels(self) -> Sequence[Any]:
        """The holds, each with its ``block``."""
        ...


def holder_alive(held: Holder) -> bool:
    """Whether anybody is there who could release it: its owner in the same call chain, or the block of a ``hold()``."""
    if not held.levels:
        return held.who.alive() and not _moved_on(held)
    blocks = [level.block for level in held.levels]
    if any(block is not None and block() is not None for block in blocks):
        return True
    return None in blocks and held.who.alive() and not _moved_on(held)


def _moved_on(held: Holder) -> bool:
    """Whether the call chain in which it was acquired has ended, and its thread goes on with others."""
    return held.who.shared and held.mark is not None and held.mark() is None


def gone_hint(held: Holder) -> str:
    """What to tell of holds that nobody can release any more."""
    if held.levels and all(level.block is not None for level in held.levels):
        return "what hold() returned was dropped, and its block never left"
    return held.who.gone_hint()


class HeldLevel(Protocol):
    """One hold among them."""

    block: Callable[[], object | None] | None

    @property
    def token(self) -> int | None:
        """Its fencing token, if its kind has such a thing."""
        ...


class Held(Protocol):
    """What an owner holds of something, as a :class:`pyredisson.Lease` sees it.

    Attributes:
        what: What is held, in messages.
        beside: Beside whom its holder may have worked after a loss.
    """

    what: str
    beside: str
    name: str
    owner: str
    loss: str | None
    on_loss: tuple[Callable[[], None], ...]

    def has(self, level: Any, /) -> bool:
        """Whether that very level is among those that are held."""
        ...

    def bring_up(self, level: Any, /) -> None:
        """Make this level the one that is released next."""
        ...

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        ...


def lost_error(ownership: Held, reason: str = GONE) -> LockLostError:
    """The error for a holder who comes to use or to release what it lost."""
    return LockLostError(
        f"{ownership.what} {ownership.name!r} was lost by {ownership.owner}: {reason}. What was done under it since "
        f"may have run beside {ownership.beside}",
        name=ownership.name,
    )
