"""Waiting for a quorum on the nodes' lists of the clients that wait, so that a release wakes one client, not all.

Rules kept here (those of ``core/listing.py`` hold on each node):

1. A client is on the lists of those nodes whose releases it listens to, and that refused it last. It has one name on
   all of them, so that nodes on which two clients arrive at the same moment order them alike.
2. Nodes need not agree whose turn it is. The first node on whose list a client is decides for it: notified by that
   node, it attempts at once; notified by another one, after :data:`LEAD`, when the client of the first node has been
   served as a rule.
3. Votes can be split all the same, by a client that has just arrived. Each gives back the nodes that it was granted,
   which notifies the next clients there, and pauses at random before its next attempt, longer after each split round.
4. A node that grants takes the client off its list. So a client that gives a node back is not notified by its own
   release; and where a holder has only some of the nodes, each waiter finds the others free once, not again and again.
5. A client that was refused by none of the nodes that it listens to would be notified of no release. There is no holder
   of a quorum then, which would include one of these nodes: the client attempts again after a random pause.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from pyredisson.core.by_message import may_not_list
from pyredisson.core.failures import Rejected
from pyredisson.core.listing import Listing
from pyredisson.core.outcomes import Refused
from pyredisson.core.settling import CLEANUP_BUDGET
from pyredisson.core.waiters import lock_message
from pyredisson.core.waiting import HeardOn, until_taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.listing import Look
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.runtime import Reply
    from pyredisson.core.waiters import Seat
    from pyredisson.quorum.member import Member
    from pyredisson.quorum.ownership import MultiHold, MultiOwnership
    from pyredisson.quorum.round import Pace, Round

#: Seconds by which the clients that the first node has notified are ahead of the others.
LEAD = 0.05


class Rounds(Protocol):
    """The rounds of one acquire; see ``Trial``."""

    owned: MultiOwnership
    hold: MultiHold
    pace: Pace

    def check_open(self) -> None:
        """Raise ``ClientClosedError`` if a client was closed meanwhile."""
        ...

    async def another(self) -> Round:
        """Ask every node once more."""
        ...


class ListedOnNodes:
    """A wait as a client on the lists of several nodes, after a first round was lost.

    Args:
        rounds: The rounds.
        last: The first of them.
        heard: The numbers of the nodes that it listens to.
        answer: What a round says of when to attempt again.
    """

    def __init__(self, rounds: Rounds, last: Round, heard: Sequence[int], answer: Callable[[Round], Answer]) -> None:
        self._rounds = rounds
        self._heard = heard
        self._answer = answer
        self._runtime = rounds.owned.client.runtime
        self._refused_by: Mapping[int, Refused] = last.refused
        self._given_back: Sequence[int] = ()
        self._parts = [rounds.owned.parts()[index] for index in heard]
        self._rejected_by: list[ClientCore] = []  # None: all, which do not let it hear their messages.
        self.left: dict[int, str] = {}
        first = rounds.owned.client
        # Not the name under which that client waits for the lock of one node.
        self._name = f"{first.id}+{rounds.owned.quorum}"
        number = next(first.wakeups.bench_numbers)
        self.listings: Sequence[Listing] = [
            Listing(
                f"{self._name}:{number}",
                member.kind.names.channel,
                member.kind.names.waiting,
                lock_message,
                member.client.runtime.now,
            )
            for member, _ in self._parts
        ]

    async def until_acquired(
        self, attempt: Callable[[], Awaitable[Answer]], refused: Refused, deadline: Deadline, lock: str
    ) -> bool | None:
        """Attempt again; see :func:`until_taken`. ``None``: a node does not let it use its list."""
        self._deadline = deadline
        try:
            return await until_taken(
                attempt,
                refused,
                runtime=self._runtime,
                channels=[
                    HeardOn(member.client.wakeups, member.kind.names.own_channel(self._name), None)
                    for member, _ in self._parts
                ],
                lock=lock,
                kind="multi",
                message=self.listings[0].message,
                deadline=deadline,
                free_after=self._rounds.hold.lease_ms / 1000,
                place_on_list=self,
            )
        except Rejected as rejected:
            for client in self._rejected_by or [member.client for member, _ in self._parts]:
                if not may_not_list(client, rejected):
                    raise
            return None
        finally:
            for at, name in self.left.items():
                self._leave_later(self._parts[at][0], name)

    async def look(self, seats: Sequence[Seat]) -> Answer:
        """See :meth:`PlaceOnList.look`."""
        await self._let_others_go_first(seats)
        try:
            # To whatever node's ears: somebody attempts, and a node that refuses will announce a release.
            chosen = any(_chosen(seat) for seat in seats)
            looks = [self._begin_look(at, seat, chosen) for at, seat in enumerate(seats)]
            round_ = await self._rounds.another()
        finally:
            for _, ownership in self._parts:
                ownership.attempts_as(None)
        self._refused_by, self._given_back = round_.refused, round_.granted
        parts = self._rounds.hold.parts
        for index, (member, _), seat, look in zip(self._heard, self._parts, seats, looks, strict=True):
            if look is not None:
                with member.client.wakeups.mutex:
                    self._note(seat, look, parts[index] is not None, index in round_.granted)
        self._check_rejected(round_)
        answer = self._answer(round_)
        if isinstance(answer, Refused) and not any(index in round_.refused for index in self._heard):
            return self._again_soon(answer)
        return answer

    def _again_soon(self, refused: Refused) -> Refused:
        """Pause for a while: no node will notify this client, but there is no holder of a quorum either."""
        pause_ms = round(1000 * self._rounds.pace.chance())
        ms = refused.retry_in_ms
        return Refused(pause_ms if ms is None else min(ms, pause_ms))

    @staticmethod
    def _note(seat: Seat, look: Look, acquired: bool, given_back: bool) -> None:
        """Note what became of a node."""
        bench = seat.bench
        listing = bench.listing
        assert listing is not None
        if acquired:
            listing.acquired(look)
        elif given_back and look.rest_ms < 0 and look.number == listing.looks:
            # It is on that node's list no more, and what the node announces meanwhile is this release.
            listing.given_back = True
            if not listing.chosen:
                seat.called = False
            if bench.first() is seat:
                bench.soon = math.inf

    def _check_rejected(self, round_: Round) -> None:
        for index, (member, _) in zip(self._heard, self._parts, strict=True):
            rejected = round_.rejected.get(index)
            if rejected is not None and "NOPERM" in str(rejected.cause):
                self._rejected_by = [member.client]
                raise rejected

    def _begin_look(self, at: int, seat: Seat, chosen: bool) -> Look | None:
        """One of the nodes is about to be asked: whatever it has said so far is answered by that."""
        member, ownership = self._parts[at]
        client = member.client
        listing = seat.bench.listing
        assert listing is not None
        with client.wakeups.mutex:
            seat.begin(client.runtime.now())
            # It would be taken for gone where it does not hear its own channel.
            look = listing.begin_look(seat) if seat.channel.confirmed else None
        if look is not None:
            # Where it has given the node back, it would be notified of its own release again and again.
            rest_ms = -1 if self._heard[at] in self._given_back else look.rest_ms
            look = look._replace(rest_ms=rest_ms, chosen=chosen)
        ownership.attempts_as(look)
        return look

    async def _let_others_go_first(self, seats: Sequence[Seat]) -> None:
        """Pause, unless it is this one's turn."""
        runtime, pace = self._runtime, self._rounds.pace
        now = runtime.now()
        first = self._has_turn(seats)
        later = LEAD if any(_chosen(seat) for seat in seats) else pace.among_few()
        until = min(now + (pace.after_split() if first else later), self._deadline.at)
        while now < until:
            await seats[0].ticket.wait(until - now)
            self._rounds.check_open()
            now = runtime.now()
            if not first and self._has_turn(seats):
                first = True
                until = min(until, now + pace.after_split())

    def _has_turn(self, seats: Sequence[Seat]) -> bool:
        """Whether the node says so that decides for this client."""
        for index, seat in zip(self._heard, seats, strict=True):
            if index in self._refused_by and seat.channel.confirmed:
                return _chosen(seat)
        return any(_chosen(seat) for seat in seats)

    def _leave_later(self, member: Member, name: str) -> None:
        client = member.client

        def stop_waiting() -> Coroutine[Any, Any, Reply]:
            return client.runtime.eval(member.kind.stop_waiting(name), CLEANUP_BUDGET)

        if not client.closed:
            client.watchdog.do_later(stop_waiting, client.runtime.now() + client.config.max_wait_without_check)


def _chosen(seat: Seat) -> bool:
    return seat.bench.listing is not None and seat.bench.listing.chosen
