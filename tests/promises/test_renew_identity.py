"""A client that becomes another one in the same process, as after a restore from a snapshot."""

from contextlib import suppress

import pytest

from pyredisson import ClientClosedError, LockLostError, OutcomeUnknownError
from pyredisson._shared import process
from tests.waiting import soon
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import asyncio_only, sync_and_async


@sync_and_async
def test_what_was_held_is_lost_and_the_client_goes_on(world, alice, bob):
    lost = []
    client = world.client(on_lock_lost=lambda name, number: lost.append(name))
    before = client.id
    block = alice.lock(client).hold()
    lease = block.enter()
    client.renew_identity()
    assert client.id != before
    assert lease.lost
    world.until(lambda: lost == ["orders"])
    with pytest.raises(LockLostError):
        alice.do(world.leave(block.real))
    mine = alice.lock(client, "bills")
    mine.lock()
    assert next(iter(world.redis.hash("bills"))).startswith(client.id)
    waiting = bob.start(bob.lock(client, "bills").lock)
    world.until(lambda: world.waiting(mine) == 1)
    mine.unlock()
    waiting.result()


@sync_and_async
def test_permits_and_multi_locks_are_lost_too(world, client, alice):
    permits = alice.get(client, "permit_expirable_semaphore", "permits")
    permits.try_set_permits(1)
    several = Remote(client.real.get_multi_lock(client.real.get_lock("a"), client.real.get_lock("b")), alice)
    semaphore = alice.get(client, "semaphore", "semaphore", permits=1)
    blocks = permits.hold(), several.hold()
    leases = [block.enter() for block in blocks]
    semaphore.enter()
    client.renew_identity()
    assert all(lease.lost for lease in leases)
    for block in (*blocks, semaphore):
        with pytest.raises(LockLostError):
            alice.do(world.leave(block.real))
    assert semaphore.available_permits() == 0


@sync_and_async
def test_who_waits_is_woken(world, client, alice, bob, theirs):
    alice.lock(world.client()).lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.waiting(theirs) == 1)
    client.renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)
    client.close()
    with pytest.raises(ClientClosedError):
        client.renew_identity()


@sync_and_async
@pytest.mark.parametrize("noticed", ["by the watchdog", "by a new connection"])
def test_a_restored_copy_is_another_client(world, alice, monkeypatch, noticed):
    lost = []
    client = world.client(
        lock_watchdog_timeout=0.6 if noticed == "by the watchdog" else 30,
        on_lock_lost=lambda name, _: lost.append(name),
    )
    before = client.id
    block = alice.lock(client).hold()
    lease = block.enter()
    pid, boot, start = process.origin()
    monkeypatch.setattr(process, "origin", lambda: (pid, boot, f"{start}0"))
    if noticed == "by a new connection":
        world.redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        mine = alice.lock(client, "bills")
        with suppress(ClientClosedError, OutcomeUnknownError):  # Unless the subscriber has noticed it before.
            mine.lock()
        assert all(owner.startswith(client.id) for owner in world.redis.hash("bills"))
        assert mine.try_lock()
        mine.force_unlock()
    world.until(lambda: lost == ["orders"] and client.id != before)
    assert lease.lost
    with pytest.raises(LockLostError, match="restored from a checkpoint"):
        alice.do(world.leave(block.real))
    assert next(iter(world.redis.hash("orders"))).startswith(before)  # It is the original's, and left to it.


@sync_and_async
def test_an_origin_that_cannot_be_read_is_no_copy(world, alice, monkeypatch):
    client = world.client(lock_watchdog_timeout=KEPT)
    before, lock = client.id, alice.lock(client)
    lock.lock()
    pid, _, _ = process.origin()
    monkeypatch.setattr(process, "origin", lambda: (pid, "", ""))
    world.renewed("orders", times=1)
    assert client.id == before
    lock.unlock()


@asyncio_only
def test_a_hook_outside_the_event_loop_does_so_too(world):
    """What was held is lost, and said to be so, on a thread or once the loop runs on."""
    called, awaited = [], []

    async def alert(name, number):
        awaited.append(name)

    client = world.client(on_lock_lost=alert).real
    before = client.id
    blocks = [client.get_lock(name).hold(on_loss=lambda name=name: called.append(name)) for name in ("a", "b")]

    async def enter():
        return [await block.__aenter__() for block in blocks]

    async def wait():
        await soon(lambda: sorted(awaited) == ["a", "b"])

    leases = world.run(enter)
    client.renew_identity()
    assert client.id != before
    assert all(lease.lost for lease in leases)
    world.until(lambda: sorted(called) == ["a", "b"])
    world.run(wait)
