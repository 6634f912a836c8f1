"""Calls of a read-write lock's scripts, and what is stored for it."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import EPOCH, LOCK, ME, OTHER, RW_CHANNEL, WAIT_QUEUE, Call, State
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
