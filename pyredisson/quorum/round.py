"""What comes of asking every node of a quorum once."""

from __future__ import annotations

from typing import NamedTuple

from pyredisson.core.outcomes import Acquired
from pyredisson.core.runtime import Failure
from pyredisson.quorum.decisions import free_in_ms
from pyredisson.quorum.fan_out import NotReached

__all__ = ["TAKEN", "Round", "state_of"]


class Round(NamedTuple):
    """What came of asking every node once.

    Attributes:
        taken: Whether enough said yes, in time.
        reached: Whether enough answered at all.
        refused: For how long, in ms, each of those that said no is another's (-1: without end); by member.
        said: What each said, by its name.
        took: Seconds.
    """

    taken: bool
    reached: bool
    refused: dict[int, int]
    said: dict[str, object]
    took: float

    def free_in(self, members: int, quorum: int) -> int:
        """For how many ms asking again is sure to be in vain (-1: without end)."""
        return free_in_ms(list(self.refused.values()), members - len(self.refused), quorum)


#: What comes of nearly every round.
TAKEN = Round(True, True, {}, {}, 0.0)


def state_of(outcome: object, refused: int | None) -> object:
    """Say what came of asking one node, which may have been ``refused`` for so many ms."""
    if isinstance(outcome, Acquired):
        return "taken"
    if refused is not None:
        return "held by another" if refused < 0 else f"held by another for {refused / 1000:.3f} s"
    return outcome.cause if isinstance(outcome, (Failure, NotReached)) else outcome
