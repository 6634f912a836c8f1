"""The events that a client emits, one frozen dataclass each.

Listeners (``Config.listeners``) run where the event occurs, so they must return quickly; an exception of a listener is
logged and not propagated. What is no ``Exception``, such as ``SystemExit``, interrupts a call of the program's own as
anywhere, and in the background it is logged. ``pyredisson.observe`` turns events into log lines.
"""

from __future__ import annotations

from pyredisson._core.event import Event, LockEvent, record

__all__ = [
    "AcquireFailed",
    "Acquired",
    "BackgroundFailed",
    "CallbackFailed",
    "CampaignFailed",
    "ClientCollected",
    "ClosedWhileHolding",
    "ConnectionDown",
    "ConnectionUp",
    "Event",
    "GivenBack",
    "HeldAtClose",
    "HeldTooLong",
    "HolderGone",
    "LeftBehind",
    "LockEvent",
    "Lost",
    "MasterChanged",
    "NodeBarred",
    "OutcomeUnknown",
    "PermitsDiffer",
    "PermitsNeverSet",
    "PresenceRefused",
    "QuorumIsYoung",
    "QuorumNodeBack",
    "QuorumNodeLost",
    "Released",
    "RenewalFailed",
    "Renewed",
    "ServerUnsafe",
    "TimedOut",
    "WaitBegan",
    "WaitEnded",
    "WaitingTooLong",
    "WatchdogLate",
]


@record
class Acquired(LockEvent):
    """A lock, or permits of a semaphore, were acquired.

    Attributes:
        waited: Seconds from the call until the lock was acquired.
        holds: The owner's number of nested holds, including this one; 0 for permits, whose release emits no event.
        lease: Seconds after which it expires unless it is released; ``None`` if the watchdog renews it.
        kind: The kind of lock or semaphore, as in ``get_*``: ``"lock"``, ``"fair_lock"``, ``"semaphore"``, ...
    """

    waited: float
    holds: int
    lease: float | None = None
    kind: str = "lock"

    # Each acquire emits one if there is a listener: what a dataclass generates takes four times as long.
    def __init__(
        self, name: str, owner: str, waited: float, holds: int, lease: float | None = None, kind: str = "lock"
    ) -> None:
        self.__dict__.update(name=name, owner=owner, waited=waited, holds=holds, lease=lease, kind=kind)


@record
class TimedOut(LockEvent):
    """A lock, or permits of a semaphore, were not acquired in time.

    Attributes:
        waited: Seconds that the owner waited.
        kind: As of :class:`Acquired`.
    """

    waited: float
    kind: str = "lock"


@record
class AcquireFailed(LockEvent):
    """The acquire of a lock, or of permits of a semaphore, raised an error. An interrupted one emits no such event.

    Attributes:
        waited: Seconds from the call until then.
        reason: ``"connection"``, ``"quorum"`` (too few nodes could be reached), ``"unknown"`` (its outcome is),
            ``"replicas"`` (too few acknowledged), ``"refused"`` (the server answered with an error), or ``"error"``.
        error: The error.
        kind: As of :class:`Acquired`.
    """

    waited: float
    reason: str
    error: BaseException
    kind: str = "lock"


@record
class WaitBegan(LockEvent):
    """An owner waits for a lock or for permits: its first attempt was refused. A wait for a multi-lock emits none."""


@record
class WaitEnded(LockEvent):
    """An owner waits no longer, whatever the reason. Emitted once for each ``WaitBegan``.

    Attributes:
        waited: Seconds that it waited.
        acquired: Whether it acquired the lock. If not, the time ran out, or an error or a cancellation ended the wait.
    """

    waited: float
    acquired: bool


@record
class Released(LockEvent):
    """A hold was released.

    Attributes:
        holds: The owner's remaining number of holds.
        held: Seconds for which it was held.
    """

    holds: int
    held: float

    # As for Acquired.
    def __init__(self, name: str, owner: str, holds: int, held: float) -> None:
        self.__dict__.update(name=name, owner=owner, holds=holds, held=held)


@record
class Lost(LockEvent):
    """An owner lost its lock.

    Attributes:
        reason: How the loss was detected.
    """

    reason: str


@record
class HolderGone(LockEvent):
    """A thread or task ended while it held the lock, which is no longer renewed.

    Attributes:
        hint: The probable cause, and what to do.
    """

    hint: str


@record
class LeftBehind(LockEvent):
    """A thread runs another call (a job, a request) while it still holds the lock for an earlier one.

    Attributes:
        holder: The thread.
    """

    holder: str


@record
class OutcomeUnknown(LockEvent):
    """A request was sent, and its outcome could not be determined in time. Acquires and releases are then settled.

    Attributes:
        request: The kind of request.
        error: The reason.
    """

    request: str
    error: BaseException


@record
class GivenBack(LockEvent):
    """A request that was not answered, or too late, was settled: what it may have acquired was released."""


@record
class PermitsDiffer(LockEvent):
    """A semaphore has another number of permits than its handle was made with. Emitted once per client and semaphore.

    Of a ``Semaphore`` whose permits Redisson or an earlier version set, only the available ones are known, so it is
    reported if these are more.

    Attributes:
        wanted: The number with which the handle was made: ``get_semaphore(name, permits=wanted)``.
        permits: The number that it has; of such a ``Semaphore``, at least.
    """

    wanted: int
    permits: int


@record
class PermitsNeverSet(LockEvent):
    """An owner waits for permits of a semaphore whose permits were never set. Emitted once per client and semaphore."""


@record
class HeldTooLong(LockEvent):
    """A lock, or permits of a block, are held for longer than ``Config.warn_held_longer_than``. Once per hold.

    Attributes:
        kind: The kind of lock, as in ``get_*``: ``"lock"``, ``"fair_lock"``, ``"semaphore"``, ...
        held: Seconds since it was acquired.
        stack: What its thread or task executes, in lines, the innermost call last; empty if that is not known.
    """

    kind: str
    held: float
    stack: tuple[str, ...]


@record
class WaitingTooLong(LockEvent):
    """A call has been waiting for longer than ``Config.warn_waiting_longer_than``. Emitted once per call.

    Attributes:
        kind: The kind of lock or synchronizer, as in ``get_*``.
        waited: Seconds since it began to wait.
        stack: What its thread or task executes, in lines, the innermost call last; empty if that is not known.
    """

    kind: str
    waited: float
    stack: tuple[str, ...]


@record
class PresenceRefused(Event):
    """The server refused what the client wrote about its holds and waits. Emitted once per client; it writes no more.

    Attributes:
        error: The reason.
    """

    error: BaseException


@record
class Renewed(Event):
    """A round of renewals is complete.

    Attributes:
        locks: The number of renewed locks.
        requests: The number of requests.
    """

    locks: int
    requests: int


@record
class RenewalFailed(Event):
    """A renewal was not answered, or was refused; it is repeated until the deadlines of the locks.

    Attributes:
        locks: The number of locks in the renewal.
        error: The reason.
        attempt: How often it has failed in a row.
        name: The name of one of them.
    """

    locks: int
    error: BaseException
    attempt: int
    name: str = ""


@record
class WatchdogLate(Event):
    """The watchdog ran late, or has not run yet. Emitted once per client.

    Attributes:
        seconds: How late it is.
    """

    seconds: float


@record
class ConnectionDown(Event):
    """The subscriber's connection was lost, or could not be opened.

    Attributes:
        error: The reason.
        attempt: How often it has failed in a row.
        server: The node of a cluster, as ``host:port``; empty if the client uses one server.
    """

    error: BaseException
    attempt: int
    server: str = ""


@record
class ConnectionUp(Event):
    """The subscriber is connected, for the first time or again.

    Attributes:
        channels: The number of channels.
        server: As of :class:`ConnectionDown`.
    """

    channels: int
    server: str = ""


@record
class ServerUnsafe(Event):
    """A server setting, or the number of nodes of a quorum, endangers locks. Emitted once per client and setting.

    Attributes:
        setting: The setting; ``"nodes"`` for the number of nodes.
        text: The danger, and what to do.
    """

    setting: str
    text: str


@record
class NodeBarred(Event):
    """A node of a quorum was restarted recently and has no vote for a while.

    Attributes:
        name: The name of the lock.
        node: The node.
        uptime: Seconds since its start.
        seconds: Seconds until it has a vote.
    """

    name: str
    node: str
    uptime: int
    seconds: float


@record
class MasterChanged(Event):
    """Another server is the master now: a failover. What the former one had not yet replicated is lost with it.

    Attributes:
        what: What it is the master of: a service of sentinels, or slots of a cluster.
        server: The master, as ``host:port``.
        former: The one before.
        held: The number of locks that the client holds there, and held before the change.
    """

    what: str
    server: str
    former: str
    held: int


@record
class QuorumNodeLost(Event):
    """A node of a quorum does not answer, so that fewer others may fail. Emitted once, until it answers again.

    Attributes:
        name: The name of the lock with which that was noticed.
        node: The node.
        error: The reason.
        left: The number of nodes that answer.
        quorum: The number that is needed.
    """

    name: str
    node: str
    error: BaseException
    left: int
    quorum: int


@record
class QuorumNodeBack(Event):
    """A node of a quorum answers again.

    Attributes:
        name: The name of the lock with which that was noticed.
        node: The node.
        seconds: How long it did not answer.
    """

    name: str
    node: str
    seconds: float


@record
class QuorumIsYoung(Event):
    """All nodes of a quorum were started recently. That is treated as a first start, so they vote.

    Attributes:
        name: The name of the lock.
        nodes: The number of nodes.
        uptime: Seconds since the start of the oldest node.
    """

    name: str
    nodes: int
    uptime: int


@record
class ClientCollected(Event):
    """A client was garbage-collected while it held locks, which expire with their leases.

    Attributes:
        client_id: The client's id.
        names: The names of some of the locks.
        held: The number of locks.
    """

    client_id: str
    names: tuple[str, ...]
    held: int


@record
class HeldAtClose(LockEvent):
    """A client was closed while an owner held the lock. Emitted once for each hold; it is renewed no longer.

    Attributes:
        remaining: Seconds for which the hold is certain still; infinite for permits that do not expire.
    """

    remaining: float


@record
class ClosedWhileHolding(Event):
    """A client was closed while it held locks or permits. Their blocks release them as long as they are certain.

    Attributes:
        client_id: The client's id.
        names: The names of some of them.
        held: The number of names.
        remaining: Seconds for which all of them are certain still.
    """

    client_id: str
    names: tuple[str, ...]
    held: int
    remaining: float


@record
class CallbackFailed(Event):
    """A callback of the user raised an exception.

    Attributes:
        callback: The callback.
        error: The exception.
    """

    callback: str
    error: BaseException


@record
class CampaignFailed(Event):
    """A client that stands in an election, or observes it, received an error; it tries again.

    Attributes:
        name: The name of the election.
        error: The reason.
    """

    name: str
    error: BaseException


@record
class BackgroundFailed(Event):
    """A background task raised an unexpected exception; it is retried.

    Attributes:
        what: The task.
        error: The exception.
    """

    what: str
    error: BaseException
