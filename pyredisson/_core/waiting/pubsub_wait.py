"""Waiting for a lock by the messages of its releases, in the wait queue if that is possible."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyredisson._core import events
from pyredisson._core.deadline import CLEANUP_BUDGET
from pyredisson._core.failures import Rejected, is_interruption
from pyredisson._core.kind import Waiting
from pyredisson._core.names import WAITING
from pyredisson._core.waiting.wait_groups import ALL, Waiter, WaitGroup
from pyredisson._core.waiting.wait_loop import wait_loop
from pyredisson._core.waiting.wait_queue import QueuedGroup

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.kind import LockAttempt, LockKind
    from pyredisson._core.outcomes import Answer, Refused
    from pyredisson._core.ownership.ownership import Ownership
    from pyredisson._core.runtime import Reply, Request
    from pyredisson._core.waiting.fairness import Fairness
    from pyredisson._core.waiting.wait_groups import Notifies
    from pyredisson._core.waiting.wait_queue import QueueUpdate


def lock_message(payload: bytes) -> int:
    """Return how many waiters the message of a lock notifies: ``0``: unlocked, one; ``1``: a write lock ended, all."""
    return {b"0": 1, b"1": ALL}.get(payload, 0)


class WaitingCall(NamedTuple):
    """A call that waits, since its first attempt was refused.

    Attributes:
        client: The client.
        name: What it waits for.
        attempt: Attempts once. In a wait queue it gets how that changes.
        refused: What the first attempt returned.
        deadline: When to give up.
        free_after: As for :func:`wait_loop`.
        leave_queue: Makes the request that takes a member out of the wait queue.
    """

    client: ClientCore
    name: str
    attempt: Callable[..., Awaitable[Answer]]
    refused: Refused
    deadline: Deadline
    free_after: float = math.inf
    leave_queue: Callable[[str], Request] | None = None

    async def wait_as(self, waiter: Waiter, seen: int | None) -> bool:
        """Attempt again, as this waiter. See :func:`wait_loop`."""
        waiters, runtime = [(waiter, seen)], self.client.runtime
        return await wait_loop(self.attempt, self.refused, waiters, runtime, self.deadline, self.free_after)


async def wait_by_message(call: WaitingCall, group: WaitGroup[Waiter], seen: int | None) -> bool:
    """Attempt again, as a waiter in a group. See :func:`wait_loop`."""
    return await call.wait_as(Waiter(group, call.client.runtime.ticket(call.name)), seen)


async def wait_in_queue(
    call: WaitingCall, group: QueuedGroup, seen: int | None, *, seen_own: int | None = None
) -> bool:
    """Attempt again, as a waiter whose client is in the wait queue; without it, if the server's user may not use that.

    ``seen_own``: as ``seen``, of the client's own channel.
    """
    client = call.client
    if may_queue(client):
        try:
            return await _wait_queued(call, group, seen_own)
        except Rejected as rejected:
            if not _may_not_queue(client, rejected):
                raise
        seen = None
    plain: WaitGroup[Waiter] = WaitGroup(client.subscriptions, group.announced_on, group.label, group.notifies)
    return await wait_by_message(call, plain, seen)


async def _wait_queued(call: WaitingCall, group: QueuedGroup, seen: int | None) -> bool:
    client, leave_request = call.client, call.leave_queue
    assert leave_request is not None, "a wait queue that no request can leave"
    waiter = Waiter(group, client.runtime.ticket(call.name))

    async def leave_queue(*, later: bool, leaving: bool = False) -> None:
        """Have the client taken out of the queue, if it has no waiter any more."""
        member = waiter.leaves_queue
        if member is None or waiter.group.subscriptions.closed is not None:
            return  # In the child of a fork, a greenlet of the parent: that client is still in the queue.

        def leave() -> Coroutine[Any, Any, Reply]:
            return client.runtime.eval(leave_request(member), CLEANUP_BUDGET)

        over = client.runtime.now() + client.config.max_wait_without_check
        if later:
            client.do_later(leave, over)
        else:
            await client.finish(leave, over, leaving=leaving)

    try:
        acquired = await call.wait_as(waiter, seen)
        await leave_queue(later=acquired)
        return acquired
    except BaseException as error:  # Also if it is interrupted as it leaves: that can be repeated.
        closed = isinstance(error, GeneratorExit) and client.runtime.suspends
        await leave_queue(later=closed, leaving=is_interruption(error))
        raise


def may_queue(client: ClientCore) -> bool:
    """Return whether a client can use wait queues, as far as is known."""
    return client.subscriptions.may_queue and client.runtime.counts_listeners()


def _may_not_queue(client: ClientCore, rejected: Rejected) -> bool:
    """Return whether the server's user may not use wait queues: then this client no longer does."""
    if "NOPERM" not in str(rejected.cause):
        return False
    _queue_no_longer(
        client,
        f"the user may not use the keys and channels {WAITING}:*, so each release wakes all clients that wait",
    )
    return True


def released_as(client: ClientCore, reply: int) -> int:
    """Return what a release replied, less its note that the user may not publish to the queue; see denied.lua."""
    if reply >= 0:
        return reply
    queue_refused(client, "&")
    return -1 - reply


def queue_refused(client: ClientCore, missing: str = "~") -> None:
    """Note that a release could not use the wait queue: the user lacks a rule of this type."""
    _queue_no_longer(
        client,
        f"the user's ACL has no rule {missing}{WAITING}:*, so a release cannot notify the client that has waited "
        "longest, and others acquire before it",
    )


def _queue_no_longer(client: ClientCore, why: str) -> None:
    """Make requests without wait queues from now on, and say why."""
    client.subscriptions.may_queue = False
    if client.server.first("acl"):
        client.emit(events.ServerUnsafe("acl", f"{why}; see 'What the server must allow' in the documentation"))


class ByMessage(Waiting):
    """Waiting for the message of a release, which notifies one waiter of each client.

    The message, and the request of a waiter, take time; an owner that acquires again at once would always be faster.
    So it yields for a moment to the waiters for the lock that it has just released.

    Args:
        notifies: How many waiters a message notifies.
        turn: How many waiters attempt when their client was notified that it is its turn.
        free_after: Seconds after which the next one may succeed when one has; ``None``: the lease.
    """

    announced = True

    def __init__(
        self,
        notifies: Notifies = lock_message,
        turn: int = 1,
        free_after: float | None = None,
    ) -> None:
        self._notifies = notifies
        self._turn = turn
        self._free_after = free_after

    def yields(self, kind: LockKind, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        fairness: Fairness = ownership.kind_state
        return fairness.refuse(wait, now) if fairness.until > now else None

    def released(self, kind: LockKind, ownership: Ownership, listeners: int, sent: float) -> None:
        """See :meth:`Waiting.released`."""
        if kind.client.subscriptions.lingers(kind.names.channel, kind.label):
            listeners -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        ownership.kind_state.released(listeners, sent, kind.client.runtime.now())

    async def wait(self, attempt: LockAttempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client, kind, names = attempt.client, attempt.kind, attempt.kind.names
        fairness: Fairness = attempt.ownership.kind_state
        free_after = attempt.hold.lease_ms / 1000 if self._free_after is None else self._free_after
        subscriptions, label = client.subscriptions, kind.label
        group = QueuedGroup(subscriptions, names, kind.queued_as(), label, self._notifies, turn=self._turn)
        ask = partial(self.attempt, attempt)
        call = WaitingCall(client, names.name, ask, refused, deadline, free_after, kind.leave_queue)
        # An owner that does not yield attempts immediately, to join the queue.
        seen_own = subscriptions.messages_of(group.channel) if refused is fairness.refused else None
        acquired = await wait_in_queue(call, group, seen, seen_own=seen_own)
        fairness.waited(client.runtime.now())
        return acquired

    async def attempt(self, attempt: LockAttempt, update: QueueUpdate | None = None) -> Answer:
        """Make an attempt of an owner that waits."""
        return await attempt(update)
