"""What ``pyredisson doctor`` asks of those who know servers: of sentinels, of a master about its replicas, of clusters.

Reads only. What was seen is plain data; what follows from it is decided in :mod:`pyredisson.tools.doctor`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, final

import redis
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson.net.sentinel import SentinelUrl
from pyredisson.net.slots import SLOTS, Address, read_slots
from pyredisson.net.urls import known_url

__all__ = ["Follower", "SentinelSeen", "Watch", "ask_sentinels", "client_of", "masters_of", "read_followers", "shown"]

_FOLLOWER = re.compile(rb"^slave\d+:(.*?)\r?$", re.MULTILINE)
_OFFSET = re.compile(rb"^master_repl_offset:(\d+)\r?$", re.MULTILINE)


@final
@dataclass(frozen=True)
class Follower:
    """A replica, as its master sees it.

    Attributes:
        address: Where it is.
        state: ``"online"`` once it has a copy and follows.
        behind: By how many bytes; ``None`` if that is not told.
        lag: Seconds since it said last how far it is; ``None`` if that is not told.
    """

    address: str
    state: str
    behind: int | None
    lag: int | None


def read_followers(info: bytes) -> list[Follower]:
    """Read the replicas out of a master's reply to ``INFO``."""
    offset = _OFFSET.search(info)
    found = []
    for line in _FOLLOWER.findall(info):
        said = dict(part.split("=", 1) for part in line.decode(errors="replace").split(",") if "=" in part)
        reached = _whole(said.get("offset"))
        found.append(
            Follower(
                address=f"{_bracketed(said.get('ip', '?'))}:{said.get('port', '?')}",
                state=said.get("state", "?"),
                behind=None if reached is None or offset is None else max(0, int(offset[1]) - reached),
                lag=_whole(said.get("lag")),
            )
        )
    return found


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def shown(address: Address) -> str:
    """An address, for reading."""
    return f"{_bracketed(address[0])}:{address[1]}"


# ---- sentinels -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SentinelSeen:
    """What one sentinel says.

    Attributes:
        address: Where it is.
        error: Why it could not be asked; ``None`` if it could.
        master: Where it says the master is; ``None`` if it knows no such service.
        doubts: Why it could not have the master replaced; ``None`` if it could, or does not tell.
    """

    address: str
    error: str | None = None
    master: str | None = None
    doubts: str | None = None


@final
@dataclass(frozen=True)
class Watch:
    """What the sentinels of a URL say.

    Attributes:
        service: What they watch.
        sentinels: Each of those that the URL names.
        master: Where most of them say that the master is; ``None`` if none says.
    """

    service: str
    sentinels: Sequence[SentinelSeen]
    master: Address | None


def ask_sentinels(url: SentinelUrl, patience: float) -> Watch:
    """Ask all sentinels, each within ``patience`` seconds."""
    with ThreadPoolExecutor(max_workers=len(url.sentinels)) as pool:
        asked = list(pool.map(lambda address: _ask_sentinel(address, url.service, patience), url.sentinels))
    named = Counter(master for _, master in asked if master is not None)
    return Watch(
        service=url.service,
        sentinels=[seen for seen, _ in asked],
        master=named.most_common(1)[0][0] if named else None,
    )


def _ask_sentinel(address: Address, service: str, patience: float) -> tuple[SentinelSeen, Address | None]:
    where = shown(address)
    host, port = address
    with redis.Redis(
        host, port, socket_timeout=patience, socket_connect_timeout=patience, retry=Retry(NoBackoff(), 0)
    ) as client:
        sentinel: Any = client
        try:
            said: Any = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
            if not said:
                return SentinelSeen(where), None
            named, at = (each.decode() if isinstance(each, bytes) else str(each) for each in said)
            master = (named, int(at))
            doubts = None
            try:
                sentinel.execute_command("SENTINEL", "CKQUORUM", service)
            except rx.ResponseError as error:
                doubts = str(error) if str(error).startswith("NOQUORUM") else None
        except (rx.RedisError, OSError) as error:
            return SentinelSeen(where, error=f"{type(error).__name__}: {error}"), None
    return SentinelSeen(where, master=shown(master), doubts=doubts), master


# ---- clusters --------------------------------------------------------------------------------------------------------


def masters_of(seeds: Sequence[Address], url: str, patience: float) -> tuple[list[Address], int]:
    """The masters of a cluster, as the first node says that answers, and how many slots they do not serve.

    ``url`` is that of any node, for the login and the like.

    Raises:
        redis.RedisError, OSError: No node answers; what the last one met with.
    """
    trouble: Exception = rx.ConnectionError("no nodes")
    for seed in seeds:
        client: Any = client_of(url, patience, seed)
        try:
            client.response_callbacks.clear()
            slots = read_slots(client.execute_command("CLUSTER", "SLOTS"), seed, None)
        except (rx.RedisError, OSError) as error:
            trouble = error
            continue
        finally:
            client.close()
        served = sum(last - first + 1 for first, last, _ in slots)
        return list(dict.fromkeys(master for _, _, master in slots)), SLOTS - served
    raise trouble


def client_of(url: str, patience: float, address: Address | None = None) -> redis.Redis:
    """A client that asks once and in time, for a URL of one server, or with its settings for another address.

    Raises:
        ValueError: The URL leads nowhere.
    """
    client = redis.Redis.from_url(
        known_url(url), socket_timeout=patience, socket_connect_timeout=patience, retry=Retry(NoBackoff(), 0)
    )
    settings = client.connection_pool.connection_kwargs
    settings["decode_responses"] = False  # Whatever the URL says.
    if address is not None:
        settings["host"], settings["port"] = address
    return client
