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
from pyredisson.core.outcomes import Refused
from pyredisson.core.runtime import Failure, Unanswered
from pyredisson.core.wakeups import Party
from pyredisson.kinds.lock import LockCore
from pyredisson.kinds.non_reentrant import NonReentrant

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson.core.client import ClientCore
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Request
    from pyredisson.core.wakeups import Seat

__all__ = ["FairLockCore", "NonReentrantFairLockCore"]

#: Ten years. Sums of many more would leave the range in which Lua counts exactly.
MAX_WAIT_MS = 315_360_000_000

#: How much faster the server's clock may run than a client's.
FASTEST_CLOCK = 1.01


class Waiting:
    """How long an owner means to wait this time.

    Attributes:
        patience: For how many seconds; ``None``: without end.
    """

    __slots__ = ("_began", "patience")

    def __init__(self) -> None:
        self.patience: float | None = 0.0
        self._began = 0.0

    def begin(self, patience: float | None, now: float) -> None:
        """It begins to wait."""
        self.patience = patience
        self._began = now

    def left(self, now: float) -> float:
        """For how many seconds it goes on waiting."""
        return math.inf if self.patience is None else self._began + self.patience - now


class FairLockCore(LockCore):
    """One handle on a fair lock."""

    __slots__ = ("_least_ms", "_party")

    kind = "fair"

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, name)
        self._least_ms = _whole_ms(client.config.fair_lock_wait_timeout)
        self._party = Party(self.names.channel, _look_after, self._least_ms / 3000)

    def channel(self, ownership: Ownership) -> str:
        """Each waiter has its own."""
        return self.names.channel_of(ownership.owner)

    def new_state(self) -> Waiting:
        """How long an owner waits, which has not asked yet."""
        return Waiting()

    def note_wait(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """Its place in the queue is believed in for as long as its owner means to wait."""
        ownership.kind_state.begin(wait, now)

    def party(self) -> Party:
        """All who wait for it in this client."""
        return self._party

    # ---- what it says to the server ------------------------------------------------------------------------------

    def acquire_request(self, ownership: Ownership, hold: Hold, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock; whoever means to wait queues up with it."""
        wait_ms = self._wait_ms(ownership)
        return scripts.acquire_fair(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            wait_ms=wait_ms or self._least_ms,
            least_ms=self._least_ms,
            alive_ms=self._alive_ms(ownership),
            queue=bool(wait_ms) and not holds,
        )

    def _acquire_request(self, ownership: Ownership, hold: Hold, holds: int, epoch: int, repeat: bool) -> Request:
        if ownership.kind_state.patience is None:
            return super()._acquire_request(ownership, hold, holds, epoch, repeat)
        return self.acquire_request(ownership, hold, holds, epoch, repeat)  # That of one wait: not worth keeping.

    def _wait_ms(self, ownership: Ownership) -> int:
        patience = ownership.kind_state.patience
        return self._least_ms if patience is None else _whole_ms(patience)

    def _alive_ms(self, ownership: Ownership) -> int:
        """For how long its owner can be alive, and wait, if nobody hears of it from now on."""
        return alive_ms(ownership.kind_state.left(self.client.runtime.now()), self._least_ms / 1000)

    def release_request(self, ownership: Ownership, lease_ms: int, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock. A place in the queue that the owner may have is given up with it."""
        return scripts.release_fair(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            queued_ms=ownership.queued_ms,
        )

    def force_request(self, ownership: Ownership, epoch: int) -> Request:
        """As for the reentrant lock; the head of the queue is told."""
        return scripts.force_unlock_fair(self.client.runtime, self.names, ownership.owner, epoch=epoch)

    # ---- acquiring -----------------------------------------------------------------------------------------------

    async def _make_ready(self, ownership: Ownership) -> None:
        await super()._make_ready(ownership)
        if ownership.pending is not None:
            await self.client.settle(ownership)  # A place from an earlier time is not taken over, but given up first.

    async def attempt(self, ownership: Ownership, hold: Hold) -> Answer:
        """As for the reentrant lock. From the first time on its owner may stand in the queue."""
        if ownership.kind_state.patience is not None:
            ownership.prepared.forget()  # Those are the bytes of a wait without end.
        queued_ms = ownership.queued_ms
        if not ownership.holds:
            ownership.may_stand_in_queue(self._wait_ms(ownership))
        try:
            return await super().attempt(ownership, hold)
        except Unanswered:
            raise
        except Failure:
            ownership.may_stand_in_queue(queued_ms)  # It had no effect: whoever was not in the queue is not in it now.
            raise

    async def look_after(self, seat: Seat) -> Refused:
        """On behalf of those who wait here: say that they are alive, and learn whether it is the turn of one of them.

        What it returns says for how long there is nothing more to learn.
        """
        client = self.client
        wakeups = client.wakeups
        seats, everybody = wakeups.to_look_after(seat)
        ownerships: list[Ownership] = [each.what.ownership for each in seats]
        request = scripts.look_after_fair(
            client.runtime,
            self.names,
            [
                scripts.Waiter(ownership.owner, ownership.queued_ms, self._alive_ms(ownership))
                for ownership in ownerships
            ],
            least_ms=self._least_ms,
        )
        reply = await client.runtime.eval(request, client.attempt_timeout(self._plain.lease_ms))
        look = scripts.read_look(reply)
        if everybody:
            wakeups.look_after_all(seat, self._party.every)
        elif look.missing:
            wakeups.look_after_all(seat, 0)  # Its place is lost (to FLUSHALL, or a long pause): perhaps all are.
        for owner in look.missing:
            wakeups.call(self.names.channel_of(owner))  # It asks for a place by itself.
        if look.next_owner is not None:
            wakeups.call(self.names.channel_of(look.next_owner))
        return Refused(look.again_ms if look.again_ms >= 0 else None)

    def _give_way(self, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """Nobody overtakes anybody here."""
        return None

    def waited(self, ownership: Ownership, now: float) -> None:
        """See :meth:`_give_way`."""

    def note_waiters(self, ownership: Ownership, heard: int, sent: float) -> None:
        """Nobody overtakes anybody here: there is no need to give way."""


class NonReentrantFairLockCore(NonReentrant, FairLockCore):
    """One handle on a fair lock that is not reentrant."""

    __slots__ = ()


def _look_after(seat: Seat) -> Coroutine[Any, Any, Refused]:
    lock = seat.what.lock
    assert isinstance(lock, FairLockCore)
    return lock.look_after(seat)


def alive_ms(left: float, heard_every: float) -> int:
    """For how many ms from now on the server may take a waiter to be alive that has so many seconds ``left`` to wait.

    It says that anew well within ``heard_every`` seconds, and until its own patience is over; then it has left. The
    server's clock may be the faster one.
    """
    return max(1, math.ceil(min(left, heard_every) * 1000 * FASTEST_CLOCK))


def _whole_ms(seconds: float) -> int:
    """A wait for the server: whole milliseconds, at least one unless it is none at all."""
    return min(max(1, round(seconds * 1000)), MAX_WAIT_MS) if seconds > 0 else 0
