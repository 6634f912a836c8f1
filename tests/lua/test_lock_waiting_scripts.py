"""The scripts of plain and fenced locks where clients are on the list of those who wait."""

from __future__ import annotations

from typing import Final

from tests.lua.harness import (
    EPOCH,
    FREE,
    FREED,
    LOCK,
    ME,
    RELEASED,
    WRONGTYPE,
    Around,
    Call,
    Case,
    ComparedServer,
    In,
    State,
    check,
    each,
    epoch,
    lock,
    stale,
    text,
)
from tests.lua.test_lock_scripts import acquire, force_unlock, release
from tests.lua.waiting_lists import LIST, listed, to, to_ears

TOKEN: Final = b"redisson_lock_token:{orders}"
#: They have waited for 3, 2 and 1 seconds.
FIRST: Final = {b"a:1": In(-3000)}
SECOND: Final = {b"b:1": In(-2000)}
THIRD: Final = {b"c:1": In(-1000)}
EARS: Final = {b"ear:b": In(1e15), b"ear:c": In(1e15)}


def _with_list(call: Call) -> Call:
    return Call(call.script, (*call.keys, LIST), call.args)


def waiting(*, rest: int = -1, chosen: bool = False, turn: str | None = None, epoch: int = 0) -> Call:
    """My client attempts, and has waited for five seconds so far."""
    call = acquire(epoch=epoch)
    return Call(
        "lock_acquire_waiting",
        (*call.keys, LIST),
        (*call.args, "me:1", 5000, rest, turn or int(chosen), 30_000, "PUBLISH"),
    )


def fenced_waiting(*, chosen: bool = False) -> Call:
    """The same for a fenced lock."""
    args = (ME, 0, 0, 30_000, 0, "", 0, "me:1", 5000, -1, int(chosen), 30_000, "PUBLISH")
    return Call("fenced_acquire_waiting", (LOCK, EPOCH, TOKEN, LIST), args)


def stop_waiting(member: str) -> Call:
    return Call("lock_stop_waiting", (LOCK, LIST), (member, "PUBLISH"))


def token(number: int) -> State:
    return text(TOKEN, b"%d" % number)


#: A release that tells somebody: 1, the one who is notified, and the one connection that hears of it.
NOTIFIED: Final = RELEASED + 1

RELEASES: Final = [
    Case(
        "the one is notified that has waited longest",
        lock(me=1) | listed(FIRST, SECOND, THIRD, EARS),
        release(),
        NOTIFIED,
        listed(SECOND, THIRD, EARS),
        [to("a"), to_ears("2"), *FREED],
    ),
    Case(
        "an ear that is notified is replaced",
        lock(me=1) | listed(FIRST, SECOND, THIRD, {b"ear:a": In(1e15), b"ear:b": In(1e15)}),
        release(),
        NOTIFIED,
        listed(SECOND, THIRD, EARS),
        [to("a"), to("c", "ear"), to_ears("2"), *FREED],
    ),
    Case(
        "an ear that became one since it came too late stays one when it is notified",
        lock(me=1) | listed(FIRST, SECOND, THIRD, {b"ear:a": In(1e15 + 0.5), b"ear:b": In(1e15)}),
        release(),
        NOTIFIED,
        listed(SECOND, THIRD, {b"ear:a": In(1e15 + 0.5), b"ear:b": In(1e15)}),
        [to("a"), to_ears("2"), *FREED],
    ),
    Case(
        "one that is alone on the list hears the usual message",
        lock(me=1) | listed(FIRST, {b"ear:a": In(1e15)}),
        release(),
        RELEASED,
        listed(FIRST, {b"ear:a": In(1e15)}),
        FREED,
    ),
    Case(
        "one that is alone and no ear is notified, and leaves no list",
        lock(me=1) | listed(FIRST),
        release(),
        NOTIFIED,
        FREE,
        [to("a"), *FREED],
    ),
    Case(
        "one of a quorum is notified although it is alone",
        lock(me=1) | listed({b"a+q:1": In(-3000), b"ear:a+q": In(1e15)}),
        release(),
        NOTIFIED,
        FREE,
        [to("a+q"), *FREED],
    ),
    Case(
        "an ear that stays behind alone hears that it is the only one",
        lock(me=1) | listed(FIRST, SECOND, {b"ear:a": In(1e15), b"ear:b": In(1e15)}),
        release(),
        NOTIFIED,
        listed(SECOND, {b"ear:b": In(1e15)}),
        [to("a"), to("b", "only"), to_ears("2"), *FREED],
    ),
    Case(
        "nobody is notified while holds are left",
        lock(me=2) | listed(FIRST),
        _with_list(Call("lock_release", release().keys, (ME, 0, 0, 30_000, 2, "PUBLISH", "0"))),
        0,
        lock(me=1) | listed(FIRST),
    ),
    Case(
        "nobody is notified by a release that is not published",
        lock(me=1) | listed(FIRST),
        release(publish=""),
        1,
        listed(FIRST),
    ),
    Case(
        "the lock is freed although the list is something else",
        lock(me=1) | text(LIST),
        release(),
        RELEASED,
        text(LIST),
        FREED,
    ),
    Case(
        "one is notified by a forced unlock",
        lock(other=2) | listed(FIRST, SECOND, EARS),
        _with_list(force_unlock()),
        [ME.replace(b":7", b":9")],
        listed(SECOND, EARS),
        [to("a"), to_ears("2"), *FREED],
    ),
]

ATTEMPTS: Final = [
    Case(
        "one that is refused is on the list by the time since which it waits",
        lock(other=1) | listed(SECOND, THIRD, EARS),
        waiting(),
        Around(30_000),
        lock(other=1) | listed({b"me:1": In(-5000)}, SECOND, THIRD, EARS),
    ),
    Case(
        "the first one on the list is an ear",
        lock(other=1),
        waiting(),
        Around(30_000),
        lock(other=1) | listed({b"me:1": In(-5000), b"ear:me": In(1e15)}),
        [to("me", "only")],
    ),
    Case(
        "the second one, too",
        lock(other=1) | listed(SECOND, {b"ear:b": In(1e15)}),
        waiting(),
        Around(30_000),
        lock(other=1) | listed(SECOND, {b"ear:b": In(1e15), b"me:1": In(-5000), b"ear:me": In(1e15)}),
        [to("me", "ear")],
    ),
    Case(
        "the list lives longer with each one that is refused",
        lock(other=1) | listed(SECOND, THIRD, EARS, ttl_ms=10_000),
        waiting(),
        Around(30_000),
        lock(other=1) | listed({b"me:1": In(-5000)}, SECOND, THIRD, EARS),
    ),
    Case(
        "one that is served is on the list no more, and no ear",
        listed({b"me:1": In(-5000), b"ear:me": In(1e15)}, FIRST, {b"ear:a": In(1e15)}, SECOND),
        waiting(),
        None,
        lock(me=1) | listed(FIRST, SECOND, {b"ear:a": In(1e15), b"ear:b": In(1e15)}),
        [to("b", "ear")],
    ),
    Case(
        "one that is served stays with the time of the next one of its client",
        listed(SECOND, THIRD, EARS),
        waiting(rest=1500),
        None,
        lock(me=1) | listed({b"me:1": In(-1500)}, SECOND, THIRD, EARS),
    ),
    Case(
        "one that uses its turn says so to the ears",
        listed(SECOND, THIRD, EARS),
        waiting(chosen=True),
        None,
        lock(me=1) | listed(SECOND, THIRD, EARS),
        [to_ears("3")],
    ),
    Case(
        "one that comes too late is back on the list, and replaces an ear",
        lock(other=1) | listed(SECOND, THIRD, EARS),
        waiting(chosen=True),
        Around(30_000),
        lock(other=1) | listed({b"me:1": In(-5000)}, SECOND, THIRD, {b"ear:c": In(1e15), b"ear:me": In(1e15 + 0.5)}),
        [to("me", "ear"), to("b", "off")],
    ),
    Case(
        "one that comes too late replaces no ear if one was replaced so before",
        lock(other=1) | listed(SECOND, THIRD, {b"ear:b": In(1e15), b"ear:c": In(1e15 + 0.5)}),
        waiting(chosen=True),
        Around(30_000),
        lock(other=1) | listed({b"me:1": In(-5000)}, SECOND, THIRD, {b"ear:b": In(1e15), b"ear:c": In(1e15 + 0.5)}),
    ),
    Case(
        "a request that is out of date changes nothing",
        epoch(7) | listed(SECOND, THIRD, EARS),
        waiting(),
        stale(7),
    ),
    Case(
        "a free lock is acquired although the list is something else",
        text(LIST),
        waiting(),
        None,
        lock(me=1) | text(LIST),
    ),
    Case("one that is refused hears that the list is something else", lock(other=1) | text(LIST), waiting(), WRONGTYPE),
    Case(
        "a fenced lock gives a token to one that was notified",
        token(4) | listed(SECOND, THIRD, EARS),
        fenced_waiting(chosen=True),
        [b"token", b"5"],
        lock(me=1) | token(5) | listed(SECOND, THIRD, EARS),
        [to_ears("3")],
    ),
    Case(
        "a fenced lock puts one that is refused on the list, without a token",
        lock(other=1) | token(4) | listed(SECOND, THIRD, EARS),
        fenced_waiting(),
        Around(30_000),
        lock(other=1) | token(4) | listed({b"me:1": In(-5000)}, SECOND, THIRD, EARS),
    ),
]

LEAVES: Final = [
    Case(
        "one that leaves is on the list no more",
        lock(other=1) | listed(FIRST, SECOND, THIRD, EARS),
        stop_waiting("a:1"),
        1,
        lock(other=1) | listed(SECOND, THIRD, EARS),
    ),
    Case(
        "an ear that leaves is replaced by the newest one",
        lock(other=1) | listed(FIRST, SECOND, THIRD, {b"ear:a": In(1e15), b"ear:b": In(1e15)}),
        stop_waiting("a:1"),
        1,
        lock(other=1) | listed(SECOND, THIRD, EARS),
        [to("c", "ear")],
    ),
    Case(
        "one that leaves a free lock passes the turn on",
        listed(FIRST, SECOND, THIRD, EARS),
        stop_waiting("a:1"),
        1,
        listed(THIRD, {b"ear:c": In(1e15)}),
        [to("b"), to("c", "only"), to_ears("4")],
    ),
    Case("the last one leaves nothing behind", listed(FIRST), stop_waiting("a:1"), 1, FREE),
    Case("a later wait of the same client stays", lock(other=1) | listed({b"a:2": In(-1)}), stop_waiting("a:1"), 1),
]

CASES: Final = [*RELEASES, *ATTEMPTS, *LEAVES]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)
