"""Redisson's distributed locks and synchronizers for asyncio: the names of :mod:`pyredisson`, to be awaited.

``import pyredisson.asyncio as pyredisson`` ports a program by adding ``await``.
"""

from pyredisson import __version__
from pyredisson.asyncio.client import Redisson
from pyredisson.asyncio.permit_hold import PermitHold
from pyredisson.asyncio.primitives import (
    CountDownLatch,
    FairLock,
    FencedLock,
    Hold,
    Lock,
    MultiLock,
    NonReentrantFairLock,
    NonReentrantLock,
    PermitExpirableSemaphore,
    ReadWriteLock,
    RedLock,
    Semaphore,
    SpinLock,
    TokenLock,
)
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
from pyredisson.shared.owners import Owner
from pyredisson.shared.owners import current_task_id as current_thread_id

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
