"""The scripts of the token lock."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import EPOCH, FREE, LOCK, ME, TICKETS, Around, Call, Case, State, tickets
from tests.simulated.engine.redis import Entry

MINE: Final = b"5f1c0a"
THEIRS: Final = b"77ab1c"
TOKEN_EPOCH: Final = EPOCH + b":token"


def held_by(token: bytes, ttl_ms: int | None = 30_000) -> State:
    return {LOCK: Entry("string", token, ttl_ms)}


def token_epoch(number: int, ttl_ms: int | None = 60_000) -> State:
    return {TOKEN_EPOCH: Entry("string", b"%d" % number, ttl_ms)}


def token_acquire(
    token: bytes = MINE, *, lease: int = 30_000, former: bytes = b"", epoch: int = 0, repeat: bool = False
) -> Call:
    return Call("token_acquire", (LOCK, TOKEN_EPOCH), (token, epoch, int(repeat), lease, former))


def token_release(token: bytes = MINE, *, lease: int = 30_000, epoch: int = 0, repeat: bool = False) -> Call:
    return Call("token_release", (LOCK, TOKEN_EPOCH), (token, epoch, int(repeat), lease))


def token_force(*, epoch: int = 0, repeat: bool = False) -> Call:
    return Call("token_force_unlock", (LOCK, TOKEN_EPOCH), (ME, epoch, int(repeat)))


def token_renew(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("token_renew", tuple(key for key, _ in held), (lease, *(token for _, token in held)))


CASES: Final = [
    # Acquiring.
    Case("a repeat does not shorten the TTL", held_by(MINE, 90_000), token_acquire(repeat=True), None),
    Case("a first copy is refused if its own token is stored", held_by(MINE), token_acquire(), Around(30_000)),
    Case(
        "the token of the previous hold is replaced and a persisted lock gets a TTL",
        held_by(b"before", None),
        token_acquire(former=b"before"),
        None,
        held_by(MINE),
    ),
    # Releasing.
    Case(
        "out of memory: the epoch is stored though the lock is free",
        FREE,
        token_release(epoch=1),
        None,
        token_epoch(1),
        out_of_memory=True,
    ),
    # Renewing.
    Case(
        "a key of another type does not affect the others",
        tickets(10_000, me=1) | held_by(MINE, 10_000),
        token_renew((TICKETS, MINE), (LOCK, MINE), (b"gone", MINE)),
        [0, 1, 0],
        tickets(10_000, me=1) | held_by(MINE),
    ),
    # Extending.
    Case("nil if another token is stored", held_by(THEIRS), Call("token_extend", (LOCK,), (MINE, 0)), None),
]
