"""How an inspection reaches servers: one connection to each, no retries of what changes anything."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar, final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from pyredisson.net.endpoint import Endpoint, endpoint_of, is_tls, url_of, url_of_endpoint
from pyredisson.net.resp import as_redis_error
from pyredisson.net.sentinel import Sentinels, read_master
from pyredisson.net.slots import SLOTS, Cluster, read_slots
from pyredisson.net.urls import client_at, known_url, listed, own_settings
from pyredisson.net.wire import Address

T = TypeVar("T")
R = TypeVar("R")

Command = tuple["str | bytes", ...]
"""A command's words."""

#: The name of our own connections.
TOOL_NAME = "pyredisson-inspect"

MAX_ERROR = 500  # characters of an error that are reported
MAX_BATCH = 500  # commands in flight


def describe(error: BaseException) -> str:
    """Return an error as one line."""
    said = as_redis_error(error) if isinstance(error, Exception) else error
    return f"{type(said).__name__}: {str(said)[:MAX_ERROR]}"


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut what there is into lists of at most ``size``."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def in_parallel(ask: Callable[[T], R], them: Sequence[T]) -> list[R]:
    """Call a function for each of them, all at the same time, and return the results in their order."""
    with ThreadPoolExecutor(max_workers=max(1, len(them))) as pool:
        return list(pool.map(ask, them))


@final
class Server:
    """One server, over one connection. Safe for threads.

    Args:
        place: How to connect.
        timeout: Seconds for each answer.
        address: Another address than that of its settings.
    """

    def __init__(self, place: Endpoint, timeout: float, address: Address | None = None) -> None:
        settings = own_settings(place.settings, timeout)
        settings["socket_timeout"] = settings["socket_connect_timeout"] = timeout
        settings["decode_responses"] = False
        if address is not None:
            settings["host"], settings["port"] = address
        self.endpoint: Endpoint = Endpoint(place.connection_class, settings)
        self.settings: dict[str, Any] = settings
        self.tls: bool = is_tls(place.connection_class)
        address = settings.get("host", "localhost"), settings.get("port", 6379)
        self.node: str = settings.get("path") or listed([address])
        self._pool: Any = redis.BlockingConnectionPool(  # type: ignore[no-untyped-call]
            connection_class=place.connection_class,
            max_connections=1,
            **{**settings, "retry": Retry(NoBackoff(), 0), "redis_connect_func": _greet, "timeout": None},
        )
        self._client: Any = redis.Redis(connection_pool=self._pool)
        self._client.response_callbacks.clear()  # Replies as they are.

    @property
    def url(self) -> str:
        """Its URL, password masked."""
        return url_of(self.settings, tls=self.tls) or self.node

    def ask(self, *command: Any) -> Any:
        """Return the answer to one question. It is sent once.

        Raises:
            redis.exceptions.RedisError: It could not be asked, or refuses.
            OSError: It could not be asked.
        """
        return self._client.execute_command(*command)

    def ask_many(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to many questions; one that is refused is answered by the error.

        Raises:
            redis.exceptions.RedisError: It could not be asked.
            OSError: It could not be asked.
        """
        answers: list[Any] = []
        for batch in in_batches(commands, MAX_BATCH):
            with self._client.pipeline(transaction=False) as pipeline:
                for command in batch:
                    pipeline.execute_command(*command)
                answers += pipeline.execute(raise_on_error=False)
        return answers

    def close(self) -> None:
        """Close the connection. It is made again when it is needed."""
        self._pool.disconnect()


def _greet(connection: Any) -> None:
    """Give a new connection its name, where that is permitted."""
    connection.on_connect()
    connection.send_command("CLIENT", "SETNAME", TOOL_NAME)
    with suppress(rx.ResponseError):
        connection.read_response()


@final
class Servers:
    """The masters of a place.

    Args:
        where: A server, sentinels or a cluster, or the URL of one, as all commands take it.
        timeout: Seconds for each answer.

    Attributes:
        url: The URL, password masked.
        clustered: Whether they are a cluster.
        sentinels: The sentinels that are asked for the master, if there are any.
        named: What each sentinel answered when it was last asked: where the master is; ``None``: it does not know.

    Raises:
        ValueError: The URL is not valid.
    """

    def __init__(self, where: str | Endpoint | Cluster, timeout: float) -> None:
        if isinstance(where, str):
            url = known_url(where)
            if url.startswith("embedded:"):
                raise ValueError("embedded:// is private to the client that starts it: name a server")
            where = endpoint_of(client_at(url, {}, redis))
        self.url: str = url_of_endpoint(where) or ""
        self.clustered: bool = isinstance(where, Cluster)
        self.sentinels: Sentinels | None = None if isinstance(where, Cluster) else where.sentinels
        self.named: list[tuple[Server, Address | Exception | None]] = []
        self._where = where
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: dict[Address | None, Server] = {}
        self._asked: list[Server] = []
        if self.sentinels is not None:
            kind = redis.SSLConnection if self.sentinels.settings.get("ssl") else redis.Connection
            place = Endpoint(kind, {key: each for key, each in self.sentinels.settings.items() if key != "ssl"})
            self._asked = [Server(place, timeout, address) for address in self.sentinels.addresses]
        alone = self.sentinels is None and not self.clustered
        self._slots: list[tuple[int, int, Server]] = [(0, SLOTS - 1, self._at(None))] if alone else []
        self._sharded: bool | None = None

    @property
    def unserved(self) -> int:
        """How many slots no master serves, as :meth:`masters` last saw it."""
        return SLOTS - sum(last - first + 1 for first, last, _ in self._slots)

    def masters(self) -> list[Server]:
        """Ask who the masters are now.

        Raises:
            redis.exceptions.RedisError: No sentinel or node of the cluster answers, or none knows.
        """
        with self._lock:
            if self.sentinels is not None:
                self._slots = [(0, SLOTS - 1, self._at(self._by_sentinels(self.sentinels)))]
            elif isinstance(self._where, Cluster):
                self._slots = self._by_nodes(self._where)
            return list(dict.fromkeys(server for _, _, server in self._slots))

    def of(self, key: bytes) -> Server:
        """Return the master that has a key, as :meth:`masters` last saw it."""
        slot = key_slot(key)
        for first, last, server in self._slots:
            if first <= slot <= last:
                return server
        raise rx.ClusterDownError(f"no node serves slot {slot}")

    def publishes_by(self, server: Server) -> str:
        """Return the command by which clients publish: as Redisson decides it, sharded where a cluster can."""
        if self._sharded is None:
            self._sharded = False
            if self.clustered:
                try:
                    server.ask("PUBSUB", "SHARDNUMSUB", "0")
                    self._sharded = True
                except rx.ResponseError:
                    pass
        return "SPUBLISH" if self._sharded else "PUBLISH"

    def close(self) -> None:
        """Close all connections."""
        for server in (*self._known.values(), *self._asked):
            server.close()

    def _at(self, address: Address | None) -> Server:
        if address not in self._known:
            place = Endpoint(self._where.connection_class, self._where.settings)
            self._known[address] = Server(place, self._timeout, address)
        return self._known[address]

    def _by_sentinels(self, sentinels: Sentinels) -> Address:
        def ask(sentinel: Server) -> Address | Exception | None:
            try:
                return read_master(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.service))
            except (rx.RedisError, OSError) as error:
                return error

        self.named = list(zip(self._asked, in_parallel(ask, self._asked), strict=True))
        most = Counter(answer for _, answer in self.named if isinstance(answer, tuple)).most_common(1)
        if most:
            return most[0][0]
        errors = [describe(answer) for _, answer in self.named if isinstance(answer, Exception)]
        raise rx.ConnectionError("; ".join([f"no sentinel knows where {sentinels.service!r} is", *errors[:1]]))

    def _by_nodes(self, cluster: Cluster) -> list[tuple[int, int, Server]]:
        failure: Exception = rx.ConnectionError("no node of the cluster answers")
        for address in dict.fromkeys((*cluster.seeds, *filter(None, self._known))):
            try:
                slots = read_slots(self._at(address).ask("CLUSTER", "SLOTS"), address, cluster.remap)
                return [(first, last, self._at(master)) for first, last, master in slots]
            except (rx.RedisError, OSError) as error:
                failure = error
        raise failure
