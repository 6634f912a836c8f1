"""The scripts of a read-write lock where clients are on the list of those who wait."""

from __future__ import annotations

from typing import Final

from tests.lua.harness import (
    FREE,
    LOCK,
    WRONGTYPE,
    Around,
    Call,
    Case,
    ComparedServer,
    In,
    check,
    each,
    text,
)
from tests.lua.read_write_calls import (
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
from tests.lua.read_write_calls import force as _force
from tests.lua.waiting_lists import LIST, listed, to, to_ears

#: They have waited for 4, 3, 2 and 1 seconds.
OLD_READER: Final = {b"a.read:1": In(-4000)}
OLD_WRITER: Final = {b"b.write:1": In(1e14 - 3000)}
READER: Final = {b"c.read:1": In(-2000)}
WRITER_TOO: Final = {b"d.write:1": In(1e14 - 1000)}
EARS: Final = {b"ear:c.read": In(1e15), b"ear:d.write": In(1e15)}


def force(side: str) -> Call:
    call = _force(side)
    return Call(call.script, (*call.keys, LIST), call.args)


def _waiting(call: Call, member: str, behind: int, *, rest: int, chosen: bool) -> Call:
    args = (*call.args, member, 5000 - behind, rest if rest < 0 else rest - behind, int(chosen), 30_000, "PUBLISH")
    return Call(f"{call.script}_waiting", (*call.keys, LIST), args)


def read_waiting(*, rest: int = -1, chosen: bool = False) -> Call:
    """My client waits to read, for five seconds so far."""
    return _waiting(read(), "me.read:1", 0, rest=rest, chosen=chosen)


def write_waiting(*, rest: int = -1, chosen: bool = False) -> Call:
    """My client waits to write, for five seconds so far."""
    return _waiting(write(), "me.write:1", 10**14, rest=rest, chosen=chosen)


def stop_waiting(member: str) -> Call:
    return Call("read_write_lock_stop_waiting", (LOCK, LIST), (member, "PUBLISH"))


#: A release that tells somebody: 1, the one who is notified, and the one connection that hears of it.
NOTIFIED: Final = 3

RELEASES: Final = [
    Case(
        "all readers are notified if one has waited longest",
        rw("write", writer=1) | listed(OLD_READER, OLD_WRITER, READER, WRITER_TOO),
        end_write(),
        NOTIFIED,
        listed(OLD_WRITER, WRITER_TOO),
        [to("a.read"), to("c.read"), to_ears("2"), *WRITE_ENDED],
    ),
    Case(
        "one writer is notified if it has waited longest",
        rw("write", writer=1) | listed(OLD_WRITER, READER, WRITER_TOO),
        end_write(),
        NOTIFIED,
        listed(READER, WRITER_TOO),
        [to("b.write"), to_ears("2"), *WRITE_ENDED],
    ),
    Case(
        "all readers alone are notified by a writer that goes on reading",
        rw("write", writer=1, me=1) | mine(30_000) | listed(OLD_WRITER, READER, WRITER_TOO),
        end_write(),
        NOTIFIED,
        rw("read", me=1) | mine(30_000) | listed(OLD_WRITER, WRITER_TOO),
        [to("c.read"), to_ears("2"), *WRITE_ENDED],
    ),
    Case(
        "no writer is notified by a writer that goes on reading",
        rw("write", writer=1, me=1) | mine(30_000) | listed(OLD_WRITER),
        end_write(),
        2,
        rw("read", me=1) | mine(30_000) | listed(OLD_WRITER),
        WRITE_ENDED,
    ),
    Case(
        "a writer is notified by the last reader",
        rw("read", me=1) | mine(30_000) | listed(OLD_WRITER, WRITER_TOO),
        end_read(),
        NOTIFIED,
        listed(WRITER_TOO),
        [to("b.write"), to_ears("2"), *READ_ENDED],
    ),
    Case(
        "nobody is notified by another reader",
        rw("read", me=1, other=1) | mine(30_000) | theirs(30_000) | listed(OLD_WRITER),
        end_read(),
        0,
        rw("read", other=1) | theirs(30_000) | listed(OLD_WRITER),
    ),
    Case(
        "an ear that is notified is replaced by the newest writer",
        rw("write", writer=1)
        | listed(OLD_WRITER, READER, WRITER_TOO, {b"ear:b.write": In(1e15), b"ear:c.read": In(1e15)}),
        end_write(),
        NOTIFIED,
        listed(READER, WRITER_TOO, EARS),
        [to("b.write"), to("d.write", "ear"), to_ears("2"), *WRITE_ENDED],
    ),
    Case(
        "those on the list are notified by a forced unlock",
        rw("write", other_writer=1) | listed(OLD_WRITER, READER),
        force("write"),
        1,
        listed(READER),
        [to("b.write"), to_ears("2"), *WRITE_ENDED],
    ),
    Case(
        "the lock is freed although the list is something else",
        rw("write", writer=1) | text(LIST),
        end_write(),
        2,
        text(LIST),
        WRITE_ENDED,
    ),
]

ATTEMPTS: Final = [
    Case(
        "one that reads is on the list no more",
        listed(OLD_WRITER, {b"me.read:1": In(-5000), b"ear:b.write": In(1e15)}),
        read_waiting(),
        None,
        rw("read", me=1) | mine(30_000) | listed(OLD_WRITER, {b"ear:b.write": In(1e15)}),
    ),
    Case(
        "one that reads lets the other readers in",
        listed(OLD_READER, OLD_WRITER, READER, {b"me.read:1": In(-5000)}),
        read_waiting(),
        None,
        rw("read", me=1) | mine(30_000) | listed(OLD_WRITER),
        [to("a.read"), to("c.read")],
    ),
    Case(
        "one that reads stays with the time of the next one of its client",
        listed(EARS),
        read_waiting(rest=1000),
        None,
        rw("read", me=1) | mine(30_000) | listed(EARS, {b"me.read:1": In(-1000)}),
    ),
    Case(
        "a reader that is refused is on the list by the time since which it waits",
        rw("write", other_writer=1) | listed(EARS),
        read_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | listed(EARS, {b"me.read:1": In(-5000)}),
    ),
    Case(
        "the first one on the list is an ear",
        rw("write", other_writer=1),
        read_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | listed({b"me.read:1": In(-5000), b"ear:me.read": In(1e15)}),
        [to("me.read", "only")],
    ),
    Case(
        "a writer that is refused stands behind the readers",
        rw("write", other_writer=1) | listed(EARS),
        write_waiting(),
        Around(30_000),
        rw("write", other_writer=1) | listed(EARS, {b"me.write:1": In(1e14 - 5000)}),
    ),
    Case(
        "a writer that is refused by a reader lets the other readers in",
        rw("read", other=1) | theirs(30_000) | listed(READER, WRITER_TOO, EARS),
        write_waiting(chosen=True),
        Around(30_000),
        rw("read", other=1)
        | theirs(30_000)
        | listed(WRITER_TOO, {b"me.write:1": In(1e14 - 5000), b"ear:d.write": In(1e15), b"ear:me.write": In(1e15)}),
        [to("c.read"), to("d.write", "only"), to("me.write", "ear")],
    ),
    Case(
        "a writer that has its turn says so to the ears",
        listed(READER, EARS),
        write_waiting(chosen=True),
        None,
        rw("write", writer=1) | listed(READER, EARS),
        [to_ears("3")],
    ),
    Case(
        "a writer stays behind the readers with the time of the next one of its client",
        listed(EARS),
        write_waiting(rest=1000),
        None,
        rw("write", writer=1) | listed(EARS, {b"me.write:1": In(1e14 - 1000)}),
    ),
    Case(
        "an upgrade is not on the list",
        rw("read", me=1) | mine(30_000),
        write_waiting(),
        UPGRADE,
    ),
    Case(
        "a reader that is refused hears that the list is something else",
        rw("write", other_writer=1) | text(LIST),
        read_waiting(),
        WRONGTYPE,
    ),
    Case(
        "a writer that is refused hears that the list is something else",
        rw("write", other_writer=1) | text(LIST),
        write_waiting(),
        WRONGTYPE,
    ),
]

LEAVES: Final = [
    Case(
        "one that leaves is on the list no more",
        rw("write", writer=1) | listed(OLD_READER, OLD_WRITER),
        stop_waiting("a.read:1"),
        1,
        rw("write", writer=1) | listed(OLD_WRITER),
    ),
    Case(
        "an ear that leaves is replaced",
        rw("write", writer=1) | listed(READER, OLD_WRITER, {b"ear:b.write": In(1e15)}),
        stop_waiting("b.write:1"),
        1,
        rw("write", writer=1) | listed(READER, {b"ear:c.read": In(1e15)}),
        [to("c.read", "only")],
    ),
    Case(
        "one that leaves a free lock passes the turn on",
        listed(OLD_WRITER, READER),
        stop_waiting("a.read:1"),
        1,
        listed(READER),
        [to("b.write"), to_ears("4")],
    ),
    Case(
        "one that leaves while others read lets the readers in",
        rw("read", other=1) | theirs(30_000) | listed(OLD_WRITER, READER),
        stop_waiting("x.write:1"),
        1,
        rw("read", other=1) | theirs(30_000) | listed(OLD_WRITER),
        [to("c.read"), to_ears("4")],
    ),
    Case("the last one leaves nothing behind", listed(OLD_READER), stop_waiting("a.read:1"), 1, FREE),
]

CASES: Final = [*RELEASES, *ATTEMPTS, *LEAVES]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
