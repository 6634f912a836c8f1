"""What the figures on separate locks share: the table of rates, and the check that the server saw the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .report import show
from .rounds import Samples, median_of, median_ratio
from .server import Server

__all__ = ["WARM_UP_PAIRS", "WARM_UP_SECONDS", "Counted", "Spent", "Window", "proven", "rates", "throughput_table"]

WARM_UP_PAIRS = 3
WARM_UP_SECONDS = 0.1

COLUMNS = ("contestant", "pairs/s", "slowest - fastest round", "us/pair", "CPU us/pair", "of raw", "bytes/pair")


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and seconds of all threads of this process on the processor."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Window:
    """When pairs count. A pair that is under way at an edge counts where it began, so the two edges even out."""

    begin: float
    end: float

    @classmethod
    def after(cls, warm_up: float, seconds: float) -> Window:
        """The window that opens that long from now, and is that wide."""
        begin = time.perf_counter() + warm_up
        return cls(begin, begin + seconds)

    def watch(self) -> Spent:
        """Sleep through it, and tell what it cost."""
        time.sleep(max(0.0, self.begin - time.perf_counter()))
        wall, cpu = time.perf_counter(), time.process_time()
        time.sleep(max(0.0, self.end - time.perf_counter()))
        return Spent(time.perf_counter() - wall, time.process_time() - cpu)


@dataclass(frozen=True, slots=True)
class Counted:
    """Pairs made in all, and those in the window with what they cost."""

    in_all: int
    pairs: int
    spent: Spent


def rates(server: Server, contestant: str, counted: Counted, proof: str = "del", *, times: int = 1) -> dict[str, float]:
    """A turn's numbers, once the server's own counters agree with them.

    ``proof`` is the command that each pair makes the server run, and ``times`` how often.
    """
    done = server.calls().get(proof, 0)
    numbers = proven(contestant, counted, done, server.keys(), proof=proof, times=times)
    return {**numbers, "bytes/pair": server.bytes_received() / counted.in_all}


def proven(contestant: str, counted: Counted, done: int, left: int, *, proof: str, times: int = 1) -> dict[str, float]:
    """A turn's numbers, if the server did ``proof`` that often for each pair, and no key is left.

    Raises:
        RuntimeError: The server did another number of pairs than the contestant says, or keys are left.
    """
    if done != times * counted.in_all:
        raise RuntimeError(
            f"{contestant} says {counted.in_all} pairs, the server ran {proof} {done} times, not {times} for each"
        )
    if left:
        raise RuntimeError(f"{contestant} left {left} keys behind")
    if not counted.pairs:
        raise RuntimeError(f"{contestant} made no pair in the time that counts: give it more --seconds")
    return {
        "pairs/s": counted.pairs / counted.spent.wall,
        "us/pair": counted.spent.wall / counted.pairs * 1e6,
        "CPU us/pair": counted.spent.cpu / counted.pairs * 1e6,
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
