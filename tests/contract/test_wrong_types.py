"""A key that holds something else: the error names it, what it holds, and what fits."""

from __future__ import annotations

from typing import Any

import pytest

from pyredisson import LockError
from tests.worlds.base import Actor, Remote, World

STORED: dict[str, tuple[str, ...]] = {
    "string": ("SET", "orders", "something"),
    "hash": ("HSET", "orders", "field", "1"),
    "read-write lock": ("HSET", "orders", "mode", "read"),
    "list": ("RPUSH", "orders", "one"),
    "sorted set": ("ZADD", "orders", "1", "one"),
}

#: What the message says that fits.
FITTING = {
    "string": "get_token_lock",
    "hash": "get_fair_lock",
    "read-write lock": "get_read_write_lock",
    "list": "nothing of",
    "sorted set": "nothing of",
}

HASHES = ["lock", "fair_lock", "fenced_lock", "spin_lock", "non_reentrant_lock", "read_lock", "write_lock"]
STRINGS = ["token_lock", "semaphore", "permit_expirable_semaphore", "count_down_latch"]


def made(actor: Actor, client: Remote, kind: str) -> Any:
    if kind in ("read_lock", "write_lock"):
        return getattr(actor.get(client, "read_write_lock"), kind)()
    return actor.get(client, kind)


def uses(handle: Any, kind: str) -> list[Any]:
    if kind == "count_down_latch":
        return [handle.count_down, handle.get_count, lambda: handle.wait(5)]
    if kind == "permit_expirable_semaphore":
        return [lambda: handle.try_acquire(5), handle.available_permits]
    if kind == "semaphore":
        return [lambda: handle.try_acquire(1, 5), handle.release, handle.available_permits]
    return [lambda: handle.try_lock(5), handle.enter]


FOREIGN = [
    *((kind, stored) for kind in HASHES for stored in STORED if stored not in ("hash", "read-write lock")),
    *((kind, stored) for kind in STRINGS for stored in STORED if stored != "string"),
]


@pytest.mark.parametrize(("kind", "stored"), FOREIGN)
def test_the_error_says_what_the_key_holds(world: World, kind: str, stored: str) -> None:
    handle = made(world.actor(), world.client(), kind)
    world.redis.command(*STORED[stored])
    before = world.redis.command("TYPE", "orders")
    for use in uses(handle, kind):
        with pytest.raises(LockError) as error:
            use()
        assert error.value.name == "orders"
        assert "'orders'" in str(error.value)
        assert stored in str(error.value)
        assert FITTING[stored] in str(error.value)
        assert "WRONGTYPE" in str(error.value.__cause__)
    assert world.redis.command("TYPE", "orders") == before


def test_an_unlock_says_so_too(world: World) -> None:
    mine = world.actor().lock(world.client())
    mine.lock()
    world.redis.delete("orders")
    world.redis.command("SET", "orders", "something")
    with pytest.raises(LockError, match="'orders' holds a string"):
        mine.unlock()


def test_a_key_beside_it_is_told_as_such(world: World) -> None:
    mine = world.actor().get(world.client(), "fenced_lock")
    world.redis.command("RPUSH", "redisson_lock_token:{orders}", "one")
    with pytest.raises(LockError, match="a key that belongs to 'orders'"):
        mine.try_lock()
