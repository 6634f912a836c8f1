"""The scripts of the plain lock; ``lock_release`` and ``lock_renew`` are those of other kinds, too."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    CHANNEL,
    EPOCH,
    FREE,
    FREED,
    LOCK,
    LOST,
    ME,
    RELEASED,
    TICKETS,
    WAIT_QUEUE,
    Call,
    Case,
    epoch,
    lock,
    text,
)


def acquire(*, lease: int = 30_000, owner: bytes = ME, counts: int = 0, epoch: int = 0, repeat: bool = False) -> Call:
    return Call("lock_acquire", (LOCK, EPOCH), (owner, epoch, int(repeat), lease, counts))


def release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
) -> Call:
    args = (owner, epoch, int(repeat), lease, counts, publish, "0")
    return Call("lock_release", (LOCK, EPOCH, CHANNEL, WAIT_QUEUE), args)


def force_unlock(*, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH") -> Call:
    return Call("lock_force_unlock", (LOCK, EPOCH, CHANNEL), (ME, epoch, int(repeat), publish, "0"))


def renew(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("lock_renew", tuple(key for key, _ in held), (lease, *(owner for _, owner in held)))


CASES: Final = [
    # Acquiring.
    Case("re-entry gives a persisted lock a TTL again", lock(None, me=1), acquire(counts=1), None, lock(me=2)),
    # The client counts other holds than are stored.
    Case("LOST if the client counts a hold and another owner has the lock", lock(other=1), acquire(counts=1), LOST),
    Case("LOST if the client counts fewer holds than are stored", lock(me=2), acquire(counts=1), LOST),
    Case("the TTL of left-over holds is not shortened", lock(90_000, me=3), acquire(), None, lock(90_000, me=1)),
    # The same request again.
    Case(
        "a repeat is granted if the first copy re-entered", lock(me=2), acquire(counts=1, repeat=True), None, lock(me=2)
    ),
    Case("LOST to a repeat if the lock is gone by now", FREE, acquire(counts=2, repeat=True), LOST),
    # Releasing.
    Case("releasing one of two holds leaves the other", lock(me=2), release(counts=2), 0, lock(me=1)),
    # The client counts other holds than are stored.
    Case("nil if the client counts more holds than are stored", lock(me=1), release(counts=2), None),
    Case(
        "a release of lost holds removes the one that is stored", lock(me=1), release(counts=0), RELEASED, FREE, FREED
    ),
    # The same request again.
    Case(
        "a repeat renews the TTL if the first copy released one of two a while ago",
        lock(10_000, me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
    ),
    # No memory left.
    Case(
        "out of memory: nil to a repeat if the first copy freed the lock",
        FREE,
        release(epoch=1, repeat=True),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    # Forcing.
    Case(
        "out of memory: the epoch is stored though the lock is free",
        FREE,
        force_unlock(epoch=1),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    # Renewing.
    Case("a longer TTL is not shortened", lock(90_000, me=1), renew((LOCK, ME)), [1]),
    Case(
        "a key of another type does not affect the others",
        text(TICKETS) | lock(10_000, me=1),
        renew((TICKETS, ME), (LOCK, ME)),
        [0, 1],
        text(TICKETS) | lock(me=1),
    ),
]
