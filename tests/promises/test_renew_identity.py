"""A client that becomes another one in the same process, as after a restore from a snapshot."""

import asyncio
import contextvars
import threading
from contextlib import suppress

import pytest

from pyredisson import ClientClosedError, ConstantBackoff, LockLostError, OutcomeUnknownError
from pyredisson._asyncio.pipe import Pipe
from pyredisson._shared import process
from pyredisson._threads import fast_path as threads_fast_path
from pyredisson.events import Lost
from tests.promises.kinds import LOCKS, not_owned, over, raises_lost
from tests.waiting import soon
from tests.worlds.base import KEPT, PATIENCE, Remote
from tests.worlds.environments import asyncio_only, sync_and_async, threads_only

pytestmark = sync_and_async


def test_what_was_held_is_lost_and_the_client_goes_on(world, alice, bob):
    client = world.client(on_lock_lost=world.on_lock_lost)
    before = client.id
    block = alice.lock(client).hold()
    lease = block.enter()
    client.renew_identity()
    assert client.id != before
    assert lease.lost
    world.until(lambda: world.lost == ["orders"])
    raises_lost(alice.do, world.leave(block.real))
    mine = alice.lock(client, "bills")
    mine.lock()
    assert next(iter(world.redis.hash("bills"))).startswith(client.id)
    waiting = bob.start(bob.lock(client, "bills").lock)
    world.until(lambda: world.waiting(mine) == 1)
    mine.unlock()
    waiting.result()


def test_all_is_lost_before_a_listener_hears_of_any_of_it(world, alice, bob):
    seen = []
    client = world.client(
        listeners=[lambda event: isinstance(event, Lost) and seen.append([each.lost for each in leases])]
    )
    leases = [actor.lock(client, name).hold().enter() for actor, name in ((alice, "orders"), (bob, "bills"))]
    client.renew_identity()
    assert seen == [[True, True]] * 2


def test_a_multi_lock_is_lost_whose_client_becomes_another_one_in_the_middle_of_its_unlock(world, proxy, alice):
    other = world.through(proxy.port)
    several = over(alice, [world.client().real.get_lock("orders"), other.real.get_lock("bills")])
    several.lock()
    several.unlock()  # The server knows the scripts now.
    several.lock()
    late = proxy.hold_request("EVALSHA")
    unlocking = alice.start(several.real.unlock)
    world.until(lambda: late.hits == 1, what="its unlock is under way")
    other.renew_identity()
    assert isinstance(unlocking.error(), LockLostError)
    late.release()
    not_owned(several.unlock)


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
        raises_lost(alice.do, world.leave(block.real))
    assert semaphore.available_permits() == 0


def test_who_waits_is_woken(world, client, alice, bob, theirs):
    alice.lock(world.client()).lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.waiting(theirs) == 1)
    client.renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)
    client.close()
    with pytest.raises(ClientClosedError):
        client.renew_identity()


@pytest.mark.parametrize("noticed", ["by the watchdog", "by a new connection"])
def test_a_restored_copy_is_another_client(world, alice, monkeypatch, noticed):
    client = world.client(
        lock_watchdog_timeout=3 if noticed == "by the watchdog" else 30, on_lock_lost=world.on_lock_lost
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
    world.until(lambda: world.lost == ["orders"] and client.id != before)
    if noticed == "by a new connection":
        assert all(owner.startswith(client.id) for owner in world.redis.hash("bills"))
        assert mine.try_lock()
        mine.force_unlock()
    assert lease.lost
    raises_lost(alice.do, world.leave(block.real), match="restored from a checkpoint")
    assert next(iter(world.redis.hash("orders"))).startswith(before)  # It is the original's, and left to it.


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


def attempts(client, name="orders"):
    """Return how many requests the owners of this client have made for a lock."""
    return sum(own.request_id for own in client.real._core.ownerships.of(name))


@pytest.mark.parametrize("kind", ["spin_lock", "token_lock", "multi_lock of spin_locks"])
def test_a_wait_by_attempts_alone_ends(world, client, alice, bob, kind):
    kind, _, members = kind.partition(" of ")
    holder = alice.get(world.client(), members.removesuffix("s") or kind)
    holder.lock()
    if members:
        theirs = over(bob, [client.real.get_spin_lock(name) for name in ("bills", "orders")])
    else:
        theirs = bob.get(client, kind)
    waiting = bob.start(theirs.lock)
    world.until(lambda: attempts(client) > 1)
    client.renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)
    holder.unlock()  # Not before: what a request in flight acquires is left to its lease.
    assert world.redis.hash("orders") == {}
    assert theirs.try_lock() or members  # The members that were held before are lost, and expire.


def test_a_long_pause_between_attempts_ends_soon(world, client, alice, bob):
    alice.lock(world.client()).lock()
    waiting = bob.start(bob.get(client, "spin_lock", "orders", ConstantBackoff(600)).lock)
    world.until(lambda: attempts(client) == 1)
    client.renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)


def test_a_quorum_is_not_acquired_under_an_earlier_id(world, alice, bob):
    clients = world.nodes(3, quorum_node_timeout=2.0)
    holder = over(alice, [client.real.get_token_lock("orders") for client in clients])
    holder.lock()
    waiting = bob.start(over(bob, [client.real.get_token_lock("orders") for client in clients]).lock)
    world.until(lambda: attempts(clients[1]) > 2)
    clients[1].renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)
    with suppress(LockLostError):  # Two of three nodes are a quorum.
        holder.unlock()
    assert over(bob, [clients[0].real.get_token_lock("orders")]).try_lock(), "nothing was left there"


def test_a_condition_is_left_to_the_earlier_client(world, client, alice, bob):
    condition = alice.get(client, "condition")
    condition.enter()
    waiting = alice.start(condition.wait)
    world.until(lambda: world.waiting(condition) == 1 and "orders" not in world.redis.everything())
    before = world.redis.everything()
    client.renew_identity()
    assert isinstance(waiting.error(), ClientClosedError)
    assert world.redis.everything() == before, "neither was the lock acquired again, nor did the waiter leave"
    assert bob.lock(world.client()).try_lock()


def renew_before_a_grant_is_noted(world, client, monkeypatch, path):
    """Renew the identity of a client as soon as it has received the reply to its next request, and not acted on it."""
    renew = iter([client.real.renew_identity])

    def renew_once(*_):
        for each in renew:
            each()

    core, exchange, post = client.real._core, threads_fast_path.exchange_idle, Pipe.post
    eval_ = core.runtime.eval

    async def evaluate(*args):
        reply = await eval_(*args)
        renew_once()
        return reply

    def exchange_idle(*args):
        reply = exchange(*args)
        renew_once()
        return reply

    def post_one(pipe, data, timeout, future):
        future.add_done_callback(renew_once)
        post(pipe, data, timeout, future)

    if path == "general":
        monkeypatch.setattr(core.runtime, "eval", evaluate)
    elif world.runtime == "threads":
        monkeypatch.setattr(threads_fast_path, "exchange_idle", exchange_idle)
    else:
        monkeypatch.setattr(Pipe, "post", post_one)


@pytest.mark.parametrize("path", ["general", "fast"])
def test_what_is_granted_meanwhile_is_left_to_its_lease(world, alice, bob, monkeypatch, path):
    client = world.client(lock_watchdog_timeout=2.4, check_lock_synced_slaves=False)
    before, mine = client.id, alice.lock(client)
    if path == "fast":
        mine.lock()
        mine.unlock()
    renew_before_a_grant_is_noted(world, client, monkeypatch, path)
    with pytest.raises(ClientClosedError):
        mine.lock()
    assert client.id != before
    [owner] = world.redis.hash("orders")
    assert owner.startswith(before)
    assert not mine.try_lock()
    not_owned(mine.unlock)
    mine.lock()  # When the lease has ended, which no one renews or releases.
    [owner] = world.redis.hash("orders")
    assert owner.startswith(client.id)


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
@pytest.mark.parametrize("block", [False, True], ids=["acquire", "hold"])
def test_permits_that_are_granted_meanwhile_are_lost(world, alice, monkeypatch, kind, block):
    client = world.client(check_lock_synced_slaves=False)
    mine = alice.get(client, kind)
    mine.try_set_permits(1)
    renew_before_a_grant_is_noted(world, client, monkeypatch, "general")
    acquire = mine.hold().enter if block else mine.acquire
    with pytest.raises(ClientClosedError):
        acquire()
    assert mine.available_permits() == 0


@pytest.mark.parametrize("renewed", [0, 1])
@pytest.mark.parametrize("how", ["hold", "with", "unlock"])
def test_a_multi_lock_releases_what_its_other_clients_hold(world, alice, bob, renewed, how):
    clients = [world.client(), world.client()]
    several = over(alice, [client.real.get_lock(name) for client, name in zip(clients, "ab", strict=True)])
    block = several.hold() if how == "hold" else several
    several.lock() if how == "unlock" else block.enter()
    [owner] = world.redis.hash("ab"[renewed])
    clients[renewed].renew_identity()
    with pytest.raises(LockLostError, match="new identity"):
        several.unlock() if how == "unlock" else alice.do(world.leave(block.real))
    assert bob.lock(world.client(), "ba"[renewed]).try_lock(), "that of the other client was released"
    assert list(world.redis.hash("ab"[renewed])) == [owner], "and this one is left to its lease"


def test_a_quorum_that_stands_is_released_without_an_error(world, alice, bob):
    clients = world.nodes(3, quorum_node_timeout=2.0)
    several = over(alice, [client.real.get_lock("orders") for client in clients])
    block = several.hold()
    lease = block.enter()
    clients[0].renew_identity()
    assert not lease.lost, "two of three nodes are a quorum"
    alice.do(world.leave(block.real))
    assert [len(world.node(index).hash("orders")) for index in range(3)] == [1, 0, 0]


def test_a_multi_lock_of_one_client_is_left_to_the_earlier_one(world, client, alice):
    several = over(alice, [client.real.get_lock(name) for name in "ab"])
    block = several.hold()
    block.enter()
    before = world.redis.everything()
    client.renew_identity()
    raises_lost(alice.do, world.leave(block.real), match="new identity")
    assert world.redis.everything() == before


def test_blocks_of_a_semaphore_know_their_own_permits(world, client, alice, bob):
    mine = alice.get(client, "semaphore", permits=3)
    theirs = Remote(mine.real, bob)
    mine.enter()
    client.renew_identity()
    theirs.enter()
    mine.enter()
    alice.do(world.leave(mine.real))
    raises_lost(alice.do, world.leave(mine.real), match="new identity")
    assert mine.available_permits() == 1
    bob.do(world.leave(mine.real))
    assert mine.available_permits() == 2, "the one that was acquired before is lost"


@asyncio_only
@pytest.mark.parametrize("block", ["hold", "term"])
def test_a_hook_in_another_thread_ends_the_body(world, block):
    client, began = world.client().real, threading.Event()

    async def hold():
        with pytest.raises(LockLostError, match="new identity"):
            async with client.get_lock("orders").hold(cancel_on_loss=True):
                began.set()
                await asyncio.Event().wait()

    async def lead():
        waited, ended = [], asyncio.Event()

        async def wait(term):
            began.set()
            waited.append((await term.wait(60), term.lost))
            ended.set()

        async with client.get_leader_election("orders").start(wait):
            await ended.wait()
        assert waited[0] == (True, True)

    def hook():
        assert began.wait(PATIENCE)
        client.renew_identity()

    thread = threading.Thread(target=hook)
    thread.start()
    world.run(lambda: asyncio.wait_for(hold() if block == "hold" else lead(), PATIENCE))
    thread.join()


@pytest.mark.parametrize("kind", [*LOCKS, "multi_lock"])
def test_each_unlock_of_what_was_held_says_that_it_is_lost(client, mine, kind):
    levels = 1 if kind == "token_lock" or kind.startswith("non_reentrant") else 2
    for _ in range(levels):
        mine.lock()
    client.renew_identity()
    client.renew_identity()  # The loss is remembered through the next one as well.
    for use in [mine.ensure_held, mine.try_lock, *[mine.unlock] * levels]:
        raises_lost(use, match="new identity")
    not_owned(mine.unlock)
    assert client.real._core.lost_before == {}


@pytest.mark.parametrize("block", ["with", "hold"])
def test_leaving_a_block_and_a_reentry_in_it_say_that_it_is_lost(world, client, alice, block, mine):
    entered = mine.hold() if block == "hold" else mine
    entered.enter()
    before = world.redis.everything()
    client.renew_identity()
    raises_lost(mine.try_lock, match="new identity")
    raises_lost(alice.do, world.leave(entered.real), match="new identity")
    assert world.redis.everything() == before, "the lock is left to its lease"
    assert not mine.try_lock(), "nothing is remembered any more"
    assert mine.force_unlock()
    assert mine.try_lock()


def test_a_forced_unlock_frees_what_was_held_before(world, client, mine):
    mine.lock()
    client.renew_identity()
    assert mine.force_unlock()
    raises_lost(mine.unlock, match="new identity")
    assert mine.try_lock()


def test_a_made_owner_learns_that_its_hold_is_lost(world, client, alice):
    owner = client.real.new_owner()
    mine = alice.get(client, "lock", owner=owner)
    mine.lock()
    client.renew_identity()
    for use in (mine.ensure_held, mine.unlock):
        raises_lost(use, match="new identity")


def test_an_unlock_under_way_says_that_the_hold_is_lost(world, proxy, alice):
    client = world.through(proxy.port)
    mine = alice.lock(client)
    for _ in range(2):  # The server knows the scripts then.
        mine.lock()
        mine.unlock()
    mine.lock()
    late = proxy.hold_request("EVALSHA")
    unlocking = alice.start(mine.unlock)
    world.until(lambda: late.hits == 1, what="its unlock is under way")
    client.renew_identity()
    assert isinstance(unlocking.error(), LockLostError)
    late.release()
    not_owned(mine.unlock)


@threads_only
def test_another_call_chain_of_the_thread_goes_on(world):
    client = world.client().real
    mine = client.get_lock("orders")
    one, other = contextvars.copy_context(), contextvars.copy_context()
    one.run(mine.lock)
    client.renew_identity()
    assert not other.run(mine.try_lock)
    assert other.run(mine.force_unlock)
    assert other.run(mine.try_lock)
    other.run(mine.unlock)
    for use in (mine.try_lock, mine.ensure_held, mine.unlock):
        raises_lost(one.run, use, match="new identity")
    assert one.run(mine.try_lock)
