"""The proxy loses, holds and doubles what it is told to, and nothing else: else tests would pass that prove nothing."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.proxy import Proxy
from tests.servers import HOST, Server
from tests.waiting import until


@pytest.fixture
def proxy(valkey: Server) -> Iterator[Proxy]:
    with Proxy(valkey.port) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Callable[..., redis.Redis]]:
    """Clients through the proxy, without retries. Only where no reply comes is their patience to be short."""
    with ExitStack() as clients:

        def connect(**settings: Any) -> redis.Redis:
            settings = {"socket_timeout": 5.0, "retry": Retry(NoBackoff(), 0), **settings}
            return clients.enter_context(redis.Redis(HOST, proxy.port, **settings))

        yield connect


@pytest.fixture
def client(connect: Callable[..., redis.Redis]) -> redis.Redis:
    """A client through the proxy that has connected."""
    client = connect()
    client.ping()
    return client


@pytest.fixture
def direct(valkey: Server, unique_name: str) -> Iterator[redis.Redis]:
    """A client beside the proxy."""
    with valkey.client() as client:
        yield client
        client.unlink(unique_name)


def test_what_it_does_not_understand_fails_the_test(valkey):
    with socket.socket() as gibberish:
        gibberish.bind((HOST, 0))
        gibberish.listen()
        proxy = Proxy(gibberish.getsockname()[1])
        with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
            raw.sendall(b"PING\r\n")
            answering, _ = gibberish.accept()
            with answering:
                answering.sendall(b"HTTP/1.1 200 OK\r\n")
                assert raw.recv(100) == b""
        with pytest.raises(AssertionError, match="not RESP"):
            proxy.close()
        proxy.close()


def test_the_reply_is_dropped_of_a_request_that_was_executed(proxy, connect, direct, unique_name):
    client = connect(socket_timeout=0.5)
    lost = proxy.drop_reply("incrby", k=2)
    with pytest.raises(AssertionError, match="drop_reply: no effect"):
        lost.wait(0.01)
    assert client.incr(unique_name) == 1
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    lost.wait()
    assert lost.args == [b"INCRBY", unique_name.encode(), b"1"]
    assert direct.get(unique_name) == b"2"
    assert proxy.hits["drop_reply"] == lost.hits == 1
    assert client.incr(unique_name) == 3, "on a new connection; only the second was meant"


def test_a_held_request_is_delivered_after_its_client_has_left(proxy, connect, direct, unique_name):
    client = connect(db=3, socket_timeout=0.5)
    held = proxy.hold_request("INCRBY", k=2)
    with pytest.raises(AssertionError, match="nothing is held"):
        held.release()
    assert client.incr(unique_name) == 1
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    client.close()
    until(lambda: not proxy.connections)
    held.wait()
    assert held.args == [b"INCRBY", unique_name.encode(), b"1"]

    client = connect(db=3)
    assert client.get(unique_name) == b"1", "not executed yet"
    assert held.release() == [b"2"], "in the client's database"
    assert held.release() == [b"3"], "the network has one more"
    assert client.getdel(unique_name) == b"3"
    assert direct.get(unique_name) is None
    assert proxy.hits["hold_request"] == held.hits == 1


def test_a_duplicated_request_is_executed_twice_and_answered_once(proxy, client, direct, unique_name):
    toxic = proxy.duplicate_request("INCRBY")
    assert client.incr(unique_name) == 1
    assert client.get(unique_name) == b"2"
    assert client.incr(unique_name) == 3
    assert proxy.hits["duplicate_request"] == toxic.hits == 1


@pytest.mark.parametrize(("direction", "executed"), [("up", 0), ("down", 1)])
def test_a_blackhole_swallows_requests_or_replies(proxy, connect, direct, unique_name, direction, executed):
    client = connect(socket_timeout=0.5)
    client.ping()
    proxy.blackhole(direction)
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    with socket.create_connection((HOST, proxy.port), timeout=5.0):
        pass  # New connections are accepted.
    until(lambda: proxy.hits["blackhole"])
    until(lambda: int(direct.get(unique_name) or 0) == executed)
    proxy.heal()
    assert client.incr(unique_name) == executed + 1
