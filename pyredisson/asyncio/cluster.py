"""Clusters for an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import redis.asyncio

from pyredisson.asyncio.transport import PipeTransport
from pyredisson.net.cluster import ClusterLink
from pyredisson.net.cluster_map import Cluster
from pyredisson.net.server_link import ServerLink
from pyredisson.net.urls import cluster_url, kept_settings
from pyredisson.shared.clock import monotonic

__all__ = ["cluster_at", "cluster_of", "link_to_cluster"]


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


def cluster_at(url: str, settings: dict[str, Any]) -> Cluster | None:
    """The cluster that a URL leads to, ``None`` if it leads elsewhere. Raises ``ValueError`` if it leads nowhere."""
    read = cluster_url(url)
    if read is None:
        return None
    seeds, first = read
    remap = settings.pop("address_remap", None)
    pool = redis.asyncio.ConnectionPool.from_url(first, **settings)
    if pool.connection_kwargs.get("db"):
        raise ValueError("a cluster has only database 0")
    return Cluster(seeds, pool.connection_class, kept_settings(pool.connection_kwargs), remap)


#: What redis-py passes to its nodes, and these do not pass on to their connections.
NOT_FOR_CONNECTIONS = frozenset({"connection_class", "max_connections", "redis_connect_func", "response_callbacks"})


def cluster_of(client: redis.asyncio.RedisCluster) -> Cluster:
    """The cluster of a client that the user made. What is sent to it is sent past that client."""
    manager: Any = client.nodes_manager
    nodes = [*manager.startup_nodes.values(), *manager.nodes_cache.values()]
    seeds = tuple(dict.fromkeys((node.host, node.port) for node in nodes))
    given: dict[str, Any] = client.connection_kwargs
    settings = {key: value for key, value in kept_settings(given).items() if key not in NOT_FOR_CONNECTIONS}
    return Cluster(seeds, given["connection_class"], settings, manager.address_remap)


def link_to_cluster(cluster: Cluster, mode: str, connect_timeout: float) -> Callable[[], ClusterLink]:
    """Return what makes the link to a cluster in each loop; ``mode`` is ``Config.sharded_subscription_mode``."""

    def link_to_node(address: tuple[str, int]) -> ServerLink:
        return ServerLink(PipeTransport(cluster.connection_class, cluster.settings_of(address)), connect_timeout)

    return lambda: ClusterLink(cluster, mode, link_to_node, TaskMutex, asyncio.sleep)
