"""The public names of what listeners are told."""

from __future__ import annotations

import pytest
import redis.exceptions as rx

import pyredisson
from pyredisson import events
from pyredisson.core.failures import REASONS, reason_of


def test_an_event_shows_its_fields() -> None:
    event = events.Released("orders", "client:1", 0, 1.5)
    assert repr(event) == "Released(name='orders', owner='client:1', holds=0, held=1.5)"


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
