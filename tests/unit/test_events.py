"""The reason that listeners are given for an acquire that failed."""

from __future__ import annotations

import pytest
import redis.exceptions as rx

import pyredisson
from pyredisson.core.failures import REASONS, reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (rx.ConnectionError(), "connection"),
        (rx.TimeoutError(), "connection"),
        (rx.BusyLoadingError(), "connection"),
        (ConnectionRefusedError(), "connection"),
        (rx.NoPermissionError(), "refused"),
        (rx.ReadOnlyError(), "refused"),
        (pyredisson.QuorumUnreachableError(), "quorum"),
        (pyredisson.OutcomeUnknownError(), "unknown"),
        (pyredisson.NoSyncedSlavesError(), "replicas"),
        (pyredisson.LockError(), "error"),
        (pyredisson.ClientClosedError(), "error"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else each,
)
def test_why_an_acquire_failed(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    assert reason in REASONS
