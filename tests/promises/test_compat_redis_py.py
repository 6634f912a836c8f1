"""The drop-in for redis-py's ``Lock``: what that promises, in both colours, and beside the original itself.

The behaviours are those that redis-py's own tests hold its lock to. What differs on purpose has tests of its own at the
end, and is listed in ``docs/howto/from-redis-py.md``.
"""

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError, RedisError, ResponseError
from redis.lock import Lock as Original

import pyredisson.compat.redis_py as for_threads
import pyredisson.compat.redis_py.asyncio as for_tasks
from pyredisson import Config, Redisson
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import Actor, Remote
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, in_real_time, interruptible, sync_and_async, threads_only

pytestmark = sync_and_async


def module_of(world: ClockWorld) -> ModuleType:
    return for_tasks if isinstance(world, AsyncioWorld) else for_threads


class User:
    """Somebody with a client of redis-py, who makes locks and uses them in a thread or task of its own."""

    def __init__(self, world: ClockWorld, client: Any = None) -> None:
        self.world = world
        self.actor: Actor = world.actor()
        self.redis = world.redis_client() if client is None else client

    def lock(self, *args: Any, **settings: Any) -> Remote:
        return Remote(module_of(self.world).Lock(self.redis, "foo", *args, **settings), self.actor)

    def use(self, lock: Remote) -> Remote:
        """The same lock object in these hands."""
        return Remote(lock.real, self.actor)


@pytest.fixture
def user(world: ClockWorld) -> Iterator[User]:
    user = User(world)
    yield user
    client = module_of(world).client_of(user.redis)
    user.actor.do(client.close)


def stored(world: ClockWorld) -> bytes | None:
    value: bytes | None = world.redis.command("GET", "foo")
    return value


def pttl(world: ClockWorld) -> int:
    return int(world.redis.command("PTTL", "foo"))


# ---- the behaviour of redis-py's lock --------------------------------------------------------------------------------


@in_real_time
@pytest.mark.parametrize("thread_local", [True, False])
@pytest.mark.parametrize("token", ["test", b"test", None])
def test_the_token_is_stored_until_the_release(user, world, thread_local, token):
    lock = user.lock(thread_local=thread_local)
    assert lock.acquire(blocking=False, token=token)
    assert user.actor.do(lambda: lock.real.local.token) == stored(world)
    assert (stored(world) == b"test") is (token is not None)
    assert not lock.acquire(blocking=False, token=token), "a token is no key to another's hold"
    lock.release()
    assert stored(world) is None
    assert user.actor.do(lambda: lock.real.local.token) is None


@in_real_time
@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("meddle", ["taken over", "released"])
def test_leaving_a_block_without_the_lock_raises_or_is_only_logged(user, world, meddle, raises, caplog):
    lock = user.lock(timeout=10, raise_on_release_error=raises)
    with caplog.at_level(logging.WARNING), pytest.raises(LockError) if raises else nullcontext(), lock:
        if meddle == "released":
            lock.release()
        else:
            world.redis.command("SET", "foo", "a")
    logged = any("was lost before its block was left" in record.getMessage() for record in caplog.records)
    assert logged is not raises


# ---- together with the original --------------------------------------------------------------------------------------


def test_old_and_new_exclude_each_other(user, world):
    with redis.Redis(port=world.port or 0) as client:
        old, new = Original(client, "foo", timeout=30), user.lock(timeout=30)
        assert old.acquire(blocking=False)
        assert not new.acquire(blocking=False)
        with pytest.raises(LockError):
            new.release()
        waiting = user.actor.start(new.acquire)
        old.release()
        assert waiting.result(within=5) is True
        assert not old.acquire(blocking=False)
        assert new.extend(5)
        assert not old.owned()
        new.release()
        assert old.acquire(blocking=False)


def test_a_key_of_another_type_is_waited_for_as_set_nx_does(user, world):
    world.redis.command("HSET", "foo", "field", "1")
    lock = user.lock(timeout=30, sleep=0.05)
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(blocking_timeout=0.1)
    for refused in lock.locked, lock.owned:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            refused()
    waiting = user.actor.start(lock.acquire)
    world.redis.delete("foo")
    assert waiting.result(within=5) is True
    assert lock.owned()
    lock.release()


# ---- intended differences --------------------------------------------------------------------------------------------


def test_without_a_timeout_it_is_kept_alive_and_ends_with_its_object(world, alice):
    client = world.client(lock_watchdog_timeout=2.4)
    lock = Remote(module_of(world).Lock(client.real, "foo"), alice)
    lock.acquire()
    world.renewed("foo")
    assert 0 < pttl(world) <= 2400
    lock.real = None
    gc.collect()
    world.until(lambda: pttl(world) < 1000, what="it is renewed no more, which happened every 0.8 s")


def test_time_is_never_cut_short(user, world):
    lock = user.lock(timeout=10)
    lock.acquire()
    assert lock.extend(1, replace_ttl=True)
    assert pttl(world) > 8000
    for time_ in (0, -5):
        with pytest.raises(ValueError):
            lock.extend(time_)


def test_a_lost_reply_neither_strands_a_hold_nor_prolongs_it_twice(world, proxy):
    """redis-py sees its own SET NX refused when it repeats it, and waits for itself."""
    user = User(world, world.redis_client(port=proxy.port))
    lock = user.lock(timeout=10)
    lock.acquire()
    lock.extend(1)
    lock.release()
    lost = proxy.drop_reply("EVALSHA", then="reset")
    assert lock.acquire(blocking=False)
    assert lost.hits == 1
    for skipped in (0, 1):
        before = pttl(world)
        lost = proxy.drop_reply("EVALSHA", k=1 + skipped, then="reset")
        assert lock.extend(10)
        assert lost.hits == 1
        assert before + 8000 < pttl(world) <= before + 10_000
    lost = proxy.drop_reply("EVALSHA", then="reset")
    lock.release()
    assert lost.hits == 1
    assert stored(world) is None
    user.actor.do(module_of(world).client_of(user.redis).close)


def test_an_unknown_outcome_is_a_connection_error(world, proxy):
    client = world.through(proxy.port, timeout=1.2)
    lock = Remote(module_of(world).Lock(client.real, "foo", timeout=30), world.actor())
    lock.acquire()
    proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises((redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)):
        lock.release()
    proxy.clear()
    lock.release()  # redis-py has forgotten its token by now, and the lock stays until its end.
    assert stored(world) is None


@interruptible
def test_one_interrupted_while_acquiring_leaves_nothing(world):
    user = User(world)
    user.actor = world.interruptible()
    holder = User(world, user.redis)
    held = holder.lock(timeout=30)
    held.acquire()
    lock = user.lock(timeout=30, sleep=0.01)
    looks = iter(range(100))
    assert user.actor.interrupted(lock.acquire, once=lambda: next(looks) > 5) is not None
    assert user.actor.do(lambda: lock.real.local.token) is None
    held.release()
    assert holder.lock().acquire(blocking=False)
    user.actor.do(module_of(world).client_of(user.redis).close)


@in_real_time
def test_a_shared_object_has_a_hold_for_each_of_its_users(user, world):
    """redis-py's asyncio lock keeps one token for all tasks: the late release of one frees another's hold."""
    other = User(world, user.redis)
    mine = user.lock(timeout=0.2)
    theirs = other.use(mine)
    mine.acquire()
    world.until(lambda: stored(world) is None)
    mine.real.timeout = 30
    assert theirs.acquire()
    with pytest.raises(LockNotOwnedError):
        mine.release()
    assert theirs.owned()
    assert not mine.owned()
    theirs.release()


@in_real_time
def test_without_thread_local_every_user_of_the_object_may_release_it(user, world):
    other = User(world, user.redis)
    mine = user.lock(timeout=30, thread_local=False)
    theirs = other.use(mine)
    mine.acquire()
    assert theirs.owned()
    theirs.release()
    assert stored(world) is None
    with pytest.raises(LockError):
        mine.release()


@asyncio_only
def test_a_lock_that_an_ended_task_holds_may_be_released(world):
    """As ``asyncio.wait_for(lock.acquire(), 5)`` leaves it before Python 3.12."""

    async def main():
        async with redis.asyncio.Redis(port=world.port or 0) as client:
            lock = for_tasks.Lock(client, "foo", timeout=30)
            for _ in range(3):
                task = asyncio.ensure_future(lock.acquire())
                assert await task
                del task
                assert await lock.owned()
                await lock.release()
                assert not await lock.locked()
            await for_tasks.client_of(client).close()

    world.run(main)


# ---- its client ------------------------------------------------------------------------------------------------------


@threads_only
def test_locks_of_one_pool_share_a_client_that_ends_with_the_pool(world):
    pool = redis.ConnectionPool(port=world.port or 0)
    one, two = redis.Redis(connection_pool=pool), redis.Redis(connection_pool=pool)
    client = for_threads.client_of(one)
    assert for_threads.client_of(two) is client
    with for_threads.Lock(one, "foo"), for_threads.Lock(two, "bar"):
        assert len([thread for thread in threading.enumerate() if "watchdog" in thread.name]) == 1
    client.close()
    again = for_threads.client_of(one)
    assert again is not client
    gone = weakref.ref(again)
    pool.disconnect()
    del one, two, pool, again
    gc.collect()
    assert gone() is None


@threads_only
def test_a_client_of_this_library_may_be_given(world):
    with Redisson(redis.Redis(port=world.port or 0), config=Config(timeout=1)) as client:
        with for_threads.Lock(client, "foo") as lock:
            assert lock.owned()
        assert for_threads.client_of(client) is client
        for arguments in ({"timeout": -1}, {"sleep": float("nan")}, {"timeout": "5"}):
            with pytest.raises((ValueError, TypeError)):
                for_threads.Lock(client, "foo", **arguments)
    for wrong in (None, "redis://localhost", redis.asyncio.Redis()):
        with pytest.raises(TypeError):
            for_threads.Lock(wrong, "foo")


@threads_only
def test_an_unreachable_server_is_an_error_of_the_connection(world):
    lock = for_threads.Lock(world.unreachable(), "foo")
    for call in (lock.acquire, lock.locked, lock.__enter__):
        with pytest.raises(RedisError):
            call()
