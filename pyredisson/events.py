"""What the core tells those who watch: one frozen dataclass a happening.

Listeners (``Config.listeners``) are called where it happens, so they must be quick; what they raise is logged and
goes no further. ``pyredisson.observe`` turns events into log lines.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

__all__ = [
    "Acquired",
    "BackgroundFailed",
    "CallbackFailed",
    "ClientCollected",
    "ConnectionDown",
    "ConnectionUp",
    "Event",
    "GivenBack",
    "HolderGone",
    "LeftBehind",
    "LockEvent",
    "Lost",
    "NodeBarred",
    "OutcomeUnknown",
    "PermitsNeverSet",
    "QuorumIsYoung",
    "Released",
    "RenewalFailed",
    "Renewed",
    "ServerUnsafe",
    "TimedOut",
    "WatchdogLate",
]


@dataclass(frozen=True, eq=False, repr=False)
class Event:
    """Something happened in a client."""

    # Written once here instead of being generated for each: that was a third of the time to import the library.

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._items() == other._items()

    def __hash__(self) -> int:
        return hash((type(self), *self._items()))

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True, eq=False, repr=False)
class LockEvent(Event):
    """Something happened to a hold.

    Attributes:
        name: The lock.
        owner: The holder's field in Redis: ``<client id>:<thread id>``.
    """

    name: str
    owner: str


@dataclass(frozen=True, eq=False, repr=False)
class Acquired(LockEvent):
    """A hold was acquired, ``waited`` seconds after it was asked for. ``holds`` counts this one."""

    waited: float
    holds: int


@dataclass(frozen=True, eq=False, repr=False)
class TimedOut(LockEvent):
    """A lock was not acquired in time; somebody has ``waited`` so many seconds for it."""

    waited: float


@dataclass(frozen=True, eq=False, repr=False)
class Released(LockEvent):
    """A hold was released, which was held for ``held`` seconds; ``holds`` are left."""

    holds: int
    held: float


@dataclass(frozen=True, eq=False, repr=False)
class Lost(LockEvent):
    """A holder lost its lock: ``reason`` says how that was learnt."""

    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class HolderGone(LockEvent):
    """A thread or task ended while it held the lock; it is renewed no longer."""

    hint: str


@dataclass(frozen=True, eq=False, repr=False)
class LeftBehind(LockEvent):
    """A thread went on to another call while it holds the lock for an earlier one; ``holder`` says which thread."""

    holder: str


@dataclass(frozen=True, eq=False, repr=False)
class OutcomeUnknown(LockEvent):
    """A request was sent and its outcome could not be learnt; it is being settled in the background."""

    request: str
    error: BaseException


@dataclass(frozen=True, eq=False, repr=False)
class GivenBack(LockEvent):
    """What an unanswered request may have taken was given back."""


@dataclass(frozen=True, eq=False, repr=False)
class PermitsNeverSet(LockEvent):
    """Somebody waits for permits of a semaphore that was never given any. Told once a client and semaphore."""


@dataclass(frozen=True, eq=False, repr=False)
class Renewed(Event):
    """A round of renewals is over: so many locks, in so many requests."""

    locks: int
    requests: int


@dataclass(frozen=True, eq=False, repr=False)
class RenewalFailed(Event):
    """A renewal was not answered, for the ``attempt``-th time in a row; it is repeated until the deadlines."""

    locks: int
    error: BaseException
    attempt: int


@dataclass(frozen=True, eq=False, repr=False)
class WatchdogLate(Event):
    """The watchdog ran so many ``seconds`` too late, or has not run yet. Emitted once a client."""

    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class ConnectionDown(Event):
    """The subscriber's connection was lost, or could not be made, for the ``attempt``-th time in a row."""

    error: BaseException
    attempt: int


@dataclass(frozen=True, eq=False, repr=False)
class ConnectionUp(Event):
    """The subscriber's connection stands (again), with so many channels."""

    channels: int


@dataclass(frozen=True, eq=False, repr=False)
class ServerUnsafe(Event):
    """A setting of the server endangers locks; ``text`` says how, and what to do. Told once a client and setting."""

    setting: str
    text: str


@dataclass(frozen=True, eq=False, repr=False)
class NodeBarred(Event):
    """A node of a quorum was started ``uptime`` seconds ago, and has no vote for another ``seconds``."""

    name: str
    node: str
    uptime: int
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class QuorumIsYoung(Event):
    """All nodes of a quorum are young, the oldest ``uptime`` seconds: taken for a first start, and so they vote."""

    name: str
    nodes: int
    uptime: int


@dataclass(frozen=True, eq=False, repr=False)
class ClientCollected(Event):
    """A client was garbage-collected while it held ``held`` locks, ``names`` among them: they end with their leases."""

    client_id: str
    names: tuple[str, ...]
    held: int


@dataclass(frozen=True, eq=False, repr=False)
class CallbackFailed(Event):
    """A callback of the user's raised."""

    callback: str
    error: BaseException


@dataclass(frozen=True, eq=False, repr=False)
class BackgroundFailed(Event):
    """Something that is settled in the background raised what it never should; it is tried again, as all else is."""

    what: str
    error: BaseException
