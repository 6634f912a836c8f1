"""What a figure says: rows for the contestants, claims with their bounds, and notes; as text, JSON and markdown."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Claim",
    "Figure",
    "Result",
    "at_least",
    "at_most",
    "claim_table",
    "environment",
    "markdown_table",
    "read",
    "show",
    "text",
    "write",
    "write_summary",
]


@dataclass(frozen=True, slots=True)
class Claim:
    """A measured number next to the bound that the project set itself."""

    what: str
    measured: float
    relation: str
    bound: float
    unit: str = ""
    aim: float | None = None

    @property
    def verdict(self) -> str:
        """``pass`` or ``short``, and whether the aim beyond the bound was reached."""
        if not self._reaches(self.bound):
            return "short"
        if self.aim is None:
            return "pass"
        return "pass, and the aim" if self._reaches(self.aim) else "pass, not the aim"

    @property
    def passed(self) -> bool:
        """Whether the bound is kept."""
        return self._reaches(self.bound)

    def _reaches(self, bound: float) -> bool:
        match self.relation:
            case "<=":
                return self.measured <= bound
            case "<":
                return self.measured < bound
            case _:
                return self.measured >= bound

    @property
    def bound_text(self) -> str:
        """The bound as it is written in the tables."""
        aim = "" if self.aim is None else f" (aim {show(self.aim)})"
        return f"{self.relation} {show(self.bound)}{aim}{self.unit and ' ' + self.unit}"

    @property
    def measured_text(self) -> str:
        """The measured number as it is written in the tables."""
        return f"{show(self.measured)}{self.unit and ' ' + self.unit}"


def at_most(what: str, measured: float, bound: float, unit: str = "", *, below: bool = False) -> Claim:
    """A claim that holds when the number is small; with ``below``, when it is smaller than the bound."""
    return Claim(what, measured, "<" if below else "<=", bound, unit)


def at_least(what: str, measured: float, bound: float, unit: str = "", *, aim: float | None = None) -> Claim:
    """A claim that holds when the number is large."""
    return Claim(what, measured, ">=", bound, unit, aim)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure's outcome.

    Attributes:
        name: What it is called on the command line and in file names.
        title: What it is called in the report.
        how: What was done, in a sentence.
        columns: The heads of the table; the first is the contestant's.
        rows: The contestants' cells.
        claims: The bounds and what became of them.
        notes: What a reader should know besides.
        samples: Everything measured, by contestant and round.
    """

    name: str
    title: str
    how: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    samples: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)


class Result(NamedTuple):
    """A figure, and what it was measured with."""

    figure: Figure
    about: Mapping[str, object]


def show(number: float) -> str:
    """A number with three significant digits, and a comma between thousands."""
    if number != number:
        return "-"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if abs(number) >= 100:
        return f"{number:.0f}"
    if abs(number) >= 10:
        return f"{number:.1f}"
    if abs(number) >= 0.1 or number == 0:
        return f"{number:.2f}"
    return f"{number:.3g}"


def environment(server: str, settings: Mapping[str, object]) -> dict[str, object]:
    """What the figures depend on, without anything that names a machine or its user."""
    return {
        "server": server,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "redis-py": version("redis"),
        "hiredis": version("hiredis"),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load before the run": round(os.getloadavg()[0], 1),
        **settings,
    }


CLAIM_COLUMNS = ("figure", "measured", "bound", "verdict")


def _claim_rows(figure: Figure) -> list[Sequence[str]]:
    return [(claim.what, claim.measured_text, claim.bound_text, claim.verdict) for claim in figure.claims]


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (columns, *rows)) for column in range(len(columns))]
    rule = ["-" * width for width in widths]
    lines = []
    for row in (columns, rule, *rows):
        first, *others = (cell for cell in row)
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under heads; the first column is of texts, the others are of numbers."""
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))


def claim_table(figure: Figure) -> str:
    """What was wanted, and what became of it."""
    return markdown_table(CLAIM_COLUMNS, _claim_rows(figure))


def text(figure: Figure) -> str:
    """A figure for the terminal."""
    parts = [figure.title, f"  {figure.how}", "", _plain_table(figure.columns, figure.rows)]
    if figure.claims:
        parts += ["", _plain_table(CLAIM_COLUMNS, _claim_rows(figure))]
    parts += [f"  {note}" for note in figure.notes]
    return "\n".join(parts) + "\n"


def _markdown(results: Sequence[Result]) -> str:
    claims = [claim for figure, _ in results for claim in figure.claims]
    kept = sum(claim.passed for claim in claims)
    linked = [(f"[{figure.title}](#{_anchor(figure.title)}) (`{figure.name}`)", _kept(figure)) for figure, _ in results]
    parts = [
        "# Benchmarks",
        "",
        f"{kept} of {len(claims)} bounds are kept. Compare ratios, not absolutes: all contestants of a figure met in "
        "one run, in random order within each round. The figures are of several runs; each says of what surroundings.",
        "",
        markdown_table(("figure", "bounds kept"), linked),
    ]
    for figure, about in results:
        parts += ["", f"## {figure.title}", "", figure.how, "", markdown_table(figure.columns, figure.rows)]
        if figure.claims:
            parts += ["", claim_table(figure)]
        where = ", ".join(f"{name}: {value}" for name, value in about.items())
        parts += ["", *(f"- {note}" for note in figure.notes), f"- {where}"]
    return "\n".join(parts) + "\n"


def _kept(figure: Figure) -> str:
    return f"{sum(claim.passed for claim in figure.claims)} of {len(figure.claims)}" if figure.claims else "-"


def _anchor(title: str) -> str:
    """As it is made of a heading where the page is shown."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _write_whole(path: Path, content: str) -> None:
    unfinished = path.with_suffix(path.suffix + ".tmp")
    unfinished.write_text(content, encoding="utf-8")
    unfinished.replace(path)


def write(figure: Figure, about: Mapping[str, object], folder: Path) -> None:
    """Write ``<figure>.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    claims = [{**asdict(claim), "verdict": claim.verdict} for claim in figure.claims]
    content: dict[str, Any] = {**asdict(figure), "claims": claims, "environment": dict(about)}
    _write_whole(folder / f"{figure.name}.json", json.dumps(content, indent=1) + "\n")


def read(folder: Path, names: Iterable[str]) -> list[Result]:
    """Those of these figures that were written to that folder."""
    return [_parsed(path.read_text("utf-8")) for name in names if (path := folder / f"{name}.json").exists()]


def _parsed(text: str) -> Result:
    content = json.loads(text)
    about = content.pop("environment")
    claims = [Claim(**{key: value for key, value in claim.items() if key != "verdict"}) for claim in content["claims"]]
    return Result(Figure(**{**content, "claims": claims}), about)


def write_summary(folder: Path, names: Iterable[str]) -> None:
    """Write ``latest.md``, of what was written to that folder, by this run or before."""
    _write_whole(folder / "latest.md", _markdown(read(folder, names)))
