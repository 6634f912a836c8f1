"""The fair lock: waiters acquire it in the order in which they asked, across processes.

Source: ``org.redisson.RedissonFairLock``. Waiters stand in a list in Redis, each with a score: the time until which it
counts as alive. Each is notified on a channel of its own. What differs on purpose: times are the server's; a waiter
that is alive keeps its place, however long it waits; one that leaves for any reason is removed, and the next one is
notified if the lock is free; an unlock of a lost lock is an error.

Redisson's scores do not show which waiters are dead: each hand-over subtracts one wait from all of them, so they allow
for many waits. Our waiters therefore also store until when they can be alive: until their own wait ends, or
``Config.fair_lock_wait_timeout`` after their last heartbeat. A head whose time has passed is dropped, and the client of
the waiter behind it checks at that moment. A client watches only the waiters right before its own: a waiter that dies
or gives up costs one check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pyredisson._core.kind import FREES_ALL_OWNERS, LockKind, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._core.requests import WITHOUT_END, AcquireCall, Answer, Refused, ReleaseCall, unusable
from pyredisson._core.runtime import PUBLISH, Reply, Request, Ticket
from pyredisson._core.subscriptions import Subscription, Waiter, WaitGroup
from pyredisson._core.waiting import Waiting, lock_message, wait_loop
from pyredisson._kinds.lock import UNLOCKED, LockCore, PlainKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pyredisson._core.acquiring import Attempt
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.ownership import Ownership

#: Ten years. Sums of many more would leave the range in which Lua counts exactly.
MAX_WAIT_MS = 315_360_000_000

#: How much faster the server's clock may run than a client's.
FASTEST_CLOCK = 1.01

#: Seconds between two heartbeats for all waiters, at least: confirmations of their channels come in bursts.
HEARTBEATS_APART = 0.05


def queue_keys(names: LockNames) -> tuple[str, str, str]:
    """Return the keys of a fair lock's queue."""
    return names.queue, names.timeouts, names.alive


class QueueState(NamedTuple):
    """The reply to the heartbeats of waiters.

    Attributes:
        again: When the next one is due.
        next_owner: The next owner in the queue, if the lock is free.
        missing: Those of the waiters who do not stand in the queue.
    """

    again: Refused
    next_owner: str | None
    missing: list[str]


def read_queue_state(reply: Reply) -> QueueState:
    """Read the reply of ``fair_look``. Raises ``Unusable``."""
    match reply:
        case [int() as again_ms, bytes() as next_owner, *owners] if all(isinstance(owner, bytes) for owner in owners):
            missing = [owner.decode(errors="replace") for owner in owners if isinstance(owner, bytes)]
            again = Refused(again_ms) if again_ms >= 0 else WITHOUT_END
            return QueueState(again, next_owner.decode(errors="replace") or None, missing)
    raise unusable(reply)


class Patience:
    """How long an owner waits this time.

    Attributes:
        wait: Seconds; ``None``: without end.
        until: Until when its owner yields to others: never.
    """

    until: ClassVar[float] = -math.inf

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
        self.names = names
        self.least_ms = least_ms

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """See :meth:`Waiting.channel`; each waiter has its own."""
        return self.names.channel_of(ownership.owner)

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """See :meth:`Waiting.begin`; the place in the queue is kept for that long."""
        ownership.kind_state.begin(wait, now)

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client = attempt.client
        group = FairGroup(client, self)
        waiter = FairWaiter(group, client.runtime.ticket(self.names.name), attempt.ownership)
        free_after = attempt.hold.lease_ms / 1000
        return await wait_loop(attempt, refused, [(waiter, seen)], client.runtime, deadline, free_after)

    def alive_ms(self, ownership: Ownership) -> int:
        """Return for how long an owner can be alive and wait, if this is its last heartbeat."""
        return alive_ms(ownership.kind_state.left(self._client.runtime.now()), self.least_ms / 1000)

    async def send_heartbeats(self, ownerships: Sequence[Ownership]) -> QueueState:
        """Send the heartbeats of waiters of this client, and return the state of the queue."""
        client, names = self._client, self.names
        waiters = (word for each in ownerships for word in (each.owner, each.in_flight.queued_ms, self.alive_ms(each)))
        request = client.runtime.prepare("fair_look", (names.raw, *queue_keys(names)), (self.least_ms, *waiters))
        return read_queue_state(await client.runtime.eval(request, client.attempt_timeout(client.watchdog.lease_ms)))


class FairWaiter(Waiter):
    """A waiter in the queue, with a channel of its own.

    Attributes:
        ownership: Its owner's.
        retry_at: When to repeat an attempt of its own that had no answer.
    """

    __slots__ = ("ownership", "retry_at")

    def __init__(self, group: FairGroup, ticket: Ticket, ownership: Ownership) -> None:
        super().__init__(group, ticket, group.names.channel_of(ownership.owner))
        self.ownership: Ownership = ownership
        self.retry_at: float = math.inf


class FairGroup(WaitGroup[FairWaiter]):
    """The waiters of a client in the queue of a fair lock.

    A message notifies the waiter whose channel it is, and no notification is passed on: who is next, is for the
    server to say. The first one sends the heartbeats of all, after a confirmation too, and in any case before their
    time in the queue has ended. What it learns is for all; what one of them learned by an attempt of its own can only
    make the next heartbeats come sooner.
    """

    each_for_itself = True

    def __init__(self, client: ClientCore, queue: InQueue) -> None:
        super().__init__(client.subscriptions, queue.names.channel, FairKind.label, lock_message)
        self.names: LockNames = queue.names
        self._queue = queue
        self._by_channel: dict[str, FairWaiter] = {}
        self._newcomers: dict[FairWaiter, None] = {}  # No heartbeat was theirs yet.
        self._sent_at = -math.inf  # When the last heartbeats were sent.
        self._all_by = math.inf  # When heartbeats of all waiters are due.
        self._every = queue.least_ms / 3000

    def due(self) -> float:
        """See :meth:`WaitGroup.due`."""
        return min(self.next_check, self.soon, self._all_by)

    # ---- for waiters ---------------------------------------------------------------------------------------------

    def add(self, waiter: FairWaiter, retry_in: float) -> None:
        """See :meth:`WaitGroup.add`; the refusal of one says nothing of the others."""
        if self.waiters:
            self.expect_sooner(retry_in)
        else:
            self._all_by = self.now() + self._every
            self.expect(retry_in)
        self.waiters[waiter] = self._newcomers[waiter] = None
        self._by_channel[waiter.channel] = waiter

    def sleep_until(self, waiter: FairWaiter, deadline: float, now: float) -> float:
        """See :meth:`WaitGroup.sleep_until`."""
        if waiter.notified or waiter.retry_at <= now:
            waiter.retry_at = math.inf
            waiter.notified = True
        return super().sleep_until(waiter, min(deadline, waiter.retry_at), now)

    def begin_check(self, now: float) -> None:
        """See :meth:`WaitGroup.begin_check`."""
        super().begin_check(now)
        self._sent_at = now

    async def check(self, waiter: FairWaiter, attempt: Callable[..., Awaitable[Answer]]) -> Answer:
        """Attempt if it was notified; else send the heartbeats of all, and notify the next owner."""
        if waiter.was_notified:
            return await attempt()
        with self.subscriptions.mutex:
            of_all = self._all_by <= self.now()
            waiters = list(self.waiters if of_all else {waiter: None, **self._newcomers})
            self._newcomers.clear()
        state = await self._queue.send_heartbeats([each.ownership for each in waiters])
        with self.subscriptions.mutex:
            if of_all:
                self._all_by = self.now() + self._every
            elif state.missing:
                self._all_by = self.now()  # It lost its place (FLUSHALL, a long pause): perhaps all did.
            # Those that are missing join the queue anew.
            for owner in [*state.missing, state.next_owner]:
                if owner is not None and (each := self._by_channel.get(self.names.channel_of(owner))) is not None:
                    each.notify()
        return state.again

    def answered(self, waiter: FairWaiter, retry_in: float) -> None:
        """See :meth:`WaitGroup.answered`."""
        with self.subscriptions.mutex:
            self.trouble = None
            (self.expect_sooner if waiter.was_notified else self.expect)(retry_in)

    def failed(self, waiter: FairWaiter, error: Exception, retry_in: float) -> None:
        """See :meth:`WaitGroup.failed`."""
        with self.subscriptions.mutex:
            self.trouble = error
            if waiter.was_notified:
                waiter.retry_at = self.now() + retry_in  # The others do not know its outcome.
            else:
                self.expect(retry_in)
                self._all_by = max(self._all_by, self.next_check)

    def pass_on(self, waiter: FairWaiter, following: FairWaiter, retry_in: float | None, *, notify: bool) -> None:
        """See :meth:`WaitGroup.pass_on`; no notification is passed on, but the duty to send heartbeats."""
        if retry_in is not None and retry_in < math.inf:
            self.expect_sooner(retry_in)
        if notify:
            self.soon = -math.inf  # It may have been sending them: also if it is the first one no longer.
        self.wake_before(following)

    def stop_listening(self, waiter: FairWaiter) -> Subscription | None:
        """See :meth:`WaitGroup.stop_listening`; its channel is its own."""
        self._newcomers.pop(waiter, None)
        if self._by_channel.get(waiter.channel) is waiter:
            del self._by_channel[waiter.channel]
        # Also if it was interrupted before its channel was noted, or in here.
        taken = waiter.channel in self._by_channel
        return None if taken else self.subscriptions.remove(waiter.channel, self, self.now())

    # ---- for messages --------------------------------------------------------------------------------------------

    def received(self, channel: str, payload: bytes) -> None:
        """See :meth:`WaitGroup.received`; it is for the waiter whose channel it is."""
        waiter = self._by_channel.get(channel)
        if waiter is not None and self.notifies(payload):
            waiter.notify()

    def confirmed(self, channel: str) -> None:
        """See :meth:`WaitGroup.confirmed`; the heartbeats also bring who is next."""
        self.check_at(min(self.soon, max(self.now(), self._sent_at + HEARTBEATS_APART)))


class FairKind(PlainKind):
    """The fair lock."""

    __slots__ = ("waiting",)

    word = "fair_lock"
    label = "fair"
    has_fair_queue = True

    def __init__(self, client: ClientCore, names: LockNames) -> None:
        super().__init__(client, names)
        least_ms = _whole_ms(client.config.fair_lock_wait_timeout)
        self.waiting: InQueue = InQueue(client, names, least_ms)  # pyright: ignore[reportIncompatibleVariableOverride]

    def new_state(self) -> Patience:
        """See :meth:`LockKind.new_state`; the wait of an owner that has not acquired yet."""
        return Patience()

    def wait_ms(self, ownership: Ownership) -> int:
        """See :meth:`LockKind.wait_ms`."""
        wait = ownership.kind_state.wait
        return self.waiting.least_ms if wait is None else _whole_ms(wait)

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; an owner that waits joins the queue with it."""
        ownership, least_ms = call.ownership, self.waiting.least_ms
        wait_ms = self.wait_ms(ownership)
        joins = int(bool(wait_ms) and not call.count)
        args = call.lease_ms, call.count, wait_ms or least_ms, least_ms, joins, self.waiting.alive_ms(ownership)
        return self.request("fair_acquire", ownership, args, queue_keys(self.names), epoch=epoch, repeat=repeat)

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`; it also removes the owner from the queue."""
        args = call.lease_ms, call.count, PUBLISH, UNLOCKED, call.ownership.in_flight.queued_ms
        keys = *queue_keys(self.names), self.names.channel
        return self.request("fair_release", call.ownership, args, keys, epoch=epoch, repeat=repeat)

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

    stored = StoredKind(
        "fair_lock", "fair", "owners", LockNames, "queued", announces=False, force_unlock=FREES_ALL_OWNERS
    )
    kind_type = FairKind


class NonReentrantFairLockCore(LockCore):
    """One handle on a fair lock that is not reentrant."""

    __slots__ = ()

    stored = StoredKind(
        "non_reentrant_fair_lock",
        "fair",
        "owners",
        LockNames,
        reentrant=False,
        announces=False,
        force_unlock=FREES_ALL_OWNERS,
    )
    kind_type = NonReentrantFairKind


def alive_ms(left: float, heard_every: float) -> int:
    """Return for how many ms a waiter counts as alive that has ``left`` seconds to wait.

    It sends a heartbeat well within ``heard_every`` seconds. The server's clock may be the faster one.
    """
    return max(1, math.ceil(min(left, heard_every) * 1000 * FASTEST_CLOCK))


def _whole_ms(seconds: float) -> int:
    """Return a wait in whole milliseconds: at least one, unless it is 0."""
    return min(max(1, round(seconds * 1000)), MAX_WAIT_MS) if seconds > 0 else 0
