"""A key that holds something else: the error names it, what it holds, and what fits."""

from functools import partial
from typing import Any

import pytest

from pyredisson import LockError, LockTimeoutError, QuorumUnreachableError
from tests.promises.kinds import handle, make, not_owned, rival
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
NUMBERS = ["semaphore", "permit_expirable_semaphore", "count_down_latch", "event", "barrier"]
STRINGS = ["token_lock", *NUMBERS]
MORE: dict[str, dict[str, Any]] = {"barrier": {"parties": 2}}


def uses(used: Any, kind: str) -> list[Any]:
    if kind == "event":
        return [used.set, used.clear, used.is_set, lambda: used.wait(5)]
    if kind == "barrier":
        values = [partial(used._actor.do, partial(getattr, used.real, value)) for value in ("n_waiting", "broken")]
        return [lambda: used.wait(5), used.reset, used.abort, *values]
    if kind == "count_down_latch":
        return [used.count_down, used.get_count, lambda: used.wait(5)]
    if kind == "permit_expirable_semaphore":
        calls = [used.acquire, used.available_permits, partial(used.set_permits, 1), partial(used.add_permits, 1)]
        return [lambda: used.try_acquire(5), *calls]
    if kind == "semaphore":
        calls = [used.release, used.drain_permits, used.available_permits, partial(used.add_permits, 1)]
        return [lambda: used.try_acquire(1, 5), *calls]
    return [lambda: used.try_lock(5), used.lock, used.acquire, used.force_unlock, used.enter]


def other_uses(used: Any, kind: str) -> list[Any]:
    """Those for which any string will do."""
    if kind not in NUMBERS[:3]:
        return []
    methods = {"count_down_latch": "try_set_count", "semaphore": "try_set_permits"}
    firsts = [partial(getattr(used, methods[kind]), 1)] if kind in methods else []
    return [used.delete, used.clear_expire, partial(used.expire, 60), *firsts]


FOREIGN = [
    *((kind, stored) for kind in HASHES for stored in STORED if stored not in ("hash", "read-write lock")),
    *((kind, stored) for kind in STRINGS for stored in STORED if stored != "string"),
]


@pytest.mark.parametrize(("kind", "stored"), FOREIGN)
def test_the_error_says_what_the_key_holds(world, kind, stored):
    used = handle(world.actor(), world.client(), kind, **MORE.get(kind, {}))
    world.redis.command(*STORED[stored])
    before = world.redis.command("TYPE", "orders")
    for use in (*uses(used, kind), *other_uses(used, kind)):
        with pytest.raises(LockError) as error:
            use()
        assert error.value.name == "orders"
        assert "'orders'" in str(error.value)
        assert stored in str(error.value)
        assert FITTING[stored] in str(error.value)
        assert "WRONGTYPE" in str(error.value.__cause__)
    assert world.redis.command("TYPE", "orders") == before


def test_an_unlock_says_so_too(world, mine):
    mine.lock()
    world.redis.delete("orders")
    world.redis.command("SET", "orders", "something")
    with pytest.raises(LockError, match="'orders' holds a string"):
        mine.unlock()


def test_an_auxiliary_key_of_the_wrong_type_is_named_in_the_error(world):
    mine = world.actor().get(world.client(), "fenced_lock")
    world.redis.command("RPUSH", "redisson_lock_token:{orders}", "one")
    with pytest.raises(LockError, match="a key that belongs to 'orders'"):
        mine.try_lock()


# ---- the list of the clients that wait -------------------------------------------------------------------------------

WAITING = "pyredisson_waiting:{orders}"
LISTED = ["lock", "fenced_lock", "non_reentrant_lock", "read_lock", "write_lock", "semaphore"]
LISTED += ["permit_expirable_semaphore"]


def taken(actor: Actor, client: Remote, kind: str) -> Remote:
    """A lock, or the only permit, that the actor holds."""
    taken = rival(actor, client, kind)
    if "semaphore" in kind:
        taken.try_set_permits(1)
    hold = taken.hold()
    hold.enter()
    return hold


@each_runtime
@pytest.mark.parametrize("kind", LISTED)
def test_a_list_of_waiters_of_the_wrong_type_is_named_in_the_error(world, alice, bob, kind):
    held = taken(alice, world.client(), kind)
    world.redis.command("SET", WAITING, "something")
    with pytest.raises(LockError, match=f"the key '{WAITING}' holds a string") as error:
        handle(bob, world.client(), kind).hold(wait_time=5).enter()
    assert error.value.name == "orders"
    assert "WRONGTYPE" in str(error.value.__cause__)
    held.__exit__(None, None, None)
    assert world.redis.command("GET", WAITING) == b"something"
    handle(bob, world.client(), kind).hold(wait_time=0).enter()


@pytest.mark.parametrize("kind", LISTED)
def test_members_of_the_list_of_waiters_that_are_no_clients_are_dropped(world, alice, bob, kind):
    held = taken(alice, world.client(), kind)
    waiting = bob.start(handle(bob, world.client(), kind).hold(wait_time=9).enter)
    world.until(lambda: world.redis.command("ZCOUNT", WAITING, "2", "+inf") == 2)  # It waits, and is an observer.
    for member in ("", ":", ":7:1", "+", "nobody"):
        world.redis.command("ZADD", WAITING, "1", member)
    held.__exit__(None, None, None)
    waiting.result(within=5)
    assert world.redis.command("ZCOUNT", WAITING, "-inf", "1") == 0


# ---- keys of the same type -------------------------------------------------------------------------------------------


def times_out(used: Any) -> str:
    """What the error says when the wait is over."""
    with pytest.raises(LockTimeoutError) as error:
        used.hold(0.1).enter()
    assert error.value.name == "orders"
    return str(error.value)


@pytest.mark.parametrize("kind", [*HASHES, "token_lock"])
def test_a_timeout_says_that_the_key_never_expires(world, kind):
    world.redis.command(*STORED["string" if kind == "token_lock" else "hash"])
    used = handle(world.actor(), world.client(), kind)
    assert "the key 'orders' never expires" in (message := times_out(used))
    assert ("redis-py" in message) is (kind == "token_lock")
    world.redis.command("PEXPIRE", "orders", "60000")
    assert "never expires" not in times_out(used)


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "write_lock"])
def test_a_timeout_says_nothing_of_the_key_of_a_lock(client, alice, bob, kind):
    handle(alice, client, kind).lock()
    message = times_out(handle(bob, client, kind))
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
def test_a_timeout_says_as_what_another_owner_of_the_client_holds_the_key(client, alice, bob, held, wanted, told):
    handle(alice, client, held).lock()
    assert told in times_out(handle(bob, client, wanted))
    not_owned(handle(bob, client, wanted).unlock, match=told.partition(" (")[0])


@pytest.mark.parametrize(
    ("held", "wanted"), [("lock", "read_lock"), ("lock", "write_lock"), ("read_lock", "lock"), ("write_lock", "lock")]
)
def test_an_owner_that_would_wait_for_its_own_hold_of_another_kind_gets_an_error_at_once(world, held, wanted):
    actor, client = world.actor(), world.client()
    mine, other = handle(actor, client, held), handle(actor, client, wanted)
    mine.lock()
    with pytest.raises(LockError, match=r"'orders' is held by .* as a .*lock; a .*lock needs another name"):
        other.try_lock(30)
    mine.unlock()
    assert other.try_lock()
    other.unlock()


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_string_that_is_no_number_is_named_in_the_error(world, kind):
    used = handle(world.actor(), world.client(), kind, **MORE.get(kind, {}))
    world.redis.command(*STORED["string"])
    for use in uses(used, kind):
        with pytest.raises(LockError, match=r"'orders' .*not an integer") as error:
            use()
        assert error.value.name == "orders"
    assert world.redis.command("GET", "orders") == b"something"


# ---- members of a multi-lock -----------------------------------------------------------------------------------------

MEMBERS = ["lock", "token_lock", "fenced_lock", "write_lock"]
NAMED = {"lock": "lock", "token_lock": "token lock", "fenced_lock": "lock", "write_lock": "read-write lock"}


def quorum(world: World, kind: str) -> Remote:
    """A lock on three nodes."""
    nodes = world.nodes(3, quorum_node_timeout=2.0)
    return Remote(nodes[0].real.get_red_lock(*(make(node, kind) for node in nodes)), world.actor())


@pytest.mark.parametrize("kind", MEMBERS)
def test_too_few_nodes_say_what_their_keys_hold(world, kind):
    lock, told = quorum(world, kind), f"holds a list, but a {NAMED[kind]} is stored differently"
    lock.lock()
    for index in (0, 2):
        world.node(index).delete("orders")
        world.node(index).command(*STORED["list"])
    with pytest.raises(LockError, match=f"the key 'orders' on node 1.* {told}"):
        lock.unlock()
    for use in (lock.try_lock, lambda: lock.hold(0).enter(), lambda: lock.try_lock(60), lock.lock):
        with pytest.raises(QuorumUnreachableError, match="but too many refused it") as error:
            use()
        for node, state in error.value.nodes.items():
            if node.startswith("node 2"):
                assert state == "granted"
                continue
            assert isinstance(state, LockError)
            assert f"the key 'orders' {told}: no lock of" in str(state)
            assert f"{node}: {state}" in str(error.value)
            assert "WRONGTYPE" in str(state.__cause__)
    assert world.node(1).command("EXISTS", "orders") == 0


def test_one_node_of_three_with_a_key_of_the_wrong_type_does_not_prevent_an_acquire(world):
    lock = quorum(world, "lock")
    world.node(1).command(*STORED["string"])
    lock.lock()
    lock.lock()
    lock.unlock()
    world.node(1).delete("orders")
    world.node(1).command(*STORED["list"])
    lock.unlock()
    assert world.node(0).command("EXISTS", "orders") == 0


@pytest.mark.parametrize("kind", MEMBERS)
def test_the_member_among_several_names_is_named(world, kind):
    actor, client = world.actor(), world.client()
    lock = Remote(client.real.get_multi_lock(make(client, "lock"), make(client, kind, "stock")), actor)
    told = f"the key 'stock' holds a list, but a {NAMED[kind]} is stored differently"
    world.redis.command("RPUSH", "stock", "one")
    for use in (lock.try_lock, lambda: lock.try_lock(5), lock.enter, lambda: lock.hold().enter(), lock.force_unlock):
        with pytest.raises(LockError, match=told) as error:
            use()
        assert error.value.name == "stock"
        assert world.redis.command("EXISTS", "orders") == 0
    world.redis.delete("stock")
    lock.lock()
    world.redis.delete("stock")
    world.redis.command("RPUSH", "stock", "one")
    with pytest.raises(LockError, match=told):
        lock.unlock()
    assert world.redis.command("EXISTS", "orders") == 0
