"""The scripts of plain and fenced locks where clients are in the queue of those who wait."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
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
    In,
    State,
    epoch,
    lock,
    stale,
    text,
)
from tests.scripts.lock_cases import acquire, force_unlock, release
from tests.scripts.wait_queue import WAIT_QUEUE, queued, to, to_observers

TOKEN: Final = b"redisson_lock_token:{orders}"
#: They have waited for 3, 2 and 1 seconds.
FIRST: Final = {b"a:1": In(-3000)}
SECOND: Final = {b"b:1": In(-2000)}
THIRD: Final = {b"c:1": In(-1000)}
OBSERVERS: Final = {b"observer:b": In(1e15), b"observer:c": In(1e15)}


def _with_queue(call: Call) -> Call:
    return Call(call.script, (*call.keys, WAIT_QUEUE), call.args)


def waiting(*, rest: int = -1, chosen: bool = False, turn: str | None = None, epoch: int = 0) -> Call:
    """My client attempts, and has waited for five seconds so far."""
    call = acquire(epoch=epoch)
    return Call(
        "lock_acquire_waiting",
        (*call.keys, WAIT_QUEUE),
        (*call.args, "me:1", 5000, rest, turn or int(chosen), 30_000, "PUBLISH"),
    )


def fenced_waiting(*, chosen: bool = False) -> Call:
    """The same for a fenced lock."""
    args = (ME, 0, 0, 30_000, 0, "", 0, "me:1", 5000, -1, int(chosen), 30_000, "PUBLISH")
    return Call("fenced_acquire_waiting", (LOCK, EPOCH, TOKEN, WAIT_QUEUE), args)


def stop_waiting(member: str) -> Call:
    return Call("lock_stop_waiting", (LOCK, WAIT_QUEUE), (member, "PUBLISH"))


def token(number: int) -> State:
    return text(TOKEN, b"%d" % number)


#: A release that tells somebody: 1, the one who is notified, and the one connection that hears of it.
NOTIFIED: Final = RELEASED + 1

RELEASES: Final = [
    Case(
        "an observer that is notified is replaced",
        lock(me=1) | queued(FIRST, SECOND, THIRD, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        release(),
        NOTIFIED,
        queued(SECOND, THIRD, OBSERVERS),
        [to("a"), to("c", "observe"), to_observers("2"), *FREED],
    ),
    Case(
        "one that is alone in the queue hears the usual message",
        lock(me=1) | queued(FIRST, {b"observer:a": In(1e15)}),
        release(),
        RELEASED,
        queued(FIRST, {b"observer:a": In(1e15)}),
        FREED,
    ),
    Case(
        "one that is alone and no observer is notified, and leaves no list",
        lock(me=1) | queued(FIRST),
        release(),
        NOTIFIED,
        FREE,
        [to("a"), *FREED],
    ),
    Case(
        "an observer that stays behind alone stays one",
        lock(me=1) | queued(FIRST, SECOND, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        release(),
        NOTIFIED,
        queued(SECOND, {b"observer:b": In(1e15)}),
        [to("a"), to_observers("2"), *FREED],
    ),
    Case(
        "nobody is notified by a release that is not published",
        lock(me=1) | queued(FIRST),
        release(publish=""),
        1,
        queued(FIRST),
    ),
    Case(
        "the lock is freed although the queue is something else",
        lock(me=1) | text(WAIT_QUEUE),
        release(),
        RELEASED,
        text(WAIT_QUEUE),
        FREED,
    ),
    Case(
        "one is notified by a forced unlock",
        lock(other=2) | queued(FIRST, SECOND, OBSERVERS),
        _with_queue(force_unlock()),
        [ME.replace(b":7", b":9")],
        queued(SECOND, OBSERVERS),
        [to("a"), to_observers("2"), *FREED],
    ),
]

ATTEMPTS: Final = [
    Case(
        "the first one in the queue is an observer",
        lock(other=1),
        waiting(),
        Around(30_000),
        lock(other=1) | queued({b"me:1": In(-5000), b"observer:me": In(1e15)}),
        [to("me", "observe and attempt")],
    ),
    Case(
        "the second one, too",
        lock(other=1) | queued(SECOND, {b"observer:b": In(1e15)}),
        waiting(),
        Around(30_000),
        lock(other=1) | queued(SECOND, {b"observer:b": In(1e15), b"me:1": In(-5000), b"observer:me": In(1e15)}),
        [to("me", "observe and attempt")],
    ),
    Case(
        "another one that is not refused just now only observes",
        lock(other=1) | queued(SECOND),
        waiting(),
        Around(30_000),
        lock(other=1) | queued(SECOND, {b"observer:b": In(1e15), b"me:1": In(-5000), b"observer:me": In(1e15)}),
        [to("b", "observe"), to("me", "observe and attempt")],
    ),
    Case(
        "the queue lives longer with each one that is refused",
        lock(other=1) | queued(SECOND, THIRD, OBSERVERS, ttl_ms=10_000),
        waiting(),
        Around(30_000),
        lock(other=1) | queued({b"me:1": In(-5000)}, SECOND, THIRD, OBSERVERS),
    ),
    Case(
        "one that is served is in the queue no more, and no observer",
        queued({b"me:1": In(-5000), b"observer:me": In(1e15)}, FIRST, {b"observer:a": In(1e15)}, SECOND),
        waiting(),
        None,
        lock(me=1) | queued(FIRST, SECOND, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        [to("b", "observe")],
    ),
    Case(
        "one that uses its turn says so to the observers",
        queued(SECOND, THIRD, OBSERVERS),
        waiting(chosen=True),
        None,
        lock(me=1) | queued(SECOND, THIRD, OBSERVERS),
        [to_observers("3")],
    ),
    Case(
        "a request that is out of date changes nothing",
        epoch(7) | queued(SECOND, THIRD, OBSERVERS),
        waiting(),
        stale(7),
    ),
    Case(
        "one that is refused hears that the queue is something else",
        lock(other=1) | text(WAIT_QUEUE),
        waiting(),
        WRONGTYPE,
    ),
    Case(
        "a fenced lock gives a token to one that was notified",
        token(4) | queued(SECOND, THIRD, OBSERVERS),
        fenced_waiting(chosen=True),
        [b"token", b"5"],
        lock(me=1) | token(5) | queued(SECOND, THIRD, OBSERVERS),
        [to_observers("3")],
    ),
    Case(
        "a fenced lock puts one that is refused in the queue, without a token",
        lock(other=1) | token(4) | queued(SECOND, THIRD, OBSERVERS),
        fenced_waiting(),
        Around(30_000),
        lock(other=1) | token(4) | queued({b"me:1": In(-5000)}, SECOND, THIRD, OBSERVERS),
    ),
]

LEAVES: Final = [
    Case(
        "an observer that leaves is replaced by the newest one",
        lock(other=1) | queued(FIRST, SECOND, THIRD, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        stop_waiting("a:1"),
        1,
        lock(other=1) | queued(SECOND, THIRD, OBSERVERS),
        [to("c", "observe")],
    ),
    Case(
        "one that leaves a free lock passes the turn on",
        queued(FIRST, SECOND, THIRD, OBSERVERS),
        stop_waiting("a:1"),
        1,
        queued(THIRD, {b"observer:c": In(1e15)}),
        [to("b"), to_observers("4")],
    ),
    Case("the last one leaves nothing behind", queued(FIRST), stop_waiting("a:1"), 1, FREE),
    Case("a later wait of the same client stays", lock(other=1) | queued({b"a:2": In(-1)}), stop_waiting("a:1"), 1),
]

CASES: Final = [*RELEASES, *ATTEMPTS, *LEAVES]
