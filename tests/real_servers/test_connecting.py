"""``Config.connect_timeout``: a server that takes its time for the first connection, as on a busy machine."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from pyredisson import Config, LockError
from pyredisson._net import link as pool
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

AWAY = (RedisConnectionError, RedisTimeoutError)
MARGIN = 2.0  # seconds; this machine may be busy


@pytest.fixture
def stopped(fresh_server: Callable[..., Server]) -> Server:
    """A server whose kernel takes connections, and which answers nothing before it is resumed."""
    server = fresh_server()
    server.pause()
    return server


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests so far that waited in vain for a connection, while it is still being made."""
    so_far: list[str] = []

    class Recorded(pool.Connecting):
        def __init__(self, cause: Exception) -> None:
            so_far.append(str(cause))
            super().__init__(cause)

    monkeypatch.setattr(pool, "Connecting", Recorded)
    return so_far


@pytest.mark.parametrize("method", ["lock", "try_lock", "is_locked"])
def test_a_server_that_answers_within_the_time_of_the_call(world, stopped, given_up, unique_name, method):
    client, actor = world.from_url(stopped.url, timeout=3.0), world.actor()
    lock = client.get_lock(unique_name)
    called = actor.start(getattr(lock, method))
    until(lambda: given_up, what="the first attempt has had its time")
    assert not called.done()
    stopped.resume()
    assert called.result(20) is {"lock": None, "try_lock": True, "is_locked": False}[method]


@pytest.mark.parametrize("wait", [0, 1.8])
def test_a_server_that_never_answers_raises_within_the_wait(world, stopped, unique_name, wait):
    client, actor = world.from_url(stopped.url, timeout=0.9), world.actor()
    began = time.monotonic()
    with pytest.raises(AWAY, match="still being made"):
        actor.do(client.get_lock(unique_name).try_lock, wait)
    assert max(wait, 0.6) - 0.3 < time.monotonic() - began < max(wait, 0.9) + MARGIN
    stopped.resume()


def test_a_lock_that_waits_without_end_waits_for_a_connection_no_longer_than_connect_timeout(
    world, stopped, unique_name
):
    client, actor = world.from_url(stopped.url, timeout=0.6, connect_timeout=1.5), world.actor()
    began = time.monotonic()
    with pytest.raises(AWAY):
        actor.do(client.get_lock(unique_name).lock)
    assert 1.2 < time.monotonic() - began < 1.5 + MARGIN
    stopped.resume()


# ---- what the errors say ---------------------------------------------------------------------------------------------

USES: dict[str, Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "lock": lambda client: (client.get_lock("orders").try_lock, ()),
    "query": lambda client: (client.get_lock("orders").is_locked, ()),
    "unlock": lambda client: (client.get_lock("orders").force_unlock, ()),
    "semaphore": lambda client: (client.get_semaphore("seats").try_acquire, ()),
    "permits": lambda client: (client.get_permit_expirable_semaphore("seats").get_permits, ()),
}


@pytest.fixture(params=["refuses", "is silent", "closes"])
def no_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """An address at which no server is to be found: nothing listens, or something else does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        if request.param == "refuses":
            listener.close()
        if request.param == "closes":

            def close_each() -> None:
                # Not before it has been spoken to: before 3.12, ssl leaves a socket to the garbage collector if the
                # peer is gone between the connection and the handshake.
                with contextlib.suppress(OSError):
                    while True:
                        with listener.accept()[0] as connection:
                            connection.recv(1)

            threading.Thread(target=close_each, daemon=True).start()
        yield address
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_server_that_is_not_there_is_named_with_what_to_do(world, no_server, scheme, use):
    client, actor = world.from_url(f"{scheme}://:hunter2@{no_server}", timeout=0.6), world.actor()
    call, args = USES[use](client)
    with pytest.raises(AWAY) as error:
        actor.do(call, *args)
    text = str(error.value)
    url = f"{scheme}://:***@{no_server}/0"
    for part in (f"Is a server running at {url}", f"`pyredisson doctor --url {url}`", "from_url(", "embedded()"):
        assert text.count(part) == 1
    assert "hunter2" not in text
    assert ("TLS" in text) is ("connecting to" not in text)


def test_a_server_that_went_away_is_named_without_advice_for_beginners(world, own, unique_name):
    client, actor = world.from_url(own.url, timeout=0.6), world.actor()
    lock = client.get_lock(unique_name)
    assert actor.do(lock.try_lock)
    own.kill()
    with pytest.raises(AWAY, match=re.escape(f"({client.url})")) as error:
        actor.do(lock.is_locked)
    assert "embedded()" not in str(error.value)


@pytest.mark.parametrize("protocol", ["", "?protocol=2", "?protocol=3"])
def test_a_missing_password_is_asked_for(world, own, protocol):
    own.client().config_set("requirepass", "sesame")
    without, actor = world.from_url(f"redis://127.0.0.1:{own.port}{protocol}"), world.actor()
    with pytest.raises(AuthenticationError, match=r"requires a password.*:password@") as error:
        actor.do(without.get_lock("orders").try_lock)
    assert f"at redis://127.0.0.1:{own.port}/0 " in str(error.value)
    wrong = world.from_url(f"redis://:hunter2@127.0.0.1:{own.port}{protocol}")
    with pytest.raises(AuthenticationError, match=f"127.0.0.1:{own.port}") as error:
        actor.do(wrong.get_lock("orders").try_lock)
    assert "requires a password" not in str(error.value)
    assert "hunter2" not in str(error.value)


# ---- over a client of the user's: as long as by a URL, whatever its pool's settings ----

BUDGET = 1.5


def client_of_a_pool(world: ClockWorld, port: int) -> Any:
    settings = {"host": "127.0.0.1", "port": port, "socket_timeout": 20, "socket_connect_timeout": 20}
    return world.redis_py.Redis(connection_pool=world.redis_py.BlockingConnectionPool(**settings))


@pytest.mark.parametrize("wait", [0.0, 0.5])
@pytest.mark.parametrize("known", [False, True], ids=["first contact", "connected before"])
def test_a_call_is_over_in_time_though_the_server_is_stopped(world, own, unique_name, known, wait):
    made = client_of_a_pool(world, own.port)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock, actor = client.get_lock(unique_name), world.actor()
    if known:
        until(lambda: _connects(actor, lock), 20, what="connected")
    own.pause()
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises((RedisError, LockError)):
                actor.do(lock.try_lock, wait)
            assert time.monotonic() - began < wait + BUDGET + 1.5
    finally:
        own.resume()
    until(lambda: _connects(actor, lock), 20, what="it is there again")
    actor.do(lock.lock)
    actor.do(lock.unlock)
    world.run(client.close)
    _close(world, made)


def test_the_users_pool_is_left_alone(world, valkey, unique_name):
    """All of its connections are in use, or it is closed, and locks have their own."""
    pool = world.redis_py.BlockingConnectionPool(host="127.0.0.1", port=valkey.port, max_connections=1, timeout=30)
    made = world.redis_py.Redis(connection_pool=pool)
    actor, user = world.actor(), world.actor()
    blocking = user.start(made.blpop, [f"{unique_name}-list"], timeout=20)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock = client.get_lock(unique_name)
    began = time.monotonic()
    for _ in range(5):
        actor.do(lock.lock)
        actor.do(lock.unlock)
    assert time.monotonic() - began < 5
    assert not blocking.done()
    with valkey.client() as direct:
        direct.rpush(f"{unique_name}-list", "end")
    blocking.result(20)
    world.run(client.close)
    _close(world, made)


def _function(kind: type[Any]) -> Any:
    def make(**settings: Any) -> Any:
        return kind(**settings)

    return make


@pytest.mark.parametrize("how", ["function", "partial", "subclass"])
def test_connections_are_made_by_whatever_makes_the_users(world, valkey, unique_name, how):
    module = world.redis_py
    kind = module.Connection
    makers = {"function": _function(kind), "partial": partial(kind, client_name="theirs"), "subclass": _Named(kind)}
    pool = module.ConnectionPool(connection_class=makers[how], host="127.0.0.1", port=valkey.port)
    made = module.Redis(connection_pool=pool)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock, actor = client.get_lock(unique_name), world.actor()
    assert "127.0.0.1" in client.url
    actor.do(lock.lock)
    actor.do(lock.unlock)
    world.run(client.close)
    _close(world, made)


def _Named(kind: type[Any]) -> type[Any]:
    return type("Theirs", (kind,), {})


@pytest.mark.parametrize("own_class", [False, True])
def test_the_configured_host_is_used_while_a_server_moves(world, valkey, unique_name, own_class):
    """redis-py puts the temporary host into the settings of its pool, until the move is over."""
    module = world.redis_py
    kind = _Named(module.Connection) if own_class else module.Connection
    pool = module.ConnectionPool(connection_class=kind, host="127.0.0.1", port=valkey.port)
    moved = {"host": "127.0.0.254", "orig_host_address": "127.0.0.1", "socket_timeout": 10.0}
    pool.connection_kwargs.update({**moved, "orig_socket_timeout": 2.0, "orig_socket_connect_timeout": None})
    made = module.Redis(connection_pool=pool)
    client = world.close_at_end(world.api.Redisson(made, config=Config(timeout=BUDGET)))
    lock, actor = client.get_lock(unique_name), world.actor()
    assert "127.0.0.1" in client.url
    actor.do(lock.lock)
    with valkey.client() as direct:
        assert not [each for each in direct.client_list() if each["laddr"].startswith("127.0.0.254")]
    actor.do(lock.unlock)
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
