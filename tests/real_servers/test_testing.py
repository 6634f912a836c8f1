"""``pyredisson.testing`` on its real server: the helpers, with clients of both forms."""

import asyncio
import threading
import time

import pytest
import redis

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, LockLostError
from pyredisson.testing import lose_next_reply, partition, take_away
from tests.real_servers.handles import handle
from tests.real_servers.kind_table import KINDS
from tests.waiting import until

pytest_plugins = ["pyredisson.testing.plugin"]

AWAY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)

LOCKS = [kind.name for kind in KINDS if kind.release == "unlock"]


# ---- take_away -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LOCKS)
def test_a_hold_that_is_taken_away_is_lost_at_once(redisson_factory, lock_name, kind):
    lost = threading.Event()
    client = redisson_factory(Config(on_lock_lost=lambda name, thread_id: lost.set()))
    lock = handle(client, kind, lock_name)
    with pytest.raises(LockLostError), lock.hold() as lease:  # noqa: PT012
        take_away(lock)
        assert lost.wait(5), "on_lock_lost was called"
        assert lease.lost
    assert not lock.is_locked()
    with lock:  # It is free for the next one.
        assert lock.is_locked()


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "write_lock"])
async def test_a_hold_that_is_taken_away_is_lost_at_once_in_asyncio(async_redisson, lock_name, kind):
    lock = handle(async_redisson, kind, lock_name)
    with pytest.raises(LockLostError):  # noqa: PT012
        async with lock.hold() as lease:
            await take_away(lock)
            assert lease.lost
    assert not await lock.is_locked()


async def test_a_block_is_cancelled_when_its_hold_is_taken_away_in_it(async_redisson, lock_name):
    lock = async_redisson.get_lock(lock_name)
    with pytest.raises(LockLostError):  # noqa: PT012
        async with lock.hold(cancel_on_loss=True):
            await take_away(lock)
            await asyncio.sleep(60)


def test_a_free_lock_cannot_be_taken_away(redisson, async_redisson, lock_name):
    with pytest.raises(AssertionError, match="is not held"):
        take_away(redisson.get_lock(lock_name))
    async_lock = async_redisson.get_lock(lock_name)

    async def main():
        with pytest.raises(AssertionError, match="is not held"):
            await take_away(async_lock)

    asyncio.run(main())


def test_what_has_no_owner_cannot_be_taken_away(redisson, lock_name):
    with pytest.raises(TypeError, match="not Semaphore"):
        take_away(redisson.get_semaphore(lock_name))


# ---- lose_next_reply -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used_before", [False, True], ids=["first request", "later request"])
def test_a_lost_reply_counts_once(redisson, lock_name, used_before):
    lock = redisson.get_lock(lock_name)
    if used_before:
        lock.lock()
        lock.unlock()
    reply = lose_next_reply(redisson)
    assert not reply.happened
    lock.lock()
    assert reply.happened
    assert lock.get_hold_count() == 1
    reply = lose_next_reply(redisson)
    lock.unlock()
    assert reply.happened
    assert not lock.is_locked()


# ---- partition -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
def test_a_client_is_cut_off_alone_and_comes_back(redisson_factory, lock_name, silent):
    cut_off, other = redisson_factory(Config(timeout=0.5)), redisson_factory()
    lock = cut_off.get_lock(lock_name)
    lock.lock()
    with partition(cut_off, silent=silent):
        with partition(cut_off):  # One in another: it lasts as long as the longer one.
            pass
        with pytest.raises(AWAY):
            cut_off.get_lock(f"{lock_name}-2").is_locked()
        assert other.get_lock(lock_name).is_locked()
    assert lock.get_hold_count() == 1
    lock.unlock()
    assert not other.get_lock(lock_name).is_locked()


@pytest.mark.parametrize("silent", [False, True], ids=["closed", "silent"])
async def test_an_asyncio_client_is_cut_off_and_comes_back(async_redisson_factory, lock_name, silent):
    async def once_connected(call):
        over = time.monotonic() + 10
        while True:  # A connection that was begun in the silence may fail, or take its time, after it.
            try:
                return await call()
            except AWAY:
                if time.monotonic() > over:
                    raise

    client = async_redisson_factory(Config(timeout=0.5))
    async with client.get_lock(lock_name):
        with partition(client, silent=silent), pytest.raises(AWAY):
            await client.get_lock(f"{lock_name}-2").is_locked()
        assert await once_connected(client.get_lock(lock_name).is_locked)


def test_a_hold_is_lost_when_the_partition_outlasts_its_lease(redisson_factory, lock_name):
    client = redisson_factory(Config(lock_watchdog_timeout=1))
    with pytest.raises(LockLostError), client.get_lock(lock_name).hold() as lease, partition(client):
        until(lambda: lease.lost, within=10)


# ---- routes and servers ----------------------------------------------------------------------------------------------


def test_a_client_without_a_route_is_refused(redisson_server):
    with pyredisson.Redisson.from_url(redisson_server.url) as client:
        with pytest.raises(ValueError, match="redisson_url"):
            lose_next_reply(client)
        with pytest.raises(ValueError, match="redisson_url"):
            partition(client)


def test_a_route_leaves_no_thread_and_no_socket(redisson_server, lock_name):
    def own():
        return (thread for thread in threading.enumerate() if thread.name == "pyredisson-test-proxy")

    before = set(own())
    with redisson_server.route() as url:
        with pyredisson.Redisson.from_url(url) as client:
            client.get_lock(lock_name).lock()
        assert set(own()) - before
    until(lambda: not set(own()) - before)
