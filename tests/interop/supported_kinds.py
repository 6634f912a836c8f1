"""What each version of Redisson has, and what may be asked of it."""

from __future__ import annotations

from typing import Final

from tests.interop.building import CURRENT, LAST_3, OLD, VERSIONS

#: Locks that one owner can hold, with the versions that have them.
LOCKS: Final = {
    "lock": VERSIONS,
    "non_reentrant_lock": (CURRENT,),
    "fair_lock": VERSIONS,
    "non_reentrant_fair_lock": (CURRENT,),
    "spin_lock": VERSIONS,
    "fenced_lock": (CURRENT, LAST_3),
    "read_lock": VERSIONS,
    "write_lock": VERSIONS,
}

#: The others. Permits of Redisson before 3.17 have ids of another form, so that they are not shared.
OTHERS: Final = {"semaphore": VERSIONS, "permit_expirable_semaphore": (CURRENT, LAST_3), "count_down_latch": VERSIONS}

LOCK_CASES: Final = [(version, kind) for version in VERSIONS for kind, has in LOCKS.items() if version in has]

#: What lets one in at a time: all of the newest, and of the others what has changed since.
EXCLUSIVE_CASES: Final = [
    *((CURRENT, kind) for kind in LOCKS if kind != "read_lock"),
    *((CURRENT, kind) for kind in ("semaphore", "permit_expirable_semaphore")),
    *((version, kind) for version in (LAST_3, OLD) for kind in ("lock", "fair_lock", "write_lock")),
]
