"""Calls of the scripts of semaphores and latches, what is stored for them, and what is the same for all of them.

A request is known by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import FREE, LOCK, ME, PERMITS, WAIT_QUEUE, WRONGTYPE, Call, Case, In, State
from tests.simulated.engine.redis import Entry, ServerError

DONE: Final = b"pyredisson_done:{orders}:" + ME
TAKEN: Final = b"{orders}:timeout"
TOTAL: Final = b"pyredisson_permits:{orders}"
GATE: Final = b"redisson_countdownlatch__channel__{orders}"
PERMIT: Final = bytes(range(16))
PERMIT_2: Final = b"\xff" * 16
NEVER_MS: Final = 922337203685477
EXPIRED: Final = (PERMIT, 1000.0)
ENDLESS: Final = (PERMIT, float(NEVER_MS))
NOT_AN_INTEGER: Final = ServerError("ERR", "value is not an integer or out of range")


def permits(count: int | str, ttl_ms: int | None = None) -> State:
    """A semaphore (or a latch, with its count)."""
    return {LOCK: Entry("string", str(count).encode(), ttl_ms)}


def total(count: int, ttl_ms: int | None = None) -> State:
    """The record of how many permits there are in all."""
    return {TOTAL: Entry("string", str(count).encode(), ttl_ms)}


def taken(*members: tuple[bytes, float | In], ttl_ms: int | None = None) -> State:
    """The permits taken of an expirable one, and when they expire."""
    return {TAKEN: Entry("zset", dict(members), ttl_ms)}


def done(number: int | str, outcome: int | str = "", ttl_ms: int | None = 60_000) -> State:
    """The record of my last request."""
    return {DONE: Entry("string", f"{number} {outcome}".strip().encode(), ttl_ms)}


def sends(*payloads: int, channel: bytes = PERMITS) -> list[Message]:
    return [Message(channel, b"%d" % payload, sharded=False) for payload in payloads]


def set_counter(
    value: int,
    *,
    number: int = 5,
    message: int | None = None,
    channel: bytes = PERMITS,
    ttl: int | str = "",
    recorded: bool = False,
) -> Call:
    said = value if message is None else message
    keys = ((TOTAL,) if recorded else ()) + ((WAIT_QUEUE,) if channel == PERMITS else ())
    return Call("counter_set", (LOCK, DONE, channel, *keys), (number, value, "PUBLISH", said, ttl, int(recorded)))


def take_permits(count: int = 1, *, number: int = 5) -> Call:
    return Call("semaphore_acquire", (LOCK, DONE), (number, count))


def give_permits(count: int = 1, *, number: int = 5, publish: str = "PUBLISH") -> Call:
    return Call("semaphore_release", (LOCK, DONE, PERMITS, WAIT_QUEUE), (number, count, publish))


def add_permits(count: int, *, number: int = 5) -> Call:
    return Call("semaphore_add", (LOCK, DONE, PERMITS, TOTAL, WAIT_QUEUE), (number, count, "PUBLISH"))


def resize(count: int, *, before: int | str = "", number: int = 5) -> Call:
    return Call("semaphore_resize", (LOCK, DONE, PERMITS, TOTAL, WAIT_QUEUE), (number, count, "PUBLISH", before))


def expire(ttl_ms: int, *others: bytes, message: str = "", channel: bytes = PERMITS, number: int = 5) -> Call:
    return Call("counter_expire", (LOCK, DONE, channel, *others), (number, ttl_ms, "PUBLISH", message))


def drain(*, number: int = 5) -> Call:
    return Call("semaphore_drain", (LOCK, DONE, TOTAL), (number,))


def undo(undone: int = 5, *, number: int = 6) -> Call:
    return Call("semaphore_undo", (LOCK, DONE, PERMITS, WAIT_QUEUE), (number, undone, "PUBLISH"))


def take_permit(permit: bytes = PERMIT, *, lease: int = -1, number: int = 5) -> Call:
    return Call("permit_acquire", (LOCK, DONE, PERMITS, TAKEN), (number, permit, "PUBLISH", lease))


def give_permit(permit: bytes = PERMIT, *, number: int = 5) -> Call:
    return Call("permit_release", (LOCK, DONE, PERMITS, TAKEN, WAIT_QUEUE), (number, permit, "PUBLISH"))


def give_all(*permits: bytes, number: int = 5) -> Call:
    return Call("permit_release_all", (LOCK, DONE, PERMITS, TAKEN, WAIT_QUEUE), (number, b"".join(permits), "PUBLISH"))


def lease_permit(permit: bytes = PERMIT, *, lease: int = -1, number: int = 5) -> Call:
    return Call("permit_lease", (LOCK, DONE, PERMITS, TAKEN, WAIT_QUEUE), (number, permit, "PUBLISH", lease))


def renew_permits(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("permit_renew", tuple(key for key, _ in held), (lease, *(permit for _, permit in held)))


def count_permits(permit: bytes = b"") -> Call:
    return Call("permit_count", (LOCK, TAKEN, PERMITS, WAIT_QUEUE), ("PUBLISH", permit))


def set_permits(count: int, *, number: int = 5) -> Call:
    return Call("permit_set", (LOCK, DONE, PERMITS, TAKEN, WAIT_QUEUE), (number, count, "PUBLISH"))


def add_expirable(count: int, *, number: int = 5) -> Call:
    return Call("permit_add", (LOCK, DONE, PERMITS, WAIT_QUEUE), (number, count, "PUBLISH"))


def count_down(*, number: int = 5) -> Call:
    return Call("latch_count_down", (LOCK, DONE, GATE), (number, 0, "PUBLISH"))


# -- Clients that wait

#: What is added to the time at which a client became an observer, or was notified that it is its turn.
OBSERVER_SINCE: Final = 1e15
NOTIFIED_AT: Final = 2e15
#: For how long the queue is kept.
KEPT_MS: Final = 30_000


def waits(
    *members: str, observers: str = "", notified: Sequence[str] = (), since: Mapping[str, int] | None = None
) -> State:
    """The queue: members, of which ``a:1:1`` waits for ten seconds, ``b:1:1`` for nine; observers, a letter each."""
    waited = {member: 10_000 - 1000 * (ord(member[0]) - ord("a")) for member in members} | dict(since or {})
    scores = {member.encode(): In(-ms) for member, ms in waited.items()}
    scores |= {f"observer:{client}".encode(): In(OBSERVER_SINCE) for client in observers}
    scores |= {f"notified:{member}".encode(): In(NOTIFIED_AT) for member in notified}
    return {WAIT_QUEUE: Entry("zset", dict(scores), KEPT_MS)}


def wait_for_permits(
    count: int = 1, *, me: str = "a:1:1", waited: int = 10_000, rest: int = -1, chosen: bool = False, number: int = 5
) -> Call:
    args = number, count, me, waited, rest, int(chosen), KEPT_MS, "PUBLISH"
    return Call("semaphore_acquire_waiting", (LOCK, DONE, WAIT_QUEUE), args)


def wait_for_permit(
    permits: bytes = PERMIT,
    *,
    me: str = "a:1:1",
    waited: int = 10_000,
    rest: int = -1,
    chosen: bool = False,
    lease: int = -1,
) -> Call:
    args = 5, permits, "PUBLISH", lease, me, waited, rest, int(chosen), KEPT_MS, "PUBLISH"
    return Call("permit_acquire_waiting", (LOCK, DONE, PERMITS, TAKEN, WAIT_QUEUE), args)


def stop_waiting(me: str = "a:1:1", *, expirable: bool = False) -> Call:
    return Call("semaphore_stop_waiting", (LOCK, WAIT_QUEUE, *((TAKEN,) if expirable else ())), (me, "PUBLISH"))


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
    (permits(3) | taken(ENDLESS), lambda number: give_all(PERMIT, number=number)),
    (permits(3) | taken(ENDLESS), lambda number: lease_permit(lease=60_000, number=number)),
    (permits(3), lambda number: set_permits(4, number=number)),
    (permits(3), lambda number: add_expirable(2, number=number)),
    (permits(3), lambda number: count_down(number=number)),
]


def answered(call: Call, outcome: int) -> Any:
    """The reply that says so."""
    return {"semaphore_acquire": [outcome, 0], "permit_acquire": [outcome, 0, 0]}.get(call.script, outcome)


#: What is the same for all that have a number.
CASES: Final = [
    case
    for state, make in NUMBERED
    for case in (
        Case(
            "a repeat is answered with the recorded outcome",
            state | done(5, 7, 20_000),
            make(5),
            answered(make(5), 7),
            state | done(5, 7),
        ),
        Case("a repeat of a refused request is answered with 0", state | done(5, 0), make(5), answered(make(5), 0)),
        Case(
            "a request with a lower number than the recorded one is stale",
            state | done(6, 1, 20_000),
            make(5),
            [b"stale", b"6"],
        ),
        Case("the numbers of requests are compared as numbers", state | done(10, 1), make(9), [b"stale", b"10"]),
        Case("an error if the record is no string", state | {DONE: Entry("list", [ME], None)}, make(5), WRONGTYPE),
        Case(
            "out of memory: a repeat is answered with the recorded outcome",
            state | done(5, 1, 20_000),
            make(5),
            answered(make(5), 1),
            state | done(5, 1),
            out_of_memory=True,
        ),
    )
]
