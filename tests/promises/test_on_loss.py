"""``hold(..., on_loss=callback)``: the callback of one block, called once if its hold is lost."""

import asyncio
import gc
import threading
from contextlib import ExitStack

import pytest

from pyredisson import LockLostError, LockNotOwnedError, events
from tests.promises.kinds import handle, members, over, single
from tests.real_servers.client_settings import renewed_every
from tests.waiting import soon
from tests.worlds.base import KEPT
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async, threads_only

pytestmark = each_runtime

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
PERMITS = "permit_expirable_semaphore"
each_kind = pytest.mark.parametrize(
    ("kind", "key"), [("lock", "orders"), ("token_lock", "orders"), (PERMITS, "{orders}:timeout")]
)


@each_kind
@pytest.mark.parametrize("lease", [None, 60])
def test_it_is_called_once_and_not_for_other_blocks(world, alice, bob, kind, key, lease):
    called, other, told = [], [], []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *lost: told.append(lost))
    parcels = handle(bob, client, "lock", "parcels")
    with ExitStack() as stack:
        stack.enter_context(parcels.hold(on_loss=lambda: other.append(1)))
        with (
            pytest.raises(LockLostError),
            single(alice, client, kind).hold(lease_time=lease, on_loss=lambda: called.append(1)),
        ):
            world.redis.delete(key)
            if lease is None:
                world.until(lambda: called)
                world.pass_time(SHORT)
                assert called == [1]
        world.until(lambda: called and told)  # With a fixed lease, leaving the block finds out.
    assert (called, other, len(told)) == ([1], [], 1)


@each_kind
def test_it_is_not_called_without_a_loss_nor_after_its_block(world, alice, kind, key):
    called = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    lock = single(alice, client, kind)
    with lock.hold(on_loss=lambda: called.append(1)):
        pass
    with pytest.raises(ZeroDivisionError), lock.hold(on_loss=lambda: called.append(1)):
        raise ZeroDivisionError
    with (
        lock.hold(),
        lock.hold(wait_time=0, skip=True, on_loss=lambda: called.append(1)) if kind == PERMITS else ExitStack(),
    ):
        pass
    with pytest.raises(LockLostError), lock.hold():
        world.redis.delete(key)
        world.until(lambda: world.losses)
    assert called == []


@threads_only
@pytest.mark.parametrize("error", [LockLostError, ZeroDivisionError])
def test_it_is_called_for_a_block_that_is_left_before_its_loss_is_reported(world, alice, error):
    called, left = [], threading.Event()

    def delay_the_report(event):
        if isinstance(event, events.Lost):
            left.wait(10)

    client = world.client(lock_watchdog_timeout=SHORT, listeners=(delay_the_report,))
    with pytest.raises(error), alice.lock(client).hold(on_loss=lambda: called.append(1)) as lease:
        world.redis.delete("orders")
        world.until(lambda: lease.lost)
        if error is ZeroDivisionError:
            raise ZeroDivisionError
    left.set()
    world.until(lambda: called)
    assert called == [1]


def test_the_blocks_of_one_owner_have_a_callback_each(world, alice):
    outer, inner, left = [], [], []
    client = world.client(lock_watchdog_timeout=SHORT)
    mine = alice.lock(client)
    with pytest.raises(LockLostError), mine.hold(on_loss=lambda: outer.append(1)):
        with mine.hold(on_loss=lambda: left.append(1)):
            pass
        with pytest.raises(LockLostError), mine.hold(on_loss=lambda: inner.append(1)):
            world.redis.delete("orders")
            world.until(lambda: outer and inner)
    assert (outer, inner, left) == ([1], [1], [])


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
@pytest.mark.parametrize("how", ["unlock", "force_unlock"])
def test_it_is_not_called_for_a_later_hold_of_the_same_owner(world, alice, kind, how):
    called, later = [], []
    mine = handle(alice, world.client(lock_watchdog_timeout=SHORT), kind)
    with (
        pytest.raises(LockNotOwnedError, match="released or force-unlocked inside it") as refusal,
        mine.hold(on_loss=lambda: called.append(1)),
    ):
        getattr(mine, how)()
        with pytest.raises(LockLostError), mine.hold(on_loss=lambda: later.append(1)):
            world.redis.delete("orders")
            world.until(lambda: later)
    assert not isinstance(refusal.value, LockLostError)
    assert (called, later) == ([], [1])


@asyncio_only
@pytest.mark.parametrize("how", ["unlock", "force_unlock"])
def test_a_block_is_not_cancelled_for_a_later_hold_of_its_task(world, how):
    client = world.client(lock_watchdog_timeout=60)

    async def main():
        lock, lost, went_on = client.real.get_lock("orders"), asyncio.Event(), False
        with pytest.raises(LockNotOwnedError, match="released or force-unlocked inside it"):
            async with lock.hold(cancel_on_loss=True):
                await getattr(lock, how)()
                with pytest.raises(LockLostError):
                    async with lock.hold(on_loss=lost.set):
                        await asyncio.ensure_future(lock.force_unlock())
                        await asyncio.wait_for(lost.wait(), 10)
                went_on = True
        assert went_on

    world.run(main)


@pytest.mark.parametrize("nodes", [1, 3])
def test_that_of_a_multi_lock_is_called_when_too_few_members_are_left(world, alice, nodes):
    called = []
    locks, stores = members(world, nodes, lock_watchdog_timeout=SHORT)
    with pytest.raises(LockLostError), over(alice, locks).hold(on_loss=lambda: called.append(1)):
        for store in stores[: (nodes + 1) // 2]:
            assert called == []
            store.delete("a")
        world.until(lambda: called)
    assert called == [1]


@sync_and_async
def test_what_it_raises_is_logged_and_a_block_that_waits_in_it_delays_no_other(world, alice, bob, caplog):
    go_on, called = threading.Event(), []
    client = world.client(lock_watchdog_timeout=KEPT)

    def fail():
        called.append(1)
        raise ZeroDivisionError

    def block():
        called.append(2)
        go_on.wait(30)

    mine, theirs = alice.lock(client), bob.lock(client, "parcels")
    with pytest.raises(LockLostError), mine.hold(on_loss=fail), theirs.hold(on_loss=block):
        bob.lock(client).force_unlock()
        alice.lock(client, "parcels").force_unlock()
        world.until(lambda: len(called) == 2 and "ZeroDivisionError" in caplog.text)
        go_on.set()


def test_what_cannot_be_called_without_arguments_is_refused_at_once(mine):
    with pytest.raises(TypeError, match="on_loss must be a function, called without arguments, not 5"):
        mine.hold(on_loss=5)
    with pytest.raises(TypeError, match=r"on_loss is called without arguments: .* takes \(name, number\)"):
        mine.hold(on_loss=lambda name, number: None)


@asyncio_only
@pytest.mark.parametrize("how", ["event", "coroutine function", "task"])
def test_methods_of_asyncio_are_called_in_the_loop_and_coroutine_functions_are_awaited(world, how):
    client = world.client(lock_watchdog_timeout=60)

    async def main():
        lock, stop = client.real.get_lock("orders"), asyncio.Event()
        sleeper = asyncio.ensure_future(asyncio.sleep(60))

        async def later():
            await asyncio.sleep(0)
            stop.set()

        asyncio.get_running_loop().set_debug(True)  # A call from another thread is an error.
        try:
            callback = {"event": stop.set, "coroutine function": later, "task": sleeper.cancel}[how]
            with pytest.raises(LockLostError):
                async with lock.hold(on_loss=callback):
                    await asyncio.ensure_future(lock.force_unlock())
                    if how == "task":
                        await asyncio.wait([sleeper], timeout=10)
                        assert sleeper.cancelled()
                    else:
                        await asyncio.wait_for(stop.wait(), 10)
        finally:
            asyncio.get_running_loop().set_debug(False)
            sleeper.cancel()

    world.run(main)


@sync_and_async
def test_that_of_a_block_that_was_dropped_is_not_called_for_a_later_hold(world, alice):
    """Its lock was left to its lease, which is reported at once."""
    called, told = [], []
    client = world.client(listeners=(told.append,))
    renewed_every(client.real, 0.5)
    mine = alice.lock(client)
    held = mine.hold(on_loss=lambda: called.append(1))
    held.enter()
    del held
    gc.collect()
    world.until(lambda: any(isinstance(each, events.HolderGone) for each in told))
    with pytest.raises(LockLostError), mine.hold():
        world.redis.delete("orders")
        world.until(lambda: any(isinstance(each, events.Lost) for each in told))
    assert called == []


@asyncio_only
@pytest.mark.parametrize("closes", [False, True])
def test_a_coroutine_function_runs_to_its_end_although_its_client_is_closed(world, closes):
    """The block is cancelled by the same loss, and left; so is its client."""
    ended = []
    client = world.client().real

    async def alert():
        await (client.aclose() if closes else asyncio.sleep(0.2))
        ended.append("alert")

    async def main():
        with pytest.raises(LockLostError):
            async with client, client.get_lock("orders").hold(on_loss=alert, cancel_on_loss=True):
                await asyncio.ensure_future(client.get_lock("orders").force_unlock())
                await asyncio.sleep(60)
        await soon(lambda: ended)

    world.run(main)
    assert ended == ["alert"]
