"""The fair lock: whoever asks first gets it first, across processes.

Source: ``org.redisson.RedissonFairLock``. Those who wait stand in a list in Redis, each with a time until when it is
believed to be there, and hear on channels of their own that it is their turn. What differs on purpose: times are the
server's; a waiter that is alive keeps its place, however long it waits; one that leaves gives its place up, whatever
made it leave, and lets the next one know if the lock is free; an unlock of a lock that is gone says so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.lock import LockCore
from pyredisson.core.non_reentrant import NonReentrant
from pyredisson.core.runtime import Failure, Refused, Unanswered
from pyredisson.core.waiting import until_taken
from pyredisson.core.wakeups import Party

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.holds import Claim, Level
    from pyredisson.core.runtime import Request
    from pyredisson.core.wakeups import Seat

__all__ = ["FairLockCore", "NonReentrantFairLockCore"]

#: Ten years. Sums of many more would leave the range in which Lua counts exactly.
MAX_WAIT_MS = 315_360_000_000


class FairLockCore(LockCore):
    """One handle on a fair lock."""

    __slots__ = ("_least_ms",)

    kind = "fair"

    def __init__(self, home: ClientCore, name: str) -> None:
        super().__init__(home, name)
        self._least_ms = _whole_ms(home.config.fair_lock_wait_timeout)

    def channel(self, claim: Claim) -> str:
        """Each waiter has its own."""
        return self.names.channel_of(claim.owner)

    # ---- what it says to the server ------------------------------------------------------------------------------

    def acquire_request(self, claim: Claim, level: Level, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock; whoever means to wait queues up with it."""
        queue = bool(claim.patience_ms) and not holds
        if queue:
            # Twice as long as anybody believes in one who is next, and the time of the lease that it waits for.
            wait = max(claim.patience_ms, self._least_ms)
            claim.queue(claim.patience_ms, self.home.runtime.now() + (2 * wait + level.lease_ms) / 1000)
        return scripts.acquire_fair(
            self.home.runtime,
            self.names,
            claim.owner,
            lease_ms=level.lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            wait_ms=claim.patience_ms or self._least_ms,
            least_ms=self._least_ms,
            queue=queue,
        )

    def _acquire_request(self, claim: Claim, level: Level, holds: int, epoch: int, repeat: bool) -> Request:
        return self.acquire_request(claim, level, holds, epoch, repeat)  # It differs with the wait: none is kept.

    def release_request(self, claim: Claim, lease_ms: int, holds: int, epoch: int, repeat: bool) -> Request:
        """As for the reentrant lock. A place in the queue that the owner may have is given up with it."""
        return scripts.release_fair(
            self.home.runtime,
            self.names,
            claim.owner,
            lease_ms=lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
            queued_ms=claim.queued_ms,
        )

    def force_request(self, claim: Claim, epoch: int) -> Request:
        """As for the reentrant lock; the head of the queue is told."""
        return scripts.force_unlock_fair(self.home.runtime, self.names, claim.owner, epoch=epoch)

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def _take(self, wait: float | None, level: Level, claim: Claim | None = None) -> Coroutine[Any, Any, bool]:
        if claim is None:
            claim = self._claim(self.home.runtime.owner())
        claim.patience_ms = self._least_ms if wait is None else _whole_ms(wait)
        return super()._take(wait, level, claim)

    async def _make_ready(self, claim: Claim) -> None:
        await super()._make_ready(claim)
        if claim.pending is not None:
            await self.home.settle(claim)  # A place from an earlier time is not taken over, but given up first.

    async def _attempt(self, claim: Claim, level: Level) -> int | None:
        queued_ms = claim.queued_ms
        try:
            return await super()._attempt(claim, level)
        except Unanswered:
            raise
        except Failure:
            claim.queued_ms = queued_ms  # It had no effect: whoever was not in the queue is not in it now.
            raise

    async def _wait(self, claim: Claim, level: Level, refused: int, seen: int | None, deadline: Deadline) -> bool:
        home = self.home
        every = self._least_ms / 3000
        taken = False
        try:
            taken = await until_taken(
                partial(self._attempt, claim, level),
                refused,
                runtime=home.runtime,
                wakeups=home.wakeups,
                channel=self.channel(claim),
                kind=self.kind,
                message=self.message,
                seen=seen,
                deadline=deadline,
                free_after=level.lease_ms / 1000,
                party=Party(self.names.channel, claim, self._look, every),
            )
        except Refused:
            await self._leave_queue(claim)
            raise
        except Failure:
            if claim.stop_waiting() or claim.pending is not None:
                home.watchdog.settle(claim)  # The server is away.
            raise
        except Exception:
            await self._leave_queue(claim)
            raise
        if not taken:
            await self._leave_queue(claim)
        return taken

    async def _leave_queue(self, claim: Claim) -> None:
        """The owner waits no longer: its place is given up, and what an unanswered request may have taken."""
        if claim.stop_waiting() or claim.pending is not None:
            await self.home.settle_on_leaving(claim)

    async def _look(self, seat: Seat) -> int:
        """On behalf of those who wait here: say that they are alive, and whether it is the turn of one of them."""
        home = self.home
        wakeups = home.wakeups
        assert seat.party is not None
        everybody: list[Claim] | None = wakeups.everybody(seat)
        waiters: list[Claim] = [seat.party.who] if everybody is None else everybody
        request = scripts.look_after_fair(
            home.runtime,
            self.names,
            [(claim.owner, claim.queued_ms) for claim in waiters],
            least_ms=self._least_ms,
        )
        reply = await home.runtime.eval(request, home.attempt_timeout(self._plain.lease_ms))
        look = scripts.read_look(reply)
        if everybody is not None:
            wakeups.look_after_all(seat, seat.party.every)
        elif look.missing:
            wakeups.look_after_all(seat, 0)  # Its place is lost (to FLUSHALL, or a long pause): perhaps all are.
        for owner in look.missing:
            wakeups.call(self.names.channel_of(owner))  # It asks for a place by itself.
        if look.turn is not None:
            wakeups.call(self.names.channel_of(look.turn))
        return look.again_ms

    def _note_waiters(self, claim: Claim, heard: int, sent: float) -> None:
        pass  # Nobody overtakes anybody here: there is no need to give way.


class NonReentrantFairLockCore(NonReentrant, FairLockCore):
    """One handle on a fair lock that is not reentrant."""

    __slots__ = ()


def _whole_ms(seconds: float) -> int:
    """A wait for the server: whole milliseconds, at least one unless it is none at all."""
    return min(max(1, round(seconds * 1000)), MAX_WAIT_MS) if seconds > 0 else 0
