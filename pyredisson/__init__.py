"""Redisson's distributed locks and synchronizers for Python.

These names are for threads; :mod:`pyredisson.asyncio` has the same names for asyncio.
"""

from pyredisson import events as events
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
from pyredisson.lease import Lease
from pyredisson.shared.made_owners import Owner
from pyredisson.shared.owners import current_thread_id
from pyredisson.threads.client import Redisson
from pyredisson.threads.permit_hold import PermitHold
from pyredisson.threads.primitives import (
    FairLock,
    FencedLock,
    Hold,
    Lock,
    MultiLock,
    NonReentrantFairLock,
    NonReentrantLock,
    ReadWriteLock,
    RedLock,
    SpinLock,
    TokenLock,
)
from pyredisson.threads.semaphores import CountDownLatch, PermitExpirableSemaphore, Semaphore

__all__ = [
    "ClientClosedError",
    "Config",
    "ConstantBackoff",
    "CountDownLatch",
    "ExponentialBackoff",
    "FairLock",
    "FencedLock",
    "Hold",
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
    "OutcomeUnknownError",
    "Owner",
    "PermitExpirableSemaphore",
    "PermitHold",
    "QuorumUnreachableError",
    "ReadWriteLock",
    "RedLock",
    "Redisson",
    "RedissonError",
    "Semaphore",
    "SpinLock",
    "StaleTokenError",
    "TokenLock",
    "__version__",
    "current_thread_id",
]

__version__ = "0.1.0"
