"""How a round of ``pyredisson top`` looks: on a terminal of any width, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyredisson.tools.common import plain
from pyredisson.tools.durations import duration_text
from pyredisson.tools.top.rounds import TopRound, TopRow

#: From how many columns on each column is shown.
COLUMNS = {"LOCK": 0, "WAITING": 0, "REL/s": 50, "HELD BY": 0, "FOR": 62, "FREE IN": 76, "LONGEST WAIT": 92}
RIGHT = {"WAITING", "REL/s", "FOR", "FREE IN", "LONGEST WAIT"}


def summary_of(seen: TopRound) -> str:
    """Return the numbers of all locks."""
    rate = "?" if seen.rate is None else f"{'~' if seen.sampled else ''}{seen.rate:.0f}"
    parts = [f"{seen.held} held", f"{seen.contended} contended", f"{seen.waiting} waiting", f"{rate} releases/s"]
    if seen.cpu is not None:
        parts.append(f"server {seen.cpu:.0%} of a core")
    return " · ".join(parts)


def honesty_of(seen: TopRound) -> str:
    """Return where the numbers come from, and how old they are."""
    if seen.waits is None:
        waits = "no wait of more than a few seconds is reported"
    else:
        p50, p99 = (duration_text(each) for each in seen.waits)
        waits = f"waits so far p50 {p50}, p99 {p99}, of {seen.waits_known} that their clients report"
    search = f"searched {duration_text(seen.searched)} ago in {duration_text(seen.search_seconds)}"
    return f"{waits} · {search}{'' if seen.complete else ', not all keys'}"


def cells_of(row: TopRow) -> dict[str, str]:
    """Return what each column shows of a lock."""
    lock = row.lock
    more = f" (+{len(lock.holders) - 1})" if len(lock.holders) > 1 else ""
    return {
        "LOCK": plain(lock.name),
        "WAITING": str(lock.waiting or ""),
        "REL/s": "" if not row.rate else f"{row.rate:.1f}" if row.rate < 10 else f"{row.rate:.0f}",
        "HELD BY": plain(lock.holders[0].label) + more if lock.holders else "",
        "FOR": "" if row.held is None else duration_text(row.held),
        "FREE IN": "never" if lock.never_expires else "" if lock.free_in is None else duration_text(lock.free_in),
        "LONGEST WAIT": "" if row.longest_wait is None else duration_text(row.longest_wait),
    }


def screen_of(seen: TopRound, console: Console) -> RenderableType:
    """Return what fits on a terminal."""
    width = console.width
    table = Table(box=None, expand=False, pad_edge=False, show_edge=False)
    columns = [name for name, least in COLUMNS.items() if width >= least]
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in RIGHT else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=None,
            max_width=max(8, width * 2 // 5) if name in ("LOCK", "HELD BY") else None,
        )
    notes = [Text(plain(error), style="red") for error in seen.errors[:1]]
    header = Group(Text(summary_of(seen), style="bold"), Text(honesty_of(seen), style="dim"), *notes, Text())
    above_and_below = len(console.render_lines(header)) + 2
    for row in seen.rows[: max(1, console.height - above_and_below)]:
        cells = cells_of(row)
        table.add_row(*(Text(cells[name], style=_style_of(name, row)) for name in columns))
    return Group(header, table, Text("q quits", style="dim"))


def _style_of(column: str, row: TopRow) -> str:
    if column == "FREE IN" and row.lock.never_expires:
        return "red"
    return "yellow" if column == "WAITING" else ""


def text_of(seen: TopRound) -> Iterator[str]:
    """Yield the lines of a round for a pipe."""
    yield summary_of(seen)
    yield honesty_of(seen)
    yield from (plain(error) for error in seen.errors)
    for row in seen.rows:
        cells = cells_of(row)
        known = {
            "WAITING": "waiting {}",
            "REL/s": "{}/s",
            "HELD BY": "held by {}",
            "FOR": "for {}",
            "FREE IN": "free in {}",
        }
        yield "  ".join(
            [f"  {cells['LOCK']}", *(form.format(cells[name]) for name, form in known.items() if cells[name])]
        )
    yield ""
