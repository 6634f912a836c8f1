"""Waiting in tests: for a condition and with a bound, never for a time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(predicate: Callable[[], T | None], within: float = 5.0, *, what: str = "") -> T:
    """Call ``predicate`` until it returns something true, and return that.

    Args:
        predicate: What is awaited; what it raises is passed on.
        within: Seconds to wait at most. Only a failing test ever waits that long, so it may be generous.
        what: Said when it does not come true.

    Raises:
        AssertionError: It did not come true in time.
    """
    deadline = time.monotonic() + within
    while True:
        over = time.monotonic() > deadline  # Before: who is kept waiting after a look is to have another one.
        value = predicate()
        if value:
            return value
        if over:
            raise AssertionError(f"not within {within} s: {what or predicate!r} (last: {value!r})")
        time.sleep(0.002)


async def soon(predicate: Callable[[], object], within: float = 10.0) -> None:
    """Wait for a condition in a coroutine, without blocking its event loop."""
    deadline = time.monotonic() + within
    while not predicate():
        assert time.monotonic() < deadline, f"not within {within} s: {predicate!r}"
        await asyncio.sleep(0.005)
