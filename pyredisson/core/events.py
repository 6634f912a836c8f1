"""The public events, for those who emit them. They are loaded when the first is emitted: that takes milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.events import (
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
else:

    def __getattr__(name):
        from pyredisson import events

        value = globals()[name] = getattr(events, name)
        return value


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
