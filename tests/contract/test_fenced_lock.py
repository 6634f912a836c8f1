"""A fenced lock is a lock whose holds are numbered: each number is greater than all before it."""

from __future__ import annotations

import pytest

from pyredisson import LockLostError, LockNotOwnedError
from tests.worlds.base import World
from tests.worlds.store import CHANNEL

TOKEN = "redisson_lock_token:{orders}"


def test_tokens_grow_from_hold_to_hold(world: World) -> None:
    one, two = world.client(), world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(one, "fenced_lock"), bob.get(two, "fenced_lock")
    assert mine.get_token() is None
    tokens = []
    for lock in (mine, theirs, mine, mine, theirs):
        tokens.append(lock.lock_and_get_token())
        assert lock.get_token() == tokens[-1]
        lock.unlock()
    assert tokens == [1, 2, 3, 4, 5]
    assert theirs.get_token() == 5, "the last one, though nobody holds it"


def test_it_is_stored_as_by_redisson(world: World) -> None:
    client = world.client()
    alice = world.actor()
    mine = alice.get(client, "fenced_lock")
    owner = f"{client.id}:{alice.number}"
    said = world.messages(CHANNEL)
    mine.lock()
    assert world.redis.everything() == {"orders": ("hash", {owner: "1"}), TOKEN: ("string", "1")}
    assert 25 < world.redis.ttl("orders") <= 30
    assert world.redis.ttl(TOKEN) == float("inf")
    mine.unlock()
    assert world.redis.everything() == {TOKEN: ("string", "1")}
    assert said.received() == [b"0"]


def test_a_reentry_has_the_token_of_the_hold_that_it_joins(world: World) -> None:
    mine = world.actor().get(world.client(), "fenced_lock")
    first = mine.lock_and_get_token()
    assert mine.lock_and_get_token() == first
    assert mine.try_lock_and_get_token(1, 20) == first
    assert mine.get_hold_count() == 3
    assert mine.get_token() == first
    for _ in range(3):
        mine.unlock()
    assert mine.lock_and_get_token() == first + 1


def test_a_hold_acquired_as_another_kind_gets_a_token_on_re_entry(world: World) -> None:
    client = world.client()
    alice = world.actor()
    plain, fenced = alice.lock(client), alice.get(client, "fenced_lock")
    before = fenced.lock_and_get_token()
    fenced.unlock()
    plain.lock()
    assert fenced.get_token() == before, "a plain lock draws none"
    joined = fenced.lock_and_get_token()
    assert joined == before + 1
    assert fenced.lock_and_get_token() == joined
    assert plain.get_hold_count() == 3


def test_a_block_knows_its_token(world: World) -> None:
    client = world.client()
    alice = world.actor()
    mine = alice.get(client, "fenced_lock")
    with mine.hold(1, 20) as outer:
        assert outer.token == 1
        with mine.hold() as inner:
            assert inner.token == 1
    with mine.hold() as lease:
        assert lease.token == 2
    with alice.lock(client).hold() as lease:
        assert lease.token is None


def test_who_does_not_get_it_gets_no_token(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "fenced_lock"), bob.get(client, "fenced_lock")
    mine.lock()
    assert theirs.try_lock_and_get_token() is None
    assert theirs.try_lock_and_get_token(0.05, 20) is None
    assert not theirs.try_lock()
    assert theirs.get_token() == 1


def test_a_refusal_by_a_lock_without_ttl_is_no_success(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "fenced_lock"), bob.get(client, "fenced_lock")
    mine.lock()
    world.redis.command("PERSIST", "orders")
    assert theirs.try_lock_and_get_token() is None
    with pytest.raises(LockNotOwnedError):
        theirs.unlock()


def test_a_lease_is_honoured_by_every_method(world: World) -> None:
    mine = world.actor().get(world.client(), "fenced_lock")
    for take in (
        lambda: mine.lock_and_get_token(12),
        lambda: mine.try_lock_and_get_token(0, 12),
        lambda: mine.lock(12),
        lambda: mine.try_lock(0, 12),
    ):
        take()
        assert 10 < world.redis.ttl("orders") <= 12
        mine.unlock()


def test_a_waiter_acquires_when_it_is_notified(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "fenced_lock"), bob.get(client, "fenced_lock")
    mine.lock()
    waiting = bob.start(theirs.lock_and_get_token)
    world.until(lambda: world.waiting(mine) == 1)
    mine.unlock()
    assert waiting.result(within=5) == 2


def test_it_excludes_the_plain_lock_of_the_same_name(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "fenced_lock"), bob.lock(client)
    mine.lock()
    assert not theirs.try_lock()
    mine.unlock()
    assert theirs.try_lock()
    assert not mine.try_lock()


def test_a_lost_hold_is_not_joined(world: World) -> None:
    mine = world.actor().get(world.client(), "fenced_lock")
    mine.lock()
    world.redis.delete("orders")
    with pytest.raises(LockLostError):
        mine.lock_and_get_token()
    with pytest.raises(LockLostError):
        mine.unlock()
    assert mine.lock_and_get_token() == 2


def test_tokens_follow_the_servers_clock_if_they_shall(world: World) -> None:
    mine = world.actor().get(world.client(fence_from_clock=True), "fenced_lock")
    first = mine.lock_and_get_token()
    assert first > 1_500_000_000_000_000, "microseconds since 1970"
    assert mine.lock_and_get_token() == first
    mine.unlock()
    mine.unlock()
    world.redis.delete(TOKEN)
    world.pass_time(0.001)
    assert mine.lock_and_get_token() > first, "they grow through a loss of all data"
    mine.unlock()
    world.redis.command("SET", TOKEN, str(first + 10**14))
    assert mine.lock_and_get_token() == first + 10**14 + 1, "and beyond a clock that was ahead"


@pytest.mark.parametrize("name", ["shop{1}", "a{b"])
def test_the_token_of_a_name_with_braces(world: World, name: str) -> None:
    mine = world.actor().get(world.client(), "fenced_lock", name)
    mine.lock()
    assert world.redis.command("GET", f"redisson_lock_token:{name}") == b"1"
