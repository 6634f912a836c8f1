"""The owner is the thread, the task, or what ``client.new_owner()`` made, which may be used from any of them."""

import asyncio
import gc
import logging

import pytest
import redis.asyncio

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, LockError, LockLostError, LockNotOwnedError
from tests.promises.kinds import LOCKS, handle, make, not_owned, raises_lost, rival
from tests.servers import HOST
from tests.waiting import soon
from tests.worlds.base import KEPT
from tests.worlds.environments import asyncio_only, each_runtime, everywhere, sync_and_async

pytestmark = sync_and_async


@asyncio_only
def test_a_child_task_is_another_owner(world):
    lock = world.client().real.get_lock("orders")

    async def parent():
        async with lock:
            got = await asyncio.create_task(lock.try_lock())
            held = await asyncio.create_task(lock.is_held_by_current_task())
            return got, held, await lock.get_hold_count()

    assert world.actor().do(parent) == (False, False, 1)


@asyncio_only
def test_without_a_task_there_is_no_owner(world):
    lock = world.client().real.get_lock("orders")
    for call in (lock.lock, lock.try_lock, lock.unlock):
        coroutine = call()
        with pytest.raises(RuntimeError):
            coroutine.send(None)
        coroutine.close()


# ---- event loops -------------------------------------------------------------------------------------------------


@asyncio_only
def test_a_client_does_not_serve_two_loops_at_once(world):
    lock = world.client().real.get_lock("orders")
    world.actor().do(lock.lock)
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(lock.try_lock())
    assert world.redis.everything() != {}


@asyncio_only
def test_an_event_loop_after_a_closed_one_has_a_new_client_and_new_owners(world):
    client = pyredisson.asyncio.Redisson(redis.asyncio.Redis(host=HOST, port=world.port))
    lock, semaphore = client.get_lock("orders"), client.get_semaphore("seats")
    permits, latch = client.get_permit_expirable_semaphore("leased"), client.get_count_down_latch("ready")
    ids = []

    async def take():
        assert await lock.try_lock(lease_time=30)
        await use()

    async def use():
        await semaphore.add_permits(1)
        assert await semaphore.acquire(timeout=1)
        assert not await semaphore.try_acquire(1, 0.05)
        await permits.add_permits(1)
        assert await permits.try_acquire(1)
        await latch.try_set_count(1)
        assert not await latch.wait(0.05)
        ids.append(client.id)

    async def find_it_lost():
        assert await lock.get_hold_count() == 0
        assert not await lock.try_lock()
        with pytest.raises(LockNotOwnedError):
            await lock.unlock()
        assert await lock.force_unlock()
        async with lock:
            other = asyncio.create_task(lock.try_lock(5))
            await soon(lambda: "1 waiting here" in repr(lock))
        assert await other
        await use()
        await client.close()

    asyncio.run(take())
    asyncio.run(find_it_lost())
    assert len(set(ids)) == 2
    records = {key.split(":", 2)[2].rsplit(":", 1)[0] for key in world.redis.everything() if "done:{seats}" in key}
    assert records == set(ids)


@asyncio_only
def test_what_was_held_in_a_closed_event_loop_is_reported_as_lost_in_the_next(world):
    lost = []
    config = Config(on_lock_lost=lambda name, number: lost.append(name))
    client = pyredisson.asyncio.Redisson(redis.asyncio.Redis(host=HOST, port=world.port), config=config)
    block = client.get_lock("orders").hold(on_loss=lambda: lost.append("its own"))

    async def leave():
        with pytest.raises(LockLostError, match="the event loop of its client was closed"):
            await block.__aexit__(None, None, None)
        await client.close()

    asyncio.run(block.__aenter__())
    asyncio.run(leave())
    world.until(lambda: sorted(lost) == ["its own", "orders"])


# ---- owners that are made --------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("kind", [*LOCKS, "multi_lock"])
def test_an_owner_acquires_here_and_releases_there(alice, bob, carol, client, kind):
    owner = client.real.new_owner()
    mine, theirs = handle(alice, client, kind, owner=owner), handle(bob, client, kind, owner=owner)
    other = rival(carol, client, kind)
    mine.lock()
    assert theirs.is_held_by_current_thread()
    assert theirs.get_hold_count() == 1
    assert not other.try_lock()
    not_owned(other.unlock)
    theirs.unlock()
    assert other.try_lock()


@everywhere
def test_an_owner_re_enters_from_any_thread_or_task(world, client, alice, bob):
    owner = client.real.new_owner()
    mine, theirs = handle(alice, client, "lock", owner=owner), handle(bob, client, "lock", owner=owner)
    with mine, theirs.hold():
        assert mine.get_hold_count() == 2
        assert world.redis.hash("orders") == {f"{client.real.id}:{owner.number}": "2"}
    assert world.redis.ttl("orders") is None


def test_two_owners_exclude_each_other_on_one_thread(client, alice):
    one, other = (handle(alice, client, "lock", owner=client.real.new_owner()) for _ in range(2))
    one.lock()
    assert other.try_lock() is False
    not_owned(other.unlock)
    one.unlock()
    assert other.try_lock() is True


def test_the_locks_of_a_multi_lock_are_of_one_owner(world, client):
    with pytest.raises(ValueError, match="one owner"):
        world.api.MultiLock(make(client, "lock", "a", owner=client.real.new_owner()), make(client, "lock", "b"))


def test_a_wait_at_a_condition_is_a_call_of_its_owner(world, alice, bob, client):
    owner = client.real.new_owner()
    mine, theirs = handle(alice, client, "lock", owner=owner), handle(bob, client, "lock", owner=owner)
    mine.lock()
    waiting = alice.start(client.real.get_condition(mine.real).wait, 3)
    world.until(lambda: world.redis.command("EXISTS", "pyredisson_condition:{orders}"))
    with pytest.raises(LockError, match="in the middle of another call"):
        theirs.lock()
    assert waiting.result() is False
    assert theirs.get_hold_count() == 1
    theirs.unlock()
    assert not mine.is_locked()


def test_an_owner_makes_one_call_at_a_time(world, alice, bob, carol, client):
    owner = client.real.new_owner()
    other = carol.lock(client)
    mine, theirs = handle(alice, client, "lock", owner=owner), handle(bob, client, "lock", owner=owner)
    other.lock()
    waiting = alice.start(mine.try_lock, 10)
    world.until(lambda: world.waiting(mine) == 1)
    with pytest.raises(LockError, match="in the middle of another call"):
        theirs.try_lock()
    other.unlock()
    assert waiting.result()
    theirs.unlock()


def test_the_lock_of_an_owner_is_renewed_after_its_thread_or_task_has_ended(world, alice, bob):
    client = world.client(lock_watchdog_timeout=KEPT)
    owner = client.real.new_owner()
    handle(alice, client, "lock", owner=owner).lock()
    alice.end()
    world.renewed("orders")
    handle(bob, client, "lock", owner=owner).unlock()
    assert world.redis.ttl("orders") is None


@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_the_lock_of_a_closed_or_collected_owner_is_renewed_no_longer(world, end, caplog):
    client = world.client(lock_watchdog_timeout=4.0)
    owner = client.real.new_owner()
    with caplog.at_level(logging.WARNING, "pyredisson"):
        handle(world.actor(), client, "lock", owner=owner).lock()
        if end == "closed":
            owner.close()
        else:
            del owner
            gc.collect()
        world.until(lambda: world.redis.ttl("orders") is None)
    assert f"owner was {end} without releasing it" in caplog.text


def test_neither_is_its_block(world, caplog):
    client = world.client(lock_watchdog_timeout=1.5)
    owner = client.real.new_owner()
    mine, lost = handle(world.actor(), client, "lock", owner=owner), []
    held, inner = mine.hold(on_loss=lambda: lost.append(1)), mine.hold(lease_time=1.4)
    held.enter()
    lease = inner.enter()
    owner.close()
    world.until(lambda: world.redis.ttl("orders") is None)
    world.until(lambda: lost)
    raises_lost(lease.ensure_held, match="before it could be renewed")
    del held, inner, lease
    gc.collect()
    world.pass_time(1.0)
    assert caplog.text.count("owner was closed without releasing it") == 1


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "token_lock", "multi_lock"])
def test_a_closed_owner_releases_but_acquires_nothing(world, client, kind):
    owner = client.real.new_owner()
    mine, other = handle(world.actor(), client, kind, owner=owner), handle(world.actor(), client, kind)
    mine.lock()
    owner.close()
    for call in (mine.lock, mine.try_lock, mine.acquire, mine.hold().enter):
        with pytest.raises(LockError, match=rf"^owner {owner.number} was closed; make another"):
            call()
    mine.unlock()
    assert other.try_lock() is True


def test_an_invalid_or_closed_owner_is_refused_at_once(world):
    client = world.client().real
    with pytest.raises(TypeError, match="new_owner"):
        client.get_lock("orders", owner="me")
    owner = client.new_owner()
    with owner:
        assert not owner.closed
    assert owner.closed
    with pytest.raises(LockError, match="closed"):
        client.get_lock("orders", owner=owner)
    assert "closed" in repr(owner)


@each_runtime
@pytest.mark.parametrize("closed", [0, 1])
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock"])
def test_a_closed_client_ends_what_an_owner_holds_of_it_alone(world, alice, bob, kind, closed):
    clients = world.nodes(2, lock_watchdog_timeout=KEPT)
    owner = clients[0].real.new_owner()
    locks = [handle(alice, client, kind, owner=owner) for client in clients]
    for lock in locks:
        lock.lock()
    clients[closed].close()
    kept = 1 - closed
    world.renewed("orders", store=world.node(kept))
    assert not owner.closed
    assert locks[kept].try_lock() is True
    assert locks[kept].get_hold_count() == 2
    for _ in range(2):
        locks[kept].unlock()
    assert handle(bob, clients[kept], kind).try_lock() is True
    world.until(lambda: not world.node(closed).command("EXISTS", "orders"), what="the other lease runs out")
