"""Independent nodes for a quorum: servers of the test's own, each to be killed or stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyredisson._core.names import LockNames
from tests.real_servers.observation import load_scripts
from tests.servers import VALKEY, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

NODES = 5

#: What a node is given where that is not the subject: a busy machine must not look like one that is away.
PATIENT = {"quorum_node_timeout": 3.0}


class Fleet:
    """Five nodes.

    Attributes:
        servers: The nodes.
    """

    def __init__(self, start: Callable[..., Server]) -> None:
        self.servers = [start(VALKEY) for _ in range(NODES)]
        for server in self.servers:
            load_scripts(server)

    def urls(self) -> list[str]:
        """Of each node."""
        return [server.url for server in self.servers]

    def clients(self, world: ClockWorld, **config: Any) -> list[Any]:
        """A client of each node."""
        return [world.from_url(url, **{**PATIENT, **config}) for url in self.urls()]

    def lock(self, world: ClockWorld, name: str, **config: Any) -> Any:
        """A Redlock over all nodes, with clients of its own."""
        return over(self.clients(world, **config), name)

    def stop(self, *indices: int) -> None:
        """Stop these nodes; they go on after the test."""
        for index in indices:
            self.servers[index].pause()

    def holders(self, name: str) -> list[bool]:
        """On which nodes there is such a key; a node that does not answer fails the test."""
        found = []
        for server in self.servers:
            with server.client() as direct:
                found.append(bool(direct.exists(name)))
        return found

    def free(self, name: str, within: float = 5.0) -> None:
        """Nobody holds it on any node, and nobody listens for it (any more)."""
        until(lambda: not any(self.holders(name)), within, what=f"{name} is free everywhere: {self.holders(name)}")
        until(lambda: not self.listeners(name), what="nobody listens")

    def listeners(self, name: str) -> int:
        """How many connections listen for it, on all nodes that were not killed."""
        channel = LockNames(name).channel
        count = 0
        for server in self.servers:
            if server.killed:
                continue
            with server.client() as direct:
                count += int(direct.pubsub_numsub(channel)[0][1])
        return count

    def close(self) -> None:
        """Resume what was stopped; the servers belong to whoever started them."""
        for server in self.servers:
            if not server.killed:
                server.resume()


def over(clients: Sequence[Any], name: str) -> Any:
    """A Redlock over a lock of each client."""
    return clients[0].get_red_lock(*[client.get_lock(name) for client in clients])
