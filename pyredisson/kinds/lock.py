"""The reentrant lock: Redisson's ``RLock``, with holds that are counted exactly once and losses that are reported.

Source: ``org.redisson.RedissonLock``. What differs on purpose: a TTL is never lowered; a request carries the number of
holds that its client counts, so that repeating it is safe; a lost hold is an error, not a silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pyredisson.core import scripts
from pyredisson.core.acquire import acquire, is_callers
from pyredisson.core.by_message import ByMessage
from pyredisson.core.deadline import lease_ms, wait_seconds
from pyredisson.core.force import force_unlock
from pyredisson.core.kind import LockKind
from pyredisson.core.messages import never_expires, timed_out
from pyredisson.core.names import LockNames
from pyredisson.core.ownership import Hold, Ownership
from pyredisson.core.release import holder_here, leave_block, unlock
from pyredisson.core.runtime import is_interruption
from pyredisson.errors import LockNotOwnedError, LockTimeoutError
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.kind import Waiting
    from pyredisson.core.outcomes import Outcome
    from pyredisson.core.runtime import Caller, MadeCaller, Progress, Reply, Request

__all__ = ["LockCore", "PlainKind"]


class PlainKind(LockKind):
    """What a reentrant lock says to the server."""

    __slots__ = ()

    renew: Callable[..., Request] = staticmethod(scripts.renew_locks)
    waiting: Waiting = ByMessage()

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        return scripts.acquire_lock(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=count,
            epoch=epoch,
            repeat=repeat,
        )

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        return scripts.release_lock(
            self.client.runtime, self.names, ownership.owner, lease_ms=lease_ms, holds=count, epoch=epoch, repeat=repeat
        )

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`."""
        return scripts.force_unlock(self.client.runtime, self.names, ownership.owner, epoch=epoch)

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`."""
        return scripts.read_acquire(reply)


class LockCore:
    """One handle on a lock. Cheap, without state of its own, and shared by threads and tasks at will.

    Args:
        client: The client.
        name: The lock's name, or its names.
        kind: The kind of lock; ``None``: a reentrant one.
    """

    __slots__ = ("_caller", "_covers", "_last", "_plain", "client", "kind", "names")

    def __init__(self, client: ClientCore, name: str | LockNames, kind: LockKind | None = None) -> None:
        self.client: ClientCore = client
        self.names: LockNames = LockNames(name) if isinstance(name, str) else name
        client.check_names(self.names)
        self.kind: LockKind | PlainKind = kind or PlainKind(client, self.names)
        self._plain = client.watchdog.plain_hold
        self._covers = frozenset((self.names.raw,))
        self._caller: MadeCaller | None = None
        self._last: Ownership | None = None  # The ownership used last, so that it need not be looked up.

    def acting_for(self, caller: MadeCaller | None) -> Self:
        """Ask in the name of an owner that the user made, whichever thread or task calls."""
        self._caller = caller
        return self

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        held = [ownership for ownership in self.client.ownerships.of(self.names.raw) if ownership.holds]
        text = repr(self.names.raw)
        for ownership in held:
            state = "lost" if ownership.loss else "held"
            text += f" {state} by {ownership.owner[:4]}…:{ownership.who.number} ×{len(ownership.holds)}"
        waiting = self.waiting()
        return f"{text}, {waiting} waiting here" if waiting else text

    def waiting(self) -> int:
        """How many wait for it in this client."""
        return self.client.wakeups.waiting(self.names.channel)

    # ---- whose call it is ----------------------------------------------------------------------------------------

    def owner(self) -> Caller:
        """The owner that asks: the calling thread or task, if this handle does not act for another one."""
        asking = self.client.runtime.owner()  # In any case: it looks whether this is the right event loop.
        return self._caller or asking

    def caller(self) -> Caller:
        """As :meth:`owner`; of several call chains that share a thread, the one that calls."""
        who = self.owner()
        return who.acting(self._covers, self.taken) if who.shared else who

    def made_caller(self) -> MadeCaller | None:
        """The owner for which this handle was made, if there is one."""
        return self._caller

    def taken(self, who: Caller) -> bool:
        """Whether this owner has anything open here."""
        ownership = self.client.ownerships.find((self.names.raw, self.kind.field(who.number)))
        return ownership is not None and ownership.in_use()

    def mine(self) -> Ownership:
        """The ownership of the caller."""
        # As ownership_of(self.caller()), spelt out for a caller that comes again: this is the hot path.
        client = self.client
        asking = client.runtime.owner()
        who = self._caller or asking
        ownership = self._last
        if (
            ownership is not None
            and ownership.who is who
            and ownership.table is client.ownerships
            and (not who.shared or is_callers(ownership))
        ):
            in_flight = ownership.in_flight
            if in_flight.pending is not None or in_flight.queued_ms or client.runtime.inside(ownership.mutex):
                client.refuse_interrupter(ownership)
            return ownership
        return self.ownership_of(self.caller())

    def ownership_of(self, who: Caller) -> Ownership:
        """The ownership of this owner: the one in the table, the one used last, or a new one."""
        client = self.client
        ownership = self._last
        if ownership is None or ownership.who is not who or ownership.table is not client.ownerships:
            key = (self.names.raw, self.kind.field(who.number))
            ownership = client.ownerships.find(key)
            if ownership is None:
                ownership = client.ownerships.enter(Ownership(key, who, client.runtime))
            self._last = ownership
        if ownership.in_the_middle() or client.runtime.inside(ownership.mutex):
            client.refuse_interrupter(ownership)
        return ownership

    # ---- acquiring -----------------------------------------------------------------------------------------------

    # lock() and try_lock() check their arguments and hand over: one coroutine less on the hot path.

    def lock(self, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock, however long it takes."""
        return self.acquire_hold(None, self._hold_of(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock if that is possible within ``wait_time``."""
        hold = self._hold_of(lease_time)
        return self.acquire_hold(wait_seconds(wait_time), hold)

    async def acquire(self, wait: float | None) -> bool:
        """Acquire the lock if that is possible within ``wait`` seconds; ``None``: however long it takes."""
        return await self.acquire_hold(wait, self._hold_of(None))

    async def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool = False) -> Lease | None:
        """Acquire the lock for a block, whose body hears of a loss. ``skip``: return ``None`` if it is not free."""
        wait = wait_seconds(wait_time)
        hold = self._new_hold(lease_time, block=True)
        ownership = self.mine()
        # Made before: once the lock is acquired, nothing is left to interrupt.
        lease = Lease(ownership, hold, self.client.runtime)
        if await self.acquire_hold(wait, hold, ownership):
            return lease
        if skip:
            return None
        name, why = self.names.raw, holder_here(self.kind, ownership)
        if why is None and ownership.in_flight.without_end:
            why = never_expires(name, self.kind.others)
        raise LockTimeoutError(timed_out("lock", name, wait, why), name=name)

    def _hold_of(self, lease_time: Seconds | None) -> Hold:
        if lease_time is None and not self.kind.token_per_hold:
            return self._plain
        return self._new_hold(lease_time)

    def _new_hold(self, lease_time: Seconds | None, *, block: bool = False) -> Hold:
        if lease_time is None:
            return Hold(self._plain.lease_ms, watchdog=True, block=block)
        return Hold(lease_ms(lease_time), watchdog=False, block=block)

    def acquire_hold(
        self, wait: float | None, hold: Hold, ownership: Ownership | None = None
    ) -> Coroutine[Any, Any, bool]:
        """Acquire the lock for a hold, waiting at most ``wait`` seconds; ``None``: as long as it takes."""
        if self._caller is None:
            return self._acquire(wait, hold, ownership)
        return self._caller.alone(self._acquire(wait, hold, ownership))

    async def _acquire(self, wait: float | None, hold: Hold, ownership: Ownership | None) -> bool:
        client, kind = self.client, self.kind
        if client.closed:
            client.check_open()
        if ownership is None:
            ownership = self.mine()
        return await acquire(client, kind, ownership, hold, wait, self._covers)

    # ---- releasing -----------------------------------------------------------------------------------------------

    def unlock(self, progress: Progress | None = None) -> Coroutine[Any, Any, None]:
        """Give back one hold of the calling thread or task, or continue to, if the last time could not be settled.

        ``progress``: see ``run_to_the_end``.
        """
        if self._caller is None:
            return self._unlock(progress)
        return self._caller.alone(self._unlock(progress))

    async def _unlock(self, progress: Progress | None) -> None:
        client = self.client
        if client.closed:
            client.check_open()
        await unlock(client, self.kind, self.mine(), progress)

    async def leave(
        self, error: BaseException | None = None, progress: Progress | None = None, lease: Lease | None = None
    ) -> None:
        """Give back the hold of a block that ended with ``error``, which goes before any error of ours.

        Args:
            error: What ended the block.
            progress: As for :meth:`unlock`.
            lease: What the block has from :meth:`hold`. It says whose hold that is, whatever leaves the block.
        """
        if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
            self._hand_over(lease)
            return
        try:
            await self._leave(progress, lease)
        except Exception as ours:
            if error is None or is_interruption(ours):
                raise

    async def _leave(self, progress: Progress | None, lease: Lease | None) -> None:
        self.client.check_open()
        ownership = self._ownership_of_block(lease) if lease is not None else self.mine()
        if ownership is None or (lease is not None and not lease._brought_up()):
            raise LockNotOwnedError(
                f"lock {self.names.raw!r} is no longer held by this block: it was released or force-unlocked inside it",
                name=self.names.raw,
            )
        await leave_block(self.client, self.kind, ownership, progress)

    def _hand_over(self, lease: Lease | None) -> None:
        """The block's coroutine is being closed, and can wait for nothing: leave the release to the watchdog."""
        ownership = self._ownership_of_block(lease) if lease is not None else self._ownership_of_closed_block()
        if ownership is None or not ownership.holds or (lease is not None and not lease._brought_up()):
            return
        if ownership.hand_over():
            self.client.watchdog.settle(ownership)
        if not ownership.watched():
            self.client.watchdog.unwatch(ownership)

    def _is_of_client(self, held: object) -> bool:
        """Whether it is an ownership of the client as it is now: after a fork it is another one."""
        return isinstance(held, Ownership) and held.owner.startswith(self.client.id)

    def _ownership_of_block(self, lease: Lease) -> Ownership | None:
        """The ownership of a ``hold()``; ``None`` if the client has begun anew since."""
        ownership = lease._held
        return ownership if isinstance(ownership, Ownership) and self._is_of_client(ownership) else None

    def _ownership_of_closed_block(self) -> Ownership | None:
        """The ownership of the calling task. It may be closing an asynchronous generator of another one."""
        try:
            who = self.owner()
        except RuntimeError:
            return None  # It is closed where no task runs.
        ownership = self.ownership_of(who)
        if ownership.holds:
            return ownership
        for mark in who.marks():
            held = mark.held
            if isinstance(held, Ownership) and held.name == ownership.name and self._is_of_client(held):
                return held if held.loss is None else None
        return None

    async def force_unlock(self) -> bool:
        """Free the lock, whoever holds it."""
        self.client.check_open()
        return await force_unlock(self.client, self.kind, self.mine())

    # ---- asking --------------------------------------------------------------------------------------------------

    async def is_locked(self) -> bool:
        """Whether anybody holds it."""
        return await self.client.query("EXISTS", self.names.raw) == 1

    async def is_held_by_current_thread(self) -> bool:
        """Whether the calling thread or task holds it."""
        return await self.is_held_by_thread(self.caller().number)

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        return await self.client.query("HEXISTS", self.names.raw, self.kind.field(thread_id)) == 1

    @staticmethod
    def check_thread_id(thread_id: object) -> None:
        """Raise ``TypeError`` if it is no number of a thread or task."""
        if isinstance(thread_id, bool) or not isinstance(thread_id, int):
            raise TypeError(f"thread_id must be an int, not {type(thread_id).__name__}")

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds it."""
        count = await self.client.query("HGET", self.names.raw, self.kind.field(self.caller().number))
        return scripts.read_count(count)

    async def remain_time_to_live(self) -> float | None:
        """For how long it is locked, in seconds; infinite without a TTL; ``None`` if it is free."""
        left = await self.client.query("PTTL", self.names.raw)
        if type(left) is not int:
            raise scripts.unusable(left).cause
        if left == -2:
            return None
        return math.inf if left == -1 else left / 1000
