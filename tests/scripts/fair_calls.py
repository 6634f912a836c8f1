"""Calls of a fair lock's scripts, and what is stored for its queue."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import ALIVE, CHANNEL, DEAD, EPOCH, LOCK, ME, OTHER, Call, In, State
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
