"""The subscribers of a cluster: each channel is received at the node that serves its slot."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyredisson._core.failures import Failure
from pyredisson._core.subscriptions import SubscriberConnection
from pyredisson._net.cluster_map import SHARE
from pyredisson._net.subscriber import Subscriber

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._net.cluster import ClusterLink
    from pyredisson._net.server_link import ServerLink


class NodeSubscribers:
    """A subscriber for each node at which this client has waiters. The arguments are those of one."""

    def __init__(self, link: ClusterLink, start: Callable[[Subscriber], None], client: ClientCore) -> None:
        self._slots = link.map
        self._start = start
        self._client = client
        self._subscriptions = client.subscriptions
        self._mutex = client.runtime.mutex()
        self._by_node: dict[ServerLink, Subscriber] = {}
        self.closed: bool = False
        link.on_change = self._relocate

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, at the node that serves its slot."""
        subscriber = self._at(self._slots.node_for(channel))
        self._subscriptions.move(channel, subscriber.connection)
        subscriber.subscribe(channel)

    def unsubscribe(self, channel: str) -> None:
        """A channel may have lost its last waiter."""
        if (subscriber := self._of(self._subscriptions.connection_of(channel))) is not None:
            subscriber.unsubscribe(channel)

    def close(self) -> None:
        """Let all of them end."""
        with self._mutex:
            self.closed = True
            subscribers = list(self._by_node.values())
        for subscriber in subscribers:
            subscriber.close()

    def abandon(self) -> None:
        """See :meth:`Subscriber.abandon`."""
        self.closed = True
        for subscriber in list(self._by_node.values()):
            subscriber.abandon()

    def _at(self, node: ServerLink) -> Subscriber:
        with self._mutex:
            subscriber = self._by_node.get(node)
            if subscriber is None:
                subscriber = Subscriber(
                    node.stream,
                    self._start,
                    self._client,
                    connection=SubscriberConnection(),
                    sharded=self._slots.sharded,
                    find_again=self._find_again,
                    server="{}:{}".format(*self._slots.address_of(node)),
                )
                subscriber.closed = self.closed
                self._by_node[node] = subscriber
            return subscriber

    def _of(self, connection: SubscriberConnection | None) -> Subscriber | None:
        return next((each for each in list(self._by_node.values()) if each.connection is connection), None)

    async def _find_again(self) -> None:
        """Find the channels that are no longer where they were."""
        try:
            self._slots.stale = True
            await self._slots.learn(self._client.config.timeout * SHARE)
        except Failure:
            return  # Later, then. They are looked for until they are found.
        self._relocate()

    def _relocate(self) -> None:
        """Hear every channel where it belongs by now."""
        for channel in self._subscriptions.wanted():
            subscriber = self._at(self._slots.node_for(channel))
            former = self._subscriptions.move(channel, subscriber.connection)
            if former is not None:
                subscriber.subscribe(channel)
                if (left := self._of(former)) is not None:
                    left.leave(channel)
        with self._mutex:
            gone = [node for node in self._by_node if not self._slots.knows(node)]
            subscribers = [self._by_node.pop(node) for node in gone]
        for subscriber in subscribers:
            subscriber.close()
