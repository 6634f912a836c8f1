"""The link to one server, for threads and asyncio: ``async`` means "may block" here too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from pyredisson.core.failures import Failure
from pyredisson.core.runtime import Acknowledging, Reply, Request
from pyredisson.net.resp import pack

#: Seconds that making a connection may take at least, however small the timeout of the request that needs it.
CONNECTING = 0.25

#: Seconds after which ``WAIT`` is sent again: it asks only those replicas that are in step when it is sent. Others
#: report what they have by themselves, but only once a second.
WAIT_AGAIN = 0.1

#: What a new connection is asked first. Without sections: Redis 6.2 takes one at most.
INFO = pack("INFO")

Inspect: TypeAlias = Callable[[object, float], None]
"""Takes the reply to ``INFO`` on a new connection, and the seconds that it took.

Raises a ``Failure`` if the connection is not to be used.
"""

Introduce: TypeAlias = Callable[[], Sequence[bytes]]
"""Returns the commands by which a new connection of ours says whose it is; see :mod:`pyredisson.net.introduction`."""


def ignore() -> None:
    """Do nothing: the initial :attr:`Link.on_change` and :attr:`Link.on_queue_refused`."""


def wait_command(replicas: int, seconds: float) -> bytes:
    """Return the command that waits until ``replicas`` replicas have what was written on this connection."""
    return pack("WAIT", replicas, max(1, math.ceil(seconds * 1000)))  # 0 would be forever.


class Link(Protocol):
    """Connections to one server: of our own, or borrowed from the user's pool; or to all the nodes of a cluster.

    Attributes:
        scattered: Whether names are on several servers, by their slots.
        inspect: Who wants to know of each new connection what its server says of itself. One of the user's counts as
            new when it is first used here.
        app: What the user's own settings call their connections; ``None``: nothing.
        introduce: How connections of our own say whose they are; ``None``: they do not.
        on_change: Called when what is to be reached has moved: the master is another, or slots are elsewhere.
        on_queue_refused: Called when a script ran without the list of waiting clients, which the user may not use.
    """

    scattered: bool
    inspect: Inspect | None
    app: str | None
    introduce: Introduce | None
    on_change: Callable[[], None]
    on_queue_refused: Callable[[], None]

    def counts_listeners(self) -> bool:
        """Return whether a script that publishes learns how many hear it. See ``Runtime.counts_listeners``."""
        ...

    async def eval(self, request: Request, timeout: float) -> Reply:
        """Run a script once. See ``Runtime.eval``."""
        ...

    async def eval_synced(
        self, request: Request, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        """Run a script once, and let replicas acknowledge it. See ``Runtime.eval_synced``."""
        ...

    async def eval_all(self, requests: Sequence[Request], timeout: float) -> list[Reply | Failure]:
        """Run many scripts, each once. See ``Runtime.eval_all``."""
        ...

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        """Run a command once. See ``Runtime.ask``."""
        ...

    async def stream(self, timeout: float) -> Stream:
        """Make a connection for a subscriber alone."""
        ...

    async def follow(self) -> bool:
        """Find out whether what is to be reached has moved. Returns whether that can be asked."""
        ...

    def reserve(self) -> None:
        """The calling thread or task (the watchdog's) must never wait for a connection behind another caller."""
        ...

    def close(self) -> None:
        """Close what is ours."""
        ...

    def abandon(self) -> None:
        """Forget everything without a word to the server: this is the child of a fork."""
        ...


class NodeLink(Link, Protocol):
    """Connections of our own to one node of a cluster."""

    async def eval_synced(
        self,
        request: Request,
        timeout: float,
        sync: Acknowledging,
        sync_timeout: float,
        *,
        asking: bool = False,
    ) -> tuple[Reply, int | Failure]:
        """As for any link. ``asking``: although the node does not (yet) serve its slot, see :meth:`call_asking`."""
        ...

    async def call_asking(self, data: bytes, timeout: float) -> Reply:
        """Send a packed request once although the node does not (yet) serve its slot: another one has sent us here."""
        ...


class Stream(Protocol):
    """A connection on which messages come by themselves."""

    def send(self, data: bytes) -> None:
        """Send a command; any thread may. Raises ``OSError`` or an error of redis-py."""
        ...

    async def read(self, timeout: float) -> list[Any] | None:
        """Return what is received within ``timeout``, an empty list for nothing, ``None`` at its end."""
        ...

    def wake(self) -> None:
        """Let :meth:`read` return now; any thread may."""
        ...

    def close(self) -> None:
        """Close it."""
        ...
