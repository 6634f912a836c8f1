"""Clusters for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import redis.asyncio

from pyredisson.asyncio.transport import PipeTransport
from pyredisson.net.cluster import ClusterLink
from pyredisson.net.server_link import ServerLink
from pyredisson.net.slots import Cluster, cluster_of
from pyredisson.net.urls import kept_settings
from pyredisson.shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson.config import Config


class TaskMutex:
    """See :class:`pyredisson.net.cluster_map.TimedMutex`."""

    def __init__(self) -> None:
        self._taken: asyncio.Future[None] | None = None

    async def enter(self, seconds: float) -> bool:
        over = monotonic() + seconds
        while self._taken is not None:
            left = over - monotonic()
            if left <= 0:
                return False
            await asyncio.wait({self._taken}, timeout=left)
        self._taken = asyncio.get_running_loop().create_future()
        return True

    def leave(self) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            taken.set_result(None)


#: What redis-py passes to its nodes, and these do not pass on to their connections.
NOT_FOR_CONNECTIONS = frozenset({"connection_class", "max_connections", "redis_connect_func", "response_callbacks"})


def _cluster_of(client: redis.asyncio.RedisCluster) -> Cluster:
    given: dict[str, Any] = client.connection_kwargs
    settings = {key: value for key, value in kept_settings(given).items() if key not in NOT_FOR_CONNECTIONS}
    return cluster_of(client, given["connection_class"], settings)


def link_to_cluster(
    client: redis.asyncio.RedisCluster | Cluster, config: Config
) -> tuple[Cluster, Callable[[], ClusterLink]]:
    """Return a cluster, and what makes a link to it in each loop."""
    cluster = client if isinstance(client, Cluster) else _cluster_of(client)

    def link_to_node(address: tuple[str, int]) -> ServerLink:
        transport = PipeTransport(cluster.connection_class, cluster.settings_of(address))
        return ServerLink(transport, config.connect_timeout)

    return cluster, lambda: ClusterLink(
        cluster, config.sharded_subscription_mode, link_to_node, TaskMutex, asyncio.sleep
    )
