"""Those who wait at a condition have given up its lock, and have it again when they return."""

import asyncio
import time

import pytest
import redis.exceptions as rx

from pyredisson import ClientClosedError, Config, LockLostError
from pyredisson._core.owners import REMEMBERED
from pyredisson.asyncio import Redisson
from pyredisson.events import Lost, OutcomeUnknown
from tests.promises.kinds import each_of, handle, make, not_owned, raises_lost
from tests.real_servers.observation import calls
from tests.waiting import soon
from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, interruptible, sync_and_async, threads_only

#: Kinds of locks that have conditions.
kind = each_of("lock", "fair_lock")
WAITERS = "pyredisson_condition:{orders}"


def condition(actor: Actor, client: Remote, kind: str = "lock") -> Remote:
    return Remote(client.real.get_condition(getattr(client.real, f"get_{kind}")("orders")), actor)


def joins(world: World, actor: Actor, mine: Remote, timeout: float | None = None) -> Pending:
    """Let an actor that holds the lock begin to wait."""
    before = world.redis.command("ZCARD", WAITERS)
    pending = actor.start(mine.wait, timeout)
    world.until(lambda: world.redis.command("ZCARD", WAITERS) == before + 1)
    return pending


def waits(world: World, actor: Actor, mine: Remote) -> Pending:
    """Let an actor acquire the lock, and begin to wait."""
    mine.acquire()
    return joins(world, actor, mine)


def notify(condition: Remote) -> None:
    """Notify one of those who wait, by an actor that holds the lock just for that."""
    with condition:
        condition.notify()


def test_a_notification_wakes_the_one_who_has_waited_longest(world, kind):
    alice, *others = world.actors(4)
    one, two = world.client(max_wait_without_check=60), world.client(max_wait_without_check=60)
    mine = condition(alice, one, kind)
    theirs = [condition(actor, client, kind) for actor, client in zip(others, (one, two, one), strict=True)]
    pendings = [waits(world, actor, each) for actor, each in zip(others, theirs, strict=True)]
    mine.acquire()
    mine.notify()
    world.pass_time(0.2)
    assert not pendings[0].done()  # It has no lock yet.
    mine.release()
    assert pendings[0].result(within=5) is True
    assert theirs[0].locked() is True
    assert [pending.done() for pending in pendings] == [True, False, False]
    theirs[0].release()
    with mine:
        mine.notify_all()
    left = dict(zip(pendings[1:], theirs[1:], strict=True))
    while left:  # Any of them may have the lock first.
        pending = world.until(lambda: next((each for each in left if each.done()), None))
        assert pending.result() is True
        left.pop(pending).release()
    assert mine.locked() is False
    assert world.redis.command("EXISTS", WAITERS) == 0


def test_all_holds_are_given_up_and_taken_again(world, client, alice, bob, kind):
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    lock = alice.get(client, kind)
    lock.lock(60)
    lock.lock()
    pending = waits(world, alice, mine)  # The third one.
    assert world.redis.command("EXISTS", "orders") == 0
    notify(theirs)
    assert pending.result(within=5) is True
    assert lock.get_hold_count() == 3
    for _ in range(3):
        mine.release()
    assert lock.is_locked() is False


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_a_block_whose_lock_is_given_up_for_a_wait_is_not_lost(world, alice, bob, kind):
    """It is not certain so long, but nothing has to be stopped: it is held again before the body goes on."""
    client, called = world.client(loss_margin=5), []
    mine, theirs = condition(alice, client), condition(bob, client)
    with handle(alice, client, kind).hold(on_loss=lambda: called.append(1)) as lease:
        pending = waits(world, alice, mine)
        world.until(lambda: lease.remaining() == 0.0)
        assert not lease.lost
        raises_lost(lease.ensure_held, match=r"is not held by .* while a condition waits in its block$")
        notify(theirs)
        pending.result()
        lease.ensure_held()
        mine.release()
    assert called == []


@threads_only
def test_a_waiter_has_its_hold_again_however_many_other_locks_were_used_meanwhile(world, client, alice, bob, kind):
    mine, theirs = condition(alice, client, kind), condition(bob, client, kind)
    waiting = waits(world, alice, mine)

    def use_others():
        for number in range(2 * REMEMBERED + 10):
            with client.real.get_lock(f"other-{number}"):
                pass

    bob.start(use_others).result(within=60)  # Thousands of requests: a busy machine needs more than ten seconds.
    notify(theirs)
    assert waiting.result() is True
    assert handle(alice, client, kind).get_hold_count() == 1
    mine.release()
    assert mine.locked() is False


@pytest.mark.unheard
@each_runtime
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock"])
@pytest.mark.parametrize("seconds", [None, 60], ids=["renewed", "fixed"])
def test_a_block_whose_lock_a_wait_cannot_acquire_again_is_lost(world, alice, kind, seconds):
    called, lost, why = [], [], "a condition released it for its wait, and could not acquire it again"
    client = world.client(max_wait_without_check=0.5, on_lock_lost=lambda name, _: lost.append(name))
    held = handle(alice, client, kind)
    mine = condition(alice, client, "lock" if kind == "multi_lock" else kind)
    with (
        pytest.raises(LockLostError, match=why),
        held.hold(lease_time=seconds, on_loss=lambda: called.append(1)) as lease,
    ):
        pending = joins(world, alice, mine)
        world.redis.command("SET", "orders", "foreign")
        world.redis.command("DEL", WAITERS)  # It was notified.
        assert "the key 'orders' holds a string" in str(pending.error())
        assert lease.lost
        raises_lost(lease.ensure_held, match=why)
        world.until(lambda: called and lost)
    assert (called, lost) == ([1], [held.real.name])


def test_a_wait_that_times_out(world, alice):
    mine = condition(alice, world.client())
    with mine:
        began = world.now()
        assert mine.wait(0.3) is False
        assert 0.29 < world.now() - began < 3
        assert mine.wait(0) is False
        assert mine.wait(-1) is False
        assert mine.wait_for(lambda: 0, 0.1) == 0
        assert mine.wait_for(lambda: "yes") == "yes"
    assert mine.locked() is False
    assert world.redis.command("EXISTS", WAITERS) == 0


@pytest.mark.unheard
@each_runtime
def test_a_lost_message_is_found_out(world, bob):
    theirs = condition(bob, world.client(max_wait_without_check=0.5))
    pending = waits(world, bob, theirs)
    world.pass_time(0.2)
    world.redis.command("DEL", WAITERS)
    assert pending.result(within=5) is True


@each_runtime
def test_a_client_that_is_gone_takes_no_notification(world, alice, bob):
    mine, theirs = (condition(actor, world.client(max_wait_without_check=60)) for actor in (alice, bob))
    world.redis.command("ZADD", WAITERS, 1, "gone:1")
    pending = waits(world, bob, theirs)
    notify(mine)
    assert pending.result(within=5) is True
    assert world.redis.command("EXISTS", WAITERS) == 0


def test_a_waiter_joins_once_its_client_receives_messages(world, client, bob, kind):
    """So no notification passes over it."""
    theirs = condition(bob, client, kind)
    pending = waits(world, bob, theirs)
    assert world.redis.subscribers(f"{WAITERS}:{client.real.id}") == 1
    mine = condition(world.actor(), world.client(), kind)
    notify(mine)
    assert pending.result(within=5) is True


@pytest.mark.unheard
@sync_and_async
def test_a_waiter_whose_client_cannot_subscribe_joins_all_the_same(world, alice, bob, proxy):
    client = world.through(proxy.port, timeout=2, max_wait_without_check=3)
    mine, theirs = condition(alice, world.client()), condition(bob, client)
    held = proxy.hold_request("SUBSCRIBE", None)
    began = world.now()
    pending = waits(world, bob, theirs)
    assert held.hits
    assert world.now() - began > 1.9
    notify(mine)
    assert pending.result(within=5) is True


@interruptible
@sync_and_async
def test_one_who_is_interrupted_before_joining_has_kept_the_lock(world, proxy):
    """And no other is notified in its place."""
    me, bob = world.interruptible(), world.actor()
    mine, theirs = condition(me, world.through(proxy.port)), condition(bob, world.client())
    waits(world, bob, theirs)
    held = proxy.hold_request("SUBSCRIBE", None)
    mine.acquire()
    mine.acquire()
    assert me.interrupted(mine.wait, once=lambda: held.hits) is not None
    assert world.redis.hash("orders") != {}
    mine.release()
    assert mine.locked() is True
    mine.release()
    assert mine.locked() is False
    assert world.redis.command("ZCARD", WAITERS) == 1


@asyncio_only
async def test_a_wait_that_is_closed_before_joining_notifies_no_one(world, bob, proxy):
    waits(world, bob, condition(bob, world.client()))
    held = proxy.hold_request("SUBSCRIBE", None)
    async with Redisson.from_url(f"redis://127.0.0.1:{proxy.port}") as client, client.get_condition("orders"):
        waiting = client.get_condition("orders").wait()
        waiting.send(None)
        await soon(lambda: held.hits)
        waiting.close()
    assert world.redis.command("ZCARD", WAITERS) == 1


def test_a_wait_that_finds_its_lock_gone_notifies_no_one(world, kind):
    client, (alice, bob) = world.client(), world.actors(2)
    waiting = waits(world, alice, condition(alice, client, kind))
    bob.get(client, kind).lock()
    world.redis.delete("orders")
    raises_lost(condition(bob, client, kind).wait, 0)
    assert world.redis.command("ZCARD", WAITERS) == 1
    raises_lost(bob.get(client, kind).unlock)
    bob.get(client, kind).lock()
    condition(bob, client, kind).notify()
    bob.get(client, kind).unlock()
    assert waiting.result() is True


@each_runtime
def test_only_a_holder_waits_and_notifies(world, client, alice, bob):
    mine, theirs = condition(alice, client), condition(bob, client)
    calls = [mine.wait, mine.notify, mine.notify_all, mine.release]
    for call in calls:
        not_owned(call)
    theirs.acquire()
    for call in calls:
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(ValueError, match="n must not be negative"):
        theirs.notify(-1)
    theirs.release()
    assert world.redis.command("EXISTS", WAITERS) == 0


@interruptible
def test_an_interrupted_wait_has_the_lock_again(world):
    me, bob = world.interruptible(), world.actor()
    mine, theirs = condition(me, world.client()), condition(bob, world.client())
    mine.acquire()
    mine.acquire()
    error = me.interrupted(mine.wait, once=lambda: world.redis.command("ZCARD", WAITERS) == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) or type(error).__name__ == "Cancelled"
    assert theirs.locked() is True
    mine.release()
    mine.release()
    assert theirs.acquire(False) is True
    theirs.release()
    assert world.redis.command("EXISTS", WAITERS) == 0


@interruptible
def test_one_who_is_interrupted_while_acquiring_the_lock_again_has_it(world, kind):
    me, bob = world.interruptible(), world.actor()
    mine, theirs = condition(me, world.client(), kind), bob.get(world.client(), kind)
    mine.acquire()
    mine.acquire()
    pending = bob.start(theirs.lock, 3.0)

    def has_timed_out():
        return pending.done() and not world.redis.command("ZCARD", WAITERS)

    assert me.interrupted(mine.wait, 0.5, once=has_timed_out) is not None
    pending.result()
    mine.release()
    mine.release()
    assert mine.locked() is False


@asyncio_only
async def test_a_task_that_is_cancelled_again_and_again_has_the_lock_when_it_raises(world):
    """And its notification goes to the next one."""

    async with Redisson.from_url(f"redis://127.0.0.1:{world.port}", config=Config(max_wait_without_check=60)) as client:
        condition = client.get_condition("orders")

        async def wait():
            async with condition:
                try:
                    return await condition.wait(timeout=30)
                finally:
                    await condition.notify(0)  # Only a holder may.

        waiters = []
        for number in (1, 2):
            waiters.append(asyncio.create_task(wait()))
            await soon(lambda number=number: world.redis.command("ZCARD", WAITERS) == number)
        async with condition:
            await condition.notify()
            for _ in range(3):
                waiters[0].cancel()
                assert not (await asyncio.wait(waiters, timeout=0.1))[0]
        assert isinstance((await asyncio.gather(*waiters, return_exceptions=True))[0], asyncio.CancelledError)
        assert waiters[1].result() is True


@asyncio_only
def test_waiters_end_soon_when_their_event_loop_does(world, kind):
    """It cancels all tasks, and the one that receives the client's messages with them."""

    async def main():
        client = Redisson.from_url(f"redis://127.0.0.1:{world.port}", config=Config(max_wait_without_check=60))

        async def wait():
            condition = client.get_condition(getattr(client, f"get_{kind}")("orders"))
            async with condition:
                await condition.wait()

        waiters = [asyncio.create_task(wait()) for _ in range(3)]
        await soon(lambda: world.redis.command("ZCARD", WAITERS) == len(waiters))

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 30


@asyncio_only
def test_a_wait_in_a_cancelled_scope_of_anyio_has_the_lock_again(world, kind):
    anyio = pytest.importorskip("anyio")

    async def main():
        async with Redisson.from_url(f"redis://127.0.0.1:{world.port}") as client:
            lock = getattr(client, f"get_{kind}")("orders")
            async with lock, lock:
                with anyio.move_on_after(0.05) as scope:
                    await client.get_condition(lock).wait()
                assert scope.cancelled_caught
                assert await lock.get_hold_count() == 2

    asyncio.run(asyncio.wait_for(main(), 10))


@sync_and_async
@pytest.mark.parametrize("then", ["hang", "reset"])
def test_lost_replies(world, alice, bob, carol, proxy, kind, then):
    client = world.through(proxy.port, timeout=2.4)
    mine, theirs, other = (
        condition(actor, each, kind)
        for actor, each in ((alice, client), (bob, world.client()), (carol, world.client()))
    )
    for _ in range(2):  # Let the server know the scripts, so that each request is one.
        with mine:
            assert mine.wait(0.01) is False
            mine.notify()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.acquire()
    assert lost.hits == 1
    lost = proxy.drop_reply("EVALSHA", then=then)
    pending = joins(world, alice, mine, 20)
    notify(theirs)
    assert pending.result(within=15) is True
    assert lost.hits == 1
    mine.release()
    pendings = [waits(world, bob, theirs), waits(world, carol, other)]
    mine.acquire()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.notify()
    assert lost.hits == 1
    mine.release()
    assert pendings[0].result(within=5) is True
    theirs.release()
    assert world.redis.command("ZCARD", WAITERS) == 1  # The repeat has notified no one else.
    notify(mine)
    assert pendings[1].result(within=5) is True
    other.release()


RELEASES = calls("condition_wait", "condition_fair_wait")


@sync_and_async
def test_a_wait_tries_on_while_the_release_of_its_lock_is_refused(world, alice, bob, proxy, kind):
    client = world.through(proxy.port)
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    with handle(alice, client, kind).hold() as lease:
        refused = proxy.refuse_request(RELEASES, "BUSY a script runs")
        pending = alice.start(mine.wait, 30)
        world.until(lambda: refused.hits >= 2)
        assert world.redis.hash("orders") != {}
        refused.remove()
        world.until(lambda: world.redis.command("ZCARD", WAITERS) == 1)
        notify(theirs)
        assert pending.result(within=15) is True
        lease.ensure_held()
        assert mine.locked()
    assert not theirs.locked()


@sync_and_async
@pytest.mark.parametrize(("error", "least"), [("BUSY a script runs", 0.5), ("NOPERM no permissions", 0.0)])
def test_one_whose_wait_surely_did_not_release_the_lock_has_it_still(world, alice, bob, proxy, kind, error, least):
    """And no other is notified in its place."""
    client = world.through(proxy.port)
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    waits(world, bob, theirs)
    with handle(alice, client, kind).hold() as lease:
        refused = proxy.refuse_request(RELEASES, error)
        began = world.now()
        with pytest.raises(rx.ResponseError, match=error):
            mine.wait(0.6)
        assert least <= world.now() - began < 5
        refused.remove()
        lease.ensure_held()
        world.pass_time(0.3)  # It is not released in the background.
        assert mine.locked()
        assert world.redis.command("ZCARD", WAITERS) == 1
        lease.ensure_held()
        assert mine.wait(0.01) is False
    assert not mine.locked()


@sync_and_async
def test_a_wait_tries_on_while_the_release_of_its_lock_is_in_doubt(world, alice, bob, proxy, kind):
    client = world.through(proxy.port, timeout=0.6)
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    with handle(alice, client, kind).hold() as lease:
        lost = proxy.drop_reply(RELEASES, None, then="reset")
        pending = alice.start(mine.wait, 30)
        world.until(lambda: lost.hits)
        world.pass_time(1.2)
        assert not pending.done()
        assert lease.remaining() == 0.0
        assert not lease.lost
        raises_lost(lease.ensure_held, match="while a condition waits in its block")
        lost.remove()
        notify(theirs)
        assert pending.result(within=15) is True
        lease.ensure_held()
    assert not theirs.locked()
    assert world.redis.command("EXISTS", WAITERS) == 0


@interruptible
@sync_and_async
def test_one_who_is_interrupted_while_the_release_is_in_doubt_has_the_lock_again(world, proxy, kind):
    me = world.interruptible()
    client = world.through(proxy.port, timeout=0.6)
    mine = condition(me, client, kind)
    lost = proxy.drop_reply(RELEASES, None, then="reset")
    mine.acquire()

    def in_doubt():
        if lost.hits >= 4:
            lost.remove()
        return lost.hits >= 4

    assert me.interrupted(mine.wait, 30, once=in_doubt) is not None
    assert world.redis.hash("orders") != {}
    mine.release()
    assert mine.locked() is False
    assert world.redis.command("EXISTS", WAITERS) == 0


@each_runtime
def test_a_wait_ends_with_its_client_also_while_the_lock_is_acquired_again(world, client, alice, bob, kind):
    mine, theirs = condition(alice, client, kind), condition(bob, world.client(), kind)
    pending = waits(world, alice, mine)
    theirs.acquire()
    theirs.notify()
    world.pass_time(0.2)
    assert not pending.done()
    client.close()
    assert isinstance(pending.error(within=5), ClientClosedError)
    theirs.release()


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "multi_lock"])
@pytest.mark.parametrize("how", ["lock()", "with lock", "hold()"])
@pytest.mark.parametrize("when", ["waiting", "acquiring again"])
def test_a_wait_that_ends_with_its_client_is_no_loss(world, alice, bob, kind, how, when):
    """Nothing is held, and nothing is in doubt: one error says that the client was closed."""
    seen, called = [], []
    client = world.client(on_lock_lost=lambda *_: called.append(1), listeners=(seen.append,))
    single = "lock" if kind == "multi_lock" else kind
    held, mine = handle(alice, client, kind), condition(alice, client, single)
    theirs = condition(bob, world.client(), single)
    options = {"cancel_on_loss": True} if world.runtime == "asyncio" else {}
    block = held.hold(on_loss=lambda: called.append(1), **options) if how == "hold()" else held
    lease = held.lock() if how == "lock()" else block.enter()
    pending = joins(world, alice, mine)
    if when == "acquiring again":
        theirs.acquire()
        theirs.notify()
        world.until(lambda: world.waiting(Remote(make(client, single), alice)) == 1)
    client.close()
    error = pending.error(within=5)
    assert isinstance(error, ClientClosedError)
    if how == "lock()":
        with pytest.raises(ClientClosedError):
            held.unlock()
    else:
        alice.do(world.leave(block.real), error)  # The error of the block is raised, and no other.
        assert not getattr(error, "__notes__", ())
    if how == "hold()":
        raises_lost(lease.ensure_held)
    if when == "acquiring again":
        theirs.release()
    if how != "lock()":
        assert world.redis.command("EXISTS", "orders", "stock") == 0
    assert [each for each in seen if isinstance(each, (Lost, OutcomeUnknown))] == []
    assert called == []


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
@pytest.mark.parametrize("how", ["with lock", "hold()"])
def test_a_block_that_goes_on_after_the_wait_of_a_closed_client_is_left_with_an_error(world, alice, kind, how):
    seen = []
    client = world.client(listeners=(seen.append,))
    held, mine = handle(alice, client, kind), condition(alice, client)
    block = held.hold() if how == "hold()" else held
    block.enter()
    pending = joins(world, alice, mine)
    client.close()
    assert isinstance(pending.error(within=5), ClientClosedError)
    with pytest.raises(ClientClosedError):
        alice.do(world.leave(block.real))
    assert world.redis.command("EXISTS", "orders", "stock") == 0
    assert [each for each in seen if isinstance(each, (Lost, OutcomeUnknown))] == []


def test_other_locks_have_no_condition(world):
    client = world.client().real
    sides = client.get_read_write_lock("orders")
    for lock in (client.get_spin_lock("orders"), sides, sides.write_lock(), sides.read_lock(), 5, None):
        with pytest.raises(TypeError, match="a Lock or a FairLock, not"):
            client.get_condition(lock)
    with pytest.raises(ValueError, match="name"):
        client.get_condition("")
