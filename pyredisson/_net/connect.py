"""Where a client connects, and the links to there: the same for threads and asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyredisson._net.endpoint import Endpoint
from pyredisson._net.introduction import app_in
from pyredisson._net.sentinel import FoundBySentinels
from pyredisson._net.server_link import ServerLink
from pyredisson._net.slots import Cluster, cluster_of, connections_of
from pyredisson._net.urls import check_client, kept_settings
from pyredisson._net.valkey_client import as_redis_client

if TYPE_CHECKING:
    from pyredisson._net.cluster import ClusterLink
    from pyredisson._net.cluster_map import TimedMutex
    from pyredisson._net.link import Transport
    from pyredisson._net.sentinel import Sentinels
    from pyredisson._net.wire import Address
    from pyredisson.config import Config


Link: TypeAlias = "ServerLink | ClusterLink"
"""The connections to one server, or to all the nodes of a cluster."""


class Form(NamedTuple):
    """What connections are made of, for threads or for asyncio.

    Attributes:
        api: ``redis`` or ``redis.asyncio``.
        own: Makes connections of a connection class of redis-py and its settings.
        as_pool: Makes connections as a pool of the user's does, whose connection class is another one.
        mutex: Makes a mutex that is waited for within a timeout.
        sleep: Sleeps for a number of seconds.
    """

    api: ModuleType
    own: Callable[[type[Any], dict[str, Any]], Transport]
    as_pool: Callable[[Any], Transport]
    mutex: Callable[[], TimedMutex]
    sleep: Callable[[float], Awaitable[None]]


class Target(NamedTuple):
    """Where a client connects.

    Attributes:
        endpoint: How to connect to there.
        link: Makes a link to there.
        app: What the user's own settings call their connections; ``None``: nothing.
        scattered: Whether it is a cluster, whose names are on several servers.
    """

    endpoint: Endpoint | Cluster
    link: Callable[[], Link]
    app: str | None
    scattered: bool


def target_of(client: object, config: Config, form: Form) -> Target:
    """Return where a client connects: one of redis-py or of valkey, or what :func:`client_at` returns.

    Raises:
        TypeError: It is no client of this form.
    """
    where: Any = as_redis_client(client, form.api)
    where, sentinels = where if isinstance(where, FoundBySentinels) else (where, None)
    if isinstance(where, form.api.RedisCluster):
        kind, settings = connections_of(where)
        where = cluster_of(where, kind, kept_settings(settings))
    if isinstance(where, Cluster):
        return Target(where, partial(_link_to_cluster, where, config, form), app_in(where.settings), True)
    check_client(where, form.api.Redis)
    pool = where.connection_pool
    kind, settings = pool.connection_class, pool.connection_kwargs
    ours = (form.api.Connection, form.api.UnixDomainSocketConnection, form.api.SSLConnection)
    transport = partial(form.own, kind, kept_settings(settings)) if kind in ours else partial(form.as_pool, pool)
    place = Endpoint(kind, kept_settings(settings), sentinels)
    return Target(place, partial(_link_to_server, transport, config, sentinels), app_in(settings), False)


def _link_to_server(transport: Callable[[], Transport], config: Config, sentinels: Sentinels | None) -> ServerLink:
    return ServerLink(transport(), config.connect_timeout, sentinels)


def _link_to_cluster(cluster: Cluster, config: Config, form: Form) -> ClusterLink:
    from pyredisson._net.cluster import ClusterLink  # Most programs have one server.

    def link_to_node(address: Address) -> ServerLink:
        return ServerLink(form.own(cluster.connection_class, cluster.settings_of(address)), config.connect_timeout)

    return ClusterLink(cluster, config.sharded_subscription_mode, link_to_node, form.mutex, form.sleep)
