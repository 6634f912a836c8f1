"""What is to be seen from outside: that somebody waits."""

from __future__ import annotations

from typing import Any, Protocol

from tests.clusters import RunningCluster
from tests.interop.clients import Handle
from tests.servers import REDIS_6
from tests.waiting import until


class Listeners(Protocol):
    """A client of a server, or :class:`Everywhere`."""

    def pubsub_channels(self) -> list[Any]:
        """The channels that somebody listens to, as ``str``."""
        ...


class Everywhere:
    """All nodes of a cluster, and the channels of either sort at them."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._clients = [node.client(decode_responses=True) for node in cluster.nodes]
        self._sharded = cluster.build is not REDIS_6

    def pubsub_channels(self) -> list[Any]:
        return [channel for channels in (self.plain(), self.shards()) for channel in channels]

    def plain(self) -> list[Any]:
        """Those that are not of shards."""
        return [channel for client in self._clients for channel in client.pubsub_channels()]

    def shards(self) -> list[Any]:
        """Those of shards."""
        if not self._sharded:
            return []
        return [channel for client in self._clients for channel in client.execute_command("PUBSUB", "SHARDCHANNELS")]

    def scripts(self) -> int:
        """How many scripts were run there as yet."""
        stats = [client.info("commandstats") for client in self._clients]
        runs = [each.get(f"cmdstat_{name}", {}) for each in stats for name in ("eval", "evalsha")]
        return sum(each["calls"] - each["failed_calls"] for each in runs if each)


def until_it_waits(direct: Listeners, handle: Handle) -> None:
    """Wait until the owner of a handle, and nobody else, waits to be told that it may look again.

    It listens before it looks for the second time, and then it waits. What is said in between counts as well, with one
    exception: Redisson wakes those who wait at that moment when a writer leaves, and no others.
    """
    until(lambda: any(handle.name in channel for channel in direct.pubsub_channels()), what="it listens")
    if handle.kind in ("read_lock", "write_lock"):
        until(handle.owner.waits, what="it waits")
