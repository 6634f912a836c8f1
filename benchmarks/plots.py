"""``python -m benchmarks.plots``: draw the committed results for the documentation.

For each figure a picture (SVG, written here) and a piece of page that shows it: with a text for those who do not see
it, what was done, and the bounds. A figure without results has a piece that says so: the pages can include any. The
summary of all results, ``latest.md``, is written anew as well.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .report import Figure, Result, claim_table, markdown_table, read, show, write_summary

__all__ = ["FIGURES", "PICTURES", "RESULTS", "Bars", "Waits", "draw", "main", "picture", "piece"]

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent.parent / "docs" / "_generated" / "benchmarks"
SHORT = "short"

WIDTH, LABEL, VALUE, ROW, HEAD, AXIS, MARGIN = 760, 284, 96, 30, 44, 62, 12
ROOM = WIDTH - LABEL - VALUE

#: The picture brings its own ground, so that it can be read on any page; dark for those whose system is dark.
STYLE = """
text { font: 13px sans-serif; fill: #1f2328 } .title { font-size: 16px; font-weight: bold }
.ground { fill: #ffffff } .faint { fill: #59636e } .grid { stroke: #d8dee4 }
.value { paint-order: stroke; stroke: #ffffff; stroke-width: 4 } .mark { stroke: #1f2328; fill: #1f2328 }
.ours { fill: #1f6feb } .theirs { fill: #9aa4b2 }
.span { stroke-width: 3; stroke: #9aa4b2 } .span.ours { stroke: #1f6feb }
.tail { fill: #ffffff; stroke: #1f2328; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .ground { fill: #0d1117 } .faint { fill: #9198a1 } .grid { stroke: #30363d }
.value { stroke: #0d1117 } .mark { stroke: #e6edf3; fill: #e6edf3 }
.ours { fill: #4493f8 } .theirs { fill: #6e7681 }
.span { stroke: #6e7681 } .span.ours { stroke: #4493f8 }
.tail { fill: #0d1117; stroke: #e6edf3 }
}
"""


def _values(figure: Figure, quantity: str) -> dict[str, list[float]]:
    """What each contestant's rounds measured; what a round did not measure is left out."""
    values = {who: [each[quantity] for each in samples if quantity in each] for who, samples in figure.samples.items()}
    return {who: each for who, each in values.items() if each}


def _rounds(values: Mapping[str, Sequence[float]]) -> str:
    count = max(map(len, values.values()))
    return f"median of {count} rounds" if count > 1 else "one round"


def _is_ours(who: str) -> bool:
    return "pyredisson" in who or who.startswith("Python to Python")


# ---- scales ----------------------------------------------------------------------------------------------------------


def linear_ticks(largest: float) -> list[float]:
    """From 0 on, round numbers, some four of them."""
    step = 10 ** math.floor(math.log10(largest / 4)) if largest > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if largest / (step * factor) <= 5)
    return [step * number for number in range(int(largest / step) + 1)]


def decades(smallest: float, largest: float) -> list[float]:
    """The powers of ten from below the one to above the other."""
    first, last = math.floor(math.log10(smallest)), math.ceil(math.log10(largest))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


# ---- panels ----------------------------------------------------------------------------------------------------------


def _axis(at: float, rows: int, ticks: Mapping[float, float], label: str) -> list[str]:
    """Grid, numbers and label. ``ticks`` are the places of the numbers."""
    bottom = at + ROW * rows
    lines = [
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{at}" y2="{bottom}"/>'
        f'<text class="faint" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:,.6g}</text>'
        for tick, x in ticks.items()
    ]
    return [*lines, f'<text class="faint" x="{LABEL}" y="{bottom + 38}">{escape(label)}</text>']


def _row(at: float, index: int, who: str) -> tuple[float, str]:
    middle = at + ROW * (index + 0.5)
    return middle, f'<text x="{LABEL - 10}" y="{middle + 4.5:.1f}" text-anchor="end">{escape(who)}</text>'


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for the median of each contestant, and a thin line from its slowest round to its fastest.

    Attributes:
        quantity: What it is called in the samples.
        label: What the axis says, with the unit.
    """

    quantity: str
    label: str

    def rows(self, figure: Figure) -> int:
        """How many contestants it shows."""
        return len(_values(figure, self.quantity))

    def draw(self, figure: Figure, at: float) -> list[str]:
        """Its lines of SVG, from there down."""
        values = _values(figure, self.quantity)
        longest = max(max(each) for each in values.values()) or 1.0
        scale = ROOM / longest
        label = f"{self.label}; {_rounds(values)}"
        parts = _axis(at, len(values), {tick: LABEL + tick * scale for tick in linear_ticks(longest)}, label)
        for index, (who, each) in enumerate(values.items()):
            middle, name = _row(at, index, who)
            low, high = LABEL + min(each) * scale, LABEL + max(each) * scale
            median = statistics.median(each)
            parts += [
                name,
                f'<rect class="{"ours" if _is_ours(who) else "theirs"}" x="{LABEL}" y="{middle - 9:.1f}" '
                f'width="{max(1.0, median * scale):.1f}" height="18" rx="2"/>',
                f'<line class="mark" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>',
                f'<text class="value" x="{high + 8:.1f}" y="{middle + 4.5:.1f}">{show(median)}</text>',
            ]
        return parts

    def says(self, figure: Figure) -> str:
        """The same in words."""
        parts = (f"{who} {show(statistics.median(each))}" for who, each in _values(figure, self.quantity).items())
        return f"{self.label}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Waits:
    """From the median wait to the 99th percentile of each contestant, on a scale of powers of ten.

    Attributes:
        label: What the axis says, with the unit.
    """

    label: str

    def rows(self, figure: Figure) -> int:
        """How many contestants it shows."""
        return len(_values(figure, "median ms"))

    def draw(self, figure: Figure, at: float) -> list[str]:
        """Its lines of SVG, from there down."""
        waits = self._waits(figure)
        ticks = decades(min(low for low, _ in waits.values()), max(high for _, high in waits.values()))
        first, last = math.log10(ticks[0]), math.log10(ticks[-1])

        def place(wait: float) -> float:
            return LABEL + (math.log10(wait) - first) / (last - first) * ROOM

        parts = _axis(
            at, len(waits), {tick: place(tick) for tick in ticks}, f"{self.label}: ● median, ○ 99th percentile"
        )
        for index, (who, (low, high)) in enumerate(waits.items()):
            middle, name = _row(at, index, who)
            parts += [
                name,
                f'<line class="span {"ours" if _is_ours(who) else "theirs"}" x1="{place(low):.1f}" '
                f'x2="{place(high):.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>',
                f'<circle class="mark" cx="{place(low):.1f}" cy="{middle:.1f}" r="5"/>',
                f'<circle class="tail" cx="{place(high):.1f}" cy="{middle:.1f}" r="5"/>',
                f'<text class="value" x="{place(high) + 12:.1f}" y="{middle + 4.5:.1f}">'
                f"{show(low)} / {show(high)}</text>",
            ]
        return parts

    def says(self, figure: Figure) -> str:
        """The same in words."""
        parts = (f"{who} {show(low)} and {show(high)}" for who, (low, high) in self._waits(figure).items())
        return f"{self.label}, median and 99th percentile: {', '.join(parts)}"

    @staticmethod
    def _waits(figure: Figure) -> dict[str, tuple[float, float]]:
        medians, tails = _values(figure, "median ms"), _values(figure, "p99 ms")
        return {who: (statistics.median(medians[who]), statistics.median(tails[who])) for who in medians}


Panel = Bars | Waits

RATE = Bars("pairs/s", "pairs of acquire and release a second")
TAKEN = Bars("acquisitions/s", "acquisitions a second")
KEPT = (
    Bars("commands a period", "commands in a renewal period"),
    Bars("% of a core", "processor time, % of a core"),
    Bars("bytes", "resident memory, bytes a lock"),
)
WAIT = Waits("wait, ms")

FIGURES: dict[str, Sequence[Panel]] = {
    "one_thread": [RATE],
    "many_threads": [RATE],
    "cluster": [RATE],
    "many_coroutines": [RATE],
    "readers": [RATE],
    "redlock": [RATE],
    "redlock_asyncio": [RATE],
    "redlock_nodes_away": [Bars("first ms", "the first acquire, ms"), Bars("median ms", "the acquires in general, ms")],
    "waiters": [
        Bars("commands/s", "commands a second while they wait"),
        Bars("ms to serve all", "time to serve all, ms"),
    ],
    "contending_processes": [TAKEN, WAIT],
    "fair_processes": [TAKEN, WAIT],
    "hand_over": [
        Bars("commands a hand-over", "commands a hand-over"),
        Bars("ms a hand-over", "time of a hand-over, ms"),
        Bars("KB a waiter", "memory, KB a waiter"),
    ],
    "held_locks": KEPT,
    "java_one_thread": [RATE],
    "java_many_threads": [RATE],
    "java_redlock": [RATE],
    "java_hand_over": [TAKEN, WAIT],
    "cross_hand_over": [Waits("from unlock() to the other's lock(), ms")],
    "java_held_locks": KEPT,
    "import_time": [Bars("whole ms", "start of an interpreter and import, ms")],
}
"""What the picture of each figure shows."""


# ---- pictures and pieces ---------------------------------------------------------------------------------------------


def picture(figure: Figure, panels: Sequence[Panel]) -> str:
    """The picture of one figure."""
    parts: list[str] = []
    at = HEAD
    for panel in panels:
        parts += panel.draw(figure, at)
        at += ROW * panel.rows(figure) + AXIS
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {at}" role="img">',
        f"<title>{escape(figure.title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{at}" rx="6"/>',
        f'<text class="title" x="{MARGIN}" y="26">{escape(figure.title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def piece(result: Result, panels: Sequence[Panel]) -> str:
    """What a page says of a figure."""
    figure, about = result
    said = ". ".join(_begun(panel.says(figure)) for panel in panels)
    where = f"{about['server']}, {about['python']}, redis-py {about['redis-py']}, {about['cores']} cores"
    lines = [
        f"```{{image}} ../_generated/benchmarks/{figure.name}.svg",
        f":alt: {figure.title}. {said}.",
        "```",
        "",
        figure.how,
        *(f"{note.removesuffix('.')}." for note in figure.notes),
        f"{where}. Every sample is in `benchmarks/results/{figure.name}.json`.",
        *(["", claim_table(figure)] if figure.claims else []),
    ]
    return "\n".join(lines) + "\n"


def missing(name: str) -> str:
    """What a page says of a figure without results."""
    return f"*Not measured yet: `python -m benchmarks {name}` does that.*\n"


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def short(results: Sequence[Result]) -> str:
    """What did not keep its bound, of all figures."""
    rows = [
        (figure.title, claim.what, claim.measured_text, claim.bound_text)
        for figure, _ in results
        for claim in figure.claims
        if not claim.passed
    ]
    if not rows:
        return "Nothing: every bound is kept.\n"
    return markdown_table(("figure", "what", "measured", "wanted"), rows) + "\n"


def draw(results: Path, pictures: Path) -> None:
    """Draw what there are results for, and write the pieces of all figures."""
    pictures.mkdir(parents=True, exist_ok=True)
    measured = {result.figure.name: result for result in read(results, FIGURES)}
    for name, panels in FIGURES.items():
        if name in measured:
            (pictures / f"{name}.svg").write_text(picture(measured[name].figure, panels), "utf-8")
            (pictures / f"{name}.md").write_text(piece(measured[name], panels), "utf-8")
        else:
            (pictures / f"{name}.md").write_text(missing(name), "utf-8")
    (pictures / f"{SHORT}.md").write_text(short(list(measured.values())), "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description="Draw the results.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for the pictures and their texts")
    options = parser.parse_args(arguments)
    write_summary(options.results, FIGURES)
    draw(options.results, options.pictures)


if __name__ == "__main__":
    main()
