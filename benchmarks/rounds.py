"""Rounds in random order, and what is concluded from them."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median

__all__ = ["Samples", "median_of", "median_ratio", "play_rounds", "say"]

Samples = Mapping[str, Sequence[Mapping[str, float]]]
"""For each contestant, what each round measured: named numbers."""


def say(text: str) -> None:
    """Tell whoever watches how far the run is."""
    print(text, file=sys.stderr, flush=True)


def play_rounds(
    title: str,
    contestants: Sequence[str],
    rounds: int,
    measure: Callable[[str], Mapping[str, float]],
    order: random.Random,
) -> Samples:
    """Let every contestant play once a round, in a new random order each time."""
    samples: dict[str, list[Mapping[str, float]]] = {name: [] for name in contestants}
    for number in range(1, rounds + 1):
        say(f"{title}: round {number} of {rounds}")
        for name in order.sample(list(contestants), len(contestants)):
            gc.collect()
            samples[name].append(measure(name))
    return samples


def median_of(samples: Samples, contestant: str, number: str) -> float:
    """The median over the rounds."""
    return median(sample[number] for sample in samples[contestant])


def median_ratio(samples: Samples, contestant: str, peer: str, number: str) -> float:
    """The median over the rounds of the ratio within each round."""
    pairs = zip(samples[contestant], samples[peer], strict=True)
    return median(own[number] / other[number] for own, other in pairs)
