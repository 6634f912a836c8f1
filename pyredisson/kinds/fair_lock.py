"""The fair lock: waiters acquire it in the order in which they asked, across processes.

Source: ``org.redisson.RedissonFairLock``. Waiters stand in a list in Redis, each with a score: the time until which it
counts as alive. Each is notified on a channel of its own. What differs on purpose: times are the server's; a waiter
that is alive keeps its place, however long it waits; one that leaves for any reason is removed, and the next one is
notified if the lock is free; an unlock of a lost lock is an error.

Redisson's scores do not tell which waiters are dead: each hand-over subtracts one wait from all of them, so they allow
for many waits. Our waiters therefore also store until when they can be alive: until their own wait ends, or
``Config.fair_lock_wait_timeout`` after their last heartbeat. A head whose time has passed is dropped, and the client of
the waiter behind it checks at that moment. A client watches only the waiters right before its own: a waiter that dies
or gives up costs one check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pyredisson.core.by_message import until_acquired
from pyredisson.core.kind import Waiting
from pyredisson.core.outcomes import WITHOUT_END, Refused
from pyredisson.core.replies import unusable
from pyredisson.core.runtime import PUBLISH
from pyredisson.core.waiters import Party
from pyredisson.kinds.lock import UNLOCKED, LockCore, PlainKind

if TYPE_CHECKING:
    from pyredisson.core.attempt import Attempt
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.hold import Hold
    from pyredisson.core.kind import LockKind
    from pyredisson.core.names import LockNames
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Reply, Request
    from pyredisson.core.waiters import Seat

#: Ten years. Sums of many more would leave the range in which Lua counts exactly.
MAX_WAIT_MS = 315_360_000_000

#: How much faster the server's clock may run than a client's.
FASTEST_CLOCK = 1.01


def queue_keys(names: LockNames) -> tuple[str, str, str]:
    """Return the keys of a fair lock's queue."""
    return names.queue, names.timeouts, names.alive


class Look(NamedTuple):
    """The reply to the heartbeats of waiters.

    Attributes:
        again: When the next one is due.
        next_owner: The owner whose turn it is, if the lock is free.
        missing: Those of the waiters who do not stand in the queue.
    """

    again: Refused
    next_owner: str | None
    missing: list[str]


def read_look(reply: Reply) -> Look:
    """Read the reply of ``fair_look``. Raises ``Unusable``."""
    match reply:
        case [int() as again_ms, bytes() as next_owner, *owners] if all(isinstance(owner, bytes) for owner in owners):
            missing = [owner.decode(errors="replace") for owner in owners if isinstance(owner, bytes)]
            again = Refused(again_ms) if again_ms >= 0 else WITHOUT_END
            return Look(again, next_owner.decode(errors="replace") or None, missing)
    raise unusable(reply)


class Patience:
    """How long an owner waits this time.

    Attributes:
        wait: Seconds; ``None``: without end.
    """

    __slots__ = ("_began", "wait")

    def __init__(self) -> None:
        self.wait: float | None = 0.0
        self._began = 0.0

    def begin(self, wait: float | None, now: float) -> None:
        """Begin to wait."""
        self.wait = wait
        self._began = now

    def left(self, now: float) -> float:
        """Return for how many more seconds it waits."""
        return math.inf if self.wait is None else self._began + self.wait - now


class InQueue(Waiting):
    """Waiting in a queue in Redis, in which each waiter has a channel of its own.

    Args:
        client: The client.
        names: The names of the lock.
        least_ms: The least time for which a waiter counts as alive.
    """

    announced = False  # Only the next owner is notified.

    def __init__(self, client: ClientCore, names: LockNames, least_ms: int) -> None:
        self._client = client
        self._names = names
        self.least_ms = least_ms
        self._party = Party(names.channel, self._look_after, least_ms / 3000)

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """See :meth:`Waiting.channel`; each waiter has its own."""
        return self._names.channel_of(ownership.owner)

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """See :meth:`Waiting.begin`; the place in the queue is kept for that long."""
        ownership.kind_state.begin(wait, now)

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        channel = self.channel(attempt.kind, attempt.ownership)
        return await until_acquired(attempt, refused, seen, deadline, channel=channel, party=self._party)

    def alive_ms(self, ownership: Ownership) -> int:
        """Return for how long an owner can be alive and wait, if this is its last heartbeat."""
        return alive_ms(ownership.kind_state.left(self._client.runtime.now()), self.least_ms / 1000)

    async def _look_after(self, seat: Seat) -> Refused:
        """Send the heartbeats of this client's waiters, and wake the next owner. Returns when the next are due."""
        client = self._client
        wakeups = client.wakeups
        seats, everybody = wakeups.to_look_after(seat)
        ownerships: list[Ownership] = [each.what.ownership for each in seats]
        waiters = (word for each in ownerships for word in (each.owner, each.queued_ms, self.alive_ms(each)))
        names = self._names
        request = client.runtime.prepare("fair_look", (names.raw, *queue_keys(names)), (self.least_ms, *waiters))
        look = read_look(await client.runtime.eval(request, client.attempt_timeout(client.watchdog.lease_ms)))
        if everybody:
            wakeups.look_after_all(seat, self._party.every)
        elif look.missing:
            wakeups.look_after_all(seat, 0)  # It lost its place (FLUSHALL, a long pause): perhaps all did.
        for owner in look.missing:
            wakeups.call(self._names.channel_of(owner))  # It joins the queue anew.
        if look.next_owner is not None:
            wakeups.call(self._names.channel_of(look.next_owner))
        return look.again


class FairKind(PlainKind):
    """The fair lock."""

    __slots__ = ("_queue", "waiting")

    word = "fair_lock"
    label = "fair"
    queues = True

    def __init__(self, client: ClientCore, names: LockNames) -> None:
        super().__init__(client, names)
        self._queue = InQueue(client, names, _whole_ms(client.config.fair_lock_wait_timeout))
        self.waiting: Waiting = self._queue

    def new_state(self) -> Patience:
        """See :meth:`LockKind.new_state`; the wait of an owner that has not acquired yet."""
        return Patience()

    def wait_ms(self, ownership: Ownership) -> int:
        """See :meth:`LockKind.wait_ms`."""
        wait = ownership.kind_state.wait
        return self._queue.least_ms if wait is None else _whole_ms(wait)

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; an owner that waits joins the queue with it."""
        wait_ms, least_ms = self.wait_ms(ownership), self._queue.least_ms
        joins = int(bool(wait_ms) and not count)
        args = hold.lease_ms, count, wait_ms or least_ms, least_ms, joins, self._queue.alive_ms(ownership)
        return self.request("fair_acquire", ownership, args, queue_keys(self.names), epoch=epoch, repeat=repeat)

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`; it also removes the owner from the queue."""
        args = lease_ms, count, PUBLISH, UNLOCKED, ownership.queued_ms
        keys = *queue_keys(self.names), self.names.channel
        return self.request("fair_release", ownership, args, keys, epoch=epoch, repeat=repeat)

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`; it notifies the head of the queue."""
        keys = *queue_keys(self.names), self.names.channel
        return self.request("fair_force_unlock", ownership, (PUBLISH, UNLOCKED), keys, epoch=epoch)


class NonReentrantFairKind(FairKind):
    """The fair lock that is not reentrant."""

    __slots__ = ()

    word = "non_reentrant_fair_lock"
    reentrant = False


class FairLockCore(LockCore):
    """One handle on a fair lock."""

    __slots__ = ()

    kind_type = FairKind


class NonReentrantFairLockCore(LockCore):
    """One handle on a fair lock that is not reentrant."""

    __slots__ = ()

    kind_type = NonReentrantFairKind


def alive_ms(left: float, heard_every: float) -> int:
    """Return for how many ms a waiter counts as alive that has ``left`` seconds to wait.

    It sends a heartbeat well within ``heard_every`` seconds. The server's clock may be the faster one.
    """
    return max(1, math.ceil(min(left, heard_every) * 1000 * FASTEST_CLOCK))


def _whole_ms(seconds: float) -> int:
    """Return a wait in whole milliseconds: at least one, unless it is 0."""
    return min(max(1, round(seconds * 1000)), MAX_WAIT_MS) if seconds > 0 else 0
