"""Redisson's distributed locks and synchronizers for asyncio: the same names as in :mod:`pyredisson`.

Methods that talk to the server are coroutines: to port a program, write ``import pyredisson.asyncio as pyredisson``
and add ``await`` and ``async with``.
"""

from typing import TYPE_CHECKING

from pyredisson import __version__
from pyredisson._asyncio.client import Redisson
from pyredisson._asyncio.election import Campaign, LeaderElection, Observation, Term
from pyredisson._asyncio.hold import Hold, PermitHold
from pyredisson._asyncio.locks import (
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
from pyredisson._asyncio.semaphores import CountDownLatch, PermitExpirableSemaphore, Semaphore
from pyredisson._asyncio.synchronizers import Barrier, BoundedSemaphore, Condition, Event
from pyredisson._shared.owners import Owner
from pyredisson._shared.owners import current_task_id as current_thread_id
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
from pyredisson.lease import AsyncLease as Lease
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

if not TYPE_CHECKING:
    del TYPE_CHECKING

    def __getattr__(name):
        ours = name.removeprefix("Async")
        hint = f": use {__name__}.{ours}" if ours != name and ours in __all__ else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
