"""A client of redis-py that the user made keeps its settings, whatever they are, and the lock works over it."""

from typing import Any

import pytest
import redis
import redis.asyncio
import redis.exceptions
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from pyredisson import LockLostError
from tests.servers import HOST
from tests.worlds.base import KEPT
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import in_real_time, sync_and_async
from tests.worlds.store import CHANNEL

pytestmark = sync_and_async

SETTINGS: dict[str, dict[str, Any]] = {
    "decoded": {"decode_responses": True},
    "resp2": {"protocol": 2},
    "resp2-decoded": {"protocol": 2, "decode_responses": True},
    "resp3": {"protocol": 3},
    "resp3-decoded": {"protocol": 3, "decode_responses": True},
    "latin": {"encoding": "latin-1", "decode_responses": True},
    "retries": {"retry": Retry(ExponentialBackoff(), 5), "retry_on_error": [redis.exceptions.ConnectionError]},
    "no-retries": {"retry": None},
    "checked": {"health_check_interval": 1},
    "named": {"client_name": "alice"},
    "timeout": {"socket_timeout": 0.4, "socket_connect_timeout": 1},
    "one-connection": {"single_connection_client": True},
    "few-connections": {"max_connections": 1},
}


class Tunnel(redis.Connection):
    """A connection that we know nothing of."""


class AsyncTunnel(redis.asyncio.Connection):
    """The same, awaited."""


def everything_works(world: ClockWorld, users: Any, *, renewal: bool = False) -> None:
    """Take, wait, be told, renew, lose: all of it over this client."""
    client = world.client(redis=users, lock_watchdog_timeout=KEPT if renewal else 30)
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    assert not mine.is_locked()
    mine.lock()
    mine.lock()
    assert mine.get_hold_count() == 2
    assert mine.is_locked()
    assert 0 < mine.remain_time_to_live() <= 30
    waiting = bob.start(theirs.try_lock, 9)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    if renewal:
        world.renewed("orders", times=1)
    else:
        world.pass_time(0.05)
    assert not waiting.done()
    mine.unlock()
    mine.unlock()
    assert waiting.result(within=5) is True
    world.redis.command("SCRIPT", "FLUSH")
    with pytest.raises(LockLostError), theirs.hold():
        assert mine.force_unlock()
    world.until(lambda: world.redis.subscribers(CHANNEL) == 0)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_lock_works_over_a_client_with_these_settings(world, settings):
    everything_works(world, world.redis_client(**SETTINGS[settings]))


@in_real_time
@pytest.mark.parametrize("decoded", [False, True], ids=["bytes", "decoded"])
def test_the_lock_works_over_any_server_and_fake(world, decoded):
    everything_works(world, world.redis_client(decode_responses=decoded), renewal=decoded)


@pytest.mark.parametrize("decoded", [False, True], ids=["bytes", "decoded"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_lock_works_over_connections_of_another_class(world, protocol, decoded):
    everything_works(world, tunnelled(world, protocol=protocol, decode_responses=decoded), renewal=decoded)


@pytest.mark.parametrize("parser", ["_RESP2Parser", "_RESP3Parser", "_HiredisParser"])
def test_the_lock_works_with_any_parser_of_redis_pys(world, parser):
    if world.runtime != "threads":
        parser = parser.replace("_", "_Async", 1)
    settings = {"parser_class": getattr(redis._parsers, parser), "protocol": 2 if "2" in parser else 3}
    everything_works(world, tunnelled(world, **settings))
    everything_works(world, over(world, world.redis_py.ConnectionPool(host=HOST, port=world.port, **settings)))


def test_a_pool_of_one_connection_is_waited_for(world):
    users = over_one_connection(world)
    everything_works(world, users)
    client = world.client(redis=users)
    actors = world.actors(5)
    started = [actor.start(client.real.get_lock(f"order-{n}").lock) for n, actor in enumerate(actors)]
    for pending in started:
        pending.result()
    assert actors[0].do(users.ping)


def test_the_watchdog_does_not_wait_for_the_users_connections(world, alice, bob):
    users = over_one_connection(world)
    client = world.client(redis=users, lock_watchdog_timeout=KEPT)
    mine = alice.lock(client)
    assert not mine.is_locked()
    mine.lock()
    blocking = bob.start(users.blpop, ["nothing"])
    world.until(lambda: world.redis.command("CLIENT", "LIST").count(b"cmd=blpop") == 1)
    world.renewed("orders")
    assert not blocking.done()
    world.redis.command("RPUSH", "nothing", "at last")
    assert blocking.result()


def test_the_users_own_commands_are_not_disturbed(world, alice, bob):
    users = tunnelled(world, decode_responses=True)
    client = world.client(redis=users)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    for number in range(20):
        alice.do(users.set, "number", number)
        assert alice.do(users.get, "number") == str(number)
    mine.unlock()
    waiting.result()
    assert alice.do(users.get, "number") == "19"


def over(world: ClockWorld, pool: Any) -> Any:
    return world.look_after(world.redis_py.Redis.from_pool(pool))


def over_one_connection(world: ClockWorld) -> Any:
    pool = world.redis_py.BlockingConnectionPool
    return over(world, pool(host=HOST, port=world.port, max_connections=1, timeout=5))


def tunnelled(world: ClockWorld, **settings: Any) -> Any:
    tunnel = Tunnel if world.runtime == "threads" else AsyncTunnel
    return over(world, world.redis_py.ConnectionPool(tunnel, host=HOST, port=world.port, **settings))
