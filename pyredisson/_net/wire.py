"""One connection to one server, and how one comes to be made.

``async`` means "may block" here, as in the core: under threads these methods block, and never suspend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

Address: TypeAlias = tuple[str, int]
"""Host and port."""


class Wire(Protocol):
    """One connection to one server.

    Attributes:
        address: Where the server is, if it may be elsewhere for the next connection.
        used: When a request was answered on it last.
    """

    address: Address | None
    used: float

    def call(self, data: bytes, timeout: float, /) -> Awaitable[Any]:
        """Send a request and return the reply, or the error that was one.

        Raises:
            NotSent: Nothing that the server could execute has left.
            Unanswered: It has, and no reply was received.
        """
        ...

    def call_many(self, requests: Sequence[bytes], timeout: float, /) -> Awaitable[list[Any]]:
        """Send several requests at once and return the reply of each, or the error that was one, or a ``Failure``.

        Raises:
            NotSent, Unanswered: For all of them.
        """
        ...

    def usable(self) -> bool:
        """Whether it stands, as far as can be seen without asking the server."""
        ...

    def retire(self) -> None:
        """Close it as soon as nothing is in flight on it; nothing more is sent."""
        ...

    def close(self) -> None:
        """Close it."""
        ...

    def abandon(self) -> None:
        """Close it in the child of a fork, without a word to the server."""
        ...


Connect: TypeAlias = Callable[[float], Coroutine[Any, Any, Wire]]
Introduce: TypeAlias = Callable[[Any, float], Coroutine[Any, Any, None]]


class Dial(Protocol):
    """A connection being made, in the background.

    Attributes:
        began: When that began.
    """

    began: float

    @property
    def failure(self) -> BaseException | None:
        """Why it could not be made; ``None`` as long as it is being made, or if it was."""
        ...

    def done(self) -> bool:
        """Whether it has come to an end."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long. Returns whether it has come."""
        ...


class Dialler(Protocol):
    """Makes connections in the background."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        """Run what makes a connection, in the background."""
        ...

    async def room(self, timeout: float) -> bool:
        """Wait a moment if as many connections are open as may be. Returns whether another one may be made now.

        Raises:
            NotSent: There is no time left.
        """
        ...
