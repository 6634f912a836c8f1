"""Other ways to a server, and bad ones: TLS, Unix sockets, passwords, slow links."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson.errors import OutcomeUnknownError, RedissonError
from tests.proxy import Cutter, parse_request
from tests.real_servers.observation import INFO, RELEASE, await_waiter, held, nothing_left
from tests.servers import HOST, REDIS_7, Server, free_port
from tests.waiting import until
from tests.worlds.clock import ClockWorld


def works(world: ClockWorld, client: Any, direct: redis.Redis, name: str, *, period: float) -> None:
    """All that a lock does, once: nested, waited for, renewed, handed over."""
    lock, holder, waiter = client.get_lock(name), world.actor(), world.actor()
    holder.do(lock.is_locked)  # It connects in its own time: that of an acquire is a sixth of the lease.
    holder.do(lock.lock)
    holder.do(lock.lock)
    holder.do(lock.unlock)
    assert held(direct, lock, holder) == 1
    assert waiter.do(lock.try_lock, 0.05) is False
    taken = waiter.start(lock.lock)
    await_waiter(direct, client, name)
    left = direct.pttl(name)
    until(lambda: direct.pttl(name) > left, within=2 * period + 2, what="renewed")
    holder.do(lock.unlock)
    taken.result(10)
    assert held(direct, lock, waiter) == 1
    waiter.do(lock.unlock)
    nothing_left(direct, client, name)


# --- TLS ---


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    crt, key = folder / "server.crt", folder / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", f"subjectAltName=IP:{HOST},DNS:localhost", "-keyout", str(key), "-out", str(crt)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl here to make a certificate with")
    return crt, key


@pytest.fixture
def tls(fresh_server: Callable[..., Server], certificate: tuple[Path, Path]) -> tuple[Server, str]:
    """A server that speaks TLS, too, and the URL for that. The wheels' servers are built without."""
    crt, key = certificate
    port = free_port()
    arguments = ["--tls-port", str(port), "--tls-cert-file", str(crt), "--tls-key-file", str(key)]
    try:
        server = fresh_server(REDIS_7, *arguments, "--tls-ca-cert-file", str(crt), "--tls-auth-clients", "no")
    except RedissonError as error:
        pytest.skip(f"this {REDIS_7.id} was built without TLS: {str(error).splitlines()[-1]}")
    return server, f"rediss://{HOST}:{port}/0?ssl_ca_certs={crt}"


def test_tls(world, tls, unique_name):
    server, url = tls
    client = world.from_url(url, timeout=9.0, lock_watchdog_timeout=2.1)
    assert client.url.startswith("rediss://")
    with server.client(decode_responses=True) as direct:
        works(world, client, direct, unique_name, period=0.7)


def test_a_certificate_that_is_not_trusted_is_an_error_at_once(world, tls, unique_name):
    _, url = tls
    client = world.from_url(url.partition("?")[0], timeout=15.0)
    began = time.monotonic()
    with pytest.raises(rx.ConnectionError, match=r"(?i)certificate"):
        world.actor().do(client.get_lock(unique_name).lock)
    assert time.monotonic() - began < 4.5, "it was not at once: it took a try's time, or all of it"


@pytest.mark.parametrize("there", ["TLS", "no TLS"])
def test_the_wrong_scheme_for_a_port_is_named(world, tls, unique_name, there):
    server, url = tls
    wrong = (
        url.partition("?")[0].replace("rediss", "redis") if there == "TLS" else server.url.replace("redis", "rediss")
    )
    client = world.from_url(wrong, timeout=1.8)
    with pytest.raises(
        rx.RedisError, match="with TLS it is rediss://" if there == "TLS" else "does it speak TLS"
    ) as told:
        world.actor().do(client.get_lock(unique_name).lock)
    assert unique_name not in str(told.value) or "unknown" not in str(told.value), "nothing was sent"


def test_a_handshake_that_stalls_is_an_error_in_time(world, unique_name):
    with socket.socket() as mute:
        mute.bind((HOST, 0))
        mute.listen()
        client = world.from_url(f"rediss://{HOST}:{mute.getsockname()[1]}", timeout=1.8, connect_timeout=1.8)
        began = time.monotonic()
        with pytest.raises((rx.ConnectionError, rx.TimeoutError)):
            world.actor().do(client.get_lock(unique_name).lock)
        assert time.monotonic() - began < 2 * 1.8


# --- Unix sockets ---


def test_a_unix_socket(world, build, fresh_server, unique_name, tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s"
    if len(str(path)) > 100:
        pytest.skip(f"the kernel takes no such long name for a socket: {path}")
    server = fresh_server(build, "--unixsocket", str(path), "--requirepass", "swordfish")
    client = world.from_url(f"unix://:swordfish@{path}?db=0", timeout=9.0, lock_watchdog_timeout=2.1)
    assert "swordfish" not in client.url
    with server.client(decode_responses=True) as direct:
        works(world, client, direct, unique_name, period=0.7)
        server.kill()
        with pytest.raises(rx.ConnectionError) as error:
            world.actor().do(world.from_url(f"unix://:swordfish@{path}").get_lock(unique_name).lock)
        assert "swordfish" not in str(error.value)


# --- passwords ---

# --- slow links ---


def test_slices_of_one_byte(world, proxy, direct, unique_name):
    proxy.refuse_request(INFO, "NOPERM")  # Its reply is long: it would take seconds, byte by byte.
    proxy.slice(1)
    client = world.from_url(proxy.url, timeout=30.0)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(lock.lock)
    taken = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name, within=30)  # Each byte is a turn of the proxy on a core that may be busy.
    holder.do(lock.unlock)
    taken.result(30)
    assert held(direct, lock, waiter) == 1
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    assert proxy.hits["slice"] > 10
    assert not world.losses


@contextmanager
def served_by(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that does it in a thread until the block is over; its URL."""
    over = threading.Event()
    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, over))
        thread.start()
        try:
            yield f"redis://{HOST}:{listener.getsockname()[1]}?protocol=2"
        finally:
            over.set()
            thread.join(10)


def test_a_reply_that_trickles_in_is_as_good_as_none(world, unique_name):
    with served_by(_trickle) as url:
        client = world.from_url(url, timeout=1.8)
        began = time.monotonic()
        with pytest.raises(OutcomeUnknownError):
            world.actor().do(client.get_lock(unique_name).lock)
        assert time.monotonic() - began < 2 * 1.8


def _trickle(listener: socket.socket, over: threading.Event) -> None:
    """A server that greets as it should, and answers everything else by a byte now and then, for ever."""
    listener.settimeout(0.01)
    open_ones: list[tuple[socket.socket, Cutter]] = []
    slow: list[socket.socket] = []
    while not over.is_set():
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            open_ones.append((connection, Cutter(parse_request)))
        for connection, requests in open_ones:
            with suppress(OSError):
                for args, _ in requests.feed(connection.recv(10_000)):
                    if args[0].upper() == b"CLIENT":
                        connection.send(b"+OK\r\n")
                    elif INFO(args):
                        connection.send(b"-ERR unknown command\r\n")
                    else:
                        slow.append(connection)
                        connection.send(b"+")
        for connection in slow:
            with suppress(OSError):
                connection.send(b"a")
    for connection, _ in open_ones:
        connection.close()


def test_a_connection_that_ends_as_it_is_made_is_an_error_in_time(world, unique_name):
    """Its end comes together with the answer to the greeting: before anybody has asked anything."""
    made: list[socket.socket] = []
    with served_by(partial(_greet_and_leave, made)) as url:
        lock = world.from_url(url, timeout=1.8, connect_timeout=20.0).get_lock(unique_name)
        for ask in (lock.lock, lock.is_locked):
            call = world.actor().start(ask)
            with pytest.raises((rx.ConnectionError, OutcomeUnknownError)):
                call.result(10)
    assert len(made) <= 150, "it connects again and again without a pause"


def _greet_and_leave(made: list[socket.socket], listener: socket.socket, over: threading.Event) -> None:
    """A server that closes each connection, of which it keeps a list, together with the answer to its greeting."""
    listener.settimeout(0.01)
    while not over.is_set():
        with suppress(OSError):
            connection, _ = listener.accept()
            made.append(connection)
            with connection:
                connection.settimeout(1)
                requests = Cutter(parse_request)
                greeted = False
                while not greeted:
                    for args, _ in requests.feed(connection.recv(10_000)):
                        greeted = INFO(args)
                        connection.send(b"-ERR unknown command\r\n" if greeted else b"+OK\r\n")


# --- how many connections ---


def many(client: Any, name: str, members: int) -> Any:
    """A multi-lock of so many locks. On a cluster they are in as many slots as there are members, or nearly."""
    return client.get_multi_lock(*[client.get_lock(f"{name}-{number}") for number in range(members)])


@pytest.mark.parametrize("servers", ["valkey", "its user's client", "watched", "cluster"])
def test_a_multi_lock_takes_few_connections_however_many_members_it_has(world, request, unique_name, servers):
    there = request.getfixturevalue("valkey" if servers == "its user's client" else servers)
    nodes = {"watched": lambda: [there.master()], "cluster": lambda: there.masters()}.get(servers, lambda: [there])
    if servers == "its user's client":
        users = world.look_after(world.redis_py.Redis(host=HOST, port=there.port, client_name=unique_name))
        client = world.close_at_end(world.api.Redisson(users))
    else:
        client = world.from_url(there.url, client_name=unique_name)
    holder, lock = world.actor(), many(client, unique_name, 60)
    for _ in range(2):
        holder.do(lock.lock)
        holder.do(lock.unlock)
    for node in nodes():
        with node.client() as looking:
            assert not list(looking.scan_iter(f"{unique_name}*", count=1000))
            assert sum(unique_name in each["name"] for each in looking.client_list()) <= 4


@pytest.mark.parametrize("then", ["hang", "reset"])
def test_all_members_are_released_once_though_the_reply_for_one_is_lost(world, proxy, direct, unique_name, then):
    client = world.connected(proxy.url, timeout=3.0)
    holder, lock = world.actor(), many(client, unique_name, 5)
    holder.do(lock.lock)
    holder.do(lock.lock)
    proxy.drop_reply(RELEASE, 3, then=then)
    holder.do(lock.unlock)
    assert [held(direct, client.get_lock(f"{unique_name}-{number}"), holder) for number in range(5)] == [1] * 5
    proxy.clear()
    holder.do(lock.unlock)
    nothing_left(direct, client, unique_name)
