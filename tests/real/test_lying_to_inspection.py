"""Servers that lie to the inspection: it ends soon, with what it could read or with an error of redis-py."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import redis

from pyredisson.tools.inspection import Inspector, Snapshot, wait_graph
from tests.proxy import Proxy
from tests.real.liars import LIES
from tests.real.test_lying_server import lie
from tests.real.test_lying_to_doctor import WRONG_TYPES
from tests.servers import Server

HOLDER = "8743c9c0-0795-4907-87fd-6c719a6b4586"
COMMANDS = [
    "CLIENT",
    "DBSIZE",
    "GETRANGE",
    "HGET",
    "HLEN",
    "HSCAN",
    "HSTRLEN",
    "LLEN",
    "LRANGE",
    "MEMORY",
    "PTTL",
    "PUBSUB",
    "SCAN",
    "STRLEN",
    "TIME",
    "TYPE",
    "ZCOUNT",
    "ZSCORE",
]
REPLIES = {
    **LIES,
    **WRONG_TYPES,
    "a huge number": b":9223372036854775807\r\n",
    "a negative number": b":-9\r\n",
    "a map": b"%1\r\n+a\r\n+b\r\n",
    "an error": b"-ERR no\r\n",
    "not permitted": b"-NOPERM this user has no permissions\r\n",
    "moved": b"-MOVED 1 127.0.0.1:1\r\n",
}


@pytest.fixture(autouse=True)
def stored(proxy: Proxy, valkey: Server, unique_name: str) -> Iterator[None]:
    """One of each layout, so that every question is asked."""
    with valkey.client() as direct:
        direct.hset(unique_name, f"{HOLDER}:1", 1)
        direct.rpush(f"redisson_lock_queue:{{{unique_name}}}", f"{HOLDER}:2")
        direct.zadd(f"redisson_lock_timeout:{{{unique_name}}}", {f"{HOLDER}:2": 4e12})
        direct.hset(f"{unique_name}:rw", mapping={"mode": "read", f"{HOLDER}:1": 1})
        direct.set(f"{unique_name}:token", "ab" * 20, px=60_000)
        direct.set(f"{unique_name}:permits", 2)
        direct.zadd(f"{{{unique_name}:permits}}:timeout", {"0123456789abcdef": 4e12})
        yield
        direct.delete(*direct.keys(f"*{unique_name}*"))


@pytest.mark.volume
@pytest.mark.parametrize("command", COMMANDS)
def test_a_lie_is_an_error_or_a_gap(proxy: Proxy, unique_name: str, command: str, volume: Callable[[int], int]) -> None:
    some = random.Random(command).sample(list(REPLIES.values()), max(3, volume(len(REPLIES))))
    for reply in some:
        lies = lie(proxy, command, reply)
        look(proxy.url, unique_name)
        lies.remove()


def look(url: str, name: str) -> None:
    """Look at everything. What is raised is an error of redis-py."""
    with Inspector(url, timeout=1.0) as inspector:
        try:
            seen = inspector.snapshot(f"*{name}*", seconds=2.0)
        except (redis.RedisError, OSError):
            seen = Snapshot(0.0)
        wait_graph(seen)
        for each in (name, f"{name}:rw", f"{name}:token", f"{name}:permits"):
            with suppress(redis.RedisError, OSError):
                inspector.lock(each)
        with suppress(redis.RedisError, OSError):
            inspector.clients()
