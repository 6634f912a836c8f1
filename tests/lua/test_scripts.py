"""What each script in ``pyredisson/lua`` does, case by case: on the simulated server, and on every real one.

A case says what is stored before, the call, the reply, what is stored after, and which messages were published.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from tests.lua.random_steps import SCRIPTS
from tests.lua.twins import Message, Model, RealServer, comparable, microseconds
from tests.servers import BUILDS, Build, SharedServers
from tests.simulator.redis import Entry, ServerError

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
    return Call("lock_acquire", (LOCK, EPOCH), (owner, epoch, int(repeat), lease, counts))


def release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
) -> Call:
    return Call("lock_release", (LOCK, EPOCH, CHANNEL), (owner, epoch, int(repeat), lease, counts, publish, "0"))


def force_unlock(*, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    return Call("lock_force_unlock", (LOCK, EPOCH, CHANNEL), (ME, epoch, 0, publish, "0"))


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
        (owner, epoch, int(repeat), lease, counts, joins, int(from_clock)),
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
    Case(
        "re-entry tells a server of a greater token than it has drawn",
        lock(me=1) | token(6),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(9),
    ),
    Case(
        "re-entry tells a server that has drawn none",
        lock(me=1),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(9),
    ),
    Case(
        "re-entry leaves a token that is greater",
        lock(me=1) | token(12),
        fenced(counts=1, joins="9"),
        taken(9),
        lock(me=2) | token(12),
    ),
    Case("another's hold, and a greater token", lock(other=1) | token(6), fenced(counts=1, joins="9"), LOST),
    Case(
        "re-entry with a token key of another type takes nothing",
        lock(me=1) | {TOKEN: Entry("list", [b"a"], None)},
        fenced(counts=1, joins="9"),
        WRONGTYPE,
    ),
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
        "out of memory: not re-entered, and no token raised",
        lock(me=1) | token(6),
        fenced(counts=1, joins="9"),
        OOM,
        out_of_memory=True,
    ),
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

# ---- fair locks

QUEUE: Final = b"redisson_lock_queue:{orders}"
TIMEOUTS: Final = b"redisson_lock_timeout:{orders}"
ALIVE: Final = b"pyredisson_lock_alive:{orders}"
DEAD: Final = f"{CLIENT}:11".encode()
#: Of another client, of ours or Redisson's.
STRANGER: Final = b"0192a3c4-0795-4907-87fd-6c719a6b4586:3"
SECOND: Final = b"0192a3c4-0795-4907-87fd-6c719a6b4586:4"


WHO: Final = {"me": ME, "other": OTHER, "dead": DEAD, "stranger": STRANGER, "second": SECOND}


class In(float):
    """A score, or a field: so many milliseconds from now."""


def waiters(**waits: float | None) -> State:
    """The queue, in order: for how many ms from now each is believed in; ``None``: without a score."""
    scores = {WHO[who]: In(wait) for who, wait in waits.items() if wait is not None}
    state = {QUEUE: Entry("list", [WHO[who] for who in waits], None)}
    return state | ({TIMEOUTS: Entry("zset", scores, None)} if scores else {})


def alive(ttl_ms: int | None = 2_000_000, **lives: float) -> State:
    """For how many ms from now each can be alive, as it said itself; that is kept as long as the longest score."""
    return {ALIVE: Entry("hash", {WHO[who]: In(left) for who, left in lives.items()}, ttl_ms)}


def fair_acquire(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 0,
    epoch: int = 0,
    repeat: bool = False,
    wait: int = 200_000,
    least: int = 300_000,
    queue: bool = True,
    lives: int = 100_000,
) -> Call:
    return Call(
        "fair_acquire",
        (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE),
        (owner, epoch, int(repeat), lease, counts, wait, least, int(queue), lives),
    )


def fair_release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
    queued: int = 0,
) -> Call:
    return Call(
        "fair_release",
        (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE, CHANNEL),
        (owner, epoch, int(repeat), lease, counts, publish, "0", queued),
    )


def fair_force_unlock(*, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    return Call("fair_force_unlock", (LOCK, EPOCH, QUEUE, TIMEOUTS, ALIVE, CHANNEL), (ME, epoch, 0, publish, "0"))


def fair_look(*living: tuple[bytes, int], least: int = 300_000, lives: int = 100_000) -> Call:
    words = (word for owner, wait in living for word in (owner, wait, lives))
    return Call("fair_look", (LOCK, QUEUE, TIMEOUTS, ALIVE), (least, *words))


def mine(score: int) -> State:
    """As one writes who has that score and queues up, or is looked after: nobody had before."""
    return alive(score, me=100_000)


def told(owner: bytes, *, sharded: bool = False) -> tuple[Message]:
    return (Message(CHANNEL + b":" + owner, b"0", sharded=sharded),)


FAIR: Final = [
    # Taking.
    Case("a free lock is taken", FREE, fair_acquire(), None, lock(me=1)),
    Case("one attempt takes a free lock", FREE, fair_acquire(queue=False), None, lock(me=1)),
    Case(
        "the head takes it, and its wait is taken off the others'",
        waiters(me=200_000, other=500_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=300_000),
    ),
    Case(
        "it is another's turn: queues up behind it",
        waiters(other=70_000),
        fair_acquire(),
        Around(70_000),
        waiters(other=70_000, me=270_000) | mine(270_000),
    ),
    Case("one attempt does not overtake", waiters(other=70_000), fair_acquire(queue=False), Around(70_000)),
    Case(
        "those who are gone are dropped",
        waiters(dead=-1_000, other=-1_000),
        fair_acquire(),
        None,
        lock(me=1),
    ),
    Case(
        "so is an entry without a score",
        waiters(dead=None),
        fair_acquire(queue=False),
        None,
        lock(me=1),
    ),
    Case(
        "the one who asks is not gone",
        waiters(me=-1_000, other=500_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=300_000),
    ),
    Case(
        "scores of nobody are cleared away",
        {TIMEOUTS: Entry("zset", {DEAD: In(70_000)}, None)},
        fair_acquire(),
        None,
        lock(me=1),
    ),
    # Queueing up.
    Case(
        "the first waits for the lock's own time, and its wait",
        lock(other=1),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=230_000) | mine(230_000),
    ),
    Case(
        "the next one for that of the one before, and its wait",
        lock(70_000, other=1) | waiters(dead=150_000),
        fair_acquire(),
        Around(70_000),
        lock(70_000, other=1) | waiters(dead=150_000, me=350_000) | mine(350_000),
    ),
    Case(
        "if that one is gone, for the longest of all",
        lock(other=1) | waiters(other=500_000, dead=-1_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(other=500_000, dead=-1_000, me=700_000) | mine(700_000),
    ),
    Case("one attempt leaves no trace", lock(other=1), fair_acquire(queue=False), Around(30_000)),
    Case(
        "a lock without an end",
        lock(None, other=1),
        fair_acquire(),
        -1,
        lock(None, other=1) | waiters(me=200_000) | mine(200_000),
    ),
    Case(
        "whoever is queued stays where it is",
        lock(other=1) | waiters(dead=50_000, me=90_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=90_000) | mine(90_000),
    ),
    Case(
        "the head is believed in for longer",
        lock(other=1) | waiters(me=50_000, dead=90_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=330_000, dead=90_000) | mine(330_000),
    ),
    Case(
        "but not for less",
        lock(other=1) | waiters(me=900_000) | alive(me=800_000),
        fair_acquire(),
        Around(30_000),
    ),
    Case(
        "half of its place is left: the list's",
        lock(other=1) | waiters(dead=50_000, me=None),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=230_000) | mine(230_000),
    ),
    # Who can be alive.
    Case(
        "a dead head is dropped, whatever its score",
        waiters(dead=700_000) | alive(dead=-1),
        fair_acquire(),
        None,
        lock(me=1),
    ),
    Case(
        "those who can be alive are not",
        waiters(dead=700_000, other=800_000, second=900_000) | alive(dead=-1, other=70_000, second=-1),
        fair_acquire(queue=False),
        Around(70_000),
        waiters(other=800_000, second=900_000) | alive(other=70_000, second=-1),
    ),
    Case(
        "nor is one of Redisson's, who does not say",
        waiters(dead=700_000, stranger=800_000) | alive(dead=-1),
        fair_acquire(queue=False),
        Around(800_000),
        waiters(stranger=800_000),
    ),
    Case(
        "a score that is over counts before what it said",
        waiters(dead=-1_000) | alive(dead=70_000),
        fair_acquire(),
        None,
        lock(me=1),
    ),
    Case(
        "the one who asks is alive",
        waiters(me=700_000, other=800_000) | alive(me=-1, other=70_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=600_000) | alive(other=70_000),
    ),
    Case(
        "what is left of an earlier wait does not count for a new one, be it longer",
        lock(other=1) | alive(me=800_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=230_000) | alive(me=100_000),
    ),
    Case(
        "or shorter",
        lock(other=1) | alive(6_000, me=-1),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=230_000) | mine(230_000),
    ),
    Case(
        "nor for one that joins an old place",
        lock(other=1) | waiters(dead=50_000, me=90_000) | alive(me=-1),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=90_000) | alive(me=100_000),
    ),
    Case(
        "whoever stands right before it may be dead, and then it has to look",
        lock(other=1) | waiters(other=500_000, stranger=700_000) | alive(other=10_000, stranger=20_000),
        fair_acquire(),
        Around(20_000),
        lock(other=1)
        | waiters(other=500_000, stranger=700_000, me=900_000)
        | alive(other=10_000, stranger=20_000, me=100_000),
    ),
    Case(
        "but not one of its own client",
        lock(other=1) | waiters(stranger=500_000, other=700_000) | alive(stranger=10_000, other=20_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1)
        | waiters(stranger=500_000, other=700_000, me=900_000)
        | alive(stranger=10_000, other=20_000, me=100_000),
    ),
    Case(
        "a lock without an end, and a dead one before it",
        lock(None, other=1) | waiters(stranger=500_000) | alive(stranger=20_000),
        fair_acquire(),
        Around(20_000),
        lock(None, other=1) | waiters(stranger=500_000, me=700_000) | alive(stranger=20_000, me=100_000),
    ),
    Case(
        "one who is in nobody's way any more is not waited for",
        lock(other=1) | waiters(other=500_000, stranger=700_000) | alive(other=10_000, stranger=-1),
        fair_acquire(),
        Around(30_000),
        lock(other=1)
        | waiters(other=500_000, stranger=700_000, me=900_000)
        | alive(other=10_000, stranger=-1, me=100_000),
    ),
    # Again, and the same request again.
    Case(
        "re-entry adds a hold",
        lock(me=1) | waiters(other=70_000),
        fair_acquire(counts=1),
        None,
        lock(me=2) | waiters(other=70_000),
    ),
    Case("re-entry does not cut", lock(90_000, me=1), fair_acquire(counts=1), None, lock(90_000, me=2)),
    Case("a hold is counted, and the lock is free", FREE, fair_acquire(counts=1), LOST),
    Case("a hold is counted, and another has it", lock(other=1), fair_acquire(counts=1), LOST),
    Case("more holds are counted than stored", lock(me=1), fair_acquire(counts=2), LOST),
    Case("residue: starts at 1", lock(me=3), fair_acquire(), None, lock(me=1)),
    Case(
        "residue, and queued: is queued no more",
        lock(me=1) | waiters(me=70_000) | alive(me=70_000),
        fair_acquire(),
        None,
        lock(me=1),
    ),
    Case("repeat: the first copy took it", lock(me=1), fair_acquire(repeat=True), None, lock(me=1)),
    Case("repeat: the first copy re-entered", lock(me=2), fair_acquire(counts=1, repeat=True), None, lock(me=2)),
    Case(
        "repeat: the first copy queued up",
        lock(other=1) | waiters(dead=50_000, me=90_000),
        fair_acquire(repeat=True),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=90_000) | mine(90_000),
    ),
    Case("an epoch is stored", FREE, fair_acquire(epoch=1), None, lock(me=1) | epoch(1)),
    Case(
        "an epoch is stored with a place",
        lock(other=1),
        fair_acquire(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1) | waiters(me=230_000) | mine(230_000),
    ),
    Case("a stale request", epoch(2), fair_acquire(epoch=1), stale(2)),
    # What should not be there.
    Case("the key is a string", text(LOCK), fair_acquire(), WRONGTYPE),
    Case("the queue is a string", text(QUEUE), fair_acquire(), WRONGTYPE),
    Case("the timeouts are a string", text(TIMEOUTS), fair_acquire(), WRONGTYPE),
    Case("the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, fair_acquire(), WRONGTYPE),
    Case("who is alive is a string: queueing up", lock(other=1) | text(ALIVE), fair_acquire(), WRONGTYPE),
    Case("who is alive is a string: in turn", waiters(me=70_000) | text(ALIVE), fair_acquire(), WRONGTYPE),
    Case("who is alive is a string: another's turn", waiters(dead=-1_000) | text(ALIVE), fair_acquire(), WRONGTYPE),
    Case("who is alive is a string: nobody asks", text(ALIVE), fair_acquire(), None, lock(me=1) | text(ALIVE)),
    # No memory left.
    Case("out of memory: not taken", FREE, fair_acquire(), OOM, out_of_memory=True),
    Case("out of memory: not queued", lock(other=1), fair_acquire(), OOM, out_of_memory=True),
    Case(
        "out of memory: the head takes it",
        waiters(me=70_000, other=500_000) | alive(me=70_000, other=80_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=300_000) | alive(other=80_000),
        out_of_memory=True,
    ),
    # Giving back.
    Case("the last hold frees it", lock(me=1), fair_release(), 1, FREE),
    Case(
        "the head is told, and nobody else",
        lock(me=1) | waiters(other=70_000, dead=90_000),
        fair_release(),
        2,
        waiters(other=70_000, dead=90_000),
        told(OTHER),
    ),
    Case(
        "those who are gone are dropped first",
        lock(me=1) | waiters(dead=-1_000, other=70_000),
        fair_release(),
        2,
        waiters(other=70_000),
        told(OTHER),
    ),
    Case(
        "so are those who cannot be alive",
        lock(me=1) | waiters(dead=600_000, second=650_000, other=700_000) | alive(dead=-1, second=-1, other=70_000),
        fair_release(),
        2,
        waiters(other=700_000) | alive(other=70_000),
        told(OTHER),
    ),
    Case(
        "one of Redisson's is told, by its score",
        lock(me=1) | waiters(dead=600_000, stranger=700_000) | alive(dead=-1),
        fair_release(),
        2,
        waiters(stranger=700_000),
        told(STRANGER),
    ),
    Case(
        "one of two", lock(me=2) | waiters(other=70_000), fair_release(counts=2), 0, lock(me=1) | waiters(other=70_000)
    ),
    Case("one of two does not cut", lock(90_000, me=2), fair_release(counts=2), 0, lock(90_000, me=1)),
    Case("a stranger", lock(other=1) | waiters(dead=70_000), fair_release(), None),
    Case(
        "the lock is gone: the head is told all the same",
        waiters(other=70_000),
        fair_release(),
        None,
        None,
        told(OTHER),
    ),
    Case("the lock is gone, and nobody waits", FREE, fair_release(), None),
    Case("giving up whatever stands there", lock(me=3), fair_release(counts=0), 1, FREE),
    Case("more holds are counted than stored", lock(me=1), fair_release(counts=2), None),
    Case("repeat: the first copy freed it", waiters(other=70_000), fair_release(repeat=True), None, None, told(OTHER)),
    Case("repeat: the first copy took one of two", lock(me=1), fair_release(counts=2, repeat=True), 0),
    Case("an epoch is stored, on giving back", lock(me=1), fair_release(epoch=1), 1, epoch(1)),
    Case("a stale giving back", epoch(2) | lock(me=1), fair_release(epoch=1), stale(2)),
    # Leaving the queue.
    Case(
        "whoever leaves takes its wait off those behind it, and off nobody else",
        lock(other=1) | waiters(dead=50_000, me=250_000, other=550_000) | alive(dead=50_000, me=1, other=70_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=350_000) | alive(dead=50_000, other=70_000),
    ),
    Case(
        "whoever stands in no queue changes nothing",
        lock(other=1) | waiters(dead=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
    ),
    Case(
        "those without a score get none",
        lock(other=1) | waiters(dead=50_000, me=250_000, other=None),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=None),
    ),
    Case(
        "the lock is free: the next one is told",
        waiters(me=50_000, other=550_000),
        fair_release(queued=200_000),
        None,
        waiters(other=350_000),
        told(OTHER),
    ),
    Case(
        "the lock was taken meanwhile: it is given back",
        lock(me=1) | waiters(other=350_000),
        fair_release(queued=200_000, epoch=1, repeat=True),
        2,
        waiters(other=350_000) | epoch(1),
        told(OTHER),
    ),
    Case("a stale leaving", epoch(2) | waiters(me=50_000), fair_release(queued=200_000, epoch=1), stale(2)),
    # What should not be there.
    Case("giving back: the key is a string", text(LOCK), fair_release(), WRONGTYPE),
    Case("giving back: the queue is a string", lock(me=2) | text(QUEUE), fair_release(counts=2), WRONGTYPE),
    Case("giving back: the timeouts are a string", lock(me=2) | text(TIMEOUTS), fair_release(counts=2), WRONGTYPE),
    Case(
        "giving back: who is alive is a string",
        lock(me=2) | waiters(other=70_000) | text(ALIVE),
        fair_release(counts=2),
        WRONGTYPE,
    ),
    Case(
        "leaving: who is alive is a string",
        lock(me=2) | text(ALIVE),
        fair_release(counts=2, queued=200_000),
        WRONGTYPE,
    ),
    # No memory left.
    Case(
        "out of memory: freed, with an epoch",
        lock(me=1) | waiters(other=70_000),
        fair_release(epoch=1),
        2,
        epoch(1) | waiters(other=70_000),
        told(OTHER),
        out_of_memory=True,
    ),
    Case("out of memory: one of two", lock(20_000, me=2), fair_release(counts=2), 0, lock(me=1), out_of_memory=True),
    Case(
        "out of memory: the queue can be left",
        lock(other=1) | waiters(me=250_000, other=550_000) | alive(me=50_000, other=70_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(other=350_000) | alive(other=70_000),
        out_of_memory=True,
    ),
    Case(
        "cluster: sharded",
        lock(me=1) | waiters(other=70_000),
        fair_release(publish="SPUBLISH"),
        2,
        waiters(other=70_000),
        told(OTHER, sharded=True),
    ),
    # Forcing it open.
    Case("forced: a free lock", waiters(other=70_000), fair_force_unlock(), None),
    Case(
        "forced: whoever holds it",
        lock(me=2) | waiters(other=70_000),
        fair_force_unlock(),
        [ME],
        waiters(other=70_000),
        told(OTHER),
    ),
    Case(
        "forced: nobody is told who cannot be alive",
        lock(me=2) | waiters(dead=600_000, stranger=700_000) | alive(dead=-1),
        fair_force_unlock(),
        [ME],
        waiters(stranger=700_000),
        told(STRANGER),
    ),
    Case(
        "forced: who is alive is a string",
        lock(me=1) | waiters(other=70_000) | text(ALIVE),
        fair_force_unlock(),
        WRONGTYPE,
    ),
    Case("forced: nobody waits", lock(me=2) | waiters(dead=-1_000), fair_force_unlock(), [ME], FREE),
    Case("forced: an epoch is stored", lock(me=1), fair_force_unlock(epoch=1), [ME], epoch(1)),
    Case("forced: a stale request", epoch(2) | lock(me=1), fair_force_unlock(epoch=1), stale(2)),
    Case("forced: the queue is a string", lock(me=1) | text(QUEUE), fair_force_unlock(), WRONGTYPE),
    Case("forced: out of memory", lock(me=1), fair_force_unlock(epoch=1), [ME], epoch(1), out_of_memory=True),
    # Looking after those who are alive.
    Case("looking after nobody", FREE, fair_look(), [-1, b""]),
    Case("a held lock", lock(other=1), fair_look(), [Around(30_000), b""]),
    Case("a lock without an end, looked after", lock(None, other=1), fair_look(), [-1, b""]),
    Case(
        "each is believed in for longer, the more so the further back it stands",
        lock(None, other=1) | waiters(dead=50_000, me=60_000, other=70_000),
        fair_look((ME, 200_000), (OTHER, 400_000)),
        [-1, b""],
        lock(None, other=1)
        | waiters(dead=50_000, me=600_000, other=1_200_000)
        | alive(1_200_000, me=100_000, other=100_000),
    ),
    Case(
        "and the longer the lock is another's",
        lock(90_000, other=1) | waiters(me=60_000),
        fair_look((ME, 200_000)),
        [Around(90_000), b""],
        lock(90_000, other=1) | waiters(me=390_000) | mine(390_000),
    ),
    Case(
        "what it said is kept as long as its score, when that is raised, too",
        lock(other=1) | waiters(me=60_000) | alive(70_000, me=500_000),
        fair_look((ME, 200_000)),
        [Around(30_000), b""],
        lock(other=1) | waiters(me=330_000) | alive(330_000, me=500_000),
    ),
    Case(
        "but never for less",
        lock(other=1) | waiters(me=900_000) | alive(me=800_000),
        fair_look((ME, 200_000)),
        [Around(30_000), b""],
    ),
    Case(
        "it is somebody's turn",
        waiters(other=70_000, me=900_000),
        fair_look((ME, 1)),
        [Around(70_000), OTHER],
        waiters(other=70_000, me=900_000) | mine(900_000),
    ),
    Case(
        "those who are gone are dropped, those who are alive are not",
        waiters(dead=-1_000, me=-1_000, other=70_000),
        fair_look((ME, 1)),
        [Around(300_000), ME],
        waiters(me=300_000, other=70_000) | mine(300_000),
    ),
    Case(
        "those who cannot be alive are dropped, those who look are not",
        waiters(dead=600_000, me=650_000, other=700_000) | alive(dead=-1, me=-1, other=-1),
        fair_look((ME, 1)),
        [Around(650_000), ME],
        waiters(me=650_000, other=700_000) | alive(me=100_000, other=-1),
    ),
    Case(
        "those of Redisson's are believed in by their score",
        waiters(dead=600_000, stranger=650_000, me=700_000) | alive(dead=-1, me=300_000),
        fair_look((ME, 1)),
        [Around(650_000), STRANGER],
        waiters(stranger=650_000, me=700_000) | alive(me=300_000),
    ),
    Case(
        "when the head's time is over it is another's turn",
        waiters(stranger=650_000, me=700_000) | alive(stranger=20_000, me=300_000),
        fair_look((ME, 1)),
        [Around(20_000), STRANGER],
    ),
    Case(
        "those who can be dead are looked for, where they stand right before one of this client",
        lock(70_000, other=1)
        | waiters(stranger=500_000, me=900_000, second=650_000, other=700_000)
        | alive(stranger=30_000, me=300_000, second=20_000, other=400_000),
        fair_look((ME, 1)),
        [Around(20_000), b""],
    ),
    Case(
        "the others are for others to look for",
        lock(70_000, other=1)
        | waiters(second=500_000, stranger=600_000, me=990_000, other=700_000)
        | alive(second=10_000, stranger=300_000, me=500_000, other=20_000),
        fair_look((ME, 1)),
        [Around(70_000), b""],
    ),
    Case(
        "unless those between are gone",
        lock(70_000, other=1)
        | waiters(second=500_000, stranger=600_000, me=990_000)
        | alive(second=10_000, stranger=-1, me=500_000),
        fair_look((ME, 1)),
        [Around(10_000), b""],
    ),
    Case(
        "a lock without an end, and one who may be dead",
        lock(None, other=1) | waiters(stranger=600_000, me=650_000) | alive(stranger=20_000, me=500_000),
        fair_look((ME, 1)),
        [Around(20_000), b""],
    ),
    Case(
        "what it said ends with its score, not before",
        lock(other=1) | waiters(me=600_000) | alive(10_000, me=5_000),
        fair_look((ME, 1)),
        [Around(30_000), b""],
        lock(other=1) | waiters(me=600_000) | mine(600_000),
    ),
    Case("looking: who is alive is a string", waiters(dead=-1_000) | text(ALIVE), fair_look(), WRONGTYPE),
    Case(
        "out of memory: nobody is looked after",
        lock(other=1) | waiters(me=60_000),
        fair_look((ME, 200_000)),
        OOM,
        out_of_memory=True,
    ),
    Case("who does not stand in the queue is told", FREE, fair_look((ME, 1), (OTHER, 1)), [-1, b"", ME, OTHER]),
    Case("nor does who has no score", waiters(me=None), fair_look((ME, 1)), [-1, b"", ME], FREE),
    Case("looking: the queue is a string", text(QUEUE), fair_look(), WRONGTYPE),
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
    return Call("read_lock_acquire", (LOCK, EPOCH, hold), (ME, epoch, int(repeat), lease, counts))


def end_read(
    *, lease: int = 30_000, counts: int = 1, epoch: int = 0, repeat: bool = False, publish: str = "PUBLISH"
) -> Call:
    (hold,) = read_hold(ME, max(counts, 1))
    return Call(
        "read_lock_release",
        (LOCK, EPOCH, RW_CHANNEL, hold),
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
        (LOCK, WRITER_EPOCH, RW_CHANNEL),
        (WRITER, epoch, int(repeat), lease, counts, publish, "1"),
    )


def force(side: str, *, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    message = "1" if side == "write" else "0"
    return Call("read_write_lock_force_unlock", (LOCK, EPOCH, RW_CHANNEL), (ME, epoch, 0, publish, message, side))


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
    Case("a lock that is gone: those who wait are told", FREE, end_read(), None, FREE, READ_ENDED),
    Case("a lock that is gone, and nobody is to be told", FREE, end_read(publish=""), None),
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
    Case("a lock that is gone: those who wait are told", FREE, end_write(), None, FREE, WRITE_ENDED),
    Case("a lock that is gone, and nobody is to be told", FREE, end_write(publish=""), None),
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


# ---- semaphores and latches: requests with a number ------------------------------------------------------------------

DONE: Final = b"pyredisson_done:{orders}:" + ME
TAKEN: Final = b"{orders}:timeout"
PERMITS: Final = b"redisson_sc:{orders}"
GATE: Final = b"redisson_countdownlatch__channel__{orders}"
PERMIT: Final = bytes(range(16))
PERMIT_2: Final = b"\xff" * 16
NEVER_MS: Final = 922337203685477


def permits(count: int | str, ttl_ms: int | None = None) -> State:
    """A semaphore (or a latch, with its count)."""
    return {LOCK: Entry("string", str(count).encode(), ttl_ms)}


def taken(*members: tuple[bytes, float], ttl_ms: int | None = None) -> State:
    """The permits taken of an expirable one, and when they expire."""
    return {TAKEN: Entry("zset", dict(members), ttl_ms)}


def done(number: int | str, outcome: int | str = "", ttl_ms: int | None = 60_000) -> State:
    """The record of my last request."""
    return {DONE: Entry("string", f"{number} {outcome}".strip().encode(), ttl_ms)}


def told(*payloads: int, channel: bytes = PERMITS) -> list[Message]:
    return [Message(channel, b"%d" % payload, sharded=False) for payload in payloads]


def set_counter(value: int, *, number: int = 5, message: int | None = None, channel: bytes = PERMITS) -> Call:
    said = value if message is None else message
    return Call("counter_set", (LOCK, DONE, channel), (number, value, "PUBLISH", said))


def take_permits(count: int = 1, *, number: int = 5) -> Call:
    return Call("semaphore_acquire", (LOCK, DONE), (number, count))


def give_permits(count: int = 1, *, number: int = 5, publish: str = "PUBLISH") -> Call:
    return Call("semaphore_release", (LOCK, DONE, PERMITS), (number, count, publish))


def add_permits(count: int, *, number: int = 5) -> Call:
    return Call("semaphore_add", (LOCK, DONE, PERMITS), (number, count, "PUBLISH"))


def drain(*, number: int = 5) -> Call:
    return Call("semaphore_drain", (LOCK, DONE), (number,))


def undo(undone: int = 5, *, number: int = 6) -> Call:
    return Call("semaphore_undo", (LOCK, DONE, PERMITS), (number, undone, "PUBLISH"))


def take_permit(permit: bytes = PERMIT, *, lease: int = -1, number: int = 5) -> Call:
    return Call("permit_acquire", (LOCK, DONE, PERMITS, TAKEN), (number, permit, "PUBLISH", lease))


def give_permit(permit: bytes = PERMIT, *, number: int = 5) -> Call:
    return Call("permit_release", (LOCK, DONE, PERMITS, TAKEN), (number, permit, "PUBLISH"))


def lease_permit(permit: bytes = PERMIT, *, lease: int = -1, number: int = 5) -> Call:
    return Call("permit_lease", (LOCK, DONE, PERMITS, TAKEN), (number, permit, "PUBLISH", lease))


def renew_permits(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("permit_renew", tuple(key for key, _ in held), (lease, *(permit for _, permit in held)))


def count_permits() -> Call:
    return Call("permit_count", (LOCK, TAKEN, PERMITS), ("PUBLISH",))


def set_permits(count: int, *, number: int = 5) -> Call:
    return Call("permit_set", (LOCK, DONE, PERMITS, TAKEN), (number, count, "PUBLISH"))


def add_expirable(count: int, *, number: int = 5) -> Call:
    return Call("permit_add", (LOCK, DONE, PERMITS), (number, count, "PUBLISH"))


def count_down(*, number: int = 5) -> Call:
    return Call("latch_count_down", (LOCK, DONE, GATE), (number, 0, "PUBLISH"))


NOT_AN_INTEGER: Final = ServerError("ERR", "value is not an integer or out of range")
EXPIRED: Final = (PERMIT, 1000.0)
ENDLESS: Final = (PERMIT, float(NEVER_MS))

#: Each with a state that would let it do something.
NUMBERED: Final[list[tuple[State, Callable[..., Call]]]] = [
    (FREE, lambda number: set_counter(3, number=number)),
    (permits(3), lambda number: take_permits(number=number)),
    (permits(3), lambda number: give_permits(number=number)),
    (permits(3), lambda number: add_permits(2, number=number)),
    (permits(3), lambda number: drain(number=number)),
    (permits(3), lambda number: undo(4, number=number)),
    (permits(3), lambda number: take_permit(number=number)),
    (permits(3) | taken(ENDLESS), lambda number: give_permit(number=number)),
    (permits(3) | taken(ENDLESS), lambda number: lease_permit(lease=60_000, number=number)),
    (permits(3), lambda number: set_permits(4, number=number)),
    (permits(3), lambda number: add_expirable(2, number=number)),
    (permits(3), lambda number: count_down(number=number)),
]


def answered(call: Call, outcome: int) -> Any:
    """The reply that says so."""
    return {"semaphore_acquire": [outcome, 0], "permit_acquire": [outcome, 0, 0]}.get(call.script, outcome)


#: What is the same for all that have a number.
NUMBERS: Final = [
    case
    for state, make in NUMBERED
    for case in (
        Case(
            "a repeat is told what was", state | done(5, 7, 20_000), make(5), answered(make(5), 7), state | done(5, 7)
        ),
        Case("a repeat of a refused one", state | done(5, 0), make(5), answered(make(5), 0)),
        Case("an older one is stale", state | done(6, 1, 20_000), make(5), [b"stale", b"6"]),
        Case("numbers are numbers", state | done(10, 1), make(9), [b"stale", b"10"]),
        Case("the record is no string", state | {DONE: Entry("list", [ME], None)}, make(5), WRONGTYPE),
        Case(
            "out of memory: a repeat",
            state | done(5, 1, 20_000),
            make(5),
            answered(make(5), 1),
            state | done(5, 1),
            out_of_memory=True,
        ),
    )
]

COUNTERS: Final = [
    Case("set", FREE, set_counter(3), 1, permits(3) | done(5, 1), told(3)),
    Case("set, and the record replaced", done(4, 1, 20_000), set_counter(3), 1, permits(3) | done(5, 1), told(3)),
    Case("set to nothing", FREE, set_counter(0), 1, permits(0) | done(5, 1), told(0)),
    Case("there was one", permits(0), set_counter(3), 0, permits(0) | done(5, 0)),
    Case(
        "a latch closes",
        FREE,
        set_counter(3, message=1, channel=GATE),
        1,
        permits(3) | done(5, 1),
        told(1, channel=GATE),
    ),
    Case("the key is a hash", lock(me=1), set_counter(3), WRONGTYPE),
    Case("out of memory: not set", FREE, set_counter(3), OOM, messages=told(3), out_of_memory=True),
    Case("out of memory: there was one", permits(1), set_counter(3), 0, permits(1) | done(5, 0), out_of_memory=True),
    # Latches.
    Case("counts down", permits(2), count_down(), 1, permits(1) | done(5, 1)),
    Case("keeps the time", permits(2, 90_000), count_down(), 1, permits(1, 90_000) | done(5, 1)),
    Case("opens", permits(1), count_down(), 1, done(5, 1), told(0, channel=GATE)),
    Case("a count of nothing goes", permits(0), count_down(), 1, done(5, 1)),
    Case("a count below nothing goes", permits(-3), count_down(), 1, done(5, 1)),
    Case("there is none", FREE, count_down(), 1, done(5, 1)),
    Case("the count is no number", permits("x"), count_down(), NOT_AN_INTEGER),
    Case("the latch is a hash", lock(me=1), count_down(), WRONGTYPE),
    Case("out of memory: counts down", permits(2), count_down(), 1, permits(1) | done(5, 1), out_of_memory=True),
    Case("out of memory: opens", permits(1), count_down(), 1, done(5, 1), told(0, channel=GATE), out_of_memory=True),
]

SEMAPHORE: Final = [
    Case("takes", permits(3), take_permits(), [1, 2], permits(2) | done(5, 1)),
    Case("takes all", permits(3), take_permits(3), [3, 0], permits(0) | done(5, 3)),
    Case("keeps the time", permits(3, 90_000), take_permits(), [1, 2], permits(2, 90_000) | done(5, 1)),
    Case("takes none of too few", permits(3), take_permits(4), [0, 3], permits(3) | done(5, 0)),
    Case("takes none of a debt", permits(-2), take_permits(), [0, -2], permits(-2) | done(5, 0)),
    Case("there is no semaphore", FREE, take_permits(), [0, None], done(5, 0)),
    Case("a broken record is replaced", permits(3) | done("x"), take_permits(), [1, 2], permits(2) | done(5, 1)),
    Case("what stands there is no number", permits("x"), take_permits(), NOT_AN_INTEGER),
    Case("the key is a hash", lock(me=1), take_permits(), WRONGTYPE),
    Case("out of memory: not taken", permits(3), take_permits(), OOM, out_of_memory=True),
    Case("out of memory: refused", permits(0), take_permits(), [0, 0], permits(0) | done(5, 0), out_of_memory=True),
    # Giving back.
    Case("gives back", permits(2), give_permits(), 1, permits(3) | done(5, 1), told(3)),
    Case("gives many back", permits(-7), give_permits(5), 1, permits(-2) | done(5, 1), told(-2)),
    Case("keeps the time", permits(2, 90_000), give_permits(), 1, permits(3, 90_000) | done(5, 1), told(3)),
    Case("makes a semaphore", FREE, give_permits(2), 1, permits(2) | done(5, 1), told(2)),
    Case("the key is a hash", lock(me=1), give_permits(), WRONGTYPE),
    Case(
        "out of memory: gives back", permits(2), give_permits(), 1, permits(3) | done(5, 1), told(3), out_of_memory=True
    ),
    Case(
        "cluster: sharded",
        permits(2),
        give_permits(publish="SPUBLISH"),
        1,
        permits(3) | done(5, 1),
        [Message(PERMITS, b"3", sharded=True)],
    ),
    # Adding.
    Case("adds", permits(2), add_permits(3), 1, permits(5) | done(5, 1), told(5)),
    Case("takes away", permits(2), add_permits(-9), 1, permits(-7) | done(5, 1), told(-7)),
    Case("adds nothing", FREE, add_permits(0), 1, permits(0) | done(5, 1), told(0)),
    Case("ends the time", permits(2, 90_000), add_permits(3), 1, permits(5) | done(5, 1), told(5)),
    Case("the key is a hash", lock(me=1), add_permits(1), WRONGTYPE),
    # Draining.
    Case("drains", permits(3), drain(), 3, permits(0) | done(5, 3)),
    Case("drains, and ends the time", permits(3, 90_000), drain(), 3, permits(0) | done(5, 3)),
    Case("forgives a debt", permits(-3), drain(), -3, permits(0) | done(5, -3)),
    Case("drains nothing", FREE, drain(), 0, done(5, 0)),
    Case("what stands there is no number", permits("x"), drain(), NOT_AN_INTEGER),
    Case("the key is a hash", lock(me=1), drain(), WRONGTYPE),
    Case("out of memory: not drained", permits(3), drain(), OOM, out_of_memory=True),
    # Undoing.
    Case("gives back what was taken", permits(1) | done(5, 2), undo(), 2, permits(3) | done(6, 2), told(3)),
    Case("restores a debt", permits(0) | done(5, -3), undo(), -3, permits(-3) | done(6, -3), told(-3)),
    Case("it was refused", permits(1) | done(5, 0), undo(), 0, permits(1) | done(6, 0)),
    Case("it was never executed", permits(1), undo(), 0, permits(1) | done(6, 0)),
    Case("it was never executed, an earlier one was", permits(1) | done(4, 1), undo(), 0, permits(1) | done(6, 0)),
    Case("the semaphore is gone", done(5, 2), undo(), 0, done(6, 0)),
    Case("the key is a hash", lock(me=1) | done(5, 2), undo(), WRONGTYPE),
    Case(
        "out of memory: gives back",
        permits(1) | done(5, 2),
        undo(),
        2,
        permits(3) | done(6, 2),
        told(3),
        out_of_memory=True,
    ),
]

PERMIT_SEMAPHORE: Final = [
    Case("takes", permits(3), take_permit(), [1, 2, -1], permits(2) | taken(ENDLESS) | done(5, 1)),
    Case(
        "takes for longer than there is time",
        permits(3),
        take_permit(lease=10**15),
        [1, 2, -1],
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case(
        "keeps the time for both keys",
        permits(3, 90_000),
        take_permit(),
        [1, 2, -1],
        permits(2, 90_000) | taken(ENDLESS, ttl_ms=90_000) | done(5, 1),
    ),
    Case(
        "takes none",
        permits(0) | taken(ENDLESS),
        take_permit(PERMIT_2),
        [0, 0, -1],
        permits(0) | taken(ENDLESS) | done(5, 0),
    ),
    Case("takes none of a debt", permits(-2), take_permit(), [0, -2, -1], permits(-2) | done(5, 0)),
    Case("there is no semaphore", FREE, take_permit(), [0, None, -1], done(5, 0)),
    Case(
        "takes one that expired",
        permits(0) | taken(EXPIRED),
        take_permit(PERMIT_2),
        [1, 0, -1],
        permits(0) | taken((PERMIT_2, NEVER_MS)) | done(5, 1),
        told(1),
    ),
    Case(
        "one that expired pays a debt",
        permits(-1) | taken(EXPIRED, (PERMIT_2, 2000.0)),
        take_permit(b"x" * 16),
        [0, 0, 0],
        permits(0) | taken((PERMIT_2, 2000.0)) | done(5, 0),
    ),
    Case(
        "a repeat that is told by its id",
        permits(2) | taken(ENDLESS),
        take_permit(),
        [1, 2, -1],
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case("what stands there is no number", permits("x"), take_permit(), NOT_AN_INTEGER),
    Case("the key is a hash", lock(me=1), take_permit(), WRONGTYPE),
    Case("out of memory: not taken", permits(3), take_permit(), OOM, out_of_memory=True),
    Case("out of memory: refused", permits(0), take_permit(), [0, 0, -1], permits(0) | done(5, 0), out_of_memory=True),
    # Giving back.
    Case("gives back", permits(2) | taken(ENDLESS), give_permit(), 1, permits(3) | done(5, 1), told(3)),
    Case(
        "gives one of two back",
        permits(0) | taken(ENDLESS, (PERMIT_2, NEVER_MS)),
        give_permit(),
        1,
        permits(1) | taken((PERMIT_2, NEVER_MS)) | done(5, 1),
        told(1),
    ),
    Case("too late", permits(2) | taken(EXPIRED), give_permit(), 0, permits(3) | done(5, 0), told(3)),
    Case("unknown", permits(2), give_permit(), 0, permits(2) | done(5, 0)),
    Case("the semaphore is gone", taken(ENDLESS), give_permit(), 1, permits(1) | done(5, 1), told(1)),
    Case("the key is a hash", lock(me=1) | taken(ENDLESS), give_permit(), WRONGTYPE),
    Case(
        "out of memory: gives back",
        permits(2) | taken(ENDLESS),
        give_permit(),
        1,
        permits(3) | done(5, 1),
        told(3),
        out_of_memory=True,
    ),
    # Another lease.
    Case("for ever", permits(2) | taken((PERMIT, 9e14)), lease_permit(), 1, permits(2) | taken(ENDLESS) | done(5, 1)),
    Case("unknown", permits(2), lease_permit(), 0, permits(2) | done(5, 0)),
    Case("too late", permits(2) | taken(EXPIRED), lease_permit(), 0, permits(3) | done(5, 0), told(3)),
    Case(
        "out of memory: for ever",
        permits(2) | taken((PERMIT, 9e14)),
        lease_permit(),
        1,
        permits(2) | taken(ENDLESS) | done(5, 1),
        out_of_memory=True,
    ),
    # Renewal.
    Case("nothing to renew", FREE, renew_permits(), []),
    Case("does not cut", permits(2) | taken(ENDLESS), renew_permits((TAKEN, PERMIT)), [1]),
    Case("not one that is unknown", permits(2) | taken(ENDLESS), renew_permits((TAKEN, PERMIT_2)), [0]),
    Case("not one that has expired", permits(2) | taken(EXPIRED), renew_permits((TAKEN, PERMIT)), [0]),
    Case(
        "a key of another type hurts none of the others",
        lock(me=1) | taken(ENDLESS),
        renew_permits((LOCK, PERMIT), (TAKEN, PERMIT), (b"gone", PERMIT)),
        [0, 1, 0],
    ),
    # Counting.
    Case("there is no semaphore", FREE, count_permits(), [None, 0]),
    Case("counts", permits(2) | taken(ENDLESS), count_permits(), [b"2", 1]),
    Case(
        "counts what expired as available", permits(2) | taken(EXPIRED), count_permits(), [b"3", 0], permits(3), told(3)
    ),
    Case("nobody is told of less than a permit", permits(-1) | taken(EXPIRED), count_permits(), [b"0", 0], permits(0)),
    Case(
        "out of memory: counts what expired as available",
        permits(2) | taken(EXPIRED),
        count_permits(),
        [b"3", 0],
        permits(3),
        told(3),
        out_of_memory=True,
    ),
    # Setting and adding.
    Case("sets the first", FREE, set_permits(3), 1, permits(3) | done(5, 1), told(3)),
    Case(
        "sets more", permits(1) | taken(ENDLESS), set_permits(5), 1, permits(4) | taken(ENDLESS) | done(5, 1), told(5)
    ),
    Case(
        "sets fewer than are taken",
        permits(1) | taken(ENDLESS),
        set_permits(0),
        1,
        permits(-1) | taken(ENDLESS) | done(5, 1),
        told(0),
    ),
    Case("sets the same", permits(1) | taken(ENDLESS), set_permits(2), 1, permits(1) | taken(ENDLESS) | done(5, 1)),
    Case("keeps the time", permits(1, 90_000), set_permits(2), 1, permits(2, 90_000) | done(5, 1), told(2)),
    Case("the key is a hash", lock(me=1), set_permits(3), WRONGTYPE),
    Case("adds", permits(2), add_expirable(3), 1, permits(5) | done(5, 1), told(3)),
    Case("adds the first", FREE, add_expirable(3), 1, permits(3) | done(5, 1), told(3)),
    Case("takes away", permits(2), add_expirable(-9), 1, permits(-7) | done(5, 1)),
    Case("adds nothing", FREE, add_expirable(0), 1, permits(0) | done(5, 1)),
    Case("ends the time", permits(2, 90_000), add_expirable(1), 1, permits(3) | done(5, 1), told(1)),
    Case("the key is a hash", lock(me=1), add_expirable(3), WRONGTYPE),
]

NUMBERED_CASES: Final = [*NUMBERS, *COUNTERS, *SEMAPHORE, *PERMIT_SEMAPHORE]

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
    return Call("token_acquire", (LOCK, TOKEN_EPOCH), (token, epoch, int(repeat), lease, former))


def token_release(token: bytes = MINE, *, lease: int = 30_000, epoch: int = 0) -> Call:
    return Call("token_release", (LOCK, TOKEN_EPOCH), (token, epoch, 0, lease))


def token_force(*, epoch: int = 0) -> Call:
    return Call("token_force_unlock", (LOCK, TOKEN_EPOCH), (ME, epoch, 0))


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
    *ACQUIRE,
    *FENCED,
    *RELEASE,
    *FORCE_UNLOCK,
    *FAIR,
    *RENEW,
    *READ_WRITE,
    *NUMBERED_CASES,
    *FENCES,
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
            open_[build].hear_shards([CHANNEL, RW_CHANNEL])
            open_[build].hear_shards([CHANNEL, PERMITS])
            open_[build].hear_shards([CHANNEL, *(CHANNEL + b":" + owner for owner in (ME, OTHER, DEAD))])
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
            case dict() as fields:
                now = now_ms(twin)
                for field, value in fields.items():
                    meant = f"{now + value:.0f}" if isinstance(value, In) else value
                    if entry.type == "zset":
                        twin.call("ZADD", key, str(meant), field)
                    else:
                        twin.call("HSET", key, field, meant)
        if entry.ttl_ms is not None:
            twin.call("PEXPIRE", key, entry.ttl_ms)


def now_ms(twin: Twin) -> int:
    return microseconds(twin.call("TIME")) // 1000


def run(twin: Twin, call: Call) -> Any:
    return twin.call("EVAL", SCRIPTS[call.script], len(call.keys), *call.keys, *call.args)


def check_reply(twin: Twin, reply: Any, expected: Any) -> None:
    if isinstance(expected, Around):
        assert isinstance(reply, int)
        assert expected - TOLERANCE_MS <= reply <= expected
    elif isinstance(expected, ServerError):
        assert isinstance(reply, ServerError), reply
        assert comparable(reply, twin.version).startswith(str(expected))
    elif isinstance(expected, list) and isinstance(reply, list):
        assert len(reply) == len(expected), reply
        for each, meant in zip(reply, expected, strict=True):
            check_reply(twin, each, meant)
    else:
        assert reply == expected


def without_times(state: State) -> State:
    """The same with what changes with the clock taken out: TTLs, the values of scores, and of fields that are times."""
    return {
        key: each._replace(ttl_ms=None, value=set(each.value) if each.type == "zset" or key == ALIVE else each.value)
        for key, each in state.items()
    }


def check_state(twin: Twin, expected: State) -> None:
    found = twin.state()
    assert without_times(found) == without_times(expected)
    now = now_ms(twin)
    for key, each in expected.items():
        if each.type == "zset" or (key == ALIVE and each.type == "hash"):
            for member, score in each.value.items():
                meant = score + now if isinstance(score, In) else score
                is_now = float(found[key].value[member])
                assert meant - TOLERANCE_MS <= is_now <= meant + 1, (key, member, score)
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


def test_a_permit_expires_by_the_servers_clock(twin: Twin) -> None:
    def now_ms() -> int:
        return int(twin.call("TIME")[0]) * 1000

    store(twin, permits(2))
    reply = run(twin, take_permit(lease=90_000))
    assert reply[:2] == [1, 1]
    assert 85_000 < reply[2] <= 90_000
    [(permit, ends)] = twin.state()[TAKEN].value.items()
    assert permit == PERMIT
    assert abs(ends - now_ms() - 90_000) < TOLERANCE_MS
    assert run(twin, lease_permit(lease=30_000, number=6)) == 1
    reply = run(twin, take_permit(PERMIT_2, number=7))
    assert reply[:2] == [1, 0]
    assert 25_000 < reply[2] <= 30_000
    reply = run(twin, take_permit(b"x" * 16, number=8))
    assert reply[:2] == [0, 0]
    assert 25_000 < reply[2] <= 30_000


@pytest.mark.parametrize("full", [False, True], ids=["", "out of memory"])
def test_permits_are_renewed_by_the_servers_clock(twin: Twin, full: bool) -> None:
    store(twin, permits(2))
    assert run(twin, take_permit(lease=20_000))[0] == 1
    assert run(twin, take_permit(PERMIT_2, lease=90_000, number=6))[0] == 1
    before = twin.state()[TAKEN].value
    twin.out_of_memory(full)
    assert run(twin, renew_permits((TAKEN, PERMIT), (TAKEN, PERMIT_2))) == [1, 1]
    twin.out_of_memory(False)
    after = twin.state()[TAKEN].value
    assert abs(after[PERMIT] - before[PERMIT] - 10_000) < TOLERANCE_MS
    assert after[PERMIT_2] == before[PERMIT_2]


def test_what_was_recorded_is_forgotten(twin: Twin) -> None:
    store(twin, permits(2))
    assert run(twin, take_permits()) == [1, 1]
    assert run(twin, take_permits()) == [1, 0]
    twin.expire(DONE)
    assert run(twin, take_permits()) == [1, 0]
    check_state(twin, permits(0) | done(5, 1))


@pytest.mark.parametrize("call", [count_permits(), lease_permit(b"x" * 16)], ids=lambda call: call.script)
def test_any_number_of_permits_may_expire_at_once(twin: Twin, call: Call) -> None:
    store(twin, permits(0))
    for start in range(0, 20_000, 1000):
        words = itertools.chain(*((1 + number, b"%016d" % number) for number in range(start, start + 1000)))
        twin.call("ZADD", TAKEN, *words)
    run(twin, call)
    assert twin.state()[LOCK].value == b"20000"
    assert TAKEN not in twin.state()
    assert twin.messages() == told(20_000)


def test_a_token_lock_is_extended_to_a_moment(twin: Twin) -> None:
    def extend(until: int) -> tuple[int, int]:
        now, ends = run(twin, Call("token_extend", (LOCK,), (MINE, until)))
        return now, ends

    store(twin, held_by(MINE, 30_000))
    now, ends = extend(0)
    check_reply(twin, ends - now, Around(30_000))
    for _ in range(2):  # Sent twice, it counts once.
        later, prolonged = extend(ends + 60_000)
        assert abs(prolonged - ends - 60_000) < TOLERANCE_MS
        check_reply(twin, prolonged - later, Around(90_000))
    assert abs(extend(ends)[1] - prolonged) < TOLERANCE_MS, "no time is cut short"
    assert abs(extend(1)[1] - prolonged) < TOLERANCE_MS
    check_state(twin, held_by(MINE, 90_000))
    twin.call("PERSIST", LOCK)
    now, ends = extend(0)
    assert ends == -1
    twin.out_of_memory(True)
    extend(now + 50_000)
    twin.out_of_memory(False)
    check_state(twin, held_by(MINE, 50_000))
