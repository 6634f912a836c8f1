"""Each thing that the proxy can do, against a real server."""

from __future__ import annotations

import socket
import time
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


@pytest.fixture
def raw(proxy: Proxy) -> Iterator[socket.socket]:
    """A connection through the proxy whose requests the test writes itself."""
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        yield raw


def received(raw: socket.socket, length: int) -> bytes:
    """At least so many bytes, however they arrive; more if more is there."""
    data = b""
    while len(data) < length:
        piece = raw.recv(1000)
        assert piece, f"ended after {data!r}"
        data += piece
    return data


def received_before_reset(raw: socket.socket) -> bytes:
    received = b""
    try:
        while data := raw.recv(100):
            received += data
    except ConnectionResetError:
        return received
    raise AssertionError("ended without a reset")


@pytest.mark.parametrize("ending", ["message", "unsubscribe"])
@pytest.mark.parametrize("resp3", [False, True])
def test_a_message_between_request_and_reply_is_not_the_reply(resp3: bool, ending: str) -> None:
    # Played by the test: no real server can be made to send a message at just this moment.
    kind = b">" if resp3 else b"*"
    subscribed = b"".join(kind + b"3\r\n$9\r\nsubscribe\r\n$1\r\n%s\r\n:1\r\n" % name for name in (b"a", b"b"))
    unsubscribed = subscribed.replace(b"$9\r\n", b"$11\r\nun")
    message = kind + b"3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"
    pong = b"+PONG\r\n" if resp3 else b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    with socket.socket() as upstream:
        upstream.bind((HOST, 0))
        upstream.listen()
        upstream.settimeout(5.0)
        with (
            Proxy(upstream.getsockname()[1]) as proxy,
            socket.create_connection((HOST, proxy.port), timeout=5.0) as client,
            upstream.accept()[0] as server,
        ):
            proxy.drop_reply("PING", k=2)

            def exchange(request: bytes, answer: bytes, passed: bytes) -> None:
                client.sendall(request)
                assert received(server, len(request)) == request
                server.sendall(answer)
                assert received(client, len(passed)) == passed

            if resp3:
                exchange(b"HELLO 3\r\n", b"%0\r\n", b"%0\r\n")
            exchange(b"SUBSCRIBE a b\r\n", message + subscribed + message, message + subscribed + message)
            exchange(b"PING\r\n", message + pong, message + pong)
            exchange(b"UNSUBSCRIBE\r\n", unsubscribed, unsubscribed)
            (connection,) = proxy.connections
            assert connection.requests == connection.replies == 3 + resp3
            # What is lost is the reply to the PING, and nothing before it.
            if ending == "message":
                exchange(b"SUBSCRIBE a b\r\nPING\r\n", subscribed + message + pong, subscribed + message)
            else:
                confirmed = subscribed + unsubscribed
                exchange(b"SUBSCRIBE a b\r\nUNSUBSCRIBE\r\nPING\r\n", confirmed + b"+PONG\r\n", confirmed)
            until(lambda: proxy.hits["drop_reply"] == 1)
            assert connection.requests == connection.replies + 1


def test_what_it_does_not_understand_fails_the_test(valkey: Server) -> None:
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


def test_the_reply_is_dropped_of_a_request_that_was_executed(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
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
    assert proxy.requests == proxy.replies + 1


def test_what_was_pipelined_before_a_dropped_reply_arrives_and_nothing_after(
    proxy: Proxy, raw: socket.socket, direct: redis.Redis, unique_name: str
) -> None:
    proxy.drop_reply("INCR", k=2)
    raw.sendall(b"INCR %s\r\n" % unique_name.encode() * 3)
    assert raw.recv(100) == b":1\r\n"
    raw.settimeout(0.3)
    with pytest.raises(TimeoutError):
        raw.recv(100)
    until(lambda: direct.get(unique_name) == b"3")


def test_a_held_request_is_delivered_after_its_client_has_left(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
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


def test_a_duplicated_request_is_executed_twice_and_answered_once(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis, unique_name: str
) -> None:
    toxic = proxy.duplicate_request("INCRBY")
    assert client.incr(unique_name) == 1
    assert client.get(unique_name) == b"2"
    assert client.incr(unique_name) == 3
    assert proxy.hits["duplicate_request"] == toxic.hits == 1
    assert proxy.requests == proxy.replies


@pytest.mark.parametrize(("direction", "executed"), [("up", 0), ("down", 1)])
def test_a_blackhole_swallows_requests_or_replies(
    proxy: Proxy,
    connect: Callable[..., redis.Redis],
    direct: redis.Redis,
    unique_name: str,
    direction: str,
    executed: int,
) -> None:
    client = connect(socket_timeout=0.5)
    client.ping()
    proxy.blackhole(direction)  # type: ignore[arg-type]
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    with socket.create_connection((HOST, proxy.port), timeout=5.0):
        pass  # New connections are accepted.
    until(lambda: proxy.hits["blackhole"])
    until(lambda: int(direct.get(unique_name) or 0) == executed)  # type: ignore[arg-type]
    proxy.heal()
    assert client.incr(unique_name) == executed + 1


def test_a_connection_that_lost_something_stays_silent(proxy: Proxy, raw: socket.socket) -> None:
    raw.settimeout(0.1)
    proxy.blackhole("up")
    raw.sendall(b"PING\r\n")
    until(lambda: proxy.hits["blackhole"] == 1)
    proxy.heal()
    raw.sendall(b"PING\r\n")
    with pytest.raises(TimeoutError):
        raw.recv(100)


def test_latency_delays_what_was_sent_together_together_and_in_order(proxy: Proxy, raw: socket.socket) -> None:
    proxy.latency(0.1, jitter=0.01, direction="both")
    with raw.makefile("rb") as replies:
        start = time.monotonic()
        raw.sendall(b"".join(b"ECHO %d\r\n" % number for number in range(100)))
        read = [(replies.readline(), replies.readline())[1] for _ in range(100)]
        took = time.monotonic() - start
    assert read == [b"%d\r\n" % number for number in range(100)]
    assert 0.2 <= took < 5.0, "one after the other would be twenty seconds"


@pytest.mark.parametrize("protocol", [2, 3])
def test_slices_arrive_whole(proxy: Proxy, connect: Callable[..., redis.Redis], protocol: int) -> None:
    proxy.slice(1)
    assert connect(protocol=protocol).echo("x\r\ny") == b"x\r\ny"
    assert proxy.hits["slice"] >= 4


def test_a_connection_is_reset_once_after_so_many_bytes_of_replies(
    proxy: Proxy, raw: socket.socket, connect: Callable[..., redis.Redis]
) -> None:
    proxy.reset_after(9)
    raw.sendall(b"PING\r\nPING\r\n")
    assert received_before_reset(raw) == b"+PONG\r\n+P"
    assert proxy.hits["reset_after"] == 1
    assert connect().ping()
