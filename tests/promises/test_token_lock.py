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
    LockLostError,
    LockNotOwnedError,
)
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_runtime, each_server, interruptible

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def token(actor: Actor, client: Remote, name: str = "orders") -> Remote:
    return actor.get(client, "token_lock", name)


@pytest.fixture
def kind() -> str:
    return "token_lock"


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


def test_each_hold_has_a_token_of_its_own(world: World, mine: Remote) -> None:
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


def test_it_excludes_others_until_it_is_released(world: World, client: Remote, alice: Actor, bob: Actor) -> None:
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


def test_a_foreign_empty_token_is_a_lock_too(world: World) -> None:
    world.redis.command("SET", "orders", "")
    assert not token(world.actor(), world.client()).try_lock()


# ---- time ------------------------------------------------------------------------------------------------------------


@each_runtime
def test_a_lease_ends_by_itself_and_a_waiter_gets_it_at_once(world: World, mine: Remote, theirs: Remote) -> None:
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


@interruptible
def test_a_waiter_that_is_interrupted_leaves_nothing(world: World, client: Remote) -> None:
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
