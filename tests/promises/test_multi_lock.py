"""Several locks as one: all of them on one server, or a quorum of servers."""

import logging
from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError
from tests.promises.kinds import handle, make, not_owned, over, raises_lost
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime

pytestmark = each_runtime


KINDS = ("lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "non_reentrant_lock")


def nodes(world: World, count: int, **config: Any) -> list[Remote]:
    """Clients of so many servers, which a busy machine gives more time than the 50 ms that a quorum has for each."""
    return world.nodes(count, **{"quorum_node_timeout": 2.0, **config})


def left(world: World, *indices: int) -> set[str]:
    """The keys on these nodes, or on the one server, but for what a lost reply leaves there for a minute."""
    stores = [world.node(index) for index in indices] or [world.redis]
    keys = {raw.decode() for store in stores for raw in store.command("KEYS", "*")}
    return {key for key in keys if not key.startswith("pyredisson_epoch")}


def multi(actor: Actor, clients: list[Remote], kind: str = "lock", name: str = "orders", **options: Any) -> Remote:
    """A multi-lock over one lock of each client."""
    return over(actor, [getattr(client.real, f"get_{kind}")(name) for client in clients], **options)


def on_one_server(actor: Actor, client: Remote, *names: str) -> Remote:
    return over(actor, [client.real.get_lock(name) for name in names])


@pytest.fixture
def clients(world: World) -> list[Remote]:
    """Clients of three servers."""
    return nodes(world, 3)


@pytest.fixture
def mine(alice: Actor, clients: list[Remote]) -> Remote:
    return multi(alice, clients)


@pytest.fixture
def theirs(world: World, bob: Actor) -> Remote:
    """The same lock, of other clients."""
    return multi(bob, nodes(world, 3))


# ---- members ---------------------------------------------------------------------------------------------------------


def test_one_name_on_several_clients_is_a_majority_and_anything_else_is_all(world, alice):
    clients = nodes(world, 5)
    assert multi(alice, clients).quorum == 3
    assert multi(alice, clients[:4]).quorum == 3
    assert multi(alice, clients[:1]).quorum == 1
    assert multi(alice, clients, quorum=5).quorum == 5
    one = clients[0]
    assert on_one_server(alice, one, "a", "b", "c").quorum == 3
    assert over(alice, [clients[0].real.get_lock("a"), clients[1].real.get_lock("b")]).quorum == 2
    red = one.real.get_red_lock(*[client.real.get_lock(f"on {index}") for index, client in enumerate(clients)])
    assert red.quorum == 3
    assert one.real.get_multi_lock(*red.locks).quorum == 5
    assert len(red.locks) == 5


def test_handles_on_the_same_members_are_one_lock_in_whatever_order_they_are_given(world, alice):
    one, two, three = clients = nodes(world, 3)
    x, p, q = one.real.get_lock("x"), one.real.get_lock("p"), two.real.get_lock("p")
    pairs = [
        (multi(alice, clients), multi(alice, [three, one, two])),
        (over(alice, [p, q, x]), over(alice, [x, q, p])),
    ]
    for lock, same in pairs:
        lock.lock()
        assert same.is_held_by_current_thread()
        same.ensure_held()
        same.lock()
        assert lock.get_hold_count() == 2
        lock.unlock()
        assert same.validity() > 0
        same.unlock()
        assert not lock.is_locked()


def test_members_of_one_name_are_acquired_in_one_order(world, alice, bob, carol):
    one, two = nodes(world, 2)
    x, p, q = one.real.get_lock("x"), one.real.get_lock("p"), two.real.get_lock("p")
    held = [Remote(each, carol) for each in (p, q)]
    for each in held:
        each.lock()
    mine, theirs = over(alice, [p, q, x]), over(bob, [q, p, x])
    locks = {alice.start(mine.try_lock, 20): mine, bob.start(theirs.try_lock, 20): theirs}
    world.until(lambda: sum(map(world.waiting, held)) == 2)
    for each in held:
        each.unlock()
    while locks:
        acquired = world.until(lambda: next((each for each in locks if each.done()), None))
        assert acquired.result() is True
        locks.pop(acquired).unlock()


def test_invalid_members_are_refused_before_any_request(world):
    one, other = nodes(world, 2)
    lock, another = one.real.get_lock("orders"), other.real.get_lock("orders")
    kind = type(one.real.get_multi_lock(lock))
    with pytest.raises(ValueError, match="at least"):
        kind()
    with pytest.raises(ValueError, match="twice"):
        kind(lock, one.real.get_lock("orders"))
    for quorum in (0, 1, 3, -1):
        with pytest.raises(ValueError, match="between 2 and 2"):
            kind(lock, another, quorum=quorum)
    for odd in (2.0, "2", True):
        with pytest.raises(TypeError, match="quorum"):
            kind(lock, another, quorum=odd)
    with pytest.raises(ValueError, match="independent"):
        kind(lock, one.real.get_lock("b"), one.real.get_lock("c"), quorum=2)
    for odd in (None, "orders", one.real, kind(lock), one.real.get_read_write_lock("orders")):
        with pytest.raises(TypeError, match="multi-lock"):
            kind(lock, odd)
    for wait, lease in ((-1, None), (float("nan"), None), (0, 0), (0, -1), (0, float("inf"))):
        with pytest.raises(ValueError):
            world.actor().do(kind(lock, another).try_lock, wait, lease)
    assert left(world, 0, 1) == set()


# ---- a quorum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_quorum_excludes_and_is_given_back_on_every_node(world, alice, bob, kind):
    mine, theirs = multi(alice, nodes(world, 5), kind), multi(bob, nodes(world, 5), kind)
    assert mine.try_lock()
    assert mine.is_locked()
    assert theirs.locked()
    assert mine.is_held_by_current_thread()
    assert not theirs.is_held_by_current_thread()
    assert not theirs.try_lock()
    mine.unlock()
    assert not mine.is_locked()
    assert left(world, *range(5)) <= {"redisson_lock_token:{orders}"}
    assert theirs.try_lock()


def test_a_token_lock_has_one_token_on_all_nodes(world):
    lock = multi(world.actor(), nodes(world, 5), "token_lock")
    lock.lock()
    tokens = {world.node(index).command("GET", "orders") for index in range(5)}
    assert len(tokens) == 1
    assert None not in tokens
    before = tokens.pop()
    lock.unlock()
    lock.lock()
    assert world.node(0).command("GET", "orders") != before


def test_validity_is_the_lease_less_what_it_took_and_the_drift(world):
    lock = multi(world.actor(), nodes(world, 5))
    assert lock.validity() == 0
    before = world.now()
    assert lock.try_lock(0, 10)
    validity = lock.validity()
    assert 9.898 - (world.now() - before) - 0.01 <= validity <= 9.898
    lock.unlock()
    assert lock.validity() == 0


def test_it_is_reentrant_by_any_handle_on_the_same_members(alice, bob, clients):
    one, other, theirs = multi(alice, clients), multi(alice, clients), multi(bob, clients)
    assert repr(one) == "<MultiLock 'orders' (2 of 3)>"
    one.lock()
    assert "held by" in repr(one)
    other.lock()
    one.lock()
    assert one.get_hold_count() == other.get_hold_count() == 3
    for _ in range(2):
        one.unlock()
        assert not theirs.try_lock()
    other.unlock()
    assert theirs.try_lock()


@pytest.mark.parametrize("held", [2, 3])
def test_a_minority_held_by_others_does_not_keep_it_from_being_acquired(world, alice, bob, held):
    clients = nodes(world, 5)
    for client in clients[:held]:
        assert bob.lock(client).try_lock()
    lock = multi(alice, clients)
    assert lock.try_lock() is (held == 2)
    if held == 2:
        assert left(world, 2) == left(world, 3) == left(world, 4) == {"orders"}
        lock.unlock()
    else:
        assert not lock.try_lock(0.2)
        not_owned(lock.unlock)
    assert left(world, *range(held, 5)) == set(), "what it got without a quorum is released at once"
    assert [world.node(index).hash("orders") != {} for index in range(held)] == [True] * held


def test_a_waiter_is_woken_by_the_release(world, bob, mine, theirs):
    mine.lock()
    waiting = bob.start(theirs.lock)
    channel = "redisson_lock__channel:{orders}"
    world.until(lambda: sum(world.node(index).subscribers(channel) for index in range(3)) >= 2)
    assert not waiting.done()
    began = world.now()
    mine.unlock()
    waiting.result(within=5)
    assert world.now() - began < 2
    theirs.unlock()


def test_extensions_can_be_bounded(world):
    config = {"lock_watchdog_timeout": 3.0, "quorum_node_timeout": 0.9, "quorum_max_extensions": 1}
    lock = multi(world.actor(), nodes(world, 3, on_lock_lost=world.on_lock_lost, **config))
    lock.lock()
    world.until(lambda: world.lost == ["orders"] * 3, within=10)
    assert lock.validity() == 0
    raises_lost(lock.unlock, match=r"extended 1 times, as often as Config.quorum_max_extensions")


def test_the_bound_of_extensions_is_for_quorums_alone(world):
    client = world.client(lock_watchdog_timeout=1.5, quorum_max_extensions=0)
    lock = on_one_server(world.actor(), client, "a", "b")
    lock.lock()
    world.renewed("a", "b", times=2)
    lock.unlock()


def test_a_lost_quorum_is_reported_to_every_client_involved(world, alice):
    config = {"lock_watchdog_timeout": 4.5, "quorum_node_timeout": 1.4}
    lock = multi(alice, nodes(world, 5, on_lock_lost=world.on_lock_lost, **config))
    lock.lock()
    world.node(0).delete("orders")
    world.node(1).delete("orders")
    world.renewed("orders", store=world.node(2))
    assert world.losses == []
    assert lock.validity() > 0
    world.node(2).delete("orders")
    world.until(lambda: len(world.losses) == 5)
    assert set(world.losses) == {("orders", alice.number)}
    assert lock.validity() == 0
    raises_lost(lock.lock)
    raises_lost(lock.unlock)
    world.until(lambda: left(world, *range(5)) == set())
    lock.lock()
    lock.unlock()


def test_unlock_says_that_a_quorum_was_gone(world, mine):
    mine.lock()
    world.node(0).delete("orders")
    mine.unlock()
    mine.lock()
    world.node(0).delete("orders")
    world.node(1).delete("orders")
    raises_lost(mine.unlock)
    assert left(world, 2) == set()


def test_non_reentrant_members_make_it_non_reentrant(world):
    lock = multi(world.actor(), nodes(world, 3), "non_reentrant_lock")
    lock.lock()
    with pytest.raises(LockError, match="not reentrant"):
        lock.try_lock()
    assert lock.get_hold_count() == 1
    lock.unlock()
    assert left(world, 0) == set()


@pytest.mark.parametrize(
    ("count", "tolerates"), [(1, "no failed"), (2, "no failed"), (3, None), (4, "1 failed"), (5, None)]
)
def test_a_number_of_nodes_that_is_no_use_is_warned_of_once(world, caplog, count, tolerates):
    clients = nodes(world, count)
    with caplog.at_level(logging.WARNING, "pyredisson.server"):
        for _ in range(3):
            clients[0].real.get_red_lock(*[client.real.get_lock("orders") for client in clients])
    warned = [record.getMessage() for record in caplog.records if "quorum" in record.getMessage()]
    assert len(warned) == (tolerates is not None)
    assert all(f"a quorum of {count} node" in text and f"tolerates {tolerates}" in text for text in warned)


def test_its_blocks_are_left_in_any_order(world, alice, mine, theirs):
    outer, inner = mine.hold(), mine.hold()
    with outer:
        lease = inner.enter()
        mine.lock()
    assert lease.remaining() > 0
    alice.do(world.leave(inner.real))
    assert mine.get_hold_count() == 1
    assert theirs.try_lock() is False
    mine.unlock()
    assert left(world, *range(3)) == set()


def test_a_block_that_may_be_skipped_runs_without_a_lease_where_the_lock_is_held(mine, theirs):
    with theirs.hold() as lease:
        with mine.hold(wait_time=0, skip=True) as none:
            assert none is None
        lease.ensure_held()
        assert not mine.try_lock()
    with mine.hold(wait_time=0, skip=True) as lease:
        lease.ensure_held()


def test_force_unlock_frees_every_node(world, mine, theirs):
    assert not theirs.force_unlock()
    mine.lock()
    assert theirs.force_unlock()
    assert left(world, *range(3)) == set()
    raises_lost(mine.unlock)


def test_a_quorum_of_one_server_is_refused_when_that_is_seen(world, alice):
    one, _ = nodes(world, 2)
    lock = multi(alice, [one, nodes(world, 2)[0]], quorum=2)
    with pytest.raises(ValueError, match="the same server"):
        lock.try_lock()
    world.until(lambda: world.node(0).hash("orders") == {})


def test_a_closed_client_makes_it_unusable(clients, mine):
    mine.lock()
    clients[1].close()
    for call in (mine.lock, mine.try_lock, mine.unlock, mine.is_locked, mine.force_unlock, mine.get_hold_count):
        with pytest.raises(ClientClosedError):
            call()


# ---- all of several --------------------------------------------------------------------------------------------------


def test_all_are_acquired_or_none_of_any_kinds(world, client, alice, bob):
    kinds = [*KINDS, "write_lock"]
    mine, theirs = (over(actor, [make(client, kind, kind) for kind in kinds]) for actor in (alice, bob))
    assert mine.name == " + ".join(sorted(kinds))
    mine.lock()
    assert [handle(bob, client, kind, kind).try_lock() for kind in kinds] == [False] * len(kinds)
    assert not theirs.try_lock()
    waiting = bob.start(theirs.try_lock, 5)
    mine.unlock()
    assert waiting.result(within=5)
    theirs.unlock()
    assert left(world) == {"redisson_lock_token:{fenced_lock}"}
    bob.lock(client, "lock").lock()
    assert not mine.try_lock()
    assert not mine.try_lock(0.2)
    assert left(world) == {"lock", "redisson_lock_token:{fenced_lock}"}


def test_members_that_are_waited_for_do_not_cost_the_others_their_lease(world, client, alice, bob):
    theirs = bob.lock(client, "b")
    theirs.lock()
    lock = on_one_server(alice, client, "a", "b")
    waiting = alice.start(lock.try_lock, 20, 2.4)
    world.until(lambda: world.redis.hash("a"))
    world.renewed("a", times=3)
    theirs.unlock()
    assert waiting.result(within=5)
    assert lock.validity() > 0.3
    world.until(lambda: world.redis.hash("a") == world.redis.hash("b") == {}, within=5)
    raises_lost(lock.unlock)


def test_two_over_the_same_set_do_not_wait_in_a_circle(world, client, alice, bob):
    one, other = on_one_server(alice, client, "a", "b"), on_one_server(bob, client, "b", "a")
    for _ in range(10):
        first, second = alice.start(one.lock), bob.start(other.lock)
        world.until(lambda first=first, second=second: first.done() or second.done())
        winner, loser, late = (one, other, second) if first.done() else (other, one, first)
        winner.unlock()
        late.result(within=5)
        loser.unlock()
    assert left(world) == set()


def test_a_lost_member_is_a_lost_lock(world):
    client = world.client(lock_watchdog_timeout=3.0, quorum_node_timeout=0.9, on_lock_lost=world.on_lock_lost)
    lock = on_one_server(world.actor(), client, "a", "b")
    lock.lock()
    world.redis.delete("b")
    world.until(lambda: world.lost == ["a + b"])
    raises_lost(lock.unlock)
    assert left(world) == set()
