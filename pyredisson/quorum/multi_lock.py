"""Several locks acquired as one: all of them, or a quorum of independent nodes (Redlock).

Sources: "Distributed Locks with Redis" (redis.io), the Redlock algorithm, followed wholly where there is a quorum; and
``org.redisson.RedissonMultiLock``, whose members are ordinary locks, as here. What differs on purpose: time and drift
are taken off the validity; a release goes to every node; an extension needs a quorum; members that all have to be
acquired are acquired in one order, by name, so that no clients wait for each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson.core.acquiring.acquire import report_failed, report_outcome
from pyredisson.core.deadline import certain_for, lease_ms, wait_seconds
from pyredisson.core.diagnosis.error_text import not_held
from pyredisson.core.failures import gives_way, is_interruption
from pyredisson.core.ownership.liveness import lost_error
from pyredisson.core.ownership.owned import CallNote
from pyredisson.errors import LockNotOwnedError
from pyredisson.quorum.decisions import majority
from pyredisson.quorum.in_order import InOrder
from pyredisson.quorum.member import Member
from pyredisson.quorum.ownership import KIND, MultiHold, MultiOwnership
from pyredisson.quorum.redlock import Redlock
from pyredisson.quorum.release import hand_over, release, timeout_error, undo, undo_interrupted
from pyredisson.quorum.table import multi_locks_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.driver import Progress
    from pyredisson.core.ownership.owner_protocols import Caller, MadeCaller
    from pyredisson.kinds.lock import LockCore
    from pyredisson.lease import Lease


def multi_lock(members: Sequence[LockCore], quorum: int | None) -> MultiLockCore:
    """Make a multi-lock: over a quorum of nodes, or of all its members.

    Args:
        members: The locks.
        quorum: How many of them are needed. ``None``: the majority if all have one name and each belongs to a
            different client, which means independent nodes; otherwise all.

    Raises:
        ValueError: No locks, one of them twice, or a quorum that two holders could have at once.
        TypeError: ``quorum`` is not an ``int``.
    """
    count = len(members)
    if not count:
        raise ValueError("a multi-lock needs at least one lock")
    if len({(id(each.client), each.names.raw, each.kind.layout, each.kind.label) for each in members}) < count:
        raise ValueError("a multi-lock cannot have the same lock of the same client twice")
    independent = len({id(member.client) for member in members}) == count
    one_name = len({member.names.raw for member in members}) == 1
    if quorum is None:
        quorum = majority(count) if one_name and independent else count
    elif isinstance(quorum, bool) or not isinstance(quorum, int):
        raise TypeError(f"quorum must be an int or None, not {type(quorum).__name__}")
    if not majority(count) <= quorum <= count:
        raise ValueError(
            f"a quorum of {count} locks must be between {majority(count)} and {count}, not {quorum}: two owners could "
            "hold a smaller one at the same time"
        )
    if quorum < count and not independent:
        raise ValueError(
            "a quorum needs independent nodes: give each lock a client of its own, for a server of its own"
        )
    return MultiLockCore(members, quorum, nodes=quorum < count or (independent and one_name))


class MultiLockCore:
    """One handle on several locks acquired as one. Cheap, and shared by threads and tasks at will.

    What owners hold is in the table of the first member's client, so all handles on the same members are one lock.

    Args:
        locks: The members.
        quorum: How many of them are needed.
        nodes: Whether they are nodes that are asked at once, and not locks that are acquired in order.
    """

    def __init__(self, locks: Sequence[LockCore], quorum: int, *, nodes: bool) -> None:
        # One order for all clients, whatever order they were given in.
        ordered = sorted(locks, key=lambda lock: lock.names.raw)
        self.locks: tuple[LockCore, ...] = tuple(ordered)
        self.quorum: int = quorum
        self.client: ClientCore = ordered[0].client
        names = list(dict.fromkeys(lock.names.name for lock in ordered))
        self.name: str = names[0] if len(names) == 1 else " + ".join(names)
        self.members: tuple[Member, ...] = tuple(
            Member(lock, _node(index, lock.client.address) if nodes else "") for index, lock in enumerate(ordered, 1)
        )
        self.strategy: Redlock | InOrder = Redlock(self.members, quorum, self.name) if nodes else InOrder(self.client)
        self._clients = tuple(dict.fromkeys(lock.client for lock in ordered))
        # Under asyncio each client looks whether this is its event loop; threads are the same to all.
        self._other_loops = [
            client for client in self._clients[1:] if client.runtime.owner is not self.client.runtime.owner
        ]
        self._key = (quorum, tuple((id(lock.client), lock.names.raw, lock.kind.label) for lock in ordered))
        self._last: MultiOwnership | None = None  # The ownership used last.
        self._covers = tuple(names)
        self._caller = _one_caller(ordered)

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        text = f"{self.name!r} ({self.quorum} of {len(self.locks)})"
        for owned in multi_locks_of(self.client).of(self._key):
            if owned.holds:
                state = "lost" if owned.loss else "held"
                text += f" {state} by {owned.owner[:4]}…:{owned.who.number} ×{len(owned.holds)}"
        return text

    # ---- whose call it is ----------------------------------------------------------------------------------------

    def owner(self) -> Caller:
        """The caller: the calling thread or task, if the members do not act for an owner of their own."""
        asking = self.client.runtime.owner()
        return self._caller or asking

    def _acting(self) -> Caller:
        """As :meth:`owner`; of several call chains that share a thread, the calling one."""
        who = self.owner()
        return who.acting(self._covers, self._taken) if who.shared else who

    def _taken(self, who: Caller) -> bool:
        """Whether this owner holds it, or any of its members."""
        owned = multi_locks_of(self.client).held_by(self._key, who)
        return (owned is not None and owned.in_use()) or any(lock.taken(who) for lock in self.locks)

    def mine(self) -> MultiOwnership:
        """The ownership of the caller; see :meth:`LockCore.mine`."""
        who, last, table = self.owner(), self._last, multi_locks_of(self.client)
        if (
            last is not None
            and last.who is who
            and last.listed_in is table
            # What a thread held last may be that of another call chain, or of this one with only its members in use.
            and (not who.shared or (not who.divided and who.has_mark(last)))
        ):
            return last
        who = self._acting()
        owned = table.held_by(self._key, who)
        if owned is None:
            for client in self._other_loops:  # Once for each owner: a task stays with its loop.
                client.runtime.owner()
            owned = table.enter(MultiOwnership(self._key, self.name, who, self.members, self.quorum))
        self._last = owned
        return owned

    def _check_open(self) -> None:
        for client in self._clients:
            if client.closed:
                client.check_open()

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire it if that is possible within ``wait_time``."""
        return self.acquire_hold(wait_seconds(wait_time), self.new_hold(lease_time))

    async def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool = False) -> Lease | None:
        """Acquire it for a block, whose lease reports a loss. ``skip``: return ``None`` if it is not free."""
        wait = wait_seconds(wait_time)
        hold = self.new_hold(lease_time, block=True)
        self._check_open()
        owned = self.mine()
        lease: Lease = self.client.runtime.lease(owned, hold, self.client.runtime, partial(self._extend, owned))
        if await self.acquire_hold(wait, hold, owned):
            return lease
        if skip:
            return None
        raise await timeout_error(owned, wait)

    def new_hold(self, lease_time: Seconds | None, *, block: bool = False) -> MultiHold:
        """A hold that is yet to be acquired."""
        ms = self.client.watchdog.lease_ms if lease_time is None else lease_ms(lease_time)
        return MultiHold(ms, len(self.members), watchdog=lease_time is None, block=block)

    def acquire_hold(
        self, wait: float | None, hold: MultiHold, owned: MultiOwnership | None = None
    ) -> Coroutine[Any, Any, bool]:
        """Acquire it for a hold."""
        acquire = self._acquire(wait, hold, owned)
        return acquire if self._caller is None else self._caller.alone(acquire)

    async def _acquire(self, wait: float | None, hold: MultiHold, owned: MultiOwnership | None) -> bool:
        client = self.client
        asked = hold.since = client.runtime.now()
        self._check_open()
        if self._caller is not None:
            self._caller.check_open()
        owned = owned or self.mine()
        table = multi_locks_of(client)
        if not owned.in_use():
            owned.who.mark(owned, self._covers, client.report_left_behind)
        before = owned.refresh()
        client.refuse_interrupter(owned, *owned.ownerships)
        note = CallNote(client.runtime.thread())
        try:
            owned.note_call(note)
            table.raise_if_lost(owned)
            acquired = await self.strategy.acquire(owned, hold, wait, asked)
            if acquired:
                table.raise_if_lost(owned)  # An outer hold, before the answers were read.
                owned.granted(hold)
                table.granted(owned, hold)
            table.tidy(owned)
            if client.has_listeners():
                if acquired:
                    hold.since = client.runtime.now()
                key = owned.name, owned.owner
                report_outcome(client, KIND, key, asked, acquired, len(owned.holds), hold.fixed_lease)
            return acquired
        except BaseException as error:
            interrupted = is_interruption(error)
            try:
                await (undo_interrupted(owned, hold, before, error) if interrupted else undo(owned, hold))
            finally:
                table.tidy(owned)
            if not interrupted:
                report_failed(client, KIND, (owned.name, owned.owner), asked, error)
            raise
        finally:
            note.thread = 0

    async def extend(self, lease_time: Seconds) -> bool:
        """Let what the caller holds last for ``lease_time`` from now on: on enough members, within their validity."""
        self._check_open()
        return await self._extend(self.mine(), lease_ms(lease_time))

    async def _extend(self, owned: MultiOwnership, lease: int) -> bool:
        table = multi_locks_of(self.client)
        table.raise_if_lost(owned)
        if not owned.holds and not owned.expired:
            raise LockNotOwnedError(not_held("multi-lock", owned.name, owned.who, None), name=owned.name)
        sent = self.client.runtime.now()
        await table.extend(owned, lease)
        table.raise_if_lost(owned)
        if not owned.holds:
            raise lost_error(owned, "its lease expired")
        return owned.certain_until() >= sent + certain_for(lease)

    # ---- releasing -----------------------------------------------------------------------------------------------

    def unlock(self, progress: Progress | None = None) -> Coroutine[Any, Any, None]:
        """Release one hold of the calling thread or task.

        ``progress``: see ``run_to_the_end``.
        """
        unlock = self._unlock(None, progress)
        return unlock if self._caller is None else self._caller.alone(unlock)

    async def _unlock(self, lease: Lease | None, progress: Progress | None) -> None:
        if lease is not None:
            lease._check_process()
        self._check_open()
        owned = self._ownership_of_block(lease) if lease is not None else self.mine()
        if owned is None or (lease is not None and not lease._moved_to_top()):
            raise LockNotOwnedError(
                f"multi-lock {self.name!r} is no longer held by this block: released or force-unlocked inside it",
                name=self.name,
            )
        try:
            await release(owned, progress)
        finally:
            multi_locks_of(self.client).tidy(owned)

    async def leave(
        self, error: BaseException | None = None, progress: Progress | None = None, lease: Lease | None = None
    ) -> None:
        """Release the hold of a block that ended with ``error``, which takes precedence over an error of the release.

        See :meth:`LockCore.leave`.
        """
        if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
            self._hand_over(lease)
            return
        try:
            await self._unlock(lease, progress)
        except Exception as ours:
            if not gives_way(ours, error):
                raise

    def _hand_over(self, lease: Lease | None) -> None:
        """The block's coroutine is being closed, and cannot wait: leave the release to the watchdogs."""
        owned = self._ownership_of_block(lease) if lease is not None else self._ownership_of_closed_block()
        if owned is not None and owned.holds and (lease is None or lease._moved_to_top()):
            hand_over(owned)

    def _ownership_of_block(self, lease: Lease) -> MultiOwnership | None:
        """That of a ``hold()``, unless the client has begun anew since (after a fork, or on a new event loop)."""
        owned = lease._held
        return owned if isinstance(owned, MultiOwnership) and owned.listed_in is multi_locks_of(self.client) else None

    def _ownership_of_closed_block(self) -> MultiOwnership | None:
        """That of the calling task. It may be closing an asynchronous generator of another one."""
        try:
            who = self.owner()
        except RuntimeError:
            return None  # It is closed where no task runs.
        owned = multi_locks_of(self.client).held_by(self._key, who)
        if owned is not None and owned.holds:
            return owned
        listed = multi_locks_of(self.client).of(self._key)
        return next((each for each in listed if each.holds and who.has_mark(each)), None)

    async def force_unlock(self) -> bool:
        """Free every member, for any holder. Returns whether any was locked."""
        self._check_open()
        owned = self.mine()
        found = [await lock.force_unlock() for lock in self.locks]
        owned.clear()
        table = multi_locks_of(self.client)
        table.unwatch(owned)
        table.tidy(owned)
        return any(found)

    # ---- asking --------------------------------------------------------------------------------------------------

    def validity(self) -> float:
        """Seconds for which the calling thread's or task's hold is certain; 0 if it holds nothing."""
        owned = multi_locks_of(self.client).held_by(self._key, self._acting())
        return owned.remaining(self.client.runtime.now()) if owned is not None else 0.0

    async def is_locked(self) -> bool:
        """Whether enough members are locked, by any owner, that no other can acquire it."""
        self._check_open()
        spare = len(self.locks) - self.quorum
        for lock in self.locks:
            spare -= await lock.is_locked()
            if spare < 0:
                return True
        return False

    async def is_held_by_current_thread(self) -> bool:
        """Whether the calling thread or task holds it for certain."""
        self._check_open()
        return self.validity() > 0

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds it."""
        self._check_open()
        owned = multi_locks_of(self.client).held_by(self._key, self._acting())
        return len(owned.holds) if owned is not None and owned.remaining(self.client.runtime.now()) > 0 else 0


def _node(number: int, address: str | None) -> str:
    return f"node {number} ({address})" if address else f"node {number}"


def _one_caller(members: Sequence[LockCore]) -> MadeCaller | None:
    """In whose name the members ask, if not in that of the calling thread or task. Raises ``ValueError``."""
    callers = {member.made_for for member in members}
    if len(callers) > 1:
        raise ValueError("the members of a multi-lock must have one owner: pass the same owner= to all, or to none")
    return callers.pop()
