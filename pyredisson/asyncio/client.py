"""``Redisson``, the client for asyncio."""

from __future__ import annotations

import weakref
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast, final

import redis.asyncio

from pyredisson.asyncio.cluster import cluster_at, cluster_of, link_to_cluster
from pyredisson.asyncio.factory import Factory
from pyredisson.asyncio.runtime import AsyncioRuntime
from pyredisson.asyncio.transport import link_to
from pyredisson.config import Config
from pyredisson.core.client import ClientCore
from pyredisson.core.collected import tell_of_collected, what_it_held
from pyredisson.net.cluster import Cluster
from pyredisson.net.sentinel import Sentinels, parse_sentinel_url
from pyredisson.net.urls import (
    DEFAULT_URL,
    asks_for_embedded,
    check_client,
    check_settings,
    known_url,
    settings_of,
    url_from_env,
    url_of,
    url_of_cluster,
)
from pyredisson.net.valkey_client import as_redis_client
from pyredisson.observe.logging import log_collected, log_event, wants_all
from pyredisson.shared import process
from pyredisson.shared.misuse import NotPortable

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.embedded import EmbeddedServer

__all__ = ["Redisson"]


@final
class Redisson(Factory, NotPortable):
    """The asyncio twin of :class:`pyredisson.Redisson`: what talks to the server is awaited.

    It serves one event loop at a time. After that loop was closed a new one starts afresh, and old holds are lost; use
    from a second live loop raises ``RuntimeError``.
    """

    def __init__(
        self, redis: redis.asyncio.Redis | redis.asyncio.RedisCluster | None = None, *, config: Config | None = None
    ) -> None:
        self._start(_from_url(DEFAULT_URL) if redis is None else redis, config, None)

    def _start(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster | Cluster,
        config: Config | None,
        server: EmbeddedServer | None,
        sentinels: Sentinels | None = None,
    ) -> None:
        self._config = settings_of(config)
        self._url, self._runtime = _way_to(client, self._config, sentinels)
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

    @classmethod
    def from_url(cls, url: str, *, config: Config | None = None, **redis_kwargs: Any) -> Self:
        """See :meth:`pyredisson.Redisson.from_url`. A plain call: nothing is sent yet."""
        check_settings(redis_kwargs)
        url = known_url(url)
        if asks_for_embedded(url, redis_kwargs):
            return cls.embedded(config=config)
        cluster = cluster_at(url, redis_kwargs)
        if cluster is not None:
            return cls._made(cluster, config, None)
        if (found := parse_sentinel_url(url)) is not None:
            sentinels = Sentinels(found, redis_kwargs.pop("sentinel_kwargs", None))
            return cls._made(_from_url(found.data, **redis_kwargs), config, None, sentinels)
        return cls._made(_from_url(url, **redis_kwargs), config, None)

    @classmethod
    def from_env(cls, *, config: Config | None = None) -> Self:
        """See :meth:`pyredisson.Redisson.from_env`. A plain call."""
        return cls.from_url(url_from_env(), config=config)

    @classmethod
    def embedded(cls, *, config: Config | None = None) -> Self:
        """See :meth:`pyredisson.Redisson.embedded`. A plain call."""
        from pyredisson.embedded import EmbeddedServer  # Few programs need it, and it is slow to import.

        server = EmbeddedServer()
        return cls._made(_from_url(server.url), config, server)

    @classmethod
    def _made(
        cls,
        client: redis.asyncio.Redis | Cluster,
        config: Config | None,
        server: EmbeddedServer | None,
        sentinels: Sentinels | None = None,
    ) -> Self:
        self = cls.__new__(cls)
        self._start(client, config, server, sentinels)
        return self

    def __repr__(self) -> str:
        return f"<Redisson {self._core.id} at {self._url}{' closed' if self._core.closed else ''}>"

    @property
    def id(self) -> str:
        """See :attr:`pyredisson.Redisson.id`."""
        process.check()
        return self._core.id

    @property
    def config(self) -> Config:
        """See :attr:`pyredisson.Redisson.config`."""
        return self._config

    @property
    def url(self) -> str | None:
        """See :attr:`pyredisson.Redisson.url`."""
        return self._url

    async def close(self) -> None:
        """See :meth:`pyredisson.Redisson.close`."""
        process.check()
        self._core.close()
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


def _way_to(
    client: redis.asyncio.Redis | redis.asyncio.RedisCluster | Cluster, config: Config, sentinels: Sentinels | None
) -> tuple[str | None, AsyncioRuntime]:
    """Where a client leads, its password masked, and the world with the way to there."""
    if isinstance(client, redis.asyncio.RedisCluster):
        client = cluster_of(client)
    if isinstance(client, Cluster):
        tls = issubclass(client.connection_class, redis.asyncio.SSLConnection)
        url = url_of_cluster(client.seeds, client.settings, tls=tls)
        link = link_to_cluster(client, config.sharded_subscription_mode, config.connect_timeout)
        return url, AsyncioRuntime(link, config, scattered=True)
    users = as_redis_client(client, redis.asyncio)
    check_client(users, redis.asyncio.Redis)
    pool = users.connection_pool
    tls = issubclass(pool.connection_class, redis.asyncio.SSLConnection)
    way = sentinels.url if sentinels else url_of(pool.connection_kwargs, tls=tls)
    return way, AsyncioRuntime(link_to(users, config.connect_timeout, sentinels), config)


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
        runtime.end_soon(partial(tell_of_collected, core, held))
    if server is not None:
        server.stop()


_cores: weakref.WeakSet[ClientCore] = weakref.WeakSet()


@process.on_fork
def _after_fork() -> None:
    for core in list(_cores):
        if not core.closed:
            _reborn(core)
