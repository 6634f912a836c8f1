"""``close()`` ends what the client made, wakes who waits, and leaves what is held to its lease, as a crash would."""

import asyncio
import contextlib
import gc
import threading
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio

import pyredisson
from pyredisson import ClientClosedError, OutcomeUnknownError
from tests.proxy import Proxy
from tests.servers import HOST
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async, threads_only

SHORT = 0.9
#: The methods of each kind.
METHODS = {
    "lock": """lock try_lock acquire unlock release force_unlock enter is_locked locked is_held_by_current_thread
        is_held_by_thread get_hold_count remain_time_to_live extend""",
    "semaphore": """acquire try_acquire release available_permits drain_permits enter try_set_permits add_permits""",
    "permit_expirable_semaphore": """acquire try_acquire available_permits get_permits acquired_permits
        release try_release update_lease_time try_set_permits set_permits add_permits""",
    "count_down_latch": "wait count_down get_count try_set_count",
}
#: Arguments that would be accepted, of those that need some.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "is_held_by_thread": (7,),
    "extend": (5,),
    **dict.fromkeys(["try_set_permits", "set_permits", "add_permits", "try_set_count"], (1,)),
    "try_release": ("0" * 32,),
    "update_lease_time": ("0" * 32, 5),
}


@pytest.mark.parametrize("kind", METHODS)
def test_any_use_after_close_is_refused(world, client, kind):
    mine = world.actor().get(client, kind)
    if kind == "lock":
        mine.lock()
    elif kind == "count_down_latch":
        mine.try_set_count(2)
    else:
        mine.try_set_permits(2)
    before = world.redis.everything()
    client.close()
    arguments = {**ARGUMENTS, **({"release": ("0" * 32,)} if kind == "permit_expirable_semaphore" else {})}
    calls = [partial(getattr(mine, method), *arguments.get(method, ())) for method in METHODS[kind].split()]
    if kind != "count_down_latch":
        calls.append(lambda: mine.hold().enter())
    if kind == "semaphore":
        calls += [partial(mine.acquire, 0), partial(mine.release, 0)]
    for call in (*calls, lambda: world.actor().get(client, kind)):
        with pytest.raises(ClientClosedError):
            call()
    assert world.redis.everything() == before


def test_closing_twice_is_closing_once(world, client):
    unused = world.client(redis=world.redis_client()) if isinstance(world, ClockWorld) else world.client()
    world.actor().lock(client).lock()
    for each in (client, unused):
        each.close()
        each.close()


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "semaphore"])
def test_waiter_whose_first_attempt_is_in_flight_is_woken(world, client, alice, bob, kind):
    if kind == "semaphore":
        alice.get(client, kind).try_set_permits(0)
        waits = bob.get(client, kind).acquire
    else:
        alice.get(world.client(), kind).lock()
        waits = bob.get(client, kind).lock
    waiting = bob.start(waits)
    client.close()
    error = waiting.error(within=5)
    # A connection that is closed before the reply has come leaves the outcome of a real request unknown.
    assert isinstance(error, (ClientClosedError, OutcomeUnknownError)), error


@each_runtime
def test_a_waiter_of_a_client_that_is_closed_leaves_the_queue(world, alice, bob, carol):
    mine, theirs = alice.get(world.client(), "fair_lock"), carol.get(world.client(), "fair_lock")
    for _ in range(3):
        mine.lock()
        client = world.client()
        waiting = bob.start(bob.get(client, "fair_lock").lock)
        world.until(lambda: world.redis.list("redisson_lock_queue:{orders}") != [])
        client.close()
        mine.unlock()
        assert theirs.try_lock(2), "a closed client is the next one in the queue"
        theirs.unlock()
        assert isinstance(waiting.error(), ClientClosedError)


@sync_and_async
def test_many_waiters_in_queues_do_not_delay_closing_if_the_server_is_silent(world):
    actors = world.actors(21)
    with Proxy(world.port) as proxy:
        client = world.through(proxy.port)
        handles = [actor.get(client, "fair_lock", f"orders{number}") for number, actor in enumerate(actors[1:])]
        for handle in handles:
            actors[0].get(world.client(), "fair_lock", handle.name).lock()
        waiting = [actor.start(handle.lock) for actor, handle in zip(actors[1:], handles, strict=True)]
        for handle in handles:
            world.until(lambda handle=handle: world.redis.list(f"redisson_lock_queue:{{{handle.name}}}") != [])
        proxy.blackhole()
        began = world.now()
        client.close()
        assert world.now() - began < 8, "a second for each of them"
        for each in waiting:
            assert isinstance(each.error(within=20), (ClientClosedError, OutcomeUnknownError))


def test_a_held_lock_is_left_to_its_lease(world, alice, bob):
    client = world.client(lock_watchdog_timeout=SHORT)
    began = world.now()
    alice.lock(client).lock()
    client.close()
    theirs = bob.lock(world.client())
    assert theirs.try_lock(9)
    assert 0.95 * SHORT < world.now() - began < 9


@sync_and_async
def test_a_block_closes_the_client(world, client):
    with client as entered:
        assert entered is client.real
        mine = world.actor().lock(client)
        mine.lock()
    for call in (mine.unlock, client.enter):
        with pytest.raises(ClientClosedError):
            call()
    assert "closed" in repr(client)


@asyncio_only
def test_a_client_for_asyncio_can_be_closed_by_contextlib(world, client):
    async def use():
        async with contextlib.aclosing(client.real) as entered:
            await entered.get_lock("orders").lock()
        await entered.aclose()

    world.actor().do(use)
    with pytest.raises(ClientClosedError):
        client.real.get_lock("orders")


@sync_and_async
def test_the_users_own_client_stays_open(world):
    pool = world.redis_py.BlockingConnectionPool(host=HOST, port=world.port, max_connections=1)
    borrowed = world.look_after(world.redis_py.Redis.from_pool(pool))
    for users in (world.redis_client(single_connection_client=True), borrowed):
        alice = world.actor()
        connection = alice.do(users.client_id)
        client = world.client(redis=users)
        alice.lock(client).lock()
        client.close()
        assert alice.do(users.client_id) == connection
        world.redis.delete("orders")


@sync_and_async
def test_no_thread_task_or_connection_is_left(world, client):
    def ours():
        return tasks_of_ours(world) if isinstance(world, AsyncioWorld) else threads_of_ours()

    before = connections(world)
    use_in_full(world, client)
    assert ours()
    assert connections(world) - before
    client.close()
    world.until(lambda: not ours())
    world.until(lambda: not connections(world) - before)


@threads_only
def test_no_thread_is_left_of_a_client_that_was_dropped(world):
    client = pyredisson.Redisson(redis.Redis(HOST, world.port))
    lock = client.get_lock("orders")
    lock.lock()
    world.until(threads_of_ours)
    del client
    gc.collect()
    assert threads_of_ours()  # The handle keeps its client going.
    lock.unlock()
    del lock
    gc.collect()
    world.until(lambda: not threads_of_ours())


@sync_and_async
@pytest.mark.parametrize("call", ["lock", "unlock"])
def test_a_request_under_way_leaves_no_connection(world, call):
    before = connections(world)
    with Proxy(world.port) as proxy:
        client = world.through(proxy.port)
        alice, bob = world.actors(2)
        warm, mine = bob.lock(client, "warm-up"), alice.lock(client)
        warm.lock(5)
        if call == "unlock":
            mine.lock(5)
        silence = proxy.drop_reply("EVALSHA", k=None)
        under_way = alice.start(mine.lock if call == "lock" else mine.unlock)
        silence.wait()
        client.close()
        under_way.error()
    world.until(lambda: not connections(world) - before)


def use_in_full(world: ClockWorld, client: object) -> None:
    """Let the client make everything that it ever makes."""
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    waiting = bob.start(theirs.try_lock, 20)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.unlock()
    assert waiting.result() is True


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pyredisson")]


def tasks_of_ours(world: AsyncioWorld) -> list[str]:
    async def names() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("pyredisson")]

    return list(world.run(names))


def connections(world: ClockWorld) -> set[str]:
    """The numbers of those that the server has; none is used again."""
    listed = world.redis.command("CLIENT", "LIST").decode()
    return {line.split()[0] for line in listed.splitlines()}


def test_waiters_are_woken_with_an_error_each(world, client):
    holder = world.actor().lock(world.client())
    holder.lock()
    locks = [actor.lock(client) for actor in world.actors(3)]
    waiting = [lock._actor.start(lock.lock) for lock in locks]
    world.until(lambda: world.waiting(locks[0]) == 3)
    client.close()
    errors = [pending.error(within=5) for pending in waiting]
    assert all(isinstance(error, ClientClosedError) for error in errors)
    assert len(set(map(id, errors))) == len(errors), "each waiter adds its traceback to an error of its own"
    holder.unlock()
    assert not world.actor().lock(world.client()).is_locked()
