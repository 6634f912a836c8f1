"""What must have happened between two looks at a lock, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from pyredisson.inspection import Who
from pyredisson.tools.watch.show import line_of, record_of
from pyredisson.tools.watch.states import Change, Evidence, State, changes, look_at, read_look

A = "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7"
B = "11111111-0b7d-4e7c-9d53-2f3d5c1b7a90:8"

FREE = State()
HELD = State(holders={A: 1}, ends=30.0)
BY_B = State(holders={B: 1}, ends=30.0)
TOKEN = State(holders={"token 1f2e3d4c": 1}, ends=30.0, silent=True)
NOTHING = Evidence()
MESSAGE = Evidence(messages=1)
OVERDUE = Evidence(overdue=True)
FORCED = Evidence(messages=1, forced=True)


def events(before: State, after: State, evidence: Evidence) -> list[tuple[str, str | None]]:
    return [(change.event, change.owner) for change in changes(before, after, evidence)]


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
        (HELD, replace(HELD, holders={A: 2}), NOTHING, [("reentered", A)]),
        # A token lock sends no message.
        (TOKEN, FREE, NOTHING, [("released", "token 1f2e3d4c")]),
        (TOKEN, FREE, OVERDUE, [("expired", "token 1f2e3d4c")]),
        # Of several readers, only the last one sends a message.
        (State({A: 1, B: 1}, "read"), State({B: 1}, "read"), NOTHING, [("released", A)]),
        (State({B: 1}, "read"), FREE, MESSAGE, [("released", B)]),
        # A plain semaphore, or a latch.
        (State(number=3), State(number=2), MESSAGE, [("changed", None)]),
        (State(number=3), State(number=3), MESSAGE, []),
        # A semaphore whose permits have ids.
        (State(number=2), State({"permit 00ff": 1}, number=1), NOTHING, [("acquired", "permit 00ff")]),
        (State({"permit 00ff": 1}, number=1), State(number=2), MESSAGE, [("released", "permit 00ff")]),
    ],
)
def test_what_happened_between_two_looks(
    before: State, after: State, evidence: Evidence, happened: list[tuple[str, str | None]]
) -> None:
    assert events(before, after, evidence) == happened


def test_holds_that_were_not_seen_are_counted() -> None:
    assert [change.count for change in changes(FREE, FREE, Evidence(messages=5))] == [5]


def test_a_lock_that_another_owner_held_in_the_same_interval_was_handed_over() -> None:
    assert [change.handed_over for change in changes(HELD, BY_B, MESSAGE)] == [False, True]
    assert [change.handed_over for change in changes(FREE, BY_B, NOTHING)] == [False]


WRONG = ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
COUNTS = [b"a", 2, b"b", 0, b"c", 0, b"d", 0]


def test_a_look_is_read() -> None:
    assert len(look_at("orders")) == len([29_000, 1, 2, 3, 4, 5, 6, 7, 8])
    hashed = [29_000, [b"0", [A.encode(), b"2"]], WRONG, [], b"17", 3, COUNTS]
    assert read_look(hashed) == State({A: 2}, ends=29.0, token=17, queued=3, subscribed=2)
    written = [-1, [b"0", [b"mode", b"write", A.encode() + b":write", b"1"]], WRONG, [], None, 0, COUNTS]
    assert read_look(written) == State({A: 1}, "write", subscribed=2)
    assert read_look([-2, [b"0", []], b"", [], None, 0, COUNTS]) == State(subscribed=2)
    with_ears = [*COUNTS, b"pyredisson_waiting:{orders}", 2]
    assert read_look([-2, [b"0", []], b"", [], None, 0, with_ears, 5]) == State(subscribed=5)
    assert read_look([-1, WRONG, b"3", [], None, 0, []]) == State(number=3)
    token = read_look([500, WRONG, b"0123456789abcdef0123456789abcdef01234567", [], None, 0, []])
    assert token.silent
    assert [owner[:6] for owner in token.holders] == ["token "]
    assert read_look([500, WRONG, b"cP3pmRS0XkbX7aPT9TVjHQ==", [], None, 0, []]).silent
    foreign = read_look([-1, WRONG, b"dark", [], None, 0, []])
    assert [owner[:7] for owner in foreign.holders] == ["string "], "perhaps no lock"
    assert read_look([500, WRONG, b"x" * 65, [], None, 0, []]).holders == {}, "too long for a token"
    permits = read_look([-1, WRONG, b"1", [b"\x00\xff"], None, 0, []])
    assert permits.holders == {"permit 00ff": 1}


def test_a_key_that_is_no_lock_is_called_so() -> None:
    hashed = read_look([-1, [b"0", [b"name", b"bob"]], WRONG, WRONG, None, 0, COUNTS, 0, b"hash"])
    assert hashed.foreign == "no lock: the key holds a hash of another program"
    listed = read_look([-1, WRONG, WRONG, WRONG, None, 0, COUNTS, 0, b"list"])
    assert listed.foreign == "no lock: the key holds a list of another program"
    for found in (
        [-2, [b"0", []], b"", [], None, 0, COUNTS, 0, b"none"],
        [-1, WRONG, b"3", [], None, 0, [], 0, b"string"],
    ):
        assert read_look(found).foreign is None
    held = [29_000, [b"0", [A.encode(), b"1"]], WRONG, [], None, 0, COUNTS, 0, b"hash"]
    assert read_look(held) == replace(HELD, ends=29.0, subscribed=2)
    assert events(FREE, listed, NOTHING) == [("no_lock", None)]
    assert events(listed, FREE, NOTHING) == [("free", None)]
    assert events(listed, HELD, NOTHING) == [("acquired", A)]
    assert (
        line(Change("no_lock"), Seen(state=listed))
        == "no lock   the key holds a list of another program, 2 clients waiting"
    )


def test_who_waits_is_counted_by_client_unless_there_is_a_queue() -> None:
    assert line(Change("free"), Seen(state=replace(FREE, subscribed=1))) == "free      1 client waiting"
    assert line(Change("free"), Seen(state=replace(FREE, subscribed=2))) == "free      2 clients waiting"
    assert line(Change("free"), Seen(state=replace(FREE, subscribed=2, queued=5))) == "free      5 queued"


def test_a_look_at_nonsense_is_no_error() -> None:
    assert read_look(["x", {}, 7, b"x", WRONG, b"y", 3]) == State()
    assert read_look([None, [b"0", [b"\xff", b"\xfe", b"name"]], None, None, b"x", None, None]) == State()
    large = [b"%s" % A.replace("7", "8").encode(), b"9" * 100]
    assert list(read_look([None, [b"0", large], None, None, None, None, None]).holders.values()) == [1]


def test_a_look_that_is_refused_is_not_taken_for_a_free_lock() -> None:
    with pytest.raises(NoPermissionError):
        read_look([NoPermissionError("NOPERM"), *[WRONG] * 6])


@dataclass
class Seen:
    name: str = "order:17"
    state: State | None = HELD


WHO = Who("8f3a1c5e", 12, app="web", host="web-3", pid=4711)


def line(change: Change, seen: Seen | None = None, *, named: bool = False) -> str:
    return line_of(record_of(1_700_000_000.5, seen or Seen(), change, WHO), named=named).split("  ", 1)[1]


def test_an_event_is_a_line() -> None:
    waited_for = replace(HELD, queued=3)
    assert line(Change("acquired", A, handed_over=True, holds=1)) == "acquired  web@web-3 pid 4711 t12  handed over"
    seen = Seen(state=waited_for)
    assert line(Change("released", A, held=41.79), seen) == "released  web@web-3 pid 4711 t12  held 42 s, 3 queued"
    assert line(Change("expired", A, held=30.0)).endswith(
        "EXPIRED   web@web-3 pid 4711 t12  held 30 s, not renewed in time"
    )
    assert line(Change("forced", A)).startswith("FORCED    web@web-3")
    assert line(Change("ended", A)).endswith("without a message: a fair or spin lock, or removed by hand")
    assert line(Change("released", count=3)) == "released  3 holds that were not seen"
    assert line(Change("free"), Seen(state=FREE), named=True) == "order:17  free"
    assert line(Change("acquired", A), Seen(state=replace(HELD, mode="read", token=7))).endswith("read side, token 7")


def test_names_do_not_move_the_terminal() -> None:
    assert "\x1b" not in line(Change("free"), Seen(name="\x1b]0;x\x07"), named=True)
    who = replace(WHO, app="\x1b[31m")
    assert "\x1b" not in line_of(record_of(0, Seen(), Change("acquired", A), who), named=False)


def test_an_event_as_json_has_units_in_its_names() -> None:
    record = json.loads(json.dumps(record_of(1_700_000_000.5, Seen(), Change("released", A, held=1.5), WHO)))
    assert record["schema"] == 1
    assert record["at_unix_ms"] == 1_700_000_000_500
    assert (record["event"], record["name"], record["held_ms"]) == ("released", "order:17", 1500)
    assert record["holder"]["label"] == "web@web-3 pid 4711 t12"
