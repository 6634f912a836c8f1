"""Whoever has to can free the lock, whoever holds it."""

import pytest

from pyredisson import LockLostError, LockNotOwnedError, OutcomeUnknownError
from tests.promises.kinds import warned
from tests.worlds.base import KEPT
from tests.worlds.environments import each_runtime, sync_and_async


@each_runtime
def test_a_hold_of_the_caller_itself_ends_without_a_loss(world):
    lost = []
    client = world.client(lock_watchdog_timeout=KEPT, on_lock_lost=lambda *told: lost.append(told))
    mine = world.actor().lock(client)
    mine.lock()
    mine.lock()
    assert mine.force_unlock() is True
    with pytest.raises(LockNotOwnedError) as refusal:
        mine.unlock()
    assert not isinstance(refusal.value, LockLostError)
    mine.lock()
    assert mine.get_hold_count() == 1
    world.renewed("orders", times=1)
    assert mine.get_hold_count() == 1
    assert lost == []


def test_another_holder_of_this_client_is_notified_at_once(world, alice, bob):
    lost = []
    client = world.client(lock_watchdog_timeout=300, on_lock_lost=lambda *told: lost.append(told))
    mine, theirs = alice.lock(client), bob.lock(client)
    theirs.lock()
    theirs.lock()
    assert mine.force_unlock() is True
    world.until(lambda: lost, within=5)
    assert lost == [("orders", bob.number)]
    with pytest.raises(LockLostError):
        theirs.lock()
    for _ in range(2):
        with pytest.raises(LockLostError):
            theirs.unlock()
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
    losses = []
    client = world.client(on_lock_lost=lambda *loss: losses.append(loss))
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock(0.3)
    world.until(lambda: world.redis.ttl("orders") is None)
    assert not theirs.force_unlock()
    mine.lock()
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert not losses


@sync_and_async
def test_one_without_an_answer_is_not_repeated_and_can_be_called_again(world, proxy, alice, bob, caplog):
    mine, theirs = alice.lock(world.through(proxy.port, timeout=1.0)), bob.lock(world.client())
    assert theirs.force_unlock() is False  # The server knows the script now.
    theirs.lock()
    silence = proxy.hold_request("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError, match=r"it may have been executed, and is not repeated: call it again$"):
        mine.force_unlock()
    (line,) = [each for each in warned(caplog) if "a force_unlock is unknown" in each]
    assert "in the background" not in line
    silence.remove()
    proxy.heal()
    assert mine.force_unlock() is True
