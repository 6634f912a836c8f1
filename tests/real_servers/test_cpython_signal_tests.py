"""CPython's own tests of ``threading.Event``, ``Condition``, ``Barrier`` and ``BoundedSemaphore``, run against ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import pyredisson
from tests.real_servers.test_cpython_lock_tests import client, lock_tests, required

__all__ = ["client"]

#: What of CPython's tests does not apply to us, and why.
NOT_OURS = {
    "EventTests": {
        "test_repr": "a repr says '... object at ...' there; ours names the object",
        "test_at_fork_reinit": "an internal of threading; ours begins a new client in the child of a fork",
    },
    "ConditionTests": {"test_acquire": "it gives the condition a lock of threading"},
    "BoundedSemaphoreTests": {"test_repr": "as that of an event"},
    "BarrierTests": {"test_repr": "as that of an event"},
}


def unique() -> str:
    return f"cpython-{uuid.uuid4().hex}"


class OnRedis:
    """A mixin: the types make objects with names of their own."""

    @pytest.fixture(autouse=True)
    def _client(self, client: pyredisson.Redisson) -> None:
        def condition(lock: Any = None) -> pyredisson.Condition:
            return client.get_condition(unique() if lock is None else lock)

        def barrier(parties: int, action: Any = None, timeout: float | None = None) -> pyredisson.Barrier:
            return client.get_barrier(unique(), parties, action, timeout)

        self.eventtype = lambda: client.get_event(unique())
        self.condtype = condition
        self.barriertype = barrier
        self.semtype = lambda value=1: client.get_bounded_semaphore(unique(), value)


@pytest.mark.parametrize("kind", NOT_OURS)
def test_what_is_left_out_exists(kind: str) -> None:
    required()
    assert [name for name in NOT_OURS[kind] if not hasattr(getattr(lock_tests, kind), name)] == []


if lock_tests is not None:

    class TestEvent(OnRedis, lock_tests.EventTests):  # type: ignore[misc]
        """``test.lock_tests.EventTests``."""

    class TestCondition(OnRedis, lock_tests.ConditionTests):  # type: ignore[misc]
        """``test.lock_tests.ConditionTests``."""

    class TestBoundedSemaphore(OnRedis, lock_tests.BoundedSemaphoreTests):  # type: ignore[misc]
        """``test.lock_tests.BoundedSemaphoreTests``."""

    class TestBarrier(OnRedis, lock_tests.BarrierTests):  # type: ignore[misc]
        """``test.lock_tests.BarrierTests``."""

    for case in (TestEvent, TestCondition, TestBoundedSemaphore, TestBarrier):
        for name in NOT_OURS[case.__name__.removeprefix("Test") + "Tests"]:
            setattr(case, name, None)
    del case
