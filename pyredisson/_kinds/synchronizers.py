"""Synchronizers: latches, events, conditions and barriers. In Redis they have numbers and waiters, but no owner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyredisson._core.acquiring import expire, settle, settle_on_leaving
from pyredisson._core.deadline import Deadline, Seconds, timeout_seconds, wait_seconds
from pyredisson._core.failures import (
    Failure,
    Rejected,
    Unanswered,
    Unusable,
    explain_type,
    is_cancellation,
    is_interruption,
    not_held,
)
from pyredisson._core.hold import CLOSED_IN_WAIT, FORFEITED, HoldState, SingleHold, lost_error
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import BarrierNames, ConditionNames, EventNames, LatchNames
from pyredisson._core.numbered import NumberedCall, Operation, ScriptCall
from pyredisson._core.releasing import release_all, settle_or_explain
from pyredisson._core.requests import (
    ACQUIRED,
    AT_ONCE,
    GRANTED,
    WITHOUT_END,
    Refused,
    read_flag,
    read_int,
    unreached,
    unusable,
    waits_through,
)
from pyredisson._core.runtime import PUBLISH, Progress, Reply, Request
from pyredisson._core.subscriptions import Waiter, WaitGroup
from pyredisson._core.waiting import WaitingCall, wait_by_message
from pyredisson._kinds.fair_lock import FairKind, queue_keys
from pyredisson._kinds.lock import UNLOCKED, LockCore, PlainKind
from pyredisson._kinds.numbered import CLOSED, MAX_COUNT, OPENED, NumberedCore, NumberWaitCore, count_of, number_in
from pyredisson.errors import LockNotOwnedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer, Granted, ReleaseCall

# ---- latch -----------------------------------------------------------------------------------------------------------
# The count-down latch: its waiters return when it has been counted down to zero.
#
# Source: ``org.redisson.RedissonCountDownLatch``. What differs on purpose: each count is taken once at most, despite
# lost replies, repeats and cancellations; waiters check again by themselves, one for all waiters of a client.


class LatchCore(NumberWaitCore):
    """One handle on a latch."""

    __slots__ = ()

    stored = StoredKind("count_down_latch", "latch", "number", LatchNames, number="count")
    kind = "latch"
    deleted_message = OPENED
    names: LatchNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, LatchNames(name, client.config.prefix))

    def opens(self, number: int, first: int | None) -> bool:
        """See :meth:`NumberWaitCore.opens`."""
        return number <= 0

    async def try_set_count(self, count: int) -> bool:
        """Set the count, unless the latch has one."""
        setting = self.setting("a try_set_count", count_of(count, "count"), message=CLOSED)
        return await self.begin(setting).once() == 1

    async def count_down(self, progress: Progress | None = None) -> None:
        """Count down by one. ``progress``: see ``run_to_the_end``."""
        script = ScriptCall("latch_count_down", (OPENED, PUBLISH), (self.names.channel,))
        await self.begin(Operation("a count_down", script, read_int, completes=True)).once(progress)

    async def get_count(self) -> int:
        """Return the count; 0 if there is none."""
        return await self.get_number()

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait until the count is 0, for at most ``timeout``. Returns whether it was."""
        return await self.wait_for_number(wait_seconds(timeout, "timeout"))


# ---- event -----------------------------------------------------------------------------------------------------------
# The event: a flag that is set and cleared, and whose waiters return when it is set.
#
# Source: ``threading.Event``. No wake-up is lost: a waiter also returns if the event was set and cleared again
# meanwhile.


class EventCore(NumberWaitCore):
    """One handle on an event."""

    __slots__ = ()

    stored = StoredKind("event", "event", "number", EventNames, number="changes")
    kind = "event"

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, EventNames(name, client.config.prefix))

    def opens(self, number: int, first: int | None) -> bool:
        """See :meth:`NumberWaitCore.opens`. A number that has expired says nothing."""
        return number % 2 == 1 or (first is not None and number not in (0, first))

    async def is_set(self) -> bool:
        """Return whether it is set."""
        return self.opens(await self.get_number(), None)

    async def set(self, progress: Progress | None = None) -> None:
        """Set it. ``progress``: see ``run_to_the_end``."""
        await self._change("a set", 1, progress)

    async def clear(self, progress: Progress | None = None) -> None:
        """Clear it. ``progress``: see ``run_to_the_end``."""
        await self._change("a clear", 0, progress)

    async def _change(self, what: str, state: int, progress: Progress | None) -> None:
        script = ScriptCall("event_change", (state, OPENED, PUBLISH), (self.names.channel,))
        await self.change(what, script, progress)

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait until it is set, for at most ``timeout``. Returns whether it was."""
        return await self.wait_for_number(timeout_seconds(timeout))


# ---- condition -------------------------------------------------------------------------------------------------------
# The condition: those who hold its lock wait for a notification, without the lock meanwhile.
#
# Source: ``threading.Condition``. Rules kept here:
#
# 1. A wait releases all holds of its owner and joins the waiters in one script: no notification comes in between.
#    Before that its client subscribes, for at most ``Config.timeout``, so that no notification passes over it.
# 2. Who is no longer among the waiters in Redis was notified. The message only says so sooner: a waiter checks by
#    itself.
# 3. A waiter that times out or is interrupted leaves, and learns whether it was notified before. Interrupted, it lets
#    the next one be notified in its place. In any case it acquires the lock again, as often as it has held it.


T = TypeVar("T")

#: For how long, in microseconds, a waiter's client may receive nothing; then it is gone.
MAY_BE_SILENT: Final = 60_000_000


class PlainWaitingKind(PlainKind):
    """A lock whose release gives up all holds, and joins the waiters of a condition.

    Attributes:
        waiters: The key of the waiters.
        member: The one who joins; empty once its wait has ended, when the release may still have to be repeated.
    """

    __slots__ = ("member", "waiters")

    waiters: str
    member: str

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        args = call.lease_ms, 0, self.publish, UNLOCKED, self.member
        keys = self.names.channel, *self.wait_queue_keys(), self.waiters
        return self.request("condition_wait", call.ownership, args, keys, epoch=epoch, repeat=repeat)


class FairWaitingKind(FairKind):
    """The same of a fair lock."""

    __slots__ = ("member", "waiters")

    waiters: str
    member: str

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        args = call.lease_ms, 0, PUBLISH, UNLOCKED, call.ownership.in_flight.queued_ms, self.member
        keys = *queue_keys(self.names), self.names.channel, self.waiters
        return self.request("condition_fair_wait", call.ownership, args, keys, epoch=epoch, repeat=repeat)


class Joining:
    """The release of a lock for a wait of its condition: it is repeated until that is done, or the wait ends.

    Args:
        lock: The lock.
        own: What its owner holds.
        member: The one who joins the waiters.
        wait: Seconds that the wait may take; ``None``: without end.

    Attributes:
        deadline: When the wait ends.
        done: Whether the lock was released, and the owner has joined the waiters.
        holds: What it has given up by that, or may have.
    """

    __slots__ = ("_began", "_client", "_kind", "_own", "_tried", "_wait", "deadline", "done", "holds")

    def __init__(self, lock: LockCore, own: Ownership, member: str, wait: float | None) -> None:
        self._client = client = lock.client
        made = FairWaitingKind if isinstance(lock.kind, FairKind) else PlainWaitingKind
        self._kind = made(client, lock.names)
        self._kind.waiters, self._kind.member = ConditionNames(lock.names.name, client.config.prefix).channel, member
        self._own = own
        self._wait = wait
        self._began = client.runtime.now()
        self._tried = False
        self.deadline: Deadline = Deadline.after(wait, self._began)
        self.done: bool = False
        self.holds: list[SingleHold] = []

    async def attempt(self) -> bool:
        """Release the lock and join the waiters, unless that is done.

        Returns:
            Whether it has joined just now; if an earlier request may have done that, it may have been notified since.

        Raises:
            Failure: It was not, or it is not known; another attempt may help.
            LockLostError: The lock was lost.
        """
        if self.done:
            return False
        client, joins = self._client, not self.holds
        first, self._tried = not self._tried, True
        try:
            await self._own.called(client.runtime.thread(), self._release)
        except Failure as failure:
            # What may have been released is not held any more in any case.
            if first and not self.holds and not await waits_through(client, failure, self._wait, self._began):
                raise await self.explain(failure) from failure.cause
            raise
        self.done = True
        return joins

    async def _release(self) -> None:
        """Release all holds of the owner in one request. Raises as :meth:`attempt` does."""
        client, own, again = self._client, self._own, bool(self.holds)
        if own.pending is not None:
            await (settle(client, own, client.config.timeout / 3) if again else settle_or_explain(client, own))
        expire(client, own)
        if own.loss is not None:
            raise lost_error(own, own.loss)
        if again and any(hold.state in (HoldState.GIVEN_UP, HoldState.LEFT) for hold in self.holds):
            return
        if own.ended_here() is not None and not own.holds:
            raise lost_error(own, own.why_ended())
        self.holds = [*own.holds]
        try:
            await release_all(client, self._kind, own, self.holds, becoming=HoldState.GIVEN_UP)
        except BaseException:
            if not again and all(hold.state is HoldState.HELD and not own.given_up(hold) for hold in self.holds):
                self.holds = []
            raise

    async def explain(self, failure: Failure) -> Exception:
        """Return the error to show if the last attempt has failed so."""
        client, own = self._client, self._own
        if self.holds:  # What is in doubt was sent by this very wait.
            failure = Unanswered(failure.cause)
        error = client.explain(failure, own, "an unlock", client.watchdog.lease_ms)
        return await explain_type(client.finder, error, own.name, self._kind.layout)

    def end(self) -> None:
        """The wait has ended: what is still to be released joins no waiters."""
        self._kind.member = ""


class ConditionCore(NumberedCore):
    """One handle on a condition.

    Args:
        lock: Its lock.
    """

    __slots__ = ("lock",)

    stored = StoredKind("condition", "condition", "number", ConditionNames, number="changes", subscribes=False)
    kind = "condition"
    check = "notify again"
    names: ConditionNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, lock: LockCore) -> None:
        client = lock.client
        client.check_open()
        super().__init__(client, ConditionNames(lock.names.name, client.config.prefix))
        self.lock: LockCore = lock

    # ---- waiting -------------------------------------------------------------------------------------------------

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait for a notification without the lock, for at most ``timeout``. Returns whether there was one."""
        waiting = self._wait(timeout_seconds(timeout))
        made_for = self.lock.made_for
        return await (waiting if made_for is None else made_for.alone(waiting))

    async def _wait(self, wait: float | None) -> bool:
        client, own = self.client, self.lock.mine()
        member = f"{client.id}:{client.ledger.number()}"
        joining = Joining(self.lock, own, member, wait)
        left = self.begin(self._leave(member, pass_on=1))
        ended = notified = False
        try:
            try:
                notified = own.in_use() and await self._until_notified(member, joining)
                await joining.attempt()
            except Failure as failure:
                if not joining.done:
                    raise await joining.explain(failure) from failure.cause
                error = unreached(client, failure, f"condition {self.names.name!r}")
                raise error from error.__cause__
            if not notified:
                notified = await self.begin(self._leave(member, pass_on=0)).once() == 0
            ended = True
            await self._acquire_again(own, joining.holds)
        except GeneratorExit:  # A coroutine that is being closed can wait for nothing any more.
            if joining.holds:
                left.leave_later()
            raise
        except BaseException as error:
            joining.end()
            if is_interruption(error) and own.pending is not None and not joining.done:
                await settle_on_leaving(client, own)
            if joining.holds and (notified or not ended):
                await left.leave()
            if (joining.done and not ended) or is_interruption(error):
                await self._acquire_again(own, joining.holds)
            raise
        finally:
            self._forfeit(own, joining)
        return notified

    def _forfeit(self, own: Ownership, joining: Joining) -> None:
        """Report what was not acquired again as lost; not if it was released, and its client was closed.

        What may not have been released is lost in any case.
        """
        if not (self.client.closed and joining.done):
            self.client.report_lost(own, own.forfeit(joining.holds, FORFEITED), FORFEITED)
            return
        for hold in own.forfeit(joining.holds, CLOSED_IN_WAIT):
            if hold.whole is not None:
                hold.whole.lost_part(known=True)

    async def _acquire_again(self, own: Ownership, holds: list[SingleHold]) -> None:
        """Acquire the lock as often as its owner has held it, but for blocks that were left meanwhile.

        A cancellation that comes meanwhile is raised when that is done, as by ``asyncio.Condition``.
        """
        cancelled: BaseException | None = None
        with self.client.runtime.shield():
            while (hold := next((each for each in holds if each.state is HoldState.GIVEN_UP), None)) is not None:
                try:
                    await self.lock.acquire_again(hold, own)
                except BaseException as error:
                    if not self.client.runtime.suspends or not is_cancellation(error):
                        raise
                    cancelled = error
            if own.in_flight.due:  # A block was left as its hold was acquired.
                await settle_or_explain(self.client, own)
        if cancelled is not None:
            raise cancelled

    async def _until_notified(self, member: str, joining: Joining) -> bool:
        client, names = self.client, self.names
        look = client.runtime.prepare("condition_look", (names.channel,), (member,))

        async def attempt() -> Answer:
            if await joining.attempt():
                return WITHOUT_END
            waits = read_flag(await client.runtime.eval(look, client.config.timeout / 3))
            return WITHOUT_END if waits else ACQUIRED

        def notifies(payload: bytes) -> int:
            return int(payload == member.encode())

        channel = names.own_channel(client.id)
        group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, channel, member, notifies)
        group.announced_on = names.channel
        waits = self.begin_wait()
        try:
            # The first attempt joins: when the subscription is confirmed, or without it before the lock is kept long.
            subscribing = Refused(int(1000 * client.config.timeout))
            call = WaitingCall(client, names.name, attempt, subscribing, joining.deadline)
            return await wait_by_message(call, group, None)
        finally:
            client.presence.end_wait(waits)

    async def wait_for(self, predicate: Callable[[], T], timeout: Seconds | None) -> T:
        """Wait until a predicate is true, for at most ``timeout``. Returns what it returned last."""
        deadline = Deadline.after(timeout_seconds(timeout), self.client.runtime.now())
        while not (result := predicate()) and (left := deadline.left(self.client.runtime.now())) > 0:
            await self.wait(None if timeout is None else left)
        return result

    # ---- notifying -----------------------------------------------------------------------------------------------

    async def notify(self, n: int, progress: Progress | None = None) -> None:
        """Notify those ``n`` who have waited longest. ``progress``: see ``run_to_the_end``."""
        own, most = self.lock.mine(), count_of(n, "n")
        script = ScriptCall("condition_notify", (*self._published(), most, own.owner), (self.names.channel,))
        if await self.change("a notify", script, progress) < 0:
            name, client = self.names.name, self.client
            if own.holds:
                await client.learn_cause(name)
                raise lost_error(own, own.loss or client.cause_of(own))
            raise LockNotOwnedError(not_held("lock", name, own.who, None, releases=False), name=name)

    async def notify_all(self, progress: Progress | None = None) -> None:
        """Notify all who wait. ``progress``: see ``run_to_the_end``."""
        await self.notify(MAX_COUNT, progress)

    def _leave(self, member: str, pass_on: int) -> Operation[int]:
        """Return the operation that ends a wait; if it was notified, ``pass_on`` others are."""
        script = ScriptCall("condition_leave", (*self._published(), pass_on, member), (self.names.channel,))
        return Operation("a wait", script, read_flag)

    def _published(self) -> tuple[str, int]:
        """Return how a script publishes, and for how long a client that receives nothing may be there."""
        return PUBLISH, MAY_BE_SILENT if self.client.runtime.counts_listeners() else MAX_COUNT


# ---- barrier ---------------------------------------------------------------------------------------------------------
# The barrier: a number of parties wait for each other, again and again.
#
# Source: ``threading.Barrier``. Each wait is a member in Redis, which counts for as long as its client checks; who dies
# soon counts no longer. A generation ends when the barrier is opened, broken or reset.


#: How many checks a waiter may miss until it no longer counts.
MISSED_CHECKS = 3


class Visit:
    """One wait at a barrier.

    Attributes:
        number: Its number among the waiters.
        last: Whether it was the last to join, and has to open the barrier.
        ended: Whether its generation has ended: the barrier was opened, broken or reset.
        opened: Whether it was opened.
        leaves_by: What a failed wait does: it leaves, or breaks the barrier.
    """

    def __init__(self, barrier: BarrierCore) -> None:
        self._barrier = barrier
        self._member = f"{barrier.client.id}:{barrier.client.ledger.number()}"
        self._generation: int | str = ""
        self.number: int = 0
        self.last: bool = False
        self.ended: bool = False
        self.opened: bool = False
        self.leaves_by: str = "leave"

    @property
    def joined(self) -> bool:
        """Whether it is, as far as is known, among the waiters."""
        return self._generation != "" and not self.ended

    def script(self, mode: str, opens: str = "never") -> ScriptCall:
        """Return the script for it, in its present state."""
        return self._barrier.script(mode, self._member, self._generation, opens)

    def joining(self) -> Operation[Refused | Granted]:
        """Return the operation that joins, and is undone if its caller leaves."""
        return Operation(
            "a wait",
            self.script("wait"),
            self.read,
            lambda number, value: self.script("leave"),
            "its place among the parties is being given up",
        )

    def leaving(self) -> Operation[int]:
        """Return the operation that ends it."""
        return Operation("a wait", self.script(self.leaves_by), read_int)

    def read(self, reply: Reply) -> Refused | Granted:
        """Note what the server replied; a refusal says that it waits on. Raises ``Unusable``."""
        state, parties = read_int(reply), self._barrier.parties
        if state < -3 - parties:
            raise unusable(reply)
        if state >= 0:
            self.last = state % 2 == 1
            self._generation, self.number = divmod(state // 2, parties)
            return WITHOUT_END
        if state == -2 - parties:
            return WITHOUT_END
        self.ended, self.opened = True, self.opened or state < -1
        if -2 - parties < state < -1:  # Its own attempt opened it; its number may be another one by now.
            self.number = -2 - state
        return GRANTED

    def notified(self, payload: bytes) -> int:
        """Note what a message says of its generation: then it need not ask. Returns that this waiter is notified."""
        how, _, generation = payload.decode().partition(" ")
        if generation == str(self._generation):
            self.ended, self.opened = True, how == "wait"
        return 1


class BarrierCore(NumberedCore):
    """One handle on a barrier.

    Args:
        client: The client.
        name: Its name.
        error: The error of those who wait at a barrier that is broken.
        parties: How many wait for each other.
        action: What the last of them calls before the others go on; what it returns is awaited if need be.
        timeout: Seconds that a wait may take unless it says otherwise; ``None``: without end.
    """

    __slots__ = ("_action", "_error", "_timeout", "parties")

    stored = StoredKind("barrier", "barrier", "number", BarrierNames, number="changes")
    kind = "barrier"
    check = "look whether it is broken"

    def __init__(
        self,
        client: ClientCore,
        name: str,
        error: type[Exception],
        parties: int,
        action: Callable[[], Any] | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        super().__init__(client, BarrierNames(name, client.config.prefix))
        if count_of(parties, "parties") == 0:
            raise ValueError("parties must be > 0")
        self.parties: int = parties
        self._error = error
        self._action = action
        self._timeout = timeout_seconds(timeout)

    def script(self, mode: str, member: str = "", generation: int | str = "", opens: str = "never") -> ScriptCall:
        """Return the script that does one thing at the barrier."""
        counts_ms = int(1000 * MISSED_CHECKS * self.client.config.max_wait_without_check)
        args = PUBLISH, mode, self.parties, member, generation, counts_ms, opens
        return ScriptCall("barrier_visit", args, (self.names.channel,))

    async def wait(self, timeout: Seconds | None) -> int:
        """Wait for the others. Returns its number among them. Raises the error of a broken one."""
        wait = self._timeout if timeout is None else timeout_seconds(timeout)
        visit = Visit(self)
        call = self.begin(visit.joining())
        try:
            await self._until_ended(visit, call, wait)
        except Failure as failure:
            error = await call.explain(failure)
            if visit.joined and not call.given_up:
                self._leaving(visit).leave_later()
            raise error from failure.cause
        except GeneratorExit:
            self._leaving(visit, left=True).leave_later()
            raise
        except BaseException as error:
            if is_interruption(error) or (visit.joined and not call.given_up):
                await self._leaving(visit).leave()
            raise
        if not visit.opened:
            raise self._error(f"barrier {self.names.name!r} is broken, or was reset")
        return visit.number

    def _leaving(self, visit: Visit, *, left: bool = False) -> NumberedCall[int]:
        """Return the call that ends a wait, also of a client that is being closed. ``left``: as for that call."""
        return NumberedCall(self.client, self.names, self.kind, visit.leaving(), check=self.check, left=left)

    async def _check(self, visit: Visit, call: NumberedCall[Refused | Granted]) -> Answer:
        """Join, or check whether it was opened. The last one calls the action for all; then it opens the barrier."""
        called = visit.last  # It has called the action, but the barrier could not be opened.
        if not (visit.ended or called):
            await call.send(visit.script("wait", "last" if self._action is None else "never"))
        if visit.last and not called and self._action is not None:
            visit.leaves_by = "break"
            result = self._action()
            if hasattr(result, "__await__"):
                await result
            visit.leaves_by = "leave"
        if visit.last and not visit.ended:
            await call.send(visit.script("wait", "now"))
        return ACQUIRED if visit.ended else WITHOUT_END

    async def _until_ended(self, visit: Visit, call: NumberedCall[Refused | Granted], wait: float | None) -> None:
        """Join, and check until the barrier is opened or broken; break it when the time has elapsed."""
        client, names, refused = self.client, self.names, WITHOUT_END
        seen, began = client.subscriptions.messages_of(names.channel), client.runtime.now()
        try:
            if await self._check(visit, call) is ACQUIRED:
                return
        except Failure as failure:
            # The last one has begun to wait before it opens the barrier.
            joined = visit.last and wait != 0 and not isinstance(failure, (Rejected, Unusable))
            if not (joined or await waits_through(client, failure, wait, began)):
                raise
            refused = AT_ONCE
        deadline = Deadline.after(wait, began)
        group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, names.channel, str(id(visit)), visit.notified)
        waiting = WaitingCall(client, names.name, partial(self._check, visit, call), refused, deadline)
        waits = self.begin_wait()
        try:
            if not await wait_by_message(waiting, group, seen):
                await call.send(visit.script("break"))
        finally:
            client.presence.end_wait(waits)

    async def abort(self) -> None:
        """Break the barrier: all who wait, or come until it is reset, receive an error."""
        await self.change("an abort", self.script("break"))

    async def reset(self) -> None:
        """Make the barrier empty and whole; those who wait receive an error."""
        await self.change("a reset", self.script("reset"))

    async def n_waiting(self) -> int:
        """Return how many wait."""
        return await self.change("a count", self.script("count"))

    async def broken(self) -> bool:
        """Return whether it is broken."""
        number_in(await self.client.query("GET", self.names.raw), self.names)  # Fails if the key is another program's.
        return await self.client.query("HEXISTS", self.names.channel, "broken") == 1
