"""What the figures on separate locks share: the table of rates, and the check that the server saw the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .report import show
from .rounds import Samples, median_of, median_ratio
from .server import Server

__all__ = ["WARM_UP_PAIRS", "Spent", "StopWatch", "rates", "throughput_table"]

WARM_UP_PAIRS = 5

COLUMNS = ("contestant", "pairs/s", "slowest - fastest round", "us/pair", "CPU us/pair", "of raw", "bytes/pair")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and seconds of all threads of this process on the processor."""

    wall: float
    cpu: float


class StopWatch:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._cpu = time.process_time()
        self.begin = time.perf_counter()

    def read(self) -> Spent:
        """What was spent since."""
        return Spent(time.perf_counter() - self.begin, time.process_time() - self._cpu)


def rates(server: Server, contestant: str, pairs: int, spent: Spent) -> dict[str, float]:
    """A turn's numbers, once the server's own counters agree with them.

    Raises:
        RuntimeError: The server freed another number of locks than the contestant says, or keys are left.
    """
    freed, left = server.calls().get("del", 0), server.keys()
    if freed != pairs:
        raise RuntimeError(f"{contestant} says {pairs} releases, the server deleted {freed} keys")
    if left:
        raise RuntimeError(f"{contestant} left {left} keys behind")
    return {
        "pairs/s": pairs / spent.wall,
        "us/pair": spent.wall / pairs * 1e6,
        "CPU us/pair": spent.cpu / pairs * 1e6,
        "bytes/pair": server.bytes_received() / pairs,
    }


def throughput_table(samples: Samples, raw: str) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Columns and rows, the rates next to those of the raw contestant."""
    rows = []
    for name, turns in samples.items():
        rate = [turn["pairs/s"] for turn in turns]
        rows.append(
            (
                name,
                show(median_of(samples, name, "pairs/s")),
                f"{show(min(rate))} - {show(max(rate))}",
                show(median_of(samples, name, "us/pair")),
                show(median_of(samples, name, "CPU us/pair")),
                show(median_ratio(samples, name, raw, "pairs/s")),
                show(median_of(samples, name, "bytes/pair")),
            )
        )
    return COLUMNS, rows
