"""How a fair lock is released and its queue left; how its waiters are looked after."""

from __future__ import annotations

from typing import Final

from tests.scripts.fair_calls import (
    QUEUE,
    STRANGER,
    alive,
    fair_look,
    fair_release,
    sends,
    waiters,
)
from tests.scripts.harness import (
    ALIVE,
    FREE,
    ME,
    OTHER,
    WRONGTYPE,
    Around,
    Case,
    lock,
    text,
)

FAIR_RELEASE: Final = [
    Case(
        "a waiter of Redisson is notified until its score is over",
        lock(me=1) | waiters(dead=600_000, stranger=700_000) | alive(dead=-1),
        fair_release(),
        2,
        waiters(stranger=700_000),
        sends(STRANGER),
    ),
    # Leaving the queue.
    Case(
        "leaving the queue subtracts the wait from the scores behind it only",
        lock(other=1) | waiters(dead=50_000, me=250_000, other=550_000) | alive(dead=50_000, me=1, other=70_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=350_000) | alive(dead=50_000, other=70_000),
    ),
    Case(
        "leaving a free lock's queue notifies the new head",
        waiters(me=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
        waiters(other=350_000),
        sends(OTHER),
    ),
    # What should not be there.
    Case("an error if the queue is a string", lock(me=2) | text(QUEUE), fair_release(counts=2), WRONGTYPE),
    Case(
        "an error if the heartbeats are a string and others wait",
        lock(me=2) | waiters(other=70_000) | text(ALIVE),
        fair_release(counts=2),
        WRONGTYPE,
    ),
    Case(
        "an error if the heartbeats are a string and the owner leaves the queue",
        lock(me=2) | text(ALIVE),
        fair_release(counts=2, queued=200_000),
        WRONGTYPE,
    ),
    # No memory left.
    Case(
        "out of memory: one of two holds is released",
        lock(20_000, me=2),
        fair_release(counts=2),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
]


FAIR_FORCE_UNLOCK: Final = []


FAIR_LOOK: Final = [
    Case(
        "a score is raised by one wait for each place in the queue",
        lock(None, other=1) | waiters(dead=50_000, me=60_000, other=70_000),
        fair_look((ME, 200_000), (OTHER, 400_000)),
        [-1, b""],
        lock(None, other=1)
        | waiters(dead=50_000, me=600_000, other=1_200_000)
        | alive(1_200_000, me=100_000, other=100_000),
    ),
    Case(
        "the heartbeats are stored as long as a raised score",
        lock(other=1) | waiters(me=60_000) | alive(70_000, me=500_000),
        fair_look((ME, 200_000)),
        [Around(30_000), b""],
        lock(other=1) | waiters(me=330_000) | alive(330_000, me=500_000),
    ),
    Case(
        "a waiter without a heartbeat in time is dropped unless it is of this client",
        waiters(dead=600_000, me=650_000, other=700_000) | alive(dead=-1, me=-1, other=-1),
        fair_look((ME, 1)),
        [Around(650_000), ME],
        waiters(me=650_000, other=700_000) | alive(me=100_000, other=-1),
    ),
    Case(
        "no look is due for waiters that are not right before one of this client",
        lock(70_000, other=1)
        | waiters(second=500_000, stranger=600_000, me=990_000, other=700_000)
        | alive(second=10_000, stranger=300_000, me=500_000, other=20_000),
        fair_look((ME, 1)),
        [Around(70_000), b""],
    ),
    Case(
        "a look is due for a waiter further ahead if those between are dead",
        lock(70_000, other=1)
        | waiters(second=500_000, stranger=600_000, me=990_000)
        | alive(second=10_000, stranger=-1, me=500_000),
        fair_look((ME, 1)),
        [Around(10_000), b""],
    ),
    Case(
        "waiters that are not in the queue are in the reply", FREE, fair_look((ME, 1), (OTHER, 1)), [-1, b"", ME, OTHER]
    ),
]


CASES: Final = [*FAIR_RELEASE, *FAIR_FORCE_UNLOCK, *FAIR_LOOK]
