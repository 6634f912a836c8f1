"""What a log says of an outage: one line at its beginning, one at its end, however many callers fail meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from pyredisson.events import ConnectionDown
from tests.servers import VALKEY, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

CALLERS = 16
#: Seconds that a fault lasts; and lines of ``WARNING`` in ten seconds, at most.
LASTS, LINES = 5.0, 5
#: Seconds until a call fails: longer than the pause after which an outage may be over, so that failures follow late.
TIMEOUT = 2.4


@contextmanager
def killed(server: Server) -> Iterator[None]:
    server.kill()
    yield
    server.restart()
    with server.client() as direct:
        _make_user(direct)


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.pause()
    yield
    server.resume()


@contextmanager
def _set(server: Server, **values: object) -> Iterator[None]:
    with server.client(decode_responses=True) as direct:
        before = {name: direct.config_get(name)[name] for name in values}
        for name, value in values.items():
            direct.config_set(name, value)
        direct.client_kill_filter(_type="normal", skipme=True)
        direct.client_kill_filter(_type="pubsub", skipme=True)
        yield
        for name, value in before.items():
            direct.config_set(name, value)


def full_of_clients(server: Server) -> Any:
    return _set(server, maxclients=2)


def out_of_memory(server: Server) -> Any:
    return _set(server, maxmemory=1)


@contextmanager
def cannot_save(server: Server) -> Iterator[None]:
    with _set(server, dir="/proc", save="3600 1"), server.client() as direct:
        with pytest.raises(redis.ResponseError):
            direct.save()
        yield


@contextmanager
def user_deleted(server: Server) -> Iterator[None]:
    with server.client() as direct:
        direct.execute_command("ACL", "DELUSER", "app")
        yield
        _make_user(direct)


@contextmanager
def flushed_again_and_again(server: Server) -> Iterator[None]:
    ended = threading.Event()

    def flush() -> None:
        with server.client() as direct:
            while not ended.wait(0.1):
                direct.flushall()

    thread = threading.Thread(target=flush)
    thread.start()
    yield
    ended.set()
    thread.join()


FAULTS = [
    killed,
    stopped,
    full_of_clients,
    out_of_memory,
    cannot_save,
    user_deleted,
    Server.busy,
    flushed_again_and_again,
]


def _make_user(direct: redis.Redis) -> None:
    direct.execute_command("ACL", "SETUSER", "app", "on", ">one", "~*", "&*", "+@all")


def _url(server: Server) -> str:
    with server.client() as direct:
        _make_user(direct)
    return server.url.replace("://", "://app:one@")


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@contextmanager
def _callers(world: ClockWorld, client: Any, name: str) -> Iterator[None]:
    """Sixteen callers, half of them on locks of their own, and four that wait."""
    ended = threading.Event()

    def loop(actor: Any, lock: Any) -> None:
        while not ended.wait(0.01):
            for call in (lock.try_lock, lock.unlock):
                try:
                    actor.do(call)
                except Exception:
                    pass

    threads = []
    for number in range(CALLERS):
        lock = client.get_lock(name if number % 2 else f"{name}-{number}")
        threads.append(threading.Thread(target=loop, args=(world.actor(), lock)))
    for thread in threads:
        thread.start()
    waiting = [world.actor().start(client.get_lock(name).try_lock, 2 * LASTS) for _ in range(4)]
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        for each in waiting:
            each.exception(30)


@pytest.mark.parametrize("fault", FAULTS)
def test_few_lines_whatever_happens(world, fresh_server, unique_name, caplog, fault):
    server = fresh_server(VALKEY, "--enable-debug-command", "yes", "--enable-protected-configs", "yes")
    client = world.from_url(_url(server), timeout=TIMEOUT)
    held = world.actor()
    held.do(client.get_lock(f"{unique_name}-held").lock)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        with _callers(world, client, unique_name):
            with fault(server):
                time.sleep(LASTS)
            time.sleep(1.0)
        lines = _warnings(caplog)
        assert len(lines) <= LINES, "\n".join(lines)
        assert len(set(lines)) == len(lines)
        outages = [line for line in lines if "retrying" in line or "settling" in line or "reconnecting" in line]
        assert len(outages) <= 1, lines
        if outages:
            assert f":{server.port}" in outages[0]
            until(lambda: any("answers again after" in line for line in _warnings(caplog)), 10, what="its end is told")


def test_an_outage_of_the_subscriber_is_one_loss(world, own):
    client, holder, waiter = world.from_url(own.url), world.actor(), world.actor()
    lock = client.get_lock("orders")
    holder.do(lock.lock)
    waiting = waiter.start(lock.try_lock, 20.0)
    until(lambda: client._core.subscriptions.wanted(), what="it waits")
    with full_of_clients(own):
        time.sleep(3.0)
    own.kill()
    time.sleep(2.0)
    own.restart()
    assert waiting.result(20) is True
    losses = [event for _, event in world.events if isinstance(event, ConnectionDown) and event.attempt == 1]
    assert 1 <= len(losses) <= 2
