"""What else the machine does meanwhile (Linux; elsewhere nothing is known, and nothing is said)."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["ForeignLoad", "cpu_seconds_of", "wait_for_quiet"]

QUIET_CORES = 0.15
LOOK_SECONDS = 0.25


def _busy_seconds() -> float | None:
    """Time that all cores together have been busy since the start of the machine."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in first[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of(pid: int) -> float:
    """What a process has spent on the processor (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ForeignLoad:
    """How many cores other programs keep busy between its making and :meth:`cores`.

    Args:
        *servers: The process ids of the benchmark's own servers and other children, whose time is ours. Children that
            have ended count by themselves.
    """

    def __init__(self, *servers: int) -> None:
        self._servers = servers
        self._begin = time.monotonic()
        self._before = self._foreign_seconds()

    def _foreign_seconds(self) -> float | None:
        busy = _busy_seconds()
        if busy is None:
            return None
        ours = sum(os.times()[:4])
        return busy - ours - sum(map(cpu_seconds_of, self._servers))

    def cores(self) -> float | None:
        """Cores kept busy by others, on average; ``None`` where that cannot be known."""
        now = self._foreign_seconds()
        if now is None or self._before is None:
            return None
        return max(0.0, (now - self._before) / (time.monotonic() - self._begin))


def wait_for_quiet(seconds: float) -> None:
    """Wait until other programs leave the machine alone, but not longer than that."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        load = ForeignLoad()
        time.sleep(LOOK_SECONDS)
        cores = load.cores()
        if cores is None or cores < QUIET_CORES:
            return
