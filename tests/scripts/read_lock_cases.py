"""The scripts of the read side of a read-write lock."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    FREE,
    LOCK,
    LOST,
    ME,
    OOM,
    OTHER,
    RELEASED,
    Case,
    text,
)
from tests.scripts.read_write_calls import READ_ENDED, end_read, mine, read, renew_readers, rw, theirs

READ: Final = [
    # The client counts other holds than are stored.
    Case(
        "LOST if the only hold that the client counts has expired",
        rw("read", me=1, other=1) | theirs(30_000),
        read(counts=1),
        LOST,
    ),
    # The same request again.
    Case(
        "a repeat acquires again if the first copy's hold has expired",
        rw("read", 20_000, me=1, other=1) | theirs(20_000),
        read(repeat=True),
        None,
        rw("read", me=1, other=1) | theirs(20_000) | mine(30_000),
    ),
    Case(
        "LOST to a repeat if two more holds are stored than counted",
        rw("read", me=3) | mine(30_000),
        read(counts=1, repeat=True),
        LOST,
    ),
    # What should not be there, and no memory.
    Case("out of memory: no hold is added", rw("read", me=1) | mine(30_000), read(counts=1), OOM, out_of_memory=True),
    Case(
        "out of memory: a repeat is granted if the first copy acquired the lock",
        rw("read", me=1) | mine(10_000),
        read(repeat=True),
        None,
        rw("read", me=1) | mine(30_000),
        out_of_memory=True,
    ),
]


END_READ: Final = [
    Case(
        "the TTL becomes that of the longest hold that remains",
        rw("read", 90_000, me=1, other=3) | mine(90_000) | theirs(20_000, 60_000, 10_000),
        end_read(),
        0,
        rw("read", 60_000, other=3) | theirs(20_000, 60_000, 10_000),
    ),
    Case(
        "a persisted lock gets the TTL of the readers that remain",
        rw("read", None, me=1, other=1) | mine(30_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "the lock is freed if the holds of all other readers have expired",
        rw("read", 90_000, other=2, me=1) | mine(30_000),
        end_read(),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    Case(
        "releasing one of two holds extends the TTL to the lease",
        rw("read", 20_000, me=2) | mine(20_000, 20_000),
        end_read(counts=2, lease=90_000),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case("nil if both of two holds have expired", rw("read", me=2, other=1) | theirs(30_000), end_read(counts=2), None),
    Case(
        "nil if the hold has expired and others read",
        rw("read", me=1, other=1) | theirs(30_000),
        end_read(),
        None,
        rw("read", other=1) | theirs(30_000),
    ),
    Case(
        "the writer's last read is released and it writes on",
        rw("write", 90_000, writer=1, me=1) | mine(30_000),
        end_read(),
        0,
        rw("write", 90_000, writer=1),
    ),
    Case("nil if the lock is gone, and the waiters are notified", FREE, end_read(), None, FREE, READ_ENDED),
    # The client counts other holds than are stored.
    Case(
        "a release of lost holds leaves the lock to other readers",
        rw("read", 90_000, me=3, other=1) | mine(90_000, 20_000, 10_000) | theirs(40_000),
        end_read(counts=0),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    # The same request again.
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        rw("read", me=1) | mine(10_000),
        end_read(counts=2, repeat=True),
        0,
        rw("read", me=1) | mine(30_000),
    ),
]


RENEW_READERS: Final = [
    Case(
        "longer TTLs are not shortened",
        rw("read", 90_000, me=2) | mine(90_000, 10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", 90_000, me=2) | mine(90_000, 30_000),
    ),
    Case(
        "many are renewed, each on its own",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000) | text(b"tickets"),
        renew_readers((b"tickets", ME), (LOCK, ME), (b"gone", ME), (LOCK, OTHER)),
        [0, 1, 0, 1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(30_000) | text(b"tickets"),
    ),
]


CASES: Final = [*READ, *END_READ, *RENEW_READERS]
