"""Several locks taken as one: all of them, or a quorum of independent nodes (Redlock).

Sources: "Distributed Locks with Redis" (redis.io), the Redlock algorithm, followed wholly where there is a quorum; and
``org.redisson.RedissonMultiLock``, whose members are ordinary locks, as here. What differs on purpose: time and drift
are taken off the validity; what is given back is given back on every node; an extension needs a quorum; members that
all have to be taken are taken in one order, by name, so that nobody waits in a circle.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pyredisson import events
from pyredisson.core.acquire import ask_once, check_not_stuck, is_callers
from pyredisson.core.attempt import adopt, end_first
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.calls import first_acquire, last_release
from pyredisson.core.client import CLEANUP_BUDGET
from pyredisson.core.deadline import Deadline, lease_ms, wait_seconds
from pyredisson.core.holder import lost_error
from pyredisson.core.messages import held_here, not_held, timed_out
from pyredisson.core.outcomes import ACQUIRED, AT_ONCE, Acquired, Refused
from pyredisson.core.release import end_last, give_back
from pyredisson.core.runtime import Ask, Failure, Rejected, is_interruption
from pyredisson.core.waiters import Seat, lock_message
from pyredisson.core.wrong_type import explain_type, is_wrong_type
from pyredisson.errors import (
    ClientClosedError,
    LockLostError,
    LockNotOwnedError,
    LockTimeoutError,
    NoSyncedSlavesError,
    OutcomeUnknownError,
    QuorumUnreachableError,
)
from pyredisson.kinds.token_lock import TOKEN_BYTES, TokenLockCore
from pyredisson.lease import Lease
from pyredisson.quorum.decisions import majority, spread
from pyredisson.quorum.fan_out import MemberCore, NodeCore, NotReached, together
from pyredisson.quorum.hold import Asks, MultiHold, MultiLevel
from pyredisson.quorum.restart_guard import RestartGuard
from pyredisson.quorum.round import TAKEN, Round, state_of

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Caller, MadeCaller, Progress
    from pyredisson.kinds.lock import LockCore

__all__ = ["MultiLockCore", "multi_lock"]

#: After a round in which too few nodes answered.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: Between two rounds for locks whose releases are announced to nobody, or not to us.
POLL = DoublingBackoff(first=0.002, maximum=0.128)


def multi_lock(members: Sequence[LockCore], quorum: int | None) -> MultiLockCore:
    """Make a multi-lock: over a quorum of nodes, or of all its members.

    Args:
        members: The locks.
        quorum: How many of them it takes. ``None``: the majority if all carry one name and each belongs to a different
            client, which means independent nodes; otherwise all.

    Raises:
        ValueError: No locks, one of them twice, or a quorum that two holders could have at once.
        TypeError: ``quorum`` is not an ``int``.
    """
    count = len(members)
    if not count:
        raise ValueError("a multi-lock needs at least one lock")
    if (
        len({(id(member.client), member.names.raw, member.kind.layout, member.kind.label) for member in members})
        < count
    ):
        raise ValueError("a multi-lock cannot have the same lock of the same client twice")
    independent = len({id(member.client) for member in members}) == count
    if quorum is None:
        one_name = len({member.names.raw for member in members}) == 1
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
    kind = QuorumLockCore if independent and len({member.names.raw for member in members}) == 1 else OrderedLockCore
    return QuorumLockCore(members, quorum) if quorum < count else kind(members, quorum)


class MultiLockCore:
    """One handle on several locks taken as one. Cheap, and shared by threads and tasks at will.

    What owners hold stands in the table of the first member's client, so all handles on the same members are one lock.
    """

    #: Whether a member gets but a node's small timeout.
    quick = False

    def __init__(self, members: Sequence[LockCore], quorum: int) -> None:
        # One order for everybody, whatever order they were given in.
        ordered = sorted(members, key=lambda member: member.names.raw)
        self.members = tuple(ordered)
        self.quorum = quorum
        self.client = ordered[0].client
        self._clients = tuple(dict.fromkeys(member.client for member in ordered))
        # Under asyncio each client looks whether this is its event loop; threads are the same to all.
        self._lookers = [
            client for client in self._clients[1:] if client.runtime.owner is not self.client.runtime.owner
        ]
        names = list(dict.fromkeys(member.names.raw for member in ordered))
        self.name = names[0] if len(names) == 1 else " + ".join(names)
        self._key = (quorum, tuple((id(member.client), member.names.raw, member.kind.label) for member in ordered))
        self._nodes = tuple(NodeCore(member.client, quick=self.quick) for member in ordered)
        self._beside = tuple(member.as_member(node) for member, node in zip(ordered, self._nodes, strict=True))
        self._real = tuple([member.client for member in ordered])
        self._last: MultiHold | None = None  # The hold used last.
        self._covers = frozenset(names)
        self._caller = _one_caller(ordered)
        self._in_turn = tuple(member.as_member(MemberCore(member.client)) for member in ordered)
        # Kinds that do more than to ask and to hear are stepped as coroutines, and so is who waits for replicas.
        self._simple = not any(member.kind.queues or member.kind.own_rival for member in ordered) and not any(
            node.sync for node in self._nodes
        )

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        text = f"{self.name!r} ({self.quorum} of {len(self.members)})"
        for hold in self.client.keeper.of(self._key):
            if hold.holds:
                state = "lost" if hold.loss else "held"
                text += f" {state} by {hold.owner[:4]}…:{hold.who.number} ×{len(hold.holds)}"
        return text

    def owner(self) -> Caller:
        """Who asks: the calling thread or task, if the members do not act for an owner of their own."""
        asking = self.client.runtime.owner()
        return self._caller or asking

    def _taken(self, who: Caller) -> bool:
        """Whether this owner has it, or anything of it."""
        hold = self.client.keeper.find(self._key, who)
        return (hold is not None and hold.in_use()) or any(member.taken(who) for member in self.members)

    def mine(self) -> MultiHold:
        """The hold of who calls; see :meth:`LockCore.mine`."""
        who = self.owner()
        last = self._last
        if (
            last is not None
            and last.who is who
            and last.listed_in is self.client.keeper
            and (not who.shared or is_callers(last))
        ):
            return last
        return self._hold(who.acting(self._covers, self._taken) if who.shared else who)

    def _check_open(self) -> None:
        for client in self._clients:
            if client.closed:
                client.check_open()

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def lock(self, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take it, however long it takes."""
        return self.take(None, self._level(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take it if it is to be had within ``wait_time``."""
        return self.take(wait_seconds(wait_time), self._level(lease_time))

    def acquire(self, wait: float | None) -> Coroutine[Any, Any, bool]:
        """Take it if it is to be had within ``wait`` seconds; ``None``: however long it takes."""
        return self.take(wait, self._level(None))

    async def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool = False) -> Lease | None:
        """Acquire it for a block, whose body is told of a loss. ``skip``: return ``None`` if it is not free."""
        wait = wait_seconds(wait_time)
        level = self._level(lease_time, block=True)
        self._check_open()
        hold = self.mine()
        lease = Lease(hold, level, self.client.runtime)
        if await self.take(wait, level, hold):
            return lease
        if skip:
            return None
        raise LockTimeoutError(timed_out("multi-lock", self.name, wait, self._held_here(hold)), name=self.name)

    def _held_here(self, hold: MultiHold) -> str | None:
        """Who of this client holds it, for messages to somebody else."""
        holds = self.client.keeper.of(self._key)
        return next((held_here(each.who) for each in holds if each.holds and each.who is not hold.who), None)

    def _level(self, lease_time: Seconds | None, *, block: bool = False) -> MultiLevel:
        ms = self.client.watchdog.lease_ms if lease_time is None else lease_ms(lease_time)
        return MultiLevel(ms, len(self.members), watchdog=lease_time is None, block=block)

    def _hold(self, who: Caller) -> MultiHold:
        keeper = self.client.keeper
        last = self._last
        if last is not None and last.who is who and last.listed_in is keeper:
            return last
        for client in self._lookers:  # Whoever looked once need not again: a task stays with its loop.
            client.runtime.owner()
        hold = keeper.find(self._key, who)
        if hold is None:
            hold = keeper.enter(MultiHold(self._key, self.name, who, self.members, self.quorum, quick=self.quick))
        self._last = hold
        return hold

    def _refresh(self, hold: MultiHold) -> list[int]:
        """Make sure that the hold has its owner's ownerships of now. Returns how often each of them is held."""
        holds: list[int] = []
        for ownership, client in zip(hold.ownerships, self._real):  # noqa: B905  # There are none at first.
            if ownership.table is not client.ownerships:
                break
            holds.append(len(ownership.holds))
        if len(holds) < len(self._real):
            hold.ownerships = tuple([member.ownership_of(hold.who) for member in self._beside])
            holds = [len(ownership.holds) for ownership in hold.ownerships]
        return holds

    def take(self, wait: float | None, level: MultiLevel, hold: MultiHold | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire every member, or none. Returns whether that was done in time."""
        acquire = self._acquire(wait, level, hold)
        return acquire if self._caller is None else self._caller.alone(acquire)

    async def _acquire(self, wait: float | None, level: MultiLevel, hold: MultiHold | None) -> bool:
        runtime = self.client.runtime
        asked = level.since = runtime.now()
        self._check_open()
        if hold is None:
            hold = self.mine()
        if not hold.in_use():
            hold.who.mark(hold, self._covers, self.client.tell_left_behind)
        holds = self._refresh(hold)
        self.client.refuse_interrupter(hold, *hold.ownerships)
        try:
            if hold.holds and hold.expire(asked):
                self.client.keeper.tell_lost(hold)
            if hold.loss is not None:
                raise lost_error(hold, hold.loss)
            taken = await self._get(hold, level, wait, asked)
            if taken and len(hold.holds) == 1 and hold.who.shared and not is_callers(hold):  # As in LockCore.
                hold.who.mark(hold, self._covers, self.client.tell_left_behind)
            self.client.keeper.tidy(hold)
            if self.client.talkative():
                waited = runtime.now() - asked
                if taken:
                    level.since += waited
                    self.client.emit(events.Acquired(hold.name, hold.owner, waited, len(hold.holds)))
                else:
                    self.client.emit(events.TimedOut(hold.name, hold.owner, waited))
            return taken
        except GeneratorExit:  # A coroutine that is being closed can wait for nothing any more.
            self._undo_all(hold, level, holds)
            self._settle_all_later(hold)
            self.client.keeper.tidy(hold)
            raise
        except BaseException as error:
            try:
                await (self._go_away(hold, level, holds) if is_interruption(error) else self._undo(hold, level))
            finally:
                self.client.keeper.tidy(hold)
            raise

    async def _get(self, hold: MultiHold, level: MultiLevel, wait: float | None, asked: float) -> bool:
        """Take it if it is to be had within ``wait``, however long that takes. Leaves nothing taken otherwise."""
        raise NotImplementedError

    def _granted(self, hold: MultiHold, level: MultiLevel) -> None:
        hold.taking = hold.open = None
        hold.holds.append(level)
        keeper = self.client.keeper
        if hold.listed_in is not keeper:
            keeper.enter(hold)
        if level.watched:
            keeper.keep(hold)
        else:
            keeper.leave_alone(hold)

    async def _undo(self, hold: MultiHold, level: MultiLevel) -> None:
        """Give back what was taken for this level, on every node; those that do not answer in the background."""
        hold.taking = None
        self.client.keeper.leave_alone(hold)
        works: list[Coroutine[Any, Any, None]] = []
        for index, (member, ownership) in enumerate(zip(self._beside, hold.ownerships, strict=True)):
            part, level.parts[index] = level.parts[index], None
            if part is not None and ownership.has(part):
                works.append(give_back(member.client, member.kind, ownership))
            elif ownership.pending is not None:
                self._settle_later(member, ownership, level.lease_ms)
        if works:
            await together(self.client.runtime, works)  # Whoever did not answer is settled by its client's watchdog.

    @staticmethod
    def _settle_later(member: LockCore, ownership: Ownership, lease: int) -> None:
        ownership.settle_until(member.client.runtime.now() + lease / 1000)
        member.client.watchdog.settle(ownership)

    async def _go_away(self, hold: MultiHold, level: MultiLevel, holds: list[int]) -> None:
        """The caller leaves in the middle (Ctrl-C, cancellation): give back what any member may have got."""
        self._undo_all(hold, level, holds)
        await self._settle_now(hold)

    def _undo_all(self, hold: MultiHold, level: MultiLevel, holds: list[int]) -> None:
        """Note that what any member may have got for this level is to be given back."""
        hold.taking = None
        if level in hold.holds:
            hold.holds.remove(level)
        self.client.keeper.leave_alone(hold)
        for ownership, before in zip(hold.ownerships, holds, strict=True):
            if ownership.undo_acquire(before):
                ownership.settle_until(self.client.runtime.now() + level.lease_ms / 1000)

    async def _settle_now(self, hold: MultiHold) -> None:
        """Settle what the members have pending, although the caller is leaving; what does not answer, later."""
        try:
            works = [
                member.client.settle(ownership, CLEANUP_BUDGET, behind=True)
                for member, ownership in zip(self._beside, hold.ownerships, strict=True)
                if ownership.pending is not None
            ]
            await self.client.runtime.guard(together(self.client.runtime, works), CLEANUP_BUDGET)
        finally:
            self._settle_all_later(hold)

    def _settle_all_later(self, hold: MultiHold) -> None:
        """Leave what the members have pending to the watchdogs of their clients."""
        for member, ownership in zip(self._beside, hold.ownerships, strict=True):
            if ownership.pending is not None:
                member.client.watchdog.settle(ownership)
            elif ownership.watched():
                member.client.watchdog.watch(ownership)

    # ---- releasing -----------------------------------------------------------------------------------------------

    def unlock(self, progress: Progress | None = None) -> Coroutine[Any, Any, None]:
        """Give back one hold of the calling thread or task.

        ``progress``: see ``run_to_the_end``.
        """
        unlock = self._unlock(None, progress)
        return unlock if self._caller is None else self._caller.alone(unlock)

    async def _unlock(self, lease: Lease | None, progress: Progress | None) -> None:
        self._check_open()
        hold = self._hold_of_block(lease) if lease is not None else self.mine()
        if hold is None or (lease is not None and not lease._brought_up()):
            raise LockNotOwnedError(
                f"multi-lock {self.name!r} is no longer held by this block: released or force-unlocked inside it",
                name=self.name,
            )
        try:
            await self._release(hold, progress)
        finally:
            self.client.keeper.tidy(hold)

    async def leave(
        self, error: BaseException | None = None, progress: Progress | None = None, lease: Lease | None = None
    ) -> None:
        """Give back the hold of a block that ended with ``error``, which goes before any error of ours.

        See :meth:`LockCore.leave`.
        """
        if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
            self._hand_over(lease)
            return
        try:
            await self._unlock(lease, progress)
        except Exception as ours:
            if error is None or is_interruption(ours):
                raise

    def _hold_of_block(self, lease: Lease) -> MultiHold | None:
        """The hold of a ``hold()``, unless the client has begun anew since (after a fork, or on a new event loop)."""
        hold = lease._held
        return hold if isinstance(hold, MultiHold) and hold.listed_in is self.client.keeper else None

    def _hold_of_closed_block(self) -> MultiHold | None:
        """The hold of the calling task. It may be closing an asynchronous generator of another one."""
        try:
            who = self.owner()
        except RuntimeError:
            return None  # It is closed where no task runs.
        hold = self.client.keeper.find(self._key, who)
        if hold is not None and hold.holds:
            return hold
        holds = [mark.held for mark in who.marks()]
        return next((held for held in holds if isinstance(held, MultiHold) and held.key[0] == self._key), None)

    def _hand_over(self, lease: Lease | None) -> None:
        """The block's coroutine is being closed, and can wait for nothing: leave the release to the watchdogs."""
        hold = self._hold_of_block(lease) if lease is not None else self._hold_of_closed_block()
        if hold is None or not hold.holds or (lease is not None and not lease._brought_up()):
            return
        level = hold.holds[-1]
        self._forget(hold, level)
        for ownership, part in zip(hold.ownerships, level.parts, strict=True):
            if part is not None and ownership.has(part):
                ownership.bring_up(part)
                ownership.hand_over()
        self._settle_all_later(hold)
        self.client.keeper.tidy(hold)

    async def _release(self, hold: MultiHold, progress: Progress | None) -> None:
        runtime = self.client.runtime
        now = runtime.now()
        self.client.refuse_interrupter(hold, *hold.ownerships)
        held = hold.only_parts(now)
        if held is None and hold.holds and hold.expire(now):
            self.client.keeper.tell_lost(hold)
        reason = hold.loss
        if hold.open is not None and not hold.holds:
            level = hold.open  # An earlier unlock that could not be confirmed: go on with it.
        elif hold.holds:
            level = hold.holds[-1]
        elif hold.over:
            hold.over -= 1
            raise lost_error(hold, "its lease expired")
        else:
            raise LockNotOwnedError(
                not_held("multi-lock", hold.name, hold.who, self._held_here(hold)),
                name=hold.name,
            )
        holds = [len(ownership.holds) for ownership in hold.ownerships]
        try:
            if progress is not None:
                progress.begun = True
            self._forget(hold, level)
            results = await (self._release_each(hold, level) if held is None else self._release_last(hold, level, held))
            gone, unsure, foreign = 0, 0, None
            if results:
                gone, unsure, foreign = await self._persist(hold, level, results, now + self.client.config.timeout)
        except BaseException as error:
            if is_interruption(error):  # The caller has no use for the hold in any case.
                self._forget(hold, level)
                self._redo(hold, level, holds)
                if isinstance(error, GeneratorExit) and runtime.suspends:
                    self._settle_all_later(hold)
                else:
                    await self._settle_now(hold)
            raise
        parts = len(level.parts) - level.parts.count(None)
        if reason is not None:
            raise lost_error(hold, reason)
        if parts - gone < self.quorum:
            raise lost_error(hold) if foreign is None else await self._explained(*foreign, self._where(foreign[0]))
        hold.open = level if len(self.members) - unsure < self.quorum else None
        if hold.open is not None:
            self.client.emit(events.OutcomeUnknown(hold.name, hold.owner, "an unlock", unsure_error := _unsure(hold)))
            raise unsure_error
        if self.client.talkative():
            held_for = self.client.runtime.now() - level.since
            self.client.emit(events.Released(hold.name, hold.owner, len(hold.holds), held_for))

    def _forget(self, hold: MultiHold, level: MultiLevel) -> None:
        """Its owner wants no more of a level, whatever becomes of its members."""
        if level in hold.holds:
            hold.holds.remove(level)
        if not hold.holds:
            hold.loss = None
            hold.extensions = 0
        self.client.keeper.leave_alone(hold)

    async def _persist(
        self, hold: MultiHold, level: MultiLevel, results: dict[int, Any], until: float
    ) -> tuple[int, int, tuple[int, Exception] | None]:
        """See to it that enough nodes say that one level was given back, after what they said at first.

        Returns:
            On how many it was gone already, how many could not be asked, and one whose key holds something else.
        """
        foreign: tuple[int, Exception] | None = None
        runtime = self.client.runtime
        failures = gone = 0
        while True:
            unsure: list[int] = []
            for index, result in results.items():
                if result is None:
                    continue
                if isinstance(result, LockLostError):
                    gone += 1
                elif is_wrong_type(result):
                    gone += 1
                    foreign = foreign or (index, result.cause)
                    self._settle_later(self._beside[index], hold.ownerships[index], level.lease_ms)
                elif isinstance(result, (Failure, NotReached)):
                    unsure.append(index)
                elif isinstance(result, ClientClosedError):
                    raise result
            enough = len(self.members) - len(unsure) >= self.quorum
            if enough or runtime.now() + RETRY.longest(failures) >= until:
                return gone, len(unsure), foreign
            await runtime.sleep(RETRY.pause(failures, runtime.jitter))
            failures += 1
            results = await self._each(
                {
                    index: self._beside[index].client.settle(hold.ownerships[index], behind=True)
                    for index in unsure
                    if hold.ownerships[index].pending is not None
                }
            )

    async def _release_each(self, hold: MultiHold, level: MultiLevel) -> dict[int, Any]:
        """Give one level back on every node, once. Returns what each of them raised, by member."""
        works: dict[int, Coroutine[Any, Any, Any]] = {}
        for index, part in enumerate(level.parts):
            if part is None:
                continue
            member, ownership = self._beside[index], hold.ownerships[index]
            if ownership.has(part) or ownership.expired:
                works[index] = give_back(member.client, member.kind, ownership)
            elif ownership.pending is not None:
                works[index] = member.client.settle(ownership, behind=True)
        return await self._each(works)

    async def _release_last(self, hold: MultiHold, level: MultiLevel, held: list[int]) -> dict[int, Any]:
        """As :meth:`_release_each`, where those members have this level and nothing else. This is the usual way."""
        members, ownerships = self._beside, hold.ownerships
        asks = self._asks_for(hold, level.lease_ms)
        request_ids: list[int] = []

        def ask(index: int) -> Ask:
            member, ownership = members[index], ownerships[index]
            if ownership.kind is not member.kind:
                adopt(member.kind, ownership)
            request_ids.append(ownership.begin_last())
            ask = asks.last[index]
            if (
                ask.request is not ownership.prepared.release
                or ownership.prepared.epoch != ownership.epoch
                or ask.request is None
            ):
                runtime, timeout = asks.ways[index]
                ask = asks.last[index] = Ask(
                    runtime, last_release(member.kind, ownership, ownership.holds[0].lease_ms), timeout
                )
            return ask

        sent = self.client.runtime.now()
        # One node is at work while the next one's request is noted.
        answers = await self.client.runtime.fan_out(map(ask, held))
        unusual: dict[int, Coroutine[Any, Any, Any]] = {}
        for at, index in enumerate(held):
            answer = answers[at]
            if type(answer) is int:
                # Nothing of it is in a watchdog, nor told of; see LockCore.released().
                ownerships[index].released(request_ids[at], 0.0)
                if answer > 1:
                    kind = members[index].kind
                    kind.waiting.released(members[index].client, kind, ownerships[index], answer - 1, sent)
            else:
                unusual[index] = end_last(
                    members[index].client, ownerships[index], request_ids[at], level.lease_ms, sent, answer
                )
        return await self._each(unusual) if unusual else {}

    def _asks_for(self, hold: MultiHold, lease: int) -> Asks:
        """What was asked for such a lease the last time."""
        if hold.asks.lease_ms != lease:
            ways = [(node.real.runtime, node.attempt_timeout(lease)) for node in self._nodes]
            hold.asks = Asks(lease, ways)
        return hold.asks

    async def _each(self, works: dict[int, Coroutine[Any, Any, Any]]) -> dict[int, Any]:
        return dict(zip(works, await together(self.client.runtime, list(works.values())), strict=True))

    @staticmethod
    def _redo(hold: MultiHold, level: MultiLevel, holds: list[int]) -> None:
        for ownership, part, before in zip(hold.ownerships, level.parts, holds, strict=True):
            if part is not None and before and ownership.redo_release(before):
                ownership.settle_until()

    async def force_unlock(self) -> bool:
        """Free every member, whoever holds it. Returns whether any was locked."""
        self._check_open()
        hold = self.mine()
        found = [await member.force_unlock() for member in self.members]
        hold.holds.clear()
        hold.loss = hold.open = None
        hold.over = 0
        self.client.keeper.leave_alone(hold)
        self.client.keeper.tidy(hold)
        return any(found)

    # ---- asking --------------------------------------------------------------------------------------------------

    def _whose(self) -> Caller:
        """Who of those who share a thread is asking."""
        who = self.owner()
        return who.acting(self._covers, self._taken) if who.shared else who

    def validity(self) -> float:
        """Seconds for which the calling thread's or task's hold is certain; 0 if it holds nothing."""
        hold = self.client.keeper.find(self._key, self._whose())
        return hold.remaining(self.client.runtime.now()) if hold is not None else 0.0

    async def is_locked(self) -> bool:
        """Whether so many members are locked, by anybody, that nobody else can take it."""
        self._check_open()
        spare = len(self.members) - self.quorum
        for member in self.members:
            spare -= await member.is_locked()
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
        hold = self.client.keeper.find(self._key, self._whose())
        return len(hold.holds) if hold is not None and hold.remaining(self.client.runtime.now()) > 0 else 0

    # ---- errors --------------------------------------------------------------------------------------------------

    async def _explained(self, index: int, error: Exception, where: str = "") -> Exception:
        """The error of one member, which tells what its key holds if that is something else."""
        member = self.members[index]
        return await explain_type(member.client, error, member.names.raw, member.kind.layout, where)

    def _where(self, index: int) -> str:
        """What tells a member's key from those of the same name, for messages."""
        return ""

    async def unreachable(self, said: dict[str, object], within: str) -> QuorumUnreachableError:
        """The error for too few nodes, with what each of them said."""
        states = "; ".join(f"{node}: {state}" for node, state in said.items())
        return QuorumUnreachableError(
            f"multi-lock {self.name!r} needs {self.quorum} of {len(self.members)} nodes, but too few could be reached "
            f"{within} ({states}); what they granted is released",
            name=self.name,
            nodes=said,
        )


class QuorumLockCore(MultiLockCore):
    """A quorum of independent nodes: the Redlock algorithm."""

    quick = True

    def __init__(self, members: Sequence[LockCore], quorum: int) -> None:
        super().__init__(members, quorum)
        self._guard = RestartGuard(tuple(member.client for member in self.members), self.name, self._node)
        self._tokens = any(member.kind.shared_token for member in self.members)
        self._fenced = any(member.kind.token_per_hold for member in self.members)
        self._channels = [(member.client, member.names.channel) for member in self.members]
        self._silent = not all(member.kind.waiting.announced for member in self.members)

    async def _get(self, hold: MultiHold, level: MultiLevel, wait: float | None, asked: float) -> bool:
        seen = (
            None
            if wait == 0 or self._silent
            else [client.wakeups.glance(channel) for client, channel in self._channels]
        )
        first = await self.ask_all(hold, level)
        if first.taken:
            return True
        if wait != 0 and not self.client.runtime.suspends:
            for member, ownership in zip(self.members, hold.ownerships, strict=True):
                check_not_stuck(member.client, member.kind, ownership)
        rounds = Rounds(self, hold, level, asked)
        await rounds.count(first)
        if wait == 0:
            return await self._given_up(first, "at once")
        deadline = Deadline.after(wait, asked)
        if seen is None:
            return await self._poll(rounds, first, deadline)
        return await self._wait(rounds, first, seen, deadline)

    async def _given_up(self, last: Round, within: str) -> bool:
        if last.reached:
            return False
        raise await self.unreachable(last.said, within)

    async def ask_all(self, hold: MultiHold, level: MultiLevel) -> Round:
        """Ask every node once. What was taken without a quorum is given back."""
        runtime = self.client.runtime
        began = runtime.now()
        members = self._beside if not self._tokens else self._with_one_token()
        # Whatever numbers its holds writes the number on the level.
        parts = [level.part() for _ in members] if self._fenced else [level.part()] * len(members)
        outcomes: list[Any]
        if self._simple and not _open(hold.ownerships):
            outcomes, certain = await self._take_first(members, hold, parts)
        else:
            certain = -math.inf  # To be looked up, node by node.
            outcomes = await together(
                runtime,
                [
                    ask_once(member.client, member.kind, ownership, part)
                    for member, ownership, part in zip(members, hold.ownerships, parts, strict=True)
                ],
            )
        refused: dict[int, int] = {}
        error: Exception | None = None
        taken = 0
        now = runtime.now()
        guard = self._guard
        try:
            guard.look(level.lease_ms / 1000)
        except (ValueError, Rejected) as wrong:
            error = wrong.cause if isinstance(wrong, Rejected) else wrong
        if certain > now and error is None and guard.all_vote(now):  # All said yes, in time.
            level.parts[:] = parts
            level.votes[:] = [True] * len(parts)  # In an earlier round some may have had none.
            self._granted(hold, level)
            return TAKEN
        for index, outcome in enumerate(outcomes):
            if isinstance(outcome, Acquired):
                level.parts[index] = parts[index]
                level.votes[index] = guard.has_vote(index, now)
                taken += level.votes[index]
            elif isinstance(outcome, Refused):
                refused[index] = -1 if outcome.retry_in_ms is None else outcome.retry_in_ms
            elif isinstance(outcome, (LockLostError, NoSyncedSlavesError, Failure, NotReached)):
                pass
            elif isinstance(outcome, Exception):
                error = outcome
        if error is None and taken >= self.quorum and hold.deadline_of(level) > now:
            self._granted(hold, level)
            for index, ownership in enumerate(hold.ownerships):
                if level.parts[index] is None and ownership.pending is not None:
                    self._settle_later(self._beside[index], ownership, level.lease_ms)
            return TAKEN
        said = {self._node(index): state_of(outcome, refused.get(index)) for index, outcome in enumerate(outcomes)}
        for index, part in enumerate(level.parts):
            if part is not None and not level.votes[index]:
                said[self._node(index)] = guard.why_not(index, now)
        await self._undo(hold, level)
        if error is not None:
            raise error
        # Enough said yes, and too late for it to be of use: as good as not having been reached.
        reached = taken + len(refused) >= self.quorum > taken
        return Round(False, reached, refused, said, runtime.now() - began)

    async def _take_first(
        self, members: Sequence[LockCore], hold: MultiHold, parts: Sequence[Hold]
    ) -> tuple[list[Any], float]:
        """As :func:`together` of each :meth:`LockCore.ask_once`, if nobody has anything open. This is the usual way.

        Returns:
            The outcomes; and until when all is certain, if all nodes said yes at once, else minus infinity.
        """
        ownerships = hold.ownerships
        asks = self._asks_for(hold, parts[0].lease_ms)
        request_ids: list[int] = []

        def ask(index: int) -> Ask:
            member, ownership, part = members[index], ownerships[index], parts[index]
            if ownership.kind is not member.kind:
                adopt(member.kind, ownership)
            request_ids.append(ownership.begin_first(part))
            if ownership.table is None:  # As in LockCore.attempt().
                member.client.ownerships.enter(ownership)
            ask = asks.first[index]
            if (
                ask.request is not ownership.prepared.acquire
                or ownership.prepared.epoch != ownership.epoch
                or ask.request is None
            ):
                runtime, timeout = asks.ways[index]
                ask = asks.first[index] = Ask(runtime, first_acquire(member.kind, ownership, part), timeout)
            return ask

        sent = self.client.runtime.now()
        certain = sent + parts[0].certain
        # One node is at work while the next one's request is noted.
        outcomes: list[Any] = await self.client.runtime.fan_out(map(ask, range(len(ownerships))))
        unusual: dict[int, Coroutine[Any, Any, Any]] = {}
        for index, ownership in enumerate(ownerships):
            answer = outcomes[index]
            if answer is None and not self._fenced:
                outcomes[index] = ACQUIRED
                if not ownership.granted(request_ids[index], parts[index], certain):
                    outcomes[index] = AT_ONCE  # A later request has given it back.
                    certain = -math.inf
            else:
                unusual[index] = end_first(
                    members[index].client, ownership, parts[index], request_ids[index], sent, answer
                )
        if not unusual:
            return outcomes, certain
        for index, outcome in (await self._each(unusual)).items():
            outcomes[index] = outcome
        return outcomes, -math.inf

    async def unreachable(self, said: dict[str, object], within: str) -> QuorumUnreachableError:
        """See :meth:`MultiLockCore.unreachable`; a node whose key holds something else tells what."""
        now = self.client.runtime.now
        over = now() + self.client.config.timeout
        for index in range(len(self.members)):
            state = said.get(node := self._node(index))
            if isinstance(state, Exception) and now() < over:
                said = {**said, node: await self._explained(index, state)}
        return await super().unreachable(said, within)

    def _where(self, index: int) -> str:
        return f" on {self._node(index)}"

    def _node(self, index: int) -> str:
        address = self.members[index].client.address
        return f"node {index + 1} ({address})" if address else f"node {index + 1}"

    def _with_one_token(self) -> tuple[LockCore, ...]:
        """The members for one round: the algorithm stores one random value on all nodes."""
        token = self.client.runtime.random_bytes(TOKEN_BYTES).hex()
        return tuple(
            member.with_token(token) if isinstance(member, TokenLockCore) else member for member in self._beside
        )

    # ---- waiting -------------------------------------------------------------------------------------------------

    async def _poll(self, rounds: Rounds, last: Round, deadline: Deadline) -> bool:
        """Ask again and again, with random pauses: nobody tells us of a release."""
        runtime = self.client.runtime
        polls = 0
        while not deadline.passed(now := runtime.now()):
            wait = POLL.pause(polls, runtime.jitter)
            polls += 1
            free_in = last.free_in(len(self.members), self.quorum)
            if last.reached and free_in >= 0:
                wait = min(wait, (free_in + 1) / 1000)
            elif not last.reached:
                wait = rounds.retry_in()
            await runtime.sleep(min(wait, deadline.left(now)))
            self._check_open()
            if deadline.passed(runtime.now()):
                break
            last = await rounds.another()
            if last.taken:
                return True
        return await self._given_up(last, "in time")

    async def _wait(self, rounds: Rounds, last: Round, seen: list[int | None], deadline: Deadline) -> bool:
        """Ask again when a release is heard of, on so many nodes that they cannot all be away while a quorum is not.

        As :func:`pyredisson.core.waiting.until_taken`, which listens to one.
        """
        runtime = self.client.runtime
        ticket = runtime.ticket(self.name)
        chosen = sorted(range(len(self.members)), key=lambda index: index not in last.refused)
        seats: list[tuple[ClientCore, Seat]] = []
        for index in sorted(chosen[: len(self.members) - self.quorum + 1]):
            member = self.members[index]
            seat = member.client.wakeups.seat(member.names.channel, "multi", lock_message)
            seat.ticket = ticket
            seats.append((member.client, seat))
        taken = False
        pass_on = True
        try:
            look_in = self._look_in(rounds, last)
            for client, seat in seats:
                index = next(index for index, member in enumerate(self.members) if member.client is client)
                client.wakeups.sit(seat, seen=seen[index], look_in=look_in)
            while True:
                now = runtime.now()
                until = self._sleep_until(seats, deadline, now)
                if until > now:
                    await ticket.wait(until - now)
                    self._check_open()
                    now = runtime.now()
                    until = self._sleep_until(seats, deadline, now)
                if deadline.passed(now):
                    pass_on = until == -math.inf
                    return await self._given_up(last, "in time")
                if until > now:
                    continue
                # All who were woken by one message would meet on the nodes at the same moment.
                await runtime.sleep(min(rounds.chance(), deadline.left(now)))
                last = await rounds.another()
                if last.taken:
                    taken, pass_on = True, False
                    return True
                look_in = self._look_in(rounds, last)
                for client, seat in seats:
                    client.wakeups.answered(seat, look_in)
        finally:
            free_after = rounds.level.lease_ms / 1000
            for client, seat in seats:
                client.wakeups.leave(seat, look_in=free_after if taken else math.inf, pass_on=pass_on)

    def _look_in(self, rounds: Rounds, last: Round) -> float:
        if not last.reached:
            return rounds.retry_in()
        free_in = last.free_in(len(self.members), self.quorum)
        if not free_in:
            # Nobody has it: votes were split, and whoever had the others is giving them back.
            return rounds.chance()
        return math.inf if free_in < 0 else (free_in + 1) / 1000

    @staticmethod
    def _sleep_until(seats: list[tuple[ClientCore, Seat]], deadline: Deadline, now: float) -> float:
        return min([client.wakeups.sleep_until(seat, deadline.at, now) for client, seat in seats])


class Rounds:
    """The rounds of one acquire, and how long to pause between them."""

    def __init__(self, lock: QuorumLockCore, hold: MultiHold, level: MultiLevel, asked: float) -> None:
        self._lock = lock
        self._hold = hold
        self.level = level
        self._reached = asked  # When enough nodes answered last.
        self._lost = 0  # Rounds in a row that went wrong.
        self._silent = 0  # Rounds in a row in which too few answered.
        self._took = 0.0

    async def another(self) -> Round:
        """Ask every node once more.

        Raises:
            QuorumUnreachableError: Too few have answered for ``Config.quorum_retry_timeout``.
        """
        came = await self._lock.ask_all(self._hold, self.level)
        await self.count(came)
        return came

    async def count(self, came: Round) -> None:
        """Take note of what came of a round. Raises as :meth:`another`."""
        lock = self._lock
        now = lock.client.runtime.now()
        self._took = came.took
        self._lost += 1
        if came.reached:
            self._reached = now
            self._silent = 0
        else:
            self._silent += 1
            patience = lock.client.config.quorum_retry_timeout
            if now - self._reached >= patience:
                raise await lock.unreachable(came.said, f"for {patience:g} s")

    def chance(self) -> float:
        """A random pause."""
        return self._lock.client.runtime.jitter(0.0, spread(self._lost, self._took))

    def retry_in(self) -> float:
        """A random pause after too few have answered."""
        return RETRY.pause(self._silent, self._lock.client.runtime.jitter)


class OrderedLockCore(MultiLockCore):
    """All of several locks, taken one after another in one order, so that nobody waits for another in a circle."""

    async def _get(self, hold: MultiHold, level: MultiLevel, wait: float | None, asked: float) -> bool:
        runtime = self.client.runtime
        deadline = Deadline.after(wait, asked)
        reached = asked
        failures = 0
        while True:
            try:
                taken = await self._get_each(hold, level, wait, deadline)
            except NotReached as failure:
                await self._undo(hold, level)
                now = runtime.now()
                patience = self.client.config.quorum_retry_timeout
                left = deadline.left(now) if wait is not None else patience - (now - reached)
                if left <= RETRY.longest(failures) or wait == 0:
                    raise await self.unreachable(self._said(hold, failure), "in time") from failure.cause
            else:
                if taken:
                    if self._certain(hold, level) > runtime.now():
                        self._granted(hold, level)
                        return True
                    await self._undo(hold, level)  # One of them ran out while others were waited for.
                else:
                    await self._undo(hold, level)
                    return False
                reached = runtime.now()
                if deadline.passed(reached):
                    return False
            await runtime.sleep(RETRY.pause(failures, runtime.jitter))
            failures += 1

    async def _get_each(self, hold: MultiHold, level: MultiLevel, wait: float | None, deadline: Deadline) -> bool:
        runtime = self.client.runtime
        began = runtime.now()
        for index, (member, ownership) in enumerate(zip(self._in_turn, hold.ownerships, strict=True)):
            part = level.part()
            taken = await member.acquire_hold(0, part, ownership)
            if not taken and wait != 0:
                # Those that were taken before stay alive while this one is waited for.
                hold.taking = level
                self.client.keeper.enter(hold)
                self.client.keeper.keep(hold)
                left = None if wait is None else deadline.left(runtime.now())
                taken = await member.acquire_hold(left, part, ownership)
            if not taken:
                return False
            level.parts[index] = part
        if runtime.now() - began > level.lease_ms / 20_000:
            # It took a while: the lease begins now, for all of them.
            hold.taking = level
            await self.client.keeper.renew([hold])
        hold.taking = None
        return True

    def _certain(self, hold: MultiHold, level: MultiLevel) -> float:
        return hold.deadline_of(level)

    def _said(self, hold: MultiHold, failure: NotReached) -> dict[str, object]:
        said: dict[str, object] = {}
        for index, member in enumerate(self.members):
            said[f"{member.names.raw!r}"] = "taken" if hold.ownerships[index].holds else "not asked"
        said["the one that failed"] = failure.cause
        return said


def _open(ownerships: Sequence[Ownership]) -> bool:
    """Whether anything is held already, or under way."""
    for ownership in ownerships:  # noqa: SIM110  # any() costs a generator, on the hot path.
        if ownership.holds or ownership.pending:
            return True
    return False


def _one_caller(members: Sequence[LockCore]) -> MadeCaller | None:
    """In whose name the members ask, if not in that of the calling thread or task. Raises ``ValueError``."""
    callers = {member.made_caller() for member in members}
    if len(callers) > 1:
        raise ValueError("the members of a multi-lock must have one owner: pass the same owner= to all, or to none")
    return callers.pop()


def _unsure(hold: MultiHold) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"an unlock of multi-lock {hold.name!r} was sent, and too few nodes have confirmed it; it is being settled in "
        "the background until the lease expires",
        name=hold.name,
    )
