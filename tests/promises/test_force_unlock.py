"""Whoever has to can free the lock, whoever holds it."""

import contextvars

import pytest

from pyredisson import OutcomeUnknownError
from tests.promises.kinds import not_owned, raises_lost, warned
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import each_runtime, sync_and_async, threads_only


@each_runtime
def test_a_hold_of_the_caller_itself_ends_without_a_loss(world):
    client = world.client(lock_watchdog_timeout=KEPT, on_lock_lost=world.on_lock_lost)
    mine = world.actor().lock(client)
    mine.lock()
    mine.lock()
    assert mine.force_unlock() is True
    not_owned(mine.unlock)
    mine.lock()
    assert mine.get_hold_count() == 1
    world.renewed("orders", times=1)
    assert mine.get_hold_count() == 1
    assert world.losses == []


def test_another_holder_of_this_client_is_notified_at_once(world, alice, bob):
    client = world.client(lock_watchdog_timeout=300, on_lock_lost=world.on_lock_lost)
    mine, theirs = alice.lock(client), bob.lock(client)
    theirs.lock()
    theirs.lock()
    assert mine.force_unlock() is True
    world.until(lambda: world.losses, within=5)
    assert world.losses == [("orders", bob.number)]
    raises_lost(theirs.lock)
    for _ in range(2):
        raises_lost(theirs.unlock)
    assert mine.try_lock()


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
def test_one_of_the_waiters_of_this_client_acquires_the_lock(world, client, bob, carol, mine, kind):
    mine.lock()
    waiting = [each.start(each.get(client, kind).lock) for each in (bob, carol)]
    world.until(lambda: world.waiting(mine) == 2)
    mine.force_unlock()
    world.until(lambda: sum(pending.done() for pending in waiting) == 1)
    mine.force_unlock()
    for pending in waiting:
        pending.result(within=5)


def test_a_hold_that_had_run_out_before_is_not_called_lost(world, alice, bob):
    client = world.client(on_lock_lost=world.on_lock_lost)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock(0.3)
    world.until(lambda: world.redis.ttl("orders") is None)
    assert not theirs.force_unlock()
    mine.lock()
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert not world.losses


@sync_and_async
def test_one_without_an_answer_is_not_repeated_and_can_be_called_again(world, proxy, alice, bob, caplog):
    mine, theirs = alice.lock(world.through(proxy.port, timeout=1.0)), bob.lock(world.client())
    assert theirs.force_unlock() is False  # The server knows the script now.
    theirs.lock()
    proxy.hold_request("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError, match=r"it may have been executed, and is not repeated: call it again$"):
        mine.force_unlock()
    (line,) = [each for each in warned(caplog) if "a force_unlock is unknown" in each]
    assert "in the background" not in line
    proxy.clear()
    assert mine.force_unlock() is True


@sync_and_async
@pytest.mark.parametrize(
    "kind", ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "read_lock", "write_lock"]
)
def test_a_loss_that_was_reported_outlasts_it(world, alice, bob, kind):
    client = world.client(lock_watchdog_timeout=300, on_lock_lost=world.on_lock_lost)
    side = kind.startswith(("read", "write")) and kind
    mine = alice.get(client, "read_write_lock" if side else kind)
    mine = Remote(getattr(mine.real, side)(), alice) if side else mine
    theirs = Remote(mine.real, bob)
    mine.lock()
    theirs.force_unlock()
    world.until(lambda: world.losses == [("orders", alice.number)])
    theirs.lock()
    assert mine.force_unlock(), "of who holds it now"
    assert not mine.force_unlock(), "of the free lock"
    for use in (mine.ensure_held, mine.try_lock, mine.unlock):
        raises_lost(use)
    assert mine.try_lock(), "each of its levels was unlocked"


@sync_and_async
def test_a_block_whose_lease_ran_out_learns_of_it_although_it_freed_the_lock(world, alice, mine):
    block = mine.hold(lease_time=0.2)
    lease = block.enter()
    world.until(lambda: lease.lost)
    mine.force_unlock()
    raises_lost(alice.do, world.leave(block.real))


@threads_only
def test_what_has_ended_in_another_call_chain_is_not_forgotten(world, client):
    mine = client.real.get_lock("orders")
    one, other = contextvars.copy_context(), contextvars.copy_context()
    one.run(mine.lock, 0.2)
    world.until(lambda: world.redis.ttl("orders") is None)
    assert not other.run(mine.force_unlock)
    raises_lost(one.run, mine.unlock)
    one.run(mine.lock, 0.2)
    world.until(lambda: world.redis.ttl("orders") is None)
    assert not one.run(mine.force_unlock)
    not_owned(lambda: one.run(mine.unlock))  # Its own call chain has ended it.
