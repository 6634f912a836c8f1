"""The clock that leases are measured by."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

#: Monotonic seconds that go on while the machine sleeps, where the system has such a clock: leases go on too.
monotonic: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
