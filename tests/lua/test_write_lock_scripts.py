"""The scripts of the write side of a read-write lock, and of the forced unlock of either side."""

from __future__ import annotations

from typing import Final

from tests.lua.compared_servers import Message
from tests.lua.harness import (
    FREE,
    LOCK,
    LOST,
    ME,
    OOM,
    RELEASED,
    RW_CHANNEL,
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
from tests.lua.read_write_calls import (
    READ_ENDED,
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
        "re-entry adds its lease to the TTL",
        rw("write", writer=1),
        write(counts=1),
        None,
        rw("write", 60_000, writer=2),
    ),
    Case(
        "re-entry does not raise the TTL above the sum of all leases",
        rw("write", 80_000, writer=2),
        write(counts=2),
        None,
        rw("write", 90_000, writer=3),
    ),
    Case(
        "re-entry does not shorten the TTL",
        rw("write", 120_000, writer=1),
        write(counts=1),
        None,
        rw("write", 120_000, writer=2),
    ),
    Case(
        "a persisted lock gets a TTL again", rw("write", None, writer=1), write(counts=1), None, rw("write", writer=2)
    ),
    Case(
        "a writer is refused with the remaining time while others read",
        rw("read", 70_000, other=1) | theirs(70_000),
        write(),
        Around(70_000),
    ),
    Case(
        "a writer is refused with the remaining time while another owner writes",
        rw("write", 70_000, other_writer=1),
        write(),
        Around(70_000),
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
    Case(
        "a writer that reads may re-enter as a writer",
        rw("write", writer=1, me=1) | mine(30_000),
        write(counts=1),
        None,
        rw("write", 60_000, writer=2, me=1) | mine(30_000),
    ),
    Case("a lock of another kind refuses with its remaining time", lock(me=1), write(), Around(30_000)),
    # The client counts other holds than are stored.
    Case("LOST if the client counts a hold and the lock is free", FREE, write(counts=1), LOST),
    Case(
        "LOST if the client counts a hold and another owner writes", rw("write", other_writer=1), write(counts=1), LOST
    ),
    Case(
        "LOST if the client counts a hold and only others read",
        rw("read", other=1) | theirs(30_000),
        write(counts=1),
        LOST,
    ),
    Case(
        "LOST if the client counts a hold and this owner only reads",
        rw("read", me=1) | mine(30_000),
        write(counts=1),
        LOST,
    ),
    Case("LOST if the client counts more holds than are stored", rw("write", writer=1), write(counts=2), LOST),
    Case(
        "the count starts at 1 if the client counts none and a hold is left over",
        rw("write", writer=3),
        write(),
        None,
        rw("write", writer=1),
    ),
    Case(
        "the TTL of left-over holds is not shortened",
        rw("write", 90_000, writer="x"),
        write(),
        None,
        rw("write", 90_000, writer=1),
    ),
    # The same request again.
    Case(
        "a repeat is granted if the first copy acquired the lock",
        rw("write", 10_000, writer=1),
        write(repeat=True),
        None,
        rw("write", writer=1),
    ),
    Case(
        "a repeat adds no lease if the first copy re-entered",
        rw("write", 60_000, writer=2),
        write(counts=1, repeat=True),
        None,
        rw("write", 60_000, writer=2),
    ),
    Case(
        "a repeat acquires the lock if the first copy never arrived",
        FREE,
        write(repeat=True),
        None,
        rw("write", writer=1),
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
    # Epochs.
    Case("the epoch of the request is stored", FREE, write(epoch=1), None, rw("write", writer=1) | writer_epoch(1)),
    Case("the epoch of the read side is ignored", epoch(5), write(), None, rw("write", writer=1) | epoch(5)),
    Case("an overtaken request is stale", writer_epoch(2), write(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("an error if the key of the lock is a string", text(LOCK), write(), WRONGTYPE),
    Case("out of memory: nothing is acquired", FREE, write(), OOM, out_of_memory=True),
    Case("out of memory: no hold is added", rw("write", writer=1), write(counts=1), OOM, out_of_memory=True),
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
        "releasing the last hold frees the lock and notifies the waiters",
        rw("write", writer=1),
        end_write(),
        RELEASED,
        FREE,
        WRITE_ENDED,
    ),
    Case(
        "the lock is left to the writer's reads and the waiters are notified",
        rw("write", 60_000, writer=1, me=2) | mine(30_000, 30_000),
        end_write(),
        RELEASED,
        rw("read", 60_000, me=2) | mine(30_000, 30_000),
        WRITE_ENDED,
    ),
    Case(
        "releasing one of two holds does not shorten the TTL",
        rw("write", 60_000, writer=2),
        end_write(counts=2),
        0,
        rw("write", 60_000, writer=1),
    ),
    Case(
        "releasing one of two holds extends the TTL to the lease",
        rw("write", 20_000, writer=2),
        end_write(counts=2, lease=90_000),
        0,
        rw("write", 90_000, writer=1),
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
    Case(
        "a release of lost holds leaves the lock to the owner's reads",
        rw("write", writer=3, me=1) | mine(30_000),
        end_write(counts=0),
        RELEASED,
        rw("read", me=1) | mine(30_000),
        WRITE_ENDED,
    ),
    # The same request again.
    Case("nil to a repeat if the first copy freed the lock", FREE, end_write(repeat=True), None),
    Case(
        "nil to a repeat if the first copy left the lock to the owner's reads",
        rw("read", me=1) | mine(30_000),
        end_write(repeat=True),
        None,
    ),
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        rw("write", 10_000, writer=1),
        end_write(counts=2, repeat=True),
        0,
        rw("write", writer=1),
    ),
    Case(
        "a repeat frees the lock if the first copy never arrived",
        rw("write", writer=1),
        end_write(repeat=True),
        RELEASED,
        FREE,
        WRITE_ENDED,
    ),
    # Epochs.
    Case(
        "the epoch of the request is stored",
        rw("write", writer=1),
        end_write(epoch=1),
        RELEASED,
        writer_epoch(1),
        WRITE_ENDED,
    ),
    Case("an overtaken request is stale", writer_epoch(2) | rw("write", writer=1), end_write(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("an error if the key of the lock is a string", text(LOCK), end_write(), WRONGTYPE),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        rw("write", writer=1),
        end_write(epoch=1),
        RELEASED,
        writer_epoch(1),
        WRITE_ENDED,
        out_of_memory=True,
    ),
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
    Case(
        "the message is sent by SPUBLISH in a cluster",
        rw("write", writer=1),
        end_write(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(RW_CHANNEL, b"1", sharded=True)],
    ),
]


FORCE_SIDE: Final = [
    Case(
        "a lock that is read is freed for the read side, and holds are left to expire",
        rw("read", other=2) | theirs(30_000),
        force("read"),
        1,
        theirs(30_000),
        READ_ENDED,
    ),
    Case(
        "a lock that is written is freed for the write side",
        rw("write", other_writer=2),
        force("write"),
        1,
        FREE,
        WRITE_ENDED,
    ),
    Case(
        "a lock that is written is freed with what the writer reads",
        rw("write", other_writer=2, other=1) | theirs(30_000),
        force("write"),
        1,
        theirs(30_000),
        WRITE_ENDED,
    ),
    Case("nil for the write side if the lock is read", rw("read", other=1) | theirs(30_000), force("write"), None),
    Case("nil for the read side if the lock is written", rw("write", other_writer=1), force("read"), None),
    Case("nil if the lock is free", FREE, force("read"), None),
    Case("a lock of another kind is left alone", lock(other=1), force("write"), None),
    Case(
        "the epoch of the request is stored", rw("write", writer=1), force("write", epoch=1), 1, epoch(1), WRITE_ENDED
    ),
    Case("an overtaken request is stale", epoch(2) | rw("read", other=1), force("read", epoch=1), stale(2)),
    Case("an error if the key of the lock is a string", text(LOCK), force("read"), WRONGTYPE),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        rw("read", other=1),
        force("read", epoch=1),
        1,
        epoch(1),
        READ_ENDED,
        out_of_memory=True,
    ),
    Case(
        "the message is sent by SPUBLISH in a cluster",
        rw("write", writer=1),
        force("write", publish="SPUBLISH"),
        1,
        FREE,
        [Message(RW_CHANNEL, b"1", sharded=True)],
    ),
]


CASES: Final = [*WRITE, *END_WRITE, *FORCE_SIDE]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
