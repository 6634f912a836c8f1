"""The scripts of latches; ``counter_set`` is that of semaphores, too."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, Case
from tests.scripts.numbered_calls import GATE, count_down, done, permits, sends, set_counter

CASES: Final = [
    Case(
        "a counter is set with a time to live",
        FREE,
        set_counter(3, ttl=90_000),
        1,
        permits(3, 90_000) | done(5, 1),
        sends(3),
    ),
    Case(
        "out of memory: 0 if there is a counter already",
        permits(1),
        set_counter(3),
        0,
        permits(1) | done(5, 0),
        out_of_memory=True,
    ),
    # Latches.
    Case(
        "at zero the latch is deleted and the waiters are notified",
        permits(1),
        count_down(),
        1,
        done(5, 1),
        sends(0, channel=GATE),
    ),
    Case("counting down a latch that is open changes nothing", FREE, count_down(), 1, done(5, 1)),
    Case(
        "out of memory: the count goes down by one",
        permits(2),
        count_down(),
        1,
        permits(1) | done(5, 1),
        out_of_memory=True,
    ),
]
