"""What each script in ``pyredisson/lua`` does, case by case: on the simulated server, and on every real one.

A case says what is stored before, the call, the reply, what is stored after, and which messages were published.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from pyredisson.testing.redis import Entry, ServerError
from tests.lua.random_steps import SCRIPTS
from tests.lua.twins import Message, Model, RealServer, comparable
from tests.servers import BUILDS, Build, SharedServers

# Leases are tens of seconds apart, so that a slow machine does not make one look like another.
TOLERANCE_MS: Final = 5_000

LOCK: Final = b"orders"
CHANNEL: Final = b"redisson_lock__channel:{orders}"
CLIENT: Final = "8743c9c0-0795-4907-87fd-6c719a6b4586"
ME: Final = f"{CLIENT}:7".encode()
OTHER: Final = f"{CLIENT}:9".encode()
EPOCH: Final = b"pyredisson_epoch:{orders}:" + ME
TOKEN: Final = b"redisson_lock_token:{orders}"

State: TypeAlias = dict[bytes, Entry]


def lock(ttl_ms: int | None = 30_000, *, me: int | str | None = None, other: int | None = None) -> State:
    """The lock's hash: how many holds each owner has."""
    held = {ME: me, OTHER: other}
    fields = {owner: str(holds).encode() for owner, holds in held.items() if holds is not None}
    return {LOCK: Entry("hash", fields, ttl_ms)}


def epoch(number: int, ttl_ms: int | None = 60_000) -> State:
    """My epoch, as a server keeps it after a reply was lost."""
    return {EPOCH: Entry("string", b"%d" % number, ttl_ms)}


def text(key: bytes, value: bytes = b"1") -> State:
    return {key: Entry("string", value, None)}


FREE: Final[State] = {}
#: The reply to a release that frees: 1, and the one connection that hears of it, the test's own.
RELEASED: Final = 2
FREED: Final = (Message(CHANNEL, b"0", sharded=False),)


class Around(int):
    """A number of milliseconds, of which a few may have gone by."""


@dataclass(frozen=True)
class Call:
    script: str
    keys: tuple[bytes, ...]
    args: tuple[bytes | str | int, ...]


def acquire(*, lease: int = 30_000, owner: bytes = ME, counts: int = 0, epoch: int = 0, repeat: bool = False) -> Call:
    return Call("lock_acquire", (LOCK, EPOCH), (lease, owner, counts, epoch, int(repeat)))


def release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
) -> Call:
    return Call("lock_release", (LOCK, CHANNEL, EPOCH), ("0", lease, owner, counts, epoch, int(repeat), publish))


def force_unlock(*, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    return Call("lock_force_unlock", (LOCK, CHANNEL, EPOCH), ("0", epoch, publish))


def renew(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("lock_renew", tuple(key for key, _ in held), (lease, *(owner for _, owner in held)))


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
        (lease, owner, counts, epoch, int(repeat), joins, int(from_clock)),
    )


def token(number: int) -> State:
    return {TOKEN: Entry("string", b"%d" % number, None)}


def taken(number: int) -> list[bytes]:
    return [b"token", b"%d" % number]


LOST: Final = [b"lost"]
WRONGTYPE: Final = ServerError("WRONGTYPE", "Operation against a key holding the wrong kind of value")
OOM: Final = ServerError("OOM", "command not allowed when used memory > 'maxmemory'.")


def stale(stored: int) -> list[bytes]:
    return [b"stale", b"%d" % stored]


@dataclass(frozen=True)
class Case:
    """One case; its fields are in the order of events.

    Attributes:
        after: What is stored then, or ``None`` for what was stored before.
        out_of_memory: The server has none left.
    """

    name: str
    before: State
    call: Call
    reply: Any
    after: State | None = None
    messages: Sequence[Message] = ()
    out_of_memory: bool = False


ACQUIRE: Final = [
    Case("a free lock is taken", FREE, acquire(), None, lock(me=1)),
    Case("the lease is its TTL", FREE, acquire(lease=90_000), None, lock(90_000, me=1)),
    Case("re-entry adds a hold", lock(me=1), acquire(counts=1), None, lock(me=2)),
    Case(
        "re-entry with more time extends", lock(20_000, me=1), acquire(counts=1, lease=90_000), None, lock(90_000, me=2)
    ),
    Case(
        "re-entry with less time does not cut",
        lock(90_000, me=1),
        acquire(counts=1, lease=20_000),
        None,
        lock(90_000, me=2),
    ),
    Case("re-entry gives a persisted lock a TTL again", lock(None, me=1), acquire(counts=1), None, lock(me=2)),
    Case("a stranger is told how long", lock(70_000, me=1), acquire(owner=OTHER), Around(70_000)),
    Case("a stranger is told that there is no end", lock(None, me=1), acquire(owner=OTHER), -1),
    Case("a stranger's lease changes nothing", lock(20_000, me=3), acquire(owner=OTHER, lease=90_000), Around(20_000)),
    # The client counts other holds than are stored.
    Case("a hold is counted, and the lock is free", FREE, acquire(counts=1), LOST),
    Case("a hold is counted, and another has it", lock(other=1), acquire(counts=1), LOST),
    Case("more holds are counted than stored", lock(me=1), acquire(counts=2), LOST),
    Case("fewer holds are counted than stored", lock(me=2), acquire(counts=1), LOST),
    Case("residue of a hold that is over: starts at 1", lock(me=1), acquire(), None, lock(me=1)),
    Case("residue of three holds: starts at 1", lock(20_000, me=3), acquire(), None, lock(me=1)),
    Case("residue with more time: is not cut", lock(90_000, me=3), acquire(), None, lock(90_000, me=1)),
    Case("residue that is no number: starts at 1", lock(me="x"), acquire(), None, lock(me=1)),
    Case("residue that is no number, a hold counted", lock(me="x"), acquire(counts=1), LOST),
    # The same request again.
    Case("repeat: the first copy took it", lock(me=1), acquire(repeat=True), None, lock(me=1)),
    Case("repeat: the first copy re-entered", lock(me=2), acquire(counts=1, repeat=True), None, lock(me=2)),
    Case(
        "repeat: the first copy re-entered, a while ago",
        lock(10_000, me=2),
        acquire(counts=1, repeat=True),
        None,
        lock(me=2),
    ),
    Case("repeat: the first copy never came", FREE, acquire(repeat=True), None, lock(me=1)),
    Case("repeat: the first copy never came, re-entry", lock(me=1), acquire(counts=1, repeat=True), None, lock(me=2)),
    Case("repeat: two more than counted", lock(me=3), acquire(counts=1, repeat=True), LOST),
    Case("repeat: it is another's by now", lock(other=1), acquire(counts=1, repeat=True), LOST),
    Case("repeat: it is gone by now", FREE, acquire(counts=2, repeat=True), LOST),
    # Epochs.
    Case("no epoch was ever raised: none is stored", FREE, acquire(epoch=0), None, lock(me=1)),
    Case("an epoch is stored", FREE, acquire(epoch=1), None, lock(me=1) | epoch(1)),
    Case(
        "an epoch is kept as long as the lease",
        FREE,
        acquire(epoch=1, lease=90_000),
        None,
        lock(90_000, me=1) | epoch(1, 90_000),
    ),
    Case("a newer epoch replaces the stored", epoch(1, 20_000), acquire(epoch=2), None, lock(me=1) | epoch(2)),
    Case("the same epoch is left alone", epoch(2, 20_000), acquire(epoch=2), None, lock(me=1) | epoch(2, 20_000)),
    Case("epochs are numbers", epoch(9), acquire(epoch=10), None, lock(me=1) | epoch(10)),
    Case("a stale request for a free lock", epoch(2), acquire(epoch=1), stale(2)),
    Case("a stale request without an epoch", epoch(2), acquire(epoch=0), stale(2)),
    Case("a stale re-entry", epoch(10) | lock(me=1), acquire(counts=1, epoch=9), stale(10)),
    Case("a stale repeat", epoch(2) | lock(me=1), acquire(epoch=1, repeat=True), stale(2)),
    Case(
        "an epoch is stored though another has it",
        lock(other=1),
        acquire(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1),
    ),
    Case("an epoch is stored though the hold is lost", FREE, acquire(counts=1, epoch=1), LOST, epoch(1)),
    # What should not be there.
    Case("the key is a string", text(LOCK), acquire(), WRONGTYPE),
    Case("the key is a list", {LOCK: Entry("list", [ME], None)}, acquire(), WRONGTYPE),
    Case("the key is a sorted set", {LOCK: Entry("zset", {ME: 1.0}, None)}, acquire(counts=1), WRONGTYPE),
    Case("the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, acquire(), WRONGTYPE),
    # No memory left.
    Case("out of memory: not taken", FREE, acquire(), OOM, out_of_memory=True),
    Case("out of memory: not taken, with an epoch", FREE, acquire(epoch=1), OOM, out_of_memory=True),
    Case("out of memory: not re-entered", lock(20_000, me=1), acquire(counts=1), OOM, out_of_memory=True),
    Case(
        "out of memory: a stranger is told how long",
        lock(me=1),
        acquire(owner=OTHER),
        Around(30_000),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a repeat is refused as well",
        lock(10_000, me=1),
        acquire(counts=0, repeat=True),
        OOM,
        out_of_memory=True,
    ),
    Case(
        "out of memory: a repeated re-entry is told",
        lock(10_000, me=2),
        acquire(counts=1, repeat=True),
        None,
        lock(me=2),
        out_of_memory=True,
    ),
    Case("out of memory: lost is told", FREE, acquire(counts=1), LOST, out_of_memory=True),
]

#: Where it does as lock_acquire, and what it does beyond.
FENCED: Final = [
    Case("a free lock is taken", FREE, fenced(), taken(1), lock(me=1) | token(1)),
    Case("the next token", token(6), fenced(lease=90_000), taken(7), lock(90_000, me=1) | token(7)),
    Case("re-entry joins a token", lock(me=1) | token(7), fenced(counts=1, joins="7"), taken(7), lock(me=2) | token(7)),
    Case("re-entry of a plain hold", lock(me=1) | token(7), fenced(counts=1), taken(8), lock(me=2) | token(8)),
    Case(
        "re-entry with less time does not cut",
        lock(90_000, me=1) | token(7),
        fenced(counts=1, lease=20_000, joins="7"),
        taken(7),
        lock(90_000, me=2) | token(7),
    ),
    Case("a stranger is told how long", lock(70_000, me=1) | token(7), fenced(owner=OTHER), Around(70_000)),
    Case("a stranger is told that there is no end", lock(None, me=1), fenced(owner=OTHER), -1),
    Case("a hold is counted, and the lock is free", FREE, fenced(counts=1), LOST),
    Case("a hold is counted, and another has it", lock(other=1), fenced(counts=1, joins="7"), LOST),
    Case("more holds are counted than stored", lock(me=1), fenced(counts=2), LOST),
    Case("residue of three holds: starts at 1", lock(20_000, me=3), fenced(), taken(1), lock(me=1) | token(1)),
    Case(
        "repeat: the first copy took it",
        lock(me=1) | token(7),
        fenced(repeat=True, epoch=1),
        taken(7),
        lock(me=1) | token(7) | epoch(1),
    ),
    Case(
        "repeat: the first copy re-entered",
        lock(me=2) | token(7),
        fenced(counts=1, repeat=True, joins="7"),
        taken(7),
        lock(me=2) | token(7),
    ),
    Case("repeat: the first copy never came", token(7), fenced(repeat=True), taken(8), lock(me=1) | token(8)),
    Case("repeat: it is another's by now", lock(other=1), fenced(counts=1, repeat=True), LOST),
    Case("a stale request for a free lock", epoch(2), fenced(epoch=1), stale(2)),
    Case("a stale repeat", epoch(2) | lock(me=1), fenced(epoch=1, repeat=True), stale(2)),
    Case(
        "an epoch is stored though another has it",
        lock(other=1),
        fenced(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1),
    ),
    Case(
        "from the clock: beyond a clock that was ahead",
        token(3_000_000_000_000_000),
        fenced(from_clock=True),
        taken(3_000_000_000_000_001),
        lock(me=1) | token(3_000_000_000_000_001),
    ),
    Case("the key is a string", text(LOCK), fenced(), WRONGTYPE),
    Case("out of memory: not taken", FREE, fenced(), OOM, out_of_memory=True),
    Case(
        "out of memory: a stranger is told how long",
        lock(me=1),
        fenced(owner=OTHER),
        Around(30_000),
        out_of_memory=True,
    ),
]

RELEASE: Final = [
    Case("the last hold frees it", lock(me=1), release(), RELEASED, FREE, FREED),
    Case("the last hold frees a persisted lock", lock(None, me=1), release(), RELEASED, FREE, FREED),
    Case("one of two", lock(me=2), release(counts=2), 0, lock(me=1)),
    Case(
        "one of three, with less time, does not cut",
        lock(90_000, me=3),
        release(counts=3, lease=20_000),
        0,
        lock(90_000, me=2),
    ),
    Case("one of two extends what is left", lock(20_000, me=2), release(counts=2, lease=90_000), 0, lock(90_000, me=1)),
    Case("one of two gives a persisted lock a TTL again", lock(None, me=2), release(counts=2), 0, lock(me=1)),
    Case("a stranger", lock(me=1), release(owner=OTHER), None),
    Case("a stranger with two holds counted", lock(me=2), release(owner=OTHER, counts=2), None),
    Case("a free lock", FREE, release(), None),
    # The client counts other holds than are stored.
    Case("more holds are counted than stored", lock(me=1), release(counts=2), None),
    Case("fewer holds are counted than stored", lock(me=2), release(counts=1), None),
    Case("what stands there is no number", lock(me="x"), release(counts=1), None),
    Case("giving up whatever stands there: one hold", lock(me=1), release(counts=0), RELEASED, FREE, FREED),
    Case("giving up whatever stands there: three holds", lock(me=3), release(counts=0), RELEASED, FREE, FREED),
    Case("giving up whatever stands there: no number", lock(me="x"), release(counts=0), RELEASED, FREE, FREED),
    Case("giving up whatever stands there: nothing", FREE, release(counts=0), None),
    Case("giving up whatever stands there: it is another's", lock(other=2), release(counts=0), None),
    # The same request again.
    Case("repeat: the first copy freed it", FREE, release(repeat=True), None),
    Case("repeat: the first copy freed it, and another has it", lock(other=1), release(repeat=True), None),
    Case("repeat: the first copy took one of two", lock(me=1), release(counts=2, repeat=True), 0, lock(me=1)),
    Case(
        "repeat: the first copy took one of two, a while ago",
        lock(10_000, me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
    ),
    Case("repeat: the first copy never came", lock(me=1), release(repeat=True), RELEASED, FREE, FREED),
    Case("repeat: the first copy never came, one of two", lock(me=2), release(counts=2, repeat=True), 0, lock(me=1)),
    Case("repeat: two fewer than counted", lock(me=1), release(counts=3, repeat=True), None),
    Case("repeat: more than counted", lock(me=3), release(counts=2, repeat=True), None),
    # Epochs.
    Case("an epoch is stored", lock(me=1), release(epoch=1), RELEASED, epoch(1), FREED),
    Case(
        "an epoch is kept as long as the lease",
        lock(me=1),
        release(epoch=1, lease=90_000),
        RELEASED,
        epoch(1, 90_000),
        FREED,
    ),
    Case("an epoch is stored with one of two", lock(me=2), release(counts=2, epoch=1), 0, lock(me=1) | epoch(1)),
    Case("an epoch is stored though nothing is held", FREE, release(epoch=1, repeat=True), None, epoch(1)),
    Case(
        "an epoch is stored though another has it",
        lock(other=1),
        release(epoch=1, repeat=True),
        None,
        lock(other=1) | epoch(1),
    ),
    Case(
        "a newer epoch replaces the stored", epoch(1, 20_000) | lock(me=1), release(epoch=2), RELEASED, epoch(2), FREED
    ),
    Case(
        "the same epoch is left alone",
        epoch(2, 20_000) | lock(me=1),
        release(epoch=2),
        RELEASED,
        epoch(2, 20_000),
        FREED,
    ),
    Case("a stale request", epoch(2) | lock(me=1), release(epoch=1), stale(2)),
    Case("a stale request without an epoch", epoch(2) | lock(me=1), release(), stale(2)),
    Case("a stale one of two", epoch(10) | lock(me=2), release(counts=2, epoch=9), stale(10)),
    Case("a stale repeat", epoch(2) | lock(me=1), release(epoch=1, repeat=True), stale(2)),
    Case("a stale giving up", epoch(2) | lock(me=1), release(counts=0, epoch=1), stale(2)),
    # What should not be there.
    Case("the key is a string", text(LOCK), release(), WRONGTYPE),
    Case("the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, release(), WRONGTYPE),
    # No memory left.
    Case("out of memory: freed", lock(me=1), release(), RELEASED, FREE, FREED, out_of_memory=True),
    Case(
        "out of memory: freed, with an epoch",
        lock(me=1),
        release(epoch=1),
        RELEASED,
        epoch(1),
        FREED,
        out_of_memory=True,
    ),
    Case("out of memory: one of two", lock(20_000, me=2), release(counts=2), 0, lock(me=1), out_of_memory=True),
    Case(
        "out of memory: one of two, with an epoch",
        lock(me=2),
        release(counts=2, epoch=1),
        0,
        lock(me=1) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two, repeated",
        lock(me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
    Case("out of memory: a stranger", lock(me=1), release(owner=OTHER), None, out_of_memory=True),
    Case(
        "out of memory: repeated, the first copy freed it",
        FREE,
        release(epoch=1, repeat=True),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        lock(me=1),
        release(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(CHANNEL, b"0", sharded=True)],
    ),
]

FORCE_UNLOCK: Final = [
    Case("a free lock", FREE, force_unlock(), None),
    Case("whoever holds it", lock(other=2), force_unlock(), [OTHER], FREE, FREED),
    Case("all who are there", lock(None, me=1, other=1), force_unlock(), [ME, OTHER], FREE, FREED),
    Case("an epoch is stored", lock(me=1), force_unlock(epoch=1), [ME], epoch(1), FREED),
    Case("an epoch is stored for a free lock", FREE, force_unlock(epoch=1), None, epoch(1)),
    Case(
        "the same epoch is left alone",
        epoch(2, 20_000) | lock(me=1),
        force_unlock(epoch=2),
        [ME],
        epoch(2, 20_000),
        FREED,
    ),
    Case("a stale request", epoch(2) | lock(me=1), force_unlock(epoch=1), stale(2)),
    Case("the key is a string", text(LOCK), force_unlock(), WRONGTYPE),
    Case("the key is a string, with an epoch", text(LOCK), force_unlock(epoch=1), WRONGTYPE),
    Case("out of memory: freed", lock(me=1), force_unlock(), [ME], FREE, FREED, out_of_memory=True),
    Case(
        "out of memory: freed, with an epoch",
        lock(me=1),
        force_unlock(epoch=1),
        [ME],
        epoch(1),
        FREED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: a free lock, with an epoch",
        FREE,
        force_unlock(epoch=1),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        lock(me=1),
        force_unlock(publish="SPUBLISH"),
        [ME],
        FREE,
        [Message(CHANNEL, b"0", sharded=True)],
    ),
]

TICKETS: Final = b"tickets"


def tickets(ttl_ms: int | None, **held: int) -> State:
    """A second lock."""
    return {TICKETS: lock(ttl_ms, **held)[LOCK]}


RENEW: Final = [
    Case("extends", lock(10_000, me=1), renew((LOCK, ME)), [1], lock(me=1)),
    Case("does not cut", lock(90_000, me=1), renew((LOCK, ME)), [1]),
    Case("gives a persisted lock a TTL again", lock(None, me=1), renew((LOCK, ME)), [1], lock(me=1)),
    Case("keeps the number of holds", lock(10_000, me=3), renew((LOCK, ME)), [1], lock(me=3)),
    Case("not a lock that is gone", FREE, renew((LOCK, ME)), [0]),
    Case("not another's", lock(10_000, other=1), renew((LOCK, ME)), [0]),
    Case("nothing to renew", FREE, renew(), []),
    Case(
        "many, each on its own",
        lock(10_000, me=1) | tickets(10_000, other=1),
        renew((LOCK, ME), (TICKETS, ME), (b"gone", ME), (TICKETS, OTHER)),
        [1, 0, 0, 1],
        lock(me=1) | tickets(30_000, other=1),
    ),
    Case(
        "a key of another type hurts none of the others",
        text(TICKETS) | lock(10_000, me=1),
        renew((TICKETS, ME), (LOCK, ME)),
        [0, 1],
        text(TICKETS) | lock(me=1),
    ),
    Case("out of memory: extends", lock(10_000, me=1), renew((LOCK, ME)), [1], lock(me=1), out_of_memory=True),
]

# ---- read-write locks ------------------------------------------------------------------------------------------------

RW_CHANNEL: Final = b"redisson_rwlock:{orders}"
WRITER: Final = ME + b":write"
OTHER_WRITER: Final = OTHER + b":write"
WRITER_EPOCH: Final = EPOCH + b":write"


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


def writer_epoch(number: int) -> State:
    return {WRITER_EPOCH: Entry("string", b"%d" % number, 60_000)}


def read(*, lease: int = 30_000, counts: int = 0, epoch: int = 0, repeat: bool = False) -> Call:
    (hold,) = read_hold(ME, counts + 1)
    return Call("read_lock_acquire", (LOCK, EPOCH, hold), (lease, ME, counts, epoch, int(repeat)))


def end_read(
    *, lease: int = 30_000, counts: int = 1, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH"
) -> Call:
    (hold,) = read_hold(ME, max(counts, 1))
    return Call(
        "read_lock_release",
        (LOCK, RW_CHANNEL, EPOCH, hold),
        ("0", lease, ME, counts, epoch, int(repeat), publish),
    )


def renew_readers(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    keys = tuple(key for name, owner in held for key in (name, b"{%b}:%b:rwlock_timeout:1" % (name, owner)))
    return Call("read_lock_renew", keys, (lease, *(owner for _, owner in held)))


def write(*, lease: int = 30_000, counts: int = 0, epoch: int = 0, repeat: bool = False, sum_: int = 90_000) -> Call:
    (hold,) = read_hold(ME)
    return Call("write_lock_acquire", (LOCK, WRITER_EPOCH, hold), (lease, WRITER, counts, epoch, int(repeat), ME, sum_))


def end_write(
    *, lease: int = 30_000, counts: int = 1, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH"
) -> Call:
    return Call(
        "write_lock_release",
        (LOCK, RW_CHANNEL, WRITER_EPOCH),
        ("1", lease, WRITER, counts, epoch, int(repeat), publish),
    )


def force(side: str, *, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    message = "1" if side == "write" else "0"
    return Call("read_write_lock_force_unlock", (LOCK, RW_CHANNEL, EPOCH), (message, epoch, publish, side))


READ_ENDED: Final = (Message(RW_CHANNEL, b"0", sharded=False),)
WRITE_ENDED: Final = (Message(RW_CHANNEL, b"1", sharded=False),)
UPGRADE: Final = [b"upgrade"]

READ: Final = [
    Case("a free lock is read", FREE, read(), None, rw("read", me=1) | mine(30_000)),
    Case(
        "others read",
        rw("read", 20_000, other=1) | theirs(20_000),
        read(),
        None,
        rw("read", other=1, me=1) | theirs(20_000) | mine(30_000),
    ),
    Case(
        "others read for longer",
        rw("read", 90_000, other=1) | theirs(90_000),
        read(),
        None,
        rw("read", 90_000, other=1, me=1) | theirs(90_000) | mine(30_000),
    ),
    Case(
        "re-entry has a hold of its own",
        rw("read", me=1) | mine(30_000),
        read(counts=1, lease=90_000),
        None,
        rw("read", 90_000, me=2) | mine(30_000, 90_000),
    ),
    Case(
        "re-entry with less time does not cut",
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
    Case("another writes", rw("write", 70_000, other_writer=1), read(), Around(70_000)),
    Case(
        "another writes and reads",
        rw("write", 70_000, other_writer=1, other=1) | theirs(20_000),
        read(),
        Around(70_000),
    ),
    Case("another writes without end", rw("write", None, other_writer=1), read(), -1),
    Case(
        "the writer may read",
        rw("write", 60_000, writer=2),
        read(),
        None,
        rw("write", 60_000, writer=2, me=1) | mine(30_000),
    ),
    Case(
        "the writer may read again",
        rw("write", 20_000, writer=1, me=1) | mine(20_000),
        read(counts=1),
        None,
        rw("write", writer=1, me=2) | mine(20_000, 30_000),
    ),
    Case("a lock of another kind", lock(other=1), read(), Around(30_000)),
    Case("a mode of which nobody has heard", rw("odd", other=1), read(), Around(30_000)),
    # The client counts other holds than are stored.
    Case("a hold is counted, and the lock is free", FREE, read(counts=1), LOST),
    Case("a hold is counted, and others read", rw("read", other=1) | theirs(30_000), read(counts=1), LOST),
    Case("a hold is counted, and another writes", rw("write", other_writer=1), read(counts=1), LOST),
    Case("more holds are counted than stored", rw("read", me=1) | mine(30_000), read(counts=2), LOST),
    Case("a hold is counted that has ended", rw("read", me=1, other=1) | theirs(30_000), read(counts=1), LOST),
    Case(
        "of two counted holds one has ended",
        rw("read", me=2) | read_hold(ME, 2),
        read(counts=2),
        None,
        rw("read", me=3) | read_hold(ME, 2) | read_hold(ME, 3),
    ),
    Case(
        "residue of a reader that has ended: starts at 1",
        rw("read", me=3, other=1) | theirs(30_000),
        read(),
        None,
        rw("read", me=1, other=1) | theirs(30_000) | mine(30_000),
    ),
    Case("residue that is no number: starts at 1", rw("read", me="x"), read(), None, rw("read", me=1) | mine(30_000)),
    # The same request again.
    Case(
        "repeat: the first copy took it",
        rw("read", me=1) | mine(10_000),
        read(repeat=True),
        None,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "repeat: the first copy took it, and it was renewed",
        rw("read", 90_000, me=1) | mine(90_000),
        read(repeat=True),
        None,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case(
        "repeat: the first copy took it, and it has ended",
        rw("read", 20_000, me=1, other=1) | theirs(20_000),
        read(repeat=True),
        None,
        rw("read", me=1, other=1) | theirs(20_000) | mine(30_000),
    ),
    Case(
        "repeat: the first copy re-entered",
        rw("read", me=2) | mine(30_000, 10_000),
        read(counts=1, repeat=True),
        None,
        rw("read", me=2) | mine(30_000, 30_000),
    ),
    Case("repeat: the first copy never came", FREE, read(repeat=True), None, rw("read", me=1) | mine(30_000)),
    Case("repeat: two more than counted", rw("read", me=3) | mine(30_000), read(counts=1, repeat=True), LOST),
    # Epochs.
    Case("an epoch is stored", FREE, read(epoch=1), None, rw("read", me=1) | mine(30_000) | epoch(1)),
    Case(
        "an epoch is stored though another writes",
        rw("write", other_writer=1),
        read(epoch=1),
        Around(30_000),
        rw("write", other_writer=1) | epoch(1),
    ),
    Case("a stale request", epoch(2), read(epoch=1), stale(2)),
    Case("a stale repeat", epoch(2) | rw("read", me=1) | mine(30_000), read(epoch=1, repeat=True), stale(2)),
    # What should not be there, and no memory.
    Case("the key is a string", text(LOCK), read(), WRONGTYPE),
    Case("out of memory: not taken", FREE, read(), OOM, out_of_memory=True),
    Case("out of memory: not re-entered", rw("read", me=1) | mine(30_000), read(counts=1), OOM, out_of_memory=True),
    Case(
        "out of memory: a repeat is told",
        rw("read", me=1) | mine(10_000),
        read(repeat=True),
        None,
        rw("read", me=1) | mine(30_000),
        out_of_memory=True,
    ),
]

END_READ: Final = [
    Case("the last reader frees it", rw("read", me=1) | mine(30_000), end_read(), RELEASED, FREE, READ_ENDED),
    Case(
        "others read on, for less time",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "others read on, for longer",
        rw("read", 90_000, other=1, me=1) | theirs(90_000) | mine(30_000),
        end_read(),
        0,
        rw("read", 90_000, other=1) | theirs(90_000),
    ),
    Case(
        "the longest of many holds counts",
        rw("read", 90_000, me=1, other=3) | mine(90_000) | theirs(20_000, 60_000, 10_000),
        end_read(),
        0,
        rw("read", 60_000, other=3) | theirs(20_000, 60_000, 10_000),
    ),
    Case(
        "what a writer has left over goes, too",
        rw("read", 200_000, me=1, other=1) | mine(30_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "a persisted lock gets a TTL again",
        rw("read", None, me=1, other=1) | mine(30_000) | theirs(40_000),
        end_read(),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case(
        "a hold without a TTL is never over",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(None),
        end_read(),
        0,
        rw("read", 90_000, other=1) | theirs(None),
    ),
    Case(
        "others are listed and have ended",
        rw("read", 90_000, other=2, me=1) | mine(30_000),
        end_read(),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    Case(
        "another lives about as long as the lock",
        rw("read", 30_000, other=1, me=1) | theirs(29_900) | mine(30_000),
        end_read(),
        0,
        rw("read", 30_000, other=1) | theirs(29_900),
    ),
    Case(
        "another's second hold lives as long as the lock",
        rw("read", 90_000, other=2, me=1) | theirs(10_000, 90_000) | mine(30_000),
        end_read(),
        0,
        rw("read", 90_000, other=2) | theirs(10_000, 90_000),
    ),
    Case(
        "one of two",
        rw("read", me=2) | mine(30_000, 30_000),
        end_read(counts=2),
        0,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "one of two: the newest goes, and its time stays",
        rw("read", 90_000, me=2) | mine(30_000, 90_000),
        end_read(counts=2),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case(
        "one of two: the older has ended, and lives on",
        rw("read", 90_000, me=2) | read_hold(ME, 2, 90_000),
        end_read(counts=2),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case(
        "one of two extends what is left",
        rw("read", 20_000, me=2) | mine(20_000, 20_000),
        end_read(counts=2, lease=90_000),
        0,
        rw("read", 90_000, me=1) | mine(90_000),
    ),
    Case("one of two, and both have ended", rw("read", me=2, other=1) | theirs(30_000), end_read(counts=2), None),
    Case(
        "it has ended, and others read",
        rw("read", me=1, other=1) | theirs(30_000),
        end_read(),
        None,
        rw("read", other=1) | theirs(30_000),
    ),
    Case("it has ended, and nobody reads", rw("read", me=1), end_read(), None, FREE, READ_ENDED),
    Case(
        "the writer ends its read",
        rw("write", 90_000, writer=1, me=1) | mine(30_000),
        end_read(),
        0,
        rw("write", 90_000, writer=1),
    ),
    Case(
        "the writer ends one of two reads",
        rw("write", 90_000, writer=1, me=2) | mine(30_000, 20_000),
        end_read(counts=2),
        0,
        rw("write", 90_000, writer=1, me=1) | mine(30_000),
    ),
    Case("who does not read", rw("read", other=1) | theirs(30_000), end_read(), None),
    Case("who only writes", rw("write", writer=1), end_read(), None),
    Case("a free lock", FREE, end_read(), None),
    Case("a lock of another kind", lock(me=1), end_read(), None),
    # The client counts other holds than are stored.
    Case("more holds are counted than stored", rw("read", me=1) | mine(30_000), end_read(counts=2), None),
    Case("fewer holds are counted than stored", rw("read", me=2) | mine(30_000, 30_000), end_read(), None),
    Case(
        "giving up whatever stands there: three holds",
        rw("read", me=3) | mine(30_000, 20_000, 10_000),
        end_read(counts=0),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    Case(
        "giving up whatever stands there: three holds among others",
        rw("read", 90_000, me=3, other=1) | mine(90_000, 20_000, 10_000) | theirs(40_000),
        end_read(counts=0),
        0,
        rw("read", 40_000, other=1) | theirs(40_000),
    ),
    Case("giving up whatever stands there: no number", rw("read", me="x"), end_read(counts=0), None, FREE, READ_ENDED),
    # The same request again.
    Case("repeat: the first copy freed it", FREE, end_read(repeat=True), None),
    Case(
        "repeat: the first copy took one of two",
        rw("read", me=1) | mine(10_000),
        end_read(counts=2, repeat=True),
        0,
        rw("read", me=1) | mine(30_000),
    ),
    Case(
        "repeat: the first copy never came",
        rw("read", me=1) | mine(30_000),
        end_read(repeat=True),
        RELEASED,
        FREE,
        READ_ENDED,
    ),
    # Epochs.
    Case("an epoch is stored", rw("read", me=1) | mine(30_000), end_read(epoch=1), RELEASED, epoch(1), READ_ENDED),
    Case("an epoch is stored though nothing is held", FREE, end_read(epoch=1, repeat=True), None, epoch(1)),
    Case("a stale request", epoch(2) | rw("read", me=1) | mine(30_000), end_read(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("the key is a string", text(LOCK), end_read(), WRONGTYPE),
    Case(
        "out of memory: freed, with an epoch",
        rw("read", me=1) | mine(30_000),
        end_read(epoch=1),
        RELEASED,
        epoch(1),
        READ_ENDED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: others read on",
        rw("read", 90_000, me=1, other=1) | mine(90_000) | theirs(40_000),
        end_read(epoch=1),
        0,
        rw("read", 40_000, other=1) | theirs(40_000) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two",
        rw("read", me=2) | read_hold(ME, 2),
        end_read(counts=2, epoch=1),
        0,
        rw("read", me=1) | mine(30_000) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        rw("read", me=1) | mine(30_000),
        end_read(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(RW_CHANNEL, b"0", sharded=True)],
    ),
]

RENEW_READERS: Final = [
    Case(
        "extends its holds and the lock",
        rw("read", 10_000, me=2) | mine(10_000, 5_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=2) | mine(30_000, 30_000),
    ),
    Case(
        "does not cut",
        rw("read", 90_000, me=2) | mine(90_000, 10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", 90_000, me=2) | mine(90_000, 30_000),
    ),
    Case(
        "not others' holds",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(10_000),
    ),
    Case(
        "a hold that has ended stays ended",
        rw("read", 10_000, me=2) | mine(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=2) | mine(30_000),
    ),
    Case("a reader that has ended stays ended", rw("read", 10_000, me=2), renew_readers((LOCK, ME)), [0]),
    Case(
        "gives a persisted lock a TTL again",
        rw("read", None, me=1) | mine(None),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1) | mine(30_000),
    ),
    Case("not a lock that is gone", mine(10_000), renew_readers((LOCK, ME)), [0]),
    Case("nothing to renew", FREE, renew_readers(), []),
    Case(
        "many, each on its own",
        rw("read", 10_000, me=1, other=1) | mine(10_000) | theirs(10_000) | text(b"tickets"),
        renew_readers((b"tickets", ME), (LOCK, ME), (b"gone", ME), (LOCK, OTHER)),
        [0, 1, 0, 1],
        rw("read", me=1, other=1) | mine(30_000) | theirs(30_000) | text(b"tickets"),
    ),
    Case(
        "out of memory: extends",
        rw("read", 10_000, me=1) | mine(10_000),
        renew_readers((LOCK, ME)),
        [1],
        rw("read", me=1) | mine(30_000),
        out_of_memory=True,
    ),
]

WRITE: Final = [
    Case("a free lock is written", FREE, write(), None, rw("write", writer=1)),
    Case("re-entry adds its lease", rw("write", writer=1), write(counts=1), None, rw("write", 60_000, writer=2)),
    Case(
        "re-entry adds no more than all leases",
        rw("write", 80_000, writer=2),
        write(counts=2),
        None,
        rw("write", 90_000, writer=3),
    ),
    Case(
        "re-entry does not cut", rw("write", 120_000, writer=1), write(counts=1), None, rw("write", 120_000, writer=2)
    ),
    Case(
        "a persisted lock gets a TTL again", rw("write", None, writer=1), write(counts=1), None, rw("write", writer=2)
    ),
    Case("others read", rw("read", 70_000, other=1) | theirs(70_000), write(), Around(70_000)),
    Case("another writes", rw("write", 70_000, other_writer=1), write(), Around(70_000)),
    Case("another writes without end", rw("write", None, other_writer=1), write(), -1),
    Case("a reader may not write", rw("read", me=1) | mine(30_000), write(), UPGRADE),
    Case("a reader may not write, among others", rw("read", other=1, me=2) | read_hold(ME, 2), write(), UPGRADE),
    Case("a reader that has ended", rw("read", 70_000, me=2, other=1) | theirs(70_000), write(), Around(70_000)),
    Case(
        "a writer that reads writes again",
        rw("write", writer=1, me=1) | mine(30_000),
        write(counts=1),
        None,
        rw("write", 60_000, writer=2, me=1) | mine(30_000),
    ),
    Case("a lock of another kind", lock(me=1), write(), Around(30_000)),
    # The client counts other holds than are stored.
    Case("a hold is counted, and the lock is free", FREE, write(counts=1), LOST),
    Case("a hold is counted, and another writes", rw("write", other_writer=1), write(counts=1), LOST),
    Case("a hold is counted, and others read", rw("read", other=1) | theirs(30_000), write(counts=1), LOST),
    Case("a hold is counted, and this owner reads", rw("read", me=1) | mine(30_000), write(counts=1), LOST),
    Case("more holds are counted than stored", rw("write", writer=1), write(counts=2), LOST),
    Case("residue of a hold that is over: starts at 1", rw("write", writer=3), write(), None, rw("write", writer=1)),
    Case(
        "residue with more time: is not cut",
        rw("write", 90_000, writer="x"),
        write(),
        None,
        rw("write", 90_000, writer=1),
    ),
    # The same request again.
    Case(
        "repeat: the first copy took it", rw("write", 10_000, writer=1), write(repeat=True), None, rw("write", writer=1)
    ),
    Case(
        "repeat: the first copy re-entered, and added",
        rw("write", 60_000, writer=2),
        write(counts=1, repeat=True),
        None,
        rw("write", 60_000, writer=2),
    ),
    Case("repeat: the first copy never came", FREE, write(repeat=True), None, rw("write", writer=1)),
    Case(
        "repeat: the first copy never came, re-entry",
        rw("write", writer=1),
        write(counts=1, repeat=True),
        None,
        rw("write", 60_000, writer=2),
    ),
    Case("repeat: two more than counted", rw("write", writer=3), write(counts=1, repeat=True), LOST),
    # Epochs.
    Case("an epoch is stored", FREE, write(epoch=1), None, rw("write", writer=1) | writer_epoch(1)),
    Case("an epoch of the read side is of no interest", epoch(5), write(), None, rw("write", writer=1) | epoch(5)),
    Case("a stale request", writer_epoch(2), write(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("the key is a string", text(LOCK), write(), WRONGTYPE),
    Case("out of memory: not taken", FREE, write(), OOM, out_of_memory=True),
    Case("out of memory: not re-entered", rw("write", writer=1), write(counts=1), OOM, out_of_memory=True),
    Case(
        "out of memory: a repeat is told",
        rw("write", 10_000, writer=1),
        write(repeat=True),
        None,
        rw("write", writer=1),
        out_of_memory=True,
    ),
]

END_WRITE: Final = [
    Case("the last hold frees it", rw("write", writer=1), end_write(), RELEASED, FREE, WRITE_ENDED),
    Case(
        "the writer reads on, and all are told",
        rw("write", 60_000, writer=1, me=2) | mine(30_000, 30_000),
        end_write(),
        RELEASED,
        rw("read", 60_000, me=2) | mine(30_000, 30_000),
        WRITE_ENDED,
    ),
    Case(
        "one of two does not cut", rw("write", 60_000, writer=2), end_write(counts=2), 0, rw("write", 60_000, writer=1)
    ),
    Case(
        "one of two extends what is left",
        rw("write", 20_000, writer=2),
        end_write(counts=2, lease=90_000),
        0,
        rw("write", 90_000, writer=1),
    ),
    Case("another writes", rw("write", other_writer=1), end_write(), None),
    Case("others read", rw("read", other=1) | theirs(30_000), end_write(), None),
    Case("this owner reads", rw("read", me=1) | mine(30_000), end_write(), None),
    Case("a field without the mode", rw("read", writer=1), end_write(), None),
    Case("a free lock", FREE, end_write(), None),
    # The client counts other holds than are stored.
    Case("more holds are counted than stored", rw("write", writer=1), end_write(counts=2), None),
    Case("giving up whatever stands there", rw("write", writer=3), end_write(counts=0), RELEASED, FREE, WRITE_ENDED),
    Case(
        "giving up whatever stands there, and reading on",
        rw("write", writer=3, me=1) | mine(30_000),
        end_write(counts=0),
        RELEASED,
        rw("read", me=1) | mine(30_000),
        WRITE_ENDED,
    ),
    # The same request again.
    Case("repeat: the first copy freed it", FREE, end_write(repeat=True), None),
    Case("repeat: the first copy left it to its reads", rw("read", me=1) | mine(30_000), end_write(repeat=True), None),
    Case(
        "repeat: the first copy took one of two",
        rw("write", 10_000, writer=1),
        end_write(counts=2, repeat=True),
        0,
        rw("write", writer=1),
    ),
    Case(
        "repeat: the first copy never came", rw("write", writer=1), end_write(repeat=True), RELEASED, FREE, WRITE_ENDED
    ),
    # Epochs.
    Case("an epoch is stored", rw("write", writer=1), end_write(epoch=1), RELEASED, writer_epoch(1), WRITE_ENDED),
    Case("a stale request", writer_epoch(2) | rw("write", writer=1), end_write(epoch=1), stale(2)),
    # What should not be there, and no memory.
    Case("the key is a string", text(LOCK), end_write(), WRONGTYPE),
    Case(
        "out of memory: freed, with an epoch",
        rw("write", writer=1),
        end_write(epoch=1),
        RELEASED,
        writer_epoch(1),
        WRITE_ENDED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: the writer reads on",
        rw("write", writer=1, me=1) | mine(30_000),
        end_write(epoch=1),
        RELEASED,
        rw("read", me=1) | mine(30_000) | writer_epoch(1),
        WRITE_ENDED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two",
        rw("write", 20_000, writer=2),
        end_write(counts=2),
        0,
        rw("write", writer=1),
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        rw("write", writer=1),
        end_write(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(RW_CHANNEL, b"1", sharded=True)],
    ),
]

FORCE_SIDE: Final = [
    Case("readers go", rw("read", other=2) | theirs(30_000), force("read"), 1, theirs(30_000), READ_ENDED),
    Case("a writer goes", rw("write", other_writer=2), force("write"), 1, FREE, WRITE_ENDED),
    Case(
        "a writer goes with what it reads",
        rw("write", other_writer=2, other=1) | theirs(30_000),
        force("write"),
        1,
        theirs(30_000),
        WRITE_ENDED,
    ),
    Case("readers do not go as writers", rw("read", other=1) | theirs(30_000), force("write"), None),
    Case("a writer does not go as a reader", rw("write", other_writer=1), force("read"), None),
    Case("a free lock", FREE, force("read"), None),
    Case("a lock of another kind", lock(other=1), force("write"), None),
    Case("an epoch is stored", rw("write", writer=1), force("write", epoch=1), 1, epoch(1), WRITE_ENDED),
    Case("a stale request", epoch(2) | rw("read", other=1), force("read", epoch=1), stale(2)),
    Case("the key is a string", text(LOCK), force("read"), WRONGTYPE),
    Case(
        "out of memory: freed, with an epoch",
        rw("read", other=1),
        force("read", epoch=1),
        1,
        epoch(1),
        READ_ENDED,
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        rw("write", writer=1),
        force("write", publish="SPUBLISH"),
        1,
        FREE,
        [Message(RW_CHANNEL, b"1", sharded=True)],
    ),
]

READ_WRITE: Final = [*READ, *END_READ, *RENEW_READERS, *WRITE, *END_WRITE, *FORCE_SIDE]

CASES: Final = [*ACQUIRE, *FENCED, *RELEASE, *FORCE_UNLOCK, *RENEW, *READ_WRITE]

Twin: TypeAlias = "Model | RealServer"


@pytest.fixture(scope="module")
def real_servers() -> Iterator[Callable[[Build], RealServer]]:
    """Servers of this file's own, because it empties them and takes their memory."""
    servers = SharedServers()
    open_: dict[Build, RealServer] = {}

    def get(build: Build) -> RealServer:
        if build not in open_:
            open_[build] = RealServer(servers.get(build))
            open_[build].hear_shards([CHANNEL, RW_CHANNEL])
        return open_[build]

    yield get
    for each in open_.values():
        each.close()
    servers.stop()


@pytest.fixture(params=[None, *BUILDS], ids=lambda build: build.id if build else "simulated")
def twin(request: pytest.FixtureRequest, real_servers: Callable[[Build], RealServer]) -> Twin:
    """The simulated server and each real one in turn, empty."""
    build: Build | None = request.param
    if build is None:
        return Model()
    build.require()
    server = real_servers(build)
    server.empty()
    return server


def store(twin: Twin, state: State) -> None:
    for key, entry in state.items():
        match entry.value:
            case bytes() as value:
                twin.call("SET", key, value)
            case list() as items:
                twin.call("RPUSH", key, *items)
            case dict() as scores if entry.type == "zset":
                twin.call("ZADD", key, *itertools.chain(*((str(score), member) for member, score in scores.items())))
            case dict() as fields:
                twin.call("HSET", key, *itertools.chain(*fields.items()))
        if entry.ttl_ms is not None:
            twin.call("PEXPIRE", key, entry.ttl_ms)


def run(twin: Twin, call: Call) -> Any:
    return twin.call("EVAL", SCRIPTS[call.script], len(call.keys), *call.keys, *call.args)


def check_reply(twin: Twin, reply: Any, expected: Any) -> None:
    if isinstance(expected, Around):
        assert isinstance(reply, int)
        assert expected - TOLERANCE_MS <= reply <= expected
    elif isinstance(expected, ServerError):
        assert isinstance(reply, ServerError), reply
        assert comparable(reply, twin.version).startswith(str(expected))
    else:
        assert reply == expected


def check_state(twin: Twin, expected: State) -> None:
    found = twin.state()
    assert {key: each._replace(ttl_ms=None) for key, each in found.items()} == {
        key: each._replace(ttl_ms=None) for key, each in expected.items()
    }
    for key, each in expected.items():
        ttl_ms = found[key].ttl_ms
        if each.ttl_ms is None or ttl_ms is None:
            assert ttl_ms == each.ttl_ms, key
        else:
            assert each.ttl_ms - TOLERANCE_MS <= ttl_ms <= each.ttl_ms, key


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.call.script}: {case.name}")
def test_case(twin: Twin, case: Case, request: pytest.FixtureRequest) -> None:
    if "SPUBLISH" in case.call.args and not twin.has_sharded_pubsub:
        pytest.skip("this build has no SPUBLISH")
    store(twin, case.before)
    twin.out_of_memory(case.out_of_memory)
    reply = run(twin, case.call)
    twin.out_of_memory(False)
    check_reply(twin, reply, case.reply)
    check_state(twin, case.before if case.after is None else case.after)
    assert twin.messages() == list(case.messages)


def test_every_script_has_cases() -> None:
    assert {case.call.script for case in CASES} == set(SCRIPTS)


def test_the_example_states(twin: Twin) -> None:
    """Appendix A of the protocol: a lock taken twice, and given back."""
    assert run(twin, acquire()) is None
    assert run(twin, acquire(counts=1)) is None
    check_state(twin, lock(30_000, me=2))
    assert run(twin, release(counts=2)) == 0
    check_state(twin, lock(30_000, me=1))
    assert run(twin, release(counts=1)) == RELEASED
    check_state(twin, FREE)
    assert twin.messages() == list(FREED)


def test_an_expired_lock_is_free(twin: Twin) -> None:
    assert run(twin, acquire(owner=OTHER)) is None
    check_reply(twin, run(twin, acquire()), Around(30_000))
    twin.expire(LOCK)
    assert run(twin, release(owner=OTHER)) is None
    assert run(twin, renew((LOCK, OTHER))) == [0]
    assert run(twin, acquire(owner=OTHER, counts=1)) == LOST
    assert run(twin, acquire()) is None
    check_state(twin, lock(me=1))
    assert twin.messages() == []


def test_an_expired_epoch_is_forgotten(twin: Twin) -> None:
    assert run(twin, acquire(epoch=5)) is None
    assert run(twin, release(epoch=4)) == stale(5)
    twin.expire(EPOCH)
    assert run(twin, release(epoch=4)) == RELEASED
    check_state(twin, epoch(4))
