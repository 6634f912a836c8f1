"""Each thing that the proxy can do, against a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.proxy import Cutter, Incomplete, Proxy, parse, parse_request
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


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"+OK\r\n", b"OK"),
        (b"-ERR no\r\n", b"ERR no"),
        (b":-7\r\n", b"-7"),
        (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", [b"a", [b"1"]]),
        (b"*0\r\n", []),
        (b"_\r\n", b""),
        (b"#t\r\n", b"t"),
        (b",1.5\r\n", b"1.5"),
        (b"(123\r\n", b"123"),
        (b"=7\r\ntxt:abc\r\n", b"txt:abc"),
        (b"!5\r\nERR x\r\n", b"ERR x"),
        (b"~2\r\n:1\r\n:2\r\n", [b"1", b"2"]),
        (b"%1\r\n+k\r\n:2\r\n", [b"k", b"2"]),
        (b">2\r\n+pub\r\n:2\r\n", [b"pub", b"2"]),
        (b"|1\r\n+ttl\r\n:9\r\n$1\r\nv\r\n", b"v"),
    ],
)
def test_every_kind_of_value_is_read_whole_however_it_is_cut(raw: bytes, value: object) -> None:
    assert parse(raw) == (value, len(raw))
    for length in range(len(raw)):
        with pytest.raises(Incomplete):
            parse(raw[:length])
    cutter = Cutter(parse)
    read = [found for at in range(len(raw) * 2) for found in cutter.feed((raw * 2)[at : at + 1])]
    assert read == [(value, raw), (value, raw)]
    assert not cutter.rest


def test_requests_are_read_inline_too_and_what_is_no_resp_is_refused() -> None:
    raw = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING hello\r\n\r\n"
    assert [value for value, _ in Cutter(parse_request).feed(raw)] == [[b"GET", b"k"], [b"PING", b"hello"], []]
    with pytest.raises(ValueError, match="not RESP"):
        parse(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("protocol", [2, 3])
def test_it_is_transparent_and_counts(
    proxy: Proxy, connect: Callable[..., redis.Redis], protocol: int, direct: redis.Redis, unique_name: str
) -> None:
    client = connect(protocol=protocol)
    assert client.set(unique_name, b"\x00\r\n" * 50_000, px=60_000)
    assert client.get(unique_name) == b"\x00\r\n" * 50_000
    with pytest.raises(redis.exceptions.ResponseError):
        client.lpush(unique_name, "x")
    assert (proxy.commands["SET"], proxy.commands["GET"], proxy.commands["LPUSH"]) == (1, 1, 1)
    (connection,) = proxy.connections
    assert connection.requests == connection.replies == proxy.requests == proxy.replies >= 3
    assert not +proxy.hits


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


def test_what_the_server_has_not_answered_yet_is_counted(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis, unique_name: str
) -> None:
    assert proxy.under_way == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.blpop, unique_name, 10)
        until(lambda: proxy.under_way == 1)
        direct.rpush(unique_name, "done")
        waiting.result(10)
    assert proxy.under_way == 0


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


def test_each_reply_is_dropped_to_the_requests_that_are_meant(
    proxy: Proxy, client: redis.Redis, unique_name: str
) -> None:
    toxic = proxy.drop_reply(lambda args: args[0] == b"INCRBY" and args[2] == b"5", k=None, then="reset")
    for number in range(3):
        assert client.incr(unique_name) == 6 * number + 1
        with pytest.raises(redis.exceptions.ConnectionError, match=r"reset|closed"):
            client.incr(unique_name, 5)
    assert toxic.hits == 3
    toxic.remove()
    assert client.incr(unique_name, 5) == 23


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


@pytest.mark.parametrize("second", ["drop_reply", "hold_request"])
def test_the_first_of_two_faults_for_one_request_gets_the_next_request(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis, unique_name: str, second: str
) -> None:
    toxics = [proxy.drop_reply("INCRBY", then="reset"), getattr(proxy, second)("INCRBY", then="reset")]
    for hits in ([0, 1], [1, 1]):
        with pytest.raises(redis.exceptions.ConnectionError):
            client.incr(unique_name)
        assert [toxic.hits for toxic in toxics] == hits
    assert direct.get(unique_name) == (b"2" if second == "drop_reply" else b"1")


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


def test_requests_after_a_held_one_wait_behind_it(
    proxy: Proxy, raw: socket.socket, direct: redis.Redis, unique_name: str
) -> None:
    name = unique_name.encode()
    held = proxy.hold_request("APPEND", k=2)
    raw.sendall(b"APPEND %s a\r\nAPPEND %s b\r\nAPPEND %s c\r\n" % (name, name, name))
    assert raw.recv(100) == b":1\r\n"
    until(lambda: proxy.requests == 3)
    assert direct.get(unique_name) == b"a"
    raw.close()
    assert held.release() == [b"2", b"3"]
    assert direct.get(unique_name) == b"abc"


def test_a_duplicated_request_is_executed_twice_and_answered_once(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis, unique_name: str
) -> None:
    toxic = proxy.duplicate_request("INCRBY")
    assert client.incr(unique_name) == 1
    assert client.get(unique_name) == b"2"
    assert client.incr(unique_name) == 3
    assert proxy.hits["duplicate_request"] == toxic.hits == 1
    assert proxy.requests == proxy.replies


def test_a_cut_resets_and_refuses_connections_until_it_is_healed(
    proxy: Proxy, raw: socket.socket, client: redis.Redis
) -> None:
    port = proxy.port
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        raw.recv(100)
    assert proxy.hits["cut"] == 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=5.0)
    with pytest.raises(redis.exceptions.ConnectionError):
        client.ping()
    proxy.heal()
    assert proxy.port == port
    assert client.ping()


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


def test_the_end_of_a_connection_is_seen_only_after_a_blackhole_is_healed(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server()
    with (
        Proxy(server.port) as proxy,
        socket.create_connection((HOST, proxy.port), timeout=5.0) as raw,
        server.client() as direct,
    ):
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        raw.settimeout(0.1)
        proxy.blackhole()
        server.kill()
        with pytest.raises(TimeoutError):
            raw.recv(100)
        proxy.heal()
        raw.settimeout(5.0)
        assert raw.recv(100) == b""

        server.restart()
        with socket.create_connection((HOST, proxy.port), timeout=5.0) as other:
            other.sendall(b"PING\r\n")
            assert other.recv(100) == b"+PONG\r\n"
            proxy.blackhole()
        until(lambda: any(connection.up.ended for connection in proxy.connections))
        assert len(direct.client_list()) == 2
        proxy.heal()
        until(lambda: len(direct.client_list()) == 1)


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


def test_a_request_of_which_a_part_arrived_is_not_executed(
    proxy: Proxy, client: redis.Redis, direct: redis.Redis, unique_name: str
) -> None:
    proxy.reset_after(10, direction="up")
    with pytest.raises(redis.exceptions.ConnectionError):
        client.incr(unique_name)
    assert direct.get(unique_name) is None
    assert client.incr(unique_name) == 1


def test_clear_removes_every_fault(proxy: Proxy, connect: Callable[..., redis.Redis]) -> None:
    proxy.drop_reply("PING", k=None)
    proxy.hold_request("PING")
    proxy.duplicate_request("PING", k=None)
    proxy.latency(30)
    proxy.slice(1)
    proxy.reset_after(1)
    proxy.blackhole()
    proxy.cut()
    proxy.clear()
    assert connect().ping()
    assert not +proxy.hits


@pytest.mark.usefixtures("direct")
def test_many_connections_at_once(proxy: Proxy, unique_name: str) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=proxy.port) as client:
            assert sorted(await asyncio.gather(*(client.incr(unique_name) for _ in range(90)))) == [*range(1, 91)]
            assert proxy.requests == proxy.replies

    asyncio.run(main())
