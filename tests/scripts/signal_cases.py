"""The scripts of events, conditions, barriers and bounded semaphores."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import CHANNEL, EPOCH, FREE, FREED, LOCK, ME, RELEASED, Call, Case, State, lock
from tests.scripts.numbered_cases import DONE, NOT_AN_INTEGER, PERMITS, WAIT_QUEUE, done, permits, sends
from tests.simulated.engine.redis import Entry

SIGNAL: Final = b"pyredisson_event:{orders}"
WAITERS: Final = b"pyredisson_condition:{orders}"
BARRIER: Final = b"pyredisson_barrier:{orders}"
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def change(state: int, *, number: int = 5) -> Call:
    return Call("event_change", (LOCK, DONE, SIGNAL), (number, state, "0", "PUBLISH"))


def give(count: int, most: int) -> Call:
    return Call("semaphore_release", (LOCK, DONE, PERMITS, WAIT_QUEUE), (5, count, "PUBLISH", most))


def waiting(*members: str) -> State:
    """Those who wait, in this order: since 1970."""
    scores = {member.encode(): float(at) for at, member in enumerate(members, 1)}
    return {WAITERS: Entry("zset", dict(scores), HOUR_MS)}


def notify(count: int, silent: int = 2**53) -> Call:
    return Call("condition_notify", (LOCK, DONE, WAITERS), (5, "PUBLISH", silent, count, ME))


def leave(member: str, pass_on: int) -> Call:
    return Call("condition_leave", (LOCK, DONE, WAITERS), (5, "PUBLISH", 2**53, pass_on, member))


def tells(member: str) -> Message:
    return Message(WAITERS + b":" + member[:1].encode(), member.encode(), sharded=False)


def visit(mode: str, *, parties: int = 2, joined: str = "", opens: str = "last") -> Call:
    args = 5, "PUBLISH", mode, parties, "a:1", joined, 30_000, opens
    return Call("barrier_visit", (LOCK, DONE, BARRIER), args)


def broken(generation: int) -> State:
    fields = {b"ended": b"%d" % generation, b"broken": b"1"}
    return permits(generation + 1, DAY_MS) | {BARRIER: Entry("hash", fields, DAY_MS)}


def at_barrier(generation: int) -> State:
    """Another one waits there, as good as for ever, since the barrier is in use."""
    fields = {b"0": b"4000000000000 b:1", b"ended": b"%d" % (generation - 1)}
    return permits(generation, DAY_MS) | {BARRIER: Entry("hash", fields, DAY_MS)}


CASES: Final = [
    Case("an event is set", FREE, change(1), 1, permits(1) | done(5, 1), sends(0, channel=SIGNAL)),
    Case("permits are released", permits(1), give(1, 2), 1, permits(2) | done(5, 1), sends(2)),
    Case("permits of a semaphore that is gone are released", FREE, give(1, 2), 1, done(5, 1)),
    Case("more permits are released than there were", permits(2), give(1, 2), 0, permits(2) | done(5, 0)),
    Case(
        "a wait gives up all holds and joins",
        lock(me=3),
        Call("condition_wait", (LOCK, EPOCH, CHANNEL, WAIT_QUEUE, WAITERS), (ME, 0, 0, 1, 0, "PUBLISH", 0, "")),
        RELEASED,
        FREE,
        FREED,
    ),
    Case(
        "a wait of a fair lock whose holds are gone does not join",
        FREE,
        Call(
            "condition_fair_wait",
            (LOCK, EPOCH, b"queue", b"timeouts", b"alive", CHANNEL, WAITERS),
            (ME, 0, 1, 1, 0, "PUBLISH", 0, 0, "a:1"),
        ),
        None,
    ),
    Case(
        "those who have waited longest are notified",
        lock(me=1) | waiting("b:1", "a:1", "a:2"),
        notify(2),
        2,
        lock(me=1) | {WAITERS: Entry("zset", {b"a:2": 3.0}, HOUR_MS)} | done(5, 2),
        [tells("b:1"), tells("a:1")],
    ),
    Case("only a holder notifies", waiting("b:1"), notify(1), -1, waiting("b:1") | done(5, -1)),
    Case("one leaves", waiting("a:1"), leave("a:1", 1), 1, done(5, 1)),
    Case("one who waits is found", waiting("a:1"), Call("condition_look", (WAITERS,), ("a:1",)), 1, waiting("a:1")),
    Case(
        "a generation that was opened",
        permits(5, DAY_MS),
        visit("wait", joined="4"),
        -5,
        permits(5, DAY_MS) | done(5, -5),
    ),
    Case(
        "one that counts no longer comes back as the last one, with another number",
        at_barrier(4),
        visit("wait", joined="4"),
        -3,
        permits(5, DAY_MS) | {BARRIER: Entry("hash", {b"ended": b"3"}, DAY_MS)} | done(5, -3),
        [Message(BARRIER, b"wait 4", sharded=False)],
    ),
    Case(
        "a generation that the server has forgotten",
        at_barrier(4),
        visit("wait", joined="3"),
        -1,
        at_barrier(4) | done(5, -1),
    ),
    Case("a generation that was broken", broken(4), visit("wait", joined="4"), -1, broken(4) | done(5, -1)),
    Case(
        "a barrier is broken",
        at_barrier(4),
        visit("break"),
        -1,
        broken(4) | done(5, -1),
        [Message(BARRIER, b"break 4", sharded=False)],
    ),
    Case("an event is cleared", permits(1), change(0), 1, permits(2, HOUR_MS) | done(5, 1)),
    Case("an event that is set stays so", permits(1), change(1), 0, permits(1) | done(5, 0)),
    Case("an error if the event is no number", permits("dark"), change(0), NOT_AN_INTEGER),
    Case("an error if the barrier is no number", permits("dark"), visit("wait"), NOT_AN_INTEGER),
    Case("an error if the barrier is no whole number", permits("0.5"), visit("reset"), NOT_AN_INTEGER),
    Case("one that was notified says so", waiting("b:1"), leave("a:1", 0), 0, waiting("b:1") | done(5, 0)),
]
