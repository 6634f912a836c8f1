"""A key that holds something else: the error names it, what it holds, and what fits."""

from __future__ import annotations

from typing import Any

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson import LockError, LockNotOwnedError, LockTimeoutError, QuorumUnreachableError
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime

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
    "list": "no lock of",
    "sorted set": "no lock of",
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


def test_an_auxiliary_key_of_the_wrong_type_is_named_in_the_error(world: World) -> None:
    mine = world.actor().get(world.client(), "fenced_lock")
    world.redis.command("RPUSH", "redisson_lock_token:{orders}", "one")
    with pytest.raises(LockError, match="a key that belongs to 'orders'"):
        mine.try_lock()


# ---- the list of the clients that wait -------------------------------------------------------------------------------

WAITING = "pyredisson_waiting:{orders}"
LISTED = [
    "lock",
    "fenced_lock",
    "non_reentrant_lock",
    "read_lock",
    "write_lock",
    "semaphore",
    "permit_expirable_semaphore",
]


def taken(actor: Actor, client: Remote, kind: str) -> Remote:
    """A lock, or the only permit, that the actor holds."""
    handle = made(actor, client, "write_lock" if kind == "read_lock" else kind)
    if "semaphore" in kind:
        handle.try_set_permits(1)
    hold = handle.hold()
    hold.enter()
    return hold


@each_runtime
@pytest.mark.parametrize("kind", LISTED)
def test_a_list_of_waiters_of_the_wrong_type_is_named_in_the_error(world: World, kind: str) -> None:
    alice, bob = world.actors(2)
    held = taken(alice, world.client(), kind)
    world.redis.command("SET", WAITING, "something")
    with pytest.raises(LockError, match=f"the key '{WAITING}' holds a string") as error:
        made(bob, world.client(), kind).hold(wait_time=5).enter()
    assert error.value.name == "orders"
    assert "WRONGTYPE" in str(error.value.__cause__)
    held.__exit__(None, None, None)
    assert world.redis.command("GET", WAITING) == b"something"
    made(bob, world.client(), kind).hold(wait_time=0).enter()


@pytest.mark.parametrize("member", ["", ":", ":7:1", "+", "nobody"])
@pytest.mark.parametrize("kind", LISTED)
def test_a_member_of_the_list_of_waiters_that_is_no_client_is_dropped(world: World, kind: str, member: str) -> None:
    alice, bob = world.actors(2)
    held = taken(alice, world.client(), kind)
    world.redis.command("ZADD", WAITING, "1", member)
    waiting = bob.start(made(bob, world.client(), kind).hold(wait_time=9).enter)
    world.until(lambda: world.redis.command("ZCOUNT", WAITING, "2", "+inf") == 2)  # It waits, and is an observer.
    world.redis.command("ZADD", WAITING, "1", member)
    held.__exit__(None, None, None)
    waiting.result(within=5)
    assert world.redis.command("ZSCORE", WAITING, member) is None


# ---- keys of the same type -------------------------------------------------------------------------------------------


def times_out(handle: Any) -> str:
    """What the error says when the wait is over."""
    with pytest.raises(LockTimeoutError) as error:
        handle.hold(0.1).enter()
    assert error.value.name == "orders"
    return str(error.value)


@pytest.mark.parametrize("kind", [*HASHES, "token_lock"])
def test_a_timeout_says_that_the_key_never_expires(world: World, kind: str) -> None:
    world.redis.command(*STORED["string" if kind == "token_lock" else "hash"])
    handle = made(world.actor(), world.client(), kind)
    assert "the key 'orders' never expires" in (message := times_out(handle))
    assert ("redis-py" in message) is (kind == "token_lock")
    world.redis.command("PEXPIRE", "orders", "60000")
    assert "never expires" not in times_out(handle)


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "write_lock"])
def test_a_timeout_says_nothing_of_the_key_of_a_lock(world: World, kind: str) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    made(alice, client, kind).lock()
    message = times_out(made(bob, client, kind))
    assert "never expires" not in message
    assert " as a " not in message


@pytest.mark.parametrize(
    ("held", "wanted", "told"),
    [
        ("write_lock", "lock", "of this client as a read-write lock (a lock needs another name)"),
        ("read_lock", "fair_lock", "of this client as a read-write lock (a lock needs another name)"),
        ("lock", "write_lock", "of this client as a lock (a read-write lock needs another name)"),
        ("spin_lock", "read_lock", "of this client as a lock (a read-write lock needs another name)"),
    ],
)
def test_a_timeout_says_as_what_another_owner_of_the_client_holds_the_key(
    world: World, held: str, wanted: str, told: str
) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    made(alice, client, held).lock()
    assert told in times_out(made(bob, client, wanted))
    with pytest.raises(LockNotOwnedError, match=told.partition(" (")[0]):
        made(bob, client, wanted).unlock()


@pytest.mark.parametrize(
    ("held", "wanted"),
    [("lock", "read_lock"), ("lock", "write_lock"), ("read_lock", "lock"), ("write_lock", "lock")],
)
def test_an_owner_that_would_wait_for_its_own_hold_of_another_kind_gets_an_error_at_once(
    world: World, held: str, wanted: str
) -> None:
    actor, client = world.actor(), world.client()
    mine, other = made(actor, client, held), made(actor, client, wanted)
    mine.lock()
    with pytest.raises(LockError, match=r"'orders' is held by .* as a .*lock; a .*lock needs another name"):
        other.try_lock(30)
    mine.unlock()
    assert other.try_lock()
    other.unlock()


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore", "count_down_latch"])
def test_a_string_that_is_no_number_is_named_in_the_error(world: World, kind: str) -> None:
    handle = made(world.actor(), world.client(), kind)
    world.redis.command(*STORED["string"])
    for use in uses(handle, kind):
        with pytest.raises(LockError, match=r"'orders' .*not an integer") as error:
            use()
        assert error.value.name == "orders"


# ---- members of a multi-lock -----------------------------------------------------------------------------------------

MEMBERS = ["lock", "token_lock", "fenced_lock", "write_lock"]
NAMED = {"lock": "lock", "token_lock": "token lock", "fenced_lock": "lock", "write_lock": "read-write lock"}


def multi_lock(actor: Actor, members: list[Any]) -> Remote:
    api = pyredisson.asyncio if "asyncio" in type(members[0].real).__module__ else pyredisson
    return Remote(api.MultiLock(*(member.real for member in members)), actor)


def quorum(world: World, kind: str) -> Remote:
    """A lock on three nodes."""
    actor = world.actor()
    return multi_lock(actor, [made(actor, node, kind) for node in world.nodes(3, quorum_node_timeout=2.0)])


@pytest.mark.parametrize("kind", MEMBERS)
def test_too_few_nodes_say_what_their_keys_hold(world: World, kind: str) -> None:
    handle = quorum(world, kind)
    for index in (0, 2):
        world.node(index).command(*STORED["list"])
    for use in (handle.try_lock, lambda: handle.hold(0).enter()):
        with pytest.raises(QuorumUnreachableError) as error:
            use()
        for node, state in error.value.nodes.items():
            if node.startswith("node 2"):
                assert state == "granted"
                continue
            assert isinstance(state, LockError)
            assert f"the key 'orders' holds a list, but a {NAMED[kind]} is stored differently: no lock of" in str(state)
            assert f"{node}: {state}" in str(error.value)
            assert "WRONGTYPE" in str(state.__cause__)
    assert world.node(1).command("EXISTS", "orders") == 0


def test_one_node_of_three_with_a_key_of_the_wrong_type_does_not_prevent_an_acquire(world: World) -> None:
    handle = quorum(world, "lock")
    world.node(1).command(*STORED["string"])
    handle.lock()
    handle.lock()
    handle.unlock()
    world.node(1).delete("orders")
    world.node(1).command(*STORED["list"])
    handle.unlock()
    assert world.node(0).command("EXISTS", "orders") == 0


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("kind", MEMBERS)
def test_an_unlock_of_a_quorum_says_what_the_keys_hold(world: World, kind: str, depth: int) -> None:
    if kind == "token_lock":
        depth = 1  # It is not reentrant.
    handle = quorum(world, kind)
    for _ in range(depth):
        handle.lock()
    for index in (0, 2):
        world.node(index).delete("orders")
        world.node(index).command(*STORED["list"])
    with pytest.raises(
        LockError, match=rf"the key 'orders' on node 1.* holds a list, but a {NAMED[kind]} is stored differently"
    ):
        handle.unlock()


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_member_among_several_names_is_named(world: World, kind: str) -> None:
    actor, client = world.actor(), world.client()
    members = [made(actor, client, "lock"), other_name(actor, client, kind)]
    handle = multi_lock(actor, members)
    world.redis.command("RPUSH", "stock", "one")
    for use in (
        handle.try_lock,
        lambda: handle.try_lock(5),
        handle.enter,
        lambda: handle.hold().enter(),
        handle.force_unlock,
    ):
        with pytest.raises(
            LockError, match=f"the key 'stock' holds a list, but a {NAMED[kind]} is stored differently"
        ) as error:
            use()
        assert error.value.name == "stock"
        assert world.redis.command("EXISTS", "orders") == 0
    world.redis.delete("stock")
    handle.lock()
    world.redis.delete("stock")
    world.redis.command("RPUSH", "stock", "one")
    with pytest.raises(LockError, match=f"the key 'stock' holds a list, but a {NAMED[kind]} is stored differently"):
        handle.unlock()
    assert world.redis.command("EXISTS", "orders") == 0


def other_name(actor: Actor, client: Remote, kind: str) -> Any:
    if kind == "write_lock":
        return actor.get(client, "read_write_lock", "stock").write_lock()
    return actor.get(client, kind, "stock")
