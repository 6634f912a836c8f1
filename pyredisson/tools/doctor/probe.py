"""What ``pyredisson doctor`` asks servers, sentinels and clusters. It only reads, and never for long."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson.core.diagnosis.replies import read_owner
from pyredisson.core.requests.server import ServerFacts, read_info
from pyredisson.inspection.replies import MAX_DOUBTFUL, MAX_TOKEN, read_token
from pyredisson.inspection.server_replies import check_pong, read_clock, read_info_text, read_save, read_scan
from pyredisson.net.endpoint import masked, url_of, url_of_cluster
from pyredisson.net.resp import as_redis_error
from pyredisson.net.sentinel import read_master
from pyredisson.net.slots import SLOTS, read_slots
from pyredisson.net.urls import SentinelUrl, cluster_url, known_url, parse_sentinel_url
from pyredisson.net.wire import Address

T = TypeVar("T")
R = TypeVar("R")

TIMEOUT = 2.0  # seconds for each answer
PINGS = 7

# Limits of the search for leaked locks on one server.
MAX_KEYS = 50_000
MAX_SECONDS = 3.0
SAMPLES = 5

MAX_ERROR = 500  # characters of an error that are reported


_REPLICA = re.compile(rb"^slave\d+:(.*?)\r?$", re.MULTILINE)
_OFFSET = re.compile(rb"^master_repl_offset:(\d{1,19})\r?$", re.MULTILINE)


@final
@dataclass(frozen=True)
class Replica:
    """A replica, as its master reports it.

    Attributes:
        address: Its host and port.
        state: ``"online"`` once it has copied the data and follows.
        behind: How many bytes it is behind; ``None`` if unknown.
        lag: Seconds since its last report; ``None`` if unknown.
    """

    address: str
    state: str
    behind: int | None
    lag: int | None


@final
@dataclass(frozen=True)
class SentinelAnswer:
    """What one sentinel answers.

    Attributes:
        address: The sentinel's host and port.
        error: Why it could not be asked; ``None`` if it could.
        master: The address of the master that it names; ``None`` if it does not know the service.
        doubts: Why it could not replace the master (``NOQUORUM``); ``None`` if it could, or does not say.
    """

    address: str
    error: str | None = None
    master: str | None = None
    doubts: str | None = None


@final
@dataclass(frozen=True)
class SentinelView:
    """What the sentinels of a URL answer.

    Attributes:
        service: The service that they are asked for.
        answers: One for each sentinel that the URL names.
        master: The master that most of them name; ``None`` if no sentinel names one.
    """

    service: str
    answers: Sequence[SentinelAnswer]
    master: Address | None


@final
@dataclass
class Node:
    """What was seen of one server, or of one cluster.

    Attributes:
        url: Its URL, password masked.
        error: Why it could not be asked; ``None`` if it could.
        facts: Its reply to ``INFO``; ``None`` if the user may not run that.
        saves: Its ``save`` setting; ``None`` if unknown.
        round_trip: The median time of a ``PING``, in seconds.
        clock: How many seconds its clock is ahead of ours.
        keys_seen: How many keys were searched for leaked locks.
        all_seen: Whether those were all keys.
        leaked: How many locks without an expiry were found.
        samples: The names of the first few of those.
        replicas: Its replicas.
        sentinels: What the sentinels of the URL answer; the node is then the master that most of them name.
        masters: The masters, if the URL is that of a cluster. All else but ``unserved`` is then empty.
        unserved: How many slots no master serves.
    """

    url: str
    error: str | None = None
    facts: ServerFacts | None = None
    saves: str | None = None
    round_trip: float | None = None
    clock: float | None = None
    keys_seen: int = 0
    all_seen: bool = False
    leaked: int = 0
    samples: list[str] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    sentinels: SentinelView | None = None
    masters: list[Node] | None = None
    unserved: int = 0


def probe(urls: Sequence[str]) -> list[Node]:
    """Ask servers, all at the same time. Raises ``ValueError`` for a URL that is not valid, before it asks any."""
    return _in_parallel(lambda ask: ask(), [_prober(url) for url in urls])


def _prober(url: str) -> Callable[[], Node]:
    sentinel, cluster = parse_sentinel_url(url), cluster_url(url)
    client = _client(sentinel.data if sentinel else cluster[1] if cluster else url)
    if sentinel is not None:
        return lambda: _probe_by_sentinels(sentinel)
    if cluster is not None:
        return lambda: _probe_cluster(client, *cluster)
    return lambda: _probe_server(client)


def _client(url: str, address: Address | None = None) -> Any:
    """Return a client without retries for the server at a URL, or, with the same settings, for another address."""
    client = redis.Redis.from_url(
        known_url(url),
        socket_timeout=TIMEOUT,
        socket_connect_timeout=TIMEOUT,
        retry=Retry(NoBackoff(), 0),
    )
    client.response_callbacks.clear()  # Replies are read here: redis-py expects the right types.
    settings = client.connection_pool.connection_kwargs
    settings["decode_responses"] = False  # Whatever the URL says.
    if address is not None:
        settings["host"], settings["port"] = address
    return client


def _in_parallel(ask: Callable[[T], R], them: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(max_workers=max(1, len(them))) as pool:
        return list(pool.map(ask, them))


# ---- one server ------------------------------------------------------------------------------------------------------


def _probe_server(client: Any, url: str | None = None) -> Node:
    settings, tls = _settings_of(client)
    node = Node(url or url_of(settings, tls=tls) or "?")
    try:
        with client:
            _ping(client)
            node.round_trip = statistics.median(_seconds_of(lambda: _ping(client)) for _ in range(PINGS))
            info = _if_permitted(lambda: read_info_text(client.execute_command("INFO")))
            if info is not None:
                node.facts = read_info(info, time.monotonic())
                node.replicas = read_replicas(info)
            node.saves = _if_permitted(lambda: read_save(client.execute_command("CONFIG", "GET", "save")))
            node.clock = _if_permitted(lambda: _clock_of(client))
            _if_permitted(lambda: _search_leaks(client, node))
    except (rx.RedisError, OSError) as error:
        node.error = _describe(error)
    return node


def _settings_of(client: Any) -> tuple[dict[str, Any], bool]:
    """Return the connection settings of a client, and whether it uses TLS."""
    pool = client.connection_pool
    return pool.connection_kwargs, issubclass(pool.connection_class, redis.SSLConnection)


def _describe(error: Exception) -> str:
    said = as_redis_error(error)
    return f"{type(said).__name__}: {str(said)[:MAX_ERROR]}"


def _if_permitted(ask: Callable[[], T]) -> T | None:
    """Return the answer, or ``None`` if the server refuses: hosted services refuse ``CONFIG``, and ACLs may do more."""
    try:
        return ask()
    except rx.ResponseError:
        return None


def _ping(client: Any) -> None:
    check_pong(client.execute_command("PING"))


def _seconds_of(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def _clock_of(client: Any) -> float:
    began = time.time()
    there = read_clock(client.execute_command("TIME"))
    return there - (began + time.time()) / 2


def _search_leaks(client: Any, node: Node) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    cursor = b"0"
    doubtful: list[bytes] = []  # Strings that may be locks or data.
    while node.keys_seen < MAX_KEYS and time.monotonic() <= deadline:
        cursor, names = read_scan("SCAN", client.execute_command("SCAN", cursor, "COUNT", 500))
        node.keys_seen += len(names)
        _note_leaks(node, _leaked_among(client, names, doubtful))
        if not int(cursor):
            node.all_seen = True
            break
    if len(doubtful) <= MAX_DOUBTFUL:
        _note_leaks(node, doubtful)


def _note_leaks(node: Node, names: Iterable[bytes]) -> None:
    for name in names:
        node.leaked += 1
        if len(node.samples) < SAMPLES:
            node.samples.append(repr(name.decode(errors="replace")[:60]))


def _leaked_among(client: Any, names: Sequence[bytes], doubtful: list[bytes]) -> Iterable[bytes]:
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.type(name)
        pipeline.pttl(name)
    answers = pipeline.execute(raise_on_error=False)
    lasting = [
        (name, kind)
        for name, kind, time_to_live in zip(names, answers[::2], answers[1::2], strict=True)
        if time_to_live == -1
    ]
    for name, kind in lasting:
        if kind == b"hash":
            _, pairs = read_scan("HSCAN", client.execute_command("HSCAN", name, 0, "COUNT", 10))
            if any(map(read_owner, pairs[::2])):
                yield name
    strings = [name for name, kind in lasting if kind == b"string"]
    for name in strings:
        pipeline.getrange(name, 0, MAX_TOKEN)
    for name, value in zip(strings, pipeline.execute(raise_on_error=False), strict=True):
        seen = read_token(value, time.time()) if isinstance(value, bytes) else None
        if seen is not None and seen.is_likely(expires=False):
            yield name
        elif seen is not None and seen.is_listed(expires=False):
            doubtful.append(name)


def read_replicas(info: bytes) -> list[Replica]:
    """Read the replicas from a master's reply to ``INFO``."""
    offset = _OFFSET.search(info)
    found = []
    for line in _REPLICA.findall(info):
        said = dict(part.split("=", 1) for part in line.decode(errors="replace").split(",") if "=" in part)
        reached = _number(said.get("offset"))
        found.append(
            Replica(
                address=format_address((said.get("ip", "?"), said.get("port", "?"))),
                state=said.get("state", "?"),
                behind=None if reached is None or offset is None else max(0, int(offset[1]) - reached),
                lag=_number(said.get("lag")),
            )
        )
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def format_address(address: tuple[str, object]) -> str:
    """Return ``host:port``, an IPv6 address in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# ---- sentinels and clusters ------------------------------------------------------------------------------------------


def _probe_by_sentinels(url: SentinelUrl) -> Node:
    asked = _in_parallel(lambda address: _ask_sentinel(address, url.service), url.sentinels)
    named = Counter(master for _, master in asked if master is not None).most_common(1)
    view = SentinelView(url.service, [answer for answer, _ in asked], named[0][0] if named else None)
    if view.master is None:
        return Node(masked(url), error=f"no sentinel knows where {url.service!r} is", sentinels=view)
    node = _probe_server(_client(url.data, view.master), masked(url))
    node.sentinels = view
    return node


def _ask_sentinel(address: Address, service: str) -> tuple[SentinelAnswer, Address | None]:
    where = format_address(address)
    with _client("redis://", address) as sentinel:
        try:
            master = read_master(sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service))
            if master is None:
                return SentinelAnswer(where), None
            doubts = None
            try:
                sentinel.execute_command("SENTINEL", "CKQUORUM", service)
            except rx.ResponseError as error:
                doubts = str(error) if str(error).startswith("NOQUORUM") else None
        except (rx.RedisError, OSError) as error:
            return SentinelAnswer(where, error=_describe(error)), None
    return SentinelAnswer(where, master=format_address(master), doubts=doubts), master


def _probe_cluster(any_node: Any, seeds: Sequence[Address], url: str) -> Node:
    settings, tls = _settings_of(any_node)
    node = Node(url_of_cluster(tuple(seeds), settings, tls=tls))
    for seed in seeds:
        try:
            with _client(url, seed) as client:
                slots = read_slots(client.execute_command("CLUSTER", "SLOTS"), seed, None)
        except (rx.RedisError, OSError) as error:
            node.error = _describe(error)
            continue
        node.error = None
        node.unserved = SLOTS - sum(last - first + 1 for first, last, _ in slots)
        masters = list(dict.fromkeys(master for _, _, master in slots))
        node.masters = _in_parallel(lambda address: _probe_server(_client(url, address)), masters)
        break
    return node
