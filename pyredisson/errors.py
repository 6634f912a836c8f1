"""Every error that pyredisson itself raises.

::

    Exception
    └── RedissonError
        ├── ClientClosedError              the client was closed
        └── LockError (RuntimeError)       a lock or synchronizer could not do what was asked
            ├── LockNotOwnedError          released by someone who does not hold it
            │   └── LockLostError          ... but who did, until the lease ended or was taken away
            ├── LockTimeoutError           hold() did not get the lock in time (TimeoutError)
            ├── OutcomeUnknownError        a request may or may not have taken effect
            ├── StaleTokenError            a late write was refused by a fencing guard
            ├── NoSyncedSlavesError        too few replicas acknowledged
            └── QuorumUnreachableError     too few nodes answered (ConnectionError)

Errors of the connection itself stay what redis-py makes them (``redis.exceptions``). Bad arguments raise
``ValueError`` or ``TypeError`` before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """The base of every error in this module.

    Attributes:
        name: The lock or synchronizer concerned, or ``None``.
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
    """The client, or what it made, was used after ``close()``; waiters are woken with it too."""


class LockError(RedissonError, RuntimeError):
    """A lock could not do what was asked. ``threading`` raises ``RuntimeError`` in such cases, so this is one."""


class LockNotOwnedError(LockError):
    """The calling thread (or task) does not hold what it wanted to release."""


class LockLostError(LockNotOwnedError):
    """The calling thread (or task) held the lock, and its lease ran out or was taken away."""


class LockTimeoutError(LockError, TimeoutError):
    """The lock was not got within the time given to ``hold()``."""


class OutcomeUnknownError(LockError):
    """A request was sent and the server could not be asked what became of it; ``__cause__`` says why."""


class StaleTokenError(LockError):
    """A guard refused a write: its fencing token is smaller than one that was seen there before.

    Attributes:
        token: The token of the write.
        seen: The greatest one seen.
    """

    def __init__(
        self, message: str = "", *, name: str | None = None, token: int | None = None, seen: int | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.token = token
        self.seen = seen


class NoSyncedSlavesError(LockError):
    """Too few replicas acknowledged in time. What the call had taken was given back."""


class QuorumUnreachableError(LockError, ConnectionError):
    """Too few nodes of a quorum could be reached.

    Attributes:
        nodes: What each node said: a word of its state, or the error.
    """

    def __init__(
        self, message: str = "", *, name: str | None = None, nodes: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.nodes = dict(nodes or {})
