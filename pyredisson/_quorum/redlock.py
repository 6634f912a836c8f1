"""A quorum of independent nodes: the Redlock algorithm.

Source: "Distributed Locks with Redis" (redis.io), followed wholly. Every node is asked at once; the lock is held if
enough of them grant it in time; what was granted, or may have been, without a quorum is released.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from pyredisson._core import events
from pyredisson._core.acquiring import check_not_stuck
from pyredisson._core.deadline import RETRY, Deadline, DoublingBackoff
from pyredisson._core.failures import Failure, NotSent, Rejected, Unanswered, Unusable
from pyredisson._core.hold import HoldState
from pyredisson._core.requests import ACQUIRED, Answer, LockAcquired, Refused
from pyredisson._core.runtime import Runtime, together
from pyredisson._core.server import Complaint, ServerFacts, lack_of_persistence
from pyredisson._core.subscriptions import Waiter, WaitGroup
from pyredisson._core.waiting import lock_message, wait_loop
from pyredisson._kinds.token_lock import TOKEN_BYTES
from pyredisson._quorum.hold import (
    acquire_part,
    explain_states,
    majority,
    undo,
    unreachable,
    wait_for_turns,
)
from pyredisson.errors import LockLostError, NoSyncedSlavesError, RedissonError

if TYPE_CHECKING:
    from pyredisson._core.kind import LockKind
    from pyredisson._quorum.hold import Member, MultiHold

NodeReply: TypeAlias = "Answer | Failure | RedissonError"
"""The outcome of asking one node."""

#: Pauses between two rounds for locks whose releases are not published.
POLL = DoublingBackoff(first=0.002, maximum=0.128)


class Redlock:
    """Acquires a quorum of nodes.

    Args:
        members: One lock on each of them.
        quorum: How many of them are needed.
        name: The name of the lock, for messages.

    Attributes:
        kinds: The kind of each lock.
        guard: Which nodes have a vote.
        one_token: Whether all nodes store one token.
    """

    def __init__(self, members: tuple[Member, ...], quorum: int, name: str) -> None:
        self._channels = [(member.client, member.kind.names.channel) for member in members]
        self._announced = all(member.kind.waiting.announced for member in members)
        self.kinds: list[LockKind] = [member.kind for member in members]
        self.guard: RestartGuard = RestartGuard(members, name)
        self.one_token: bool = any(kind.shared_token for kind in self.kinds)
        weakness, client = weakness_of(len(members), quorum), members[0].client
        if weakness is not None and client.server.first(f"{len(members)} nodes"):
            client.emit(events.ServerUnsafe("nodes", weakness))

    async def acquire(self, whole: MultiHold, wait: float | None, began: float) -> bool:
        """Acquire enough members; see :meth:`InOrder.acquire`."""
        seen: list[int | None] | None = None
        if wait != 0 and self._announced:
            seen = [
                client.subscriptions.messages_of(channel) if client.subscriptions.channels else None
                for client, channel in self._channels
            ]
        rounds = Rounds(self, whole, began)
        if await rounds.attempt_all():
            return True
        if wait == 0:
            return await rounds.give_up("at once")
        if not whole.client.runtime.suspends:
            for member, ownership in zip(whole.members, whole.ownerships, strict=True):
                check_not_stuck(member.client, member.kind, ownership)
        refused = await rounds.refused()
        deadline = Deadline.after(wait, began)
        waits = [
            (
                presence := member.client.presence,
                presence.begin_wait(member.kind.word, member.name, own.owner, whole.who),
            )
            for member, own in zip(whole.members, whole.ownerships, strict=True)
        ]
        try:
            if seen is None:
                acquired = await self._poll(rounds, refused, deadline)
            else:
                acquired = await self._wait(rounds, refused, seen, deadline)
            return acquired or await rounds.give_up("in time")
        finally:
            for presence, each in waits:
                presence.end_wait(each)

    async def _poll(self, rounds: Rounds, refused: Refused, deadline: Deadline) -> bool:
        """Ask again after random pauses: no message announces a release."""
        runtime = rounds.runtime
        for polls in itertools.count():
            pause = POLL.pause(polls, runtime.jitter) if rounds.reached else math.inf
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

    async def _wait(self, rounds: Rounds, refused: Refused, seen: list[int | None], deadline: Deadline) -> bool:
        """Ask again after a release. Of the nodes subscribed to, one is up if a quorum is."""
        runtime, whole = rounds.runtime, rounds.whole
        chosen = sorted(range(len(seen)), key=lambda index: index not in rounds.refusals)
        ticket = runtime.ticket(whole.name)
        waiters: list[tuple[Waiter, int | None]] = []
        for index in sorted(chosen[: len(seen) - whole.quorum + 1]):
            client, channel = self._channels[index]
            group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, channel, "multi", lock_message)
            waiters.append((Waiter(group, ticket), seen[index]))

        async def attempt() -> Answer:
            await runtime.sleep(min(rounds.chance(), deadline.left(runtime.now())))
            return await rounds.another()

        return await wait_loop(attempt, refused, waiters, runtime, deadline, whole.lease_ms() / 1000)


class Rounds:
    """The rounds of one acquire: each asks every node once.

    Attributes:
        whole: What is acquired.
        runtime: That of the first member's client.
        reached: Whether enough nodes answered in the last round that was lost.
        refusals: The replies of those that refused in it, by member.
    """

    reached: bool
    refusals: dict[int, Refused]

    def __init__(self, lock: Redlock, whole: MultiHold, began: float) -> None:
        self._lock = lock
        self.whole: MultiHold = whole
        self.runtime: Runtime = whole.client.runtime
        self._reached_at = began  # When enough nodes answered last.
        self._lost = 0  # Rounds in a row that were lost.
        self._silent = 0  # Rounds in a row in which too few answered.
        self._took = 0.0
        self._late_rounds: tuple[float, ...] = ()  # How long the last rounds took in a row whose lease had ended then.

    # ---- one round -----------------------------------------------------------------------------------------------

    async def attempt_all(self) -> bool:
        """Ask every node once. What was granted without a quorum is released. Returns whether there was one."""
        lock, whole, runtime = self._lock, self.whole, self.runtime
        began = runtime.now()
        kinds = lock.kinds
        if lock.one_token:  # The algorithm stores one random value on all nodes.
            token = runtime.random_bytes(TOKEN_BYTES).hex()
            kinds = [kind.with_token(token) if kind.shared_token else kind for kind in kinds]
        parts = [whole.new_part(index) for index in range(len(kinds))]
        whole.parts = [*parts]
        await wait_for_turns(whole)
        replies = await together(runtime, map(acquire_part, whole.members, kinds, whole.ownerships, parts))
        error: Exception | None = None
        try:
            lock.guard.update(whole.lease_ms() / 1000)
        except Rejected as wrong:
            error = wrong.cause
        except ValueError as wrong:
            error = wrong
        now = runtime.now()
        votes = self._note_votes(replies, now)
        if votes < len(parts):
            error = _unexpected(replies) or error
        if error is None and votes >= whole.quorum and whole.certain_until() > now:
            if votes < len(parts):
                self._leave_rest()
            return True
        self._note_lost(replies, votes, now)
        await undo(whole)
        if error is not None:
            raise error
        self._took = runtime.now() - began
        self._late_rounds = whole.late_again(self._late_rounds, now - began) if self._late else ()
        return False

    def _note_votes(self, replies: Sequence[NodeReply], now: float) -> int:
        """Note which nodes that granted it have a vote, and return how many."""
        whole, votes = self.whole, 0
        for index, each in enumerate(replies):
            if type(each) is LockAcquired:
                whole.votes[index] = vote = self._lock.guard.has_vote(index, now)
                votes += vote
                if whole.members[index].client.away_since is not None:
                    whole.note_node(index, None)
                continue
            if isinstance(each, Unanswered | NotSent):
                whole.note_node(index, each)
            elif whole.members[index].client.away_since is not None:
                whole.note_node(index, None)
            if whole.ownerships[index].pending is None:
                whole.parts[index] = None
        return votes

    def _leave_rest(self) -> None:
        """Let the watchdogs settle the unanswered requests to nodes outside of the quorum."""
        for index, member, ownership, part in self.whole.each():
            if part.state is not HoldState.HELD:
                self.whole.parts[index] = None
                member.client.settle_later(ownership, part.lease_ms)
                ownership.claim(part)

    def _note_lost(self, replies: Sequence[NodeReply], votes: int, now: float) -> None:
        """Note the replies of a round that was lost, and the state of each node for messages."""
        whole = self.whole
        self.refusals = {index: each for index, each in enumerate(replies) if isinstance(each, Refused)}
        self.reached = votes + len(self.refusals) >= whole.quorum > votes
        # Too late to be of use, as if it had not been reached.
        held = whole.held()
        self._late = len(held) if votes >= whole.quorum else 0
        self._refused = sum(isinstance(each, Rejected | Unusable) for each in replies) > len(replies) - whole.quorum
        self._states = {member.node: _state_of(each) for member, each in zip(whole.members, replies, strict=True)}
        for index, member, _, _ in held:
            if not whole.votes[index]:
                self._states[member.node] = self._lock.guard.why_not(index, now)

    # ---- the next one --------------------------------------------------------------------------------------------

    async def another(self) -> Answer:
        """Ask every node once more.

        Raises:
            ClientClosedError: A client was closed meanwhile, or has become another one.
            QuorumUnreachableError: Too few have answered for ``Config.quorum_retry_timeout``; or too many have answered
                with an error.
        """
        for member, ownership in zip(self.whole.members, self.whole.ownerships, strict=True):
            member.client.check_open()
            if not ownership.owner.startswith(member.client.id):
                raise member.client.former(ownership)
        return ACQUIRED if await self.attempt_all() else await self.refused()

    async def refused(self) -> Refused:
        """Return when to ask again after a round that was lost. Raises ``QuorumUnreachableError``, as above."""
        whole, now = self.whole, self.runtime.now()
        self._lost += 1
        if not self.reached:
            self._silent += 1
            retry_timeout = whole.client.config.quorum_retry_timeout
            if self._refused or now - self._reached_at >= retry_timeout:
                await self.give_up(f"for {retry_timeout:g} s")
            return Refused(round(1000 * RETRY.pause(self._silent, self.runtime.jitter)))
        self._reached_at, self._silent = now, 0
        refusals = [each.retry_in_ms for each in self.refusals.values()]
        free_in = free_in_ms(refusals, len(whole.members) - len(refusals), whole.quorum)
        # If it is free, votes were split, and the clients with the other votes are releasing them.
        return Refused(round(1000 * self.chance()) if free_in == 0 else free_in)

    def chance(self) -> float:
        """A random pause: clients woken by one message would ask the nodes at the same moment."""
        return self.runtime.jitter(0.0, spread(self._lost, self._took))

    async def give_up(self, within: str) -> bool:
        """Return ``False`` if enough nodes answered in the last round, else raise ``QuorumUnreachableError``."""
        if self.reached:
            return False
        whole, states = self.whole, self._states
        await explain_states(whole.members, states, self.runtime.now() + whole.client.config.timeout)
        if self._late:
            raise unreachable(
                whole,
                states,
                f"{self._late} granted it after its lease had expired",
                ". Ask for a longer lease, or set Config.quorum_node_timeout to at most a tenth of it",
            )
        hint = ""
        if any("timeout" in type(state).__name__.lower() for state in states.values()):
            allowed = max(member.timeout(whole.lease_ms(member)) for member in whole.members)
            hint = (
                f". A node has {allowed:.3g} s to answer: if that is too short for the network, set "
                "Config.quorum_node_timeout to several round trips"
            )
        why = "too many refused it" if self._refused else f"too few could be reached {within}"
        raise unreachable(whole, states, why, hint)


def _state_of(reply: NodeReply) -> object:
    """Describe the outcome of asking one node, for messages."""
    if isinstance(reply, LockAcquired):
        return "granted"
    if isinstance(reply, Refused):
        ms = reply.retry_in_ms
        return "held by another" if ms is None else f"held by another for {ms / 1000:.3f} s"
    return reply.cause if isinstance(reply, Failure) else reply


def _unexpected(replies: Sequence[NodeReply]) -> Exception | None:
    """The error of a node that is neither a refusal nor an expected failure: of several, the last."""
    expected = (LockAcquired, Refused, LockLostError, NoSyncedSlavesError, Failure)
    return next((each for each in reversed(replies) if not isinstance(each, expected)), None)


# ---- decisions -------------------------------------------------------------------------------------------------------
# What it decides: plain functions of what the nodes replied.


#: The random pause between two rounds: this range at first, in seconds, doubled after each lost round, to at most that.
SPREAD_MIN = 0.002
SPREAD_MAX = 0.25


def weakness_of(nodes: int, quorum: int) -> str | None:
    """Say what a majority of the nodes tolerates, if fewer nodes would do as well; else ``None``."""
    if quorum != majority(nodes) or (nodes % 2 and nodes > 1):
        return None
    spare = nodes - quorum
    failed = f"{spare or 'no'} failed node{'s' * (spare > 1)}"
    fewer = f", as a quorum of {nodes - 1} would" if nodes > 2 else ", as a lock on one server"
    return f"a quorum of {nodes} node{'s' * (nodes > 1)} tolerates {failed}{fewer}: use three or five nodes"


def free_in_ms(refusals: Sequence[int | None], free: int, quorum: int) -> int | None:
    """For how many ms a quorum is sure to be refused: until enough of those that refused are free by time alone.

    Args:
        refusals: For how long each of them is held by another; ``None``: until a release.
        free: How many nodes did not refuse.
        quorum: How many are needed.

    Returns:
        Milliseconds, 0 if it is free; ``None``: until a release.
    """
    missing = quorum - free
    if missing <= 0:
        return 0
    ends = sorted(ms for ms in refusals if ms is not None)
    return ends[missing - 1] if missing <= len(ends) else None


def spread(rounds: int, round_took: float) -> float:
    """Return the longest random pause before the next round, in seconds, after a number of lost rounds in a row.

    Clients that were woken by one message would otherwise ask at the same moment again and again, and none would win.
    """
    return min(max(SPREAD_MIN, round_took) * 2.0 ** min(rounds, 10), SPREAD_MAX)


# ---- restart guard ---------------------------------------------------------------------------------------------------
# Which nodes of a quorum have a vote: none that may have lost a granted lock.
#
# A node that restarts without its data would grant a lock again that a majority still holds, and with one such node two
# majorities need have no honest node in common. "Distributed Locks with Redis" therefore wants a crashed node to stay
# away for longer than the longest lease. That delay is kept here, by the client: a node that was started less than one
# longest lease ago has no vote. How old it is, is learnt on each new connection, so an acquire costs nothing.


#: The seconds by which a node has to be older than another one for it to have been there before. Uptimes are given in
#: whole seconds, so that those of two started at once may differ by one.
CLEARLY_OLDER = 2.0


def no_vote_until(
    facts: Sequence[ServerFacts | None], replaced: Sequence[str | None], delays: Sequence[float]
) -> list[float]:
    """Until when each node has no vote, in monotonic seconds; minus infinity if it has one.

    Args:
        facts: What each reported of itself; ``None`` if nothing.
        replaced: The run id that replaced another one there, if one did.
        delays: For how long each has to stay away after its start.
    """
    # The latest possible start: uptimes are rounded down.
    starts = [each.seen_at - each.uptime if each is not None and each.run_id else None for each in facts]
    first = min((start for start in starts if start is not None), default=0.0)
    until = []
    for each, start, other, delay in zip(facts, starts, replaced, delays, strict=True):
        if each is None or start is None:
            until.append(-math.inf)
        elif other == each.run_id or start - first >= CLEARLY_OLDER:
            until.append(start + delay)
        else:
            until.append(-math.inf)
    return until


class RestartGuard:
    """The votes of the nodes of one quorum.

    Args:
        members: The lock on each node.
        name: The name of the lock, for messages.
    """

    def __init__(self, members: Sequence[Member], name: str) -> None:
        self._clients = [member.client for member in members]
        self._nodes = [member.node for member in members]
        self._name = name
        self._facts: tuple[ServerFacts | None, ...] = (None,) * len(members)
        self._longest = 0.0
        self._until = [-math.inf] * len(members)
        self._refused: set[int] = set()

    def update(self, lease: float) -> None:
        """Take note of nodes that were connected to since the last time, and of the lease that is asked for.

        Raises:
            ValueError: Two of them are one server.
            Rejected: ``Config.strict_server`` does not let one of them be used.
        """
        if lease <= self._longest and self._nothing_new():
            return
        facts = tuple([client.server.facts for client in self._clients])
        self._check_distinct(facts)
        self._longest = max(self._longest, lease)
        delays = []
        for client in self._clients:
            server = client.server
            server.longest_lease = max(server.longest_lease, lease)
            guard = client.config.restart_guard
            if client.runtime.place("") is not None:
                delays.append(0.0)  # The uptime of one server of a cluster says nothing of the others.
            elif guard is True:
                delays.append(max(client.config.lock_watchdog_timeout, server.longest_lease))
            else:
                delays.append(float(guard))  # False is 0: at once.
        self._until = no_vote_until(facts, [client.server.replaced for client in self._clients], delays)
        self._tell(facts, delays)
        self._facts = facts

    def has_vote(self, index: int, now: float) -> bool:
        """Whether a node's answer counts."""
        return now >= self._until[index]

    def why_not(self, index: int, now: float) -> str:
        """What to say of a node that has no vote."""
        return (
            f"no vote for another {self._until[index] - now:.1f} s: it was restarted, and may have lost its locks "
            "(Config.restart_guard)"
        )

    def _nothing_new(self) -> bool:
        facts = self._facts
        for index, client in enumerate(self._clients):
            server = client.server
            if server.facts is not facts[index] or (server.refusal is not None and index not in self._refused):
                return False
        return True

    def _check_distinct(self, facts: tuple[ServerFacts | None, ...]) -> None:
        seen: dict[str, int] = {}
        for index, each in enumerate(facts):
            if each is None or not each.run_id or self._clients[index].runtime.place("") is not None:
                continue
            other = seen.setdefault(each.run_id, index)
            if other != index:
                raise ValueError(
                    f"{self._nodes[other]} and {self._nodes[index]} of multi-lock {self._name!r} are the same server "
                    f"(run id {each.run_id[:8]}…): a quorum needs independent ones"
                )

    def _tell(self, facts: tuple[ServerFacts | None, ...], delays: list[float]) -> None:
        lacking: Complaint | None = None
        forgetful: list[str] = []  # The nodes that keep nothing: one warning for all of them.
        for index, client in enumerate(self._clients):
            each = facts[index]
            if client.server.refusal is not None:
                if index not in self._refused:
                    self._refused.add(index)
                    client.server.report_or_refuse(
                        Complaint(
                            "INFO",
                            f"the server does not report its uptime ({client.server.refusal}): it votes in quorums "
                            "even if it has just been restarted without its data. Allow this user to run INFO",
                        )
                    )
                continue
            if each is None or each is self._facts[index]:
                continue
            complaint = lack_of_persistence(each)
            config = client.config
            wanted = config.strict_server or config.restart_guard  # Without a guard, restarts are left to the user.
            if complaint is not None and wanted and client.server.is_new(complaint):
                forgetful.append(self._nodes[index])
                lacking = complaint
            # Once a client and run: handles are many, and each connection shows another uptime, to the second.
            if self._until[index] > each.seen_at and client.server.first(f"no vote of run {each.run_id}"):
                client.emit(
                    events.NodeBarred(self._name, self._nodes[index], each.uptime, self._until[index] - each.seen_at)
                )
        if lacking is not None:
            where = ", ".join(forgetful)
            text = f"quorum {self._name!r}, {where}: {lacking.text}"
            self._clients[0].emit(events.ServerUnsafe(lacking.setting, text))
        known = [each for each in facts if each is not None and each.run_id]
        young = len(known) == len(facts) and all(each.uptime < delay for each, delay in zip(known, delays, strict=True))
        runs = ", ".join(sorted(each.run_id for each in known))
        if young and max(self._until) == -math.inf and self._clients[0].server.first(f"first start of {runs}"):
            self._clients[0].emit(events.QuorumIsYoung(self._name, len(facts), max(each.uptime for each in known)))
