"""The clock that leases are measured by."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial


def _clock_that_counts_sleep() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # There it counts sleep, and ``time.monotonic()`` does not.
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


#: Monotonic seconds that go on while the machine sleeps, where the system has such a clock: leases go on too.
monotonic: Callable[[], float] = _clock_that_counts_sleep()
