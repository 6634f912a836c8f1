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

# ---- the token lock --------------------------------------------------------------------------------------------------

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
    return Call("token_acquire", (LOCK, TOKEN_EPOCH), (lease, token, former, epoch, int(repeat)))


def token_release(token: bytes = MINE, *, lease: int = 30_000, epoch: int = 0) -> Call:
    return Call("token_release", (LOCK, TOKEN_EPOCH), (lease, token, epoch))


def token_force(*, epoch: int = 0) -> Call:
    return Call("token_force_unlock", (LOCK, TOKEN_EPOCH), (epoch,))


def token_renew(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("token_renew", tuple(key for key, _ in held), (lease, *(token for _, token in held)))


TOKEN_ACQUIRE: Final = [
    Case("a free lock is taken", FREE, token_acquire(), None, held_by(MINE)),
    Case("the lease is its TTL", FREE, token_acquire(lease=90_000), None, held_by(MINE, 90_000)),
    Case("another is told how long", held_by(THEIRS, 70_000), token_acquire(), Around(70_000)),
    Case("another is told that there is no end", held_by(THEIRS, None), token_acquire(), -1),
    Case("an empty token is a token", held_by(b""), token_acquire(), Around(30_000)),
    Case("a repeat finds what it took", held_by(MINE, 20_000), token_acquire(repeat=True), None, held_by(MINE)),
    Case("a repeat cuts no time short", held_by(MINE, 90_000), token_acquire(repeat=True), None),
    Case("a repeat of one that never came", FREE, token_acquire(repeat=True), None, held_by(MINE)),
    Case("somebody else chose the same token", held_by(MINE), token_acquire(), Around(30_000)),
    Case(
        "what is left of the hold before",
        held_by(b"before", 20_000),
        token_acquire(former=b"before"),
        None,
        held_by(MINE),
    ),
    Case(
        "what is left of the hold before, with more time",
        held_by(b"before", 90_000),
        token_acquire(former=b"before"),
        None,
        held_by(MINE, 90_000),
    ),
    Case(
        "what is left of the hold before, without end",
        held_by(b"before", None),
        token_acquire(former=b"before"),
        None,
        held_by(MINE),
    ),
    Case("a hold before, and another's", held_by(THEIRS), token_acquire(former=b"before"), Around(30_000)),
    Case("an epoch is stored", FREE, token_acquire(epoch=1), None, held_by(MINE) | token_epoch(1)),
    Case(
        "an epoch lives as long as a long lease",
        FREE,
        token_acquire(epoch=1, lease=90_000),
        None,
        held_by(MINE, 90_000) | token_epoch(1, 90_000),
    ),
    Case(
        "an epoch is stored by a refused request too",
        held_by(THEIRS),
        token_acquire(epoch=3),
        Around(30_000),
        held_by(THEIRS) | token_epoch(3),
    ),
    Case("a stale request takes nothing", token_epoch(2), token_acquire(epoch=1), stale(2)),
    Case("a stale first copy takes nothing", token_epoch(1), token_acquire(), stale(1)),
    Case("the key is a hash", lock(me=1), token_acquire(), WRONGTYPE),
    Case("out of memory", FREE, token_acquire(), OOM, out_of_memory=True),
    Case("out of memory, held", held_by(THEIRS), token_acquire(), Around(30_000), out_of_memory=True),
]

TOKEN_RELEASE: Final = [
    Case("frees", held_by(MINE), token_release(), 1, FREE),
    Case("frees one without a TTL", held_by(MINE, None), token_release(), 1, FREE),
    Case("not another's", held_by(THEIRS), token_release(), None),
    Case("a free lock", FREE, token_release(), None),
    Case("an epoch is stored", held_by(MINE), token_release(epoch=1), 1, token_epoch(1)),
    Case("an epoch is stored for a free lock", FREE, token_release(epoch=1), None, token_epoch(1)),
    Case(
        "an epoch lives as long as a long lease",
        FREE,
        token_release(epoch=1, lease=90_000),
        None,
        token_epoch(1, 90_000),
    ),
    Case("a stale request frees nothing", token_epoch(2) | held_by(MINE), token_release(epoch=1), stale(2)),
    Case("the key is a hash", lock(me=1), token_release(), WRONGTYPE),
    Case("out of memory: frees", held_by(MINE), token_release(), 1, FREE, out_of_memory=True),
    Case(
        "out of memory: frees, with an epoch",
        held_by(MINE),
        token_release(epoch=1),
        1,
        token_epoch(1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a free lock, with an epoch",
        FREE,
        token_release(epoch=1),
        None,
        token_epoch(1),
        out_of_memory=True,
    ),
]

TOKEN_FORCE: Final = [
    Case("a free lock", FREE, token_force(), None),
    Case("whoever holds it", held_by(THEIRS), token_force(), 1, FREE),
    Case("an empty token", held_by(b"", None), token_force(), 1, FREE),
    Case("an epoch is stored", held_by(MINE), token_force(epoch=1), 1, token_epoch(1)),
    Case("a stale request", token_epoch(2) | held_by(MINE), token_force(epoch=1), stale(2)),
    Case("the key is a hash", lock(me=1), token_force(), WRONGTYPE),
    Case(
        "out of memory: freed, with an epoch",
        held_by(MINE),
        token_force(epoch=1),
        1,
        token_epoch(1),
        out_of_memory=True,
    ),
]

TOKEN_RENEW: Final = [
    Case("extends", held_by(MINE, 10_000), token_renew((LOCK, MINE)), [1], held_by(MINE)),
    Case("does not cut", held_by(MINE, 90_000), token_renew((LOCK, MINE)), [1]),
    Case("gives a persisted lock a TTL again", held_by(MINE, None), token_renew((LOCK, MINE)), [1], held_by(MINE)),
    Case("not one that is gone", FREE, token_renew((LOCK, MINE)), [0]),
    Case("not another's", held_by(THEIRS, 10_000), token_renew((LOCK, MINE)), [0]),
    Case("nothing to renew", FREE, token_renew(), []),
    Case(
        "a key of another type hurts none of the others",
        tickets(10_000, me=1) | held_by(MINE, 10_000),
        token_renew((TICKETS, MINE), (LOCK, MINE), (b"gone", MINE)),
        [0, 1, 0],
        tickets(10_000, me=1) | held_by(MINE),
    ),
    Case(
        "out of memory: extends",
        held_by(MINE, 10_000),
        token_renew((LOCK, MINE)),
        [1],
        held_by(MINE),
        out_of_memory=True,
    ),
]

TOKEN_EXTEND: Final = [
    Case("not another's", held_by(THEIRS), Call("token_extend", (LOCK,), (MINE, 0)), None),
    Case("not one that is gone", FREE, Call("token_extend", (LOCK,), (MINE, 4_000_000_000_000)), None),
    Case("the key is a hash", lock(me=1), Call("token_extend", (LOCK,), (MINE, 0)), WRONGTYPE),
]

# ---- guards with a fence ---------------------------------------------------------------------------------------------

STOCK: Final = b"stock"
FENCE: Final = b"pyredisson_fence:{stock}"
BIG: Final = 2**63 - 1


def fence(token: int) -> State:
    return text(FENCE, b"%d" % token)


def stock(value: bytes, ttl_ms: int | None = None) -> State:
    return {STOCK: Entry("string", value, ttl_ms)}


def goods(**fields: bytes) -> State:
    return {STOCK: Entry("hash", {name.encode(): value for name, value in fields.items()}, None)}


def fence_set(token: int, value: bytes = b"new", ttl: int | str = "") -> Call:
    return Call("fence_set", (STOCK, FENCE), (token, value, ttl))


def fence_hset(token: int, *pairs: bytes) -> Call:
    return Call("fence_hset", (STOCK,), (token, b"fence", *pairs))


def fence_advance(token: int) -> Call:
    return Call("fence_advance", (FENCE,), (token,))


FENCES: Final = [
    Case("the first write", FREE, fence_set(7), None, stock(b"new") | fence(7)),
    Case("with a TTL", FREE, fence_set(7, ttl=30_000), None, stock(b"new", 30_000) | fence(7)),
    Case("a later holder", stock(b"old") | fence(7), fence_set(8), None, stock(b"new") | fence(8)),
    Case("the same holder", stock(b"old", 30_000) | fence(7), fence_set(7), None, stock(b"new") | fence(7)),
    Case("an earlier holder", stock(b"old") | fence(8), fence_set(7), b"8"),
    Case("an earlier holder, one digit less", stock(b"old") | fence(10), fence_set(9), b"10"),
    Case("one digit more", stock(b"old") | fence(9), fence_set(10), None, stock(b"new") | fence(10)),
    Case("beyond what Lua counts", stock(b"old") | fence(BIG), fence_set(BIG - 1), b"%d" % BIG),
    Case("the value is gone, the fence is not", fence(8), fence_set(7), b"8"),
    Case("the fence is of another type", goods(a=b"1") | {FENCE: goods(a=b"1")[STOCK]}, fence_set(7), WRONGTYPE),
    Case("out of memory", stock(b"old"), fence_set(7), OOM, out_of_memory=True),
    Case("out of memory, the same holder", stock(b"old") | fence(7), fence_set(7), OOM, out_of_memory=True),
    Case("the first write", FREE, fence_hset(7, b"a", b"1"), None, goods(fence=b"7", a=b"1")),
    Case("no field but the fence", goods(a=b"1"), fence_hset(7), None, goods(fence=b"7", a=b"1")),
    Case(
        "a later holder",
        goods(fence=b"7", a=b"1", b=b"2"),
        fence_hset(8, b"a", b"3", b"c", b"4"),
        None,
        goods(fence=b"8", a=b"3", b=b"2", c=b"4"),
    ),
    Case("the same holder", goods(fence=b"7", a=b"1"), fence_hset(7, b"a", b"2"), None, goods(fence=b"7", a=b"2")),
    Case("an earlier holder", goods(fence=b"10", a=b"1"), fence_hset(9, b"a", b"2"), b"10"),
    Case("a string", text(STOCK), fence_hset(9, b"a", b"2"), WRONGTYPE),
    Case("out of memory", FREE, fence_hset(9, b"a", b"2"), OOM, out_of_memory=True),
    Case("the first token", FREE, fence_advance(7), None, fence(7)),
    Case("a greater token", fence(7), fence_advance(10), None, fence(10)),
    Case("the same token", fence(7), fence_advance(7), None),
    Case("a smaller token", fence(10), fence_advance(9), b"10"),
    Case("out of memory", FREE, fence_advance(9), OOM, out_of_memory=True),
]

CASES: Final = [
    *FENCES,
    *ACQUIRE,
    *RELEASE,
    *FORCE_UNLOCK,
    *RENEW,
    *TOKEN_ACQUIRE,
    *TOKEN_RELEASE,
    *TOKEN_FORCE,
    *TOKEN_RENEW,
    *TOKEN_EXTEND,
]

Twin: TypeAlias = "Model | RealServer"


@pytest.fixture(scope="module")
def real_servers() -> Iterator[Callable[[Build], RealServer]]:
    """Servers of this file's own, because it empties them and takes their memory."""
    servers = SharedServers()
    open_: dict[Build, RealServer] = {}

    def get(build: Build) -> RealServer:
        if build not in open_:
            open_[build] = RealServer(servers.get(build))
            open_[build].hear_shards([CHANNEL])
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


def test_a_token_lock_is_extended_to_a_moment(twin: Twin) -> None:
    def extend(until: int) -> tuple[int, int]:
        now, ends = run(twin, Call("token_extend", (LOCK,), (MINE, until)))
        return now, ends

    store(twin, held_by(MINE, 30_000))
    now, ends = extend(0)
    check_reply(twin, ends - now, Around(30_000))
    for _ in range(2):  # Sent twice, it counts once.
        later, prolonged = extend(ends + 60_000)
        assert abs(prolonged - ends - 60_000) <= 1
        check_reply(twin, prolonged - later, Around(90_000))
    assert abs(extend(ends)[1] - prolonged) <= 1, "no time is cut short"
    assert abs(extend(1)[1] - prolonged) <= 1
    check_state(twin, held_by(MINE, 90_000))
    twin.call("PERSIST", LOCK)
    now, ends = extend(0)
    assert ends == -1
    twin.out_of_memory(True)
    extend(now + 50_000)
    twin.out_of_memory(False)
    check_state(twin, held_by(MINE, 50_000))
