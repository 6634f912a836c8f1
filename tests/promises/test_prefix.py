"""``Config.prefix`` stands before every name in Redis, as Redisson's ``NameMapper`` puts it; users see their names."""

from contextlib import nullcontext

import pytest

import pyredisson.compat.redis_py as for_threads
import pyredisson.compat.redis_py.asyncio as for_tasks
from pyredisson import LockError, LockLostError, LockNotOwnedError, LockTimeoutError, events
from tests.promises.kinds import LOCKS, handle, make, rival
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import sync_and_async
from tests.worlds.store import Store

PREFIX = "app:"

#: Where clients wait, but for those that poll.
WAITING = {
    **dict.fromkeys(("lock", "fenced_lock", "read_lock", "write_lock"), "pyredisson_waiting:{app:orders}"),
    "fair_lock": "redisson_lock_queue:{app:orders}",
}


def keys(store: Store) -> set[str]:
    return {key.decode() for key in store.command("KEYS", "*")}


@pytest.mark.parametrize("kind", LOCKS)
def test_a_lock_is_the_lock_of_the_whole_name(world, alice, bob, kind):
    """The same calls leave the same keys, whether the name is given in one piece or in two; users see their part."""
    mine = handle(alice, world.client(prefix=PREFIX), kind)
    theirs = rival(bob, world.client(), kind, "app:orders")
    another = rival(bob, world.client(), kind, "orders")
    mine.lock()
    assert not theirs.try_lock()
    assert another.try_lock()
    another.unlock()
    assert mine.is_held_by_current_thread()
    assert mine.get_hold_count() == 1
    waiting = bob.start(theirs.lock)
    if kind in WAITING:
        world.until(lambda: WAITING[kind] in keys(world.redis))
    left = keys(world.redis) - {"redisson_lock_token:{orders}"}
    assert "app:orders" in left
    assert {key.partition("app:orders")[1] for key in left} == {"app:orders"}
    for refusal in (LockTimeoutError, LockNotOwnedError):
        with pytest.raises(refusal, match="'orders'") as refused:
            other = rival(world.actor(), world.client(prefix=PREFIX), kind, "orders")
            other.unlock() if refusal is LockNotOwnedError else other.hold(wait_time=0).enter()
        assert refused.value.name == "orders"
        assert PREFIX not in str(refused.value)
    assert mine.name == "orders"
    assert "'orders'" in repr(mine)
    assert PREFIX not in repr(mine)
    mine.unlock()
    waiting.result()
    assert mine.is_locked() is (kind != "read_lock")  # Of that, the writer holds the other side.
    theirs.unlock()
    assert "app:orders" not in keys(world.redis)


@pytest.mark.parametrize(("prefix", "name"), [("{shop}:", "orders"), ("a", "{b}c"), ("größe/", "x")])
def test_braces_in_either_part_are_braces_of_the_name(world, prefix, name):
    whole = prefix + name
    channel = f"redisson_lock__channel:{whole}" if "{" in whole else f"redisson_lock__channel:{{{whole}}}"
    said = world.messages(channel)
    mine = world.actor().lock(world.client(prefix=prefix), name)
    mine.lock()
    mine.unlock()
    assert said.received() == [b"0"]


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
def test_permits_are_those_of_the_whole_name(world, alice, bob, kind):
    mine = alice.get(world.client(prefix=PREFIX), kind)
    theirs = bob.get(world.client(), kind, "app:orders")
    assert mine.try_set_permits(1)
    assert theirs.try_acquire()
    assert mine.available_permits() == 0
    waiting = alice.start(mine.acquire)
    theirs.add_permits(1)
    assert waiting.result()
    assert mine.name == "orders"
    assert {key.partition("app:orders")[1] for key in keys(world.redis)} == {"app:orders"}


@pytest.mark.parametrize(
    ("kind", "more", "end"),
    [
        ("count_down_latch", (), "count_down"),
        ("event", (), "set"),
        ("barrier", (2,), "wait"),
        ("condition", (), "notify"),
    ],
)
def test_a_waiter_is_woken_under_the_whole_name(world, alice, bob, kind, more, end):
    mine = alice.get(world.client(prefix=PREFIX), kind, "orders", *more)
    theirs = bob.get(world.client(), kind, "app:orders", *more)
    if kind == "count_down_latch":
        assert theirs.try_set_count(1)
        assert mine.get_count() == 1
    if kind == "condition":
        mine.acquire()
    waiting = alice.start(mine.wait)
    with theirs if kind == "condition" else nullcontext():  # The lock is free once the other one waits.
        getattr(theirs, end)()
    waiting.result(within=5)
    assert mine.name == "orders"


def test_a_run_is_that_of_the_whole_name(world, alice, bob):
    with Remote(world.client(prefix=PREFIX).real.run_once("orders", at_most=60), alice) as mine:
        assert mine is not None
        assert not bob.lock(world.client(), "app:orders").try_lock()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock"])
def test_the_locks_of_a_multi_lock_have_it(world, alice, kind):
    client = world.client(prefix=PREFIX, lock_watchdog_timeout=KEPT)
    both = Remote(client.real.get_multi_lock(make(client, kind, "one"), make(client, kind, "two")), alice)
    assert both.name == "one + two"
    both.lock()
    world.renewed("app:one", "app:two")
    both.unlock()
    assert not {"app:one", "app:two"} & keys(world.redis)


def test_the_nodes_of_a_red_lock_have_it(world, alice):
    clients = world.nodes(3, prefix=PREFIX, lock_watchdog_timeout=KEPT)
    red = Remote(clients[0].real.get_red_lock(*[client.real.get_lock("orders") for client in clients]), alice)
    assert red.name == "orders"
    assert red.try_lock(5)
    assert "app:orders" in keys(world.node(1))
    world.renewed("app:orders", store=world.node(1))
    red.unlock()
    assert red.try_lock(5, 60)
    red.unlock()
    # A node that answers late is left to the background. It is not the end of a lease that frees it.
    world.until(lambda: "app:orders" not in keys(world.node(1)))


@pytest.mark.parametrize("kind", ["lock", "write_lock", "token_lock"])
def test_events_carry_the_name_of_the_user(world, kind):
    heard = []
    mine = handle(world.actor(), world.client(prefix=PREFIX, listeners=(heard.append,)), kind)
    mine.lock()
    world.redis.delete("app:orders")
    with pytest.raises(LockLostError, match="'orders'") as lost:
        mine.unlock()
    assert lost.value.name == "orders"
    named = [event for event in heard if isinstance(event, events.LockEvent)]
    assert [type(event) for event in named] == [events.Acquired, events.Lost]
    assert {event.name for event in named} == {"orders"}


@pytest.mark.parametrize(
    ("kind", "call"), [("lock", "try_lock"), ("semaphore", "available_permits"), ("count_down_latch", "get_count")]
)
def test_the_error_about_a_foreign_key_names_the_key(world, kind, call):
    world.redis.command("RPUSH", "app:orders", "one")
    mine = handle(world.actor(), world.client(prefix=PREFIX), kind)
    with pytest.raises(LockError, match="the key 'app:orders' holds a list") as refused:
        getattr(mine, call)()
    assert refused.value.name == "orders"


@sync_and_async
def test_a_lock_of_redis_py_has_it_from_its_client(world, alice):
    client = world.client(prefix=PREFIX)
    module = for_tasks if isinstance(world, AsyncioWorld) else for_threads
    lock = Remote(module.Lock(client.real, "orders", timeout=5), alice)
    assert lock.acquire()
    assert lock.name == "orders"
    assert keys(world.redis) == {"app:orders"}
    assert lock.extend(5)
    assert lock.reacquire()
    lock.release()
    assert keys(world.redis) == set()
