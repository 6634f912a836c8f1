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
from tests.lua.twins import Message, Model, RealServer, comparable, microseconds
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

# ---- fair locks

QUEUE: Final = b"redisson_lock_queue:{orders}"
TIMEOUTS: Final = b"redisson_lock_timeout:{orders}"
DEAD: Final = f"{CLIENT}:11".encode()


class In(float):
    """A score: so many milliseconds from now."""


def waiters(**waits: float | None) -> State:
    """The queue, in order: for how many ms from now each is believed in; ``None``: without a score."""
    owners = {"me": ME, "other": OTHER, "dead": DEAD}
    scores = {owners[who]: In(wait) for who, wait in waits.items() if wait is not None}
    state = {QUEUE: Entry("list", [owners[who] for who in waits], None)}
    return state | ({TIMEOUTS: Entry("zset", scores, None)} if scores else {})


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
) -> Call:
    return Call(
        "fair_acquire",
        (LOCK, EPOCH, QUEUE, TIMEOUTS),
        (lease, owner, counts, epoch, int(repeat), wait, least, int(queue)),
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
        (LOCK, CHANNEL, EPOCH, QUEUE, TIMEOUTS),
        ("0", lease, owner, counts, epoch, int(repeat), publish, queued),
    )


def fair_force_unlock(*, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    return Call("fair_force_unlock", (LOCK, CHANNEL, EPOCH, QUEUE, TIMEOUTS), ("0", epoch, publish))


def fair_look(*living: tuple[bytes, int], least: int = 300_000) -> Call:
    return Call("fair_look", (LOCK, QUEUE, TIMEOUTS), (least, *(word for each in living for word in each)))


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
        waiters(other=70_000, me=270_000),
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
        lock(other=1) | waiters(me=230_000),
    ),
    Case(
        "the next one for that of the one before, and its wait",
        lock(70_000, other=1) | waiters(dead=150_000),
        fair_acquire(),
        Around(70_000),
        lock(70_000, other=1) | waiters(dead=150_000, me=350_000),
    ),
    Case(
        "if that one is gone, for the longest of all",
        lock(other=1) | waiters(other=500_000, dead=-1_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(other=500_000, dead=-1_000, me=700_000),
    ),
    Case("one attempt leaves no trace", lock(other=1), fair_acquire(queue=False), Around(30_000)),
    Case("a lock without an end", lock(None, other=1), fair_acquire(), -1, lock(None, other=1) | waiters(me=200_000)),
    Case(
        "whoever is queued stays where it is",
        lock(other=1) | waiters(dead=50_000, me=90_000),
        fair_acquire(),
        Around(30_000),
    ),
    Case(
        "the head is believed in for longer",
        lock(other=1) | waiters(me=50_000, dead=90_000),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(me=330_000, dead=90_000),
    ),
    Case("but not for less", lock(other=1) | waiters(me=900_000), fair_acquire(), Around(30_000)),
    Case(
        "half of its place is left: the list's",
        lock(other=1) | waiters(dead=50_000, me=None),
        fair_acquire(),
        Around(30_000),
        lock(other=1) | waiters(dead=50_000, me=230_000),
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
        lock(me=1) | waiters(me=70_000),
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
    ),
    Case("an epoch is stored", FREE, fair_acquire(epoch=1), None, lock(me=1) | epoch(1)),
    Case(
        "an epoch is stored with a place",
        lock(other=1),
        fair_acquire(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1) | waiters(me=230_000),
    ),
    Case("a stale request", epoch(2), fair_acquire(epoch=1), stale(2)),
    # What should not be there.
    Case("the key is a string", text(LOCK), fair_acquire(), WRONGTYPE),
    Case("the queue is a string", text(QUEUE), fair_acquire(), WRONGTYPE),
    Case("the timeouts are a string", text(TIMEOUTS), fair_acquire(), WRONGTYPE),
    Case("the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, fair_acquire(), WRONGTYPE),
    # No memory left.
    Case("out of memory: not taken", FREE, fair_acquire(), OOM, out_of_memory=True),
    Case("out of memory: not queued", lock(other=1), fair_acquire(), OOM, out_of_memory=True),
    Case(
        "out of memory: the head takes it",
        waiters(me=70_000, other=500_000),
        fair_acquire(),
        None,
        lock(me=1) | waiters(other=300_000),
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
        lock(other=1) | waiters(dead=50_000, me=250_000, other=550_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(dead=50_000, other=350_000),
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
        lock(other=1) | waiters(me=250_000, other=550_000),
        fair_release(queued=200_000),
        None,
        lock(other=1) | waiters(other=350_000),
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
        lock(None, other=1) | waiters(dead=50_000, me=600_000, other=1_200_000),
    ),
    Case(
        "and the longer the lock is another's",
        lock(90_000, other=1) | waiters(me=60_000),
        fair_look((ME, 200_000)),
        [Around(90_000), b""],
        lock(90_000, other=1) | waiters(me=390_000),
    ),
    Case("but never for less", lock(other=1) | waiters(me=900_000), fair_look((ME, 200_000)), [Around(30_000), b""]),
    Case("it is somebody's turn", waiters(other=70_000, me=900_000), fair_look((ME, 1)), [Around(70_000), OTHER]),
    Case(
        "those who are gone are dropped, those who are alive are not",
        waiters(dead=-1_000, me=-1_000, other=70_000),
        fair_look((ME, 1)),
        [Around(300_000), ME],
        waiters(me=300_000, other=70_000),
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

CASES: Final = [*ACQUIRE, *RELEASE, *FORCE_UNLOCK, *FAIR, *RENEW]

Twin: TypeAlias = "Model | RealServer"


@pytest.fixture(scope="module")
def real_servers() -> Iterator[Callable[[Build], RealServer]]:
    """Servers of this file's own, because it empties them and takes their memory."""
    servers = SharedServers()
    open_: dict[Build, RealServer] = {}

    def get(build: Build) -> RealServer:
        if build not in open_:
            open_[build] = RealServer(servers.get(build))
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
            case dict() as scores if entry.type == "zset":
                now = now_ms(twin)
                for member, score in scores.items():
                    twin.call("ZADD", key, f"{now + score:.0f}" if isinstance(score, In) else str(score), member)
            case dict() as fields:
                twin.call("HSET", key, *itertools.chain(*fields.items()))
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
    """The same with what changes with the clock taken out: TTLs, and the values of scores."""
    return {
        key: each._replace(ttl_ms=None, value=set(each.value) if each.type == "zset" else each.value)
        for key, each in state.items()
    }


def check_state(twin: Twin, expected: State) -> None:
    found = twin.state()
    assert without_times(found) == without_times(expected)
    now = now_ms(twin)
    for key, each in expected.items():
        if each.type == "zset":
            for member, score in each.value.items():
                meant = score + now if isinstance(score, In) else score
                assert meant - TOLERANCE_MS <= found[key].value[member] <= meant + 1, (key, member, score)
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
