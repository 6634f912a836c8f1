"""What a figure says: rows for the contestants, claims with their bounds, and notes; as text, JSON and markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["Claim", "Figure", "at_least", "at_most", "environment", "text", "write"]


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


def show(number: float) -> str:
    """A number with three significant digits, thousands set apart."""
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


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in columns[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, rule, *rows))


def text(figure: Figure) -> str:
    """A figure for the terminal."""
    parts = [figure.title, f"  {figure.how}", "", _plain_table(figure.columns, figure.rows)]
    if figure.claims:
        parts += ["", _plain_table(CLAIM_COLUMNS, _claim_rows(figure))]
    parts += [f"  {note}" for note in figure.notes]
    return "\n".join(parts) + "\n"


def _markdown(figures: Sequence[Figure], about: Mapping[str, object]) -> str:
    claims = [claim for figure in figures for claim in figure.claims]
    kept = sum(claim.passed for claim in claims)
    parts = [
        "# Benchmarks",
        "",
        f"{kept} of {len(claims)} bounds are kept. Compare ratios, not absolutes: "
        "all contestants of a figure met in one run, in random order within each round.",
        "",
        *(f"- {name}: {value}" for name, value in about.items()),
    ]
    for figure in figures:
        parts += ["", f"## {figure.title}", "", figure.how, "", _markdown_table(figure.columns, figure.rows)]
        if figure.claims:
            parts += ["", _markdown_table(CLAIM_COLUMNS, _claim_rows(figure))]
        if figure.notes:
            parts += ["", *(f"- {note}" for note in figure.notes)]
    return "\n".join(parts) + "\n"


def _write_whole(path: Path, content: str) -> None:
    unfinished = path.with_suffix(path.suffix + ".tmp")
    unfinished.write_text(content, encoding="utf-8")
    unfinished.replace(path)


def write(figures: Sequence[Figure], about: Mapping[str, object], folder: Path) -> None:
    """Write ``<figure>.json`` for each figure and ``latest.md`` for all of this run."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        claims = [{**asdict(claim), "verdict": claim.verdict} for claim in figure.claims]
        content: dict[str, Any] = {**asdict(figure), "claims": claims, "environment": dict(about)}
        _write_whole(folder / f"{figure.name}.json", json.dumps(content, indent=1) + "\n")
    _write_whole(folder / "latest.md", _markdown(figures, about))
