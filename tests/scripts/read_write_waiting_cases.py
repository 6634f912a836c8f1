"""The scripts of a read-write lock where clients are in the queue of those who wait."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    FREE,
    LOCK,
    WRONGTYPE,
    Around,
    Call,
    Case,
    In,
    text,
)
from tests.scripts.read_write_calls import (
    READ_ENDED,
    UPGRADE,
    WRITE_ENDED,
    end_read,
    end_write,
    mine,
    read,
    rw,
    theirs,
    write,
)
from tests.scripts.read_write_calls import force as _force
from tests.scripts.wait_queue import WAIT_QUEUE, queued, to, to_observers

#: They have waited for 4, 3, 2 and 1 seconds.
OLD_READER: Final = {b"a.read:1": In(-4000)}
OLD_WRITER: Final = {b"b.write:1": In(1e14 - 3000)}
READER: Final = {b"c.read:1": In(-2000)}
WRITER_TOO: Final = {b"d.write:1": In(1e14 - 1000)}
OBSERVERS: Final = {b"observer:c.read": In(1e15), b"observer:d.write": In(1e15)}


def force(side: str) -> Call:
    call = _force(side)
    return Call(call.script, (*call.keys, WAIT_QUEUE), call.args)


def _waiting(call: Call, member: str, behind: int, *, rest: int, chosen: bool) -> Call:
    args = (*call.args, member, 5000 - behind, rest if rest < 0 else rest - behind, int(chosen), 30_000, "PUBLISH")
    return Call(f"{call.script}_waiting", (*call.keys, WAIT_QUEUE), args)


def read_waiting(*, rest: int = -1, chosen: bool = False) -> Call:
    """My client waits to read, for five seconds so far."""
    return _waiting(read(), "me.read:1", 0, rest=rest, chosen=chosen)


def write_waiting(*, rest: int = -1, chosen: bool = False) -> Call:
    """My client waits to write, for five seconds so far."""
    return _waiting(write(), "me.write:1", 10**14, rest=rest, chosen=chosen)


def stop_waiting(member: str) -> Call:
    return Call("read_write_lock_stop_waiting", (LOCK, WAIT_QUEUE), (member, "PUBLISH"))


#: A release that tells somebody: 1, the one who is notified, and the one connection that hears of it.
NOTIFIED: Final = 3

RELEASES: Final = [
    Case(
        "all readers are notified if one has waited longest",
        rw("write", writer=1) | queued(OLD_READER, OLD_WRITER, READER, WRITER_TOO),
        end_write(),
        NOTIFIED,
        queued(OLD_WRITER, WRITER_TOO),
        [to("a.read"), to("c.read"), to_observers("2"), *WRITE_ENDED],
    ),
    Case(
        "no writer is notified by a writer that goes on reading",
        rw("write", writer=1, me=1) | mine(30_000) | queued(OLD_WRITER),
        end_write(),
        2,
        rw("read", me=1) | mine(30_000) | queued(OLD_WRITER),
        WRITE_ENDED,
    ),
    Case(
        "a writer is notified by the last reader",
        rw("read", me=1) | mine(30_000) | queued(OLD_WRITER, WRITER_TOO),
        end_read(),
        NOTIFIED,
        queued(WRITER_TOO),
        [to("b.write"), to_observers("2"), *READ_ENDED],
    ),
    Case(
        "an observer that is notified is replaced by the newest writer",
        rw("write", writer=1)
        | queued(OLD_WRITER, READER, WRITER_TOO, {b"observer:b.write": In(1e15), b"observer:c.read": In(1e15)}),
        end_write(),
        NOTIFIED,
        queued(READER, WRITER_TOO, OBSERVERS),
        [to("b.write"), to("d.write", "observe"), to_observers("2"), *WRITE_ENDED],
    ),
    Case(
        "those in the queue are notified by a forced unlock",
        rw("write", other_writer=1) | queued(OLD_WRITER, READER),
        force("write"),
        1,
        queued(READER),
        [to("b.write"), to_observers("2"), *WRITE_ENDED],
    ),
    Case(
        "the lock is freed although the queue is something else",
        rw("write", writer=1) | text(WAIT_QUEUE),
        end_write(),
        2,
        text(WAIT_QUEUE),
        WRITE_ENDED,
    ),
]

ATTEMPTS: Final = [
    Case(
        "one that reads is in the queue no more",
        queued(OLD_WRITER, {b"me.read:1": In(-5000), b"observer:b.write": In(1e15)}),
        read_waiting(),
        None,
        rw("read", me=1) | mine(30_000) | queued(OLD_WRITER, {b"observer:b.write": In(1e15)}),
    ),
    Case(
        "one that reads lets the other readers in",
        queued(OLD_READER, OLD_WRITER, READER, {b"me.read:1": In(-5000)}),
        read_waiting(),
        None,
        rw("read", me=1) | mine(30_000) | queued(OLD_WRITER),
        [to("a.read"), to("c.read")],
    ),
    Case(
        "one that reads stays with the time of the next one of its client",
        queued(OBSERVERS),
        read_waiting(rest=1000),
        None,
        rw("read", me=1) | mine(30_000) | queued(OBSERVERS, {b"me.read:1": In(-1000)}),
    ),
    Case(
        "a reader that is refused is in the queue by the time since which it waits",
        rw("write", other_writer=1) | queued(OBSERVERS),
        read_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | queued(OBSERVERS, {b"me.read:1": In(-5000)}),
    ),
    Case(
        "the first one in the queue is an observer",
        rw("write", other_writer=1),
        read_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | queued({b"me.read:1": In(-5000), b"observer:me.read": In(1e15)}),
        [to("me.read", "observe and attempt")],
    ),
    Case(
        "a writer that is refused stands behind the readers",
        rw("write", other_writer=1) | queued(OBSERVERS),
        write_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | queued(OBSERVERS, {b"me.write:1": In(1e14 - 5000)}),
    ),
    Case(
        "a writer that is refused by a reader lets the other readers in",
        rw("read", other=1) | theirs(30_000) | queued(READER, WRITER_TOO, OBSERVERS),
        write_waiting(chosen=True),
        Around(30_000),
        rw("read", other=1)
        | theirs(30_000)
        | queued(
            WRITER_TOO, {b"me.write:1": In(1e14 - 5000), b"observer:d.write": In(1e15), b"observer:me.write": In(1e15)}
        ),
        [to("c.read"), to("me.write", "observe and attempt")],
    ),
    Case(
        "a writer that has its turn says so to the observers",
        queued(READER, OBSERVERS),
        write_waiting(chosen=True),
        None,
        rw("write", writer=1) | queued(READER, OBSERVERS),
        [to_observers("3")],
    ),
    Case(
        "an upgrade is not in the queue",
        rw("read", me=1) | mine(30_000),
        write_waiting(),
        UPGRADE,
    ),
    Case(
        "a reader that is refused hears that the queue is something else",
        rw("write", other_writer=1) | text(WAIT_QUEUE),
        read_waiting(),
        WRONGTYPE,
    ),
    Case(
        "a writer that is refused hears that the queue is something else",
        rw("write", other_writer=1) | text(WAIT_QUEUE),
        write_waiting(),
        WRONGTYPE,
    ),
]

LEAVES: Final = [
    Case(
        "an observer that leaves is replaced",
        rw("write", writer=1) | queued(READER, OLD_WRITER, {b"observer:b.write": In(1e15)}),
        stop_waiting("b.write:1"),
        1,
        rw("write", writer=1) | queued(READER, {b"observer:c.read": In(1e15)}),
        [to("c.read", "observe")],
    ),
    Case(
        "one that leaves a free lock passes the turn on",
        queued(OLD_WRITER, READER),
        stop_waiting("a.read:1"),
        1,
        queued(READER),
        [to("b.write"), to_observers("4")],
    ),
    Case(
        "one that leaves while others read lets the readers in",
        rw("read", other=1) | theirs(30_000) | queued(OLD_WRITER, READER),
        stop_waiting("x.write:1"),
        1,
        rw("read", other=1) | theirs(30_000) | queued(OLD_WRITER),
        [to("c.read"), to_observers("4")],
    ),
    Case("the last one leaves nothing behind", queued(OLD_READER), stop_waiting("a.read:1"), 1, FREE),
]

CASES: Final = [*RELEASES, *ATTEMPTS, *LEAVES]
