"""The condition: those who hold its lock wait for a notification, without the lock meanwhile.

Source: ``threading.Condition``. Rules kept here:

1. A wait releases all holds of its owner and joins the waiters in one script: no notification comes in between. Before
   that its client subscribes, for at most ``Config.timeout``, so that no notification passes over it.
2. Who is no longer among the waiters in Redis was notified. The message only says so sooner: a waiter checks by itself.
3. A waiter that times out or is interrupted leaves, and learns whether it was notified before. Interrupted, it lets the
   next one be notified in its place. In any case it acquires the lock again, as often as it has held it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pyredisson._core.acquiring import expire
from pyredisson._core.deadline import Deadline, timeout_seconds
from pyredisson._core.failures import Failure, is_cancellation, is_interruption
from pyredisson._core.hold import HoldState, lost_error
from pyredisson._core.kind import StoredKind
from pyredisson._core.messages import not_held
from pyredisson._core.names import ConditionNames
from pyredisson._core.numbered import Operation, ScriptCall
from pyredisson._core.releasing import release_all, settle_or_explain
from pyredisson._core.requests import ACQUIRED, WITHOUT_END, Refused, read_flag, unreached
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.subscriptions import Waiter, WaitGroup
from pyredisson._core.waiting import WaitingCall, wait_by_message
from pyredisson._kinds.fair_lock import FairKind, queue_keys
from pyredisson._kinds.lock import UNLOCKED, PlainKind
from pyredisson._kinds.numbered import MAX_COUNT, NumberedCore, count_of
from pyredisson.errors import LockNotOwnedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyredisson._core.deadline import Seconds
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.kind import LockKind
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import Answer, ReleaseCall
    from pyredisson._core.runtime import Progress, Request
    from pyredisson._kinds.lock import LockCore

T = TypeVar("T")

#: How it is stored, for inspections.
STORED = (StoredKind("condition", "condition", "number", ConditionNames, number="changes", subscribes=False),)

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


class ConditionCore(NumberedCore):
    """One handle on a condition.

    Args:
        lock: Its lock.
    """

    __slots__ = ("lock",)

    word = "condition"
    kind = "condition"
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
        made = FairWaitingKind if isinstance(self.lock.kind, FairKind) else PlainWaitingKind
        kind = made(client, self.lock.names)
        kind.waiters, kind.member = self.names.channel, member
        channel = self.names.own_channel(client.id)
        deadline = Deadline.after(wait, client.runtime.now())
        left = self.begin(self._leave(member, pass_on=1))
        holds: list[SingleHold] = []
        released = ended = notified = False

        async def join() -> bool:
            """Release the lock and join the waiters, once. Returns whether that was done now."""
            nonlocal released
            if released:
                return False
            await own.called(client.runtime.thread(), self._give_up, own, kind, holds)
            released = True
            return True

        try:
            notified = own.in_use() and await self._until_notified(member, channel, join, deadline)
            await join()
            if not notified:
                notified = await self.begin(self._leave(member, pass_on=0)).once() == 0
            ended = True
            await self._acquire_again(own, holds)
        except GeneratorExit:  # A coroutine that is being closed can wait for nothing any more.
            if holds:
                left.leave_later()
            raise
        except BaseException as error:
            kind.member = ""
            joined = released or not isinstance(error, LockNotOwnedError)  # Perhaps, if that is not known.
            if holds and joined and (notified or not ended):
                await left.leave()
            if not released:
                holds = [hold for hold in holds if hold.state in (HoldState.GIVEN_UP, HoldState.LEFT)]
            if (released and not ended) or is_interruption(error):
                await self._acquire_again(own, holds)
            raise
        finally:
            client.report_lost(own, own.forfeit(holds))
        return notified

    async def _give_up(self, own: Ownership, kind: LockKind, holds: list[SingleHold]) -> None:
        """Release all ``holds`` of an owner, which are noted there, in one request. Raises ``LockLostError``."""
        client = self.client
        if own.pending is not None:
            await settle_or_explain(client, own)
        expire(client, own)
        if own.loss is not None:
            raise lost_error(own, own.loss)
        holds += own.holds
        if not holds and own.ended_here() is not None:
            raise lost_error(own, "its lease expired")
        await release_all(client, kind, own, holds, becoming=HoldState.GIVEN_UP)

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

    async def _until_notified(
        self, member: str, channel: str, join: Callable[[], Awaitable[bool]], deadline: Deadline
    ) -> bool:
        client, names = self.client, self.names
        look = client.runtime.prepare("condition_look", (names.channel,), (member,))

        async def attempt() -> Answer:
            if await join():
                return WITHOUT_END
            waits = read_flag(await client.runtime.eval(look, client.config.timeout / 3))
            return WITHOUT_END if waits else ACQUIRED

        def notifies(payload: bytes) -> int:
            return int(payload == member.encode())

        group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, channel, member, notifies)
        group.announced_on = names.channel
        waits = self.begin_wait()
        try:
            # The first attempt joins: when the subscription is confirmed, or without it before the lock is kept long.
            subscribing = Refused(int(1000 * client.config.timeout))
            return await wait_by_message(WaitingCall(client, names.name, attempt, subscribing, deadline), group, None)
        except Failure as failure:
            error = unreached(client, failure, f"condition {names.name!r}")
            raise error from error.__cause__
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
            raise LockNotOwnedError(not_held("lock", name, own.who, None), name=name)

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
