"""One hold of a lock: what is released, extended, lost or counted is this very hold; and the blocks that have one.

Its states:

========== ==========================================================================================================
state      what ends it
========== ==========================================================================================================
NEW        a grant
HELD       a release; an unlock, if it is lost; the end of a fixed lease; the wait of a condition
GIVEN_UP   that wait has ended, and it is held again
LEFT       that wait has ended: its block was left meanwhile
ENDED      its unlock, which raises an error: its fixed lease ran out, or its lease behind an unlock that had failed
LOST       the end of its block, which is under way, and raises an error: it was to be released behind another request
RELEASED   the unlock of its multi-lock, which is called again and may wait for other members
OVER       nothing
========== ==========================================================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from pyredisson._core import events
from pyredisson._core.deadline import Seconds, optional_lease_ms, wait_seconds
from pyredisson._core.failures import OUR_ERRORS, gives_way
from pyredisson._core.names import owner_field
from pyredisson.errors import LockLostError, LockNotOwnedError, LockTimeoutError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import Caller, HandleOwner, Trace
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Progress, Runtime
    from pyredisson.lease import Lease


class HoldState(Enum):
    """What has become of a hold."""

    NEW = "new"
    HELD = "held"
    GIVEN_UP = "given up"
    LEFT = "left"
    ENDED = "ended"
    LOST = "lost"
    RELEASED = "released"
    OVER = "over"


class SingleHold:
    """One hold among the nested ones of an owner.

    Attributes:
        lease_ms: The lease it was taken with.
        loss: Why it is lost, if a condition that had given it up does not hold it again.
        lost: Whether it was lost with all that its owner held; also when it is held no longer.
        certain: For how many seconds after sending that lease is certain.
        watchdog: Renewed until it is released.
        watched: Its holder is notified when it is lost. A plain hold with a fixed lease is not: it simply ends.
        block: Returns the lease of the ``hold()`` that this is, ``None`` once it was dropped. Without it, the hold is
            its owner's.
        whole: The hold of a multi-lock that this is a part of.
        token: What identifies this hold, for locks that have such a thing.
        since: When it was asked for.
        renewals_left: How often it may be renewed yet; ``None``: without a limit.
        state: What has become of it.
        trace: Returns what stands for it in contexts, as long as that is in one.
    """

    __slots__ = (
        "block",
        "certain",
        "lease_ms",
        "loss",
        "lost",
        "renewals_left",
        "since",
        "state",
        "token",
        "trace",
        "watchdog",
        "watched",
        "whole",
    )

    def __init__(
        self, lease_ms: int, certain: float, *, watchdog: bool, block: bool = False, whole: Any = None
    ) -> None:
        self.lease_ms: int = lease_ms
        self.loss: str | None = None
        self.lost: bool = False
        self.certain: float = certain
        self.watchdog: bool = watchdog
        self.watched: bool = watchdog or block  # The body of hold() wants to know, whatever its lease.
        self.block: Callable[[], object | None] | None = None
        self.whole: Any = whole
        self.token: int | None = None
        self.since: float = 0.0
        self.renewals_left: int | None = None
        self.state: HoldState = HoldState.NEW
        self.trace: Callable[[], Trace | None] | None = None

    @classmethod
    def endless(cls) -> SingleHold:
        """Return a hold without a lease: what it holds does not expire."""
        return cls(0, math.inf, watchdog=False)

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdog renews it."""
        return None if self.watchdog else self.lease_ms / 1000

    def number(self, token: int) -> None:
        """Note the token that the server has given it."""
        self.token = token

    def become(self, state: HoldState) -> None:
        """Change its state, also for the contexts in which it is visible."""
        self.state = state
        trace = self.trace
        if trace is not None and (known := trace()) is not None:
            known.state = state


def check_skip(skip: object) -> None:
    """Raise ``TypeError`` unless it says whether a block runs without what it does not acquire in time."""
    if not isinstance(skip, bool):
        raise TypeError(f"skip must be True or False, not {type(skip).__name__}")


# ---- liveness --------------------------------------------------------------------------------------------------------
# Whether the holder of locks or permits lives, and the error for one that comes too late.


#: Why a hold has ended of which nothing else is known.
ENDED: Final = "its lease expired"

#: What is added to that if its lease is a fixed one.
NOT_RENEWED: Final = ", and nothing renews a fixed lease"

#: Why a hold is lost that a condition has given up.
FORFEITED: Final = "a condition released it for its wait, and could not acquire it again"

#: The same if its client was closed during that wait, which says so by its error: that is not reported as a loss.
CLOSED_IN_WAIT: Final = "its client was closed during the wait of a condition, which releases it"

#: Why what a call is about is not held any more, though it was not lost.
LEFT_MEANWHILE: Final = "it was released or force-unlocked inside its block"

#: How a loss is explained that the server reported.
GONE = "its key no longer exists or belongs to another owner (expired, force-unlocked or evicted)"


def holder_alive(held: Ownership) -> bool:
    """Whether there is a caller to release it: its owner in the same call chain, or the block of a ``hold()``."""
    holds, alive = list(held.holds), held.who.alive()
    if held.who.closed() and held.renewable():
        return False  # Its blocks can be left yet.
    for hold in holds:
        if hold.block is not None:
            if hold.block() is not None:
                return True
        elif alive and not (held.who.is_shared and hold.trace is not None and hold.trace() is None):
            return True  # Else the call chain in which it was acquired has ended, and its thread goes on with others.
    return alive and not holds


def gone_hint(held: Ownership, left: Sequence[SingleHold]) -> str:
    """Explain why no one can release these holds of it any more; empty if there are none."""
    if not left:
        return ""
    if all(hold.block is not None for hold in left) and not held.who.closed():
        return "the object that hold() returned was dropped without leaving its block"
    return held.who.gone_hint()


class InMargin(str):
    """The reason for a loss before the lease ends on the server: by ``Config.loss_margin``.

    It says when that is only as long as its owner has asked the server for nothing else: what is released ends at once.

    Attributes:
        held: What was lost.
        holds: Its holds.
        request_id: The number of the last request for that, at the loss.
        until: When its lease ends on the server.
        now: The clock by which it does.
    """

    __slots__ = ("held", "holds", "now", "request_id", "until")

    held: Ownership
    holds: tuple[SingleHold, ...]
    now: Callable[[], float]
    request_id: int
    until: float

    def __reduce__(self) -> Any:
        return str, (str(self),)

    def left(self) -> float | None:
        """Return the seconds until another owner can begin; negative: since then; ``None``: it is not known."""
        held = self.held
        return self.until - self.now() if held.pending is None and held.request_id == self.request_id else None


class InTime(str):
    """The reason for a loss whose lock was given up before its lease ended on the server: ``left`` seconds before."""

    __slots__ = ("left",)

    left: float


def given_up(reason: str) -> str:
    """Return the reason for a loss as it is for one who is about to release what may still stand on the server."""
    left = reason.left() if isinstance(reason, InMargin) else None
    if left is None:
        return str(reason)
    if left <= 0:
        return f"{reason}. The lease ended {-left:.1f} s ago"
    early = InTime(reason)
    early.left = left
    return early


def why_expired(held: Ownership) -> str:
    """Return why something is lost at its deadline, now that it has passed."""
    if held.kind is None:
        return ENDED
    client, more = held.kind.client, NOT_RENEWED
    if any(hold.watchdog for hold in held.holds):
        more = f"{': its client was closed' if client.closed else ''} before it could be renewed"
    margin, now = client.config.loss_margin, client.runtime.now
    # What was to be released, or is in doubt, may have ended on the server before.
    if held.doubtful or held.pending is not None or now() >= held.deadline + margin:
        return f"{ENDED}{more}"
    ending = InMargin(f"its lease has {margin:g} s left (Config.loss_margin){more}")
    ending.held, ending.holds, ending.request_id = held, (*held.holds,), held.request_id
    ending.until, ending.now = held.deadline + margin, now
    return ending


def lost_error(held: Owned, reason: str = GONE, *, confirmed: bool = True) -> LockLostError:
    """The error for a holder who comes to use or to release what it lost.

    ``confirmed``: whether the server has confirmed that what was given up had not been taken away.
    """
    lost = f"{held.what} {held.name!r} was lost by {held.who.describe()}: {reason}"
    left = reason.left() if isinstance(reason, InMargin) else None
    early = isinstance(reason, InTime) or (left is not None and left > 0)
    if left is not None and left > 0:
        text = (
            f"{lost}. Unless it was taken away, no one else can acquire it for another {left:.1f} s: stop what it "
            "protects before that"
        )
    elif isinstance(reason, InTime) and not confirmed:
        text = (
            f"{lost}. Unless it was taken away, it was given up {reason.left:.1f} s before anyone else could acquire it"
        )
    elif early:
        text = f"{lost}. It was given up before anyone else could acquire it"
    else:
        over = "" if left is None else f". The lease ended {-left:.1f} s ago"
        text = f"{lost}{over}. Work done since then may have overlapped with {held.overlaps}"
    error = LockLostError(text, name=held.name)
    error._early, error._confirmed = early, confirmed
    return error


# ---- owned -----------------------------------------------------------------------------------------------------------
# What a :class:`pyredisson.Lease` can be of: what an owner holds of a lock, or one hold of a multi-lock.


class CallNote:
    """Notes on what is held that a thread is in the middle of a call on it.

    Attributes:
        thread: The thread; 0: the call has ended. That is an assignment, and signal handlers run at calls and in loops:
            whatever they raise, no note outlives its call.
    """

    __slots__ = ("thread",)

    def __init__(self, thread: int) -> None:
        self.thread: int = thread


NO_CALL: Final = CallNote(0)


class Owned(ABC):
    """What is held. Plain state, to which a :class:`pyredisson.Lease` can be.

    Attributes:
        name: The name of the lock, or of what else it is.
        owner: The owner's field in Redis.
        who: The owner.
        loss: Why it was lost, if it was.
        on_loss: Called when it is lost, each with the hold whose loss it is about.
    """

    __slots__ = ("__weakref__", "loss", "name", "on_loss", "owner", "who")

    def __init__(self, name: str, owner: str, who: Caller) -> None:
        self.name: str = name
        self.owner: str = owner
        self.who: Caller = who
        self.loss: str | None = None
        #: Each is added and removed in one step: blocks of one owner begin and end in several threads.
        self.on_loss: dict[Callable[[], None], Any] = {}

    @property
    def what(self) -> str:
        """What is held, in messages."""
        return "lock"

    @property
    def overlaps(self) -> str:
        """With whom its holder may have worked at the same time after a loss, and what to do about it."""
        return "another holder; protect such writes with a fencing token"

    @abstractmethod
    def remaining_of(self, hold: Any, now: float) -> float:
        """Return the seconds for which this hold is certain."""

    def given_up(self, hold: Any) -> bool:
        """Whether this hold is not held for as long as a condition waits, which takes it again."""
        return hold.state is HoldState.GIVEN_UP

    def ended_by_owner(self, hold: Any) -> bool:
        """Whether its owner has released this hold, or is releasing it: that is no loss."""
        return hold.state is HoldState.OVER

    @abstractmethod
    def why_ended(self) -> str:
        """Why it is held no longer than until its deadline, unless it was lost."""

    def call_when_lost(self, hold: Any, callback: Callable[[], None]) -> None:
        """Call this, too, when this hold is lost."""
        self.on_loss[callback] = hold

    def call_no_more(self, callback: Callable[[], None]) -> None:
        """Its block was left."""
        self.on_loss.pop(callback, None)

    def call_nothing(self) -> None:
        """No one can leave its blocks any more."""
        self.on_loss.clear()


@final
class LossCallback:
    """The callback of one block, called once if its hold is lost; also if leaving the block finds that out."""

    __slots__ = ("_callbacks", "_held", "_hold", "_runtime")

    def __init__(self, callback: Callable[[], object], held: Owned, hold: Any, runtime: Runtime) -> None:
        self._callbacks = [callback]
        self._held = held
        self._hold = hold
        self._runtime = runtime
        held.call_when_lost(hold, self.call)
        if held.loss is not None:  # It was lost since it was acquired.
            self.call()

    def call(self) -> None:
        """Call it, unless that was done."""
        with suppress(IndexError):
            self._runtime.call_back(self._callbacks.pop())

    def end(self) -> None:
        """Its block was left, maybe between the loss and its report."""
        self._held.call_no_more(self.call)
        if self._hold.lost:
            self.call()


# ---- blocks ----------------------------------------------------------------------------------------------------------
# How blocks are entered and left, also after their client was closed.
#
# ``close()`` ends connections, renewals and the settling of requests, but releases nothing: a block that runs still is
# protected until the deadline of its hold. When it is left before that, its release is sent once, on a connection of
# its own. What comes of it is no error of the block's: its work was done while it held the lock, and what is not
# released expires.


T = TypeVar("T")
HeldT = TypeVar("HeldT", bound=Owned)


class HolderCore(ABC, Generic[HeldT]):
    """One handle on a lock, or on several as one: how owners acquire it, and how their blocks are entered and left.

    Attributes:
        client: The client; of several the first.
        made_for: The owner that the user made, if it acts for one.
    """

    __slots__ = ()

    client: ClientCore
    made_for: HandleOwner | None
    #: What was used last, for the fast path.
    last: HeldT | None = None

    @abstractmethod
    def clients(self) -> tuple[str, Sequence[ClientCore]]:
        """Return its name, and the clients of its locks."""

    def owner(self) -> Caller:
        """Return the owner: the calling thread or task, unless this handle acts for another one."""
        caller = self.client.runtime.owner()  # In any case: it checks the event loop.
        return self.made_for or caller

    def check_lease(self, lease: int) -> None:
        """Raise ``ValueError`` for a fixed lease, in ms, of which the loss margin of a client leaves nothing."""
        for client in self.clients()[1]:
            client.check_lease(lease)

    # ---- acquiring -----------------------------------------------------------------------------------------------

    async def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> bool:
        """Acquire it, waiting at most ``wait_time``.

        Raises:
            LockTimeoutError: All tries were in vain, and there is no time limit: its caller may ignore the result.
        """
        hold = self.new_hold(optional_lease_ms(lease_time))
        wait = wait_seconds(wait_time)
        acquired = await self.acquire_hold(wait, hold)
        if not acquired and wait is None:
            raise await self.timeout_error(None)
        return acquired

    def begin_block(self, lease: int | None) -> tuple[Any, HeldT, Lease]:
        """Return what a block is to acquire, what its caller has by it, and the lease of that.

        ``lease`` is in ms; ``None``: renewed. All is made before: once it is acquired, nothing is left to interrupt.
        """
        hold = self.new_hold(lease, block=True)
        held, extending = self.held_with(hold)
        return hold, held, self.client.runtime.lease(held, hold, self.client.runtime, extending)

    @abstractmethod
    def new_hold(self, lease: int | None, *, block: bool = False) -> Any:
        """Return what is to be acquired: one hold, with a lease in ms; ``None``: it is renewed."""

    @abstractmethod
    def held_with(self, hold: Any) -> tuple[HeldT, Callable[[int], Coroutine[Any, Any, bool]]]:
        """Return what the caller will have with a hold, and what extends that."""

    def acquire_hold(self, wait: float | None, hold: Any, held: HeldT | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire it for a hold, waiting at most ``wait`` seconds; ``None``: without end. ``held``: if it is known."""
        acquiring = self.acquire_as_owner(wait, hold, held)
        return acquiring if self.made_for is None else self.made_for.alone(acquiring)

    @abstractmethod
    async def acquire_as_owner(self, wait: float | None, hold: Any, held: HeldT | None) -> bool:
        """Do as :meth:`acquire_hold`, while its owner makes no other call."""

    @abstractmethod
    async def timeout_error(self, wait: float | None, held: HeldT | None = None) -> LockTimeoutError:
        """Return the error for an owner that did not acquire it within ``wait`` seconds, or by all its tries."""

    # ---- releasing -----------------------------------------------------------------------------------------------

    async def unlock(self, progress: Progress | None = None) -> None:
        """Release one hold of the caller, or complete its last release, if that could not be settled.

        ``progress``: see ``run_to_the_end``.
        """
        unlocking = self.unlock_as_owner(progress)
        await (unlocking if self.made_for is None else self.made_for.alone(unlocking))

    @abstractmethod
    async def unlock_as_owner(self, progress: Progress | None) -> None:
        """Do as :meth:`unlock`, while its owner makes no other call."""

    async def leave(
        self, error: BaseException | None = None, progress: Progress | None = None, lease: Lease | None = None
    ) -> None:
        """Release the hold of a block that ended with ``error``, which takes precedence over any error of ours.

        Args:
            error: The error that ended the block.
            progress: See ``run_to_the_end``.
            lease: The lease from :meth:`hold`. The hold is its, in whatever thread or task the block is left.
        """
        if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
            held = self.held_by_block(lease) if lease is not None else self._held_by_closed_block()
            if held is not None:
                await self.hand_over(held, lease, error)
            return
        try:
            if lease is not None:
                lease._check_process()
            owner = self.owner()
            name, clients = self.clients()
            for client in clients[1:]:
                if not client.closed:
                    client.runtime.owner()  # This one, too, becomes another client on a new event loop.
            leaving = self.leave_block(progress, lease)
            if True in [client.closed for client in clients]:
                key = name, owner_field(self.client.id, owner.number)
                found = await leave_closed(clients, key, leaving)
            else:
                found = await leaving
            if found is False:
                for client in clients:
                    client.check_open()
        except Exception as ours:
            if not gives_way(ours, error):
                raise

    @abstractmethod
    async def leave_block(self, progress: Progress | None, lease: Lease | None) -> bool:
        """Release the hold of a block: that of its lease, or the caller's innermost.

        Returns ``False`` if a client was closed, and there is no such hold any more.
        """

    @abstractmethod
    async def hand_over(self, held: HeldT, lease: Lease | None, error: GeneratorExit) -> None:
        """Release what a block holds in which a generator is closed: in the background, if that can await nothing."""

    def releases(self, held: Any) -> bool:
        """Return whether what was acquired can be released; not if the client is another one since, as after a fork."""
        return bool(held.owner.startswith(self.client.id))

    def held_by_block(self, lease: Lease) -> HeldT | None:
        """Return what a ``hold()`` has acquired, if it can be released, or was lost."""
        held: Any = lease._held
        return held if held.loss is not None or self.releases(held) else None

    def _held_by_closed_block(self) -> HeldT | None:
        """Return what the calling task holds, or the task whose asynchronous generator it is closing."""
        try:
            return next(iter(self.held_here()), None)
        except RuntimeError:
            return None  # It is closed where no task runs.

    @abstractmethod
    def held_here(self) -> Sequence[HeldT]:
        """Return what the caller holds; if that is nothing, what is visible in its context."""


async def leave_closed(
    clients: Sequence[ClientCore], key: tuple[str, str], release: Coroutine[Any, Any, T]
) -> T | None:
    """Make the release of a block; some of these clients are closed. An error of the server is reported, not raised.

    ``key``: the names of what is released and of its owner.

    Raises:
        LockNotOwnedError: The block held it no longer.
    """
    closed = [client for client in clients if client.closed]
    for client in closed:
        client.runtime.reopen()
    try:
        released = await release
        for client in closed:
            await client.presence.end()
        return released
    except (LockNotOwnedError, OutcomeUnknownError) as error:
        if isinstance(error, LockNotOwnedError):
            raise
    except tuple(OUR_ERRORS) as error:
        closed[0].emit(events.OutcomeUnknown(*key, "the release of a block", error))
    finally:
        for client in closed:
            client.runtime.close_again()
            client.watchdog.report_when_closed()
    return None
