"""What a client makes its handles of, by name. Each is loaded when it is first used: few programs need every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.kinds.fair_lock import FairLockCore as FairLockCore
    from pyredisson.kinds.fair_lock import NonReentrantFairLockCore as NonReentrantFairLockCore
    from pyredisson.kinds.fenced_lock import FencedLockCore as FencedLockCore
    from pyredisson.kinds.latch import LatchCore as LatchCore
    from pyredisson.kinds.non_reentrant import NonReentrantLockCore as NonReentrantLockCore
    from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore as PermitSemaphoreCore
    from pyredisson.kinds.read_write_lock import ReadWriteLockCore as ReadWriteLockCore
    from pyredisson.kinds.semaphore import SemaphoreCore as SemaphoreCore
    from pyredisson.kinds.spin_lock import SpinLockCore as SpinLockCore
    from pyredisson.kinds.token_lock import TokenLockCore as TokenLockCore
    from pyredisson.quorum.multi_lock import multi_lock as multi_lock
else:
    from importlib import import_module

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

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"pyredisson.{_MODULES[name]}"), name)
        return value
