"""Independent nodes for a quorum: servers of the test's own, each to be killed, stopped, or cut off by its proxy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyredisson.core.names import LockNames
from tests.proxy import Proxy
from tests.real_servers.observation import load_scripts
from tests.servers import VALKEY, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

NODES = 5

#: What a node is given where that is not the subject: a busy machine must not look like one that is away.
PATIENT = {"quorum_node_timeout": 3.0}


class Fleet:
    """So many nodes.

    Attributes:
        servers: The nodes.
        proxies: One before each, once it was asked for.
    """

    def __init__(self, start: Callable[..., Server], nodes: int = NODES, *args: str) -> None:
        self.servers = [start(VALKEY, *args) for _ in range(nodes)]
        self.proxies: dict[int, Proxy] = {}
        for server in self.servers:
            load_scripts(server)

    def __len__(self) -> int:
        return len(self.servers)

    def proxy(self, index: int) -> Proxy:
        """What clients go through that are made from now on."""
        if index not in self.proxies:
            self.proxies[index] = Proxy(self.servers[index].port)
        return self.proxies[index]

    def urls(self) -> list[str]:
        """Of each node, or of the proxy before it."""
        return [
            self.proxies[index].url if index in self.proxies else server.url
            for index, server in enumerate(self.servers)
        ]

    def clients(self, world: ClockWorld, **config: Any) -> list[Any]:
        """A client of each node."""
        return [world.from_url(url, **{**PATIENT, **config}) for url in self.urls()]

    def lock(self, world: ClockWorld, name: str, kind: str = "lock", **config: Any) -> Any:
        """A Redlock over all nodes, with clients of its own."""
        return over(self.clients(world, **config), name, kind)

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
        """End the proxies; the servers belong to whoever started them."""
        for server in self.servers:
            if not server.killed:
                server.resume()
        for proxy in self.proxies.values():
            proxy.close()


def over(clients: Sequence[Any], name: str, kind: str = "lock") -> Any:
    """A Redlock over a lock of each client."""
    return clients[0].get_red_lock(*[getattr(client, f"get_{kind}")(name) for client in clients])
