"""The outcome of asking every node of a quorum once, and how long to pause between two rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyredisson.core.failures import Failure
from pyredisson.core.outcomes import LockAcquired, Refused
from pyredisson.errors import QuorumUnreachableError
from pyredisson.quorum.decisions import free_in_ms, spread
from pyredisson.quorum.release import RETRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyredisson.core.outcomes import Answer
    from pyredisson.core.runtime import Runtime
    from pyredisson.errors import RedissonError
    from pyredisson.quorum.ownership import MultiOwnership


NodeReply: TypeAlias = "Answer | Failure | RedissonError"
"""The outcome of asking one node."""


class Round(NamedTuple):
    """The outcome of asking every node once.

    Attributes:
        acquired: Whether enough granted it, in time.
        reached: Whether enough answered at all.
        refused: The replies of those that refused, by member.
        states: The state of each for messages, by its name.
        took: Seconds.
        granted: Which members granted it.
        allowed: Seconds that a node had to answer; of several, the most.
        late: Whether enough granted it, but only when the lease had ended.
    """

    acquired: bool
    reached: bool
    refused: dict[int, Refused]
    states: dict[str, object]
    took: float
    granted: Sequence[int] = ()
    allowed: float = 0.0
    late: bool = False

    def free_in(self, members: int, quorum: int) -> int | None:
        """For how many ms another round is sure to be refused; ``None``: until a release."""
        return free_in_ms([each.retry_in_ms for each in self.refused.values()], members - len(self.refused), quorum)


#: The outcome of nearly every round.
ACQUIRED = Round(True, True, {}, {}, 0.0)


def state_of(reply: NodeReply) -> object:
    """Describe the outcome of asking one node, for messages."""
    if isinstance(reply, LockAcquired):
        return "granted"
    if isinstance(reply, Refused):
        ms = reply.retry_in_ms
        return "held by another" if ms is None else f"held by another for {ms / 1000:.3f} s"
    return reply.cause if isinstance(reply, Failure) else reply


def unreachable(
    owned: MultiOwnership, states: dict[str, object], within: str, last: Round | None = None
) -> QuorumUnreachableError:
    """The error for too few nodes, with the reply of each; ``last``: the last round, if all are asked at once."""
    text = "; ".join(f"{node}: {state}" for node, state in states.items())
    name, quorum, count = owned.name, owned.quorum, len(owned.members)
    if last is not None and last.late:
        message = (
            f"multi-lock {name!r} needs {quorum} of {count} nodes, but {len(last.granted)} granted it after its lease "
            f"had expired ({text}); what they granted is released. Ask for a longer lease, or set "
            "Config.quorum_node_timeout to at most a tenth of it"
        )
    else:
        message = (
            f"multi-lock {name!r} needs {quorum} of {count} nodes, but too few could be reached {within} ({text}); "
            "what they granted is released"
        )
        if last is not None and any("timeout" in type(state).__name__.lower() for state in states.values()):
            message += (
                f". A node has {last.allowed:.3g} s to answer: if that is too short for the network, set "
                "Config.quorum_node_timeout to several round trips"
            )
    return QuorumUnreachableError(message, name=name, nodes=states)


class RoundBackoff:
    """How long one acquire pauses between two rounds.

    Attributes:
        reached_at: When enough nodes answered last.
    """

    def __init__(self, runtime: Runtime, asked: float) -> None:
        self._runtime = runtime
        self.reached_at: float = asked
        self._lost = 0  # Rounds in a row that were lost.
        self._silent = 0  # Rounds in a row in which too few answered.
        self._took = 0.0

    def count(self, round_: Round) -> None:
        """Note the outcome of a round that was lost."""
        self._took = round_.took
        self._lost += 1
        if round_.reached:
            self.reached_at = self._runtime.now()
            self._silent = 0
        else:
            self._silent += 1

    def chance(self) -> float:
        """A random pause: clients woken by one message would ask the nodes at the same moment."""
        return self._runtime.jitter(0.0, spread(self._lost, self._took))

    def retry_in(self) -> float:
        """A random pause after too few have answered."""
        return RETRY.pause(self._silent, self._runtime.jitter)
