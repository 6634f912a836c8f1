"""What receives a client's messages: one subscriber, or one for each node of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyredisson._net.server_link import ServerLink

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._net.connect import Link
    from pyredisson._net.node_subscribers import NodeSubscribers
    from pyredisson._net.subscriber import Subscriber


def subscriber_for(link: Link, start: Callable[[Subscriber], None], client: ClientCore) -> Subscriber | NodeSubscribers:
    """What receives the messages for the client that has this link; for the arguments see :class:`Subscriber`."""
    if not isinstance(link, ServerLink):
        from pyredisson._net.node_subscribers import NodeSubscribers  # Most programs have one server.

        return NodeSubscribers(link, start, client)
    from pyredisson._net.subscriber import Subscriber  # Not needed before there is a client.

    subscriber = Subscriber(link.stream, start, client, follow=link.follow)
    link.on_change = subscriber.move
    return subscriber
