"""The script of the fenced lock: where it does as ``lock_acquire``, and what it does beyond."""

from __future__ import annotations

from typing import Final

from tests.lua.harness import (
    EPOCH,
    FREE,
    LOCK,
    LOST,
    ME,
    OOM,
    OTHER,
    WRONGTYPE,
    Around,
    Call,
    Case,
    ComparedServer,
    State,
    check,
    each,
    epoch,
    lock,
    stale,
    text,
)
from tests.simulator.redis import Entry

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
        "fenced_acquire",
        (LOCK, EPOCH, TOKEN),
        (owner, epoch, int(repeat), lease, counts, joins, int(from_clock)),
    )


#: Where it does as lock_acquire, and what it does beyond.
CASES: Final = [
    Case("a free lock is taken with the first token", FREE, fenced(), taken(1), lock(me=1) | token(1)),
    Case("a hold gets the next token", token(6), fenced(lease=90_000), taken(7), lock(90_000, me=1) | token(7)),
    Case(
        "re-entry that joins a hold gets its token",
        lock(me=1) | token(7),
        fenced(counts=1, joins="7"),
        taken(7),
        lock(me=2) | token(7),
    ),
    Case(
        "re-entry with a greater token than the server has drawn stores that token",
        lock(me=1) | token(6),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(9),
    ),
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
        "LOST if another owner has the lock and the joined token is greater",
        lock(other=1) | token(6),
        fenced(counts=1, joins="9"),
        LOST,
    ),
    Case(
        "re-entry takes nothing if the key of the token is of another type",
        lock(me=1) | {TOKEN: Entry("list", [b"a"], None)},
        fenced(counts=1, joins="9"),
        WRONGTYPE,
    ),
    Case(
        "re-entry that joins no hold gets the next token",
        lock(me=1) | token(7),
        fenced(counts=1),
        taken(8),
        lock(me=2) | token(8),
    ),
    Case(
        "re-entry with a shorter lease does not shorten the TTL",
        lock(90_000, me=1) | token(7),
        fenced(counts=1, lease=20_000, joins="7"),
        taken(7),
        lock(90_000, me=2) | token(7),
    ),
    Case(
        "another owner is refused with the remaining time",
        lock(70_000, me=1) | token(7),
        fenced(owner=OTHER),
        Around(70_000),
    ),
    Case("another owner is refused with -1 if the lock has no TTL", lock(None, me=1), fenced(owner=OTHER), -1),
    Case("LOST if the client counts a hold and the lock is free", FREE, fenced(counts=1), LOST),
    Case(
        "LOST if the client counts a hold and another owner has the lock",
        lock(other=1),
        fenced(counts=1, joins="7"),
        LOST,
    ),
    Case("LOST if the client counts more holds than are stored", lock(me=1), fenced(counts=2), LOST),
    Case(
        "the count starts at 1 if the client counts none and three holds are left over",
        lock(20_000, me=3),
        fenced(),
        taken(1),
        lock(me=1) | token(1),
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
        "a repeat gets the next token if the first copy never arrived",
        token(7),
        fenced(repeat=True),
        taken(8),
        lock(me=1) | token(8),
    ),
    Case("LOST to a repeat if another owner has the lock by now", lock(other=1), fenced(counts=1, repeat=True), LOST),
    Case("an overtaken request for a free lock is stale", epoch(2), fenced(epoch=1), stale(2)),
    Case("an overtaken repeat is stale", epoch(2) | lock(me=1), fenced(epoch=1, repeat=True), stale(2)),
    Case(
        "the epoch is stored though another owner has the lock",
        lock(other=1),
        fenced(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1),
    ),
    Case(
        "a token that follows the clock is greater than one from a clock that was ahead",
        token(3_000_000_000_000_000),
        fenced(from_clock=True),
        taken(3_000_000_000_000_001),
        lock(me=1) | token(3_000_000_000_000_001),
    ),
    Case("an error if the key of the lock is a string", text(LOCK), fenced(), WRONGTYPE),
    Case("out of memory: nothing is acquired", FREE, fenced(), OOM, out_of_memory=True),
    Case(
        "out of memory: no hold is added and no token stored",
        lock(me=1) | token(6),
        fenced(counts=1, joins="9"),
        OOM,
        out_of_memory=True,
    ),
    Case(
        "out of memory: another owner is refused with the remaining time",
        lock(me=1),
        fenced(owner=OTHER),
        Around(30_000),
        out_of_memory=True,
    ),
]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
