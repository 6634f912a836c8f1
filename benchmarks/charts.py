"""Charts of the figures: as HTML for the documentation, as one SVG for the README.

What it looks like is said by the documentation's stylesheet (``docs/_static/pyredisson.css``), so that a chart follows
the light or dark toggle of the page and has text of a readable size on a phone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .report import Figure, show

__all__ = ["Bar", "Bars", "Group", "Panel", "Waits", "decades", "html_groups", "svg_groups", "values_of"]


def values_of(figure: Figure, quantity: str) -> dict[str, list[float]]:
    """What each contestant's rounds measured; what a round did not measure is left out."""
    values = {who: [each[quantity] for each in samples if quantity in each] for who, samples in figure.samples.items()}
    return {who: each for who, each in values.items() if each}


def _is_ours(who: str) -> bool:
    return "pyredisson" in who or who.startswith("Python to Python")


def _ours_of(contestants: Iterable[str]) -> set[str]:
    """Those that are this library: all of them, if the figure compares it with itself."""
    them = set(contestants)
    return {who for who in them if _is_ours(who)} or them


def _rounds(values: Mapping[str, Sequence[float]]) -> str:
    count = max(map(len, values.values()))
    return f"median of {count} rounds" if count > 1 else "one round"


def decades(smallest: float, largest: float) -> list[float]:
    """The powers of ten from below the one to above the other."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _row(who: str, track: str, value: str, *, ours: bool) -> str:
    kind = "ours" if ours else "theirs"
    return (
        f'<div class="row {kind}"><span class="who">{escape(who)}</span>'
        f'<span class="track">{track}</span><span class="value">{value}</span></div>'
    )


def _plot(caption: str, rows: Sequence[str]) -> str:
    """A chart. It has no empty line, which would end a block of HTML in markdown."""
    return "\n".join(['<figure class="plot">', f"<figcaption>{escape(caption)}</figcaption>", *rows, "</figure>"])


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for the median of each contestant, and a thin line from its slowest round to its fastest.

    Attributes:
        quantity: What it is called in the samples.
        label: What the chart shows, with the unit.
    """

    quantity: str
    label: str

    def html(self, figure: Figure) -> str:
        """The chart."""
        values = values_of(figure, self.quantity)
        longest = max(max(each) for each in values.values()) or 1.0
        rows, ours = [], _ours_of(values)
        for who, each in values.items():
            median, low, high = statistics.median(each), min(each) / longest, max(each) / longest
            track = f'<i class="bar" style="width: {_percent(median / longest)}"></i>'
            if len(each) > 1:
                track += f'<i class="spread" style="left: {_percent(low)}; width: {_percent(high - low)}"></i>'
            rows.append(_row(who, track, show(median), ours=who in ours))
        return _plot(f"{self.label}; {_rounds(values)}", rows)


@dataclass(frozen=True, slots=True)
class Waits:
    """From the median wait to the 99th percentile of each contestant, on a scale of powers of ten.

    Attributes:
        label: What the chart shows, with the unit.
    """

    label: str

    def html(self, figure: Figure) -> str:
        """The chart."""
        medians, tails = values_of(figure, "median ms"), values_of(figure, "p99 ms")
        waits = {who: (statistics.median(medians[who]), statistics.median(tails[who])) for who in medians}
        ticks = decades(min(low for low, _ in waits.values()), max(high for _, high in waits.values()))
        first, last = math.log10(ticks[0]), math.log10(ticks[-1])

        def place(wait: float) -> float:
            return (math.log10(wait) - first) / (last - first)

        rows, ours = [], _ours_of(waits)
        for who, (low, high) in waits.items():
            left, right, width = (_percent(share) for share in (place(low), place(high), place(high) - place(low)))
            track = (
                f'<i class="span" style="left: {left}; width: {width}"></i>'
                f'<i class="median" style="left: {left}"></i><i class="tail" style="left: {right}"></i>'
            )
            rows.append(_row(who, track, f"{show(low)} / {show(high)}", ours=who in ours))
        marks = "".join(f'<i style="left: {_percent(place(tick))}">{tick:,.6g}</i>' for tick in ticks)
        axis = f'<div class="row axis"><span class="who"></span><span class="track">{marks}</span></div>'
        return _plot(f"{self.label}: ● median, ○ 99th percentile", [*rows, axis])


Panel = Bars | Waits


# ---- several situations in one chart ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """One contestant in one situation."""

    who: str
    value: float

    @property
    def is_ours(self) -> bool:
        """Whether it is this library."""
        return _is_ours(self.who)


@dataclass(frozen=True, slots=True)
class Group:
    """The contestants of one situation."""

    title: str
    bars: Sequence[Bar]


def html_groups(caption: str, groups: Sequence[Group]) -> str:
    """One chart of several situations, on one scale."""
    longest = max(bar.value for group in groups for bar in group.bars) or 1.0
    rows = []
    for group in groups:
        rows.append(f'<div class="group">{escape(group.title)}</div>')
        for bar in group.bars:
            track = f'<i class="bar" style="width: {_percent(bar.value / longest)}"></i>'
            rows.append(_row(bar.who, track, show(bar.value), ours=bar.is_ours))
    return _plot(caption, rows)


WIDTH, LABEL, VALUE, ROW, GROUP, HEAD, MARGIN = 480, 108, 56, 26, 32, 46, 16

#: The picture has its own background, so that it can be read on any page; dark for those whose system is dark.
STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 } .group { font-weight: 600 } .faint { fill: #59636e }
.ground { fill: #ffffff; stroke: #d1d9e0 } .ours { fill: #1a5fb4 } .theirs { fill: #7f8a97 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .faint { fill: #9198a1 } .ground { fill: #0d1117; stroke: #3d444d }
.ours { fill: #62a0ea } .theirs { fill: #7d8590 }
}
"""


def svg_groups(caption: str, groups: Sequence[Group], footnote: str) -> str:
    """The same as a picture, for pages without our stylesheet."""
    longest = max(bar.value for group in groups for bar in group.bars) or 1.0
    scale = (WIDTH - LABEL - VALUE - 2 * MARGIN) / longest
    left = MARGIN + LABEL
    parts: list[str] = []
    at = HEAD
    for group in groups:
        parts.append(f'<text class="group" x="{MARGIN}" y="{at + 20}">{escape(group.title)}</text>')
        at += GROUP
        for bar in group.bars:
            width = max(1.0, bar.value * scale)
            kind = "ours" if bar.is_ours else "theirs"
            parts += [
                f'<text x="{left - 10}" y="{at + 17}" text-anchor="end">{escape(bar.who)}</text>',
                f'<rect class="{kind}" x="{left}" y="{at + 3}" width="{width:.1f}" height="18" rx="2"/>',
                f'<text x="{left + width + 8:.1f}" y="{at + 17}">{show(bar.value)}</text>',
            ]
            at += ROW
        at += 6
    height = at + 40
    said = "; ".join(
        f"{group.title}: {', '.join(f'{bar.who} {show(bar.value)}' for bar in group.bars)}" for group in groups
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(caption)}</title>',
        f'<desc id="desc">{escape(said)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="30">{escape(caption)}</text>',
    ]
    foot = f'<text class="faint" x="{MARGIN}" y="{height - 16}">{escape(footnote)}</text>'
    return "\n".join([*head, *parts, foot, "</svg>", ""])
