"""``with lock.hold() as lease``: a block that knows until when it holds the lock, and is told when it does not."""

import asyncio
import gc
import logging
import math
import re
import sys

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError, LockTimeoutError
from tests.promises.kinds import each_of, not_owned, raises_lost, single
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async
from tests.worlds.store import CHANNEL

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
TAKEN = "{orders}:timeout"
PERMITS = "permit_expirable_semaphore"
#: What is announced where, and what an owner's hold is kept in.
CHANNELS = {"lock": CHANNEL, "semaphore": "redisson_sc:{orders}", PERMITS: "redisson_sc:{orders}"}
HOLDS = {"lock": "orders", PERMITS: TAKEN}

kind = each_of(*CHANNELS)
each_expiring_kind = pytest.mark.parametrize("kind", HOLDS)


def is_free(lock: Remote) -> bool:
    """Whether a block would run now."""
    with lock.hold(wait_time=0, skip=True) as lease:
        return lease is not None


# ---- each kind -------------------------------------------------------------------------------------------------------


def test_a_block_excludes_others_until_it_is_left(client, alice, bob, kind):
    mine, theirs = single(alice, client, kind), single(bob, client, kind)
    with mine.hold() as lease:
        assert not is_free(theirs), "a block that may be skipped is run with no lease"
        assert not is_free(theirs), "leaving it has released nothing"
        lease.ensure_held()
        assert lease.remaining() > 0
        assert (lease.lost, lease.token) == (False, None)
        assert "orders" in repr(lease)
    assert is_free(theirs)
    assert lease.remaining() == 0
    assert lease.lost is False  # It was given back.
    assert "ended" in repr(lease)
    raises_lost(lease.ensure_held, match="its block has already been left")


@pytest.mark.parametrize("wait", [0, 0.2])
def test_a_block_that_does_not_get_the_lock_is_not_run(world, client, alice, bob, kind, wait):
    with single(alice, client, kind).hold():
        began = world.now()
        with pytest.raises(LockTimeoutError) as refusal, single(bob, client, kind).hold(wait_time=wait):
            pytest.fail("the block was run")
        assert 0.95 * wait <= world.now() - began < 5
    assert isinstance(refusal.value, TimeoutError)
    assert isinstance(refusal.value, LockError)
    assert refusal.value.name == "orders"
    if kind == "lock":
        assert " of this client" in str(refusal.value)
        assert str(refusal.value).startswith("timed out after 0.2 s" if wait else "lock 'orders' is held by ")


def test_a_block_is_entered_once_and_ends_with_an_exception_of_its_body(world, kind):
    mine = single(world.actor(), world.client(), kind)
    hold = mine.hold()
    with pytest.raises(ZeroDivisionError), hold:
        raise ZeroDivisionError
    with pytest.raises(LockError, match="once"):
        hold.enter()
    assert is_free(mine)


def test_blocks_nest(world, kind):
    mine = world.actor().get(world.client(), kind, **({} if kind == "lock" else {"permits": 3}))
    with mine.hold(), mine.hold(), mine.hold(wait_time=0) as inner:
        inner.ensure_held()
        if kind == "lock":
            assert mine.get_hold_count() == 3
        else:
            assert mine.available_permits() == 0
    assert mine.is_locked() is False if kind == "lock" else mine.available_permits() == 3


@each_runtime
@each_expiring_kind
def test_the_remaining_time_decreases_and_a_renewal_raises_it(world, kind):
    mine = single(world.actor(), world.client(lock_watchdog_timeout=KEPT), kind)
    with mine.hold() as lease:
        last, down, up = lease.remaining(), False, False

        def watched():
            nonlocal last, down, up
            last, before = lease.remaining(), last
            assert last <= KEPT
            down, up = down or last < before, up or last > before
            return down and up

        world.until(watched)
        lease.ensure_held()


@pytest.mark.parametrize(
    ("kind", "how"), [("lock", "with"), *((kind, how) for kind in HOLDS for how in ("watchdog", "lease"))]
)
def test_leaving_says_that_the_lock_was_lost_unless_the_body_failed(world, kind, how):
    for error in (LockLostError, ZeroDivisionError):
        mine = single(world.actor(), world.client(), kind)
        block = mine if how == "with" else mine.hold(lease_time=30 if how == "lease" else None)
        with pytest.raises(error) as raised, block:
            world.redis.delete(HOLDS[kind])
            if error is ZeroDivisionError:
                raise ZeroDivisionError
        assert error is ZeroDivisionError or raised.value.name == "orders"
        if kind == "lock":
            not_owned(mine.unlock)  # The block was left properly all the same.
        world.redis.command("DEL", "orders")


@each_runtime
@each_expiring_kind
def test_the_body_can_see_that_the_lock_was_lost(world, alice, kind, caplog):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    mine = single(alice, client, kind)
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"), pytest.raises(LockLostError), mine.hold() as lease:
        world.redis.delete(HOLDS[kind])
        world.until(lambda: lease.lost)
        assert lease.remaining() == 0
        with pytest.raises(LockLostError) as loss:
            lease.ensure_held()
        assert loss.value.name == "orders"
    world.until(lambda: world.losses == [("orders", alice.number)])
    [record] = caplog.records
    assert "'orders' of " in record.getMessage()
    assert "was lost" in record.getMessage()
    assert (record.name, record.levelname) == ("pyredisson.lock", "WARNING")
    assert (record.lock, record.owner) == ("orders", f"{client.id}:{alice.number}")


@each_expiring_kind
def test_a_block_whose_lease_expires_raises_on_leaving(world, kind, alice):
    """Unlike a plain hold: the block is still running."""
    # The watchdog is awake often enough, and leaves it alone.
    client = world.client(on_lock_lost=world.on_lock_lost, lock_watchdog_timeout=0.3)
    mine = single(alice, client, kind)
    with pytest.raises(LockLostError), mine.hold(lease_time=0.4) as lease:
        world.until(lambda: world.losses, within=5)
        assert lease.lost
        if kind == "lock":
            world.until(lambda: world.redis.ttl("orders") is None)
            raises_lost(mine.lock)  # Re-entry over a lost hold takes nothing.
            assert world.redis.hash("orders") == {}
    assert world.losses == [("orders", alice.number)]
    assert is_free(mine)


# ---- permits ---------------------------------------------------------------------------------------------------------


def test_permits_that_do_not_expire_are_certain_without_end(world):
    mine = world.actor().get(world.client(), "semaphore", permits=3)
    with mine.hold(2) as lease:
        assert lease.remaining() == math.inf
        assert mine.available_permits() == 1
    with mine.hold(0):
        assert mine.available_permits() == 3


@each_runtime
def test_a_permit_released_from_outside_is_lost_and_released_once(world, alice, bob):
    mine, theirs = single(alice, world.client(), PERMITS), single(bob, world.client(), PERMITS)
    with pytest.raises(LockLostError), mine.hold():
        (permit,) = world.redis.everything()[TAKEN][1]
        theirs.release(permit.hex())
    assert mine.available_permits() == 1


@sync_and_async
@each_expiring_kind
def test_a_collected_block_is_renewed_no_longer(world, alice, kind, caplog):
    mine = single(alice, world.client(lock_watchdog_timeout=4.0), kind)
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        block = mine.hold()
        block.enter()
        del block
        alice.do(gc.collect)
        world.until(lambda: "dropped without leaving its block" in caplog.text)
    world.until(lambda: is_free(mine))


# ---- locks -----------------------------------------------------------------------------------------------------------


def test_the_certain_time_is_shorter_than_the_lease(world):
    """Counted from before the request was sent, less the drift of two clocks (1 % and 2 ms)."""
    mine = world.actor().lock(world.client(lock_watchdog_timeout=40))
    with mine.hold(lease_time=20) as lease:
        assert 15 < lease.remaining() < 20 * 0.99
        assert lease.remaining() < world.redis.ttl("orders")
    with mine.hold() as lease:
        assert 35 < lease.remaining() < 40 * 0.99


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "fenced_lock", "token_lock", "write_lock", PERMITS])
def test_a_lease_that_is_over_when_its_grant_arrives_is_an_error_after_the_third(world, client, alice, kind, caplog):
    caplog.set_level(logging.INFO, logger="pyredisson")
    mine = single(alice, client, kind)
    message = "'orders' can never be held: 3 times in a row a lease of 1 ms was no longer certain"
    for wait in (None, 30, 0):
        with pytest.raises(LockError, match=message) as e:
            mine.hold(wait, lease_time=0.001).enter()
        assert not isinstance(e.value, LockTimeoutError)
        if world.runtime != "simulated" and kind != PERMITS:  # Those have ended by themselves as a rule.
            assert "a request that was not answered, or too late, was settled" in caplog.text
        assert re.search(r"certain when its grant arrived, \S+, \S+, \S+ ms after it was requested", str(e.value))
    with mine.hold(10, lease_time=60) as lease:
        lease.ensure_held()


@sync_and_async
def test_so_is_one_of_a_multi_lock(world, client, alice):
    locks = [client.real.get_lock(each) for each in ("orders", "stock")]
    mine = Remote(client.real.get_multi_lock(*locks), alice)
    with pytest.raises(LockError, match="can never be held: 3 times in a row a lease of 1 ms was no longer certain"):
        mine.hold(lease_time=0.001).enter()
    with mine.hold(10, lease_time=60):
        assert mine.validity() > 50


@sync_and_async
@pytest.mark.parametrize(
    ("kind", "round_trip"),
    [
        *((each, 0.06) for each in ("lock", "fair_lock", "token_lock", "write_lock", "multi_lock", PERMITS)),
        ("lock", 0.25),
    ],
)  # The last one is longer than the time for a reply of the first copy.
def test_a_lease_below_a_round_trip_is_such_an_error_soon(world, proxy, alice, kind, round_trip):
    client = world.through(proxy.port)
    mine = single(alice, client, kind)
    with mine.hold():
        pass  # The server knows the scripts now, and there is a connection.
    proxy.latency(round_trip)
    calls = (mine.acquire if kind == PERMITS else mine.lock, 0.02), (mine.hold(lease_time=0.02).enter,)
    for call in calls:
        with pytest.raises(LockError, match="can never be held: 3 times in a row a lease of 20 ms was no longer") as e:
            alice.start(*call).result(within=30)  # Each connection takes a second.
        times = re.findall(r"[\d.]+(?=,| ms after)", str(e.value).partition("arrived, ")[2])
        assert len(times) == 3
        assert all(float(each) >= 20 for each in times), "how long the reply took"
    proxy.clear()
    with mine.hold(10, lease_time=60) as lease:
        lease.ensure_held()


@sync_and_async
def test_a_lease_of_a_few_round_trips_is_held(world, proxy, alice):
    """The first copy of its request is given less time for its reply than that takes."""
    client = world.through(proxy.port)
    mine = alice.lock(client)
    with mine.hold():
        pass
    proxy.latency(0.5)
    block = mine.hold(lease_time=2.5)
    lease = block.enter()
    lease.ensure_held()
    proxy.clear()
    alice.do(world.leave(block.real))
    assert not mine.is_locked()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes since Python 3.11")
@pytest.mark.parametrize("kind", ["lock", "multi_lock", PERMITS])
def test_a_loss_is_noted_on_an_exception_of_the_body(world, client, alice, kind):
    mine = single(alice, client, kind)
    with pytest.raises(ZeroDivisionError) as error, mine.hold():
        for name in world.redis.everything():
            world.redis.delete(name)
        raise ZeroDivisionError
    (note,) = error.value.__notes__
    assert "was lost by" in note
    assert "Work done since then" in note
    with pytest.raises(ZeroDivisionError) as error, alice.lock(client, "other").hold():
        raise ZeroDivisionError
    assert not hasattr(error.value, "__notes__")


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "multi_lock", "write_lock"])
def test_an_unlock_too_many_says_that_no_one_holds_it(client, mine, theirs):
    mine.lock()
    mine.unlock()
    with pytest.raises(LockNotOwnedError, match=r"is not held by .*: no one holds it \(released twice") as refusal:
        mine.unlock()
    assert "only the thread" not in str(refusal.value)
    mine.lock()
    with pytest.raises(LockNotOwnedError, match=r"held by .* of this client, and only the thread") as refusal:
        theirs.unlock()
    assert "no one" not in str(refusal.value)


@asyncio_only
def test_a_block_that_was_left_is_not_cancelled_any_more(world):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    lock = client.real.get_lock("orders")
    left = []

    async def body():
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
    world.until(lambda: world.losses)
    assert isinstance(running.error(), LockLostError)  # Of the outer block, which waited for its own end.
