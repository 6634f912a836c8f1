"""A quorum of independent nodes: the Redlock algorithm.

Source: "Distributed Locks with Redis" (redis.io), followed wholly. Every node is asked at once; the lock is held if
enough of them grant it in time; what was granted without a quorum is released everywhere.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from pyredisson.core import events
from pyredisson.core.acquiring.acquire import check_not_stuck
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.deadline import Deadline
from pyredisson.core.diagnosis.wrong_type import explain_type
from pyredisson.core.driver import together
from pyredisson.core.failures import Failure, Rejected
from pyredisson.core.outcomes import ACQUIRED as GRANTED
from pyredisson.core.outcomes import LockAcquired, Refused
from pyredisson.core.waiting.pubsub_wait import lock_message
from pyredisson.core.waiting.wait_groups import Waiter, WaitGroup
from pyredisson.core.waiting.wait_loop import wait_loop
from pyredisson.errors import LockLostError, NoSyncedSlavesError
from pyredisson.kinds.token_lock import TOKEN_BYTES
from pyredisson.quorum.decisions import weakness_of
from pyredisson.quorum.member import acquire_part
from pyredisson.quorum.release import undo
from pyredisson.quorum.restart_guard import RestartGuard
from pyredisson.quorum.round import ACQUIRED, Round, RoundBackoff, state_of, unreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership.hold import Hold
    from pyredisson.quorum.member import Member
    from pyredisson.quorum.ownership import MultiHold, MultiOwnership
    from pyredisson.quorum.round import NodeReply

#: Pauses between two rounds for locks whose releases are not published.
POLL = DoublingBackoff(first=0.002, maximum=0.128)


class Redlock:
    """Acquires a quorum of nodes.

    Args:
        members: One lock on each of them.
        quorum: How many of them are needed.
        name: The name of the lock, for messages.
    """

    def __init__(self, members: tuple[Member, ...], quorum: int, name: str) -> None:
        self._members = members
        self._quorum = quorum
        self._name = name
        self._client = members[0].client
        self._kinds: list[LockKind] = [member.kind for member in members]
        self._channels = [(member.client, member.kind.names.channel) for member in members]
        self._guard = RestartGuard(members, name)
        self._one_token = any(kind.shared_token for kind in self._kinds)
        self._fenced = any(kind.token_per_hold for kind in self._kinds)
        self._announced = all(kind.waiting.announced for kind in self._kinds)
        weakness = weakness_of(len(members), quorum)
        if weakness is not None and self._client.server.first(f"{len(members)} nodes"):
            self._client.emit(events.ServerUnsafe("nodes", weakness))

    async def acquire(self, owned: MultiOwnership, hold: MultiHold, wait: float | None, asked: float) -> bool:
        """Acquire enough members; see :meth:`InOrder.acquire`."""
        seen: list[int | None] | None = None
        if wait != 0 and self._announced:
            seen = [client.subscriptions.messages_of(channel) for client, channel in self._channels]
        first = await self.ask_all(owned, hold)
        if first.acquired:
            return True
        if wait == 0:
            return await self.give_up(owned, first, "at once")
        if not self._client.runtime.suspends:
            for member, ownership in owned.parts():
                check_not_stuck(member.client, member.kind, ownership)
        rounds = AcquireRounds(self, owned, hold, asked)
        refused = await rounds.refused(first)
        deadline = Deadline.after(wait, asked)
        waits = [
            (
                presence := member.client.presence,
                presence.begin_wait(member.kind.word, member.name, own.owner, owned.who),
            )
            for member, own in owned.parts()
        ]
        try:
            if seen is None:
                acquired = await self._poll(rounds, refused, deadline)
            else:
                acquired = await self._wait(rounds, refused, seen, deadline)
            return acquired or await self.give_up(owned, rounds.last, "in time")
        finally:
            for presence, each in waits:
                presence.end_wait(each)

    async def give_up(self, owned: MultiOwnership, last: Round, within: str) -> bool:
        """Return ``False`` if enough nodes answered, else raise ``QuorumUnreachableError``."""
        if last.reached:
            return False
        # For a node whose key holds another type, say which.
        now = self._client.runtime.now
        until = now() + self._client.config.timeout
        states = dict(last.states)
        for member in self._members:
            state = states.get(member.node)
            if isinstance(state, Exception) and now() < until:
                states[member.node] = await explain_type(member.client.finder, state, member.name, member.kind.layout)
        raise unreachable(owned, states, within, last)

    # ---- one round -----------------------------------------------------------------------------------------------

    async def ask_all(self, owned: MultiOwnership, hold: MultiHold) -> Round:
        """Ask every node once. What was granted without a quorum is released."""
        runtime = self._client.runtime
        began = runtime.now()
        kinds = self._kinds if not self._one_token else self._with_one_token()
        # Kinds that number their holds write the number on the part.
        parts = [hold.part() for _ in kinds] if self._fenced else [hold.part()] * len(kinds)
        replies = await together(runtime, map(acquire_part, self._members, kinds, owned.ownerships, parts))
        error = self._look_at_servers(hold.lease_ms / 1000)
        now = runtime.now()
        granted = self._note_votes(hold, replies, parts, now)
        if granted < len(parts):
            error = _unexpected(replies) or error
        if error is None and granted >= self._quorum and owned.deadline_of(hold) > now:
            if granted < len(parts):
                self._leave_rest(owned, hold)
            return ACQUIRED
        states = self._states(hold, replies, now)
        yes = [index for index, part in enumerate(hold.parts) if part is not None]
        await undo(owned, hold)
        if error is not None:
            raise error
        refused = {index: each for index, each in enumerate(replies) if isinstance(each, Refused)}
        reached = granted + len(refused) >= self._quorum > granted
        allowed = max(member.timeout(hold.lease_ms) for member in self._members)
        late = granted >= self._quorum  # Too late to be of use, as if it had not been reached.
        return Round(False, reached, refused, states, runtime.now() - began, yes, allowed, late)

    def _with_one_token(self) -> list[LockKind]:
        """The kinds for one round: the algorithm stores one random value on all nodes."""
        token = self._client.runtime.random_bytes(TOKEN_BYTES).hex()
        return [kind.with_token(token) if kind.shared_token else kind for kind in self._kinds]

    def _look_at_servers(self, lease: float) -> Exception | None:
        """Check whether the servers can be used for this. Returns the error if not."""
        try:
            self._guard.update(lease)
        except Rejected as wrong:
            return wrong.cause
        except ValueError as wrong:
            return wrong
        return None

    def _note_votes(self, hold: MultiHold, replies: Sequence[NodeReply], parts: Sequence[Hold], now: float) -> int:
        """Note which nodes granted it, and return how many of these have a vote."""
        granted = 0
        for index, each in enumerate(replies):
            if type(each) is LockAcquired:
                hold.parts[index] = parts[index]
                hold.votes[index] = vote = self._guard.has_vote(index, now)
                granted += vote
        return granted

    @staticmethod
    def _leave_rest(owned: MultiOwnership, hold: MultiHold) -> None:
        """Let the watchdogs settle the unanswered requests to nodes outside of the quorum."""
        for (member, ownership), part in zip(owned.parts(), hold.parts, strict=True):
            if part is None and ownership.pending is not None:
                member.client.settle_later(ownership, hold.lease_ms)

    def _states(self, hold: MultiHold, replies: Sequence[NodeReply], now: float) -> dict[str, object]:
        states = {self._members[index].node: state_of(each) for index, each in enumerate(replies)}
        for index, part in enumerate(hold.parts):
            if part is not None and not hold.votes[index]:
                states[self._members[index].node] = self._guard.why_not(index, now)
        return states

    # ---- waiting -------------------------------------------------------------------------------------------------

    async def _poll(self, rounds: AcquireRounds, refused: Refused, deadline: Deadline) -> bool:
        """Ask again after random pauses: no message announces a release."""
        runtime = self._client.runtime
        for polls in itertools.count():
            pause = POLL.pause(polls, runtime.jitter) if rounds.last.reached else math.inf
            if refused.retry_in_ms is not None:
                pause = min(pause, (refused.retry_in_ms + 1) / 1000)
            await runtime.sleep(min(pause, deadline.left(runtime.now())))
            if deadline.passed(runtime.now()):
                break
            answer = await rounds.another()
            if not isinstance(answer, Refused):
                return True
            refused = answer
        return False

    async def _wait(self, rounds: AcquireRounds, refused: Refused, seen: list[int | None], deadline: Deadline) -> bool:
        """Ask again after a release. Of the nodes subscribed to, one is up if a quorum is."""
        runtime = self._client.runtime
        chosen = sorted(range(len(self._members)), key=lambda index: index not in rounds.last.refused)
        ticket = runtime.ticket(self._name)
        waiters: list[tuple[Waiter, int | None]] = []
        for index in sorted(chosen[: len(self._members) - self._quorum + 1]):
            client, channel = self._channels[index]
            group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, channel, "multi", lock_message)
            waiters.append((Waiter(group, ticket), seen[index]))

        async def attempt() -> Answer:
            await runtime.sleep(min(rounds.pace.chance(), deadline.left(runtime.now())))
            return await rounds.another()

        return await wait_loop(attempt, refused, waiters, runtime, deadline, rounds.hold.lease_ms / 1000)


def _unexpected(replies: Sequence[NodeReply]) -> Exception | None:
    """The error of a node that is neither a refusal nor an expected failure: of several, the last."""
    expected = (LockAcquired, Refused, LockLostError, NoSyncedSlavesError, Failure)
    return next((each for each in reversed(replies) if not isinstance(each, expected)), None)


class AcquireRounds:
    """The rounds of one acquire whose first round was lost.

    Attributes:
        hold: What it acquires.
        last: The last round that was lost.
        pace: The pauses between rounds.
    """

    last: Round

    def __init__(self, lock: Redlock, owned: MultiOwnership, hold: MultiHold, asked: float) -> None:
        self._lock = lock
        self._owned = owned
        self.hold: MultiHold = hold
        self.pace: RoundBackoff = RoundBackoff(owned.client.runtime, asked)

    async def another(self) -> Answer:
        """Ask every node once more.

        Raises:
            ClientClosedError: A client was closed meanwhile.
            QuorumUnreachableError: Too few have answered for ``Config.quorum_retry_timeout``.
        """
        for client in self._owned.clients():
            client.check_open()
        round_ = await self._lock.ask_all(self._owned, self.hold)
        return GRANTED if round_.acquired else await self.refused(round_)

    async def refused(self, round_: Round) -> Refused:
        """Note a round that was lost, and return when to ask again. Raises ``QuorumUnreachableError``, as above."""
        self.last = round_
        pace, client, members = self.pace, self._owned.client, self._owned.members
        pace.count(round_)
        if not round_.reached:
            retry_timeout = client.config.quorum_retry_timeout
            if client.runtime.now() - pace.reached_at >= retry_timeout:
                await self._lock.give_up(self._owned, round_, f"for {retry_timeout:g} s")
            return Refused(round(1000 * pace.retry_in()))
        free_in = round_.free_in(len(members), self._owned.quorum)
        # If it is free, votes were split, and the clients with the other votes are releasing them.
        return Refused(round(1000 * pace.chance()) if free_in == 0 else free_in)
