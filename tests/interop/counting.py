"""Three owners of Java's and three of ours who count up together, and what has to be true of it afterwards."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from tests.interop.clients import Owner
from tests.interop.conftest import Sides
from tests.interop.contention import Times, check_exclusion, counters, let_begin, waits_between

LANGUAGES = ("java",) * 3 + ("python",) * 3


def crowd(sides: Sides, **config: Any) -> list[Owner]:
    """Three of Java's, two of them of one client; two threads and a task of ours: as in ``LANGUAGES``.

    Args:
        sides: What makes them.
        config: Of ours.
    """
    java, python = sides.java(), sides.python(**config)
    return [
        *(java.owner(), java.owner(), sides.java().owner()),
        *(python.owner(), python.owner(), sides.python("asyncio", **config).owner()),
    ]


def count_up(
    owners: Sequence[Owner], url: str, kind: str, name: str, wanted: int, *, rest: float = 0.001, about: str = ""
) -> list[Times]:
    """Let a crowd count to ``wanted``; returns when each was inside.

    Args:
        owners: A ``crowd()``.
        url: Where it is counted.
        kind: Of what they hold to be inside.
        name: Of that.
        wanted: How far.
        rest: For how long each rests between two turns, on average, in seconds.
        about: What else is to be said with the figures.
    """
    counter = f"counter-{name}"
    if "semaphore" in kind:
        assert owners[0].get(kind, name).try_set_permits(1)
    counting = [owner.contend(kind, name, counter, wanted, 0.0001, rest) for owner in owners]
    with counters(url) as client:
        let_begin(client, counter, counting)
        everybody = [each.result(800) for each in counting]
        counted = int(client.get(counter))
    assert wanted <= counted <= wanted + len(owners)
    assert sum(map(len, everybody)) == counted
    handed_over = check_exclusion(everybody)
    # Spinners are not told of anything: whoever just let go of it may well get it again and again.
    turns = len(owners) if kind == "spin_lock" else wanted / 3
    assert handed_over >= turns, f"they did not take turns: {handed_over} of {counted}"
    # For those who want to know: pytest -rP
    print(f"{kind}, {about}: {handed_over} of {counted} went to another; medians:")
    for pair, waits in waits_between(everybody, LANGUAGES).items():
        print(f"  from {pair[0]} to {pair[1]}, {len(waits)} times: {statistics.median(waits) * 1000:.2f} ms")
    return everybody
