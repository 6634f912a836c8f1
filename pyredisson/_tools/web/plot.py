"""Waits over the last hour, drawn as SVG: two small charts over the same hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from pyredisson._tools.web.history import BUCKET_SECONDS, BUCKETS, Bucket
from pyredisson._tools.web.templates import duration

WIDTH, HEIGHT = 720, 84

#: What the upper edge of a chart may stand for: numbers, and times in seconds, that are easy to read.
NUMBERS = tuple(step * 10.0**power for power in range(9) for step in (1, 2, 5))
TIMES = (
    *(1, 2, 5, 10, 20, 30),
    *(60 * each for each in (1, 2, 5, 10, 20, 30)),
    *(3600.0 * 2**power for power in range(20)),
)


@final
@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: What it shows.
        areas: The outlines of its areas, one for each time without gaps, as SVG paths.
        lines: Their upper edges.
        top: What its upper edge stands for.
        summary: What it shows, for those who cannot see it.
    """

    title: str
    areas: Sequence[str]
    lines: Sequence[str]
    top: str
    summary: str


@final
@dataclass(frozen=True)
class Plot:
    """Charts over the same hour.

    Attributes:
        width: The width of each, in units of SVG.
        height: The height of each.
        charts: The charts.
        empty: Whether there is nothing to show yet.
    """

    width: int
    height: int
    charts: Sequence[Chart]
    empty: bool


def draw_waits(buckets: Sequence[Bucket], now: float) -> Plot:
    """Draw how many waited, and for how long the longest had waited, over the hour before a Unix time."""
    last = int(now // BUCKET_SECONDS)
    charts = (
        _chart(
            "Owners waiting", buckets, last, lambda each: float(each.waiting), lambda value: f"{value:,.0f}", NUMBERS
        ),
        _chart("Longest wait", buckets, last, lambda each: each.longest, duration, TIMES),
    )
    return Plot(WIDTH, HEIGHT, charts, empty=not buckets)


def _chart(
    title: str,
    buckets: Sequence[Bucket],
    last: int,
    value_of: Callable[[Bucket], float],
    text_of: Callable[[float], str],
    tops: Sequence[float],
) -> Chart:
    most = max(map(value_of, buckets), default=0.0)
    top = next((each for each in tops if each >= most), most)
    areas, lines = [], []
    for run in _runs(buckets):
        points = [(_x(each.number, last), round(HEIGHT - HEIGHT * value_of(each) / top, 1)) for each in run]
        points.append((_x(run[-1].number + 1, last), points[-1][1]))  # A bucket is as wide as its time.
        line = "L".join(f"{x:g} {y:g}" for x, y in points)
        lines.append(f"M{line}")
        areas.append(f"M{points[0][0]:g} {HEIGHT}L{line}L{points[-1][0]:g} {HEIGHT}Z")
    now = value_of(buckets[-1]) if buckets and buckets[-1].number >= last - 1 else 0.0
    return Chart(title, areas, lines, text_of(top), f"now {text_of(now)}, at most {text_of(most)} in the last hour")


def _x(number: int, last: int) -> float:
    return round(WIDTH * (BUCKETS - 1 - (last - number)) / BUCKETS, 1)


def _runs(buckets: Sequence[Bucket]) -> list[list[Bucket]]:
    """Split where there is a gap: for three buckets or more nothing was seen."""
    runs: list[list[Bucket]] = []
    for each in buckets:
        if runs and each.number - runs[-1][-1].number <= 3:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs
