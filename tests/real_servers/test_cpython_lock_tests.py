"""CPython's own tests of ``threading.RLock`` (and what applies of those of ``Lock``), run against ours.

They come with the ``test`` package of the standard library, which some distributions leave out.
"""

from __future__ import annotations

import gc
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import pyredisson
from tests.servers import VALKEY, SharedServers
from tests.waiting import until

try:
    from test import lock_tests
except ImportError:
    lock_tests = None  # type: ignore[assignment]

MISSING = "this Python comes without its `test` package (on Debian: apt-get install libpython3-testsuite)"

#: What of CPython's tests does not apply to us, and why.
NOT_OURS = {
    "test_repr": "a repr says '<unlocked ... object at ...>' there; ours names the lock, its holders and waiters",
    "test_locked_repr": "as test_repr",
}
NOT_OURS_OF_LOCK = {
    **NOT_OURS,
    "test_reacquire": "a Lock of threading blocks its own holder; ours is reentrant",
    "test_state_after_timeout": "as test_reacquire",
    "test_different_thread": "a Lock of threading may be released by any thread; ours by its holder only",
    "test_at_fork_reinit": "an internal of threading; ours begins a new client in the child of a fork",
}


class Adapter:
    """Gives our lock the three private methods that ``threading.Condition`` asks of an ``RLock``."""

    def __init__(self, lock: pyredisson.Lock) -> None:
        self._lock = lock
        self.acquire = lock.acquire
        self.release = lock.release
        self.locked = lock.locked
        self._is_owned = lock.is_held_by_current_thread
        self._recursion_count = lock.get_hold_count

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> None:
        return self._lock.__exit__(*error)

    def _release_save(self) -> int:
        holds = self._lock.get_hold_count()
        for _ in range(max(1, holds)):
            self._lock.release()
        return holds

    def _acquire_restore(self, holds: int) -> None:
        for _ in range(holds):
            self._lock.acquire()


@pytest.fixture(scope="module")
def client(shared_servers: SharedServers) -> Iterator[pyredisson.Redisson]:
    """A client whose threads run already: CPython's tests count threads."""
    with pyredisson.Redisson.from_url(shared_servers.get(VALKEY).url) as client:
        first, second = (client.get_lock(f"cpython-{uuid.uuid4().hex}") for _ in range(2))
        with first:  # starts the watchdog
            pass
        waiter = threading.Thread(target=lambda: second.try_lock(5) and second.unlock())
        with second:  # starts the subscriber
            waiter.start()
            until(lambda: "1 waiting here" in repr(second))
        waiter.join()
        yield client


class OnRedis:
    """A mixin: ``locktype()`` makes a lock with a name of its own."""

    @pytest.fixture(autouse=True)
    def _client(self, client: pyredisson.Redisson) -> Iterator[None]:
        self.locktype = lambda: Adapter(client.get_lock(f"cpython-{uuid.uuid4().hex}"))
        yield
        gc.collect()


def required() -> None:
    """Skip, or fail under ``PYREDISSON_REQUIRE_ALL=1``, without CPython's tests."""
    if lock_tests is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {MISSING}", pytrace=False)
        pytest.skip(MISSING)


def test_the_tests_of_cpython_are_here() -> None:
    required()


@pytest.mark.parametrize("kind", ["RLockTests", "LockTests"])
def test_what_is_left_out_exists(kind: str) -> None:
    required()
    left_out = NOT_OURS if kind == "RLockTests" else NOT_OURS_OF_LOCK
    assert [name for name in left_out if not hasattr(getattr(lock_tests, kind), name)] == []


if lock_tests is not None:

    class TestRLock(OnRedis, lock_tests.RLockTests):  # type: ignore[misc]
        """``test.lock_tests.RLockTests``."""

    class TestLock(OnRedis, lock_tests.LockTests):  # type: ignore[misc]
        """What applies of ``test.lock_tests.LockTests``."""

    for name in NOT_OURS:
        setattr(TestRLock, name, None)
    for name in NOT_OURS_OF_LOCK:
        setattr(TestLock, name, None)
