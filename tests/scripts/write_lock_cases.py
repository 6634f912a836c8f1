"""The scripts of the write side of a read-write lock, and of the forced unlock of either side."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    Around,
    Case,
)
from tests.scripts.read_write_calls import (
    UPGRADE,
    end_write,
    mine,
    rw,
    theirs,
    write,
)

WRITE: Final = [
    Case(
        "a persisted lock gets a TTL again", rw("write", None, writer=1), write(counts=1), None, rw("write", writer=2)
    ),
    Case("UPGRADE to the only reader", rw("read", me=1) | mine(30_000), write(), UPGRADE),
    Case(
        "a reader whose holds have expired is refused with the remaining time",
        rw("read", 70_000, me=2, other=1) | theirs(70_000),
        write(),
        Around(70_000),
    ),
    # The client counts other holds than are stored.
    Case(
        "the count starts at 1 if the client counts none and a hold is left over",
        rw("write", writer=3),
        write(),
        None,
        rw("write", writer=1),
    ),
    # The same request again.
    Case(
        "a repeat adds no lease if the first copy re-entered",
        rw("write", 60_000, writer=2),
        write(counts=1, repeat=True),
        None,
        rw("write", 60_000, writer=2),
    ),
    Case(
        "a repeat re-enters if the first copy never arrived",
        rw("write", writer=1),
        write(counts=1, repeat=True),
        None,
        rw("write", 60_000, writer=2),
    ),
    # What should not be there, and no memory.
    Case(
        "out of memory: a repeat is granted if the first copy acquired the lock",
        rw("write", 10_000, writer=1),
        write(repeat=True),
        None,
        rw("write", writer=1),
        out_of_memory=True,
    ),
]


END_WRITE: Final = [
    # The client counts other holds than are stored.
    Case("nil if the client counts more holds than are stored", rw("write", writer=1), end_write(counts=2), None),
]


CASES: Final = [*WRITE, *END_WRITE]
