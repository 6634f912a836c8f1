"""What the links to servers share, for threads and asyncio: ``async`` means "may block" here too."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pyredisson._net.resp import pack
from pyredisson._net.wire import Dialler

if TYPE_CHECKING:
    from pyredisson._net.pool import Pool
    from pyredisson._net.wire import Address, Connect, Wire
    from pyredisson._net.wire import Introduce as IntroduceWire

#: Seconds that making a connection may take at least, however small the timeout of the request that needs it.
CONNECTING = 0.25

#: Seconds after which ``WAIT`` is sent again: it asks only those replicas that are in step when it is sent. Others
#: report what they have by themselves, but only once a second.
WAIT_AGAIN = 0.1

#: What a new connection is asked first. Without sections: Redis 6.2 takes one at most.
INFO = pack("INFO")

Inspect: TypeAlias = Callable[..., None]
"""Takes the reply to ``INFO`` on a new connection, the seconds that it took, and which node of a cluster it is of.

Raises a ``Failure`` if the connection is not to be used.
"""

MasterMoved: TypeAlias = Callable[[str, str, str, "Collection[int] | None"], object]
"""Called when another server is the master: of what, its address, the former one, and its slots (``None``: all)."""

Introduce: TypeAlias = Callable[[], Sequence[bytes]]
"""Returns the commands by which a new connection of ours says whose it is; see :mod:`pyredisson._net.introduction`."""


def ignore(*_: object) -> None:
    """Do nothing: the initial ``on_change``, ``on_moved`` and ``on_queue_refused`` of a link."""


def wait_command(replicas: int, seconds: float) -> bytes:
    """Return the command that waits until ``replicas`` replicas have what was written on this connection."""
    return pack("WAIT", replicas, max(1, math.ceil(seconds * 1000)))  # 0 would be forever.


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


class Transport(Dialler, Protocol):
    """Makes connections to one server, or to whichever server an address names.

    Attributes:
        direct: Whether a request can be sent on its connections now, and the reply received later; see ``fan_out``.
        watchdog: The :meth:`caller` that must never wait behind others.
    """

    direct: bool
    watchdog: object

    def pools(self, connect: Connect, introduce: IntroduceWire, connect_timeout: float) -> tuple[Pool, Pool]:
        """Return where requests find a connection; and those that need one for themselves.

        Args:
            connect: Makes a connection by :meth:`open`, within a timeout in seconds.
            introduce: Lets the server at the end of one say who it is.
            connect_timeout: How long a connection may take to be made.
        """
        ...

    def caller(self) -> object:
        """Return what identifies the calling thread or task."""
        ...

    async def open(self, address: Address | None, timeout: float) -> Wire:
        """Make a connection. ``None``: to where the settings say. Raises ``NotSent`` or ``Rejected``."""
        ...

    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        """Make a connection for a subscriber. Raises as :meth:`open`."""
        ...

    async def ask_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Run one command on a sentinel, to which these settings lead. Raises an error of redis-py or ``OSError``."""
        ...

    def close(self) -> None:
        """Close what is open, and end what is being made."""
        ...

    def abandon(self) -> None:
        """Let go of everything in the child of a fork, without a word to the server."""
        ...
