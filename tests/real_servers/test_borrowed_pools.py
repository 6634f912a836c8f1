"""Over a pool of the user's a call takes no longer than over connections of our own, whatever that pool's settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import RedisError

from pyredisson import Config, LockError
from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

BUDGET = 1.5
MARGIN = 1.5  # seconds; this machine may be busy


def borrowed(world: ClockWorld, port: int) -> Any:
    settings = {"host": "127.0.0.1", "port": port, "socket_timeout": 20, "socket_connect_timeout": 20}
    if world.runtime == "threads":
        return redis.Redis(connection_pool=redis.BlockingConnectionPool(**settings))
    return redis.asyncio.Redis(connection_pool=redis.asyncio.BlockingConnectionPool(**settings))


@pytest.mark.parametrize("wait", [0.0, 0.5])
@pytest.mark.parametrize("known", [False, True], ids=["first contact", "connected before"])
def test_a_call_is_over_in_time_though_the_server_is_stopped(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str, known: bool, wait: float
) -> None:
    server = fresh_server()
    made = borrowed(world, server.port)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock, actor = client.get_lock(unique_name), world.actor()
    if known:
        until(lambda: _connects(actor, lock), 20, what="connected")
    server.pause()
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises((RedisError, LockError)):
                actor.do(lock.try_lock, wait)
            assert time.monotonic() - began < wait + BUDGET + MARGIN
    finally:
        server.resume()
    until(lambda: _connects(actor, lock), 20, what="it is there again")
    actor.do(lock.lock)
    actor.do(lock.unlock)
    world.run(client.close)
    _close(world, made)


def test_connections_that_were_made_too_late_go_back_to_the_pool(
    world: ClockWorld, proxy: Proxy, unique_name: str
) -> None:
    made = borrowed(world, proxy.port)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock, actor = client.get_lock(unique_name), world.actor()
    proxy.latency(1.2, direction="down")
    for _ in range(3):
        with pytest.raises((RedisError, LockError)):
            actor.do(lock.try_lock)
    proxy.clear()
    until(lambda: _connects(actor, lock), 20, what="it is there again")
    pool = made.connection_pool

    def all_back() -> bool:
        connections = getattr(pool, "_connections", [])
        return len(getattr(pool, "_in_use_connections", ())) == 0 and len(connections) < 20

    until(all_back, 20, what="all are back")
    world.run(client.close)
    _close(world, made)


def _close(world: ClockWorld, made: Any) -> None:
    world.run(made.close if world.runtime == "threads" else made.aclose)
    world.run(made.connection_pool.disconnect)  # A client leaves a pool that it was given as it is.


def _connects(actor: Any, lock: Any) -> bool:
    try:
        actor.do(lock.is_locked)
    except (RedisError, LockError):
        return False
    return True
