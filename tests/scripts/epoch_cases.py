"""What is the same for all scripts of locks whose requests have an epoch: late copies of older requests are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.scripts.compared_servers import Message
from tests.scripts.fair_lock_cases import fair_acquire, fair_force_unlock, fair_release, sends, waiters
from tests.scripts.fenced_cases import fenced, taken, token
from tests.scripts.harness import (
    EPOCH,
    FREE,
    FREED,
    LOCK,
    ME,
    OOM,
    OTHER,
    RELEASED,
    WRONGTYPE,
    Around,
    Call,
    Case,
    State,
    lock,
    stale,
)
from tests.scripts.lock_cases import acquire, force_unlock, release
from tests.scripts.read_write_lock_cases import (
    READ_ENDED,
    WRITE_ENDED,
    WRITER_EPOCH,
    end_read,
    end_write,
    force,
    mine,
    read,
    rw,
    write,
)
from tests.scripts.token_cases import MINE, THEIRS, TOKEN_EPOCH, held_by, token_acquire, token_force, token_release
from tests.simulated.engine.redis import Entry


@dataclass(frozen=True)
class Guarded:
    """A script, and a state in which it does something.

    Attributes:
        refused: A state in which an acquire is refused for 30 s.
        key: Where its epoch is stored.
    """

    call: Callable[..., Call]
    before: State
    reply: Any
    after: State
    messages: Sequence[Message] = ()
    key: bytes = EPOCH
    refused: State = field(default_factory=dict)


WAITER: Final = waiters(other=70_000)
ACQUIRES: Final = [
    Guarded(acquire, FREE, None, lock(me=1), refused=lock(other=1)),
    Guarded(fenced, FREE, taken(1), lock(me=1) | token(1), refused=lock(other=1)),
    Guarded(partial(fair_acquire, queue=False), FREE, None, lock(me=1), refused=lock(other=1)),
    Guarded(read, FREE, None, rw("read", me=1) | mine(30_000), refused=rw("write", other_writer=1)),
    Guarded(write, FREE, None, rw("write", writer=1), key=WRITER_EPOCH, refused=rw("write", other_writer=1)),
    Guarded(token_acquire, FREE, None, held_by(MINE), key=TOKEN_EPOCH, refused=held_by(THEIRS)),
]
RELEASES: Final = [
    Guarded(release, lock(me=1), RELEASED, FREE, FREED),
    Guarded(fair_release, lock(me=1) | WAITER, 2, WAITER, sends(OTHER)),
    Guarded(end_read, rw("read", me=1) | mine(30_000), RELEASED, FREE, READ_ENDED),
    Guarded(end_write, rw("write", writer=1), RELEASED, FREE, WRITE_ENDED, WRITER_EPOCH),
    Guarded(token_release, held_by(MINE), 1, FREE, key=TOKEN_EPOCH),
    Guarded(force_unlock, lock(me=1), [ME], FREE, FREED),
    Guarded(fair_force_unlock, lock(me=1) | WAITER, [ME], WAITER, sends(OTHER)),
    Guarded(partial(force, "read"), rw("read", other=1), 1, FREE, READ_ENDED),
    Guarded(partial(force, "write"), rw("write", writer=1), 1, FREE, WRITE_ENDED),
    Guarded(token_force, held_by(MINE), 1, FREE, key=TOKEN_EPOCH),
]


def _cases(of: Guarded) -> list[Case]:
    def stored(epoch: int, ttl_ms: int = 60_000) -> State:
        return {of.key: Entry("string", b"%d" % epoch, ttl_ms)}

    def done(name: str, call: Call, before: State, after: State) -> Case:
        return Case(name, before | of.before, call, of.reply, after | of.after, of.messages)

    late = stored(10) | of.before
    key_is_a_list, epoch_is_a_hash = Entry("list", [ME], None), Entry("hash", {b"f": b"v"}, None)
    return [
        done("the epoch of the request is stored", of.call(epoch=1), FREE, stored(1)),
        done("a newer epoch replaces the stored one", of.call(epoch=10), stored(9, 20_000), stored(10)),
        done("an equal epoch is not stored again", of.call(epoch=2), stored(2, 20_000), stored(2, 20_000)),
        Case("an overtaken request is stale", late, of.call(epoch=9), stale(10)),
        Case("an overtaken repeat is stale", late, of.call(epoch=9, repeat=True), stale(10)),
        Case("a request with epoch 0 is stale if an epoch is stored", late, of.call(), stale(10)),
        Case("an error if the lock is of another type", {LOCK: key_is_a_list}, of.call(), WRONGTYPE),
        Case("an error if the epoch is of another type", of.before | {of.key: epoch_is_a_hash}, of.call(), WRONGTYPE),
    ]


def _of_an_acquire(of: Guarded) -> list[Case]:
    call, epoch, soon = of.call(epoch=1), {of.key: Entry("string", b"1", 60_000)}, Around(30_000)
    refused_without_memory = "out of memory: another owner is refused with the remaining time"
    return [
        Case("the epoch of a request that is refused is stored", of.refused, call, soon, of.refused | epoch),
        Case("out of memory: nothing is acquired", of.before, call, OOM, out_of_memory=True),
        Case(refused_without_memory, of.refused, of.call(), soon, out_of_memory=True),
    ]


def _of_a_release(of: Guarded) -> list[Case]:
    call, epoch = of.call(epoch=1), {of.key: Entry("string", b"1", 60_000)}
    name = "out of memory: the lock is released and the epoch stored"
    return [
        Case("the epoch is stored though the lock is free", FREE, of.call(epoch=1, repeat=True), None, epoch),
        Case(name, of.before, call, of.reply, of.after | epoch, of.messages, out_of_memory=True),
    ]


def _in_a_cluster(of: Guarded) -> Case:
    messages = [message._replace(sharded=True) for message in of.messages]
    call = of.call(publish="SPUBLISH")
    return Case("the message is sent by SPUBLISH in a cluster", of.before, call, of.reply, of.after, messages)


CASES: Final = [
    *(case for each in (*ACQUIRES, *RELEASES) for case in _cases(each)),
    *(case for each in ACQUIRES for case in _of_an_acquire(each)),
    *(case for each in RELEASES for case in _of_a_release(each)),
    *(_in_a_cluster(each) for each in RELEASES if each.messages),
]
