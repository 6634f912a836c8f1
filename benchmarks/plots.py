"""``python -m benchmarks.plots``: show the committed results in the README and in the documentation.

It writes, of the results that are there:

* ``results/latest.md``: every table, and the bounds that the project set itself;
* the pieces of the page "Performance" (``docs/_generated/benchmarks``): the summary, and each figure with its charts;
* the README's chart (``docs/_static/performance.svg``) and the README's table, between its two markers.

A figure without results, or measured while other programs kept the machine busy, is left out.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .charts import Bar, Bars, Group, Panel, Waits, html_groups, svg_groups, values_of
from .elections import KILLED, RESIGNED
from .report import Figure, Result, markdown_table, read, show, write_summary
from .rounds import disturbance, is_disturbed, median_of, median_ratio

__all__ = ["CHART", "FIGURES", "PIECES", "README", "RESULTS", "draw", "main", "shown"]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PIECES = ROOT / "docs" / "_generated" / "benchmarks"
CHART = ROOT / "docs" / "_static" / "performance.svg"
README = ROOT / "README.md"

BEGIN = "<!-- performance: written by `python -m benchmarks.plots` -->"
END = "<!-- performance: end -->"

RATE = Bars("pairs/s", "pairs of acquire and release a second")
ACQUISITIONS = Bars("acquisitions/s", "acquisitions a second")
KEPT = (
    Bars("commands a period", "commands in a renewal period"),
    Bars("% of a core", "processor time, % of a core"),
    Bars("bytes", "resident memory, bytes a lock"),
)
WAIT = Waits("wait, ms")
CROWD = (
    Bars("requests a hand-over", "requests a hand-over"),
    Bars("ms a hand-over", "time of a hand-over, ms"),
)

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
    "contending_processes": [ACQUISITIONS, WAIT],
    "fair_processes": [ACQUISITIONS, WAIT],
    "hand_over": [
        Bars("commands a hand-over", "commands a hand-over"),
        Bars("ms a hand-over", "time of a hand-over, ms"),
        Bars("KB a waiter", "memory, KB a waiter"),
    ],
    "crowd": CROWD,
    "growth": [Bars("us", "an acquire and a release, microseconds")],
    "held_locks": KEPT,
    "presence": [Bars("% of a core", "the server's processor time, % of a core")],
    "java_one_thread": [RATE],
    "java_many_threads": [RATE],
    "java_redlock": [RATE],
    "java_hand_over": [ACQUISITIONS, WAIT],
    "java_crowd": CROWD,
    "cross_hand_over": [Waits("from unlock() to the other's lock(), ms")],
    "java_held_locks": KEPT,
    "coordinators_one_thread": [RATE],
    "coordinators_many_threads": [RATE],
    "coordinators_hand_over": CROWD[1:],
    "coordinators_elections": [
        Bars(RESIGNED, "from a resignation until the next one leads, ms"),
        Bars(KILLED, "from kill -9 of a leader with a lease of 3 s until the next one leads, s"),
    ],
    "listeners": [RATE],
    "kinds": [RATE],
    "import_time": [Bars("whole ms", "start of an interpreter and import, ms")],
}
"""What the charts of each figure show."""

#: The headings of the page "Performance", and their figures.
SECTIONS: Sequence[tuple[str, Sequence[str]]] = (
    ("One server", ("one_thread", "many_threads", "many_coroutines", "readers", "kinds")),
    ("A cluster", ("cluster",)),
    ("Waiting", ("waiters", "hand_over", "crowd", "contending_processes", "fair_processes")),
    ("Held locks", ("growth", "held_locks", "presence")),
    ("Redlock", ("redlock", "redlock_asyncio", "redlock_nodes_away")),
    ("Metrics", ("listeners",)),
    ("Start-up", ("import_time",)),
)

#: What stands under the heading "Compared with Redisson", which is the page's own: others link to it.
COMPARED_WITH_REDISSON = (
    "java_one_thread",
    "java_many_threads",
    "java_redlock",
    "java_hand_over",
    "java_crowd",
    "cross_hand_over",
    "java_held_locks",
)

#: The table and the figures under the heading "Compared with etcd and ZooKeeper": the words, the figure, the quantity.
COMPARED_WITH_COORDINATORS = (
    ("pairs/s, one thread", "coordinators_one_thread", "pairs/s"),
    ("pairs/s, 64 threads", "coordinators_many_threads", "pairs/s"),
    ("ms a hand-over", "coordinators_hand_over", "ms a hand-over"),
    ("ms to the next leader", "coordinators_elections", RESIGNED),
)

#: Figures of which another page includes the piece.
INCLUDED_ELSEWHERE = ("cross_hand_over",)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the summary: this library and another in one quantity of one figure.

    Attributes:
        what: What was measured, with its unit.
        figure: Where.
        ours: The contestant that is this library.
        other: The other contestant.
        quantity: What it is called in the samples.
        named: What a reader knows the other contestant as.
    """

    what: str
    figure: str
    ours: str
    other: str
    quantity: str
    named: str


PAIRS = "pairs/s"
SPEED = (
    Comparison("one thread", "one_thread", "pyredisson", "redis-py Lock", PAIRS, "redis-py `Lock`"),
    Comparison("64 threads", "many_threads", "pyredisson", "redis-py Lock", PAIRS, "redis-py `Lock`"),
    Comparison("100 tasks", "many_coroutines", "pyredisson.asyncio", "redis.asyncio.Lock", PAIRS, "redis-py `Lock`"),
    Comparison("quorum of five", "redlock", "pyredisson", "redlock-ng", PAIRS, "redlock-ng"),
    Comparison("quorum of five", "redlock", "pyredisson", "pottery", PAIRS, "pottery"),
    Comparison("one thread", "java_one_thread", "pyredisson", "Redisson 4.7.0", PAIRS, "Redisson (Java)"),
    Comparison("64 threads", "java_many_threads", "pyredisson", "Redisson 4.7.0", PAIRS, "Redisson (Java)"),
    Comparison("64 threads", "java_many_threads", "pyredisson", "redsync (Go)", PAIRS, "redsync (Go)"),
    *(
        Comparison(what, name, "pyredisson", other, PAIRS, other)
        for other in ("etcd (Go)", "ZooKeeper (kazoo)")
        for what, name in (("one thread", "coordinators_one_thread"), ("64 threads", "coordinators_many_threads"))
    ),
    Comparison("one thread", "one_thread", "pyredisson", "raw socket", PAIRS, "a raw socket (the limit)"),
)
WAITING = (
    Comparison(
        "commands a second while 20 threads wait",
        "waiters",
        "pyredisson",
        "redis-py Lock",
        "commands/s",
        "redis-py `Lock`",
    ),
    Comparison(
        "ms to serve the 20 after the release",
        "waiters",
        "pyredisson",
        "redis-py Lock",
        "ms to serve all",
        "redis-py `Lock`",
    ),
)
RENEWED_BY_THREADS = "redis-py Lock, reacquire() each"
HOLDING = tuple(
    Comparison(what, "held_locks", "pyredisson", RENEWED_BY_THREADS, quantity, "redis-py `Lock`, by a thread")
    for what, quantity in (
        ("commands in a renewal period, for 10,000 locks", "commands a period"),
        ("% of a core to renew 10,000 locks", "% of a core"),
        ("bytes of memory for each lock", "bytes"),
    )
)

#: What the chart of the README and of the summary shows: contestants by figure.
HEADLINE: Sequence[tuple[str, str, Sequence[tuple[str, str]]]] = (
    ("One thread", "one_thread", (("redis-py Lock", "redis-py Lock"), ("pyredisson", "pyredisson"))),
    ("64 threads, a lock each", "many_threads", (("redis-py Lock", "redis-py Lock"), ("pyredisson", "pyredisson"))),
    (
        "100 tasks, a lock each",
        "many_coroutines",
        (("redis.asyncio.Lock", "redis-py Lock"), ("pyredisson.asyncio", "pyredisson")),
    ),
    (
        "Five servers (Redlock), one thread",
        "redlock",
        (("pottery", "pottery"), ("redlock-ng", "redlock-ng"), ("pyredisson", "pyredisson")),
    ),
)
HEADLINE_CAPTION = "Pairs of acquire and release a second"

Measured = Mapping[str, Result]


def shown(results: Path) -> dict[str, Result]:
    """The results that count, by figure: those that were measured on a quiet machine."""
    return {result.figure.name: result for result in read(results, FIGURES) if not is_disturbed(result.figure.samples)}


# ---- the summary -----------------------------------------------------------------------------------------------------


def ratio(figure: Figure, comparison: Comparison) -> float:
    """The median over the rounds of ours by the other's; of the medians, if they have not the same rounds."""
    values = values_of(figure, comparison.quantity)
    ours, other = values[comparison.ours], values[comparison.other]
    if len(ours) != len(other):
        return statistics.median(ours) / statistics.median(other)
    return statistics.median(mine / theirs for mine, theirs in zip(ours, other, strict=True))


def rows_of(measured: Measured, comparisons: Sequence[Comparison]) -> list[tuple[str, str, str, str, str]]:
    """What, ours, the other, its name, the ratio: of what was measured."""
    rows = []
    for each in comparisons:
        if each.figure not in measured:
            continue
        figure = measured[each.figure].figure
        values = values_of(figure, each.quantity)
        if each.ours in values and each.other in values:
            ours, other = (show(statistics.median(values[who])) for who in (each.ours, each.other))
            rows.append((each.what, ours, other, each.named, f"{ratio(figure, each):.2g} ×"))
    return rows


def groups_of(measured: Measured) -> list[Group]:
    """The chart of the README."""
    groups = []
    for title, name, contestants in HEADLINE:
        if name in measured:
            values = values_of(measured[name].figure, PAIRS)
            bars = [Bar(label, statistics.median(values[who])) for who, label in contestants if who in values]
            groups.append(Group(title, bars))
    return groups


def conditions(measured: Measured) -> str:
    """What all or most of the figures were measured with."""
    said = [_conditions(result.about) for result in measured.values()]
    return statistics.mode(said) if said else ""


def _conditions(about: Mapping[str, object]) -> str:
    libraries = ", ".join(f"{name} {about[name]}" for name in ("redis-py", "hiredis") if name in about)
    return f"{about['server']}, {about['python']}, {libraries}, {about['system']}, {about['cores']} cores"


def footnote(measured: Measured) -> str:
    """What stands under the chart of the README: there is room for a few words."""
    about = measured[next(name for _, name, _ in HEADLINE if name in measured)].about
    return f"Medians. {about['server']}, {about['python']}, {about['cores']} cores"


def summary(measured: Measured) -> str:
    """The beginning of the page: what users ask."""
    parts: list[str] = []
    groups = groups_of(measured)
    if groups:
        parts.append(html_groups(HEADLINE_CAPTION, groups))
    speed = [(f"{named}, {what}", other, ours, times) for what, ours, other, named, times in rows_of(measured, SPEED)]
    if speed:
        heads = ("pairs a second; compared with", "other", "pyredisson", "ratio")
        parts += ["### How fast is it?", "More is better; a ratio above 1 × is in favor of pyredisson."]
        parts.append(markdown_table(heads, speed))
    if any(rows_of(measured, (*WAITING, *HOLDING))):
        parts += ["### What does it cost to wait, and to hold 10,000 locks?", "Less is better.", readme_table(measured)]
    if usual := conditions(measured):
        parts.append(f"Measured with {usual}.")
    return "\n\n".join(parts) + "\n"


# ---- each figure -----------------------------------------------------------------------------------------------------


def piece(result: Result, usual: str = "") -> str:
    """What a page says of a figure."""
    figure, about = result
    how = re.sub(r"\b1 rounds\b", "1 round", figure.how)
    notes = [
        f"{note[:1].upper()}{note[1:].removesuffix('.')}."
        for note in figure.notes
        if note != disturbance(figure.samples)
    ]
    where = _conditions(about)
    said = [how, *notes, *([f"Measured with {where}."] if where != usual else [])]
    return "\n\n".join([*(panel.html(figure) for panel in FIGURES[figure.name]), " ".join(said)]) + "\n"


def figures(measured: Measured) -> str:
    """All that was measured, without what is compared with Redisson."""
    parts = []
    for heading, names in SECTIONS:
        pieces = titled(measured, names)
        parts += [f"## {heading}", *pieces] if pieces else []
    return "\n\n".join(parts) + "\n"


def titled(measured: Measured, names: Sequence[str]) -> list[str]:
    """Those of these figures that were measured, under their titles."""
    usual = conditions(measured)
    parts = []
    for name in names:
        if name in measured:
            title = measured[name].figure.title.partition(", compared with")[0]
            parts += [f"### {title}", piece(measured[name], usual).rstrip()]
    return parts


def coordinators(measured: Measured) -> str:
    """A table of all that was measured with etcd and ZooKeeper, and each figure."""
    columns = {what: column for what, *where in COMPARED_WITH_COORDINATORS if (column := with_ratios(measured, *where))}
    if not columns:
        return "\n"
    contestants = dict.fromkeys(who for column in columns.values() for who in column)
    rows = [(who, *(column.get(who, "-") for column in columns.values())) for who in contestants]
    table = markdown_table(("median", *columns), rows)
    return "\n\n".join([table, *titled(measured, [name for _, name, _ in COMPARED_WITH_COORDINATORS])]) + "\n"


def with_ratios(measured: Measured, name: str, quantity: str) -> dict[str, str]:
    """Each contestant's median, and its ratio to that of this library; nothing if it was not measured."""
    if name not in measured:
        return {}
    samples = measured[name].figure.samples
    medians = {who: show(median_of(samples, who, quantity)) for who in samples}
    return {
        who: value if who == "pyredisson" else f"{value} ({median_ratio(samples, who, 'pyredisson', quantity):.2g} ×)"
        for who, value in medians.items()
    }


# ---- the README ------------------------------------------------------------------------------------------------------


def readme_table(measured: Measured) -> str:
    """What stands between the markers of the README."""
    rows = [(what, other, ours) for what, ours, other, _, _ in rows_of(measured, (*WAITING, *HOLDING))]
    return markdown_table(("median", "redis-py `Lock`", "pyredisson"), rows)


def with_table(readme: str, table: str) -> str:
    """The README with that table between its markers.

    Raises:
        ValueError: The markers are missing.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no table between {BEGIN} and {END}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def draw(results: Path, pieces: Path, chart: Path, readme: Path) -> None:
    """Write what is shown of the results that are there."""
    pieces.mkdir(parents=True, exist_ok=True)
    measured = shown(results)
    (pieces / "summary.md").write_text(summary(measured), "utf-8")
    (pieces / "figures.md").write_text(figures(measured), "utf-8")
    compared = "\n\n".join(titled(measured, COMPARED_WITH_REDISSON))
    (pieces / "compared_with_redisson.md").write_text(f"{compared}\n", "utf-8")
    (pieces / "compared_with_coordinators.md").write_text(coordinators(measured), "utf-8")
    for name in INCLUDED_ELSEWHERE:
        text = piece(measured[name], conditions(measured)) if name in measured else ""
        (pieces / f"{name}.md").write_text(text, "utf-8")
    if groups := groups_of(measured):
        chart.write_text(svg_groups(HEADLINE_CAPTION, groups, footnote(measured)), "utf-8")
    readme.write_text(with_table(readme.read_text("utf-8"), readme_table(measured)), "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description="Show the results.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--pieces", type=Path, default=PIECES, help="folder for the pieces of the documentation")
    parser.add_argument("--chart", type=Path, default=CHART, help="file for the README's chart")
    parser.add_argument("--readme", type=Path, default=README, help="README to write the table to")
    options = parser.parse_args(arguments)
    write_summary(options.results, FIGURES)
    draw(options.results, options.pieces, options.chart, options.readme)


if __name__ == "__main__":
    main()
