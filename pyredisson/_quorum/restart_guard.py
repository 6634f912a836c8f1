"""Which nodes of a quorum have a vote: none that may have lost a granted lock.

A node that restarts without its data would grant a lock again that a majority still holds, and with one such node two
majorities need have no honest node in common. "Distributed Locks with Redis" therefore wants a crashed node to stay
away for longer than the longest lease. That delay is kept here, by the client: a node that was started less than one
longest lease ago has no vote. How old it is, is learnt on each new connection, so an acquire costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyredisson._core import events
from pyredisson._core.server import Complaint, lack_of_persistence

if TYPE_CHECKING:
    from pyredisson._core.server import ServerFacts
    from pyredisson._quorum.member import Member

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
        self._barred: dict[int, str] = {}  # The run that was reported to have no vote, by node.
        self._young = False

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
            starts = client.starts
            starts.longest_lease = max(starts.longest_lease, lease)
            guard = client.config.restart_guard
            if client.runtime.place("") is not None:
                delays.append(0.0)  # The uptime of one server of a cluster says nothing of the others.
            elif guard is True:
                delays.append(max(client.config.lock_watchdog_timeout, starts.longest_lease))
            else:
                delays.append(float(guard))  # False is 0: at once.
        self._until = no_vote_until(facts, [client.starts.replaced for client in self._clients], delays)
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
                    client.server.object(
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
            if self._until[index] > each.seen_at and self._barred.get(index) != each.run_id:
                self._barred[index] = each.run_id  # Once: each connection shows another uptime, to the second.
                client.emit(
                    events.NodeBarred(self._name, self._nodes[index], each.uptime, self._until[index] - each.seen_at)
                )
        if lacking is not None:
            where = ", ".join(forgetful)
            text = f"quorum {self._name!r}, {where}: {lacking.text}"
            self._clients[0].emit(events.ServerUnsafe(lacking.setting, text))
        known = [each for each in facts if each is not None and each.run_id]
        young = len(known) == len(facts) and all(each.uptime < delay for each, delay in zip(known, delays, strict=True))
        if young and not self._young and max(self._until) == -math.inf:
            self._young = True
            self._clients[0].emit(events.QuorumIsYoung(self._name, len(facts), max(each.uptime for each in known)))
