"""How an inspection reaches servers: one connection to each, no retries of what changes anything."""

from __future__ import annotations

import fnmatch
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, islice
from typing import Any, Literal, TypeAlias, TypeVar, cast

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from pyredisson._core.failures import is_wrong_url, own_copy, remedy_of
from pyredisson._core.requests import NO_PASSWORD
from pyredisson._net import urls, wire
from pyredisson._net.topology import SLOTS, Cluster, Sentinels, read_master, read_slots

T = TypeVar("T")
R = TypeVar("R")

Command = tuple["str | bytes", ...]
"""A command's words."""

#: The name of our own connections.
TOOL_NAME = "pyredisson-inspect"
_NAME_IT = wire.pack_command(("CLIENT", "SETNAME", TOOL_NAME))

MAX_ERROR = 500  # characters of an error that are reported
MAX_BATCH = 1000  # commands in flight
MAX_BATCH_BYTES = 1024 * 1024  # and their size, of those after the first
READ_SIZE = 65536  # bytes


def describe(error: BaseException) -> str:
    """Return an error as one line."""
    said = wire.as_redis_error(error) if isinstance(error, Exception) else error
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


class Server:
    """One server, over one connection. Safe for threads.

    Args:
        place: How to connect.
        timeout: Seconds for each answer.
        address: Another address than that of its settings.
    """

    def __init__(self, place: urls.Endpoint, timeout: float, address: wire.Address | None = None) -> None:
        settings = urls.own_settings(place.settings, timeout)
        settings["socket_timeout"] = settings["socket_connect_timeout"] = timeout
        settings["decode_responses"] = False
        if address is not None:
            settings["host"], settings["port"] = address
        self.endpoint: urls.Endpoint = urls.Endpoint(place.connection_class, settings)
        self.settings: dict[str, Any] = settings
        self.tls: bool = urls.is_tls(place.connection_class)
        address = settings.get("host", "localhost"), settings.get("port", 6379)
        self.node: str = settings.get("path") or urls.listed([address])
        #: Whether ``SCAN`` knows ``TYPE``; ``None`` until it was tried.
        self.filters_types: bool | None = None
        self._connection: Any = place.connection_class(**settings, retry=Retry(NoBackoff(), 0))
        self._greeted = False
        self._reader = wire.new_reader()
        self._timeout = timeout
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Its URL, password masked."""
        return urls.url_of_endpoint(self.endpoint) or self.node

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
            return _only(self._exchange([wire.pack_command(_words(command))]), _words(command))

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

    def pubsub(self, **settings: Any) -> Any:
        """Return a connection of redis-py for subscriptions. It is not connected yet."""
        pool = redis.ConnectionPool(cast("type[Any]", self.endpoint.connection_class), **{**self.settings, **settings})
        return redis.Redis(connection_pool=pool).pubsub()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the connection. It is made again when it is needed."""
        with self._lock:
            self._drop()

    def _batches(self, commands: Sequence[Command]) -> Iterator[list[bytes]]:
        """Yield the commands, packed, as many at a time as may be in flight."""
        for start in range(0, len(commands), MAX_BATCH):
            packed = [wire.pack_command(each) for each in commands[start : start + MAX_BATCH]]
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
        except (rx.ResponseError, rx.AuthenticationError, rx.InvalidResponse) as error:
            self._drop()
            raise with_remedy(error, self.node) from None  # The server, or what is there, refused the connection.
        except BaseException:
            self._drop()  # Also when it was interrupted: what is unread would be taken for the next answers.
            raise

    def _read(self, count: int) -> list[Any]:
        """Return this number of replies: straight from the socket, of which redis-py would make far more work."""
        replies: list[Any] = []
        sock, reader = self._connection._sock, self._reader
        while True:
            while (reply := reader.gets()) is not False:
                if not isinstance(reply, list) or not wire.is_push(reply):
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
        self._reader = wire.new_reader()
        with suppress(Exception):
            self._connection.disconnect()


def _words(command: tuple[Any, ...]) -> Command:
    return tuple(word if isinstance(word, (str, bytes)) else str(word) for word in command)


def _only(replies: list[Any], command: Command) -> Any:
    [reply] = replies
    if isinstance(reply, Exception):
        raise reply if is_of_another_type(reply) else refusal_of(reply, command)
    return reply


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

    def __init__(self, where: str | urls.Endpoint | Cluster, timeout: float, *, whole: bool = True) -> None:
        if isinstance(where, str):
            url = urls.known_url(where)
            if url.startswith("embedded:"):
                raise ValueError("embedded:// is private to the client that starts it: name a server")
            where = urls.endpoint_of(urls.client_at(url, {}, redis))
        self.url: str = urls.url_of_endpoint(where) or ""
        self.clustered: bool = isinstance(where, Cluster)
        self.sentinels: Sentinels | None = None if isinstance(where, Cluster) else where.sentinels
        self.named: list[tuple[Server, wire.Address | Exception | None]] = []
        self._where = where
        self._timeout = timeout
        self._lock = threading.Lock()
        self._known: dict[wire.Address | None, Server] = {}
        self._asked: list[Server] = []
        if self.sentinels is not None:
            kind = redis.SSLConnection if self.sentinels.settings.get("ssl") else redis.Connection
            place = urls.Endpoint(kind, {key: each for key, each in self.sentinels.settings.items() if key != "ssl"})
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

    def _at(self, address: wire.Address | None) -> Server:
        if address not in self._known:
            place = urls.Endpoint(self._where.connection_class, self._where.settings)
            self._known[address] = Server(place, self._timeout, address)
        return self._known[address]

    def _by_sentinels(self, sentinels: Sentinels) -> wire.Address:
        def ask(sentinel: Server) -> wire.Address | Exception | None:
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


# ---- refusals --------------------------------------------------------------------------------------------------------
# What it means that a server refuses a question: it was not answered, and never "no". Decided here, for all tools.
# * The key holds something of another type (``WRONGTYPE``): that is an answer.
# * The server says that it cannot now (``LOADING``, ``BUSY``, ...): it is there, and it is worth asking again.
# * This user may not ask, or the server does not know the command: asking again will not help.
# * The server is of another kind than the URL says, has no such database, or is no Redis: the URL is wrong.


Answered: TypeAlias = Literal["not", "not now", "refused", "elsewhere"]
"""How a question that failed was answered."""

MAX_SHOWN = 80  # characters of a key


class OneNodeOfACluster(rx.ClusterError):
    """What is asked is one node of a cluster, which knows a part of the locks only."""


def is_of_another_type(answer: object) -> bool:
    """Whether an answer says that the key holds something of another type."""
    return isinstance(answer, rx.ResponseError) and str(answer).startswith(("WRONGTYPE", "no such key", "ERR no such"))


def refusal_of(error: Exception, command: Sequence[str | bytes]) -> Exception:
    """Return the error of a question that was refused: it names the command, and the key if that is what is missing."""
    inner = wire.reply_error(str(error)) if type(error) is rx.ResponseError else error
    text, name = str(inner), str(command[0]).upper()
    if isinstance(inner, rx.MovedError) or text.startswith("MOVED "):
        return one_node_of_a_cluster()
    if "key" in text.lower() and isinstance(inner, rx.NoPermissionError) and len(command) > 1:
        key = command[1] if isinstance(command[1], str) else command[1].decode(errors="backslashreplace")
        return with_remedy(inner, f"{name} {key[:MAX_SHOWN]!r}")
    return with_remedy(inner, "" if name.lower() in text.lower() else name)


def with_remedy(error: Exception, where: str) -> Exception:
    """Return a copy of an error that also says where it happened and, if that is known, what to do."""
    text = f"{str(error).rstrip('.')} ({where})" if where else str(error)
    remedy = remedy_of(text)
    error = own_copy(error)
    error.args = (text if remedy is None else f"{text}: {remedy}",)
    return error


def one_node_of_a_cluster() -> OneNodeOfACluster:
    """Return the error for the plain URL of a node of a cluster."""
    return OneNodeOfACluster(
        "it is one node of a cluster, and has only a part of the locks: use redis+cluster://host:port"
    )


def answered(error: BaseException) -> Answered:
    """Return how a question was answered that raised this error."""
    if isinstance(error, (OneNodeOfACluster, rx.MovedError, rx.InvalidResponse)) or is_wrong_url(str(error)):
        return "elsewhere"
    if isinstance(error, Exception) and wire.meaning_of(error) in (wire.Meaning.PASSES, wire.Meaning.NOT_HERE):
        return "not now"
    if isinstance(error, (rx.ResponseError, rx.AuthenticationError, rx.AuthorizationError)):
        return "refused"
    return "not"


def text_of(error: Exception) -> str:
    """Return why a server refuses, in words."""
    if any(each in str(error) for each in (*NO_PASSWORD, "requires a password")):
        return "it requires a password, and the URL has none: redis://:password@host:port"
    return str(error)


# ---- server replies --------------------------------------------------------------------------------------------------
# How the replies to plain commands are read. One of another type than expected is a clear error.


def check_pong(reply: object) -> None:
    """Check the reply to ``PING``. Raises ``InvalidResponse``, as all functions here."""
    if reply != b"PONG":
        raise _unexpected("PING", reply)


def read_info_text(reply: object) -> bytes:
    """Return the reply to ``INFO``."""
    if not isinstance(reply, bytes):
        raise _unexpected("INFO", reply)
    return reply


def read_setting(name: str, reply: object) -> str | None:
    """Read the reply to ``CONFIG GET``: an array, or a map in RESP3; ``None`` if the server has no such setting."""
    parts = [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply
    if not isinstance(parts, list) or len(parts) % 2 or not all(isinstance(part, bytes) for part in parts):
        raise _unexpected("CONFIG GET", reply)
    found = dict(zip(parts[::2], parts[1::2], strict=True)).get(name.encode())
    return None if found is None else found.decode(errors="replace")


def read_clock(reply: object) -> float:
    """Read the reply to ``TIME``: seconds since 1970."""
    match reply:
        case [bytes() as seconds, bytes() as micros] if seconds.isdigit() and micros.isdigit():
            return int(seconds) + int(micros) / 1e6
    raise _unexpected("TIME", reply)


def read_scan(command: str, reply: Any) -> tuple[bytes, list[bytes]]:
    """Read the reply to ``SCAN`` or ``HSCAN``: the next cursor, and what was found."""
    match reply:
        case [bytes() as cursor, [*found]] if cursor.isdigit() and all(isinstance(each, bytes) for each in found):
            return cursor, found
    raise _unexpected(command, reply)


def _unexpected(command: str, reply: object) -> rx.InvalidResponse:
    return wire.unexpected_reply(command, reply, "Redis or Valkey")


# ---- replies ---------------------------------------------------------------------------------------------------------
# How other answers of servers are read: names, subscribers, patterns. Pure, and never an exception.
#
# Who an owner or a client is, is read by :mod:`pyredisson._core.holder_lookup`.


MAX_DOUBTFUL = 1000  # strings that may be locks or data; more are data


def decode_name(name: bytes) -> str:
    """Return a key as text that can be encoded and printed anywhere; bytes that are no UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def encode_name(name: str | bytes) -> bytes:
    """Return the key of a name. Arguments of a command line that are no UTF-8 come back as the bytes they were."""
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")


def read_numsub(reply: object) -> Mapping[bytes, int]:
    """Read the reply to ``PUBSUB NUMSUB``: subscribers by channel."""
    if isinstance(reply, dict):
        pairs: Sequence[Any] = list(reply.items())
    elif isinstance(reply, list):
        pairs = list(zip(reply[::2], reply[1::2], strict=False))
    else:
        return {}
    return {each: count for each, count in pairs if isinstance(each, bytes) and isinstance(count, int) and count >= 0}


def glob_to_pattern(glob: bytes) -> re.Pattern[bytes]:
    """Return the regular expression of a pattern as ``SCAN MATCH`` understands it."""
    text = glob.decode("latin-1").replace("[^", "[!")
    # A backslash makes the next character a plain one; fnmatch knows brackets alone for that.
    text = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], text, flags=re.DOTALL)
    return re.compile(fnmatch.translate(text).encode("latin-1"))
