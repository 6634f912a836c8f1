"""What the links to servers share, for threads and asyncio: ``async`` means "may block" here too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

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
    """Do nothing: the initial ``on_change`` and ``on_queue_refused`` of a link."""


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
