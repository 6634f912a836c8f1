"""How an inspection reaches servers: one connection to each, no retries of what changes anything."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, islice
from typing import Any, TypeVar, final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from pyredisson._net.refusals import as_redis_error
from pyredisson._net.sentinel import Sentinels, read_master
from pyredisson._net.slots import SLOTS, Cluster, read_slots
from pyredisson._net.urls import (
    Endpoint,
    client_at,
    endpoint_of,
    is_tls,
    known_url,
    listed,
    own_settings,
    url_of,
    url_of_endpoint,
)
from pyredisson._net.wire import Address, is_push, new_reader, pack_command
from pyredisson.inspection.refusals import is_of_another_type, one_node_of_a_cluster, refusal_of

T = TypeVar("T")
R = TypeVar("R")

Command = tuple["str | bytes", ...]
"""A command's words."""

#: The name of our own connections.
TOOL_NAME = "pyredisson-inspect"
_NAME_IT = pack_command(("CLIENT", "SETNAME", TOOL_NAME))

MAX_ERROR = 500  # characters of an error that are reported
MAX_BATCH = 1000  # commands in flight
MAX_BATCH_BYTES = 1024 * 1024  # and their size, of those after the first
READ_SIZE = 65536  # bytes


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
        #: Whether ``SCAN`` knows ``TYPE``; ``None`` until it was tried.
        self.filters_types: bool | None = None
        self._connection: Any = place.connection_class(**settings, retry=Retry(NoBackoff(), 0))
        self._greeted = False
        self._reader = new_reader()
        self._timeout = timeout
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Its URL, password masked."""
        return url_of(self.settings, tls=self.tls) or self.node

    def ask(self, *command: Any) -> Any:
        """Return the answer to one question.

        Raises:
            redis.exceptions.RedisError: It could not be asked, or refuses; the error names the command.
            OSError: It could not be asked.
        """
        question = _words(command)
        return _only(self.ask_many([question], refused=lambda _: None), question)

    def tell(self, *command: Any) -> Any:
        """Send what changes something: once."""
        with self._lock:
            return _only(self._exchange([pack_command(_words(command))]), _words(command))

    def ask_many(
        self, commands: Sequence[Command], *, refused: Callable[[Exception], object] | None = None
    ) -> list[Any]:
        """Return the answers to many questions. That a key is of another type is an answer, too: an error.

        Args:
            commands: The questions.
            refused: Called with the error of each question that was refused, which is the answer then; ``None``: the
                first such error is raised.

        Raises:
            redis.exceptions.RedisError: It could not be asked, or refuses.
            OSError: It could not be asked.
        """
        answers: list[Any] = []
        with self._lock:
            for batch in self._batches(commands):
                may_be_closed = self._greeted
                try:
                    answers += self._exchange(batch)
                except rx.ConnectionError:
                    if not may_be_closed:
                        raise
                    answers += self._exchange(batch)  # The connection was idle: reading may be repeated.
        if any(isinstance(each, Exception) for each in answers):
            for command, answer in zip(commands, answers, strict=True):
                if isinstance(answer, Exception) and not is_of_another_type(answer):
                    error = refusal_of(answer, command)
                    if refused is None or not isinstance(error, rx.ResponseError):
                        raise error
                    refused(error)
        return answers

    def close(self) -> None:
        """Close the connection. It is made again when it is needed."""
        with self._lock:
            self._drop()

    def _batches(self, commands: Sequence[Command]) -> Iterator[list[bytes]]:
        """Yield the commands, packed, as many at a time as may be in flight."""
        for start in range(0, len(commands), MAX_BATCH):
            packed = [pack_command(each) for each in commands[start : start + MAX_BATCH]]
            while packed:
                count, size = len(packed), sum(map(len, packed))
                while size > MAX_BATCH_BYTES and count > 1:
                    count -= 1
                    size -= len(packed[count])
                yield packed[:count]
                packed = packed[count:]

    def _exchange(self, commands: Sequence[bytes]) -> list[Any]:
        """Send commands, and return the replies. A new connection is given a name first, where that is permitted."""
        connection, first = self._connection, () if self._greeted else (_NAME_IT,)
        try:
            self._greeted = True
            connection.send_packed_command([b"".join((*first, *commands))], check_health=False)
            return self._read(len(first) + len(commands))[len(first) :]
        except BaseException:
            self._drop()  # Also when it was interrupted: what is unread would be taken for the next answers.
            raise

    def _read(self, count: int) -> list[Any]:
        """Return this number of replies: straight from the socket, of which redis-py would make far more work."""
        replies: list[Any] = []
        sock, reader = self._connection._sock, self._reader
        while True:
            while (reply := reader.gets()) is not False:
                if not isinstance(reply, list) or not is_push(reply):
                    replies.append(reply)
            if len(replies) >= count:
                return replies
            try:
                data = sock.recv(READ_SIZE)
            except TimeoutError:
                raise rx.TimeoutError(f"no reply within {self._timeout:.3g} s") from None
            except OSError as error:
                raise rx.ConnectionError(f"Error while reading from socket: {error}") from None
            if not data:
                raise rx.ConnectionError("Connection closed by server.")
            reader.feed(data)

    def _drop(self) -> None:
        self._greeted = False
        self._reader = new_reader()
        with suppress(Exception):
            self._connection.disconnect()


def _words(command: tuple[Any, ...]) -> Command:
    return tuple(word if isinstance(word, (str, bytes)) else str(word) for word in command)


def _only(replies: list[Any], command: Command) -> Any:
    [reply] = replies
    if isinstance(reply, Exception):
        raise reply if is_of_another_type(reply) else refusal_of(reply, command)
    return reply


@final
class Servers:
    """The masters of a place.

    Args:
        where: A server, sentinels or a cluster, or the URL of one, as all commands take it.
        timeout: Seconds for each answer.
        whole: Whether all locks are meant: one node of a cluster by itself is an error then.

    Attributes:
        url: The URL, password masked.
        clustered: Whether they are a cluster.
        sentinels: The sentinels that are asked for the master, if there are any.
        named: What each sentinel answered when it was last asked: where the master is; ``None``: it does not know.

    Raises:
        ValueError: The URL is not valid.
    """

    def __init__(self, where: str | Endpoint | Cluster, timeout: float, *, whole: bool = True) -> None:
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
        self._is_checked = self.clustered or not whole

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
            self._check_whole()
            return list(dict.fromkeys(server for _, _, server in self._slots))

    def a_name_on(self, server: Server, start: str) -> str:
        """Return a name that begins like this and whose keys a master has."""
        names = (start if not number else f"{start}:{number}" for number in count())
        return next(name for name in names if self.of(name.encode()) is server)

    def of(self, key: bytes) -> Server:
        """Return the master that has a key, as :meth:`masters` last saw it."""
        slot = key_slot(key)
        for first, last, server in self._slots:
            if first <= slot <= last:
                return server
        raise rx.ClusterDownError(f"no node serves slot {slot}")

    def _check_whole(self) -> None:
        """Raise an error for one node of a cluster. Each user may send ``HELLO``, and it says what the server is."""
        if self._is_checked:
            return
        [said] = self._slots[0][2].ask_many([("HELLO",)], refused=lambda _: None)
        parts = [part for pair in said.items() for part in pair] if isinstance(said, dict) else said
        if isinstance(parts, list) and any(type(each) is bytes and each == b"cluster" for each in parts[1::2]):
            raise one_node_of_a_cluster()
        self._is_checked = True

    def publishes_by(self, *servers: Server) -> str:
        """Return the command by which clients publish: as Redisson decides it, sharded where a cluster can.

        Args:
            servers: Masters; the first that answers decides.

        Raises:
            redis.exceptions.RedisError: None of them answers.
            OSError: None of them answers.
        """
        if not self.clustered:
            self._sharded = False
        failure: Exception | None = None
        for server in servers:
            if self._sharded is not None:
                break
            try:
                [reply] = server.ask_many([("PUBSUB", "SHARDNUMSUB", "0")], refused=lambda _: None)
                if isinstance(reply, rx.NoPermissionError):
                    raise reply
                self._sharded = not isinstance(reply, Exception)
            except (rx.RedisError, OSError) as error:
                failure = error
        if self._sharded is None and failure is not None:
            raise failure
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
