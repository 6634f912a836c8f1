"""What a client tells its listeners (``Config.listeners``): one frozen dataclass for each kind of event.

Times are seconds. Listeners are called where it happens, so they must be quick, and must not use locks themselves; what
they raise is logged, and goes no further.
"""

from pyredisson.core.events import (
    Acquired,
    BackgroundFailed,
    CallbackFailed,
    ClientCollected,
    ConnectionDown,
    ConnectionUp,
    Event,
    GivenBack,
    HolderGone,
    LeftBehind,
    LockEvent,
    Lost,
    NodeBarred,
    OutcomeUnknown,
    PermitsNeverSet,
    QuorumIsYoung,
    Released,
    RenewalFailed,
    Renewed,
    ServerUnsafe,
    TimedOut,
    WatchdogLate,
)

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
