"""Byte for byte what Redisson stores and says, so that a Java and a Python process share one lock."""

import math
import re
from typing import Any, NamedTuple

import pytest

from tests.worlds.environments import each_server
from tests.worlds.store import CHANNEL

STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


class Stored(NamedTuple):
    """What calls store, and what the calls that end it leave and publish. ``me`` is the owner."""

    kind: str
    calls: list[tuple[Any, ...]]
    stored: dict[str, tuple[str, Any]]
    ending: list[tuple[Any, ...]]
    left: dict[str, tuple[str, Any]]
    channel: str
    published: list[bytes]


TOKEN = {"redisson_lock_token:{orders}": ("string", "1")}
STATES = [
    Stored("lock", [("lock",)], {"orders": ("hash", {"me": "1"})}, [("unlock",)], {}, CHANNEL, [b"0"]),
    Stored("lock", [("lock",)] * 2, {"orders": ("hash", {"me": "2"})}, [("unlock",)] * 2, {}, CHANNEL, [b"0"]),
    Stored("lock", [("lock",)] * 2, {"orders": ("hash", {"me": "2"})}, [("force_unlock",)], {}, CHANNEL, [b"0"]),
    Stored("spin_lock", [("lock",)], {"orders": ("hash", {"me": "1"})}, [("force_unlock",)], {}, CHANNEL, []),
    Stored(
        "fenced_lock", [("lock",)], {"orders": ("hash", {"me": "1"})} | TOKEN, [("unlock",)], TOKEN, CHANNEL, [b"0"]
    ),
    Stored("token_lock", [("lock",)], {"orders": ("string", "40 digits")}, [("unlock",)], {}, CHANNEL, []),
    Stored("token_lock", [("lock",)], {"orders": ("string", "40 digits")}, [("force_unlock",)], {}, CHANNEL, []),
    Stored(
        "count_down_latch",
        [("try_set_count", 2), ("try_set_count", 3), ("count_down",)],
        {"orders": ("string", "1")},
        [("count_down",)],
        {},
        "redisson_countdownlatch__channel__{orders}",
        [b"1", b"0"],
    ),
    Stored(
        "semaphore",
        [("try_set_permits", 3), ("try_set_permits", 4), ("acquire", 2), ("release",), ("release", 5)],
        {"orders": ("string", "7"), "pyredisson_permits:{orders}": ("string", "3")},
        [("add_permits", 1), ("add_permits", -15), ("drain_permits",), ("add_permits", 0)],
        {"orders": ("string", "0"), "pyredisson_permits:{orders}": ("string", "-11")},
        "redisson_sc:{orders}",
        [b"3", b"2", b"7", b"8", b"-7", b"0"],
    ),
    Stored("semaphore", [("acquire", 0), ("release", 0)], {}, [], {}, "redisson_sc:{orders}", []),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.kind)
def test_what_calls_store_and_publish(world, client, alice, state):
    """The first example state of the protocol's appendix, and what follows from it."""
    me, mine = f"{client.id}:{alice.number}", alice.get(client, state.kind)
    published = world.messages(state.channel)

    def stored():
        """All but our record of an owner's last request, which stands for a minute."""
        everything = world.redis.everything()
        assert all(50 < world.redis.ttl(key) <= 60 for key in everything if key.startswith("pyredisson_done:"))
        everything.pop(f"pyredisson_done:{{orders}}:{me}", None)
        for key, (kind, value) in everything.items():
            if kind == "hash":
                everything[key] = (kind, {field.replace(me, "me"): count for field, count in value.items()})
            elif kind == "string" and re.fullmatch(r"[0-9a-f]{40}", value):  # A token: 20 random bytes.
                everything[key] = (kind, "40 digits")
        return everything

    for name, *arguments in state.calls:
        getattr(mine, name)(*arguments)
    assert stored() == state.stored
    if "lock" in state.kind:
        assert 25 < world.redis.ttl("orders") <= 30
        assert published.received() == []
    for name, *arguments in state.ending:
        getattr(mine, name)(*arguments)
    assert stored() == state.left
    assert published.received() == state.published
    assert all(world.redis.ttl(key) == math.inf for key in state.left)


def test_the_state_names_each_owner_and_its_count(world, mine):
    """What Redisson says of its own holds is what it would say of ours."""
    world.redis.command("HSET", "orders", STRANGER, "2")
    assert mine.is_locked()
    assert not mine.is_held_by_current_thread()
    assert not mine.is_held_by_thread(7)  # That of another client.
    assert mine.get_hold_count() == 0


def test_queries_return_the_stored_state(world, client, alice, bob, mine, theirs):
    world.redis.command("HSET", "orders", f"{client.id}:{alice.number}", "3")
    world.redis.expire("orders", 20)
    assert mine.get_hold_count() == 3
    assert mine.is_held_by_current_thread()
    assert theirs.is_held_by_thread(alice.number)
    assert not theirs.is_held_by_thread(bob.number)
    assert 15 < mine.remain_time_to_live() <= 20


def test_an_owner_catches_up_with_the_epoch_that_is_stored_for_it(world, client, alice, mine):
    """The one key of our own: it stands for a minute after a reply was lost, and bars the copies sent before."""
    epoch = f"pyredisson_epoch:{{orders}}:{client.id}:{alice.number}"
    for number, call in enumerate((mine.lock, mine.lock, mine.unlock, mine.unlock, mine.force_unlock)):
        world.redis.command("SET", epoch, str(10 * number + 7))
        call()
        assert world.redis.command("GET", epoch) == str(10 * number + 8).encode()
        assert world.redis.ttl(epoch) <= 60
    assert set(world.redis.everything()) == {epoch}


@each_server
def test_what_a_lock_costs_the_server_that_nobody_waits_for(world, mine):
    mine.lock()
    mine.unlock()
    needed = ("exists", "hincrby", "pexpire", "hget", "publish", "del")
    others = ("get", "mget", "set", "hset", "pttl", "time", "zadd", "zcount", "zrange", "zrangebyscore")
    others += ("zrem", "zscore")
    before = world.redis.calls(*needed), world.redis.calls(*others)
    mine.lock()
    mine.unlock()
    after = world.redis.calls(*needed), world.redis.calls(*others)
    # One EXISTS each: of the lock and the owner's epoch, then of the epoch and the list of the clients that wait.
    assert [after[0] - before[0], after[1] - before[1]] == [7, 0]


def test_a_server_that_forgot_its_scripts_gets_them_again(world, mine):
    for call in (mine.lock, mine.lock, mine.unlock, mine.unlock, mine.lock, mine.force_unlock):
        world.redis.command("SCRIPT", "FLUSH")
        call()
    assert world.redis.everything() == {}
