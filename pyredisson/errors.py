"""The errors that pyredisson raises.

::

    Exception
    └── RedissonError
        ├── ClientClosedError              the client was closed
        └── LockError (RuntimeError)       a lock or synchronizer could not do what was requested
            ├── LockNotOwnedError          released by a thread or task that does not hold it
            │   └── LockLostError          ... but held it until the lease expired or the lock was taken from it
            ├── LockTimeoutError           hold() did not acquire the lock in time (TimeoutError)
            ├── OutcomeUnknownError        a request may or may not have taken effect
            ├── StaleTokenError            a fencing guard refused a late write
            ├── NoSyncedSlavesError        too few replicas acknowledged an acquire
            └── QuorumUnreachableError     too few nodes of a quorum answered (ConnectionError)

Connection errors are those of redis-py (``redis.exceptions``). Invalid arguments raise ``ValueError`` or ``TypeError``
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyredisson.holders import Holder

__all__ = [
    "ClientClosedError",
    "LockError",
    "LockLostError",
    "LockNotOwnedError",
    "LockTimeoutError",
    "NoSyncedSlavesError",
    "OutcomeUnknownError",
    "QuorumUnreachableError",
    "RedissonError",
    "StaleTokenError",
]


class RedissonError(Exception):
    """The base class of the errors in this module.

    Attributes:
        name: The name of the lock or synchronizer, or ``None``.
    """

    def __init__(self, message: str = "", *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments are not in self.args, so say how to rebuild: errors cross process pools.
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(kind: type[RedissonError], args: tuple[Any, ...], state: dict[str, Any]) -> RedissonError:
    error = kind(*args)
    error.__dict__.update(state)
    return error


class ClientClosedError(RedissonError):
    """The client or one of its locks was used after ``close()``. Waiters are woken with this error, too."""


class LockError(RedissonError, RuntimeError):
    """A lock could not do what was requested. It is a ``RuntimeError``, as ``threading`` raises in such cases."""


class LockNotOwnedError(LockError):
    """The calling thread (or task) does not hold the lock that it tried to release.

    Attributes:
        holder: Who holds it, as far as that could be found out; ``None``: no one, or it is not known.
    """

    def __init__(self, message: str = "", *, name: str | None = None, holder: Holder | None = None) -> None:
        super().__init__(message, name=name)
        self.holder = holder


class LockLostError(LockNotOwnedError):
    """The calling thread (or task) held the lock, and lost it: the lease expired, or the lock was taken from it."""

    _early = False  # Whether no one else can have acquired it by then, unless it was taken away.
    _confirmed = True  # Whether its server has confirmed that it was not.


class LockTimeoutError(LockError, TimeoutError):
    """The lock was not acquired within the wait time of ``hold()``.

    Attributes:
        holder: Who holds it, as far as that could be found out; ``None``: no one, or it is not known.
    """

    def __init__(self, message: str = "", *, name: str | None = None, holder: Holder | None = None) -> None:
        super().__init__(message, name=name)
        self.holder = holder


class OutcomeUnknownError(LockError):
    """A request was sent, and its outcome could not be determined in time; ``__cause__`` is the reason."""


class StaleTokenError(LockError):
    """A guard refused a write, since its fencing token is smaller than one seen before.

    Attributes:
        token: The token of the write.
        seen: The greatest token seen.
    """

    def __init__(
        self, message: str = "", *, name: str | None = None, token: int | None = None, seen: int | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.token = token
        self.seen = seen


class NoSyncedSlavesError(LockError):
    """Too few replicas acknowledged an acquire in time. It was released again."""


class QuorumUnreachableError(LockError, ConnectionError):
    """Too few nodes of a quorum could be reached.

    Attributes:
        nodes: The answer of each node: its state (``"granted"``, ``"held by another for 3.2 s"``) or the exception.
    """

    def __init__(
        self, message: str = "", *, name: str | None = None, nodes: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.nodes: dict[str, object] = dict(nodes or {})
