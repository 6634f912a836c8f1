"""The scripts of locks and permits where clients are in the wait queue: who is notified, who observes, who leaves.

What comes of it for many clients is shown by ``tests/simulated/test_crowd.py`` and its neighbours.
"""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.fenced_cases import fenced, token
from tests.scripts.harness import FREE, FREED, LOCK, RELEASED, WAIT_QUEUE, Around, Call, Case, In, State, lock
from tests.scripts.lock_cases import acquire, release
from tests.scripts.numbered_cases import (
    ENDLESS,
    EXPIRED,
    PERMIT,
    PERMIT_2,
    add_expirable,
    add_permits,
    done,
    give_all,
    give_permit,
    give_permits,
    permits,
    sends,
    set_counter,
    set_permits,
    stop_waiting,
    taken,
    undo,
    wait_for_permit,
    wait_for_permits,
    waits,
)
from tests.scripts.read_write_lock_cases import WRITE_ENDED, end_write, mine, read, rw, theirs, write
from tests.simulated.engine.redis import Entry


def queued(*who: dict[bytes, In], ttl_ms: int = 30_000) -> State:
    """Who waits, the observers among them."""
    return {WAIT_QUEUE: Entry("zset", {member: score for each in who for member, score in each.items()}, ttl_ms)}


def to(client: str, payload: str = "go") -> Message:
    """What one client is notified."""
    return Message(WAIT_QUEUE + f":{client}".encode(), payload.encode(), sharded=False)


def to_observers(payload: str) -> Message:
    """What the observers are notified."""
    return Message(WAIT_QUEUE, payload.encode(), sharded=False)


def leave(script: str, member: str) -> Call:
    return Call(script, (LOCK, WAIT_QUEUE), (member, "PUBLISH"))


def waiting(call: Call, member: str, *, behind: int = 0, chosen: bool = False) -> Call:
    """The same attempt of a client that has waited for five seconds so far."""
    args = (*call.args, member, 5000 - behind, -1, int(chosen), 30_000, "PUBLISH")
    return Call(f"{call.script}_waiting", (*call.keys, WAIT_QUEUE), args)


#: A release that tells somebody: 1, the one who is notified, and the one connection that hears of it.
NOTIFIED: Final = RELEASED + 1

#: They have waited for 3, 2 and 1 seconds.
FIRST: Final = {b"a:1": In(-3000)}
SECOND: Final = {b"b:1": In(-2000)}
THIRD: Final = {b"c:1": In(-1000)}
OBSERVERS: Final = {b"observer:b": In(1e15), b"observer:c": In(1e15)}

LOCKS: Final = [
    Case(
        "an observer that is notified is replaced",
        lock(me=1) | queued(FIRST, SECOND, THIRD, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        release(),
        NOTIFIED,
        queued(SECOND, THIRD, OBSERVERS),
        [to("a"), to("c", "observe"), to_observers("2"), *FREED],
    ),
    Case(
        "the second one in the queue is an observer, too",
        lock(other=1) | queued(SECOND, {b"observer:b": In(1e15)}),
        waiting(acquire(), "me:1"),
        Around(30_000),
        lock(other=1) | queued(SECOND, {b"observer:b": In(1e15), b"me:1": In(-5000), b"observer:me": In(1e15)}),
        [to("me", "observe and attempt")],
    ),
    Case(
        "a fenced lock gives a token to one that was notified",
        token(4) | queued(SECOND, THIRD, OBSERVERS),
        waiting(fenced(), "me:1", chosen=True),
        [b"token", b"5"],
        lock(me=1) | token(5) | queued(SECOND, THIRD, OBSERVERS),
        [to_observers("3")],
    ),
    Case(
        "an observer that leaves is replaced by the newest one",
        lock(other=1) | queued(FIRST, SECOND, THIRD, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        leave("lock_stop_waiting", "a:1"),
        1,
        lock(other=1) | queued(SECOND, THIRD, OBSERVERS),
        [to("c", "observe")],
    ),
    Case(
        "one that leaves a free lock passes the turn on",
        queued(FIRST, SECOND, THIRD, OBSERVERS),
        leave("lock_stop_waiting", "a:1"),
        1,
        queued(THIRD, {b"observer:c": In(1e15)}),
        [to("b"), to_observers("4")],
    ),
    Case(
        "the queue lives longer with each one that is refused",
        lock(other=1) | queued(SECOND, THIRD, OBSERVERS, ttl_ms=10_000),
        waiting(acquire(), "me:1"),
        Around(30_000),
        lock(other=1) | queued({b"me:1": In(-5000)}, SECOND, THIRD, OBSERVERS),
    ),
    Case(
        "one that is served is in the queue no more, and no observer",
        queued({b"me:1": In(-5000), b"observer:me": In(1e15)}, FIRST, {b"observer:a": In(1e15)}, SECOND),
        waiting(acquire(), "me:1"),
        None,
        lock(me=1) | queued(FIRST, SECOND, {b"observer:a": In(1e15), b"observer:b": In(1e15)}),
        [to("b", "observe")],
    ),
]

#: They have waited for 4, 3, 2 and 1 seconds.
OLD_READER: Final = {b"a.read:1": In(-4000)}
OLD_WRITER: Final = {b"b.write:1": In(1e14 - 3000)}
READER: Final = {b"c.read:1": In(-2000)}
WRITER_TOO: Final = {b"d.write:1": In(1e14 - 1000)}
SIDES_OBSERVED: Final = {b"observer:c.read": In(1e15), b"observer:d.write": In(1e15)}

SIDES: Final = [
    Case(
        "one that reads lets the other readers in",
        queued(OLD_READER, OLD_WRITER, READER, {b"me.read:1": In(-5000)}),
        waiting(read(), "me.read:1"),
        None,
        rw("read", me=1) | mine(30_000) | queued(OLD_WRITER),
        [to("a.read"), to("c.read")],
    ),
    Case(
        "an observer that is notified is replaced by the newest writer",
        rw("write", writer=1)
        | queued(OLD_WRITER, READER, WRITER_TOO, {b"observer:b.write": In(1e15), b"observer:c.read": In(1e15)}),
        end_write(),
        NOTIFIED,
        queued(READER, WRITER_TOO, SIDES_OBSERVED),
        [to("b.write"), to("d.write", "observe"), to_observers("2"), *WRITE_ENDED],
    ),
    Case(
        "a writer that is refused by a reader lets the other readers in",
        rw("read", other=1) | theirs(30_000) | queued(READER, WRITER_TOO, SIDES_OBSERVED),
        waiting(write(), "me.write:1", behind=10**14, chosen=True),
        Around(30_000),
        rw("read", other=1)
        | theirs(30_000)
        | queued(
            WRITER_TOO, {b"me.write:1": In(1e14 - 5000), b"observer:d.write": In(1e15), b"observer:me.write": In(1e15)}
        ),
        [to("c.read"), to("me.write", "observe and attempt")],
    ),
    Case(
        "one that leaves while others read lets the readers in",
        rw("read", other=1) | theirs(30_000) | queued(OLD_WRITER, READER),
        leave("read_write_lock_stop_waiting", "x.write:1"),
        1,
        rw("read", other=1) | theirs(30_000) | queued(OLD_WRITER),
        [to("c.read"), to_observers("4")],
    ),
]

PERMITS: Final = [
    *(
        Case(
            "a client is notified of a permit",
            before | waits("a:1:1", observers="bc"),
            call,
            1,
            permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
            [to("a", "go"), to_observers("2"), *sends(1)],
        )
        for before, call in (
            (FREE, set_counter(1)),
            (FREE, set_permits(1)),
            (permits(0), add_permits(1)),
            (permits(0), add_expirable(1)),
            (permits(0) | taken(ENDLESS), give_permit()),
            (permits(0) | taken(ENDLESS), give_all(PERMIT)),
        )
    ),
    *(
        Case(
            "out of memory: a client is notified of a permit",
            before | waits("a:1:1", observers="bc"),
            call,
            1,
            permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
            [to("a", "go"), to_observers("2"), *sends(1)],
            out_of_memory=True,
        )
        for before, call in ((permits(0), give_permits()), (permits(0) | taken(ENDLESS), give_permit()))
    ),
    Case(
        "an observer that is notified is replaced by the newest client",
        permits(0) | waits("a:1:1", "b:1:1", "c:1:1", observers="ae"),
        give_permits(),
        1,
        permits(1) | done(5, 1) | waits("b:1:1", "c:1:1", observers="ce", notified=["a:1:1"]),
        [to("a", "go"), to("c", "observe"), to_observers("2"), *sends(1)],
    ),
    Case(
        "clients are notified of permits whose request is undone",
        permits(0) | done(5, 1) | waits("a:1:1", observers="bc"),
        undo(),
        1,
        permits(1) | done(6, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    Case(
        "one that finds no permits comes in the queue, and is an observer",
        permits(0),
        wait_for_permits(),
        [0, 0],
        permits(0) | done(5, 0) | waits("a:1:1", observers="a"),
        [to("a", "observe and attempt")],
    ),
    Case(
        "all expired permits become available to those who wait longest",
        permits(0) | taken(EXPIRED, (PERMIT_2, 2000.0)) | waits("a:1:1", "b:1:1", "c:1:1", observers="de"),
        wait_for_permit(),
        [1, 0, -1],
        permits(1) | taken(ENDLESS) | done(5, 1) | waits("c:1:1", observers="de", notified=["b:1:1"]),
        [to("a", "go"), to("b", "go"), to_observers("2"), *sends(2)],
    ),
    Case(
        "one that is not the first leaves the expiry to others",
        permits(0) | taken((PERMIT_2, In(90_000))) | waits("b:1:1", "c:1:1", observers="bc"),
        wait_for_permit(waited=1000),
        [0, 0, -1],
        permits(0)
        | taken((PERMIT_2, In(90_000)))
        | done(5, 0)
        | waits("b:1:1", "c:1:1", observers="bc", since={"a:1:1": 1000}),
        [to("b", "in")],
    ),
    Case(
        "one that leaves is taken out of the queue, and another one is an observer",
        permits(0) | waits("a:1:1", "b:1:1", "c:1:1", observers="ab"),
        stop_waiting(),
        1,
        permits(0) | waits("b:1:1", "c:1:1", observers="bc"),
        [to("c", "observe")],
    ),
]

CASES: Final = [*LOCKS, *SIDES, *PERMITS]
