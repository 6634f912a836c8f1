"""The kinds of locks, each in a file with its variants.

What a client makes its handles of is taken from here, by name, and is loaded when it is first used: few programs need
every kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each of them is. Lists of kinds have this order.
MODULES = {
    "LockCore": "_kinds.lock",
    "FairLockCore": "_kinds.fair_lock",
    "NonReentrantFairLockCore": "_kinds.fair_lock",
    "FencedLockCore": "_kinds.lock",
    "SpinLockCore": "_kinds.lock",
    "NonReentrantLockCore": "_kinds.lock",
    "RunOnceCore": "_kinds.election",
    "ElectionCore": "_kinds.election",
    "ReadWriteLockCore": "_kinds.read_write_lock",
    "TokenLockCore": "_kinds.token_lock",
    "SemaphoreCore": "_kinds.semaphores",
    "BoundedSemaphoreCore": "_kinds.semaphores",
    "PermitSemaphoreCore": "_kinds.semaphores",
    "LatchCore": "_kinds.synchronizers",
    "EventCore": "_kinds.synchronizers",
    "ConditionCore": "_kinds.synchronizers",
    "BarrierCore": "_kinds.synchronizers",
    "multi_lock": "_quorum.multi_lock",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyredisson.{MODULES[name]}"), name)
    return value
