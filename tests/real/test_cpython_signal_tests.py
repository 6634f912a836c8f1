"""CPython's own tests of ``threading.Event``, ``Condition``, ``Barrier`` and ``BoundedSemaphore``, run against ours."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import pyredisson
from tests.real.test_cpython_lock_tests import client, lock_tests, required
from tests.waiting import until

__all__ = ["client"]

#: What of CPython's tests does not apply to us, and why.
NOT_OURS: dict[str, dict[str, str]] = {
    "EventTests": {
        "test_repr": "a repr says '... object at ...' there; ours names the event",
        "test_reset_internal_locks": "an internal of threading",
        "test_at_fork_reinit": "an internal of threading",
    },
    "ConditionTests": {
        "test_unacquired_wait": "its lock is one of threading",
        "test_waitfor": "it counts on fewer than 0.1 s for all steps together",
    },
    "BoundedSemaphoreTests": {
        "test_various_ops": "it makes one without a name and looks at no server",
        "test_repr": "as EventTests.test_repr",
        "test_default_value": "the tests make one with a value always",
    },
    "BarrierTests": {
        "test_repr": "as EventTests.test_repr",
        "test_constructor": "it needs the tests' own barrier",
    },
}


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

        self.eventtype = lambda: client.get_event(unique())
        self.condtype = condition
        self.barriertype = barrier
        self.semtype = lambda value=1: client.get_bounded_semaphore(unique(), value)
        yield
