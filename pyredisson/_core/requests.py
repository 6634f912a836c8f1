"""Requests of an owner as values: each can be made again, under a later epoch, until it is answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, final

from pyredisson._core.deadline import REPEAT
from pyredisson._core.failures import Connecting, Failure, Rejected, Unusable, own_copy, remedy_of
from pyredisson._core.hold import HoldState
from pyredisson.errors import RedissonError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Reply, Request
    from pyredisson._core.waiting import QueueUpdate


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
        hold: SingleHold,
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
        self.hold: SingleHold = hold
        self.count: int = count
        self.repeat: bool = repeat
        self.update: QueueUpdate | None = update

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        ready = self.ownership.ready
        if (
            ready is not None
            and ready[:2] == (epoch, self.lease_ms)
            and not (repeat or self.count or self.update or ready.once)
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
        # A release also takes its owner out of the queue in which it may stand, which the ready one does not.
        usual = self.count == 1 and not repeat and may_queue and not self.ownership.in_flight.queued_ms
        if ready is not None and ready[:2] == (epoch, self.lease_ms) and usual:
            return ready.release
        return self.kind.release(self, epoch, repeat)


class ForceCall(Call):
    """A forced release of the lock, for any holder."""

    __slots__ = ()

    def request(self, epoch: int, repeat: bool) -> Request:
        """See :meth:`Call.request`."""
        return self.kind.force(self.ownership, epoch)


# ---- replies ---------------------------------------------------------------------------------------------------------
# Replies that several kinds read alike: the reply of a script as a value, or ``Unusable`` for what none replies.


#: No script counts further.
MAX_DIGITS = 16


def unusable(reply: object) -> Unusable:
    """The failure for an answer that no script gives."""
    said = repr(reply)
    return Unusable(
        RedissonError(
            f"unexpected reply from the server: {said if len(said) <= 60 else said[:57] + '...'}; is something else "
            "than Redis or Valkey at this address, or in between?"
        )
    )


def says(reply: list[Reply], word: bytes) -> bool:
    """Whether a reply begins with this word. It may begin with a number, and ``python -b`` lets no one compare them."""
    return bool(reply) and type(reply[0]) is bytes and reply[0] == word


def read_acquire(reply: Reply) -> LockAcquired | Refused | HoldLost | Stale:
    """Read the reply to an acquire of a lock."""
    if reply is None:
        return ACQUIRED
    if type(reply) is int:
        return Refused(read_left_ms(reply, reply))
    if type(reply) is list and len(reply) == 1 and says(reply, b"lost"):
        return LOST
    stale = read_stale(reply)
    if stale is None:
        raise unusable(reply)
    return stale


def read_stale(reply: Reply) -> Stale | None:
    """Return the number stored on the server if the reply says that the request arrived after a later one."""
    if reply is None or type(reply) is int:
        return None
    if type(reply) is not list or any(each is not None and type(each) not in (int, bytes) for each in reply):
        raise unusable(reply)
    if says(reply, b"stale"):
        return Stale(read_digits(reply, *reply[1:]))
    return None


def read_renewed(reply: Reply, count: int) -> list[bool]:
    """Read the reply to a renewal of ``count`` holds: whether each is still held."""
    if type(reply) is not list or len(reply) != count or reply.count(0) + reply.count(1) != count:
        raise unusable(reply)
    return [each == 1 for each in reply]


def read_left_ms(reply: Reply, left_ms: int) -> int | None:
    """Read a time to live that is part of a reply, in ms: -1 is without end, for which ``None`` stands.

    Anything less is no time to live: who waited for that would wait indefinitely.
    """
    if left_ms < -1:
        raise unusable(reply)
    return left_ms if left_ms >= 0 else None


def read_flag(reply: Reply) -> int:
    """Read a reply that is 1 or 0."""
    if type(reply) is not int or reply not in (0, 1):
        raise unusable(reply)
    return reply


def read_int(reply: Reply) -> int:
    """Read a reply that is a number."""
    if type(reply) is not int:
        raise unusable(reply)
    return reply


def read_count(reply: Reply) -> int:
    """Read the number of holds of an owner, as it is stored. Raises the error to show."""
    if reply is None:
        return 0
    try:
        return read_digits(reply, reply)
    except Unusable as failure:
        raise failure.cause from None


def read_digits(reply: Reply, *number: Reply) -> int:
    """Read a number that is part of a reply, as decimal digits."""
    match number:
        case [bytes() as digits] if digits.isdigit() and len(digits) <= MAX_DIGITS:
            return int(digits)
    raise unusable(reply)


# ---- outcomes --------------------------------------------------------------------------------------------------------
# What a server's reply to an acquire can mean.


class Value:
    """One of the outcomes: equal to another of its class with the same part. No dataclass: those are slow to import."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(part) for part in self._parts())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._parts() == self._parts()

    def __hash__(self) -> int:
        return hash((type(self), *self._parts()))

    def _parts(self) -> list[object]:
        names: tuple[str, ...] = self.__slots__
        return [getattr(self, name) for name in names]


@final
class LockAcquired(Value):
    """The owner holds the lock.

    Attributes:
        token: The fencing token of the hold, if its kind has one.
    """

    __slots__ = ("token",)

    def __init__(self, token: int | None = None) -> None:
        self.token: int | None = token


@final
class Refused(Value):
    """Another owner holds it.

    Attributes:
        retry_in_ms: Milliseconds for which asking again is in vain; ``None``: until it is released.
        asked: Whether the server said so; else it could not be asked, or has not been asked yet.
    """

    __slots__ = ("asked", "retry_in_ms")

    def __init__(self, retry_in_ms: int | None, *, asked: bool = True) -> None:
        self.retry_in_ms: int | None = retry_in_ms
        self.asked: bool = asked


@final
class HoldLost(Value):
    """The owner does not hold the lock as often as its client counts."""

    __slots__ = ()


@final
class SelfBlocked(Value):
    """The owner would wait for a hold of its own."""

    __slots__ = ()


@final
class Stale(Value):
    """The request arrived after a later one of the same owner.

    Attributes:
        epoch: The owner's epoch, as the server knows it.
    """

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch


@final
class Granted(Value):
    """The permits were granted.

    Attributes:
        next_in_ms: After how many ms another waiter may be granted permits without a release; ``None``: never.
    """

    __slots__ = ("next_in_ms",)

    def __init__(self, next_in_ms: int | None) -> None:
        self.next_in_ms: int | None = next_in_ms


@final
class NeverSet(Value):
    """The semaphore was never given any permits.

    Attributes:
        retry_in_ms: As for :class:`Refused`.
    """

    __slots__ = ("retry_in_ms",)

    def __init__(self, retry_in_ms: int | None) -> None:
        self.retry_in_ms: int | None = retry_in_ms


@final
class OtherKind(Value):
    """The semaphore is of the other kind."""

    __slots__ = ()


ACQUIRED: Final = LockAcquired()
GRANTED: Final = Granted(None)
GRANTED_AND_MORE: Final = Granted(0)
LOST: Final = HoldLost()
OTHER_KIND: Final = OtherKind()
AT_ONCE: Final = Refused(0, asked=False)
SELF_BLOCKED: Final = SelfBlocked()
WITHOUT_END: Final = Refused(None)

Answer: TypeAlias = LockAcquired | Refused
"""What an attempt returns to a waiter."""

Outcome: TypeAlias = LockAcquired | Refused | HoldLost | SelfBlocked | Stale
"""All that the reply to an acquire of a lock can mean."""

PermitOutcome: TypeAlias = Granted | Refused | NeverSet | OtherKind
"""All that the reply to an acquire of permits can mean."""

# ---- connect wait ----------------------------------------------------------------------------------------------------
# The first request of a call that may wait: what if there is no connection yet, or none can be made.


#: The classes of redis-py's errors for a server that could not be reached, and for one that let us in no further.
UNREACHED = ("ConnectionError", "TimeoutError")
REFUSED = "AuthenticationError"

#: What servers answer to a client that has no password.
NO_PASSWORD = ("HELLO must be called with the client already authenticated", "Authentication required")


def unreached(client: ClientCore, failure: Failure, what: str = "") -> Exception:
    """Return the error to show for a request that had no effect: that of the connection, with the server's address.

    It also says what to do, for a refusal as for a server that the client has never reached. ``what`` the request is
    about, in words; if an earlier request is in doubt, the error says so.
    """
    remedy = remedy_of(str(failure.cause))
    known = remedy is not None and remedy in str(failure.cause)
    error = failure.cause if remedy else _with_address(client, failure.cause)
    if known or not (remedy or failure.earlier):
        return error
    error = own_copy(error)  # Other calls may raise the same one.
    text, address = str(error), client.address
    if remedy:
        where = " at ".join(filter(None, (what, None if address is None or address in text else address)))
        text = f"{text.rstrip('.')}{f' ({where})' if where else ''}: {remedy}"
    if failure.earlier:
        text += f"; an earlier request of the same owner for {what} is still being settled"
    error.args = (text,)
    return error


def _with_address(client: ClientCore, error: Exception) -> Exception:
    address = client.address
    text, kind = str(error), type(error).__name__
    if address is None or address in text or kind not in (*UNREACHED, REFUSED):
        return error
    server = client.server
    if kind == REFUSED and any(each in text for each in NO_PASSWORD):
        error.args = (
            f"the server at {address} requires a password, and this client has none: "
            "Redisson.from_url('redis://:password@host:port')",
        )
    elif kind == REFUSED or server.facts is not None or server.refusal is not None:
        error.args = (f"{text} ({address})",)
    else:
        tls = ""
        if address.startswith("redis") and "connecting to" not in text:  # Something is there.
            tls = ", and does it speak TLS" if address.startswith("rediss") else " (with TLS it is rediss://)"
        error.args = (
            f"{text.rstrip('.')}. Is a server running at {address}{tls}? "
            f"`pyredisson doctor --url {address}` examines it; Redisson.from_url(url) connects to another one, and "
            "Redisson.embedded() starts a private one",
        )
    return error


def passes(client: ClientCore, failure: Failure) -> bool:
    """Return whether the server refused a request for a reason that passes.

    A credential that was never accepted is not taken for one that is being rotated.
    """
    known = client.server.facts is not None or client.server.refusal is not None
    return failure.passes and (known or type(failure.cause).__name__ != REFUSED)


async def waits_through(client: ClientCore, failure: Failure, wait: float | None, began: float) -> bool:
    """Wait until an acquire can go on whose first request brought no answer.

    Args:
        client: The client.
        failure: Why there was no answer.
        wait: How long the acquire may wait; ``None``: as long as it takes.
        began: When it began.

    Returns:
        Whether it can: its connection was only slow to be made, the server refused it for a reason that passes within
        a wait time, or outages are waited through; and there is time left.
    """
    if wait == 0 or isinstance(failure, (Rejected, Unusable)):
        return False
    config, runtime = client.config, client.runtime
    if config.wait_while_unreachable or (wait is not None and passes(client, failure)):
        return wait is None or runtime.now() < began + wait
    over = began + (config.connect_timeout if wait is None else min(config.connect_timeout, wait))
    pauses = REPEAT.delays(runtime.jitter)
    while isinstance(failure, Connecting) and (left := over - runtime.now()) > 0:
        try:
            await runtime.execute(("PING",), min(left, config.timeout / 3))
            return True
        except Failure as error:
            failure = error
        await runtime.sleep(next(pauses))
    return False


# ---- pending request -------------------------------------------------------------------------------------------------
# The request of an owner whose outcome is not known (yet), and what is due once it is. Its states, and the methods of
# :class:`Ownership` that change them:
#
# ================ ======================================= ============================================================
# state            copies of the request                   next state, and by which methods
# ================ ======================================= ============================================================
# SETTLED          ``pending`` is None: no request         SENT by begin_acquire, begin_release, take_over
#                                                          BACKGROUND by take_over
#                                                          OPEN by hand_over, stop_waiting, undo_acquire
#                                                          DOUBTFUL by undo_acquire, redo_release
# SENT             the first: a call awaits its reply      SENT_AGAIN by doubt
#                                                          OPEN by answered
#                                                          DOUBTFUL by take_turn, undo_acquire, redo_release
#                                                          SETTLED by an end
# SENT_AGAIN       another: a call awaits its reply        DOUBTFUL by answered, take_turn, undo_acquire, redo_release
#                                                          SETTLED by an end
# BACKGROUND       the first: the watchdog awaits its      SENT_AGAIN by begin_acquire, take_over
#                  reply                                   BACKGROUND_AGAIN by doubt, take_over
#                                                          OPEN by answered, begin_force
#                                                          DOUBTFUL by undo_acquire, redo_release
#                                                          SETTLED by an end
# BACKGROUND_AGAIN another: the watchdog awaits its reply  SENT_AGAIN by begin_acquire, take_over
#                                                          DOUBTFUL by answered, begin_force, undo_acquire, redo_release
#                                                          SETTLED by an end
# OPEN             none can have run                       SENT by begin_acquire, begin_release, take_over
#                                                          SENT_AGAIN by take_over (of an acquire)
#                                                          BACKGROUND by take_over
#                                                          BACKGROUND_AGAIN by take_over (of an acquire)
#                                                          DOUBTFUL by doubt, undo_acquire, redo_release
#                                                          SETTLED by an end, take_back_release
#                                                          SETTLED by begin_release (after a loss)
# DOUBTFUL         one may have run; none is under way     SENT by begin_release
#                                                          SENT_AGAIN by begin_acquire, take_over
#                                                          BACKGROUND_AGAIN by take_over
#                                                          SETTLED by an end, begin_release (after a loss)
# ================ ======================================= ============================================================
#
# An end is granted, refused, released, lose_one, given_back, abandon, expire, disown, clear or redo_release.
#
# ``of_block`` is no state, since it says whether a caller will ask for the outcome. ``without_end`` and
# ``released_behind`` are none, since they say how an earlier request has ended, and stay while another one is pending.


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


class RequestState(Enum):
    """How far the pending request of an ownership is."""

    SENT = "sent"
    SENT_AGAIN = "sent again"
    BACKGROUND = "background"
    BACKGROUND_AGAIN = "background again"
    OPEN = "open"
    DOUBTFUL = "doubtful"


#: Plain names: before Python 3.12 each look-up in an enumeration may be a call.
SENT, SENT_AGAIN, BACKGROUND, BACKGROUND_AGAIN, OPEN, DOUBTFUL = RequestState

#: The states in which a call is at the request, and waits for its answer.
OF_CALL: Final = (SENT, SENT_AGAIN)

#: The states in which a copy of the request is under way, and what each becomes when none is.
UNDER_WAY: Final = {SENT: OPEN, SENT_AGAIN: DOUBTFUL, BACKGROUND: OPEN, BACKGROUND_AGAIN: DOUBTFUL}

#: The states in which no copy of the request can have run before, and what each becomes when one may have.
IN_DOUBT: Final = {SENT: SENT_AGAIN, BACKGROUND: BACKGROUND_AGAIN, OPEN: DOUBTFUL}


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
        wait: Of a lock with a queue, for how long the acquire's owner waits.
        queued_ms: The same as the queue has it, in ms; 0: there is none, or it is not joined.
        once: Whether the acquire is for one hold, or one wait, so that it must not be sent for another one.
    """

    epoch: int
    lease_ms: int
    acquire: Request
    release: Request
    wait: float | None
    queued_ms: int
    once: bool


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
    """The last request of an ownership. Changed as that is, under its mutex.

    Attributes:
        request_id: The number of the last request: an answer to an earlier one is no longer of interest.
        pending: What it was, until its outcome is known.
        until: When settling it is no longer worth while.
        state: Whether copies of it are under way, or may have run; of no meaning if none is pending.
        lease_ms: The lease that was asked for last.
        holds: The holds that it is about: one, but for the wait of a condition, which releases all.
        becoming: What becomes of those that are released.
        of_block: It is the release of a block: no caller will ask for its outcome.
        queued_ms: The wait with which its owner stands in the lock's queue, or may; 0: it surely does not.
        due: The holds that are to be released once it is settled: their blocks were left, or an unlock was called.
        unlocking: The last one by an unlock, which may be called again.
        given_up: What a condition has given up, until its wait has ended.
        without_end: It was refused until the lock is released, whose key never expires.
        released_behind: A release that had failed was settled since, and its owner does not know that yet.
        outranked: The number of the last request that is not pending, and that what comes next outranks in any case.
    """

    request_id: int = 0
    pending: Pending | None = None
    until: float = 0.0
    state: RequestState = OPEN
    lease_ms: int = 1
    holds: tuple[SingleHold, ...] = ()
    becoming: HoldState = HoldState.OVER
    of_block: bool = False
    queued_ms: int = 0
    due: tuple[SingleHold, ...] = ()
    unlocking: SingleHold | None = None
    given_up: tuple[SingleHold, ...] = ()
    without_end: bool = False
    released_behind: bool = False
    outranked: int = 0

    def begin(self, pending: Pending, *holds: SingleHold, state: RequestState = SENT) -> int:
        """Note another request. Returns its number."""
        self.state = state
        self.holds, self.becoming = holds, HoldState.OVER
        self.pending = pending
        self.request_id = number = self.request_id + 1
        return number

    def repeat(self, pending: Pending) -> None:
        """Note that the request has to be settled, under a new number: a copy of it may have run."""
        self.request_id += 1
        self.pending = pending
        self.state = DOUBTFUL

    def leave(self) -> None:
        """Note that no copy of it is under way any more."""
        self.state = UNDER_WAY.get(self.state, self.state)

    def doubt(self) -> None:
        """Note that a copy of it may have run."""
        self.state = IN_DOUBT.get(self.state, self.state)

    def open_until(self) -> float:
        """Until when it is worth settling."""
        if self.queued_ms:
            return self.until + max(2 * self.queued_ms / 1000, QUEUE_FOR)
        return self.until + LATE_FOR * (self.pending is Pending.ACQUIRE)
