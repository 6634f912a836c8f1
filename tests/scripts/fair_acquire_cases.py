"""How a fair lock is acquired, and its queue joined."""

from __future__ import annotations

from typing import Final

from tests.scripts.fair_calls import TIMEOUTS, alive, fair_acquire, mine, waiters
from tests.scripts.harness import (
    DEAD,
    Around,
    Case,
    In,
    lock,
)
from tests.simulated.engine.redis import Entry

CASES: Final = [
    # Taking.
    Case(
        "scores without an entry in the queue are deleted",
        {TIMEOUTS: Entry("zset", {DEAD: In(70_000)}, None)},
        fair_acquire(),
        None,
        lock(me=1),
    ),
    # Queueing up.
    Case(
        "-1 if the lock has no TTL, and the score is the wait alone",
        lock(None, other=1),
        fair_acquire(),
        -1,
        lock(None, other=1) | waiters(me=200_000) | mine(200_000),
    ),
    Case(
        "the head's score is raised when it asks again",
        lock(other=1) | waiters(me=50_000, dead=90_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=330_000, dead=90_000) | mine(330_000),
    ),
    Case(
        "the head's score is not lowered when it asks again",
        lock(other=1) | waiters(me=900_000) | alive(me=800_000),
        fair_acquire(),
        Around(30_000),
    ),
    # Who can be alive.
    Case(
        "a waiter of Redisson, which sends no heartbeats, is not dropped before its score is over",
        waiters(dead=700_000, stranger=800_000) | alive(dead=-1),
        fair_acquire(queue=False),
        Around(800_000),
        waiters(stranger=800_000),
    ),
    Case(
        "the owner who asks is not dropped though its heartbeat is late",
        waiters(me=700_000, other=800_000) | alive(me=-1, other=70_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=600_000) | alive(other=70_000),
    ),
    Case(
        "an owner that takes its old place again does not inherit an earlier heartbeat timeout",
        lock(other=1) | waiters(dead=50_000, me=90_000) | alive(me=-1),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=90_000) | alive(me=100_000),
    ),
    Case(
        "a newcomer looks again when the waiter right before it may be dead",
        lock(other=1) | waiters(other=500_000, stranger=700_000) | alive(other=10_000, stranger=20_000),
        fair_acquire(),
        Around(20_000),
        lock(other=1)
        | waiters(other=500_000, stranger=700_000, me=900_000)
        | alive(other=10_000, stranger=20_000, me=100_000),
    ),
    Case(
        "a newcomer does not look after the waiter right before it if both are of one client",
        lock(other=1) | waiters(stranger=500_000, other=700_000) | alive(stranger=10_000, other=20_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1)
        | waiters(stranger=500_000, other=700_000, me=900_000)
        | alive(stranger=10_000, other=20_000, me=100_000),
    ),
    # Again, and the same request again.
    Case(
        "an owner with left-over holds and a place in the queue leaves the queue",
        lock(me=1) | waiters(me=70_000) | alive(me=70_000),
        fair_acquire(),
        None,
        lock(me=1),
    ),
    Case(
        "a repeat is granted if the first copy re-entered",
        lock(me=2),
        fair_acquire(counts=1, repeat=True),
        None,
        lock(me=2),
    ),
]
