"""The requests and other work that a client's callers left unfinished; the watchdog settles them in the background.

Rules kept here:

1. Each entry has its back-off, and those with the fewest failures come first: none delays the others. An
   unexpected error (no ``Failure``) concerns the entry that raised it, and is reported.
2. A round is bounded, so that renewals are never delayed for long: by time, and by how often the server may fail to
   answer. On one server that is once, since the others would fail too; on a cluster it may be one node that is down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson._core import events
from pyredisson._core.backoff import DoublingBackoff
from pyredisson._core.failures import Failure, Rejected, Unusable
from pyredisson._core.requests.settle import settle

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership.ownership import Ownership

Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: A round takes this number of seconds, and one request more.
ROUND = 1.0

#: How often a cluster may fail to answer in one round: many entries may wait for one node.
UNANSWERED_AT_MOST = 16

#: Seconds to wait for a node of a cluster that did not answer before, except at each fourth attempt.
QUICK = 0.25


class BacklogEntry:
    """One entry of the backlog: an ownership to be settled, or other work.

    Attributes:
        at: When to try it.
        until: When other work is no longer worth doing.
        ownership: The ownership; ``None``: it is other work.
        work: That: it is to be tried until it raises no ``Failure``.
        request_id: Of an ownership, the request that it left open.
        failures: How often that failed.
    """

    __slots__ = ("at", "failures", "ownership", "request_id", "until", "work")

    def __init__(self, at: float, ownership: Ownership | None, work: Work | None = None, until: float = 0.0) -> None:
        self.at: float = at
        self.ownership: Ownership | None = ownership
        self.work: Work | None = work
        self.until: float = until
        self.request_id: int = 0 if ownership is None else ownership.request_id
        self.failures: int = 0


class Backlog:
    """The entries of one client.

    Args:
        client: The client.
        answer_timeout: How long the watchdog may wait for one answer, now.
        next_round: When it has to renew again.

    Attributes:
        ownerships: Those with a request, or a debt, to be settled.
    """

    def __init__(
        self,
        client: ClientCore,
        answer_timeout: Callable[[float], float],
        next_round: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._client = client
        self._runtime = client.runtime
        self._answer_timeout = answer_timeout
        self._next_round = next_round
        self._several = client.runtime.place("") is not None
        self.ownerships: dict[Ownership, BacklogEntry] = {}
        self._work_entries: dict[BacklogEntry, None] = {}
        self._unanswered_rounds = 0
        self._paused_until = -math.inf
        self._new_at = math.inf  # When the first entry is due that was added since the round began.

    def settle(self, ownership: Ownership) -> bool:
        """Settle the pending request of an ownership. Returns whether it was not in the backlog yet."""
        known = self.ownerships.get(ownership)
        if known is not None:
            known.request_id = ownership.request_id
            return False
        self.ownerships[ownership] = BacklogEntry(self._soon(), ownership)
        return True

    def do(self, work: Work, until: float, at: float | None = None) -> None:
        """Do this work, until it raises no ``Failure`` or ``until`` has passed; first ``at`` that time, or soon."""
        self._work_entries[BacklogEntry(self._soon() if at is None else at, None, work, until)] = None

    def _soon(self) -> float:
        at = self._runtime.now() + RETRY.first
        self._new_at = min(self._new_at, at)
        return at

    def due(self) -> float:
        """When :meth:`step` has something to do; infinite if never."""
        return min([self._due(each) for each in self._all()], default=math.inf)

    def _all(self) -> list[BacklogEntry]:
        return [*list(self.ownerships.values()), *list(self._work_entries)]

    def _due(self, each: BacklogEntry) -> float:
        """When to try an entry: a new one need not wait, although the server did not answer others."""
        return max(each.at, self._paused_until) if each.failures else each.at

    async def step(self) -> None:
        """Try the entries that are due."""
        now = self._runtime.now()
        due = [each for each in self._all() if self._due(each) <= now]
        due.sort(key=lambda each: (each.failures, each.at))  # The least failed first.
        self._new_at = math.inf
        unanswered = 0
        over = min(now + ROUND, max(now, self._next_round()))
        for each in due:
            if (at := self._runtime.now()) > now and at >= (min(over, self._new_at) if each.failures else over):
                return
            if await self._try(each):
                continue
            unanswered += 1
            if unanswered >= (UNANSWERED_AT_MOST if self._several else 1):
                self._paused_until = self._runtime.now() + RETRY.longest(self._unanswered_rounds)
                self._unanswered_rounds += 1
                return
        if due:
            self._unanswered_rounds = 0

    async def end(self) -> None:
        """Do the work of a closed client now, once: what is not done then expires by itself."""
        until = self._runtime.now() + ROUND
        for each in list(self._work_entries):
            if self._runtime.now() >= until or not await self._try(each):
                return

    async def _try(self, each: BacklogEntry) -> bool:
        """Try one entry. Returns whether the server answers, as far as is known."""
        try:
            if each.ownership is not None:
                await self._settle(each.ownership, each)
            elif each.work is not None:
                if self._runtime.now() < each.until:
                    await each.work()
                self._work_entries.pop(each, None)
        except (Rejected, Unusable):
            self._later(each)
        except Failure:
            self._later(each)
            return False
        except Exception as error:
            if not each.failures:
                self._client.emit(events.BackgroundFailed(repr(each.ownership or each.work), error))
            self._later(each)
        return True

    def _later(self, each: BacklogEntry) -> None:
        each.at = self._runtime.now() + RETRY.pause(each.failures, self._runtime.jitter)
        each.failures += 1

    async def _settle(self, ownership: Ownership, each: BacklogEntry) -> None:
        if ownership.in_flight.due:
            each.request_id = ownership.request_id  # Its owner may have gone on, and left this to us.
        request_id = each.request_id
        if (ownership.pending is not None or ownership.in_flight.due) and ownership.request_id == request_id:
            now = self._runtime.now()
            if now >= (ownership.in_flight.open_until() if ownership.pending is not None else ownership.deadline):
                ownership.abandon(request_id)
            elif ownership.busy():
                self._later(each)
                return
            else:
                timeout = self._answer_timeout(now)
                if self._several and each.failures % 4:
                    timeout = min(timeout, QUICK)
                await settle(self._client, ownership, timeout, since=request_id, behind=True)
                self._client.server.heard(name=ownership.name)
        # Else its owner has begun something new, and settles what that leaves open.
        if each.request_id == request_id:
            self.ownerships.pop(ownership, None)
