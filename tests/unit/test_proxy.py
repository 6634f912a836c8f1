"""Each thing that the proxy can do, against a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.proxy import Cutter, Incomplete, Proxy, parse, parse_request
from tests.servers import HOST, Server
from tests.waiting import until

INCR = "return redis.call('INCR', KEYS[1])"


@pytest.fixture
def proxy(valkey: Server) -> Iterator[Proxy]:
    with Proxy(valkey.port) as proxy:
        yield proxy


@pytest.fixture
def connect(proxy: Proxy) -> Iterator[Callable[..., redis.Redis]]:
    """Clients through the proxy, without retries. Only where no reply comes is their patience to be short."""
    clients: list[redis.Redis] = []

    def connect(**kwargs: Any) -> redis.Redis:
        kwargs = {"socket_timeout": 5.0, "retry": Retry(NoBackoff(), 0), **kwargs}
        client = redis.Redis(HOST, proxy.port, **kwargs)
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def direct(valkey: Server) -> Iterator[redis.Redis]:
    """A client beside the proxy."""
    with valkey.client() as client:
        yield client


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


# --- reading RESP ---


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


def test_what_is_not_resp_is_refused() -> None:
    with pytest.raises(ValueError, match="not RESP"):
        parse(b"HTTP/1.1 200 OK\r\n")


def test_requests_are_read_inline_too() -> None:
    raw = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING hello\r\n\r\n"
    assert [value for value, _ in Cutter(parse_request).feed(raw)] == [[b"GET", b"k"], [b"PING", b"hello"], []]


# --- nothing set: it is transparent ---


@pytest.mark.parametrize("protocol", [2, 3])
def test_it_is_transparent_and_counts(
    proxy: Proxy, connect: Callable[..., redis.Redis], protocol: int, server: Server, unique_name: str
) -> None:
    proxy.upstream_port = server.port
    client = connect(protocol=protocol)
    assert client.set(unique_name, b"\x00\r\n" * 50_000, px=60_000)
    assert client.get(unique_name) == b"\x00\r\n" * 50_000
    assert client.hset(unique_name + ":h", mapping={"a": "1", "b": "2"}) == 2
    assert client.hgetall(unique_name + ":h") == {b"a": b"1", b"b": b"2"}
    assert client.eval(INCR, 1, unique_name + ":n") == 1
    client.expire(unique_name + ":h", 60)
    with client.pipeline(transaction=True) as pipe:
        pipe.incr(unique_name + ":n")
        pipe.incr(unique_name + ":n")
        pipe.expire(unique_name + ":n", 60)
        assert pipe.execute() == [2, 3, True]
    with pytest.raises(redis.exceptions.ResponseError):
        client.lpush(unique_name, "x")
    assert proxy.commands["EVAL"] == 1
    assert proxy.commands["INCRBY"] == 2
    (connection,) = proxy.connections
    assert connection.requests == connection.replies == proxy.requests == proxy.replies > 12
    assert not +proxy.hits


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_of_subscriptions_are_no_replies(
    proxy: Proxy, connect: Callable[..., redis.Redis], protocol: int, direct: redis.Redis, unique_name: str
) -> None:
    client = connect(protocol=protocol, socket_timeout=5.0)
    with client.pubsub() as pubsub:  # type: ignore[no-untyped-call]

        def heard(kind: str, count: int) -> list[Any]:
            found: list[Any] = []
            while len(found) < count:
                message = pubsub.get_message(timeout=5.0)
                assert message is not None, f"{found} and no more"
                if message["type"] == kind:
                    found.append(message["data"])
            return found

        pubsub.subscribe(unique_name, unique_name + "2")
        pubsub.psubscribe(unique_name + "*")
        heard("subscribe", 2)
        heard("psubscribe", 1)
        direct.publish(unique_name, "one")
        assert heard("message", 1) == [b"one"]
        assert heard("pmessage", 1) == [b"one"]
        pubsub.ping()
        heard("pong", 1)
        pubsub.unsubscribe()
        heard("unsubscribe", 2)
        pubsub.punsubscribe(unique_name + "*")
        heard("punsubscribe", 1)
        (connection,) = proxy.connections
        assert connection.requests == connection.replies
        assert not connection._awaited


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


def test_it_serves_asyncio_with_pipelined_requests(proxy: Proxy, unique_name: str) -> None:
    async def main() -> None:
        client = redis.asyncio.Redis(port=proxy.port, single_connection_client=True)
        async with client, client.pipeline(transaction=False) as pipe:
            for _ in range(100):
                pipe.execute_command("INCRBY", unique_name, 1)
            pipe.execute_command("UNLINK", unique_name)
            assert await pipe.execute() == [*range(1, 101), 1]

    asyncio.run(main())
    assert proxy.commands["INCRBY"] == 100


def test_the_end_of_either_side_is_the_end_of_both(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server()
    with Proxy(server.port) as proxy:
        with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
            raw.sendall(b"PING\r\n")
            assert raw.recv(100) == b"+PONG\r\n"
            with server.client() as direct:
                assert len(direct.client_list()) == 2
                raw.close()
                until(lambda: len(direct.client_list()) == 1, what="the server hears of the client's end")
        until(lambda: not proxy.connections)
        with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
            raw.sendall(b"PING\r\n")
            assert raw.recv(100) == b"+PONG\r\n"
            server.kill()
            assert raw.recv(100) == b""  # the client hears of the server's end
        with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
            assert raw.recv(100) == b""  # nobody there


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


# --- drop_reply ---


def test_what_the_server_has_not_answered_yet_is_counted(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=10.0)
    client.ping()
    assert proxy.under_way == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.blpop, unique_name, 10)
        until(lambda: proxy.under_way == 1)
        direct.rpush(unique_name, "done")
        waiting.result(10)
    assert proxy.under_way == 0


def test_drop_reply_and_hang(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=0.5)
    lost = proxy.drop_reply("incrby", k=2)
    assert client.incr(unique_name) == 1
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    lost.wait()
    assert lost.args == [b"INCRBY", unique_name.encode(), b"1"]
    assert direct.get(unique_name) == b"2"  # executed
    assert proxy.hits["drop_reply"] == lost.hits == 1
    assert client.incr(unique_name) == 3  # on a new connection; only the second was meant
    assert proxy.requests == proxy.replies + 1
    direct.unlink(unique_name)


def test_drop_reply_and_reset(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=5.0)
    proxy.drop_reply("INCRBY", then="reset")
    with pytest.raises(redis.exceptions.ConnectionError) as caught:
        client.incr(unique_name)
    assert not isinstance(caught.value, redis.exceptions.TimeoutError)
    assert direct.getdel(unique_name) == b"1"


def test_drop_reply_of_each(proxy: Proxy, connect: Callable[..., redis.Redis], unique_name: str) -> None:
    client = connect(socket_timeout=5.0)
    toxic = proxy.drop_reply("GET", k=None, then="reset")
    for _ in range(3):
        with pytest.raises(redis.exceptions.ConnectionError):
            client.get(unique_name)
    assert toxic.hits == 3
    toxic.remove()
    assert client.get(unique_name) is None


def test_a_predicate_sees_all_arguments(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    sha = direct.script_load(INCR)
    client = connect(socket_timeout=5.0)
    name = unique_name.encode()
    proxy.drop_reply(
        lambda args: args[0] == b"EVALSHA" and args[1] == sha.encode() and args[4] == b"drop", then="reset"
    )
    assert client.evalsha(sha, 1, unique_name, "keep") == 1
    with pytest.raises(redis.exceptions.ConnectionError):
        client.evalsha(sha, 1, unique_name, "drop")
    assert proxy._toxics[0].args[3:] == [name, b"drop"]
    assert direct.getdel(unique_name) == b"2"


def test_what_was_pipelined_before_a_dropped_reply_arrives_and_nothing_after(
    proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    proxy.drop_reply("INCR", k=2)
    name = unique_name.encode()
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        raw.sendall(b"INCR %s\r\n" % name * 3)
        assert raw.recv(100) == b":1\r\n"
        raw.settimeout(0.3)
        with pytest.raises(TimeoutError):
            raw.recv(100)
    until(lambda: direct.get(unique_name) == b"3")
    direct.unlink(unique_name)


def test_waiting_for_what_does_not_happen_fails(proxy: Proxy) -> None:
    with pytest.raises(AssertionError, match="drop_reply: no effect"):
        proxy.drop_reply("GET").wait(0.01)


@pytest.mark.parametrize("second", ["drop_reply", "hold_request"])
def test_the_first_of_two_faults_for_one_request_gets_the_next_request(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str, second: str
) -> None:
    client = connect(socket_timeout=5.0)
    toxics = [proxy.drop_reply("INCRBY", then="reset"), getattr(proxy, second)("INCRBY", then="reset")]
    for hits in ([0, 1], [1, 1]):
        with pytest.raises(redis.exceptions.ConnectionError):
            client.incr(unique_name)
        assert [toxic.hits for toxic in toxics] == hits
    executed = 2 if second == "drop_reply" else 1
    assert client.incr(unique_name) == executed + 1
    direct.unlink(unique_name)


# --- hold_request ---


def test_a_held_request_is_delivered_after_its_client_has_left(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(db=3, socket_timeout=0.5)
    held = proxy.hold_request("INCRBY", k=2)
    assert client.incr(unique_name) == 1
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    client.close()
    until(lambda: not proxy.connections)
    held.wait()
    assert held.args == [b"INCRBY", unique_name.encode(), b"1"]

    client = connect(db=3)
    assert client.get(unique_name) == b"1"  # not executed yet
    assert client.delete(unique_name) == 1
    assert held.release() == [b"1"]  # and in the client's database
    assert client.getdel(unique_name) == b"1"
    assert direct.get(unique_name) is None
    assert proxy.hits["hold_request"] == held.hits == 1


def test_a_held_request_may_reset_the_connection(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=5.0)
    held = proxy.hold_request("INCRBY", then="reset")
    with pytest.raises(redis.exceptions.ConnectionError):
        client.incr(unique_name)
    assert client.decr(unique_name, 10) == -10
    assert held.release() == [b"-9"]
    assert held.release() == [b"-8"]  # the network has one more
    assert direct.getdel(unique_name) == b"-8"


def test_requests_after_a_held_one_wait_behind_it(proxy: Proxy, direct: redis.Redis, unique_name: str) -> None:
    name = unique_name.encode()
    held = proxy.hold_request("APPEND", k=2)
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        raw.sendall(b"APPEND %s a\r\nAPPEND %s b\r\nAPPEND %s c\r\n" % (name, name, name))
        assert raw.recv(100) == b":1\r\n"
        until(lambda: proxy.requests == 3)
        assert direct.get(unique_name) == b"a"
    assert held.release() == [b"2", b"3"]
    assert direct.getdel(unique_name) == b"abc"


def test_a_held_request_keeps_its_password(fresh_server: Callable[..., Server]) -> None:
    server = fresh_server()
    server.config_set("requirepass", "secret")
    with (
        Proxy(server.port) as proxy,
        redis.Redis(port=proxy.port, password="secret", retry=Retry(NoBackoff(), 0)) as client,
    ):
        held = proxy.hold_request("SET", then="reset")
        with pytest.raises(redis.exceptions.ConnectionError):
            client.set("key", "value")
        assert held.release() == [b"OK"]
        assert client.get("key") == b"value"


def test_nothing_can_be_released_before_it_is_held(proxy: Proxy) -> None:
    with pytest.raises(AssertionError, match="nothing is held"):
        proxy.hold_request("SET").release()


# --- duplicate_request ---


def test_duplicate_request(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect()
    toxic = proxy.duplicate_request("INCRBY")
    assert client.incr(unique_name) == 1
    assert client.get(unique_name) == b"2"
    assert client.incr(unique_name) == 3
    assert proxy.hits["duplicate_request"] == toxic.hits == 1
    assert proxy.requests == proxy.replies
    direct.unlink(unique_name)


# --- cut, heal ---


def test_cut_and_heal(proxy: Proxy, connect: Callable[..., redis.Redis], unique_name: str) -> None:
    client, port = connect(socket_timeout=5.0), proxy.port
    client.ping()
    with socket.create_connection((HOST, port), timeout=5.0) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            raw.recv(100)
    assert proxy.hits["cut"] == 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port), timeout=5.0)
    with pytest.raises(redis.exceptions.ConnectionError):
        client.ping()
    proxy.cut()
    proxy.heal()
    proxy.heal()
    assert proxy.port == port
    assert client.ping()


# --- blackhole ---


def test_blackhole_up(proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str) -> None:
    client = connect(socket_timeout=0.5)
    client.ping()
    proxy.blackhole("up")
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    with socket.create_connection((HOST, proxy.port), timeout=5.0):
        pass  # accepted
    assert proxy.hits["blackhole"] >= 1
    assert direct.get(unique_name) is None
    proxy.heal()
    assert client.incr(unique_name) == 1
    direct.unlink(unique_name)


def test_blackhole_down(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=0.5)
    client.ping()
    proxy.blackhole("down")
    with pytest.raises(redis.exceptions.TimeoutError):
        client.incr(unique_name)
    assert until(lambda: direct.get(unique_name)) == b"1"
    until(lambda: proxy.hits["blackhole"])
    proxy.heal()
    assert client.incr(unique_name) == 2
    direct.unlink(unique_name)


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


def test_a_connection_that_lost_something_stays_silent(proxy: Proxy) -> None:
    with socket.create_connection((HOST, proxy.port), timeout=0.1) as raw:
        proxy.blackhole("up")
        raw.sendall(b"PING\r\n")
        until(lambda: proxy.hits["blackhole"] == 1)
        proxy.heal()
        raw.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            raw.recv(100)


# --- latency, slice, reset_after ---


def test_latency(proxy: Proxy, connect: Callable[..., redis.Redis]) -> None:
    client = connect(socket_timeout=5.0)
    client.ping()
    proxy.latency(0.05, jitter=0.02)
    start = time.monotonic()
    client.ping()
    assert time.monotonic() - start >= 0.05
    assert proxy.hits["latency"] == 1
    proxy.latency(0.05, direction="both")
    start = time.monotonic()
    client.ping()
    assert time.monotonic() - start >= 0.1
    proxy.latency(0)
    client.ping()
    assert proxy.hits["latency"] == 3


def test_latency_delays_what_was_sent_together_together_and_in_order(proxy: Proxy, unique_name: str) -> None:
    proxy.latency(0.1, jitter=0.01)
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw, raw.makefile("rb") as replies:
        start = time.monotonic()
        raw.sendall(b"".join(b"ECHO %d\r\n" % number for number in range(100)))
        read = [(replies.readline(), replies.readline())[1] for _ in range(100)]
        took = time.monotonic() - start
    assert read == [b"%d\r\n" % number for number in range(100)]
    assert 0.1 <= took < 5.0  # one after the other would be ten seconds


@pytest.mark.parametrize("protocol", [2, 3])
def test_slice(proxy: Proxy, connect: Callable[..., redis.Redis], protocol: int, unique_name: str) -> None:
    proxy.slice(1)
    client = connect(socket_timeout=5.0, protocol=protocol)
    assert client.set(unique_name, "x\r\ny", px=60_000)
    assert client.get(unique_name) == b"x\r\ny"
    assert proxy.hits["slice"] >= 4
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:

        def first_piece() -> bytes:
            raw.sendall(b"PING\r\n")
            piece = raw.recv(1)
            raw.setblocking(False)
            try:
                piece += raw.recv(100)
            except BlockingIOError:
                pass
            finally:
                raw.settimeout(5.0)
            rest = received(raw, 7 - len(piece)) if len(piece) < 7 else b""
            assert piece + rest == b"+PONG\r\n"
            return piece

        # A receiver that is slow, as any may be, finds several pieces at once; without slices it always finds all.
        until(lambda: len(first_piece()) < 7)
    proxy.slice(None)
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"


def test_reset_after_bytes_down(proxy: Proxy, connect: Callable[..., redis.Redis]) -> None:
    proxy.reset_after(9)
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        raw.sendall(b"PING\r\nPING\r\n")
        assert received_before_reset(raw) == b"+PONG\r\n+P"
    assert proxy.hits["reset_after"] == 1
    assert connect().ping()  # once


def test_reset_after_bytes_up(
    proxy: Proxy, connect: Callable[..., redis.Redis], direct: redis.Redis, unique_name: str
) -> None:
    client = connect(socket_timeout=5.0)
    client.ping()
    proxy.reset_after(10, direction="up")
    with pytest.raises(redis.exceptions.ConnectionError):
        client.incr(unique_name)
    assert direct.get(unique_name) is None  # the server got ten bytes of it
    assert client.incr(unique_name) == 1
    direct.unlink(unique_name)


# --- clear, many ---


def test_clear_removes_every_fault(proxy: Proxy, connect: Callable[..., redis.Redis], unique_name: str) -> None:
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


def test_many_connections_at_once(proxy: Proxy, direct: redis.Redis, unique_name: str) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=proxy.port) as client:
            assert sorted(await asyncio.gather(*(client.incr(unique_name) for _ in range(90)))) == [*range(1, 91)]
            assert proxy.requests == proxy.replies

    asyncio.run(main())
    direct.unlink(unique_name)


def test_it_stops_with_connections_open(valkey: Server) -> None:
    proxy = Proxy(valkey.port)
    with socket.create_connection((HOST, proxy.port), timeout=5.0) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        thread = proxy._thread
        proxy.close()
        proxy.close()
        assert not thread.is_alive()
        with pytest.raises(ConnectionResetError):
            raw.recv(100)
