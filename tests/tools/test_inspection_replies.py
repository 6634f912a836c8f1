"""How an inspection reads what is stored and what servers answer: nothing of it can break or block it."""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from typing import Any

import pytest

from pyredisson._core.holder_lookup import StoredOwner, read_client_list, read_owner, read_presence
from pyredisson.inspection import LockView, WaiterView, Who, as_json, wait_graph
from pyredisson.inspection.libraries import read_token
from pyredisson.inspection.model import People, Stored, usual_kind, view_of
from pyredisson.inspection.servers import glob_to_pattern, read_numsub

CLIENT = "8743c9c0-0795-4907-87fd-6c719a6b4586"
LOCK = usual_kind("owners")
OTHER = "11111111-0795-4907-87fd-6c719a6b4586"
NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("field", "owner"),
    [
        (f"{CLIENT}:7", StoredOwner(CLIENT, 7, False)),
        (f"{CLIENT}:-7", StoredOwner(CLIENT, -7, False)),
        (f"{CLIENT}:7:write", StoredOwner(CLIENT, 7, True)),
        (f"{CLIENT}:7:{'0' * 32}", StoredOwner(CLIENT, 7, False)),
        (f"{CLIENT}:7:write:{'0' * 32}", StoredOwner(CLIENT, 7, True)),
        ("mode", None),
        ("user:7", None),
        (CLIENT, None),
        (f"{CLIENT}:7\n", None),
        (f"{CLIENT}:{'7' * 500}", None),
        (CLIENT.upper() + ":7", None),
        ("", None),
    ],
)
def test_an_owner(field, owner):
    assert read_owner(field.encode()) == owner


def test_a_token_of_redis_py_says_when_it_was_made():
    token = uuid.uuid1()
    made = (token.time - 0x01B21DD213814000) / 1e7
    seen = read_token(b"orders", token.hex.encode(), made + 5)
    assert seen is not None
    assert (seen.runtime, seen.made) == ("redis-py", made)
    later = read_token(b"orders", token.hex.encode(), made + 3 * 366 * 86_400)
    assert later is not None
    assert (later.runtime, later.made) == ("unknown", None), "too old to be one"


@pytest.mark.parametrize(
    ("value", "runtime", "has_form"),
    [
        (b"ab" * 20, "pyredisson", True),
        (hashlib.md5(b"x").hexdigest().encode(), "unknown", True),
        (b"cP3pmRS0XkbX7aPT9TVjHQ==", "unknown", True),
        (b"cP3pmRS0XkbX7aPT9TVjHQ", "unknown", True),
        (b"73ca62a9-3f15-4c73-89b6-8dad464ba84b", "unknown", True),
        (b"x" * 40, "unknown", False),
        (b"dark", "unknown", False),
        (b"\xff" * 32, "unknown", False),
        (b"12345678901234567890", "unknown", False),
        (b"x" * 65, None, False),
        (b"12345", None, False),
        (b"-1", None, False),
        (b"", None, False),
    ],
)
def test_whose_token_a_string_may_be(value, runtime, has_form):
    seen = read_token(b"orders", value, NOW)
    assert (None if seen is None else seen.runtime) == runtime
    assert (seen is not None and bool(seen.libraries)) == has_form


UUID_4 = b"73ca62a9-3f15-4c73-89b6-8dad464ba84b"
ADDED = b"ADDED:2026-09-21T10:13:20.500Z@worker-3.example.com:" + UUID_4


@pytest.mark.parametrize(
    ("key", "value", "libraries", "is_known"),
    [
        (b"lock:report", b"QWxhZGRpbjpvcGVuIHNlc2Ft", {"python-redis-lock"}, True),
        (b"orders", b"QWxhZGRpbjpvcGVuIHNlc2Ft", set(), False),
        (b"lock:report", b"worker-7", set(), False),
        (b"orders", b"cP3pmRS0XkbX7aPT9TVjHQ==", {"redsync"}, False),
        (b"orders", b"cP3pmRS0XkbX7aPT9TVjHQ", {"redislock"}, False),
        (b"orders", b"abcdefghijklmnopqrstuv", set(), False),
        (b"orders", b"0123456789abcdef" * 2, {"node-redlock", "redlock-universal"}, False),
        (b"redlock:orders", UUID_4, {"pottery", "RedLock.net"}, True),
        (b"mutex:orders", UUID_4, {"redis-semaphore"}, True),
        (b"registry:orders", UUID_4, {"sherlock", "Spring Integration"}, False),
        (b"registry", UUID_4, {"sherlock"}, False),
        (b"rueidislock:0:orders", bytes(range(200, 224)), {"rueidislock"}, True),
        (b"rueidislock:3:orders", bytes(range(200, 224)), set(), False),
        (b"job-lock:default:report", ADDED, {"ShedLock"}, True),
        (b"jobs:prod:report", ADDED, {"ShedLock"}, True),
        (b"qo_report", b"0123456789abcdef" * 2, {"node-redlock", "redlock-universal"}, False),
    ],
)
def test_whose_lock_a_key_and_its_value_are(key, value, libraries, is_known):
    seen = read_token(key, value, NOW)
    assert seen is not None
    assert ({each.name for each in seen.libraries}, seen.is_known) == (libraries, is_known)


def test_shedlock_says_when_and_where_it_acquired_a_lock():
    seen = read_token(b"job-lock:default:report", ADDED, NOW)
    assert seen is not None
    assert (seen.runtime, seen.made, seen.host) == ("ShedLock", 1_789_985_600.5, "worker-3.example.com")
    wrong = read_token(b"job-lock:default:report", ADDED.replace(b"-09-21", b"-99-99"), NOW)
    assert wrong is not None
    assert (wrong.made, wrong.host) == (None, "worker-3.example.com")


def test_a_token_of_redis_py_under_a_key_of_celery_once_is_of_that():
    token = uuid.uuid1()
    made = (token.time - 0x01B21DD213814000) / 1e7
    for key, name in ((b"qo_report", "celery-once"), (b"lock:report", "redis-py")):
        seen = read_token(key, token.hex.encode(), made + 5)
        assert seen is not None
        assert seen.runtime == name


def presence(**said: Any) -> bytes:
    holds = [{"kind": "lock", "name": "order:17", "id": 12, "thread": "MainThread", "ms": 41_000, "holds": 2}]
    waits = [{"kind": "fair_lock", "name": "order:18", "id": 12, "thread": "MainThread", "ms": 12_000}]
    text = {"v": 1, "version": "0.2.0", "app": "web", "host": "web-3", "pid": 4711, "ttl_ms": 30_000, "holds": holds}
    return json.dumps({**text, "waits": waits, "more": 3, **said}).encode()


def test_since_when_a_client_holds_is_counted_from_when_it_wrote_that():
    read = read_presence(CLIENT, presence(), 25_000, NOW)
    assert read is not None
    assert (read.app, read.host, read.pid, read.version, read.more) == ("web", "web-3", 4711, "0.2.0", 3)
    [hold], [wait] = read.holds, read.waits
    assert (hold.name, hold.thread_id, hold.thread, hold.holds, hold.since) == (
        "order:17",
        12,
        "MainThread",
        2,
        NOW - 41 - 5,
    )
    assert wait.since == NOW - 12 - 5


@pytest.mark.parametrize(
    "value",
    [None, 7, b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 10_000, b"1" * 5000, b" " * 1_000_000, b"x" * 1_000_000],
)
def test_a_broken_presence_entry_is_none(value):
    assert read_presence(CLIENT, value, 25_000, NOW) is None


@pytest.mark.parametrize(
    "said",
    [
        {"holds": 7, "waits": "none", "more": "many", "ttl_ms": "soon"},
        {"holds": [None, 7, [], {}, {"kind": 7, "name": "x"}, {"kind": "lock"}], "waits": {"kind": "lock"}},
        {"ttl_ms": 1e999, "pid": 1 << 200, "app": ["web"], "host": {"a": 1}, "version": True},
        {"holds": [{"kind": "lock", "name": "x", "ms": -1e300, "id": True, "holds": {}, "stack": [1, "\ud800"]}]},
        {"holds": [{"kind": "lock", "name": "\ud800", "thread": "\x1b[2J", "ms": None, "stack": "no list"}]},
        {"holds": [{"kind": "", "name": ""}] * 1500},
        {"surprise": {"of": "a later version"}},
    ],
)
def test_a_presence_entry_with_anything_in_it_is_read(said):
    read = read_presence(CLIENT, presence(**said), None, NOW)
    assert read is not None
    json.dumps(as_json(read)).encode()
    assert len(read.holds) <= 1000


def test_broken_presence_never_raises():
    """Valid entries with random bytes changed."""
    chance = random.Random(7)
    for _ in range(3000):
        text = bytearray(presence())
        for _ in range(chance.randint(1, 8)):
            text[chance.randrange(len(text))] = chance.randrange(256)
        read = read_presence(CLIENT, bytes(text), chance.choice([None, -2, -1, 0, 10**18]), NOW)
        json.dumps(as_json(read))


def test_connections_that_say_whose_they_are():
    listed = (
        f"id=3 addr=10.0.0.7:51422 laddr=x name=pyredisson:web:web-3:4711:{CLIENT} age=60 flags=N lib-name=redis-py\n"
        f"id=4 addr=10.0.0.7:51423 name=pyredisson:-:web-3:4711:{CLIENT} age=9 flags=P lib-ver=1\r\n"
        "id=5 addr=10.0.0.8:1 name= age=1 flags=S\n"
        "id=6 addr=[::1]:2 name=pyredisson:a:b:c:d age=x flags=N\n"
        "garbage\n\nid=x addr=1\nid=7\n"
    )
    found = read_client_list(listed.encode())
    assert [each.number for each in found] == [3, 4, 5, 6, 7]
    assert [each.client_id for each in found] == [CLIENT, CLIENT, None, None, None]
    assert (found[0].app, found[0].host, found[0].pid, found[0].age_seconds) == ("web", "web-3", 4711, 60)
    assert found[1].app is None


@pytest.mark.parametrize("reply", [None, 7, [], {}, b"", b"\xff\n\x00", b"id=" + b"9" * 100])
def test_a_list_of_clients_that_is_none(reply):
    assert read_client_list(reply) == []


def test_numbers_of_subscribers():
    assert read_numsub([b"a", 3, b"b", 0]) == {b"a": 3, b"b": 0}
    assert read_numsub({b"a": 3}) == {b"a": 3}
    assert read_numsub([b"a", b"3", 7, 7, b"c"]) == {}
    assert read_numsub(None) == {}


@pytest.mark.parametrize(
    ("glob", "matching", "other"),
    [
        ("order:*", "order:17", "orders"),
        ("order:?", "order:1", "order:17"),
        ("[ab]x", "ax", "cx"),
        ("[^ab]x", "cx", "ax"),
        ("[a-c]x", "bx", "dx"),
        (r"a\*", "a*", "ab"),
        ("a[", "a[", "a"),
        ("*" * 50 + "b", "ab", "a"),
    ],
)
def test_patterns_are_those_of_redis(glob, matching, other):
    pattern = glob_to_pattern(glob.encode())
    assert pattern.fullmatch(matching.encode())
    assert not pattern.fullmatch(other.encode())


# ---- views -----------------------------------------------------------------------------------------------------------


def named(client_id: str, number: int = 3) -> str:
    return f"id={number} addr=a:1 name=pyredisson:web:web-3:4711:{client_id} age=60 flags=N"


def people(*lines: str, complete: bool = True) -> People:
    return People(read_client_list("\n".join(lines).encode()), complete)


@pytest.mark.parametrize(
    ("known", "label", "connected"),
    [
        (people(named(CLIENT)), "web@web-3 pid 4711 t7", True),
        (people(), "?8743…:7 (no such client)", False),
        (people(complete=False), "?8743…:7", None),
        (people("id=9 addr=a:2 name= flags=N lib-name="), "?8743…:7", None),
        (people("id=9 addr=a:2 name= flags=N lib-name=redisson"), "Redisson 8743…:7", None),
        (people("id=9 addr=a:2 name= flags=N lib-name=lettuce"), "?8743…:7 (no such client)", False),
        (people("id=9 addr=a:2 name= flags=S"), "?8743…:7 (no such client)", False),
    ],
)
def test_who_a_holder_is(known, label, connected):
    stored = Stored(b"x", LOCK, left_ms=1500, fields={f"{CLIENT}:7".encode(): b"2"})
    view = view_of(stored, known, "node", "", NOW)
    [who] = view.holders
    assert (who.label, who.connected, who.holds, who.remaining) == (label, connected, 2, 1.5)
    assert (view.free_in, view.never_expires) == (1.5, False)


@pytest.mark.parametrize("count", [b"0", b"-1", b"", b"x", b"9" * 100])
def test_half_a_lock_is_shown_as_broken(count):
    stored = Stored(b"x", LOCK, left_ms=-1, fields={f"{CLIENT}:7".encode(): count})
    view = view_of(stored, people(), "node", "", NOW)
    assert view.never_expires
    assert any("broken" in note for note in view.notes)


def test_a_queue_with_dead_waiters():
    dead, alive = f"{OTHER}:1".encode(), f"{CLIENT}:2".encode()
    stored = Stored(b"x", LOCK, queue={dead: 999, alive: 2000}, queued=2, now_ms=1000.0)
    view = view_of(stored, people(named(CLIENT)), "node", "", NOW)
    assert [(each.place, each.expired) for each in view.waiters] == [(1, True), (2, False)]
    assert view.kind == "fair_lock"
    assert not view.held


@pytest.mark.parametrize(("kind", "waits"), [("lock", False), ("fair_lock", False), ("non_reentrant_lock", True)])
def test_an_owner_that_has_acquired_the_lock_since_it_reported_its_wait_does_not_wait(kind, waits):
    known = people(named(CLIENT))
    entry = {"kind": kind, "name": "x", "id": 7, "thread": "MainThread", "ms": 12_000}
    known.add(CLIENT, read_presence(CLIENT, presence(holds=[], waits=[entry]), 25_000, NOW))
    stored = Stored(b"x", LOCK, left_ms=1500, fields={f"{CLIENT}:7".encode(): b"1"})
    assert len(view_of(stored, known, "node", "", NOW).waiters) == waits
    free = Stored(b"x", LOCK)
    assert len(view_of(free, known, "node", "", NOW).waiters) == 1


# ---- who waits for whom ----------------------------------------------------------------------------------------------


def owner(number: int) -> Who:
    return Who(client_id=CLIENT, thread_id=number)


def lock(name: str, holders: list[int], waiters: list[int], kind: str = "lock", **more: Any) -> LockView:
    waiting = tuple(WaiterView(owner(each), more.pop("wanted", kind)) for each in waiters)
    return LockView(name, kind, "node", holders=tuple(map(owner, holders)), waiters=waiting, **more)


def cycles(*locks: LockView) -> list[list[str]]:
    return [[edge.lock for edge in cycle] for cycle in wait_graph(locks).cycles]


@pytest.mark.parametrize(
    ("locks", "expected"),
    [
        ([lock("a", [1], [2]), lock("b", [2], [3]), lock("c", [3], [1]), lock("d", [1], [9])], [["a", "b", "c"]]),
        ([lock("a", [1], [2, 3, 4]), lock("b", [2], [3, 4]), lock("c", [3], [4])], []),
        (
            [lock("a", [1], [2]), lock("b", [2], [1]), lock("c", [3], [4]), lock("d", [4], [3])],
            [["a", "b"], ["c", "d"]],
        ),
        ([lock("a", [1], [1], "read_write_lock", mode="read", wanted="write_lock")], [["a"]]),
        ([lock("a", [1], [2], "read_write_lock", mode="read", wanted="read_lock"), lock("b", [2], [1])], []),
        ([lock("a", [1], [2], "semaphore"), lock("b", [2], [1])], []),
    ],
    ids=["a cycle", "a chain", "two cycles", "an owner that waits for itself", "readers", "permits of any client"],
)
def test_owners_that_wait_for_each_other(locks, expected):
    assert sorted(map(sorted, cycles(*locks))) == expected


def test_many_waits_are_looked_at_in_a_bounded_time():
    many = [lock(str(number), [number], [number + 1]) for number in range(5000)]
    assert cycles(*many) == []
    [cycle] = cycles(*many, lock("last", [5000], [0]))
    assert len(cycle) == 5001
