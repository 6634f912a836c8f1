"""The scripts of the read side of a read-write lock."""

from __future__ import annotations

from typing import Final

from tests.lua.compared_servers import Message
from tests.lua.harness import (
    FREE,
    LOCK,
    LOST,
    ME,
    OOM,
    OTHER,
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
from tests.lua.read_write_calls import READ_ENDED, end_read, mine, read, read_hold, renew_readers, rw, theirs

READ: Final = [
    Case("a free lock is read", FREE, read(), None, rw("read", me=1) | mine(30_000)),
    Case(
        "a reader joins others that read for a shorter time",
        rw("read", 20_000, other=1) | theirs(20_000),
        read(),
        None,
        rw("read", other=1, me=1) | theirs(20_000) | mine(30_000),
    ),
    Case(
        "a reader joins others that read for a longer time",
        rw("read", 90_000, other=1) | theirs(90_000),
        read(),
        None,
        rw("read", 90_000, other=1, me=1) | theirs(90_000) | mine(30_000),
    ),
    Case(
        "re-entry stores a hold of its own",
        rw("read", me=1) | mine(30_000),
        read(counts=1, lease=90_000),
        None,
        rw("read", 90_000, me=2) | mine(30_000, 90_000),
    ),
    Case(
        "re-entry with a shorter lease does not shorten the TTL",
        rw("read", 90_000, me=1) | mine(90_000),
        read(counts=1, lease=20_000),
        None,
        rw("read", 90_000, me=2) | mine(90_000, 20_000),
    ),
    Case(
        "a persisted lock gets a TTL again",
        rw("read", None, other=1) | theirs(30_000),
        read(),
        None,
        rw("read", other=1, me=1) | theirs(30_000) | mine(30_000),
    ),
    Case(
        "a reader is refused with the remaining time while another owner writes",
        rw("write", 70_000, other_writer=1),
        read(),
        Around(70_000),
    ),
    Case(
        "a reader is refused with the remaining time while another owner writes and reads",
        rw("write", 70_000, other_writer=1, other=1) | theirs(20_000),
        read(),
        Around(70_000),
    ),
    Case(
        "a reader is refused with -1 while another owner writes without a TTL",
        rw("write", None, other_writer=1),
        read(),
        -1,
    ),
    Case(
        "the writer may read",
        rw("write", 60_000, writer=2),
        read(),
        None,
        rw("write", 60_000, writer=2, me=1) | mine(30_000),
    ),
    Case(
        "the writer may re-enter as a reader",
        rw("write", 20_000, writer=1, me=1) | mine(20_000),
        read(counts=1),
        None,
        rw("write", writer=1, me=2) | mine(20_000, 30_000),
    ),
    Case("a lock of another kind refuses with its remaining time", lock(other=1), read(), Around(30_000)),
    Case("a lock of an unknown mode refuses with its remaining time", rw("odd", other=1), read(), Around(30_000)),
    # The client counts other holds than are stored.
    Case("LOST if the client counts a hold and the lock is free", FREE, read(counts=1), LOST),
    Case(
        "LOST if the client counts a hold and only others read",
        rw("read", other=1) | theirs(30_000),
        read(counts=1),
        LOST,
    ),
    Case(
        "LOST if the client counts a hold and another owner writes", rw("write", other_writer=1), read(counts=1), LOST
    ),
    Case("LOST if the client counts more holds than are stored", rw("read", me=1) | mine(30_000), read(counts=2), LOST),
    Case(
        "LOST if the only hold that the client counts has expired",
        rw("read", me=1, other=1) | theirs(30_000),
        read(counts=1),
        LOST,
    ),
    Case(
        "a third hold is granted if one of two has expired",
        rw("read", me=2) | read_hold(ME, 2),
        read(counts=2),
        None,
        rw("read", me=3) | read_hold(ME, 2) | read_hold(ME, 3),
    ),
    Case(
        "the count starts at 1 if the holds of this reader have expired",
        rw("read", me=3, other=1) | theirs(30_000),
        read(),
        None,
        rw("read", me=1, other=1) | theirs(30_000) | mine(30_000),
    ),
    Case(
        "the count starts at 1 if what is left over is no number",
        rw("read", me="x"),
        read(),
        None,
        rw("read", me=1) | mine(30_000),
    ),
    # The same request again.
    Case(
        "a repeat renews the hold that the first copy acquired",
        rw("read", me=1) | mine(10_000),
        read(repeat=True),
        None,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "a repeat does not shorten a hold that was renewed",
        rw("read", 90_000, me=1) | mine(90_000),
        read(repeat=True),
        None,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case(
        "a repeat acquires again if the first copy's hold has expired",
        rw("read", 20_000, me=1, other=1) | theirs(20_000),
        read(repeat=True),
        None,
        rw("read", me=1, other=1) | theirs(20_000) | mine(30_000),
    ),
    Case(
        "a repeat is granted if the first copy re-entered",
        rw("read", me=2) | mine(30_000, 10_000),
        read(counts=1, repeat=True),
        None,
        rw("read", me=2) | mine(30_000, 30_000),
    ),
    Case(
        "a repeat acquires the lock if the first copy never arrived",
        FREE,
        read(repeat=True),
        None,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "LOST to a repeat if two more holds are stored than counted",
        rw("read", me=3) | mine(30_000),
        read(counts=1, repeat=True),
        LOST,
    ),
    # Epochs.
    Case("the epoch of the request is stored", FREE, read(epoch=1), None, rw("read", me=1) | mine(30_000) | epoch(1)),
    Case(
        "the epoch is stored though another owner writes",
        rw("write", other_writer=1),
        read(epoch=1),
        Around(30_000),
        rw("write", other_writer=1) | epoch(1),
    ),
    Case("an overtaken request is stale", epoch(2), read(epoch=1), stale(2)),
    Case(
        "an overtaken repeat is stale", epoch(2) | rw("read", me=1) | mine(30_000), read(epoch=1, repeat=True), stale(2)
    ),
    # What should not be there, and no memory.
    Case("an error if the key of the lock is a string", text(LOCK), read(), WRONGTYPE),
    Case("out of memory: nothing is acquired", FREE, read(), OOM, out_of_memory=True),
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
        "the last reader frees the lock and notifies the waiters",
        rw("read", me=1) | mine(30_000),
        end_read(),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    Case(
        "the TTL is shortened to that of the readers that remain",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "the TTL stays if the readers that remain live longer",
        rw("read", 90_000, other=1, me=1) | theirs(90_000) | mine(30_000),
        end_read(),
        0,
        rw("read", 90_000, other=1) | theirs(90_000),
    ),
    Case(
        "the TTL becomes that of the longest hold that remains",
        rw("read", 90_000, me=1, other=3) | mine(90_000) | theirs(20_000, 60_000, 10_000),
        end_read(),
        0,
        rw("read", 60_000, other=3) | theirs(20_000, 60_000, 10_000),
    ),
    Case(
        "a TTL that a writer left over is shortened to that of the readers",
        rw("read", 200_000, me=1, other=1) | mine(30_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "a persisted lock gets the TTL of the readers that remain",
        rw("read", None, me=1, other=1) | mine(30_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "a remaining hold without a TTL keeps the lock",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(None),
        end_read(),
        0,
        rw("read", 90_000, other=1) | theirs(None),
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
        "the TTL stays if another reader lives about as long",
        rw("read", 30_000, other=1, me=1) | theirs(29_900) | mine(30_000),
        end_read(),
        0,
        rw("read", 30_000, other=1) | theirs(29_900),
    ),
    Case(
        "the TTL stays if another reader's second hold lives as long",
        rw("read", 90_000, other=2, me=1) | theirs(10_000, 90_000) | mine(30_000),
        end_read(),
        0,
        rw("read", 90_000, other=2) | theirs(10_000, 90_000),
    ),
    Case(
        "releasing one of two holds leaves the other",
        rw("read", me=2) | mine(30_000, 30_000),
        end_read(counts=2),
        0,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "the newest of two holds is deleted and the other gets its TTL",
        rw("read", 90_000, me=2) | mine(30_000, 90_000),
        end_read(counts=2),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case(
        "the older of two holds is restored if only the newer one is left",
        rw("read", 90_000, me=2) | read_hold(ME, 2, 90_000),
        end_read(counts=2),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
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
        "nil if the hold has expired and no others read, and the lock is freed",
        rw("read", me=1),
        end_read(),
        None,
        FREE,
        READ_ENDED,
    ),
    Case(
        "the writer's last read is released and it writes on",
        rw("write", 90_000, writer=1, me=1) | mine(30_000),
        end_read(),
        0,
        rw("write", 90_000, writer=1),
    ),
    Case(
        "one of two reads of the writer is released and it writes on",
        rw("write", 90_000, writer=1, me=2) | mine(30_000, 20_000),
        end_read(counts=2),
        0,
        rw("write", 90_000, writer=1, me=1) | mine(30_000),
    ),
    Case("nil to an owner that does not read", rw("read", other=1) | theirs(30_000), end_read(), None),
    Case("nil to an owner that only writes", rw("write", writer=1), end_read(), None),
    Case("nil if the lock is gone, and the waiters are notified", FREE, end_read(), None, FREE, READ_ENDED),
    Case("nil if the lock is gone, and no message if none is wanted", FREE, end_read(publish=""), None),
    Case("a lock of another kind is left alone", lock(me=1), end_read(), None),
    # The client counts other holds than are stored.
    Case(
        "nil if the client counts more holds than are stored", rw("read", me=1) | mine(30_000), end_read(counts=2), None
    ),
    Case(
        "nil if the client counts fewer holds than are stored",
        rw("read", me=2) | mine(30_000, 30_000),
        end_read(),
        None,
    ),
    Case(
        "a release of lost holds removes all three that are stored",
        rw("read", me=3) | mine(30_000, 20_000, 10_000),
        end_read(counts=0),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    Case(
        "a release of lost holds leaves the lock to other readers",
        rw("read", 90_000, me=3, other=1) | mine(90_000, 20_000, 10_000) | theirs(40_000),
        end_read(counts=0),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "a release of lost holds removes a count that is no number",
        rw("read", me="x"),
        end_read(counts=0),
        None,
        FREE,
        READ_ENDED,
    ),
    # The same request again.
    Case("nil to a repeat if the first copy freed the lock", FREE, end_read(repeat=True), None),
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        rw("read", me=1) | mine(10_000),
        end_read(counts=2, repeat=True),
        0,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "a repeat frees the lock if the first copy never arrived",
        rw("read", me=1) | mine(30_000),
        end_read(repeat=True),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    # Epochs.
    Case(
        "the epoch of the request is stored",
        rw("read", me=1) | mine(30_000),
        end_read(epoch=1),
        RELEASED,
        epoch(1),
        READ_ENDED,
    ),
    Case("the epoch is stored though the owner holds nothing", FREE, end_read(epoch=1, repeat=True), None, epoch(1)),
    Case("an overtaken request is stale", epoch(2) | rw("read", me=1) | mine(30_000), end_read(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("an error if the key of the lock is a string", text(LOCK), end_read(), WRONGTYPE),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        rw("read", me=1) | mine(30_000),
        end_read(epoch=1),
        RELEASED,
        epoch(1),
        READ_ENDED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: one reader leaves and the others read on",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(40_000),
        end_read(epoch=1),
        0,
        rw("read", 40_000, other=1) | theirs(40_000) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two holds is released",
        rw("read", me=2) | read_hold(ME, 2),
        end_read(counts=2, epoch=1),
        0,
        rw("read", me=1) | mine(30_000) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "the message is sent by SPUBLISH in a cluster",
        rw("read", me=1) | mine(30_000),
        end_read(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(RW_CHANNEL, b"0", sharded=True)],
    ),
]


RENEW_READERS: Final = [
    Case(
        "all holds of the reader and the lock are extended",
        rw("read", 10_000, me=2) | mine(10_000, 5_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=2) | mine(30_000, 30_000),
    ),
    Case(
        "longer TTLs are not shortened",
        rw("read", 90_000, me=2) | mine(90_000, 10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", 90_000, me=2) | mine(90_000, 30_000),
    ),
    Case(
        "the holds of other readers are not extended",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(10_000),
    ),
    Case(
        "a hold that has expired is not restored",
        rw("read", 10_000, me=2) | mine(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=2) | mine(30_000),
    ),
    Case("0 for a reader whose holds have all expired", rw("read", 10_000, me=2), renew_readers((LOCK, ME)), [0]),
    Case(
        "a persisted lock gets a TTL again",
        rw("read", None, me=1) | mine(None),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1) | mine(30_000),
    ),
    Case("0 for a lock that is gone", mine(10_000), renew_readers((LOCK, ME)), [0]),
    Case("an empty reply if there is nothing to renew", FREE, renew_readers(), []),
    Case(
        "many are renewed, each on its own",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000) | text(b"tickets"),
        renew_readers((b"tickets", ME), (LOCK, ME), (b"gone", ME), (LOCK, OTHER)),
        [0, 1, 0, 1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(30_000) | text(b"tickets"),
    ),
    Case(
        "out of memory: the TTLs are extended",
        rw("read", 10_000, me=1) | mine(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1) | mine(30_000),
        out_of_memory=True,
    ),
]


CASES: Final = [*READ, *END_READ, *RENEW_READERS]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
