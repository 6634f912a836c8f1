"""Who is compared, one thread or many: how each makes a lock's acquire and release.

Each contestant is used as its documentation says, with its defaults, on a client shared by all threads. The raw socket
is no lock, but the limit: the same two requests, ready-made bytes, a blocking socket of its own for each lock, the
reply compared and not parsed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import redis

from .server import Server
from .wire import ACQUIRED, RELEASED, STRANGER_ID, LockRequests, load_scripts, lock_name

if TYPE_CHECKING:
    from pyredisson import Config

__all__ = ["PYREDISSON", "RAW", "REDIS_PY", "Contestant", "LockCalls", "Session", "prove_exclusion", "with_config"]

REDIS_PY_LEASE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class LockCalls:
    """What the measured loop calls."""

    acquire: Callable[[], bool]
    release: Callable[[], object]


class Session(Protocol):
    """A contestant connected to the server."""

    def lock(self, number: int) -> LockCalls:
        """The calls of one lock, for one thread."""
        ...

    def stranger_gets(self, number: int) -> bool:
        """Return whether another owner acquires that lock now, without waiting."""
        ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """A name for the report, and how to connect."""

    name: str
    open: Callable[[Server], AbstractContextManager[Session]]


class _RawSession:
    def __init__(self, server: Server, closing: ExitStack) -> None:
        self._server = server
        self._closing = closing

    def lock(self, number: int) -> LockCalls:
        return self._calls(LockRequests.of(number))

    def stranger_gets(self, number: int) -> bool:
        return self._calls(LockRequests.of(number, STRANGER_ID)).acquire()

    def _calls(self, requests: LockRequests) -> LockCalls:
        connection = self._closing.enter_context(socket.create_connection((self._server.host, self._server.port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send, receive = connection.sendall, connection.recv
        acquire_request, release_request = requests.acquire, requests.release

        def acquire() -> bool:
            send(acquire_request)
            return receive(4096) == ACQUIRED

        def release() -> None:
            send(release_request)
            if receive(4096) != RELEASED:
                raise RuntimeError("the raw socket's lock was not released")

        return LockCalls(acquire, release)


class _RedisPySession:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def lock(self, number: int) -> LockCalls:
        lock = self._client.lock(lock_name(number), timeout=REDIS_PY_LEASE_SECONDS)
        return LockCalls(lock.acquire, lock.release)

    def stranger_gets(self, number: int) -> bool:
        stranger = self._client.lock(lock_name(number), timeout=REDIS_PY_LEASE_SECONDS)
        return bool(stranger.acquire(blocking=False))


class _PyredissonSession:
    def __init__(self, url: str, closing: ExitStack, config: Config | None = None) -> None:
        from pyredisson import Redisson

        self._client = closing.enter_context(Redisson.from_url(url, config=config))

    def lock(self, number: int) -> LockCalls:
        lock = self._client.get_lock(lock_name(number))
        return LockCalls(lock.acquire, lock.release)

    def stranger_gets(self, number: int) -> bool:
        acquired: list[bool] = []
        lock = self._client.get_lock(lock_name(number))
        thread = threading.Thread(target=lambda: acquired.append(lock.try_lock()))
        thread.start()
        thread.join()
        return acquired[0]


@contextmanager
def _open_raw(server: Server) -> Iterator[Session]:
    load_scripts(server)
    with ExitStack() as closing:
        yield _RawSession(server, closing)


@contextmanager
def _open_redis_py(server: Server) -> Iterator[Session]:
    with redis.Redis(host=server.host, port=server.port) as client:
        yield _RedisPySession(client)


@contextmanager
def _open_pyredisson(server: Server) -> Iterator[Session]:
    with ExitStack() as closing:
        yield _PyredissonSession(server.url, closing)


def with_config(name: str, make: Callable[[], Config]) -> Contestant:
    """Return this library with other settings, made anew for each turn."""

    @contextmanager
    def open_session(server: Server) -> Iterator[Session]:
        with ExitStack() as closing:
            yield _PyredissonSession(server.url, closing, make())

    return Contestant(name, open_session)


RAW = Contestant("raw socket", _open_raw)
REDIS_PY = Contestant("redis-py Lock", _open_redis_py)
PYREDISSON = Contestant("pyredisson", _open_pyredisson)


def prove_exclusion(server: Server, session: Session, number: int = 0) -> None:
    """Take a lock, see that it is in the server and that a stranger is refused, and free it.

    Raises:
        RuntimeError: The contestant's lock is none.
    """
    name = lock_name(number)
    calls = session.lock(number)
    if not calls.acquire() or not server.admin.exists(name):
        raise RuntimeError("the lock was not taken")
    if server.admin.pttl(name) <= 0:
        raise RuntimeError("the lock would never end if its holder died")
    if session.stranger_gets(number):
        raise RuntimeError("another owner acquired a lock that was held")
    calls.release()
    if server.admin.exists(name):
        raise RuntimeError("the lock was not freed")
