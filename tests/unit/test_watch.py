"""What must have happened between two looks at a lock, and how it is shown."""

from dataclasses import dataclass, replace

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from pyredisson._tools.sampling import Change, Evidence, changes
from pyredisson._tools.watch import Glance, changes_between, line_of, questions, read_glance, record_of
from pyredisson.inspection import LockView, Who

A = "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7"
B = "11111111-0b7d-4e7c-9d53-2f3d5c1b7a90:8"


def view(holders: dict[str, int] | None = None, mode: str | None = None, **more: object) -> LockView:
    owners = tuple(Who(owner=owner, holds=holds) for owner, holds in (holders or {}).items())
    return LockView(**{"name": "order:17", "kind": "lock", "node": "", "holders": owners, "mode": mode, **more})


FREE = view()
HELD = view({A: 1}, free_in=30.0)
BY_B = view({B: 1}, free_in=30.0)
TOKEN = view({"token 1f2e3d4c": 1}, free_in=30.0, kind="token_lock")
NOTHING = Evidence()
MESSAGE = Evidence(messages=1)
OVERDUE = Evidence(overdue=True)
FORCED = Evidence(messages=1, forced=True)


def events(before: LockView, after: LockView, evidence: Evidence) -> list[tuple[str, str | None]]:
    return [(change.event, change.who and change.who.owner) for change in changes(before, after, evidence)]


@pytest.mark.parametrize(
    ("before", "after", "evidence", "happened"),
    [
        (FREE, FREE, NOTHING, []),
        (HELD, HELD, NOTHING, []),
        (FREE, HELD, NOTHING, [("acquired", A)]),
        (HELD, FREE, MESSAGE, [("released", A)]),
        (HELD, FREE, OVERDUE, [("expired", A)]),
        (HELD, FREE, Evidence(expired=True), [("expired", A)]),
        (HELD, FREE, FORCED, [("forced", A)]),
        (HELD, FREE, NOTHING, [("ended", A)]),
        (HELD, BY_B, MESSAGE, [("released", A), ("acquired", B)]),
        (HELD, BY_B, OVERDUE, [("expired", A), ("acquired", B)]),
        (HELD, BY_B, NOTHING, [("ended", A), ("acquired", B)]),
        # A release in time, just before the look at the end of the lease.
        (HELD, FREE, replace(OVERDUE, messages=1), [("released", A)]),
        # Holds that began and ended between two looks.
        (FREE, FREE, MESSAGE, [("released", None)]),
        (HELD, BY_B, Evidence(messages=3), [("released", A), ("released", None), ("acquired", B)]),
        # Nested holds.
        (HELD, view({A: 2}), NOTHING, [("reentered", A)]),
        # A token lock sends no message.
        (TOKEN, FREE, NOTHING, [("released", "token 1f2e3d4c")]),
        (TOKEN, FREE, OVERDUE, [("expired", "token 1f2e3d4c")]),
        # Of several readers, only the last one sends a message.
        (view({A: 1, B: 1}, "read"), view({B: 1}, "read"), NOTHING, [("released", A)]),
        (view({B: 1}, "read"), FREE, MESSAGE, [("released", B)]),
        # A plain semaphore, or a latch.
        (view(permits=3), view(permits=2), MESSAGE, [("changed", None)]),
        (view(permits=3), view(permits=3), MESSAGE, []),
        # The writer of a read-write lock goes on as a reader.
        (view({f"{A}:write": 1}, "write"), view({A: 1}, "read"), MESSAGE, []),
        # A semaphore whose permits have ids.
        (view(permits=2), view({"permit 00ff": 1}, permits=1), NOTHING, [("acquired", "permit 00ff")]),
        (view({"permit 00ff": 1}, permits=1), view(permits=2), MESSAGE, [("released", "permit 00ff")]),
    ],
)
def test_what_happened_between_two_looks(before, after, evidence, happened):
    assert events(before, after, evidence) == happened


def test_holds_that_were_not_seen_are_counted():
    assert [change.count for change in changes(FREE, FREE, Evidence(messages=5))] == [5]


def test_a_lock_that_another_owner_held_in_the_same_interval_was_handed_over():
    assert [change.handed_over for change in changes(HELD, BY_B, MESSAGE)] == [False, True]
    assert [change.handed_over for change in changes(FREE, BY_B, NOTHING)] == [False]


WRONG = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
COUNTS = [b"a", 2, b"b", 0, b"c", 0, b"d", 0]


def read(
    left: object = -1,
    hashed: object = WRONG,
    value: object = WRONG,
    permits: object = (),
    token: object = None,
    queued: object = 0,
    subscribed: object = (),
    listed: object = 0,
    key_type: object = b"none",
) -> Glance:
    replies = [left, hashed, value, list(permits) if permits == () else permits, token, queued]
    return read_glance(b"orders", [*replies, list(subscribed) if subscribed == () else subscribed, listed, key_type])


def holds(glance: Glance) -> dict[str, int]:
    return {who.owner: who.holds for who in glance.lock.holders}


def test_a_look_is_read():
    assert len(questions(b"orders")) == len([29_000, 1, 2, 3, 4, 5, 6, 7, 8])
    hashed = read(29_000, [b"0", [A.encode(), b"2"]], token=b"17", queued=3, subscribed=COUNTS, key_type=b"hash")
    assert (holds(hashed), hashed.lock.free_in, hashed.lock.token) == ({A: 2}, 29.0, 17)
    assert (hashed.queued, hashed.lock.waiting_clients, hashed.waiting) == (3, 2, 3)
    written = read(-1, [b"0", [b"mode", b"write", A.encode() + b":write", b"1"]], subscribed=COUNTS, key_type=b"hash")
    assert (holds(written), written.lock.mode, written.waiting) == ({f"{A}:write": 1}, "write", 2)
    assert written.lock.free_in is None
    free = read(-2, [b"0", []], b"", subscribed=COUNTS)
    assert free == Glance(view(name="orders", waiting_clients=2, keys=("orders",)))
    with_observers = [*COUNTS, b"pyredisson_waiting:{orders}", 2]
    assert read(-2, [b"0", []], b"", subscribed=with_observers, listed=5).lock.waiting_clients == 5
    assert read(value=b"3", key_type=b"string").lock.permits == 3
    token = read(500, value=b"0123456789abcdef0123456789abcdef01234567")
    assert [event for event, _ in events(token.lock, FREE, NOTHING)] == ["released"], "it sends no message"
    assert [owner[:6] for owner in holds(token)] == ["token "]
    other = read(500, value=b"cP3pmRS0XkbX7aPT9TVjHQ==")
    assert [event for event, _ in events(other.lock, FREE, NOTHING)] == ["released"]
    foreign = read(value=b"dark")
    assert [owner[:7] for owner in holds(foreign)] == ["string "], "perhaps no lock"
    assert holds(read(500, value=b"x" * 65)) == {}, "too long for a token"
    permits = read(value=b"1", permits=[b"\x00\xff"])
    assert holds(permits) == {"permit 00ff": 1}
    assert permits.lock.permits == 1


def test_a_key_that_is_no_lock_is_called_so():
    hashed = read(-1, [b"0", [b"name", b"bob"]], subscribed=COUNTS, key_type=b"hash")
    assert hashed.foreign == "no lock: the key holds a hash of another program"
    listed = read(permits=WRONG, subscribed=COUNTS, key_type=b"list")
    assert listed.foreign == "no lock: the key holds a list of another program"
    free, number = read(-2, [b"0", []], b"", subscribed=COUNTS), read(value=b"3", key_type=b"string")
    assert free.foreign is None
    assert number.foreign is None
    held = read(29_000, [b"0", [A.encode(), b"1"]], subscribed=COUNTS, key_type=b"hash")
    assert (holds(held), held.lock.free_in, held.waiting, held.foreign) == ({A: 1}, 29.0, 2, None)

    def between(before, after):
        return [change.event for change in changes_between(before, after, NOTHING)]

    assert between(free, listed) == ["no_lock"]
    assert between(listed, free) == ["free"]
    assert between(listed, held) == ["acquired"]
    assert (
        line(Change("no_lock"), Seen(state=listed))
        == "no lock   the key holds a list of another program, 2 clients waiting"
    )


def test_who_waits_is_counted_by_client_unless_there_is_a_queue():
    two = replace(FREE, waiting_clients=2)
    assert line(Change("free"), Seen(state=Glance(replace(FREE, waiting_clients=1)))) == "free      1 client waiting"
    assert line(Change("free"), Seen(state=Glance(two))) == "free      2 clients waiting"
    assert line(Change("free"), Seen(state=Glance(two, queued=5))) == "free      5 queued"


def test_a_look_at_nonsense_is_no_error():
    nothing = Glance(view(name="orders", keys=("orders",)))
    assert read("x", {}, 7, b"x", WRONG, b"y", 3, "z", 5) == nothing
    assert read(None, [b"0", [b"\xff", b"\xfe", b"name"]], None, None, b"x", None, None, None, None) == nothing
    large = [b"%s" % A.replace("7", "8").encode(), b"9" * 100]
    assert list(holds(read(None, [b"0", large], None, None, None, None, None)).values()) == [1]


def test_a_look_that_is_refused_is_not_taken_for_a_free_lock():
    with pytest.raises(NoPermissionError):
        read(NoPermissionError("NOPERM"))


@dataclass
class Seen:
    name: str = "order:17"
    state: Glance | None = Glance(HELD)  # noqa: RUF009


WHO = Who("8f3a1c5e", 12, app="web", host="web-3", pid=4711)


def line(change: Change, seen: Seen | None = None, *, named: bool = False) -> str:
    return line_of(record_of(1_700_000_000.5, seen or Seen(), change), named=named).split("  ", 1)[1]


def test_an_event_is_a_line():
    waited_for = Glance(HELD, queued=3)
    assert line(Change("acquired", WHO, handed_over=True, holds=1)) == "acquired  web@web-3 pid 4711 t12  handed over"
    seen = Seen(state=waited_for)
    assert line(Change("released", WHO, held=41.79), seen) == "released  web@web-3 pid 4711 t12  held 42 s, 3 queued"
    assert line(Change("expired", WHO, held=30.0)).endswith(
        "EXPIRED   web@web-3 pid 4711 t12  held 30 s, not renewed in time"
    )
    assert line(Change("forced", WHO)).startswith("FORCED    web@web-3")
    assert line(Change("ended", WHO)).endswith(
        "without a message: a fair or spin lock was released, or it was removed by hand"
    )
    assert line(Change("released", count=3)) == "released  3 holds that were not seen"
    assert line(Change("free"), Seen(state=Glance(FREE)), named=True) == "order:17  free"
    assert line(Change("acquired", WHO), Seen(state=Glance(replace(HELD, mode="read", token=7)))).endswith(
        "read side, token 7"
    )


def test_names_do_not_move_the_terminal():
    assert "\x1b" not in line(Change("free"), Seen(name="\x1b]0;x\x07"), named=True)
    who = replace(WHO, app="\x1b[31m")
    assert "\x1b" not in line_of(record_of(0, Seen(), Change("acquired", who)), named=False)
