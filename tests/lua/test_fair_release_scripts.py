"""How a fair lock is released and its queue left; how its waiters are looked after."""

from __future__ import annotations

from typing import Final

from tests.lua.fair_calls import (
    QUEUE,
    STRANGER,
    TIMEOUTS,
    alive,
    fair_force_unlock,
    fair_look,
    fair_release,
    mine,
    sends,
    waiters,
)
from tests.lua.harness import (
    ALIVE,
    FREE,
    LOCK,
    ME,
    OOM,
    OTHER,
    WRONGTYPE,
    Around,
    Case,
    ComparedServer,
    check,
    each,
    epoch,
    lock,
    stale,
    text,
)

FAIR_RELEASE: Final = [
    Case("releasing the last hold frees the lock", lock(me=1), fair_release(), 1, FREE),
    Case(
        "only the head of the queue is notified",
        lock(me=1) | waiters(other=70_000, dead=90_000),
        fair_release(),
        2,
        waiters(other=70_000, dead=90_000),
        sends(OTHER),
    ),
    Case(
        "waiters whose scores are over are dropped before the head is notified",
        lock(me=1) | waiters(dead=-1_000, other=70_000),
        fair_release(),
        2,
        waiters(other=70_000),
        sends(OTHER),
    ),
    Case(
        "waiters without a heartbeat in time are dropped before the head is notified",
        lock(me=1) | waiters(dead=600_000, second=650_000, other=700_000) | alive(dead=-1, second=-1, other=70_000),
        fair_release(),
        2,
        waiters(other=700_000) | alive(other=70_000),
        sends(OTHER),
    ),
    Case(
        "a waiter of Redisson is notified until its score is over",
        lock(me=1) | waiters(dead=600_000, stranger=700_000) | alive(dead=-1),
        fair_release(),
        2,
        waiters(stranger=700_000),
        sends(STRANGER),
    ),
    Case(
        "releasing one of two holds leaves the other",
        lock(me=2) | waiters(other=70_000),
        fair_release(counts=2),
        0,
        lock(me=1) | waiters(other=70_000),
    ),
    Case(
        "releasing one of two holds does not shorten the TTL",
        lock(90_000, me=2),
        fair_release(counts=2),
        0,
        lock(90_000, me=1),
    ),
    Case("nil to an owner who does not hold the lock", lock(other=1) | waiters(dead=70_000), fair_release(), None),
    Case(
        "the head is notified though the lock is gone",
        waiters(other=70_000),
        fair_release(),
        None,
        None,
        sends(OTHER),
    ),
    Case("no message if the lock is gone and the queue is empty", FREE, fair_release(), None),
    Case("a release of lost holds removes what is stored", lock(me=3), fair_release(counts=0), 1, FREE),
    Case("nil if the client counts more holds than are stored", lock(me=1), fair_release(counts=2), None),
    Case(
        "nil to a repeat if the first copy freed the lock, and the head is notified again",
        waiters(other=70_000),
        fair_release(repeat=True),
        None,
        None,
        sends(OTHER),
    ),
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        lock(me=1),
        fair_release(counts=2, repeat=True),
        0,
    ),
    Case("the epoch of the request is stored", lock(me=1), fair_release(epoch=1), 1, epoch(1)),
    Case("an overtaken release is stale", epoch(2) | lock(me=1), fair_release(epoch=1), stale(2)),
    # Leaving the queue.
    Case(
        "leaving the queue subtracts the wait from the scores behind it only",
        lock(other=1) | waiters(dead=50_000, me=250_000, other=550_000) | alive(dead=50_000, me=1, other=70_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=350_000) | alive(dead=50_000, other=70_000),
    ),
    Case(
        "leaving changes nothing if the owner is not in the queue",
        lock(other=1) | waiters(dead=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
    ),
    Case(
        "leaving gives no score to entries without one",
        lock(other=1) | waiters(dead=50_000, me=250_000, other=None),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=None),
    ),
    Case(
        "leaving a free lock's queue notifies the new head",
        waiters(me=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
        waiters(other=350_000),
        sends(OTHER),
    ),
    Case(
        "leaving frees the lock if the owner has acquired it meanwhile",
        lock(me=1) | waiters(other=350_000),
        fair_release(queued=200_000, epoch=1, repeat=True),
        2,
        waiters(other=350_000) | epoch(1),
        sends(OTHER),
    ),
    Case(
        "an overtaken request to leave the queue is stale",
        epoch(2) | waiters(me=50_000),
        fair_release(queued=200_000, epoch=1),
        stale(2),
    ),
    # What should not be there.
    Case("an error if the key of the lock is a string", text(LOCK), fair_release(), WRONGTYPE),
    Case("an error if the queue is a string", lock(me=2) | text(QUEUE), fair_release(counts=2), WRONGTYPE),
    Case("an error if the timeouts are a string", lock(me=2) | text(TIMEOUTS), fair_release(counts=2), WRONGTYPE),
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
        "out of memory: the lock is freed and the epoch stored",
        lock(me=1) | waiters(other=70_000),
        fair_release(epoch=1),
        2,
        epoch(1) | waiters(other=70_000),
        sends(OTHER),
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two holds is released",
        lock(20_000, me=2),
        fair_release(counts=2),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: an owner can leave the queue",
        lock(other=1) | waiters(me=250_000, other=550_000) | alive(me=50_000, other=70_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(other=350_000) | alive(other=70_000),
        out_of_memory=True,
    ),
    Case(
        "the message is sent by SPUBLISH in a cluster",
        lock(me=1) | waiters(other=70_000),
        fair_release(publish="SPUBLISH"),
        2,
        waiters(other=70_000),
        sends(OTHER, sharded=True),
    ),
]


FAIR_FORCE_UNLOCK: Final = [
    Case("nil if the lock is free", waiters(other=70_000), fair_force_unlock(), None),
    Case(
        "the lock is freed, whichever owner holds it, and the head is notified",
        lock(me=2) | waiters(other=70_000),
        fair_force_unlock(),
        [ME],
        waiters(other=70_000),
        sends(OTHER),
    ),
    Case(
        "a waiter without a heartbeat in time is dropped and the next one notified",
        lock(me=2) | waiters(dead=600_000, stranger=700_000) | alive(dead=-1),
        fair_force_unlock(),
        [ME],
        waiters(stranger=700_000),
        sends(STRANGER),
    ),
    Case(
        "an error if the heartbeats are a string",
        lock(me=1) | waiters(other=70_000) | text(ALIVE),
        fair_force_unlock(),
        WRONGTYPE,
    ),
    Case(
        "no message if the only waiter's score is over",
        lock(me=2) | waiters(dead=-1_000),
        fair_force_unlock(),
        [ME],
        FREE,
    ),
    Case("the epoch of the request is stored", lock(me=1), fair_force_unlock(epoch=1), [ME], epoch(1)),
    Case("an overtaken request is stale", epoch(2) | lock(me=1), fair_force_unlock(epoch=1), stale(2)),
    Case("an error if the queue is a string", lock(me=1) | text(QUEUE), fair_force_unlock(), WRONGTYPE),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        lock(me=1),
        fair_force_unlock(epoch=1),
        [ME],
        epoch(1),
        out_of_memory=True,
    ),
]


FAIR_LOOK: Final = [
    Case("-1 if there is no lock and no waiter", FREE, fair_look(), [-1, b""]),
    Case("a held lock is looked at again when its TTL is over", lock(other=1), fair_look(), [Around(30_000), b""]),
    Case("-1 if the lock has no TTL", lock(None, other=1), fair_look(), [-1, b""]),
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
        "a score is raised by the TTL of the lock, too",
        lock(90_000, other=1) | waiters(me=60_000),
        fair_look((ME, 200_000)),
        [Around(90_000), b""],
        lock(90_000, other=1) | waiters(me=390_000) | mine(390_000),
    ),
    Case(
        "the heartbeats are stored as long as a raised score",
        lock(other=1) | waiters(me=60_000) | alive(70_000, me=500_000),
        fair_look((ME, 200_000)),
        [Around(30_000), b""],
        lock(other=1) | waiters(me=330_000) | alive(330_000, me=500_000),
    ),
    Case(
        "a greater score and a later heartbeat timeout are not lowered",
        lock(other=1) | waiters(me=900_000) | alive(me=800_000),
        fair_look((ME, 200_000)),
        [Around(30_000), b""],
    ),
    Case(
        "the head is in the reply if the lock is free",
        waiters(other=70_000, me=900_000),
        fair_look((ME, 1)),
        [Around(70_000), OTHER],
        waiters(other=70_000, me=900_000) | mine(900_000),
    ),
    Case(
        "a waiter whose score is over is dropped unless it is of this client",
        waiters(dead=-1_000, me=-1_000, other=70_000),
        fair_look((ME, 1)),
        [Around(300_000), ME],
        waiters(me=300_000, other=70_000) | mine(300_000),
    ),
    Case(
        "a waiter without a heartbeat in time is dropped unless it is of this client",
        waiters(dead=600_000, me=650_000, other=700_000) | alive(dead=-1, me=-1, other=-1),
        fair_look((ME, 1)),
        [Around(650_000), ME],
        waiters(me=650_000, other=700_000) | alive(me=100_000, other=-1),
    ),
    Case(
        "a waiter of Redisson counts as alive until its score is over",
        waiters(dead=600_000, stranger=650_000, me=700_000) | alive(dead=-1, me=300_000),
        fair_look((ME, 1)),
        [Around(650_000), STRANGER],
        waiters(stranger=650_000, me=700_000) | alive(me=300_000),
    ),
    Case(
        "a look is due when the head of another client may be dead",
        waiters(stranger=650_000, me=700_000) | alive(stranger=20_000, me=300_000),
        fair_look((ME, 1)),
        [Around(20_000), STRANGER],
    ),
    Case(
        "a look is due when the waiter right before one of this client may be dead",
        lock(70_000, other=1)
        | waiters(stranger=500_000, me=900_000, second=650_000, other=700_000)
        | alive(stranger=30_000, me=300_000, second=20_000, other=400_000),
        fair_look((ME, 1)),
        [Around(20_000), b""],
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
        "a look is due for a waiter that may be dead though the lock has no TTL",
        lock(None, other=1) | waiters(stranger=600_000, me=650_000) | alive(stranger=20_000, me=500_000),
        fair_look((ME, 1)),
        [Around(20_000), b""],
    ),
    Case(
        "the heartbeats are stored as long as the score, which is not raised",
        lock(other=1) | waiters(me=600_000) | alive(10_000, me=5_000),
        fair_look((ME, 1)),
        [Around(30_000), b""],
        lock(other=1) | waiters(me=600_000) | mine(600_000),
    ),
    Case("an error if the heartbeats are a string", waiters(dead=-1_000) | text(ALIVE), fair_look(), WRONGTYPE),
    Case(
        "out of memory: no score is raised",
        lock(other=1) | waiters(me=60_000),
        fair_look((ME, 200_000)),
        OOM,
        out_of_memory=True,
    ),
    Case(
        "waiters that are not in the queue are in the reply", FREE, fair_look((ME, 1), (OTHER, 1)), [-1, b"", ME, OTHER]
    ),
    Case(
        "a waiter without a score is dropped, and is in the reply",
        waiters(me=None),
        fair_look((ME, 1)),
        [-1, b"", ME],
        FREE,
    ),
    Case("an error if the queue is a string", text(QUEUE), fair_look(), WRONGTYPE),
]


CASES: Final = [*FAIR_RELEASE, *FAIR_FORCE_UNLOCK, *FAIR_LOOK]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
