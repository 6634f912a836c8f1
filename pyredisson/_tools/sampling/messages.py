"""Messages that servers send without being asked, received in threads.

Channels are subscribed to by patterns: such subscriptions are not counted as waiters by those who count the subscribers
of a channel. Only in a cluster with sharded messages there are no patterns.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, final

import redis
import redis.exceptions as rx

from pyredisson.inspection.model import stored_kinds
from pyredisson.inspection.servers import TOOL_NAME, Server

READ_FOR = 0.2  # seconds until a thread checks whether it is to end
RETRY = 1.0  # seconds until a lost connection is made again

#: What stands before the names in the channels of releases; counting down a latch is none.
RELEASES = sorted(
    {kind.names("x").channel.partition("{")[0] for kind in stored_kinds().values() if kind.number != "count"}
)

_CHANNEL = re.compile(rf"(?:{'|'.join(map(re.escape, RELEASES))})(.*)", re.DOTALL)
_WAITER = re.compile(r":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$")
_GLOB = re.compile(r"([\\*?\[\]])")


def without_waiter(channel: str) -> str:
    """Return the channel of a lock's releases, also for that of one waiter for a fair lock."""
    return _WAITER.sub("", channel)


def name_of(channel: str) -> str | None:
    """Return the lock whose release is announced on a channel."""
    found = _CHANNEL.fullmatch(without_waiter(channel))
    if found is None:
        return None
    name = found[1]
    return name[1:-1] if name.startswith("{") and name.find("}") == len(name) - 1 else name


@final
@dataclass(frozen=True)
class Message:
    """Something that a server announced.

    Attributes:
        at: When it arrived, by the monotonic clock.
        kind: A message, a connection that was lost or is back, or a subscription that was refused.
        channel: The channel of a message.
        text: What it says, or the reason of a loss.
    """

    at: float
    kind: Literal["message", "lost", "back", "refused"]
    channel: str = ""
    text: str = ""


@final
class MessageReader:
    """One server's messages, received by a thread until it is closed; a lost connection is made again.

    Args:
        server: The server.
        receive: Called in that thread with each message.
        beginnings: How channels begin.
        channels: Whole channels.
        sharded: Whole channels of ``SPUBLISH``.
    """

    def __init__(
        self,
        server: Server,
        receive: Callable[[Message], None],
        *,
        beginnings: Collection[str],
        channels: Collection[str] = (),
        sharded: Collection[str] = (),
    ) -> None:
        self._server, self._receive = server, receive
        self._patterns = [_GLOB.sub(r"\\\1", each) + "*" for each in beginnings]
        self._channels, self._sharded = channels, sharded
        self._closed = False
        #: Set while it is connected and the first subscription is confirmed.
        self.ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="pyredisson messages", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End soon, without waiting."""
        self._closed = True

    def close(self) -> None:
        """Close the connection."""
        self.end()
        self._thread.join(2 * READ_FOR)

    def _read_on(self) -> None:
        lost = False
        while not self._closed:
            try:
                with closing(_pubsub_of(self._server)) as pubsub:
                    self._subscribe(pubsub)
                    while not self._closed:
                        message = pubsub.get_message(timeout=READ_FOR)
                        if message is not None and lost:
                            lost = False
                            self._receive(Message(time.monotonic(), "back"))
                        self._read(message)
            except rx.NoPermissionError as error:
                self._receive(Message(time.monotonic(), "refused", text=str(error)))
                return  # Asked again it would say the same.
            except (rx.RedisError, OSError) as error:
                self.ready.clear()
                if not lost:
                    lost = True
                    self._receive(Message(time.monotonic(), "lost", text=str(error)))
                time.sleep(RETRY)

    def _subscribe(self, pubsub: Any) -> None:
        pubsub.psubscribe(*self._patterns)
        if self._channels:
            pubsub.subscribe(*self._channels)
        for channel in self._sharded:  # One by one: those of one request have to share a slot.
            pubsub.ssubscribe(channel)

    def _read(self, message: Any) -> None:
        match message:
            case {"type": "psubscribe"}:
                self.ready.set()
            case {"type": "message" | "pmessage" | "smessage", "channel": bytes() as channel, "data": data}:
                text = data.decode(errors="replace") if isinstance(data, bytes) else ""
                self._receive(Message(time.monotonic(), "message", channel.decode(errors="replace"), text))


def _pubsub_of(server: Server) -> Any:
    """Return a connection of redis-py for subscriptions on a server. It is not connected yet."""
    settings = {**server.settings, "client_name": TOOL_NAME}
    kind: Any = redis.UnixDomainSocketConnection if "path" in settings else redis.Connection
    pool = redis.ConnectionPool(redis.SSLConnection if server.tls else kind, **settings)
    return redis.Redis(connection_pool=pool).pubsub()  # type: ignore[no-untyped-call]
