"""Clusters for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from pyredisson.net.cluster import ClusterLink
from pyredisson.net.cluster_map import Cluster
from pyredisson.net.server_link import ServerLink
from pyredisson.net.urls import cluster_url, kept_settings
from pyredisson.threads.transport import SocketTransport

__all__ = ["cluster_at", "cluster_of", "link_to_cluster"]


class ThreadMutex:
    """See :class:`pyredisson.net.cluster_map.TimedMutex`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def enter(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX)))

    def leave(self) -> None:
        self._lock.release()


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def cluster_at(url: str, settings: dict[str, Any]) -> Cluster | None:
    """The cluster that a URL leads to, ``None`` if it leads elsewhere. Raises ``ValueError`` if it leads nowhere."""
    read = cluster_url(url)
    if read is None:
        return None
    seeds, first = read
    remap = settings.pop("address_remap", None)
    pool = redis.ConnectionPool.from_url(first, **settings)
    if pool.connection_kwargs.get("db"):
        raise ValueError("a cluster has only database 0")
    return Cluster(seeds, pool.connection_class, kept_settings(pool.connection_kwargs), remap)


def cluster_of(client: redis.RedisCluster) -> Cluster:
    """The cluster of a client that the user made. What is sent to it is sent past that client."""
    manager: Any = client.nodes_manager
    nodes = [*manager.startup_nodes.values(), *manager.nodes_cache.values()]
    seeds = tuple(dict.fromkeys((node.host, node.port) for node in nodes))
    # As that client would make one: redis-py knows what becomes of each setting.
    pool = manager.create_redis_node(*seeds[0], **manager.connection_kwargs).connection_pool
    settings = kept_settings(pool.connection_kwargs)
    settings.pop("redis_connect_func", None)  # Its own makes connections for reading, maybe, and keeps it alive.
    greet: Callable[[Any], object] | None = client.user_on_connect_func
    if greet is not None:
        settings["redis_connect_func"] = _greeting(greet)
    return Cluster(seeds, pool.connection_class, settings, manager.address_remap)


def _greeting(greet: Callable[[Any], object]) -> Callable[[Any], None]:
    def connected(connection: Any) -> None:
        connection.on_connect()
        greet(connection)

    return connected


def link_to_cluster(cluster: Cluster, mode: str, connect_timeout: float) -> ClusterLink:
    """Return the link to a cluster; ``mode`` is ``Config.sharded_subscription_mode``."""

    def link_to_node(address: tuple[str, int]) -> ServerLink:
        return ServerLink(SocketTransport(cluster.connection_class, cluster.settings_of(address)), connect_timeout)

    return ClusterLink(cluster, mode, link_to_node, ThreadMutex, _sleep)
