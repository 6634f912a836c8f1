"""Many seeds of a history: no seed may break a rule, and something has to go wrong in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

FAULTS = ("lose_reply", "straggle", "reset", "lose_request", "duplicate")


def first_of(seed: int | None, seeds: int) -> Iterable[int]:
    """So many seeds, beginning with the given one, if any."""
    return dict.fromkeys((*(() if seed is None else (seed,)), *range(seeds)))


def runs(history: Callable[[int], Any], seeds: Iterable[int]) -> Iterator[Any]:
    """Yield the result of the history of each seed.

    Raises:
        AssertionError: A rule was broken, and by which seed; or nothing went wrong in any of them.
    """
    faults = 0
    for seed in seeds:
        try:
            result = history(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        faults += sum(result.world.counts.get(name, 0) for name in FAULTS)
        yield result
    assert faults > 0, "nothing went wrong, so nothing was tested"
