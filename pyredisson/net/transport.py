"""What moves the bytes of a link: connections to one server, and how they are made. It decides nothing.

``async`` means "may block" here, as in the core: under threads these methods block, and never suspend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyredisson.net.wire import Dialler

if TYPE_CHECKING:
    from pyredisson.net.link import Stream
    from pyredisson.net.pool import Pool
    from pyredisson.net.wire import Address, Connect, Introduce, Wire


class Transport(Dialler, Protocol):
    """Makes connections to one server, or to whichever server an address names.

    Attributes:
        direct: Whether a request can be sent on its connections now, and the reply received later; see ``fan_out``.
        watchdog: The :meth:`caller` that must never wait behind others.
    """

    direct: bool
    watchdog: object

    def pools(self, connect: Connect, introduce: Introduce, connect_timeout: float) -> tuple[Pool, Pool]:
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
