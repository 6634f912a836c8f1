"""The token lock: a plain string, shared with every other client of the Redlock kind, and as safe as the others."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.exceptions

from pyredisson import (
    ClientClosedError,
    LockError,
    LockLostError,
    LockNotOwnedError,
    LockTimeoutError,
)
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, interruptible, sync_and_async

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
LONG = 2.4  # the same, where nothing may be lost: a busy machine may well keep the watchdog waiting


def token(actor: Actor, client: Remote, name: str = "orders") -> Remote:
    return actor.get(client, "token_lock", name)


# ---- stored state ----------------------------------------------------------------------------------------------------


def test_it_is_a_string_under_its_own_name_with_the_lease_as_its_ttl(world: World) -> None:
    mine = token(world.actor(), world.client(lock_watchdog_timeout=25))
    mine.lock()
    assert set(world.redis.everything()) == {"orders"}
    kind, value = world.redis.everything()["orders"]
    assert kind == "string"
    assert re.fullmatch(r"[0-9a-f]{40}", value), "20 random bytes"
    assert 20 < world.redis.ttl("orders") <= 25
    mine.unlock()
    assert world.redis.everything() == {}


def test_each_hold_has_a_token_of_its_own(world: World) -> None:
    mine = token(world.actor(), world.client())
    seen = set()
    for _ in range(20):
        with mine:
            seen.add(world.redis.command("GET", "orders"))
    assert len(seen) == 20


def test_a_release_publishes_no_message(world: World) -> None:
    said = world.messages("redisson_lock__channel:{orders}")
    mine = token(world.actor(), world.client())
    mine.lock()
    mine.unlock()
    mine.lock()
    mine.force_unlock()
    assert said.received() == []


# ---- a lock ----------------------------------------------------------------------------------------------------------


def test_it_excludes_others_until_it_is_released(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, world.client())
    mine.lock()
    assert not theirs.try_lock()
    assert not theirs.try_lock(0.05)
    assert not theirs.acquire(blocking=False)
    waiting = bob.start(theirs.lock)
    mine.unlock()
    waiting.result(within=5)
    assert not mine.try_lock()
    assert theirs.is_held_by_current_thread()


def test_taking_it_twice_is_an_error_at_once(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine = token(alice, client)
    mine.lock()
    for call in (mine.lock, mine.try_lock, lambda: mine.try_lock(None), mine.acquire, mine.enter, mine.hold().enter):
        with pytest.raises(LockError, match="not reentrant"):
            call()
    with pytest.raises(LockError):
        token(alice, client).lock()
    assert mine.get_hold_count() == 1
    mine.unlock()
    token(bob, client).lock()


def test_queries_of_a_token_lock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    assert mine.name == "orders"
    assert not mine.is_locked()
    assert not mine.locked()
    assert mine.remain_time_to_live() is None
    assert mine.get_hold_count() == 0
    mine.lock(20)
    assert mine.is_locked()
    assert theirs.locked()
    assert mine.is_held_by_current_thread()
    assert not theirs.is_held_by_current_thread()
    assert theirs.is_held_by_thread(alice.number)
    assert not theirs.is_held_by_thread(bob.number)
    assert (mine.get_hold_count(), theirs.get_hold_count()) == (1, 0)
    assert 15 < theirs.remain_time_to_live() <= 20
    assert f":{alice.number}" in repr(mine)
    mine.unlock()
    assert not theirs.is_held_by_thread(alice.number)
    assert mine.get_hold_count() == 0
    with pytest.raises(TypeError):
        mine.is_held_by_thread("1")


def test_only_its_holder_can_release_it(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    with pytest.raises(LockNotOwnedError):
        mine.unlock()
    mine.lock()
    with pytest.raises(LockNotOwnedError):
        theirs.unlock()
    assert mine.is_held_by_current_thread()


def test_forced_open(world: World) -> None:
    lost: list[Any] = []
    client = world.client(on_lock_lost=lambda *told: lost.append(told))
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    assert theirs.force_unlock() is False
    mine.lock()
    assert theirs.force_unlock() is True
    assert not mine.is_locked()
    world.until(lambda: lost == [("orders", alice.number)])
    with pytest.raises(LockLostError):
        mine.unlock()
    mine.lock()
    assert mine.force_unlock() is True
    mine.lock()
    mine.unlock()


def test_a_lock_with_a_foreign_token_is_forced_open_too(world: World) -> None:
    world.redis.command("SET", "orders", "theirs")
    mine = token(world.actor(), world.client())
    assert mine.is_locked()
    assert not mine.is_held_by_current_thread()
    assert mine.force_unlock() is True
    assert world.redis.everything() == {}


def test_a_foreign_empty_token_is_a_lock_too(world: World) -> None:
    world.redis.command("SET", "orders", "")
    assert not token(world.actor(), world.client()).try_lock()


def test_a_hold_has_a_lease(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    with mine.hold(lease_time=20) as lease:
        assert 15 < lease.remaining() < 20
        assert lease.token is None
        with pytest.raises(LockTimeoutError):
            theirs.hold(wait_time=0.02).enter()
    assert not mine.is_locked()


def test_a_lock_of_another_kind_under_the_same_name_is_an_error(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    alice.lock(client).lock()
    mine = token(bob, client)
    for call in (mine.lock, mine.try_lock, mine.force_unlock):
        with pytest.raises(LockError, match="holds a hash, but a token lock is stored differently"):
            call()
    assert alice.lock(client).is_held_by_current_thread()


# ---- time ------------------------------------------------------------------------------------------------------------


@each_runtime
def test_it_is_kept_alive(world: World) -> None:
    client = world.client(lock_watchdog_timeout=LONG)
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    also_mine = alice.lock(client, "of another kind")  # Renewed in the same round, by another script.
    mine.lock()
    also_mine.lock()
    before = world.redis.command("GET", "orders")
    waiting = bob.start(theirs.lock)
    world.renewed("orders")
    world.renewed("of another kind", times=1)
    assert not waiting.done()
    assert 0 < world.redis.ttl("orders") <= LONG
    assert world.redis.command("GET", "orders") == before
    assert also_mine.get_hold_count() == 1
    mine.unlock()
    waiting.result(within=5)


@each_runtime
def test_a_lease_ends_by_itself_and_a_waiter_gets_it_at_once(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = token(alice, client), token(bob, client)
    began = world.now()
    mine.lock(0.5)
    theirs.lock(30)
    assert 0.45 < world.now() - began < 5
    with pytest.raises(LockLostError):
        mine.unlock()
    assert theirs.is_held_by_current_thread(), "a late unlock must not free another's hold"


@each_runtime
def test_a_loss_is_reported(world: World) -> None:
    lost: list[Any] = []
    client = world.client(on_lock_lost=lambda *told: lost.append(told), lock_watchdog_timeout=SHORT)
    alice = world.actor()
    mine = token(alice, client)
    mine.lock()
    world.redis.command("SET", "orders", "somebody else")
    world.until(lambda: lost == [("orders", alice.number)])
    with pytest.raises(LockLostError):
        mine.lock()
    with pytest.raises(LockLostError):
        mine.unlock()
    assert world.redis.command("GET", "orders") == b"somebody else"


@each_runtime
def test_a_leftover_of_its_own_lease_does_not_block_the_owner(world: World) -> None:
    """The client counts a lease shorter than the server, by the drift of two clocks. In between it may lock again."""
    mine = token(world.actor(), world.client())
    mine.lock(0.3)
    world.redis.expire("orders", 60)  # As if the server's clock went slow.
    world.pass_time(0.4)
    first = world.redis.command("GET", "orders")
    assert mine.try_lock(lease_time=5)
    assert world.redis.command("GET", "orders") != first
    assert world.redis.ttl("orders") > 50, "nobody's time is cut short"
    mine.unlock()
    assert not mine.is_locked()


def test_a_waiters_time_is_kept(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    token(alice, client).lock()
    began = world.now()
    assert not token(bob, client).try_lock(0.3)
    assert 0.29 < world.now() - began < 2


@interruptible
def test_a_waiter_that_is_interrupted_leaves_nothing(world: World) -> None:
    client = world.client()
    alice, bob = world.actor(), world.interruptible()
    mine, theirs = token(alice, client), token(bob, client)
    mine.lock()
    looks = iter(range(100))
    assert bob.interrupted(theirs.lock, once=lambda: next(looks) > 5) is not None
    mine.unlock()
    assert mine.try_lock()
    mine.unlock()
    assert "orders" not in world.redis.everything()


@each_runtime
def test_a_waiter_is_woken_when_its_client_is_closed(world: World) -> None:
    client, others = world.client(), world.client()
    alice, bob = world.actors(2)
    token(alice, others).lock()
    waiting = bob.start(token(bob, client).lock)
    world.pass_time(0.3)
    client.close()
    assert isinstance(waiting.error(within=5), ClientClosedError)


# ---- other clients of the same kind ----------------------------------------------------------------------------------


def redis_py(port: int, name: str) -> Any:
    return redis.Redis(port=port).lock(name, timeout=30, sleep=0.01)


def pottery(port: int, name: str) -> Any:
    return pytest.importorskip("pottery", reason="pottery is not installed").Redlock(
        key=name, masters={redis.Redis(port=port)}, auto_release_time=30
    )


PEERS: list[Callable[[int, str], Any]] = [redis_py, pottery]


def key_of(peer: Callable[[int, str], Any]) -> str:
    return "redlock:orders" if peer is pottery else "orders"  # pottery puts a prefix before its keys.


@pytest.fixture
def peer(request: pytest.FixtureRequest, world: ClockWorld) -> Iterator[Any]:
    assert world.port is not None
    made = request.param(world.port, "orders")
    yield made
    masters = getattr(made, "masters", None) or {made.redis}
    for each in masters:
        each.close()


@each_server
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("peer", PEERS, indirect=True, ids=lambda each: each.__name__)
def test_it_excludes_and_is_excluded_by(world: ClockWorld, peer: Any, request: pytest.FixtureRequest) -> None:
    name = key_of(request.node.callspec.params["peer"])
    alice, bob = world.actors(2)
    mine = token(alice, world.client(), name)
    assert peer.acquire(blocking=False)
    assert mine.is_locked()
    assert not mine.try_lock()
    with pytest.raises(LockNotOwnedError):
        mine.unlock()
    waiting = alice.start(mine.lock)
    peer.release()
    waiting.result(within=5)

    assert not peer.acquire(blocking=False)
    freed = threading.Timer(0.2, lambda: bob.do(token(bob, mine_client(mine), name).force_unlock))
    freed.start()
    assert peer.acquire(blocking=True)
    freed.join()
    peer.release()
    assert world.redis.everything() == {}


def mine_client(lock: Remote) -> Remote:
    return Remote(lock.real._client, lock._actor)


@sync_and_async
def test_a_waiter_of_redis_py_gets_it_when_it_is_released(world: ClockWorld) -> None:
    assert world.port is not None
    mine = token(world.actor(), world.client())
    mine.lock()
    with redis.Redis(port=world.port) as client:
        theirs = client.lock("orders", timeout=30, sleep=0.01)
        got: list[bool] = []
        waiter = threading.Thread(target=lambda: got.append(theirs.acquire(blocking_timeout=10)))
        waiter.start()
        assert not theirs.acquire(blocking=False)
        mine.unlock()
        waiter.join(10)
        assert got == [True]
        assert not mine.try_lock()


@sync_and_async
def test_old_and_new_holders_are_never_two_at_once(world: ClockWorld) -> None:
    assert world.port is not None
    inside: list[str] = []
    most: list[int] = []

    def visit(who: str) -> None:
        inside.append(who)
        most.append(len(inside))
        inside.remove(who)

    def old(number: int) -> None:
        with redis.Redis(port=world.port or 0) as client:
            for _ in range(25):
                with client.lock("orders", timeout=30, sleep=0.001):
                    visit(f"old {number}")

    threads = [threading.Thread(target=old, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    locks = [token(actor, world.client()) for actor in world.actors(2)]
    for _ in range(25):
        locks[0].lock()
        visit("new 0")
        locks[0].unlock()
        if locks[1].try_lock(0.002):
            visit("new 1")
            locks[1].unlock()
    for thread in threads:
        thread.join(30)
    assert len(most) >= 75
    assert set(most) == {1}
