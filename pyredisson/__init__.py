"""Redisson's distributed locks and synchronizers for Python.

These names are for threads; :mod:`pyredisson.asyncio` has the same names for asyncio.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson import events as events
    from pyredisson._shared.owners import Owner, current_thread_id
    from pyredisson._threads.client import Redisson
    from pyredisson._threads.election import Campaign, LeaderElection, Observation, Term
    from pyredisson._threads.hold import Hold, PermitHold
    from pyredisson._threads.locks import (
        FairLock,
        FencedLock,
        Lock,
        MultiLock,
        NonReentrantFairLock,
        NonReentrantLock,
        ReadWriteLock,
        RedLock,
        SpinLock,
        TokenLock,
    )
    from pyredisson._threads.semaphores import CountDownLatch, PermitExpirableSemaphore, Semaphore
    from pyredisson._threads.synchronizers import Barrier, BoundedSemaphore, Condition, Event
    from pyredisson.config import Config, ConstantBackoff, ExponentialBackoff
    from pyredisson.errors import (
        ClientClosedError,
        LockError,
        LockLostError,
        LockNotOwnedError,
        LockTimeoutError,
        NoSyncedSlavesError,
        OutcomeUnknownError,
        QuorumUnreachableError,
        RedissonError,
        StaleTokenError,
    )
    from pyredisson.holders import Holder
    from pyredisson.lease import Lease
    from pyredisson.runs import Ran, Skipped

__all__ = [
    "Barrier",
    "BoundedSemaphore",
    "Campaign",
    "ClientClosedError",
    "Condition",
    "Config",
    "ConstantBackoff",
    "CountDownLatch",
    "Event",
    "ExponentialBackoff",
    "FairLock",
    "FencedLock",
    "Hold",
    "Holder",
    "LeaderElection",
    "Lease",
    "Lock",
    "LockError",
    "LockLostError",
    "LockNotOwnedError",
    "LockTimeoutError",
    "MultiLock",
    "NoSyncedSlavesError",
    "NonReentrantFairLock",
    "NonReentrantLock",
    "Observation",
    "OutcomeUnknownError",
    "Owner",
    "PermitExpirableSemaphore",
    "PermitHold",
    "QuorumUnreachableError",
    "Ran",
    "ReadWriteLock",
    "RedLock",
    "Redisson",
    "RedissonError",
    "Semaphore",
    "Skipped",
    "SpinLock",
    "StaleTokenError",
    "Term",
    "TokenLock",
    "__version__",
    "current_thread_id",
]

__version__ = "0.3.0.dev0"

if not TYPE_CHECKING:
    from importlib import import_module as _import_module

    _import_module("pyredisson._shared.process")  # It notes what threads are when this library is imported.
    del TYPE_CHECKING

    _SUBMODULES = ("config", "errors", "events", "holders", "lease", "runs")
    #: Where the names come from. A module is loaded when a name is first used that none before it has: a program for
    #: asyncio does not need the half that is for threads.
    _SOURCES = (
        "errors",
        "config",
        "holders",
        "lease",
        "runs",
        "_shared.owners",
        "_threads.client",
        "_threads.locks",
        "_threads.hold",
        "_threads.semaphores",
        "_threads.election",
        "_threads.synchronizers",
    )

    #: What other libraries call it.
    _GUESSES = {
        **dict.fromkeys(("Client", "RedissonClient", "RedisLock", "RLock"), ": use pyredisson.Redisson"),
        **dict.fromkeys(("Redlock", "RedissonRedLock"), ": use pyredisson.RedLock"),
        **dict.fromkeys(
            ("LockNotAcquired", "LockAcquireTimeout", "LockNotAcquiredError", "TimeoutError"),
            ": use pyredisson.LockTimeoutError",
        ),
        **dict.fromkeys(("LockExpired", "LockNotHeldError"), ": use pyredisson.LockLostError or LockNotOwnedError"),
    }

    def __getattr__(name):
        if name in _SUBMODULES:
            return _import_module(f"{__name__}.{name}")
        for source in _SOURCES if name in __all__ else ():
            module = _import_module(f"{__name__}.{source}")
            if hasattr(module, name):
                value = globals()[name] = getattr(module, name)
                return value
        inner = name.removeprefix("Async")
        hint = f": use pyredisson.asyncio.{inner}" if inner != name and inner in __all__ else _GUESSES.get(name, "")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")

    def __dir__():
        return sorted({*globals(), *__all__, *_SUBMODULES})
