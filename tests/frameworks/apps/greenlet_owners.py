"""Who owns a lock among greenlets. The argument: ``gevent`` or ``eventlet``."""

from __future__ import annotations

from tests.frameworks.apps import greens  # isort: skip  # It patches, so it comes first.

import gc

import pyredisson
from tests.frameworks.apps.shared import NAME, URL

notes: list[str] = []
client = pyredisson.Redisson.from_url(
    URL,
    config=pyredisson.Config(lock_watchdog_timeout=1.8, listeners=(lambda event: notes.append(type(event).__name__),)),
)
lock = client.get_lock(NAME)


def in_greenlet(work: object) -> object:
    """Run something in a greenlet, and return its result."""
    results: list[object] = []
    greenlet = greens.spawn(lambda: results.append(work()))
    assert greens.join(greenlet, 20)
    return results[0]


# A greenlet that is spawned inside a block is not the one that holds it.
with lock.hold():
    assert lock.try_lock()
    lock.unlock()
    assert in_greenlet(lock.try_lock) is False
    assert in_greenlet(lock.is_held_by_current_thread) is False
    assert in_greenlet(lambda: client.get_fair_lock(f"{NAME}-fair").try_lock()) is True
    assert in_greenlet(pyredisson.current_thread_id) != in_greenlet(pyredisson.current_thread_id)
assert not lock.is_locked()


def try_to_unlock() -> str:
    """Release what another one holds."""
    try:
        lock.unlock()
    except pyredisson.LockNotOwnedError as error:
        return type(error).__name__
    return "released"


lock.lock()
assert in_greenlet(try_to_unlock) == "LockNotOwnedError"
lock.unlock()

# A greenlet that ends while it holds a lock is an owner that is gone: the lock is renewed no longer.
while client.get_fair_lock(f"{NAME}-fair").is_locked():
    gc.collect()
    greens.sleep(0.05)
assert "HolderGone" in notes, notes
client.close()
print("well")
