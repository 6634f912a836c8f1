"""CPython's own tests of the locks and synchronizers of ``threading``, as far as they apply, run against ours.

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
    lock_tests = None

MISSING = "this Python comes without its `test` package (on Debian: apt-get install libpython3-testsuite)"

REPR = "a repr says '... object at ...' there; ours names the object, its holders and waiters"
AT_FORK = "an internal of threading; ours begins a new client in the child of a fork"

#: What of CPython's tests does not apply to us, and why.
NOT_OURS = {
    "RLockTests": {"test_repr": REPR, "test_locked_repr": REPR},
    "LockTests": {
        "test_repr": REPR,
        "test_locked_repr": REPR,
        "test_reacquire": "a Lock of threading blocks its own holder; ours is reentrant",
        "test_state_after_timeout": "as test_reacquire",
        "test_different_thread": "a Lock of threading may be released by any thread; ours by its holder only",
        "test_at_fork_reinit": AT_FORK,
    },
    "EventTests": {"test_repr": REPR, "test_at_fork_reinit": AT_FORK},
    "ConditionTests": {"test_acquire": "it gives the condition a lock of threading"},
    "BoundedSemaphoreTests": {"test_repr": REPR},
    "BarrierTests": {"test_repr": REPR},
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


def unique() -> str:
    return f"cpython-{uuid.uuid4().hex}"


class OnRedis:
    """A mixin: the types make objects with names of their own."""

    @pytest.fixture(autouse=True)
    def _client(self, client: pyredisson.Redisson) -> Iterator[None]:
        def condition(lock: Any = None) -> pyredisson.Condition:
            return client.get_condition(unique() if lock is None else lock)

        def barrier(parties: int, action: Any = None, timeout: float | None = None) -> pyredisson.Barrier:
            return client.get_barrier(unique(), parties, action, timeout)

        self.locktype = lambda: Adapter(client.get_lock(unique()))
        self.eventtype = lambda: client.get_event(unique())
        self.condtype = condition
        self.barriertype = barrier
        self.semtype = lambda value=1: client.get_bounded_semaphore(unique(), value)
        yield
        gc.collect()


@pytest.mark.parametrize("kind", NOT_OURS)
def test_what_is_left_out_exists(kind):
    if lock_tests is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {MISSING}", pytrace=False)
        pytest.skip(MISSING)
    assert [name for name in NOT_OURS[kind] if not hasattr(getattr(lock_tests, kind), name)] == []


if lock_tests is not None:

    class TestRLock(OnRedis, lock_tests.RLockTests):
        """``test.lock_tests.RLockTests``."""

    class TestLock(OnRedis, lock_tests.LockTests):
        """What applies of ``test.lock_tests.LockTests``."""

    class TestEvent(OnRedis, lock_tests.EventTests):
        """``test.lock_tests.EventTests``."""

    class TestCondition(OnRedis, lock_tests.ConditionTests):
        """``test.lock_tests.ConditionTests``."""

    class TestBoundedSemaphore(OnRedis, lock_tests.BoundedSemaphoreTests):
        """``test.lock_tests.BoundedSemaphoreTests``."""

    class TestBarrier(OnRedis, lock_tests.BarrierTests):
        """``test.lock_tests.BarrierTests``."""

    for case in (TestRLock, TestLock, TestEvent, TestCondition, TestBoundedSemaphore, TestBarrier):
        for name in NOT_OURS[case.__name__.removeprefix("Test") + "Tests"]:
            setattr(case, name, None)
    del case
