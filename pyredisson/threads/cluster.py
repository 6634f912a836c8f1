"""Clusters for threads."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import redis

from pyredisson.net.cluster import ClusterLink
from pyredisson.net.server_link import ServerLink
from pyredisson.net.slots import Cluster, cluster_of
from pyredisson.net.urls import kept_settings
from pyredisson.threads.transport import SocketTransport

if TYPE_CHECKING:
    from pyredisson.config import Config


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


def _cluster_of(client: redis.RedisCluster) -> Cluster:
    manager: Any = client.nodes_manager
    any_node = next(iter(manager.startup_nodes.values()))
    # As that client would make one: redis-py knows what becomes of each setting.
    pool = manager.create_redis_node(any_node.host, any_node.port, **manager.connection_kwargs).connection_pool
    settings = kept_settings(pool.connection_kwargs)
    settings.pop("redis_connect_func", None)  # Its own makes connections for reading, maybe, and keeps it alive.
    return cluster_of(client, pool.connection_class, settings)


def link_to_cluster(client: redis.RedisCluster | Cluster, config: Config) -> tuple[Cluster, ClusterLink]:
    """Return a cluster, and a link to it."""
    cluster = client if isinstance(client, Cluster) else _cluster_of(client)

    def link_to_node(address: tuple[str, int]) -> ServerLink:
        transport = SocketTransport(cluster.connection_class, cluster.settings_of(address))
        return ServerLink(transport, config.connect_timeout)

    return cluster, ClusterLink(cluster, config.sharded_subscription_mode, link_to_node, ThreadMutex, _sleep)
