"""What a client makes its handles of, by name. Each is loaded when it is first used: few programs need every kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each of them is.
_MODULES = {
    "FairLockCore": "kinds.fair_lock",
    "FencedLockCore": "kinds.fenced_lock",
    "LatchCore": "kinds.latch",
    "NonReentrantFairLockCore": "kinds.fair_lock",
    "NonReentrantLockCore": "kinds.non_reentrant",
    "PermitSemaphoreCore": "kinds.permit_semaphore",
    "ReadWriteLockCore": "kinds.read_write_lock",
    "SemaphoreCore": "kinds.semaphore",
    "SpinLockCore": "kinds.spin_lock",
    "TokenLockCore": "kinds.token_lock",
    "multi_lock": "quorum.multi_lock",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyredisson.{_MODULES[name]}"), name)
    return value
