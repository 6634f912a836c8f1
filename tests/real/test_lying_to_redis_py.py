"""Servers that lie where redis-py reads: while a connection is made, and on the connections of a user's pool."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.exceptions as rx
import redis.sentinel
from redis._parsers import _AsyncHiredisParser, _AsyncRESP2Parser, _HiredisParser, _RESP2Parser
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection

import pyredisson
from pyredisson import Config
from pyredisson.asyncio.borrowed import AsyncBorrowedTransport
from pyredisson.core.failures import NotSent
from pyredisson.errors import LockError
from pyredisson.threads.borrowed import BorrowedTransport
from tests.proxy import Proxy
from tests.real.liars import LIES, MOST_GROWN_KIB, MOST_SENT, EndlessServer, is_protocol_error
from tests.real.observation import ANY_SCRIPT
from tests.real.test_lying_server import NONSENSE, lie
from tests.servers import HOST
from tests.waiting import until
from tests.worlds.clock import ClockWorld

PARSERS: dict[str, dict[str, type[Any]]] = {
    "hiredis": {"threads": _HiredisParser, "asyncio": _AsyncHiredisParser},
    "python": {"threads": _RESP2Parser, "asyncio": _AsyncRESP2Parser},
}

HANDSHAKE: dict[str, dict[str, Any]] = {
    "HELLO": {"protocol": 3},
    "CLIENT": {"protocol": 2, "client_name": "liar"},
    "SELECT": {"protocol": 2},
    "AUTH": {"protocol": 2, "password": "secret"},
}


@pytest.fixture
def endless() -> Iterator[Callable[[bytes], EndlessServer]]:
    made: list[EndlessServer] = []

    def make(command: bytes) -> EndlessServer:
        made.append(EndlessServer(command))
        return made[-1]

    yield make
    for each in made:
        each.close()


@contextlib.contextmanager
def borrowed(world: ClockWorld, port: int, parser: str, **settings: Any) -> Iterator[Any]:
    """A client of redis-py with a pool that we cannot open connections for."""
    settings = {
        "host": HOST,
        "port": port,
        "protocol": 2,
        "socket_timeout": 20,
        "max_connections": 1,
        "timeout": 5,
        "parser_class": PARSERS[parser][world.runtime],
        **settings,
    }
    if world.runtime == "threads":
        made: Any = redis.Redis(connection_pool=redis.BlockingConnectionPool(**settings))
    else:
        made = redis.asyncio.Redis(connection_pool=redis.asyncio.BlockingConnectionPool(**settings))
    try:
        yield made
    finally:
        world.run(made.connection_pool.disconnect)


def only_connection(pool: Any) -> Any:
    """The one connection of a pool that has been given back."""
    found = list(getattr(pool, "_connections", ())) or list(pool._available_connections)
    assert len(found) == 1
    return found[0]


def returned(pool: Any, *, without: Any) -> Any:
    """The one connection of a pool, if it was returned and no longer reads from this source, which may take a moment.

    It is disconnected then, unless an attempt to connect that was still under way has connected it anew.
    """
    found = [each for each in (getattr(pool, "_connections", ()) or pool._available_connections) if each is not None]
    if len(found) != 1 or (found[0].is_connected and source_of(found[0]) is without):
        return None
    return found[0]


def refusal(world: ClockWorld, client: Any) -> Exception:
    """What a caller gets who asks; asked again if the machine was too slow for any attempt to connect."""
    for _ in range(5):
        with pytest.raises((rx.ConnectionError, rx.TimeoutError, LockError)) as error:
            world.actor().do(client.get_lock("lied-to").is_locked)
        if "it is still being made" not in str(error.value):
            break
    return error.value


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("command", HANDSHAKE)
def test_a_lie_in_the_handshake_is_a_connection_error(world: ClockWorld, proxy: Proxy, command: str, what: str) -> None:
    url = f"redis://{HOST}:{proxy.port}/1"
    client = world.from_url(url, redis_kwargs=HANDSHAKE[command], timeout=2.0)
    lies = lie(proxy, command, LIES[what])
    error = refusal(world, client)
    assert is_protocol_error(error), repr(error)
    assert lies.hits


KEYED_BY_AN_ARRAY = b"%1\r\n*1\r\n:1\r\n:2\r\n"


@pytest.mark.parametrize("what", [*NONSENSE, "a map with an array for a key"])
def test_a_greeting_of_another_kind_is_a_connection_error(world: ClockWorld, proxy: Proxy, what: str) -> None:
    ignored = world.runtime == "asyncio" and what in NONSENSE  # redis-py makes nothing of what it is told there.
    client = world.from_url(proxy.url, redis_kwargs={"protocol": 3}, timeout=15.0 if ignored else 2.0)
    lie(proxy, "HELLO", NONSENSE.get(what, KEYED_BY_AN_ARRAY))
    if ignored:
        assert world.actor().do(client.get_lock("lied-to").is_locked) is False
        return
    error = refusal(world, client)
    assert is_protocol_error(error), repr(error)


@pytest.mark.parametrize("parser", PARSERS)
def test_a_lie_in_the_handshake_of_the_user_s_parser_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, parser: str
) -> None:
    settings = {"protocol": 2, "client_name": "liar", "parser_class": PARSERS[parser][world.runtime]}
    client = world.from_url(proxy.url, redis_kwargs=settings, timeout=3.0)
    lie(proxy, "CLIENT", LIES["arrays nested 10,000 deep"])
    error = refusal(world, client)
    assert is_protocol_error(error), repr(error)


def test_an_endless_reply_to_the_handshake_uses_no_memory(
    world: ClockWorld, endless: Callable[[bytes], EndlessServer]
) -> None:
    server = endless(b"CLIENT")
    settings = {"protocol": 2, "client_name": "liar"}
    client = world.from_url(f"redis://{HOST}:{server.port}", redis_kwargs=settings, timeout=3.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = refusal(world, client)
    assert server.lies
    assert server.most_sent < MOST_SENT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWN_KIB
    assert is_protocol_error(error), repr(error)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("what", LIES)
def test_an_invalid_reply_on_a_borrowed_connection_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, unique_name: str, what: str, parser: str
) -> None:
    with borrowed(world, proxy.port, parser) as made:
        client, actor = world.close_at_end(world.api.Redisson(made, config=Config(timeout=15.0))), world.actor()
        hasty = world.close_at_end(world.api.Redisson(made, config=Config(timeout=2.0)))  # It asks again until then.
        lock = client.get_lock(unique_name)
        actor.do(lock.is_locked)
        reader_before = source_of(only_connection(made.connection_pool))
        lies = lie(proxy, "EXISTS", LIES[what])
        with pytest.raises(rx.ConnectionError) as error:
            actor.do(hasty.get_lock(unique_name).is_locked)
        assert is_protocol_error(error.value), repr(error.value)
        pool = made.connection_pool
        connection = until(lambda: returned(pool, without=reader_before), 10, what="the connection is closed")
        lies.remove()
        assert actor.do(lock.is_locked) is False
        assert source_of(connection) is not reader_before
        assert type(source_of(connection)) is type(reader_before), "and nothing of ours stays on it"
        scripts = lie(proxy, ANY_SCRIPT, LIES[what])
        with pytest.raises(LockError) as failure:
            actor.do(hasty.get_lock(unique_name).try_lock)
        assert is_protocol_error(failure.value), repr(failure.value)
        scripts.remove()
        until(lambda: not actor.do(lock.is_locked), 10, what="what was not answered is given back")
        world.run(hasty.close)
        world.run(client.close)


def test_an_invalid_reply_on_a_borrowed_connection_with_a_cache_is_a_connection_error(
    proxy: Proxy, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis(port=proxy.port, protocol=3) as other:
        greeting: Any = other.execute_command("HELLO", 3)
    # redis-py has a cache for newer servers of Redis only, though others do as well.
    monkeypatch.setattr(CacheProxyConnection, "DEFAULT_SERVER_NAME", greeting[b"server"].decode())
    monkeypatch.setattr(CacheProxyConnection, "MIN_ALLOWED_VERSION", "6.0.0")
    pool = redis.BlockingConnectionPool(
        host=HOST, port=proxy.port, protocol=3, max_connections=1, cache_config=CacheConfig()
    )
    made = redis.Redis(connection_pool=pool)
    with pyredisson.Redisson(made, config=Config(timeout=1.0)) as client:
        lock = client.get_lock(unique_name)
        made.set(unique_name + "-cached", "1")
        assert made.get(unique_name + "-cached") == b"1"
        assert not lock.is_locked()
        with redis.Redis(port=proxy.port) as other:
            other.set(unique_name + "-cached", "2")
        assert not lock.is_locked()
        assert made.get(unique_name + "-cached") == b"2", "its messages have reached the cache"
        lies = lie(proxy, "EXISTS", LIES["a bulk of 10 GB"])
        with pytest.raises(rx.ConnectionError) as error:
            lock.is_locked()
        assert is_protocol_error(error.value), repr(error.value)
        assert not only_connection(pool).is_connected
        lies.remove()
        assert not lock.is_locked()
        made.delete(unique_name + "-cached")
    pool.disconnect()


def source_of(connection: Any) -> Any:
    """What a connection's parser reads from."""
    parser = connection._parser
    buffer = getattr(parser, "_buffer", None)
    return getattr(buffer, "_sock", None) or getattr(parser, "_sock", None) or getattr(parser, "_stream", None)


@pytest.mark.parametrize("parser", PARSERS)
def test_an_endless_reply_on_a_borrowed_connection_uses_no_memory(
    world: ClockWorld, endless: Callable[[bytes], EndlessServer], unique_name: str, parser: str
) -> None:
    server = endless(b"EXISTS")
    with borrowed(world, server.port, parser) as made:
        client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=3.0)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(rx.RedisError) as error:
            world.actor().do(client.get_lock(unique_name).is_locked)
        assert server.lies
        assert server.most_sent < MOST_SENT
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWN_KIB
        assert is_protocol_error(error.value), repr(error.value)
        world.run(client.close)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("what", LIES)
def test_a_lie_in_the_handshake_of_a_pool_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, unique_name: str, what: str, parser: str
) -> None:
    """redis-py alone reads it there. It is an error in time, and the connection is usable afterwards."""
    lies = lie(proxy, "CLIENT", LIES[what])
    with borrowed(world, proxy.port, parser, client_name="liar", socket_timeout=1.0) as made:
        client, actor = world.close_at_end(world.api.Redisson(made, config=Config(timeout=2.0))), world.actor()
        lock = client.get_lock(unique_name)
        with pytest.raises(rx.RedisError):
            actor.do(lock.is_locked)
        lies.remove()
        until(lambda: _answers(actor, lock), 10, what="the pool connects again")
        world.run(client.close)


@pytest.mark.parametrize("what", [*NONSENSE, "a map with an array for a key"])
def test_a_greeting_of_another_kind_to_a_pool_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, unique_name: str, what: str
) -> None:
    lie(proxy, "HELLO", NONSENSE.get(what, KEYED_BY_AN_ARRAY))
    with borrowed(world, proxy.port, "hiredis", protocol=3, socket_timeout=5.0) as made:
        client, actor = world.close_at_end(world.api.Redisson(made, config=Config(timeout=2.0))), world.actor()
        lock = client.get_lock(unique_name)
        if world.runtime == "asyncio" and what in NONSENSE:  # redis-py makes nothing of what it is told there.
            assert actor.do(lock.is_locked) is False
        else:
            with pytest.raises(rx.ConnectionError) as error:
                actor.do(lock.is_locked)
            assert is_protocol_error(error.value), repr(error.value)
            assert f"{HOST}:{proxy.port}" in str(error.value)
        world.run(client.close)


@pytest.mark.parametrize("reply", [b":1\r\n", b"*1\r\n:1\r\n", b"*1\r\n*1\r\n$1\r\na\r\n"])
def test_a_lie_to_the_user_s_own_sentinels_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, unique_name: str, reply: bytes
) -> None:
    lies = lie(proxy, "SENTINEL", reply)
    kinds: dict[str, Any] = {"threads": redis.sentinel.Sentinel, "asyncio": redis.asyncio.sentinel.Sentinel}
    sentinels = kinds[world.runtime]([(HOST, proxy.port)], sentinel_kwargs={"protocol": 2})
    made = sentinels.master_for("service")
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=2.0)))
    with pytest.raises(rx.ConnectionError) as error:
        world.actor().do(client.get_lock(unique_name).is_locked)
    assert is_protocol_error(error.value), repr(error.value)
    assert lies.hits
    world.run(client.close)
    for pool in (made.connection_pool, *(each.connection_pool for each in sentinels.sentinels)):
        world.run(pool.disconnect)


def test_an_error_of_the_user_s_own_pool_is_raised_as_it_is(world: ClockWorld, proxy: Proxy, unique_name: str) -> None:
    class Mistaken:
        """Connections of the user's, with a mistake."""

        def _connect(self) -> Any:
            return self.no_such_attribute  # type: ignore[attr-defined]

    bases: dict[str, type[Any]] = {"threads": redis.Connection, "asyncio": redis.asyncio.Connection}
    kind = type("MistakenConnection", (Mistaken, bases[world.runtime]), {})
    with borrowed(world, proxy.port, "hiredis", connection_class=kind) as made:
        client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=2.0)))
        # Under asyncio, redis-py itself makes a connection error of it.
        with pytest.raises((AttributeError, rx.ConnectionError), match="no_such_attribute"):
            world.actor().do(client.get_lock(unique_name).is_locked)
        world.run(client.close)


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("what", LIES)
def test_an_invalid_reply_in_the_handshake_of_a_connection_outside_the_pool(
    world: ClockWorld, proxy: Proxy, what: str, parser: str
) -> None:
    """As the watchdog and the subscriber have one. We make it, so it is within bounds."""
    lie(proxy, "CLIENT", LIES[what])
    with borrowed(world, proxy.port, parser, client_name="liar") as made:

        async def make() -> None:
            await AsyncBorrowedTransport(made.connection_pool).make()

        make_in_threads = partial(BorrowedTransport(made.connection_pool).make, 2.0)
        with pytest.raises(NotSent) as error:
            world.run(make_in_threads if world.runtime == "threads" else make)
        assert is_protocol_error(error.value.cause), repr(error.value.cause)


def _answers(actor: Any, lock: Any) -> bool:
    try:
        return actor.do(lock.is_locked) is False
    except rx.RedisError:
        return False


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("what", ["a bulk of 10 GB", "arrays nested 10,000 deep"])
def test_an_invalid_message_to_a_subscriber_outside_a_borrowed_pool(
    world: ClockWorld, proxy: Proxy, unique_name: str, what: str, parser: str
) -> None:
    """The subscriber leaves the connection, and hears on another one."""
    with borrowed(world, proxy.port, parser, max_connections=4) as made:
        client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=6.0)))
        holder, waiter = world.actor(), world.actor()
        lock = client.get_lock(unique_name)
        holder.do(lock.lock)
        lies = lie(proxy, "SUBSCRIBE", LIES[what], 1)
        waits = waiter.start(lock.lock)
        lies.wait(10)
        holder.do(lock.unlock)
        waits.result(10)
        waiter.do(lock.unlock)
        world.run(client.close)
