"""What the core tells those who watch: one frozen dataclass a happening.

Listeners (``Config.listeners``) are called where it happens, so they must be quick; what they raise is logged and
goes no further. ``pyredisson.observe`` turns events into log lines.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "Acquired",
    "CallbackFailed",
    "ConnectionDown",
    "ConnectionUp",
    "Event",
    "GivenBack",
    "HolderGone",
    "Lost",
    "OutcomeUnknown",
    "Released",
    "RenewalFailed",
    "Renewed",
    "TimedOut",
]


@dataclass(frozen=True)
class Event:
    """Something happened in a client."""


@dataclass(frozen=True)
class LockEvent(Event):
    """Something happened to a hold.

    Attributes:
        name: The lock.
        owner: The holder's field in Redis: ``<client id>:<thread id>``.
    """

    name: str
    owner: str


@dataclass(frozen=True)
class Acquired(LockEvent):
    """A hold was taken; ``waited`` seconds after it was asked for. ``holds`` counts this one."""

    waited: float
    holds: int


@dataclass(frozen=True)
class TimedOut(LockEvent):
    """A lock was not got in time."""

    waited: float


@dataclass(frozen=True)
class Released(LockEvent):
    """A hold was given back; ``holds`` are left."""

    holds: int


@dataclass(frozen=True)
class Lost(LockEvent):
    """A holder lost its lock: ``reason`` says how that was learnt."""

    reason: str


@dataclass(frozen=True)
class HolderGone(LockEvent):
    """A thread or task ended while it held the lock; it is renewed no longer."""

    hint: str


@dataclass(frozen=True)
class OutcomeUnknown(LockEvent):
    """A request was sent and its outcome could not be learnt; it is being settled in the background."""

    request: str
    error: BaseException


@dataclass(frozen=True)
class GivenBack(LockEvent):
    """What an unanswered request may have taken was given back."""


@dataclass(frozen=True)
class Renewed(Event):
    """A round of renewals is over: so many locks, in so many requests."""

    locks: int
    requests: int


@dataclass(frozen=True)
class RenewalFailed(Event):
    """A renewal was not answered, for the ``attempt``-th time in a row; it is repeated until the deadlines."""

    locks: int
    error: BaseException
    attempt: int


@dataclass(frozen=True)
class ConnectionDown(Event):
    """The subscriber's connection was lost, or could not be made, for the ``attempt``-th time in a row."""

    error: BaseException
    attempt: int


@dataclass(frozen=True)
class ConnectionUp(Event):
    """The subscriber's connection stands (again), with so many channels."""

    channels: int


@dataclass(frozen=True)
class CallbackFailed(Event):
    """A callback of the user's raised."""

    callback: str
    error: BaseException
