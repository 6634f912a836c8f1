"""Rounds in random order, and what is concluded from them."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from .load import ForeignLoad, wait_for_quiet

__all__ = ["FOREIGN", "Samples", "Tournament", "disturbance", "is_disturbed", "median_of", "median_ratio", "say"]

FOREIGN = "foreign cores"
"""How many cores other programs kept busy during a turn."""

CALM_CORES = 0.25
QUIET_WITHIN_SECONDS = 20.0

Samples = Mapping[str, Sequence[Mapping[str, float]]]
"""For each contestant, what each round measured: named numbers."""


def say(text: str) -> None:
    """Report the progress of the run."""
    print(text, file=sys.stderr, flush=True)


class Tournament:
    """How rounds are played: in random order; with ``calm``, when other programs leave the machine alone.

    Args:
        order: Draws the order of the contestants.
        server: The process id of the private server.
        calm: Wait a while for a quiet machine before each round, play up to three times as many rounds, and keep those
            in which other programs did least. The choice looks at their load alone, never at what was measured.
    """

    def __init__(self, order: random.Random, server: int, *, calm: bool = False) -> None:
        self._order = order
        self._server = server
        self._calm = calm

    def play(
        self,
        title: str,
        contestants: Sequence[str],
        rounds: int,
        measure: Callable[[str], Mapping[str, float]],
        servers: Sequence[int] = (),
    ) -> Samples:
        """Let every contestant play once a round, in a new random order each time.

        Each sample also tells how many cores other programs kept busy meanwhile. ``servers`` are the process ids of
        further private servers, and of contestants that run on between their turns.
        """
        played: list[dict[str, Mapping[str, float]]] = []
        while len(played) < rounds * (3 if self._calm else 1):
            if self._calm:
                if sum(map(_is_calm, played)) >= rounds:
                    break
                say(f"{title}: waiting for a quiet machine")
                wait_for_quiet(QUIET_WITHIN_SECONDS)
            say(f"{title}: round {len(played) + 1}, {rounds} are wanted")
            played.append(
                {name: self._turn(name, measure, servers) for name in self._order.sample(contestants, len(contestants))}
            )
        calmest = sorted(played, key=_disturbed)[:rounds]
        return {name: [one[name] for one in played if one in calmest] for name in contestants}

    def _turn(
        self, name: str, measure: Callable[[str], Mapping[str, float]], servers: Sequence[int]
    ) -> Mapping[str, float]:
        gc.collect()
        load = ForeignLoad(self._server, *servers)
        sample = dict(measure(name))
        cores = load.cores()
        return sample if cores is None else {**sample, FOREIGN: cores}


def _disturbed(played: Mapping[str, Mapping[str, float]]) -> float:
    return max(sample.get(FOREIGN, 0.0) for sample in played.values())


def _is_calm(played: Mapping[str, Mapping[str, float]]) -> bool:
    return _disturbed(played) < CALM_CORES


def disturbance(samples: Samples) -> str | None:
    """Describe the load of other programs during the run."""
    cores = _foreign_cores(samples)
    if not cores:
        return None
    load = f"Other programs kept {median(cores):.2f} cores busy in the median turn, {max(cores):.2f} at most."
    if not is_disturbed(samples):
        return load
    return f"{load} That is too much for these figures to count: run them again when the machine is quiet."


def is_disturbed(samples: Samples) -> bool:
    """Whether other programs kept the machine too busy for the figures to count."""
    cores = _foreign_cores(samples)
    return bool(cores) and median(cores) >= CALM_CORES


def _foreign_cores(samples: Samples) -> list[float]:
    return [sample[FOREIGN] for turns in samples.values() for sample in turns if FOREIGN in sample]


def median_of(samples: Samples, contestant: str, number: str) -> float:
    """The median over the rounds."""
    return median(sample[number] for sample in samples[contestant])


def median_ratio(samples: Samples, contestant: str, peer: str, number: str) -> float:
    """The median over the rounds of the ratio within each round."""
    pairs = zip(samples[contestant], samples[peer], strict=True)
    return median(own[number] / other[number] for own, other in pairs)
