"""Clients in a simulated world that find their server by themselves: on a cluster, or through sentinels.

The links are not simulated: :mod:`pyredisson._net.link`, :mod:`pyredisson._net.cluster`,
:mod:`pyredisson._net.topology` and :mod:`pyredisson._net.subscriber` run here as they do over sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import redis

from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure
from pyredisson._core.runtime import Background, Reply, Request
from pyredisson._net.cluster import ClusterLink
from pyredisson._net.link import ServerLink
from pyredisson._net.topology import Cluster, prepare_call, slot_of
from pyredisson._net.urls import Endpoint, client_at, url_of_endpoint
from pyredisson._net.wire import Address, prepare
from pyredisson._shared.runtime import subscriber_for
from pyredisson.config import Config
from tests.simulated.engine.network import Port, SimulatedTransport
from tests.simulated.engine.runtime import AnyClient, Seam, SimulatedTicket
from tests.simulated.engine.world import Process

if TYPE_CHECKING:
    from pyredisson._core.replicas import ReplicaAcknowledgement
    from pyredisson._net.cluster import NodeSubscribers
    from pyredisson._net.subscriber import Subscriber
    from tests.simulated.engine.cluster import SimulatedCluster
    from tests.simulated.engine.network import Network


class RoutedRuntime(Seam):
    """The view of a client that has a link, as those over sockets have."""

    def __init__(self, port: Port, link: ServerLink | ClusterLink, config: Config) -> None:
        super().__init__(port.process)
        self.port = port
        self.link = link
        self._scattered = link.scattered
        self._config = config
        self._subscriber: Subscriber | NodeSubscribers | None = None

    def attach(self, core: ClientCore) -> None:
        """Learn whom messages are for, and who wants to know of each new connection."""
        self.link.inspect = core.server.inspect
        self._subscriber = subscriber_for(self.link, self._listen, core)

    def _listen(self, subscriber: Subscriber) -> None:
        self.process.start(subscriber.run(), f"{self.process.name}/subscriber")

    # ---- plain ---------------------------------------------------------------------------------------------------

    def prepare(self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> Request:
        return prepare_call(script, keys, args) if self._scattered else prepare(script, keys, args)

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        async def reserved() -> float:
            self.link.reserve()
            return await step()

        return super().spawn(reserved, name)

    def place(self, name: str) -> int | None:
        return slot_of(name) if self._scattered else None

    def node_of(self, key: str) -> str:
        return self.link.node_of(key)

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        self.interruptible()
        return await self.link.execute_at(key, command, timeout)

    def counts_listeners(self) -> bool:
        return self.link.counts_listeners()

    def subscribe(self, channel: str) -> None:
        assert self._subscriber is not None, "nobody is attached yet"
        self._subscriber.subscribe(channel)

    def unsubscribe(self, channel: str) -> None:
        assert self._subscriber is not None, "nobody is attached yet"
        self._subscriber.unsubscribe(channel)

    def subscribed(self) -> set[str]:
        """The channels that some server sends it at present."""
        return self.port.subscribed()

    # ---- may block -----------------------------------------------------------------------------------------------

    async def eval(self, request: Request, timeout: float) -> Reply:
        self.interruptible()
        reply = await self.link.eval(request, timeout)
        self.interruptible()
        return reply

    async def eval_synced(
        self, request: Request, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        self.interruptible()
        return await self.link.eval_synced(request, timeout, replica_wait, sync_timeout)

    async def eval_all(self, requests: list[Request], timeout: float) -> list[Reply | Failure]:
        self.interruptible()
        return await self.link.eval_all(requests, timeout)

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        self.interruptible()
        return await self.link.execute(command, timeout)

    def close(self) -> None:
        """End its loops and connections."""
        if self._subscriber is not None:
            self._subscriber.close()
        super().close()
        self.link.close()


@final
class RoutedClient(AnyClient[RoutedRuntime]):
    """A client that finds its server by itself.

    Args:
        port: The network as it sees it.
        link: How it finds it.
        config: Its settings.
        address: What its messages call the server.
        presence: Whether it tells others of its locks. If not, histories are the same with and without that.
    """

    def __init__(
        self, port: Port, link: ServerLink | ClusterLink, config: Config, address: str, *, presence: bool = False
    ) -> None:
        config = replace(config, presence=presence)
        runtime = RoutedRuntime(port, link, config)
        super().__init__(runtime, ClientCore(runtime, config), address)
        runtime.attach(self.core)


def cluster_client(process: Process, cluster: SimulatedCluster, *, config: Config | None = None) -> RoutedClient:
    """A client of a simulated cluster."""
    config = config or Config()
    port = Port(process, cluster.network)

    def link_to_node(address: Address) -> ServerLink:
        return ServerLink(SimulatedTransport(port, address), config.connect_timeout)

    link = ClusterLink(
        Cluster(cluster.seeds, redis.Connection, {}, None),
        config.sharded_subscription_mode,
        link_to_node,
        lambda: SimulatedTicket(process),
        now=process.now,
    )
    return RoutedClient(port, link, config, "redis+cluster://n0:7000")


def sentinel_client(process: Process, network: Network, url: str, *, config: Config | None = None) -> RoutedClient:
    """A client of the master that sentinels know; ``url`` is as for :meth:`pyredisson.Redisson.from_url`."""
    config = config or Config()
    port = Port(process, network)
    place = client_at(url, {}, redis)
    assert isinstance(place, Endpoint), f"not a URL of sentinels: {url}"
    link = ServerLink(SimulatedTransport(port), config.connect_timeout, place.sentinels)
    return RoutedClient(port, link, config, url_of_endpoint(place) or "")
