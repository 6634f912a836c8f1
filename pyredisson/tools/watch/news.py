"""What servers say without being asked: release messages, and notifications of keys where they are switched on.

Channels are subscribed to by patterns: such subscriptions are not counted as waiters by those who count the subscribers
of a channel. Only in a cluster with sharded messages there are no patterns.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, final

import redis
import redis.exceptions as rx

from pyredisson.core.names import forced_channel
from pyredisson.inspection.servers import TOOL_NAME, Server, Servers
from pyredisson.tools.common import BadUsage
from pyredisson.tools.watch.states import channels_of

READ_FOR = 0.2  # seconds until the thread looks whether it is to end
RETRY = 1.0  # seconds until a lost connection is made again

_GLOB = re.compile(r"([\\*?\[\]])")


def servers_at(url: str, timeout: float) -> Servers:
    """Return the servers at a URL that a user typed. Nothing is sent yet.

    Raises:
        BadUsage: The URL is not valid. The message does not repeat it: a part that failed to parse may be a password.
    """
    try:
        return Servers(url, timeout)
    except (ValueError, TypeError):
        raise BadUsage("--url is not a valid URL of a server, such as redis://localhost:6379") from None


def pubsub_of(server: Server) -> Any:
    """Return a connection of redis-py for subscriptions on a server. It is not connected yet."""
    settings = {**server.settings, "client_name": TOOL_NAME}
    kind: Any = redis.UnixDomainSocketConnection if "path" in settings else redis.Connection
    pool = redis.ConnectionPool(redis.SSLConnection if server.tls else kind, **settings)
    return redis.Redis(connection_pool=pool).pubsub()  # type: ignore[no-untyped-call]


@final
@dataclass(frozen=True)
class News:
    """Something that a server reported.

    Attributes:
        at: When it arrived, by the monotonic clock.
        kind: A release message, a forced unlock, a notification of a key, or a connection that was lost or is back.
        name: The key of the lock; empty for a connection.
        text: The name of the notification, or the reason of a loss.
    """

    at: float
    kind: Literal["message", "forced", "key", "lost", "back"]
    name: str = ""
    text: str = ""


@final
class NewsSubscription:
    """One server's news of some locks, read by a thread into a queue.

    Args:
        server: The server.
        keys: The keys of the locks.
        sharded: Whether releases are announced by ``SPUBLISH``.
        news: Where to put what it says.
    """

    def __init__(self, server: Server, keys: Sequence[str], *, sharded: bool, news: queue.SimpleQueue[News]) -> None:
        self._server = server
        self._names = {channel: key for key in keys for channel in channels_of(key)}
        self._forced = {forced_channel(key): key for key in keys}
        self._keys = {f"__keyspace@{server.settings.get('db') or 0}__:{key}": key for key in keys}
        self._sharded = sharded
        self._news = news
        self._closed = False
        self.ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="pyredisson watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._thread.join(2 * READ_FOR)

    def _read_on(self) -> None:
        lost = False
        while not self._closed:
            try:
                with closing(pubsub_of(self._server)) as pubsub:
                    self._subscribe(pubsub)
                    self.ready.set()
                    if lost:
                        lost = False
                        self._tell("back")
                    while not self._closed:
                        self._read(pubsub.get_message(timeout=READ_FOR))
            except (rx.RedisError, OSError) as error:
                if not lost:
                    lost = True
                    self._tell("lost", text=str(error))
                time.sleep(RETRY)

    def _subscribe(self, pubsub: Any) -> None:
        pubsub.psubscribe(*(_GLOB.sub(r"\\\1", channel) + "*" for channel in self._names))
        pubsub.subscribe(*self._forced, *self._keys)
        if self._sharded:
            for channel in self._names:  # One by one: those of one request have to share a slot.
                pubsub.ssubscribe(channel)

    def _read(self, message: Any) -> None:
        match message:
            case {"type": "message" | "pmessage" | "smessage", "channel": bytes() as channel, "data": data}:
                text = channel.decode(errors="replace")
                if text in self._keys:
                    self._tell(
                        "key", self._keys[text], data.decode(errors="replace") if isinstance(data, bytes) else ""
                    )
                elif text in self._forced:
                    self._tell("forced", self._forced[text])
                else:
                    # That of one waiter for a fair lock has its owner behind the lock's.
                    name = self._names.get(text) or next(
                        (name for channel, name in self._names.items() if text.startswith(f"{channel}:")), None
                    )
                    if name is not None:
                        self._tell("message", name)

    def _tell(self, kind: Any, name: str = "", text: str = "") -> None:
        self._news.put(News(time.monotonic(), kind, name, text))
