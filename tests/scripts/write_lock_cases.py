"""The scripts of the write side of a read-write lock, and of the forced unlock of either side."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    FREE,
    LOST,
    ME,
    RELEASED,
    Around,
    Case,
    lock,
)
from tests.scripts.read_write_calls import (
    UPGRADE,
    WRITE_ENDED,
    end_write,
    force,
    mine,
    read_hold,
    rw,
    theirs,
    write,
    writer_epoch,
)

WRITE: Final = [
    Case("a free lock is written", FREE, write(), None, rw("write", writer=1)),
    Case(
        "a persisted lock gets a TTL again", rw("write", None, writer=1), write(counts=1), None, rw("write", writer=2)
    ),
    Case(
        "a writer is refused with -1 while another owner writes without a TTL",
        rw("write", None, other_writer=1),
        write(),
        -1,
    ),
    Case("UPGRADE to the only reader", rw("read", me=1) | mine(30_000), write(), UPGRADE),
    Case("UPGRADE to one of several readers", rw("read", other=1, me=2) | read_hold(ME, 2), write(), UPGRADE),
    Case(
        "a reader whose holds have expired is refused with the remaining time",
        rw("read", 70_000, me=2, other=1) | theirs(70_000),
        write(),
        Around(70_000),
    ),
    Case("a lock of another kind refuses with its remaining time", lock(me=1), write(), Around(30_000)),
    # The client counts other holds than are stored.
    Case("LOST if the client counts a hold and the lock is free", FREE, write(counts=1), LOST),
    Case("LOST if the client counts more holds than are stored", rw("write", writer=1), write(counts=2), LOST),
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
    Case(
        "LOST to a repeat if two more holds are stored than counted",
        rw("write", writer=3),
        write(counts=1, repeat=True),
        LOST,
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
    Case(
        "releasing one of two holds does not shorten the TTL",
        rw("write", 60_000, writer=2),
        end_write(counts=2),
        0,
        rw("write", 60_000, writer=1),
    ),
    Case("nil if another owner writes", rw("write", other_writer=1), end_write(), None),
    Case("nil if others read", rw("read", other=1) | theirs(30_000), end_write(), None),
    Case("nil if this owner only reads", rw("read", me=1) | mine(30_000), end_write(), None),
    Case("nil if the lock is in read mode though the writer's field is there", rw("read", writer=1), end_write(), None),
    Case("nil if the lock is gone, and the waiters are notified", FREE, end_write(), None, FREE, WRITE_ENDED),
    Case("nil if the lock is gone, and no message if none is wanted", FREE, end_write(publish=""), None),
    # The client counts other holds than are stored.
    Case("nil if the client counts more holds than are stored", rw("write", writer=1), end_write(counts=2), None),
    Case(
        "a release of lost holds removes what is stored",
        rw("write", writer=3),
        end_write(counts=0),
        RELEASED,
        FREE,
        WRITE_ENDED,
    ),
    # The same request again.
    Case("nil to a repeat if the first copy freed the lock", FREE, end_write(repeat=True), None),
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        rw("write", 10_000, writer=1),
        end_write(counts=2, repeat=True),
        0,
        rw("write", writer=1),
    ),
    # What should not be there, and no memory.
    Case(
        "out of memory: the lock is left to the writer's reads",
        rw("write", writer=1, me=1) | mine(30_000),
        end_write(epoch=1),
        RELEASED,
        rw("read", me=1) | mine(30_000) | writer_epoch(1),
        WRITE_ENDED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two holds is released",
        rw("write", 20_000, writer=2),
        end_write(counts=2),
        0,
        rw("write", writer=1),
        out_of_memory=True,
    ),
]


FORCE_SIDE: Final = [
    Case("nil for the write side if the lock is read", rw("read", other=1) | theirs(30_000), force("write"), None),
    Case("nil for the read side if the lock is written", rw("write", other_writer=1), force("read"), None),
    Case("nil if the lock is free", FREE, force("read"), None),
    Case("a lock of another kind is left alone", lock(other=1), force("write"), None),
]


CASES: Final = [*WRITE, *END_WRITE, *FORCE_SIDE]
