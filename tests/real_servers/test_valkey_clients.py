"""Clients of the ``valkey`` package for what is not one server by itself: a cluster, sentinels, pools."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import pyredisson
import pyredisson.asyncio
from tests.sentinels import SERVICE
from tests.servers import HOST

threads_valkey = pytest.importorskip("valkey")
asyncio_valkey = pytest.importorskip("valkey.asyncio")
asyncio_cluster = pytest.importorskip("valkey.asyncio.cluster")


def lock_by(client: Any, name: str) -> str | None:
    """Lock and unlock as a thread; return the client's URL."""
    with pyredisson.Redisson(client) as ours:
        lock = ours.get_lock(name)
        with lock.hold(wait_time=5):
            assert lock.is_locked()
        assert not lock.is_locked()
        return ours.url


async def lock_in_task_by(client: Any, name: str) -> str | None:
    """Lock and unlock as a task; return the client's URL."""
    async with pyredisson.asyncio.Redisson(client) as ours:
        lock = ours.get_lock(name)
        async with lock.hold(wait_time=5):
            assert await lock.is_locked()
        assert not await lock.is_locked()
        return ours.url


def test_a_cluster(cluster, unique_name):
    greeted = []
    users = threads_valkey.ValkeyCluster(
        host=HOST, port=cluster.nodes[0].port, socket_timeout=5, valkey_connect_func=greeted.append
    )
    try:
        before = len(greeted)
        url = lock_by(users, unique_name)
        assert url is not None
        assert url.startswith("redis+cluster://")
        assert len(greeted) > before
        assert users.ping()  # It is not closed.
    finally:
        users.close()


def test_sentinels(watched, unique_name):
    finder = threads_valkey.Sentinel([(HOST, each.port) for each in watched.sentinels], socket_timeout=5)
    users = finder.master_for(SERVICE, db=1)
    lock_by(users, unique_name)
    watched.fail_over()
    lock_by(users, unique_name)
    users.close()


def test_sentinels_in_tasks(watched, unique_name):
    async def main():
        finder = asyncio_valkey.Sentinel([(HOST, each.port) for each in watched.sentinels], socket_timeout=5)
        users = finder.master_for(SERVICE)
        await lock_in_task_by(users, unique_name)
        await users.aclose()
        for each in finder.sentinels:
            await each.aclose()

    asyncio.run(main())
    gc.collect()  # What was left open is a warning then, and so an error.


def test_what_a_client_by_sentinels_cannot_be():
    finder = threads_valkey.Sentinel([("h", 1)])
    with pytest.raises(TypeError, match=r"master_for\(\)"):
        pyredisson.Redisson(finder.slave_for("s"))
    with pytest.raises(TypeError, match="min_other_sentinels"):
        pyredisson.Redisson(threads_valkey.Sentinel([("h", 1)], min_other_sentinels=1).master_for("s"))


@pytest.mark.parametrize("kind", ["ConnectionPool", "BlockingConnectionPool"])
def test_pools(valkey, unique_name, kind):
    url = f"{HOST}:{valkey.port}/2"
    users = threads_valkey.Valkey(connection_pool=getattr(threads_valkey, kind).from_url(f"valkey://{url}"))
    assert lock_by(users, unique_name) == f"redis://{url}"
    users.close()

    async def main():
        users = asyncio_valkey.Valkey(connection_pool=getattr(asyncio_valkey, kind).from_url(f"valkey://{url}"))
        assert await lock_in_task_by(users, unique_name) == f"redis://{url}"
        await users.aclose()

    asyncio.run(main())


def test_the_other_form_is_refused():
    for client in (asyncio_cluster.ValkeyCluster(host="h"), asyncio_valkey.Sentinel([("h", 1)]).master_for("s")):
        with pytest.raises(TypeError, match=r"use pyredisson\.asyncio\.Redisson"):
            pyredisson.Redisson(client)
    with pytest.raises(TypeError, match=r"use pyredisson\.Redisson"):
        pyredisson.asyncio.Redisson(threads_valkey.Sentinel([("h", 1)]).master_for("s"))
