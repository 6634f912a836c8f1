"""The script of the fenced lock: where it does as ``lock_acquire``, and what it does beyond."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import EPOCH, LOCK, LOST, ME, Call, Case, State, epoch, lock
from tests.simulated.engine.redis import Entry

TOKEN: Final = b"redisson_lock_token:{orders}"


def token(number: int) -> State:
    return {TOKEN: Entry("string", b"%d" % number, None)}


def taken(number: int) -> list[bytes]:
    return [b"token", b"%d" % number]


def fenced(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 0,
    epoch: int = 0,
    repeat: bool = False,
    joins: str = "",
    from_clock: bool = False,
) -> Call:
    return Call(
        "fenced_acquire", (LOCK, EPOCH, TOKEN), (owner, epoch, int(repeat), lease, counts, joins, int(from_clock))
    )


#: Where it does as lock_acquire, and what it does beyond.
CASES: Final = [
    Case(
        "re-entry stores the token on a server that has drawn none",
        lock(me=1),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(9),
    ),
    Case(
        "re-entry does not lower a greater stored token",
        lock(me=1) | token(12),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(12),
    ),
    Case(
        "a repeat gets the token that the first copy drew",
        lock(me=1) | token(7),
        fenced(repeat=True, epoch=1),
        taken(7),
        lock(me=1) | token(7) | epoch(1),
    ),
    Case(
        "a repeat gets the joined token if the first copy re-entered",
        lock(me=2) | token(7),
        fenced(counts=1, repeat=True, joins="7"),
        taken(7),
        lock(me=2) | token(7),
    ),
    Case(
        "a token that follows the clock is greater than one from a clock that was ahead",
        token(3_000_000_000_000_000),
        fenced(from_clock=True),
        taken(3_000_000_000_000_001),
        lock(me=1) | token(3_000_000_000_000_001),
    ),
    Case(
        "re-entry with a shorter lease does not shorten the TTL",
        lock(90_000, me=1) | token(7),
        fenced(counts=1, lease=20_000, joins="7"),
        taken(7),
        lock(90_000, me=2) | token(7),
    ),
    Case("LOST if the client counts more holds than are stored", lock(me=1), fenced(counts=2), LOST),
]
