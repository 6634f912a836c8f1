"""Waiting for a lock by the messages of its releases, and yielding to its waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyredisson.core import events
from pyredisson.core.failures import Rejected, is_interruption
from pyredisson.core.kind import Waiting
from pyredisson.core.listing import Listing
from pyredisson.core.names import WAITING
from pyredisson.core.outcomes import Acquired
from pyredisson.core.settling import CLEANUP_BUDGET
from pyredisson.core.waiters import lock_message
from pyredisson.core.waiting import HeardOn, until_taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence
    from typing import Any

    from pyredisson.core.attempt import Attempt
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import LockKind
    from pyredisson.core.listing import Look
    from pyredisson.core.names import LockNames, SemaphoreNames
    from pyredisson.core.outcomes import Answer, Refused
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Reply, Request
    from pyredisson.core.waiters import Message, Party, Seat
    from pyredisson.core.yielding import Yielding


def until_acquired(
    attempt: Attempt,
    refused: Refused,
    seen: int | None,
    deadline: Deadline,
    *,
    channel: str,
    message: Message = lock_message,
    free_after: float | None = None,
    party: Party | None = None,
) -> Coroutine[Any, Any, bool]:
    """Attempt again after a first attempt was refused. See :func:`until_taken`."""
    client = attempt.client
    return until_taken(
        attempt,
        refused,
        runtime=client.runtime,
        channels=(HeardOn(client.wakeups, channel, seen),),
        lock=attempt.ownership.name,
        kind=attempt.kind.label,
        message=message,
        deadline=deadline,
        free_after=attempt.hold.lease_ms / 1000 if free_after is None else free_after,
        party=party,
    )


class ListedAttempt(Protocol):
    """An attempt that can be made as a client on the server's list of those who wait; each call makes it once."""

    client: ClientCore

    def __call__(self) -> Awaitable[Answer]:
        """Make it."""
        ...

    def look(self, look: Look) -> Awaitable[Answer]:
        """Make it as a client on the list."""
        ...

    def stop_waiting(self, member: str) -> Request:
        """Make the request that takes the client off the list."""
        ...


class Listed:
    """A wait as a client on the server's list of those who wait, after a first attempt was refused.

    Args:
        attempt: The attempt.
        message: How many waiters a message wakes.
        names: The names of the lock or semaphore.
        listed_as: What stands for the client on the list.
        wanted: What stands there behind it and the number of the bench.
        turn: How many waiters attempt when their client was notified that it is its turn.
    """

    def __init__(
        self,
        attempt: ListedAttempt,
        message: Message,
        names: LockNames | SemaphoreNames,
        listed_as: str,
        *,
        wanted: str = "",
        turn: int = 1,
    ) -> None:
        client = attempt.client
        self._attempt = attempt
        self._client = client
        self._name = names.name
        self.left: dict[int, str] = {}
        self._channel = names.own_channel(listed_as)
        listing = Listing(
            f"{listed_as}:{next(client.wakeups.bench_numbers)}{wanted}",
            names.channel,
            names.waiting,
            message,
            client.runtime.now,
            turn,
        )
        self.listings: Sequence[Listing] = (listing,)

    async def until_acquired(
        self, refused: Refused, deadline: Deadline, *, label: str, free_after: float, yields: bool = False
    ) -> bool | None:
        """Attempt again, as :func:`until_acquired` does. ``None``: the server's user may not use lists.

        Args:
            refused: What the first attempt returned.
            deadline: When to give up.
            label: Waiters of one label share the server's answers.
            free_after: See :func:`until_taken`.
            yields: Whether the owner yields to other waiters; if not, it attempts immediately, to join the list.
        """
        seen = self._client.wakeups.glance(self._channel) if yields else None
        try:
            return await self._until_acquired(refused, seen, deadline, label, free_after)
        except Rejected as rejected:
            if not may_not_list(self._client, rejected):
                raise
            return None

    async def _until_acquired(
        self, refused: Refused, seen: int | None, deadline: Deadline, label: str, free_after: float
    ) -> bool:
        client, attempt = self._client, self._attempt
        try:
            acquired = await until_taken(
                attempt,
                refused,
                runtime=client.runtime,
                channels=(HeardOn(client.wakeups, self._channel, seen),),
                lock=self._name,
                kind=label,
                message=self.listings[0].message,
                deadline=deadline,
                free_after=free_after,
                place_on_list=self,
            )
            if acquired:
                self._leave_later()
            else:
                await self._leave(leaving=False)
            return acquired
        except BaseException as error:  # Also if it is interrupted as it leaves: that can be repeated.
            if isinstance(error, GeneratorExit) and client.runtime.suspends:
                self._leave_later()
            else:
                await self._leave(leaving=is_interruption(error))
            raise

    async def look(self, seats: Sequence[Seat]) -> Answer:
        """See :meth:`PlaceOnList.look`."""
        (seat,) = seats
        listing, wakeups = seat.bench.listing, self._client.wakeups
        assert listing is not None
        with wakeups.mutex:
            look = listing.begin_look(seat)
        answer = await self._attempt.look(look)
        if type(answer) is Acquired:
            with wakeups.mutex:
                listing.acquired(look)
        return answer

    async def _leave(self, *, leaving: bool) -> None:
        """Have the client taken off the list, if it has no waiter any more."""
        if self.left and not self._client.closed:
            await self._client.finish(self._stop_waiting, self._over(), leaving=leaving)

    def _leave_later(self) -> None:
        if self.left and not self._client.closed:
            self._client.watchdog.do_later(self._stop_waiting, self._over())

    def _stop_waiting(self) -> Coroutine[Any, Any, Reply]:
        return self._client.runtime.eval(self._attempt.stop_waiting(self.left[0]), CLEANUP_BUDGET)

    def _over(self) -> float:
        return self._client.runtime.now() + self._client.config.max_wait_without_check


def may_list(client: ClientCore) -> bool:
    """Return whether a client can use lists of the clients that wait, as far as is known."""
    return client.wakeups.may_list and client.runtime.counts_listeners()


def may_not_list(client: ClientCore, rejected: Rejected) -> bool:
    """Return whether the server's user may not use lists of the clients that wait: then this client no longer does."""
    if "NOPERM" not in str(rejected.cause):
        return False
    _list_no_longer(
        client,
        f"the user may not use the keys and channels {WAITING}:*, so each release wakes all clients that wait",
    )
    return True


def released_as(client: ClientCore, reply: int) -> int:
    """Return what a release replied, less its note that the user may not publish to the list; see denied.lua."""
    if reply >= 0:
        return reply
    list_refused(client, "&")
    return -1 - reply


def list_refused(client: ClientCore, missing: str = "~") -> None:
    """Note that a release could not use the list of the clients that wait: the user lacks a rule of this type."""
    _list_no_longer(
        client,
        f"the user's ACL has no rule {missing}{WAITING}:*, so a release cannot notify the client that has waited "
        "longest, and others acquire before it",
    )


def _list_no_longer(client: ClientCore, why: str) -> None:
    """Make requests without lists of the clients that wait from now on, and say why."""
    client.wakeups.may_list = False
    if client.server.first("acl"):
        client.emit(events.ServerUnsafe("acl", f"{why}; see 'What the server must allow' in the documentation"))


class ByMessage(Waiting):
    """Waiting for the message of a release, which wakes one waiter of each client.

    The message, and the request of a waiter, take time; an owner that acquires again at once would always be faster.
    So it yields for a moment to the waiters for the lock that it has just released.

    Args:
        message: How many waiters a message wakes.
        turn: How many waiters attempt when their client was notified that it is its turn.
        free_after: Seconds after which the next one may succeed when one has; ``None``: the lease.
    """

    announced = True

    def __init__(
        self,
        message: Message = lock_message,
        turn: int = 1,
        free_after: float | None = None,
    ) -> None:
        self._message = message
        self._turn = turn
        self._free_after = free_after

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        yielding: Yielding = ownership.kind_state
        return yielding.refuse(wait, now) if yielding.until > now else None

    def released(self, client: ClientCore, kind: LockKind, ownership: Ownership, heard: int, sent: float) -> None:
        """See :meth:`Waiting.released`."""
        wakeups, channel = client.wakeups, kind.names.channel
        if wakeups.glance(channel) is not None and not wakeups.anybody(channel, kind.label):
            heard -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        ownership.kind_state.released(heard, sent, client.runtime.now())

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client, kind = attempt.client, attempt.kind
        yielding: Yielding = attempt.ownership.kind_state
        acquired: bool | None = None
        free_after = attempt.hold.lease_ms / 1000 if self._free_after is None else self._free_after
        if kind.listed and may_list(client):
            listed = Listed(attempt, self._message, kind.names, kind.listed_as(), turn=self._turn)
            acquired = await listed.until_acquired(
                refused, deadline, label=kind.label, free_after=free_after, yields=refused is yielding.refused
            )
            seen = None
        if acquired is None:
            acquired = await until_acquired(
                attempt,
                refused,
                seen,
                deadline,
                channel=kind.names.channel,
                message=self._message,
                free_after=free_after,
            )
        yielding.waited(client.runtime.now())
        return acquired
