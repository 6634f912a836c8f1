"""The fair lock: whoever asks first gets it first, across processes.

Source: ``org.redisson.RedissonFairLock``. Those who wait stand in a list in Redis, each with a time until when it is
believed to be there, and hear on channels of their own that it is their turn. What differs on purpose: times are the
server's; a waiter that is alive keeps its place, however long it waits; one that leaves gives its place up, whatever
made it leave, and lets the next one know if the lock is free; an unlock of a lock that is gone says so.

Those times, Redisson's scores, are no measure of who is dead: every hand-over takes one wait off all of them, so they
have room for many. Each of ours therefore says beside them until when it can be alive: until its own patience is over,
or ``Config.fair_lock_wait_timeout`` after it was heard of last. A head whose time is over is dropped, and the client of
whoever stands right behind it looks at that moment. Each client keeps an eye on those before its own waiters, and on
nobody else: one death, or one wait that ends, costs one look.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.by_message import Attempt, until_acquired
from pyredisson.core.names import LockNames
from pyredisson.core.outcomes import Refused
from pyredisson.core.waiters import Party
from pyredisson.kinds.lock import LockCore, PlainKind

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import LockKind, Waiting
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Request
    from pyredisson.core.waiters import Seat

__all__ = ["FairKind", "FairLockCore", "InQueue", "NonReentrantFairKind", "NonReentrantFairLockCore", "Patience"]

#: Ten years. Sums of many more would leave the range in which Lua counts exactly.
MAX_WAIT_MS = 315_360_000_000

#: How much faster the server's clock may run than a client's.
FASTEST_CLOCK = 1.01


class Patience:
    """How long an owner means to wait this time.

    Attributes:
        wait: For how many seconds; ``None``: without end.
    """

    __slots__ = ("_began", "wait")

    def __init__(self) -> None:
        self.wait: float | None = 0.0
        self._began = 0.0

    def begin(self, wait: float | None, now: float) -> None:
        """It begins to wait."""
        self.wait = wait
        self._began = now

    def left(self, now: float) -> float:
        """For how many seconds it goes on waiting."""
        return math.inf if self.wait is None else self._began + self.wait - now


class InQueue:
    """Those who wait stand in a queue in Redis, each with a channel of its own.

    Args:
        client: The client.
        names: The names of the lock.
        least_ms: For how long any waiter is believed in.
    """

    announced = False  # But to the one whose turn it is.

    def __init__(self, client: ClientCore, names: LockNames, least_ms: int) -> None:
        self._client = client
        self._names = names
        self.least_ms = least_ms
        self._party = Party(names.channel, self._look_after, least_ms / 3000)

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """Each waiter has its own."""
        return self._names.channel_of(ownership.owner)

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """Its place in the queue is believed in for as long as its owner means to wait."""
        ownership.kind_state.begin(wait, now)
        if wait is not None:
            ownership.prepared.forget_acquire()  # Those are the bytes of a wait without end.

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """Nobody overtakes anybody here: there is no need to yield."""
        return None

    def released(self, client: ClientCore, kind: LockKind, ownership: Ownership, heard: int, sent: float) -> None:
        """See :meth:`yields`."""

    async def wait(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: Hold,
        refused: Refused,
        seen: int | None,
        deadline: Deadline,
    ) -> bool:
        """See :meth:`Waiting.wait`."""
        made = Attempt(client, kind, ownership, hold)
        channel = self.channel(kind, ownership)
        return await until_acquired(made, refused, seen, deadline, channel=channel, party=self._party)

    def alive_ms(self, ownership: Ownership) -> int:
        """For how long its owner can be alive, and wait, if nobody hears of it from now on."""
        return alive_ms(ownership.kind_state.left(self._client.runtime.now()), self.least_ms / 1000)

    async def _look_after(self, seat: Seat) -> Refused:
        """On behalf of those who wait here: say that they are alive, and learn whether it is the turn of one of them.

        What it returns says for how long there is nothing more to learn.
        """
        client = self._client
        wakeups = client.wakeups
        seats, everybody = wakeups.to_look_after(seat)
        ownerships: list[Ownership] = [each.what.ownership for each in seats]
        waiters = [scripts.Waiter(each.owner, each.queued_ms, self.alive_ms(each)) for each in ownerships]
        request = scripts.look_after_fair(client.runtime, self._names, waiters, least_ms=self.least_ms)
        reply = await client.runtime.eval(request, client.attempt_timeout(client.watchdog.lease_ms))
        look = scripts.read_look(reply)
        if everybody:
            wakeups.look_after_all(seat, self._party.every)
        elif look.missing:
            wakeups.look_after_all(seat, 0)  # Its place is lost (to FLUSHALL, or a long pause): perhaps all are.
        for owner in look.missing:
            wakeups.call(self._names.channel_of(owner))  # It asks for a place by itself.
        if look.next_owner is not None:
            wakeups.call(self._names.channel_of(look.next_owner))
        return Refused(look.again_ms if look.again_ms >= 0 else None)


class FairKind(PlainKind):
    """What a fair lock says to the server."""

    __slots__ = ("_queue", "waiting")

    label = "fair"
    queues = True

    def __init__(self, client: ClientCore, names: LockNames) -> None:
        super().__init__(client, names)
        self._queue = InQueue(client, names, _whole_ms(client.config.fair_lock_wait_timeout))
        self.waiting: Waiting = self._queue

    def new_state(self) -> Patience:
        """How long an owner waits, which has not asked yet."""
        return Patience()

    def constant(self, ownership: Ownership) -> bool:
        """The requests of one wait are not worth keeping."""
        return ownership.kind_state.wait is None

    def wait_ms(self, ownership: Ownership) -> int:
        """See :meth:`LockKind.wait_ms`."""
        wait = ownership.kind_state.wait
        return self._queue.least_ms if wait is None else _whole_ms(wait)

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; an owner that means to wait queues up with it."""
        wait_ms, least_ms = self.wait_ms(ownership), self._queue.least_ms
        return scripts.acquire_fair(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=count,
            epoch=epoch,
            repeat=repeat,
            wait_ms=wait_ms or least_ms,
            least_ms=least_ms,
            alive_ms=self._queue.alive_ms(ownership),
            queue=bool(wait_ms) and not count,
        )

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`. A place in the queue that the owner may have is given up with it."""
        return scripts.release_fair(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=lease_ms,
            holds=count,
            epoch=epoch,
            repeat=repeat,
            queued_ms=ownership.queued_ms,
        )

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`; the head of the queue is told."""
        return scripts.force_unlock_fair(self.client.runtime, self.names, ownership.owner, epoch=epoch)


class NonReentrantFairKind(FairKind):
    """As a fair lock, acquired once."""

    __slots__ = ()

    reentrant = False


class FairLockCore(LockCore):
    """One handle on a fair lock."""

    __slots__ = ()

    def __init__(self, client: ClientCore, name: str) -> None:
        names = LockNames(name)
        super().__init__(client, names, FairKind(client, names))


class NonReentrantFairLockCore(LockCore):
    """One handle on a fair lock that is not reentrant."""

    __slots__ = ()

    def __init__(self, client: ClientCore, name: str) -> None:
        names = LockNames(name)
        super().__init__(client, names, NonReentrantFairKind(client, names))


def alive_ms(left: float, heard_every: float) -> int:
    """For how many ms from now on the server may take a waiter to be alive that has so many seconds ``left`` to wait.

    It says that anew well within ``heard_every`` seconds, and until its own patience is over; then it has left. The
    server's clock may be the faster one.
    """
    return max(1, math.ceil(min(left, heard_every) * 1000 * FASTEST_CLOCK))


def _whole_ms(seconds: float) -> int:
    """A wait for the server: whole milliseconds, at least one unless it is none at all."""
    return min(max(1, round(seconds * 1000)), MAX_WAIT_MS) if seconds > 0 else 0
