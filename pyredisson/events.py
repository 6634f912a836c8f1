"""What a client tells its listeners (``Config.listeners``): one frozen dataclass for each kind of event.

Times are seconds. Listeners are called where it happens, so they must be quick, and must not use locks themselves; what
they raise is logged, and goes no further.
"""

from pyredisson.core.events import (
    Acquired,
    CallbackFailed,
    ClientCollected,
    ConnectionDown,
    ConnectionUp,
    Event,
    GivenBack,
    HolderGone,
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
)

__all__ = [
    "Acquired",
    "CallbackFailed",
    "ClientCollected",
    "ConnectionDown",
    "ConnectionUp",
    "Event",
    "GivenBack",
    "HolderGone",
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
]
