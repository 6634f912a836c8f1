"""The scripts of a fair lock: acquiring and joining the queue, releasing and leaving it, looking after its waiters."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import (
    ALIVE,
    CHANNEL,
    DEAD,
    EPOCH,
    FREE,
    LOCK,
    LOST,
    ME,
    OTHER,
    WRONGTYPE,
    Around,
    Call,
    Case,
    In,
    State,
    lock,
    text,
)
from tests.simulated.engine.redis import Entry

QUEUE: Final = b"redisson_lock_queue:{orders}"
TIMEOUTS: Final = b"redisson_lock_timeout:{orders}"
#: Of another client, of ours or Redisson's.
STRANGER: Final = b"0192a3c4-0795-4907-87fd-6c719a6b4586:3"
SECOND: Final = b"0192a3c4-0795-4907-87fd-6c719a6b4586:4"
WHO: Final = {"me": ME, "other": OTHER, "dead": DEAD, "stranger": STRANGER, "second": SECOND}


def waiters(**waits: float | None) -> State:
    """The queue, in order: for how many ms from now each is believed in; ``None``: without a score."""
    scores = {WHO[who]: In(wait) for who, wait in waits.items() if wait is not None}
    state = {QUEUE: Entry("list", [WHO[who] for who in waits], None)}
    return state | ({TIMEOUTS: Entry("zset", scores, None)} if scores else {})


def alive(ttl_ms: int | None = 2_000_000, **lives: float) -> State:
    """For how many ms from now each can be alive, as it said itself; that is kept as long as the longest score."""
    return {ALIVE: Entry("hash", {WHO[who]: In(left) for who, left in lives.items()}, ttl_ms)}


def mine(score: int) -> State:
    """As one writes who has that score and queues up, or is looked after: nobody had before."""
    return alive(score, me=100_000)


def sends(owner: bytes, *, sharded: bool = False) -> tuple[Message]:
    return (Message(CHANNEL + b":" + owner, b"0", sharded=sharded),)


def fair_acquire(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 0,
    epoch: int = 0,
    repeat: bool = False,
    wait: int = 200_000,
    least: int = 300_000,
    queue: bool = True,
    lives: int = 100_000,
) -> Call:
    return Call(
        "fair_acquire",
        (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE),
        (owner, epoch, int(repeat), lease, counts, wait, least, int(queue), lives),
    )


def fair_release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
    queued: int = 0,
) -> Call:
    return Call(
        "fair_release",
        (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE, CHANNEL),
        (owner, epoch, int(repeat), lease, counts, publish, "0", queued),
    )


def fair_force_unlock(*, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH") -> Call:
    keys = (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE, CHANNEL)
    return Call("fair_force_unlock", keys, (ME, epoch, int(repeat), publish, "0"))


def fair_look(*living: tuple[bytes, int], least: int = 300_000, lives: int = 100_000) -> Call:
    words = (word for owner, wait in living for word in (owner, wait, lives))
    return Call("fair_look", (LOCK, QUEUE, TIMEOUTS, ALIVE), (least, *words))


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
        "a newcomer looks again when the waiter right before it may be dead",
        lock(other=1) | waiters(other=500_000, stranger=700_000) | alive(other=10_000, stranger=20_000),
        fair_acquire(),
        Around(20_000),
        lock(other=1)
        | waiters(other=500_000, stranger=700_000, me=900_000)
        | alive(other=10_000, stranger=20_000, me=100_000),
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
    Case("LOST if the client counts a hold and the lock is free", FREE, fair_acquire(counts=1), LOST),
    # Releasing, and leaving the queue.
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
    # No memory left.
    Case(
        "out of memory: one of two holds is released",
        lock(20_000, me=2),
        fair_release(counts=2),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
    Case(
        "leaving a free lock's queue notifies the new head",
        waiters(me=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
        waiters(other=350_000),
        sends(OTHER),
    ),
    Case("releasing the last hold frees the lock", lock(me=1), fair_release(), 1, FREE),
    Case(
        "an error if the heartbeats are a string and others wait",
        lock(me=2) | waiters(other=70_000) | text(ALIVE),
        fair_release(counts=2),
        WRONGTYPE,
    ),
    Case("an error if the queue is a string", lock(me=2) | text(QUEUE), fair_release(counts=2), WRONGTYPE),
    Case("nil if the lock is free", waiters(other=70_000), fair_force_unlock(), None),
    # Looking after waiters.
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
        "a waiter without a heartbeat in time is dropped unless it is of this client",
        waiters(dead=600_000, me=650_000, other=700_000) | alive(dead=-1, me=-1, other=-1),
        fair_look((ME, 1)),
        [Around(650_000), ME],
        waiters(me=650_000, other=700_000) | alive(me=100_000, other=-1),
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
