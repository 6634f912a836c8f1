"""A lease that was asked for ends by itself, in silence; ``extend()`` prolongs it."""

import asyncio
import logging
import math
import time
from datetime import timedelta

import pytest

from pyredisson import LockLostError, LockNotOwnedError
from pyredisson._core.requests import AcquireCall, ForceCall, LockAcquired
from pyredisson._core.watchdog import Renewal
from tests.promises.kinds import LOCKS, handle, lock_of, raises_lost, single
from tests.worlds.base import KEPT, Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, everywhere, sync_and_async

pytestmark = sync_and_async


@everywhere
@pytest.mark.parametrize("lease", [20, 20.0, timedelta(seconds=20)], ids=["int", "float", "timedelta"])
def test_a_lease_may_be_any_kind_of_time(world, mine, lease):
    assert mine.try_lock(lease_time=lease)
    assert 15 < world.redis.ttl("orders") <= 20
    mine.unlock()
    mine.lock(lease)
    assert 15 < world.redis.ttl("orders") <= 20
    mine.unlock()
    with mine.hold(lease_time=lease):
        assert 15 < world.redis.ttl("orders") <= 20


@everywhere
def test_the_time_to_live_is_in_seconds(world, mine, theirs):
    assert mine.remain_time_to_live() is None
    mine.lock(20)
    assert 15 < mine.remain_time_to_live() <= 20
    assert 15 < theirs.remain_time_to_live() <= 20
    world.redis.command("PERSIST", "orders")
    assert theirs.remain_time_to_live() == math.inf


@each_runtime
def test_a_plain_lease_that_ran_out_is_over_in_silence(world, alice, bob, caplog):
    client = world.client(on_lock_lost=world.on_lock_lost, lock_watchdog_timeout=KEPT)
    mine, theirs = alice.lock(client), bob.lock(client)
    with caplog.at_level(logging.INFO, logger="pyredisson"):
        mine.lock(1)
        mine.lock(1)
        world.until(lambda: world.redis.ttl("orders") is None)
        theirs.lock()  # So that the watchdog is awake.
        world.renewed("orders", times=1)
    assert world.losses == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# ---- extend() --------------------------------------------------------------------------------------------------------

KINDS = [*(kind for kind in LOCKS if not kind.startswith("non_reentrant")), "multi_lock", "red_lock"]


@everywhere
@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_is_prolonged_and_never_shortened(world, alice, kind):
    mine = Remote(lock_of(world, kind), alice)
    left = mine.validity if kind in ("multi_lock", "red_lock") else mine.remain_time_to_live
    mine.lock(lease_time=5)
    assert mine.extend(60)
    assert 55 < left() <= 60
    assert mine.extend(20)
    assert 50 < left() <= 60
    mine.unlock()
    assert not mine.is_locked()


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "token_lock", "multi_lock"])
def test_who_does_not_hold_it_cannot_extend_it(kind, mine, theirs):
    with pytest.raises(LockNotOwnedError, match="is not held by"):
        mine.extend(5)
    mine.lock()
    with pytest.raises(LockNotOwnedError, match="is not held by"):
        theirs.extend(5)


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "token_lock", "write_lock"])
def test_a_lost_lock_is_not_extended(world, kind, mine):
    mine.lock()
    world.redis.delete("orders")
    raises_lost(mine.extend, 60)
    raises_lost(mine.unlock)


def test_the_token_of_a_token_lock_is_that_of_its_holder(world, client, alice, bob):
    mine, theirs = handle(alice, client, "token_lock"), handle(bob, client, "token_lock")
    seen = []
    alice.do(lambda: seen.append(mine.real.token))
    mine.lock()
    bob.do(lambda: seen.append(theirs.real.token))
    assert seen == [None, None]
    alice.do(lambda: seen.append(mine.real.token))
    assert world.redis.everything()["orders"] == ("string", seen[2])
    mine.unlock()
    mine.lock(0.2)
    world.until(lambda: world.redis.ttl("orders") is None)
    alice.do(lambda: seen.append(mine.real.token))
    assert seen[3] is None, "that of a hold that has ended"


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "permit_expirable_semaphore", "semaphore"])
def test_a_block_that_is_extended_lasts_longer(world, client, alice, kind):
    lease = {} if kind == "semaphore" else {"lease_time": 1}
    with single(alice, client, kind).hold(**lease) as lease:
        assert alice.do(lease.extend, 60)
        assert lease.remaining() > 50
        world.pass_time(1.5)
        lease.ensure_held()
    raises_lost(alice.do, lease.extend, 60, match="its block has already been left")


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "fair_lock", "write_lock", "read_lock"])
@pytest.mark.parametrize("block", [False, True], ids=["lock", "hold"])
def test_who_acquires_while_the_lock_is_forced_open_is_renewed_and_notified(world, alice, bob, carol, kind, block):
    """The answer to the ``force_unlock()`` of a client is read after one of its waiters has acquired the lock."""
    client = world.client(on_lock_lost=world.on_lock_lost, lock_watchdog_timeout=KEPT)
    core = client.real._core
    exchange, acquired = core.exchange, []

    async def answered_late(call, *args, **options):
        answer = await exchange(call, *args, **options)
        late = core.runtime.now() + 20
        while isinstance(call, ForceCall) and not acquired and core.runtime.now() < late:
            await core.runtime.sleep(0.01)
        return answer

    core.exchange = answered_late
    held = "write_lock" if kind == "read_lock" else kind  # What keeps it out.
    handle(alice, client, held).lock()
    theirs = handle(bob, client, kind)
    waits = bob.start(World.enter(theirs.real.hold()) if block else theirs.real.lock)
    world.until(lambda: world.waiting(theirs) == 1)
    forced = carol.start(handle(carol, client, held).real.force_unlock)
    waits.result(10)
    acquired.append(True)
    assert forced.result(10)
    world.renewed("orders")
    world.redis.delete("orders")
    world.until(lambda: len(world.lost) == 2, what="the holder, and who acquired it then")


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "write_lock"])
@pytest.mark.parametrize("lease", [None, 60], ids=["renewed", "fixed"])
@pytest.mark.parametrize("joins", [False, True], ids=["first", "joins"])
def test_what_a_forced_unlock_takes_of_what_was_acquired_meanwhile_is_lost_at_once(world, kind, lease, joins):
    """The answer to a first acquire is read after that to the ``force_unlock()``; to one that joins, in its middle."""
    client = world.client(on_lock_lost=world.on_lock_lost, lock_watchdog_timeout=60)
    holder, waiter, forcing = world.actors(3)
    mine, theirs = handle(holder, client, kind), handle(waiter, client, kind)
    core, reads = client.real._core, theirs.real._core.kind.reads
    exchange, began, over = core.exchange, [], []

    async def in_order(call, *args, **options):
        forces = isinstance(call, ForceCall)
        answer = None if forces and joins else await exchange(call, *args, **options)
        if forces if joins else isinstance(call, AcquireCall) and type(reads(answer[0])) is LockAcquired:
            began.append(True)
            late = core.runtime.now() + 20
            while not over and core.runtime.now() < late:
                await core.runtime.sleep(0.01)
        return await exchange(call, *args, **options) if answer is None else answer

    mine.lock()
    if joins:
        core.exchange = in_order
        ends = forcing.start(handle(forcing, client, kind).real.force_unlock)
        world.until(lambda: began)
        holder.do(World.enter(mine.real.hold(lease_time=lease)))
    else:
        ends = waiter.start(World.enter(theirs.real.hold(lease_time=lease)))
        world.until(lambda: world.waiting(theirs) == 1)
        core.exchange = in_order
        mine.unlock()
        world.until(lambda: began)
        assert handle(forcing, client, kind).force_unlock()
    over.append(True)
    ends.result(10)
    world.until(lambda: world.lost, within=10, what="whose third of the lease is twice as long")


def test_an_extension_is_repeated_if_an_inner_block_was_left_before_its_answer_was_read(world, alice, bob):
    client = world.client(presence=False, lock_watchdog_timeout=900)
    mine, runtime = alice.lock(client), client.real._core.runtime
    evaluate, answered, left = runtime.eval, [], []

    async def answered_late(*args, **options):
        answer = await evaluate(*args, **options)
        first, late = not answered, runtime.now() + 20
        answered.append(answer)
        while first and not left and runtime.now() < late:
            await runtime.sleep(0.01)
        return answer

    with mine.hold(lease_time=30) as lease:
        inner = mine.hold(lease_time=30)
        inner.enter()
        runtime.eval = answered_late
        extending = alice.start(lease.extend, 60)
        world.until(lambda: answered)
        bob.do(World.leave(inner.real))
        left.append(True)
        assert extending.result() is True
        assert lease.remaining() > 50


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_a_lease_says_what_its_owner_itself_has_freed(alice, client, kind):
    lock = handle(alice, client, kind)
    with pytest.raises(LockNotOwnedError, match="no longer held by this block"), lock.hold() as lease:
        lock.force_unlock()
        raises_lost(lease.ensure_held, match="it was released or force-unlocked inside its block")


@each_runtime
def test_a_lease_whose_block_was_left_speaks_of_no_loss(alice, client):
    with alice.lock(client).hold() as lease:
        pass
    with pytest.raises(LockLostError, match=r"is held no longer by .*: its block has already been left$") as refusal:
        lease.ensure_held()
    assert "lost" not in str(refusal.value)
    assert not lease.lost


@each_runtime
def test_a_fixed_lease_that_runs_out_says_that_nothing_renews_it(world, alice, client):
    with (
        pytest.raises(LockLostError, match="its lease expired, and nothing renews a fixed lease"),
        alice.lock(client).hold(lease_time=0.3),
    ):
        world.pass_time(0.4)


@pytest.mark.parametrize("kind", ["lock", "token_lock", "multi_lock"])
def test_an_extension_that_is_answered_after_the_lease_has_ended_is_none(world, proxy, alice, kind):
    mine = handle(alice, world.through(proxy.port, timeout=9, presence=False), kind)
    mine.lock(0.5)
    proxy.latency(0.8)
    raises_lost(mine.extend, 60)
    raises_lost(mine.ensure_held)


@pytest.mark.parametrize("call", ["lock", "try_lock"])
def test_what_joins_a_lease_that_has_ended_meanwhile_is_a_hold_of_its_own(world, proxy, alice, call):
    mine = handle(alice, world.through(proxy.port, timeout=9, presence=False), "lock")
    mine.lock(0.5)
    proxy.latency(0.8)
    joining = alice.start(mine.lock, 60) if call == "lock" else alice.start(mine.try_lock, 0, 60)
    world.until(lambda: world.redis.ttl("orders") > 10)
    world.pass_time(0.6)  # The lease that it joins is over when its answer arrives.
    proxy.latency(0)
    assert joining.result() in (None, True)
    assert mine.get_hold_count() == 1
    mine.unlock()
    raises_lost(mine.unlock, match="its lease expired")


def test_who_joins_a_lease_that_another_one_has_taken_over_leaves_the_queue(world, alice, bob):
    client = world.client(presence=False)
    mine, theirs = handle(alice, client, "fair_lock"), handle(bob, world.client(), "fair_lock")
    core = client.real._core
    exchange = core.exchange

    async def late(call, *args, **options):
        core.exchange = exchange
        taken.append(True)
        over = core.runtime.now() + 20
        while not theirs_holds and core.runtime.now() < over:
            await core.runtime.sleep(0.01)
        return await exchange(call, *args, **options)

    taken, theirs_holds = [], []
    mine.lock(0.5)
    core.exchange = late
    joining = alice.start(mine.try_lock, 0.3, 60)
    world.until(lambda: taken)
    assert theirs.try_lock(9)
    theirs_holds.append(True)
    assert joining.result() is False
    assert world.redis.command("EXISTS", "redisson_lock_queue:{orders}") == 0
    theirs.unlock()


@pytest.mark.parametrize("case", ["fixed", "persistent"])
def test_a_look_after_a_forced_unlock_ends_nothing(world, alice, bob, case):
    """What was acquired before its answer was read is as it would be without it."""
    client = world.client(on_lock_lost=world.on_lock_lost)
    mine, core = alice.lock(client), client.real._core
    exchange, send, looked, forced = core.exchange, Renewal.send, [], []

    async def answered_late(call, *args, **options):
        answer = await exchange(call, *args, **options)
        forced.append(True)
        over = core.runtime.now() + 20
        while isinstance(call, ForceCall) and len(forced) < 2 and core.runtime.now() < over:
            await core.runtime.sleep(0.01)
        return answer

    async def late(renewal):
        if case == "fixed" and not looked:
            await core.runtime.sleep(0.8)
        await send(renewal)
        looked.append(renewal)

    core.exchange = answered_late
    forces = bob.start(bob.lock(client).real.force_unlock)
    world.until(lambda: forced)
    core.exchange = exchange
    mine.lock(*([0.5] if case == "fixed" else []))
    if case == "persistent":
        world.redis.command("PERSIST", "orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Renewal, "send", late)
        forced.append(True)
        assert forces.result(10) is False
        world.until(lambda: looked)
        world.pass_time(0.3)
    assert world.lost == []
    if case == "persistent":
        mine.unlock()


@asyncio_only
def test_a_lost_lease_does_not_become_valid_again(world, client):
    """Its event loop is blocked while it is extended."""

    async def main():
        with pytest.raises(LockLostError):
            async with client.real.get_lock("orders").hold(lease_time=0.3) as lease:
                extending = asyncio.ensure_future(lease.extend(60))
                await asyncio.sleep(0)
                time.sleep(0.4)  # noqa: ASYNC251
                assert lease.lost
                with pytest.raises(LockLostError):
                    await extending
                assert lease.lost
                lease.ensure_held()

    world.run(main)
