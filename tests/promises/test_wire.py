"""Byte for byte what Redisson stores and says, so that a Java and a Python process share one lock."""

from __future__ import annotations

from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_server
from tests.worlds.store import CHANNEL

STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


def test_the_state_of_a_lock_acquired_twice(world: World, client: Remote, alice: Actor, mine: Remote) -> None:
    """The first example state of the protocol's appendix, and what follows from it."""
    owner = f"{client.id}:{alice.number}"
    said = world.messages(CHANNEL)

    mine.lock()
    assert world.redis.everything() == {"orders": ("hash", {owner: "1"})}
    mine.lock()
    assert world.redis.everything() == {"orders": ("hash", {owner: "2"})}
    assert 25 < world.redis.ttl("orders") <= 30
    mine.unlock()
    assert world.redis.everything() == {"orders": ("hash", {owner: "1"})}
    assert 25 < world.redis.ttl("orders") <= 30
    assert said.received() == []
    mine.unlock()
    assert world.redis.everything() == {}
    assert said.received() == [b"0"]


def test_the_state_names_each_owner_and_its_count(world: World) -> None:
    """What Redisson says of its own holds is what it would say of ours."""
    world.redis.command("HSET", "orders", STRANGER, "2")
    mine = world.actor().lock(world.client())
    assert mine.is_locked()
    assert not mine.is_held_by_current_thread()
    assert not mine.is_held_by_thread(7)  # That of another client.
    assert mine.get_hold_count() == 0


def test_queries_return_the_stored_state(
    world: World, client: Remote, alice: Actor, bob: Actor, mine: Remote, theirs: Remote
) -> None:
    world.redis.command("HSET", "orders", f"{client.id}:{alice.number}", "3")
    world.redis.expire("orders", 20)
    assert mine.get_hold_count() == 3
    assert mine.is_held_by_current_thread()
    assert theirs.is_held_by_thread(alice.number)
    assert not theirs.is_held_by_thread(bob.number)
    assert 15 < mine.remain_time_to_live() <= 20


def test_an_owner_catches_up_with_the_epoch_that_is_stored_for_it(
    world: World, client: Remote, alice: Actor, mine: Remote
) -> None:
    """The one key of our own: it stands for a minute after a reply was lost, and bars the copies sent before."""
    epoch = f"pyredisson_epoch:{{orders}}:{client.id}:{alice.number}"
    for number, call in enumerate((mine.lock, mine.lock, mine.unlock, mine.unlock, mine.force_unlock)):
        world.redis.command("SET", epoch, str(10 * number + 7))
        call()
        assert world.redis.command("GET", epoch) == str(10 * number + 8).encode()
        assert world.redis.ttl(epoch) <= 60
    assert set(world.redis.everything()) == {epoch}


@each_server
def test_what_a_lock_costs_the_server_that_nobody_waits_for(world: World, mine: Remote) -> None:
    mine.lock()
    mine.unlock()
    needed = ("exists", "hincrby", "pexpire", "hget", "publish", "del")
    others = (
        "get",
        "mget",
        "set",
        "hset",
        "pttl",
        "time",
        "zadd",
        "zcount",
        "zrange",
        "zrangebyscore",
        "zrem",
        "zscore",
    )
    before = world.redis.calls(*needed), world.redis.calls(*others)
    mine.lock()
    mine.unlock()
    after = world.redis.calls(*needed), world.redis.calls(*others)
    # One EXISTS each: of the lock and the owner's epoch, then of the epoch and the list of the clients that wait.
    assert [after[0] - before[0], after[1] - before[1]] == [7, 0]


def test_a_server_that_forgot_its_scripts_gets_them_again(world: World, mine: Remote) -> None:
    for call in (mine.lock, mine.lock, mine.unlock, mine.unlock, mine.lock, mine.force_unlock):
        world.redis.command("SCRIPT", "FLUSH")
        call()
    assert world.redis.everything() == {}
