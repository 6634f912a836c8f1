"""``with lock.hold() as lease``: a block that knows until when it holds the lock, and is told when it does not."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError, LockTimeoutError
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async
from tests.worlds.store import CHANNEL

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def test_a_block_holds_the_lock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    with mine.hold() as lease:
        assert mine.get_hold_count() == 1
        assert not theirs.try_lock()
        lease.ensure_held()
        assert lease.lost is False
        assert lease.token is None
    assert theirs.try_lock()


def test_the_certain_time_is_shorter_than_the_lease(world: World) -> None:
    """Counted from before the request was sent, less the drift of two clocks (1 % and 2 ms)."""
    mine = world.actor().lock(world.client(lock_watchdog_timeout=40))
    with mine.hold(lease_time=20) as lease:
        assert 15 < lease.remaining() < 20 * 0.99
        assert lease.remaining() < world.redis.ttl("orders")
    with mine.hold() as lease:
        assert 35 < lease.remaining() < 40 * 0.99


@each_runtime
def test_the_remaining_time_decreases_and_a_renewal_raises_it(world: World) -> None:
    mine = world.actor().lock(world.client(lock_watchdog_timeout=2.4))
    with mine.hold() as lease:
        last, down, up = lease.remaining(), False, False

        def watched() -> bool:
            nonlocal last, down, up
            last, before = lease.remaining(), last
            down, up = down or last < before, up or last > before
            return down and up

        world.until(watched)
        lease.ensure_held()


def test_after_the_block_nothing_is_certain(world: World) -> None:
    mine = world.actor().lock(world.client())
    with mine.hold() as lease:
        pass
    assert lease.remaining() == 0
    assert lease.lost is False  # It was given back.
    with pytest.raises(LockLostError):
        lease.ensure_held()


@pytest.mark.parametrize("wait", [0, 0.2])
def test_a_block_that_does_not_get_the_lock_is_not_run(world: World, wait: float) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    alice.lock(client).lock()
    began = world.now()
    with pytest.raises(LockTimeoutError) as refusal, bob.lock(client).hold(wait_time=wait):
        pytest.fail("the block was run")
    assert 0.95 * wait <= world.now() - began < 5
    assert isinstance(refusal.value, TimeoutError)
    assert isinstance(refusal.value, LockError)
    assert refusal.value.name == "orders"
    assert str(refusal.value).startswith("timed out after 0.2 s" if wait else "lock 'orders' is held by ")
    assert " of this client" in str(refusal.value)


def test_a_block_waits_without_a_limit_by_default(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    entering = bob.start(theirs.hold().enter)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    assert not entering.done()
    mine.unlock()
    entering.result(within=5).ensure_held()


def test_blocks_nest(world: World) -> None:
    mine = world.actor().lock(world.client())
    with mine.hold(), mine, mine.hold(wait_time=0) as inner:
        assert mine.get_hold_count() == 3
        inner.ensure_held()
    assert not mine.is_locked()


@pytest.mark.parametrize("lease_time", [None, 30], ids=["watchdog", "lease"])
def test_leaving_says_that_the_lock_was_lost(world: World, lease_time: float | None) -> None:
    mine = world.actor().lock(world.client())
    with pytest.raises(LockLostError), mine.hold(lease_time=lease_time):
        world.redis.delete("orders")


def test_an_exception_of_the_body_goes_first(world: World) -> None:
    mine = world.actor().lock(world.client())
    with pytest.raises(ZeroDivisionError), mine.hold():
        world.redis.delete("orders")
        raise ZeroDivisionError
    mine.lock()
    assert mine.get_hold_count() == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes since Python 3.11")
@pytest.mark.parametrize("kind", ["lock", "multi_lock", "permit_expirable_semaphore"])
def test_a_loss_is_noted_on_an_exception_of_the_body(world: World, kind: str) -> None:
    client, actor = world.client(), world.actor()
    if kind == "multi_lock":
        members = [client.real.get_lock("orders"), client.real.get_lock("stock")]
        mine = Remote(client.real.get_multi_lock(*members), actor)
    else:
        mine = actor.get(client, kind)
    if kind == "permit_expirable_semaphore":
        mine.try_set_permits(1)
    with pytest.raises(ZeroDivisionError) as error, mine.hold():
        for name in world.redis.everything():
            world.redis.delete(name)
        raise ZeroDivisionError
    (note,) = error.value.__notes__
    assert "was lost by" in note
    assert "Work done since then" in note
    with pytest.raises(ZeroDivisionError) as error, actor.lock(client, "other").hold():
        raise ZeroDivisionError
    assert not hasattr(error.value, "__notes__")


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "multi_lock", "write_lock"])
def test_an_unlock_too_many_says_that_no_one_holds_it(world: World, kind: str) -> None:
    client, actor = world.client(), world.actor()
    if kind == "multi_lock":
        real = client.real.get_multi_lock(client.real.get_lock("orders"), client.real.get_lock("stock"))
    elif kind == "write_lock":
        real = client.real.get_read_write_lock("orders").write_lock()
    else:
        real = getattr(client.real, f"get_{kind}")("orders")
    mine = Remote(real, actor)
    mine.lock()
    mine.unlock()
    with pytest.raises(LockNotOwnedError, match=r"is not held by .*: no one holds it \(released twice") as refusal:
        mine.unlock()
    assert "only the thread" not in str(refusal.value)
    mine.lock()
    with pytest.raises(LockNotOwnedError, match=r"held by .* of this client, and only the thread") as refusal:
        Remote(real, world.actor()).unlock()
    assert "no one" not in str(refusal.value)


@each_runtime
def test_the_body_can_see_that_the_lock_was_lost(world: World) -> None:
    lost = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    mine = world.actor().lock(client)
    with pytest.raises(LockLostError), mine.hold() as lease:
        world.redis.delete("orders")
        world.until(lambda: lease.lost)
        assert lease.remaining() == 0
        with pytest.raises(LockLostError) as loss:
            lease.ensure_held()
        assert loss.value.name == "orders"
    world.until(lambda: len(lost) == 1)


def test_a_block_whose_lease_expires_raises_on_leaving(world: World) -> None:
    """Unlike a plain hold: the block is still running."""
    lost = []
    alice = world.actor()
    # The watchdog is awake often enough, and leaves it alone.
    mine = alice.lock(world.client(on_lock_lost=lambda *told: lost.append(told), lock_watchdog_timeout=0.3))
    with pytest.raises(LockLostError), mine.hold(lease_time=0.4) as lease:
        world.until(lambda: lost, within=5)
        assert lease.lost
        world.until(lambda: world.redis.ttl("orders") is None)
        with pytest.raises(LockLostError):
            mine.lock()  # Re-entry over a lost hold takes nothing.
        assert world.redis.hash("orders") == {}
    assert lost == [("orders", alice.number)]


def test_nested_blocks_each_say_that_the_lock_was_lost(world: World) -> None:
    mine = world.actor().lock(world.client())
    told = []
    try:
        with mine.hold() as outer:
            try:
                with mine.hold() as inner:
                    world.redis.delete("orders")
            except LockLostError:
                told.append(inner)
            assert outer.lost
    except LockLostError:
        told.append(outer)
    assert told == [inner, outer]


def test_the_remaining_time_is_known_without_a_request(world: World) -> None:
    mine = world.actor().lock(world.client())
    with mine.hold() as lease:
        # This is no task and no actor, and for asyncio not even the thread of the event loop.
        assert lease.remaining() > 0
        lease.ensure_held()


# ---- cancel_on_loss ----------------------------------------------------------------------------------------------


@asyncio_only
def test_the_body_is_cancelled_when_the_lock_is_lost(world: AsyncioWorld) -> None:
    lock = world.client(lock_watchdog_timeout=SHORT).real.get_lock("orders")
    reached = []

    async def body() -> None:
        async with lock.hold(cancel_on_loss=True):
            reached.append("inside")
            await asyncio.sleep(60)
            reached.append("end of the body")

    alice = world.actor()
    running = alice.start(body)
    world.until(lambda: reached)
    world.redis.delete("orders")
    assert isinstance(running.error(), LockLostError)
    assert reached == ["inside"]
    assert alice.do(asyncio.sleep, 0.01, "alive") == "alive"


@asyncio_only
def test_the_body_is_left_alone_unless_asked_for(world: AsyncioWorld) -> None:
    lost = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    lock = client.real.get_lock("orders")
    go_on = asyncio.Event()
    reached = []

    async def body() -> None:
        async with lock.hold():
            reached.append("inside")
            await go_on.wait()
            reached.append("end of the body")

    running = world.actor().start(body)
    world.until(lambda: reached)
    world.redis.delete("orders")
    world.until(lambda: lost)
    world.call_soon(go_on.set)
    assert isinstance(running.error(), LockLostError)
    assert reached == ["inside", "end of the body"]


@asyncio_only
def test_a_cancellation_from_outside_stays_one(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")
    alice = world.actor()
    inside = []

    async def body() -> None:
        async with lock.hold(cancel_on_loss=True):
            inside.append(True)
            await asyncio.sleep(60)

    error = alice.interrupted(body, once=lambda: inside)
    assert isinstance(error, asyncio.CancelledError)
    assert alice.do(lock.is_locked) is False


@asyncio_only
def test_a_body_that_outlives_its_cancellation_may_end_in_peace(world: AsyncioWorld) -> None:
    lock = world.client(lock_watchdog_timeout=SHORT).real.get_lock("orders")
    inside, after = [], []

    async def body() -> None:
        try:
            async with lock.hold(cancel_on_loss=True):
                inside.append(True)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    after.append("cleaned up")
        finally:
            await asyncio.sleep(0.01)
            after.append("awaited")

    running = world.actor().start(body)
    world.until(lambda: inside)
    world.redis.delete("orders")
    assert isinstance(running.error(), LockLostError)
    assert after == ["cleaned up", "awaited"]


@asyncio_only
def test_a_block_that_was_left_is_not_cancelled_any_more(world: AsyncioWorld) -> None:
    lost = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    lock = client.real.get_lock("orders")
    left = []

    async def body() -> str:
        async with lock.hold():
            async with lock.hold(cancel_on_loss=True):
                pass
            left.append(True)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), SHORT)
            return "not cancelled"

    running = world.actor().start(body)
    world.until(lambda: left)
    world.redis.delete("orders")
    world.until(lambda: lost)
    assert isinstance(running.error(), LockLostError)  # Of the outer block, which waited for its own end.


@each_runtime
def test_a_lease_says_what_it_is(world: World) -> None:
    mine = world.actor().lock(world.client())
    with mine.hold(lease_time=20) as lease:
        assert "orders" in repr(lease)
        assert " s" in repr(lease)
    assert "ended" in repr(lease)


def test_a_block_that_may_skip_runs_without_the_lock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    with theirs.hold(wait_time=0, skip=True) as lease:
        assert lease is None
        assert mine.is_held_by_current_thread()
    assert mine.is_held_by_current_thread(), "leaving has released nothing"
    mine.unlock()
    with theirs.hold(wait_time=0, skip=True) as lease:
        lease.ensure_held()
    assert not mine.is_locked()


def test_a_block_is_entered_once(world: World) -> None:
    mine = world.actor().lock(world.client())
    hold = mine.hold()
    with hold:
        pass
    with pytest.raises(LockError, match="entered only once"):
        hold.enter()
    assert not mine.is_locked()
