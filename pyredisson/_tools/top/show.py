"""How a round of ``pyredisson top`` looks: on a terminal of any width, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyredisson._tools.common import plain
from pyredisson._tools.durations import duration_text
from pyredisson._tools.top.rounds import Record

#: From how many columns on each column is shown.
COLUMNS = {"LOCK": 0, "WAITING": 0, "REL/s": 50, "HELD BY": 0, "FOR": 62, "FREE IN": 76, "LONGEST WAIT": 92}
RIGHT = {"WAITING", "REL/s", "FOR", "FREE IN", "LONGEST WAIT"}


def summary_of(seen: Record) -> str:
    """Return the numbers of all locks."""
    rate = seen["releases_per_second"]
    rate = "?" if rate is None else f"{'~' if seen['releases_sampled'] else ''}{rate:.0f}"
    parts = [f"{seen[name]} {name}" for name in ("held", "contended", "waiting")] + [f"{rate} releases/s"]
    if seen["server_cpu_percent"] is not None:
        parts.append(f"server {seen['server_cpu_percent']:.0f}% of a core")
    return " · ".join(parts)


def honesty_of(seen: Record) -> str:
    """Return where the numbers come from, and how old they are."""
    waits = "no wait of more than a few seconds is reported"
    if seen["waits_known"]:
        p50, p99 = _time(seen["waits_p50_ms"]), _time(seen["waits_p99_ms"])
        waits = f"waits so far p50 {p50}, p99 {p99}, of {seen['waits_known']} that their clients report"
    search = f"searched {_time(seen['searched_ms_ago'])} ago in {_time(seen['search_ms'])}"
    return f"{waits} · {search}{'' if seen['complete'] else ', not all keys'}"


def _time(ms: int | None) -> str:
    return "" if ms is None else duration_text(ms / 1000)


def cells_of(lock: Record) -> dict[str, str]:
    """Return what each column shows of a lock."""
    holders, rate = lock["holders"], lock["releases_per_second"]
    more = f" (+{len(holders) - 1})" if len(holders) > 1 else ""
    return {
        "LOCK": plain(lock["name"]),
        "WAITING": str(lock["waiting"] or ""),
        "REL/s": "" if not rate else f"{rate:.1f}" if rate < 10 else f"{rate:.0f}",
        "HELD BY": plain(holders[0]) + more if holders else "",
        "FOR": _time(lock["held_ms"]),
        "FREE IN": "never" if lock["never_expires"] else _time(lock["free_in_ms"]),
        "LONGEST WAIT": _time(lock["longest_wait_ms"]),
    }


def screen_of(seen: Record, console: Console) -> RenderableType:
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
            max_width=max(8, width * 2 // 5) if name in ("LOCK", "HELD BY") else None,
        )
    notes = [Text(plain(error), style="red") for error in seen["errors"][:1]]
    header = Group(Text(summary_of(seen), style="bold"), Text(honesty_of(seen), style="dim"), *notes, Text())
    above_and_below = len(console.render_lines(header)) + 2
    for row in seen["locks"][: max(1, console.height - above_and_below)]:
        cells = cells_of(row)
        table.add_row(*(Text(cells[name], style=_style_of(name, row)) for name in columns))
    return Group(header, table, Text("q quits", style="dim"))


def _style_of(column: str, lock: Record) -> str:
    if column == "FREE IN" and lock["never_expires"]:
        return "red"
    return "yellow" if column == "WAITING" else ""


def text_of(seen: Record) -> Iterator[str]:
    """Yield the lines of a round for a pipe."""
    yield summary_of(seen)
    yield honesty_of(seen)
    yield from (plain(error) for error in seen["errors"])
    for row in seen["locks"]:
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
