"""What a client's callers left open, and the watchdog settles in the background.

Rules kept here:

1. Each thing has a back-off of its own, and those that failed least often come first: one that cannot be settled keeps
   none from being settled. A surprise (an error that is no ``Failure``) concerns what raised it, and is reported.
2. A round is bounded, so that renewals are never far: by time, and by how often the server may fail to answer. On one
   server that is once, since it is away for the others too; on a cluster it may be one node that is away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pyredisson.core import events
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.failures import Failure, Rejected, Unusable
from pyredisson.core.requests.settle import settle

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.ownership.ownership import Ownership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: A round takes this number of seconds, and one request more.
ROUND = 1.0

#: So often a server may fail to answer in one round, on a cluster: of one node it may be many that wait.
UNANSWERED_AT_MOST = 16

#: What a node of a cluster that did not answer gets to do so, but for each fourth time.
QUICK = 0.25


class Todo:
    """One thing to be settled.

    Attributes:
        request_id: Of an ownership, the request that it left open.
        at: When to try.
        failures: How often that failed.
    """

    __slots__ = ("at", "failures", "request_id")

    def __init__(self, at: float, request_id: int = 0) -> None:
        self.at: float = at
        self.request_id: int = request_id
        self.failures: int = 0


class Chore(Todo):
    """Work for a time: until it raises no ``Failure``, or its time is over."""

    __slots__ = ("until", "work")

    def __init__(self, at: float, work: Callable[[], Coroutine[Any, Any, object]], until: float) -> None:
        super().__init__(at)
        self.work: Callable[[], Coroutine[Any, Any, object]] = work
        self.until: float = until


class Backlog:
    """Everything that one client has open.

    Args:
        client: The client.
        patience: How long the watchdog may wait for one answer, now.

    Attributes:
        ownerships: Those with a request, or a debt, to be settled.
    """

    def __init__(self, client: ClientCore, patience: Callable[[float], float]) -> None:
        self._client = client
        self._runtime = client.runtime
        self._patience = patience
        self._several = client.runtime.place("") is not None
        self.ownerships: dict[Ownership, Todo] = {}
        self._chores: dict[Chore, None] = {}
        self._unanswered_rounds = 0
        self._paused_until = -math.inf
        self._news_at = math.inf  # When something is due that was added since the round began.

    def settle(self, ownership: Ownership) -> bool:
        """Settle what an ownership has open. Returns whether that is news."""
        known = self.ownerships.get(ownership)
        if known is not None:
            known.request_id = ownership.request_id
            return False
        self.ownerships[ownership] = Todo(self._soon(), ownership.request_id)
        return True

    def do(self, work: Callable[[], Coroutine[Any, Any, object]], until: float) -> None:
        """Do something, until it raises no ``Failure`` or its time is over."""
        self._chores[Chore(self._soon(), work, until)] = None

    def _soon(self) -> float:
        at = self._runtime.now() + RETRY.first
        self._news_at = min(self._news_at, at)
        return at

    def due(self) -> float:
        """When :meth:`step` has something to do; infinite if never."""
        return min([self._due(each) for each, _ in self._all()], default=math.inf)

    def _all(self) -> list[tuple[Todo, Ownership | None]]:
        found: list[tuple[Todo, Ownership | None]] = [
            (each, ownership) for ownership, each in list(self.ownerships.items())
        ]
        found += [(each, None) for each in list(self._chores)]
        return found

    def _due(self, each: Todo) -> float:
        """What has not been tried yet need not wait for a server that was away for others."""
        return max(each.at, self._paused_until) if each.failures else each.at

    async def step(self) -> None:
        """Try what is due."""
        now = self._runtime.now()
        todo = [each for each in self._all() if self._due(each[0]) <= now]
        todo.sort(key=_first_things_first)
        self._news_at = math.inf
        unanswered = 0
        for each, ownership in todo:
            if self._runtime.now() >= (min(now + ROUND, self._news_at) if each.failures else now + ROUND):
                return
            if await self._try(each, ownership):
                continue
            unanswered += 1
            if unanswered >= (UNANSWERED_AT_MOST if self._several else 1):
                self._paused_until = self._runtime.now() + RETRY.longest(self._unanswered_rounds)
                self._unanswered_rounds += 1
                return
        if todo:
            self._unanswered_rounds = 0

    async def end(self) -> None:
        """Do the work of a client that was closed at once, and once: what is not done then expires by itself."""
        over = self._runtime.now() + ROUND
        for each in list(self._chores):
            if self._runtime.now() >= over or not await self._try(each, None):
                return

    async def _try(self, each: Todo, ownership: Ownership | None) -> bool:
        """Try one. Returns whether the server is there, as far as is known."""
        try:
            if ownership is not None:
                await self._settle(ownership, each)
            else:
                assert isinstance(each, Chore)
                await self._work(each)
        except (Rejected, Unusable):
            self._later(each)
        except Failure:
            self._later(each)
            return False
        except Exception as error:
            if not each.failures:
                self._client.emit(events.BackgroundFailed(repr(ownership if ownership is not None else each), error))
            self._later(each)
        return True

    def _later(self, each: Todo) -> None:
        each.at = self._runtime.now() + RETRY.pause(each.failures, self._runtime.jitter)
        each.failures += 1

    async def _settle(self, ownership: Ownership, each: Todo) -> None:
        request_id = each.request_id
        if (ownership.pending is not None or ownership.in_flight.releases_due) and ownership.request_id == request_id:
            now = self._runtime.now()
            if now >= (ownership.in_flight.open_until() if ownership.pending is not None else ownership.deadline):
                ownership.abandon(request_id)
            else:
                patience = self._patience(now)
                if self._several and each.failures % 4:
                    patience = min(patience, QUICK)
                await settle(self._client, ownership, patience, since=request_id, behind=True)
        # Else its owner has begun something new, and settles what that leaves open.
        if each.request_id == request_id:
            self.ownerships.pop(ownership, None)

    async def _work(self, each: Chore) -> None:
        if self._runtime.now() < each.until:
            await each.work()
        self._chores.pop(each, None)


def _first_things_first(each: tuple[Todo, Ownership | None]) -> tuple[int, float]:
    return each[0].failures, each[0].at
