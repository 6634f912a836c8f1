"""Where the master is: asked of sentinels, at each new connection.

A sentinel is asked for the address of a service's master, one after another until one knows; the one that answered is
asked first the next time. Whether what is found there is a master is for the new connection to see: a sentinel may be
behind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, final
from urllib.parse import quote, unquote, urlsplit

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.exceptions as rx
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson.core.runtime import NotSent
from pyredisson.wire import as_redis_error

__all__ = ["ASK_AGAIN", "ASK_LATER", "Address", "Locator", "SentinelUrl", "Sentinels", "parse_sentinel_url"]

SCHEME = "redis+sentinel://"
DEFAULT_PORT = 26379

_ADDRESS = re.compile(r"(?P<host>\[[^\]]+\]|[^:,\[\]]+)(?::(?P<port>\d{1,5}))?")

#: A master that was replaced goes on for seconds before it learns of that: so often, in seconds, we ask who it is.
ASK_AGAIN = 1.0
#: And so often while no sentinel answers: each time may cost a request a quarter of a second.
ASK_LATER = 5.0

Address = tuple[str, int]
"""Host and port."""


@final
class SentinelUrl:
    """What ``redis+sentinel://`` says.

    Attributes:
        sentinels: Where they are.
        service: The name under which they know the master.
        data: The URL, as redis-py reads it, of a server in the master's place; its host and port mean nothing.
        masked: The URL itself, password masked.
    """

    def __init__(self, sentinels: Sequence[Address], service: str, data: str, masked: str) -> None:
        self.sentinels = sentinels
        self.service = service
        self.data = data
        self.masked = masked


def parse_sentinel_url(url: object) -> SentinelUrl | None:
    """Read ``redis+sentinel://[[user]:password@]host:port[,host:port]/service[/db]``; ``None`` for any other URL.

    User and password are the data servers'. What follows a ``?`` are settings, as in redis-py's URLs.

    Raises:
        ValueError: It begins like that, and goes on otherwise.
    """
    if not isinstance(url, str) or not url.startswith(SCHEME):
        return None
    parts = urlsplit("//" + url.removeprefix(SCHEME), allow_fragments=False)
    login, _, hosts = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    sentinels = [_address(each) for each in hosts.split(",")]
    service, _, db = parts.path.lstrip("/").partition("/")
    if not service:
        raise ValueError(f"{SCHEME}host:port/service names the service whose master the sentinels know")
    if db and not db.isdecimal():
        raise ValueError(f"the database behind the service must be a number, not {db!r}")
    behind = f"?{parts.query}" if parts.query else ""
    data = f"redis://{login + '@' if login else ''}sentinel:0/{db or 0}{behind}"
    secret = ":***" if colon else ""
    shown = f"{user}{secret}@" if login else ""
    listed = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in sentinels)
    masked = f"{SCHEME}{shown}{listed}/{quote(unquote(service))}/{db or 0}"
    return SentinelUrl(sentinels, unquote(service), data, masked)


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"] or DEFAULT_PORT) < 65_536:
        raise ValueError(f"{SCHEME} wants host:port[,host:port], not {text!r}")
    return found["host"].strip("[]"), int(found["port"] or DEFAULT_PORT)


class Locator(Protocol):
    """Finds out where to connect."""

    def locate(self, timeout: float) -> Address:
        """Where the master is, asked within about ``timeout`` seconds. Raises ``NotSent`` if nobody knows."""
        ...

    async def locate_async(self, timeout: float) -> Address:
        """As :meth:`locate`, for an event loop."""
        ...

    def doubt(self) -> None:
        """What was told last is no master. Ask somebody else first the next time."""
        ...


@final
class Sentinels:
    """The sentinels of one service.

    Args:
        url: Where they are.
        settings: For the connections to them: ``username``, ``password``, ``ssl`` and the like, as redis-py has them.
    """

    def __init__(self, url: SentinelUrl, settings: dict[str, Any] | None = None) -> None:
        self._url = url
        self._settings = dict(settings or {})
        self._order = list(url.sentinels)

    @property
    def url(self) -> str:
        """The URL, password masked."""
        return self._url.masked

    def _asked(self, timeout: float) -> Iterator[tuple[Address, dict[str, Any]]]:
        # All of them within the time that there is for connecting, as far as it goes: a dead one must not cost it all.
        each = max(timeout / math.sqrt(len(self._order)), 0.05)
        for address in tuple(self._order):
            times = {"socket_timeout": each, "socket_connect_timeout": each}
            yield address, {**self._settings, **times, "host": address[0], "port": address[1]}

    def locate(self, timeout: float) -> Address:
        """See :meth:`Locator.locate`."""
        said = []
        for address, settings in self._asked(timeout):
            sentinel: Any = redis.Redis(**settings, retry=Retry(NoBackoff(), 0))
            try:
                with sentinel:
                    reply: Any = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.service)
            except (rx.RedisError, OSError) as error:
                said.append(f"{address[0]}:{address[1]}: {as_redis_error(error)}")
                continue
            if reply:
                return self._found(address, reply)
            said.append(f"{address[0]}:{address[1]} knows no {self._url.service!r}")
        raise self._nowhere(said)

    async def locate_async(self, timeout: float) -> Address:
        """See :meth:`Locator.locate_async`."""
        said = []
        for address, settings in self._asked(timeout):
            sentinel: Any = redis.asyncio.Redis(**settings, retry=redis.asyncio.retry.Retry(NoBackoff(), 0))
            try:
                reply: Any = await sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.service)
            except (rx.RedisError, OSError) as error:
                said.append(f"{address[0]}:{address[1]}: {as_redis_error(error)}")
                continue
            finally:
                await sentinel.aclose()
            if reply:
                return self._found(address, reply)
            said.append(f"{address[0]}:{address[1]} knows no {self._url.service!r}")
        raise self._nowhere(said)

    def doubt(self) -> None:
        """See :meth:`Locator.doubt`."""
        self._order = [*self._order[1:], *self._order[:1]]

    def _found(self, address: Address, reply: Any) -> Address:
        self._order = [address, *(other for other in self._order if other != address)]
        host, port = (each.decode() if isinstance(each, bytes) else str(each) for each in reply)
        return host, int(port)

    def _nowhere(self, said: Sequence[str]) -> NotSent:
        return NotSent(rx.ConnectionError(f"no sentinel tells where {self._url.service!r} is ({'; '.join(said)})"))
