"""What each script in ``pyredisson/_lua`` does, case by case: on the simulated server, and on every real one.

A case says what is stored before, the call, the reply, what is stored after, and which messages were published. This
module runs them; the cases are in ``*_cases.py``, a file for each family of scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from tests.scripts.compared_servers import Message, Model, RealServer, comparable, microseconds
from tests.scripts.random_steps import SCRIPTS
from tests.simulated.engine.redis import Entry, ServerError

# Leases are tens of seconds apart, so that a slow machine does not make one look like another.
TOLERANCE_MS: Final = 5_000
LOCK: Final = b"orders"
TICKETS: Final = b"tickets"
CHANNEL: Final = b"redisson_lock__channel:{orders}"
RW_CHANNEL: Final = b"redisson_rwlock:{orders}"
PERMITS: Final = b"redisson_sc:{orders}"
CLIENT: Final = "8743c9c0-0795-4907-87fd-6c719a6b4586"
ME: Final = f"{CLIENT}:7".encode()
OTHER: Final = f"{CLIENT}:9".encode()
DEAD: Final = f"{CLIENT}:11".encode()
EPOCH: Final = b"pyredisson_epoch:{orders}:" + ME
WAIT_QUEUE: Final = b"pyredisson_waiting:{orders}"
ALIVE: Final = b"pyredisson_lock_alive:{orders}"


State: TypeAlias = dict[bytes, Entry]


class In(float):
    """A score, or a field: so many milliseconds from now."""


class Around(int):
    """A number of milliseconds, of which a few may have gone by."""


def lock(ttl_ms: int | None = 30_000, *, me: int | str | None = None, other: int | None = None) -> State:
    """The lock's hash: how many holds each owner has."""
    held = {ME: me, OTHER: other}
    fields = {owner: str(holds).encode() for owner, holds in held.items() if holds is not None}
    return {LOCK: Entry("hash", fields, ttl_ms)}


def tickets(ttl_ms: int | None, **held: int) -> State:
    """A second lock."""
    return {TICKETS: lock(ttl_ms, **held)[LOCK]}


def epoch(number: int, ttl_ms: int | None = 60_000) -> State:
    """My epoch, as a server keeps it after a reply was lost."""
    return {EPOCH: Entry("string", b"%d" % number, ttl_ms)}


def text(key: bytes, value: bytes = b"1") -> State:
    return {key: Entry("string", value, None)}


FREE: Final[State] = {}
#: The reply to a release that frees: 1, and the one connection that hears of it, the test's own.
RELEASED: Final = 2
FREED: Final = (Message(CHANNEL, b"0", sharded=False),)
LOST: Final = [b"lost"]
WRONGTYPE: Final = ServerError("WRONGTYPE", "Operation against a key holding the wrong kind of value")
OOM: Final = ServerError("OOM", "command not allowed when used memory > 'maxmemory'.")


def stale(stored: int) -> list[bytes]:
    return [b"stale", b"%d" % stored]


@dataclass(frozen=True)
class Call:
    script: str
    keys: tuple[bytes, ...]
    args: tuple[bytes | str | int, ...]


@dataclass(frozen=True)
class Case:
    """One case; its fields are in the order of events.

    Attributes:
        after: What is stored then, or ``None`` for what was stored before.
        out_of_memory: The server has none left.
    """

    name: str
    before: State
    call: Call
    reply: Any
    after: State | None = None
    messages: Sequence[Message] = ()
    out_of_memory: bool = False


ComparedServer: TypeAlias = "Model | RealServer"


def store(server: ComparedServer, state: State) -> None:
    for key, entry in state.items():
        match entry.value:
            case bytes() as value:
                server.call("SET", key, value)
            case list() as items:
                server.call("RPUSH", key, *items)
            case dict() as fields:
                now = now_ms(server)
                for field, value in fields.items():
                    meant = now + value if isinstance(value, In) else value
                    if entry.type == "zset":
                        server.call("ZADD", key, f"{meant:.1f}", field)
                    else:
                        server.call("HSET", key, field, f"{meant:.0f}" if isinstance(value, In) else value)
        if entry.ttl_ms is not None:
            server.call("PEXPIRE", key, entry.ttl_ms)


def now_ms(server: ComparedServer) -> int:
    return microseconds(server.call("TIME")) // 1000


def run(server: ComparedServer, call: Call) -> Any:
    return server.call("EVAL", SCRIPTS[call.script], len(call.keys), *call.keys, *call.args)


def check_reply(server: ComparedServer, reply: Any, expected: Any) -> None:
    if isinstance(expected, Around):
        assert isinstance(reply, int)
        assert expected - TOLERANCE_MS <= reply <= expected
    elif isinstance(expected, ServerError):
        assert isinstance(reply, ServerError), reply
        assert comparable(reply).startswith(str(expected))
    elif isinstance(expected, list) and isinstance(reply, list):
        assert len(reply) == len(expected), reply
        for each, meant in zip(reply, expected, strict=True):
            check_reply(server, each, meant)
    else:
        assert reply == expected


def without_times(state: State) -> State:
    """The same with what changes with the clock taken out: TTLs, the values of scores, and of fields that are times."""
    return {
        key: each._replace(ttl_ms=None, value=set(each.value) if each.type == "zset" or key == ALIVE else each.value)
        for key, each in state.items()
    }


def check_state(server: ComparedServer, expected: State) -> None:
    found = server.state()
    assert without_times(found) == without_times(expected)
    now = now_ms(server)
    for key, each in expected.items():
        if each.type == "zset" or (key == ALIVE and each.type == "hash"):
            for member, score in each.value.items():
                meant = score + now if isinstance(score, In) else score
                is_now = float(found[key].value[member])
                assert meant - TOLERANCE_MS <= is_now <= meant + 1, (key, member, score)
        ttl_ms = found[key].ttl_ms
        if each.ttl_ms is None or ttl_ms is None:
            assert ttl_ms == each.ttl_ms, key
        else:
            assert each.ttl_ms - TOLERANCE_MS <= ttl_ms <= each.ttl_ms, key


def check(server: ComparedServer, case: Case) -> None:
    """Run a case on one of the servers."""
    if "SPUBLISH" in case.call.args and not server.has_sharded_pubsub:
        pytest.skip("this build has no SPUBLISH")
    store(server, case.before)
    server.out_of_memory(case.out_of_memory)
    reply = run(server, case.call)
    server.out_of_memory(False)
    check_reply(server, reply, case.reply)
    check_state(server, case.before if case.after is None else case.after)
    assert server.messages() == list(case.messages)
