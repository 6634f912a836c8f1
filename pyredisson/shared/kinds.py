"""What a client makes its handles of, by name. Each is loaded when it is first used: few programs need every kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each of them is. Lists of kinds have this order.
MODULES = {
    "LockCore": "kinds.lock",
    "FairLockCore": "kinds.fair_lock",
    "NonReentrantFairLockCore": "kinds.fair_lock",
    "FencedLockCore": "kinds.fenced_lock",
    "SpinLockCore": "kinds.spin_lock",
    "NonReentrantLockCore": "kinds.non_reentrant",
    "RunOnceCore": "kinds.run_once",
    "ElectionCore": "kinds.election",
    "ReadWriteLockCore": "kinds.read_write_lock",
    "TokenLockCore": "kinds.token_lock",
    "SemaphoreCore": "kinds.semaphore",
    "BoundedSemaphoreCore": "kinds.semaphore",
    "PermitSemaphoreCore": "kinds.permit_semaphore",
    "LatchCore": "kinds.latch",
    "EventCore": "kinds.event",
    "ConditionCore": "kinds.condition",
    "BarrierCore": "kinds.barrier",
    "multi_lock": "quorum.multi_lock",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyredisson.{MODULES[name]}"), name)
    return value
