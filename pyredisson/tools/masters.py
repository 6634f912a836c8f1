"""The servers behind a URL, for tools that look at them from outside: the master, or each master of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry
from typing_extensions import Self

from pyredisson.net.bounded_sources import bounding
from pyredisson.net.sentinel import parse_sentinel_url, read_master
from pyredisson.net.slots import Address, read_slots, slot_of
from pyredisson.net.urls import cluster_url, known_url

__all__ = ["Masters"]


@final
class Masters:
    """Clients of redis-py for the masters behind a URL: without retries, and with bounded replies as bytes.

    Args:
        url: A server, sentinels or a cluster.
        timeout: Seconds for each answer.

    Attributes:
        clients: One for each master.
        is_cluster: Whether they are those of a cluster.

    Raises:
        ValueError: The URL is not valid.
        redis.exceptions.RedisError: No master was found.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._timeout = timeout
        self._slots: Sequence[tuple[int, int, Address]] = ()
        self._by_address: dict[Address, Any] = {}
        sentinel, cluster = parse_sentinel_url(url), cluster_url(url)
        self.is_cluster: bool = cluster is not None
        self.clients: list[Any]
        if cluster is not None:
            seeds, data = cluster
            self._slots = self._ask(seeds, data, lambda node, seed: read_slots(node("CLUSTER", "SLOTS"), seed, None))
            for address in dict.fromkeys(master for _, _, master in self._slots):
                self._by_address[address] = self._client(data, address)
            self.clients = list(self._by_address.values())
        elif sentinel is not None:
            question = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinel.service)
            master = self._ask(sentinel.sentinels, "redis://", lambda node, _: read_master(node(*question)))
            self.clients = [self._client(sentinel.data, master)]
        else:
            self.clients = [self._client(url)]

    def of(self, key: str) -> Any:
        """Return the client for the master of a key."""
        if not self.is_cluster:
            return self.clients[0]
        slot = slot_of(key)
        for first, last, address in self._slots:
            if first <= slot <= last:
                return self._by_address[address]
        raise rx.ClusterDownError(f"no master serves the slot of {key!r}")

    def close(self) -> None:
        """Close all connections."""
        for client in self.clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, addresses: Sequence[Address], url: str, question: Any) -> Any:
        """Return the first answer of several nodes."""
        failure: Exception = rx.ConnectionError("there is no node to ask")
        for address in addresses:
            try:
                with self._client(url, address) as client:
                    if (answer := question(client.execute_command, address)) is not None:
                        return answer
                    failure = rx.ConnectionError("no sentinel knows that service")
            except (rx.RedisError, OSError) as error:
                failure = error
        raise failure

    def _client(self, url: str, address: Address | None = None) -> Any:
        client = redis.Redis.from_url(
            known_url(url),
            socket_timeout=self._timeout,
            socket_connect_timeout=self._timeout,
            retry=Retry(NoBackoff(), 0),
            redis_connect_func=bounding(),
        )
        client.response_callbacks.clear()  # Replies are read here: redis-py expects the right types.
        settings = client.connection_pool.connection_kwargs
        settings["decode_responses"] = False  # Whatever the URL says.
        if address is not None:
            settings["host"], settings["port"] = address
        return client
