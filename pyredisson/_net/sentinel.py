"""Where the master is: asked of sentinels, at each new connection.

A sentinel is asked for the address of a service's master, one after another until one knows; the one that answered is
asked first the next time. Whether what is found there is a master is for the new connection to see: a sentinel may be
behind.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import redis.exceptions as rx

from pyredisson._core.failures import NotSent
from pyredisson._net.refusals import as_redis_error
from pyredisson._net.wire import Address, unexpected_reply

#: A master that was replaced goes on for seconds before it learns of that: so often, in seconds, we ask who it is.
QUERY_AGAIN = 1.0
#: And so often while no sentinel answers: each time may cost a request a quarter of a second.
QUERY_LATER = 5.0

QuerySentinel: TypeAlias = Callable[[dict[str, Any], tuple[str, ...], float], Awaitable[Any]]
"""Runs one command on a sentinel: with redis-py's settings for the connection, and within a timeout in seconds."""


class FoundBySentinels(NamedTuple):
    """A client whose server sentinels name, instead of its settings.

    Attributes:
        client: The client. Host and port of its settings mean nothing.
        sentinels: The sentinels.
    """

    client: Any
    sentinels: Sentinels


@final
class Whereabouts:
    """What one link knows of where its master is, and when it has to ask. Plain: nothing blocks.

    A caller that finds it elsewhere, for a new connection or because it was time to ask, finds it for all connections:
    those to where it was are to be left, though the server there may go on for a while as if it were the master still.
    """

    def __init__(self) -> None:
        self._address: Address | None = None  # As of the last answer.
        self._heard_at: Address | None = None  # Where the subscriber is.
        self._query_at = -math.inf

    def queried(self, now: float) -> None:
        """It is being asked for, for a new connection."""
        self._query_at = now + QUERY_AGAIN

    def not_known(self, now: float) -> None:
        """No sentinel knew: do not ask again so soon."""
        self._query_at = now + QUERY_LATER

    def found(self, address: Address) -> Address | None:
        """This is where it is now. Returns where it was before, if that was elsewhere: connections there are left."""
        former, self._address = self._address, address
        return former if former != address else None

    def hears_at(self, address: Address) -> None:
        """The subscriber goes there."""
        self._heard_at = address

    def hears_elsewhere(self) -> bool:
        """Whether the subscriber is to move. True once for each place where it was."""
        if self._heard_at in (None, self._address):
            return False
        self._heard_at = None
        return True

    def has_left(self, address: Address | None) -> bool:
        """Whether it is elsewhere now: a connection to there is not to be used any more."""
        return address != self._address

    def doubtful(self, now: float) -> bool:
        """Whether it is time to ask if the master is still where we are connected. The caller then asks."""
        if self._address is None or now < self._query_at:
            return False
        self._query_at = now + QUERY_AGAIN  # One of many asks.
        return True


@final
class Sentinels:
    """The sentinels of one service.

    Args:
        addresses: Where they are.
        service: The name under which they know the master.
        settings: For the connections to them: ``username``, ``password``, ``ssl`` and the like, as redis-py has them.

    Attributes:
        addresses, service, settings: As given.
    """

    def __init__(self, addresses: Sequence[Address], service: str, settings: dict[str, Any] | None = None) -> None:
        self.addresses = addresses
        self.service = service
        self.settings: dict[str, Any] = dict(settings or {})
        self._order = list(addresses)

    def doubt(self) -> None:
        """The last answer is no master: ask another sentinel first the next time."""
        self._order = [*self._order[1:], *self._order[:1]]

    async def locate(self, query: QuerySentinel, timeout: float) -> Address:
        """Return where the master is, asked within about ``timeout`` seconds. Raises ``NotSent`` if none knows."""
        order = self._order
        service = self.service
        # All of them within the time, as far as it goes; a dead one must not cost it all.
        each = max(timeout / math.sqrt(len(order)), 0.05)
        said: list[str] = []
        for sentinel in order:
            host, port = sentinel
            settings = {
                **self.settings,
                "host": host,
                "port": port,
                "socket_timeout": each,
                "socket_connect_timeout": each,
                "decode_responses": False,
            }
            try:
                master = read_master(await query(settings, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service), each))
            except (rx.RedisError, OSError) as error:
                said.append(f"{host}:{port}: {as_redis_error(error)}")
                continue
            if master is not None:
                self._order = [sentinel, *(other for other in self._order if other != sentinel)]
                return master
            said.append(f"{host}:{port} does not know {service!r}")
        raise NotSent(rx.ConnectionError(f"no sentinel knows the master of {service!r} ({'; '.join(said)})"))


def read_master(reply: object) -> Address | None:
    """Read a sentinel's reply to ``GET-MASTER-ADDR-BY-NAME``; ``None`` if it does not know the service.

    Raises:
        redis.exceptions.InvalidResponse: It is of another type.
    """
    match reply:
        case None | []:
            return None
        case [bytes() as host, bytes() as port]:
            return host.decode(), int(port)
    raise unexpected_reply("SENTINEL GET-MASTER-ADDR-BY-NAME", reply, "a sentinel")
