"""The scripts of both sides of a read-write lock."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import (
    EPOCH,
    FREE,
    LOCK,
    LOST,
    ME,
    OOM,
    OTHER,
    RELEASED,
    RW_CHANNEL,
    WAIT_QUEUE,
    Around,
    Call,
    Case,
    State,
    text,
)
from tests.simulated.engine.redis import Entry

WRITER: Final = ME + b":write"
OTHER_WRITER: Final = OTHER + b":write"
WRITER_EPOCH: Final = EPOCH + b":write"
READ_ENDED: Final = (Message(RW_CHANNEL, b"0", sharded=False),)
WRITE_ENDED: Final = (Message(RW_CHANNEL, b"1", sharded=False),)
UPGRADE: Final = [b"upgrade"]


def rw(mode: str, ttl_ms: int | None = 30_000, **held: int | str) -> State:
    """The hash of a read-write lock: how many holds each has on each side."""
    fields = {"me": ME, "other": OTHER, "writer": WRITER, "other_writer": OTHER_WRITER}
    counts = {fields[who]: str(holds).encode() for who, holds in held.items()}
    return {LOCK: Entry("hash", {b"mode": mode.encode()} | counts, ttl_ms)}


def read_hold(owner: bytes = ME, number: int = 1, ttl_ms: int | None = 30_000) -> State:
    """One hold of a reader."""
    return {b"{orders}:%b:rwlock_timeout:%d" % (owner, number): Entry("string", b"1", ttl_ms)}


def mine(*ttls_ms: int | None) -> State:
    """My holds as a reader, from the first on."""
    return {key: hold for n, ttl in enumerate(ttls_ms) for key, hold in read_hold(ME, n + 1, ttl).items()}


def theirs(*ttls_ms: int | None) -> State:
    """Another's."""
    return {key: hold for n, ttl in enumerate(ttls_ms) for key, hold in read_hold(OTHER, n + 1, ttl).items()}


def read(*, lease: int = 30_000, counts: int = 0, epoch: int = 0, repeat: bool = False) -> Call:
    (hold,) = read_hold(ME, counts + 1)
    return Call("read_lock_acquire", (LOCK, EPOCH, hold), (ME, epoch, int(repeat), lease, counts))


def end_read(
    *, lease: int = 30_000, counts: int = 1, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH"
) -> Call:
    (hold,) = read_hold(ME, max(counts, 1))
    return Call(
        "read_lock_release",
        (LOCK, EPOCH, RW_CHANNEL, hold, WAIT_QUEUE),
        (ME, epoch, int(repeat), lease, counts, publish, "0"),
    )


def renew_readers(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    keys = tuple(key for name, owner in held for key in (name, b"{%b}:%b:rwlock_timeout:1" % (name, owner)))
    return Call("read_lock_renew", keys, (lease, *(owner for _, owner in held)))


def write(*, lease: int = 30_000, counts: int = 0, epoch: int = 0, repeat: bool = False, sum_: int = 90_000) -> Call:
    (hold,) = read_hold(ME)
    return Call("write_lock_acquire", (LOCK, WRITER_EPOCH, hold), (WRITER, epoch, int(repeat), lease, counts, ME, sum_))


def end_write(
    *, lease: int = 30_000, counts: int = 1, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH"
) -> Call:
    return Call(
        "write_lock_release",
        (LOCK, WRITER_EPOCH, RW_CHANNEL, WAIT_QUEUE),
        (WRITER, epoch, int(repeat), lease, counts, publish, "1"),
    )


def force(side: str, *, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH") -> Call:
    args = (ME, epoch, int(repeat), publish, "1" if side == "write" else "0", side)
    return Call("read_write_lock_force_unlock", (LOCK, EPOCH, RW_CHANNEL), args)


CASES: Final = [
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
    Case("LOST if the client counts a hold and the lock is free", FREE, read(counts=1), LOST),
    # Reading no longer.
    Case(
        "the TTL becomes that of the longest hold that remains",
        rw("read", 90_000, me=1, other=3) | mine(90_000) | theirs(20_000, 60_000, 10_000),
        end_read(),
        0,
        rw("read", 60_000, other=3) | theirs(20_000, 60_000, 10_000),
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
    # Renewing reads.
    Case(
        "many are renewed, each on its own",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000) | text(b"tickets"),
        renew_readers((b"tickets", ME), (LOCK, ME), (b"gone", ME), (LOCK, OTHER)),
        [0, 1, 0, 1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(30_000) | text(b"tickets"),
    ),
    # Writing.
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
    Case(
        "re-entries last no longer than the sum of their leases",
        rw("write", 80_000, writer=2),
        write(counts=2, sum_=90_000),
        None,
        rw("write", 90_000, writer=3),
    ),
    Case("LOST if the client counts a hold and the lock is free", FREE, write(counts=1), LOST),
]
