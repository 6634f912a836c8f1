"""Pages in parts, which the server alone renders, for the first answer and for events. An event has what changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyredisson import __version__
from pyredisson._tools.web.watcher import BUCKET_SECONDS, BUCKETS, Bucket, SeenRow, Watcher, shorten
from pyredisson.inspection.model import shown_kinds, stored_kinds

PAGE = 100  # rows
MAX_CLIENTS = 200  # rows
MAX_PARTS = 200  # holders, waiters or keys of one lock that are shown
MAX_SEARCH = 200  # characters
MAX_RENDERED = 100  # pages that are kept for other viewers until the next look

#: A stream says something at least that often, so that a browser knows that it is alive.
HEARTBEAT_SECONDS = 10.0

#: After how long without news a page says that it is stale.
PATIENCE_MS = int(1_500 * HEARTBEAT_SECONDS)


SHOWN = {"all": "All", "held": "Held", "waiting": "With waiters", "problems": "With problems"}
SORTS = {"waiting": "Waiting", "name": "Name", "since": "Held longest", "free": "Free soonest"}


class Query(NamedTuple):
    """Which locks a viewer wants to see, in which order.

    Attributes:
        text: A text that their names, kinds, holders or waiters contain.
        kind: Their kind; empty for all.
        show: One of ``SHOWN``.
        sort: One of ``SORTS``.
        page: From 1.
    """

    text: str = ""
    kind: str = ""
    show: str = "all"
    sort: str = "waiting"
    page: int = 1

    @staticmethod
    def read(parameters: Mapping[str, str]) -> Query:
        """Read the query of an address. What makes no sense is left out."""
        kind, show, sort, page = (parameters.get(name, "") for name in ("kind", "show", "sort", "page"))
        return Query(
            text=parameters.get("q", "").strip()[:MAX_SEARCH],
            kind=kind if kind in shown_kinds() else "",
            show=show if show in SHOWN else "all",
            sort=sort if sort in SORTS else "waiting",
            page=max(1, int(page)) if page.isdecimal() and len(page) < 6 else 1,
        )

    def address(self, page: int) -> str:
        """Return the address of another page of the same rows."""
        names = {"q": self.text, "kind": self.kind, "show": self.show, "sort": self.sort, "page": str(page)}
        return "/?" + urlencode({name: value for name, value in names.items() if value}, errors="replace")

    def matching(self, rows: Iterable[SeenRow]) -> list[SeenRow]:
        """Return the rows of all pages, in order."""
        text = self.text.lower()
        return sorted((row for row in rows if self._matches(row, text)), key=self._order)

    def _matches(self, row: SeenRow, text: str) -> bool:
        if self.kind and row.lock.kind != self.kind:
            return False
        shown = {"held": row.lock.held, "waiting": row.lock.waiting > 0, "problems": bool(row.problems)}
        return shown.get(self.show, True) and (not text or row.contains(text))

    def _order(self, row: SeenRow) -> tuple[float, str, str]:
        numbers = {"waiting": -row.lock.waiting, "since": row.since, "free": row.until}
        number = numbers.get(self.sort, 0.0)
        return float("inf") if number is None else number, row.lock.name, row.id


class Parts(NamedTuple):
    """A rendered page.

    Attributes:
        blocks: HTML by the id of the element that it is in.
        lists: HTML of the rows of a table, in order, by their keys, by the id of the table's body.
    """

    blocks: Mapping[str, str]
    lists: Mapping[str, Mapping[str, str]]


class Difference:
    """What a browser has received, and what it still needs."""

    def __init__(self) -> None:
        self._blocks: dict[str, str] = {}
        self._lists: dict[str, Mapping[str, str]] = {}

    def to(self, parts: Parts) -> dict[str, Any]:
        """Return the event that turns what the browser has into these parts."""
        blocks = {key: html for key, html in parts.blocks.items() if self._blocks.get(key) != html}
        lists = {}
        for key, rows in parts.lists.items():
            had = self._lists.get(key)
            if had is None or had != rows or list(had) != list(rows):
                changed = {row: html for row, html in rows.items() if had is None or had.get(row) != html}
                lists[key] = {"order": list(rows), "rows": changed}
        self._blocks, self._lists = dict(parts.blocks), dict(parts.lists)
        return {"blocks": blocks, "lists": lists}


class Pages:
    """Renders pages from what a watcher has seen, each only once for all its viewers.

    Args:
        watcher: What looks at the server.
        server: The URL of the server, without a password.
        form_token: For forms that free a lock; ``None`` if there are none.
    """

    def __init__(self, watcher: Watcher, *, server: str, form_token: str | None) -> None:
        self._watcher, self._server, self._form_token = watcher, server, form_token
        self._rendered: dict[object, Parts] = {}
        self._version = -1

    def overview(self, query: Query) -> str:
        """Return the first page as a whole."""
        parts = self.overview_parts(query, live=False)
        return render(
            "overview.html", **self._common(parts), query=query, kinds=shown_kinds(), shown=SHOWN, sorts=SORTS
        )

    def lock(self, lock_id: str) -> str | None:
        """Return the page of a lock as a whole; ``None`` if there is nothing to say about it."""
        title = self._title_of(lock_id)
        if title is None:
            return None
        return render("lock.html", **self._common(self.lock_parts(lock_id, live=False)), lock_id=lock_id, title=title)

    def message(self, title: str, text: str, *, link: str = "/", refresh: bool = False) -> str:
        """Return a page that only says something; with `refresh` the browser asks again by itself."""
        common = self._common(Parts({}, {}))
        return render("message.html", **common, title=title, text=text, link=link, refresh=refresh)

    def _title_of(self, lock_id: str) -> str | None:
        seen = self._watcher.seen
        row = seen.rows.get(lock_id) if seen else None
        return row.title if row else self._watcher.history.title_of(lock_id)

    def _common(self, parts: Parts) -> dict[str, object]:
        joined = {key: Markup("".join(rows.values())) for key, rows in parts.lists.items()}
        blocks = {key: Markup(html) for key, html in parts.blocks.items()}
        return {
            "parts": {**blocks, **joined},
            "server": self._server,
            "interval": self._watcher.interval,
            "always": self._watcher.always,
            "patience": PATIENCE_MS,
            "now": time.time(),
            "unlock": self._form_token is not None,
        }

    def _once(self, key: object, make: Callable[[], Parts]) -> Parts:
        """Return what was made of this key since the last look; make it if there is none."""
        if self._version != self._watcher.version or len(self._rendered) >= MAX_RENDERED:
            self._version = self._watcher.version
            self._rendered.clear()
        if key not in self._rendered:
            self._rendered[key] = make()
        return self._rendered[key]

    def overview_parts(self, query: Query, *, live: bool) -> Parts:
        """Return the first page in parts.

        Args:
            query: Which locks it shows.
            live: For events: times are filled in by the browser, so that a row changes only if its lock does.
        """
        return self._once((query, live), lambda: self._overview_parts(query, live))

    def _overview_parts(self, query: Query, live: bool) -> Parts:
        seen, waits = self._watcher.seen, self._watcher.waits
        rows = query.matching(seen.rows.values()) if seen else []
        clients = seen.clients if seen else []
        pages = max(1, -(-len(rows) // PAGE))
        page = min(query.page, pages)
        now = seen.snapshot.taken if seen else time.time()
        blocks = self._blocks(
            "status alerts tiles locks-note waits graph clients-note",
            live=live,
            graph=seen.drawing if seen else None,
            query=query,
            found=len(rows),
            page=page,
            pages=pages,
            charts=draw_waits(waits.last_hour(now), now),
            clients=clients,
            limit=MAX_CLIENTS,
        )
        shown = rows[(page - 1) * PAGE : page * PAGE]
        lists: dict[str, dict[str, str]] = {
            "locks": {row.id: render("blocks/lock_row.html", row=row, live=live) for row in shown},
            "clients": {
                key: render("blocks/client_row.html", client=each, key=key, live=live)
                for each in clients[:MAX_CLIENTS]
                for key in [shorten(each.client_id or " ".join(each.addresses))]
            },
        }
        return Parts(blocks, lists)

    def _blocks(self, names: str, **context: object) -> dict[str, str]:
        """Return what the templates of these names make of some values, and of what the watcher has seen."""
        watcher = self._watcher
        context |= {"watcher": watcher, "seen": watcher.seen, "trouble": watcher.trouble}
        return {name: render(f"blocks/{name.replace('-', '_')}.html", **context) for name in names.split()}

    def lock_parts(self, lock_id: str, *, live: bool) -> Parts:
        """Return the page of a lock in parts."""
        return self._once((lock_id, live), lambda: self._lock_parts(lock_id, live))

    def _lock_parts(self, lock_id: str, live: bool) -> Parts:
        seen = self._watcher.seen
        blocks = self._blocks(
            "status alerts facts holders queue history",
            live=live,
            graph=None,
            row=seen.rows.get(lock_id) if seen else None,
            limit=MAX_PARTS,
            form_token=self._form_token,
            events=self._watcher.history.of(lock_id),
        )
        return Parts(blocks, {})


# ---- templates -------------------------------------------------------------------------------------------------------
# The templates, which escape all that they are given, and the functions that they may use.


def duration(seconds: float) -> str:
    """Return a time as people say it: ``41 s``, ``6 min 2 s``, ``3 h 5 min``. ``app.js`` has the same rules."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def clock(at: float) -> str:
    """Return a time of the day. In the browser, ``app.js`` replaces it by the viewer's own."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S UTC")


def ago(at: float) -> str:
    """Return how long ago a Unix time is."""
    return duration(time.time() - at)


def until(at: float) -> str:
    """Return how far away a Unix time is."""
    return duration(at - time.time())


def words(kind: str) -> str:
    """Return a kind as words."""
    known = stored_kinds().get(kind)
    return kind.replace("_", " ") if known is None else known.words


def _finalize(value: object) -> object:
    # Every text that a template prints passes here: no control character, and no text without an end.
    return shorten(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pyredisson._tools.web"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # An address and the outline of a drawing are ours, long, and of characters that need no escape but `&`.
    environment.filters.update(drawn=Markup.escape, safe_address=Markup.escape)
    environment.filters.update(ago=ago, until=until, clock=clock, duration=duration, words=words)
    environment.globals.update(version=__version__, rows_of_a_page=PAGE, plot=(WIDTH, HEIGHT))
    return environment


def render(template: str, **context: object) -> str:
    """Return what a template makes of some values."""
    return _environment().get_template(template).render(**context)


# ---- plot ------------------------------------------------------------------------------------------------------------
# Waits over the last hour, drawn as SVG: two small charts over the same hour.


WIDTH, HEIGHT = 720, 84

#: What the upper edge of a chart may stand for: numbers, and times in seconds, that are easy to read.
NUMBERS = tuple(step * 10.0**power for power in range(9) for step in (1, 2, 5))
TIMES = (
    *(1, 2, 5, 10, 20, 30),
    *(60 * each for each in (1, 2, 5, 10, 20, 30)),
    *(3600.0 * 2**power for power in range(20)),
)


class Chart(NamedTuple):
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


def draw_waits(buckets: Sequence[Bucket], now: float) -> list[Chart]:
    """Draw how many waited, and for how long the longest had waited, over the hour before a Unix time."""
    last = int(now // BUCKET_SECONDS)
    waiting = {each.number: float(each.waiting) for each in buckets}
    longest = {each.number: each.longest for each in buckets}
    return (
        [
            _chart("Owners waiting", waiting, last, "{:,.0f}".format, NUMBERS),
            _chart("Longest wait", longest, last, duration, TIMES),
        ]
        if buckets
        else []
    )


def _chart(
    title: str, values: Mapping[int, float], last: int, text_of: Callable[[float], str], tops: Sequence[float]
) -> Chart:
    most = max(values.values())
    top = next((each for each in tops if each >= most), most)
    areas, lines = [], []
    for run in _runs(values):
        points = [(_x(number, last), round(HEIGHT - HEIGHT * values[number] / top, 1)) for number in run]
        points.append((_x(run[-1] + 1, last), points[-1][1]))  # A bucket is as wide as its time.
        line = "L".join(f"{x:g} {y:g}" for x, y in points)
        lines.append(f"M{line}")
        areas.append(f"M{points[0][0]:g} {HEIGHT}L{line}L{points[-1][0]:g} {HEIGHT}Z")
    now = values.get(last, values.get(last - 1, 0.0))
    return Chart(title, areas, lines, text_of(top), f"now {text_of(now)}, at most {text_of(most)} in the last hour")


def _x(number: int, last: int) -> float:
    return round(WIDTH * (BUCKETS - 1 - (last - number)) / BUCKETS, 1)


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Split the numbers of buckets where there is a gap: for three buckets or more nothing was seen."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each - runs[-1][-1] <= 3:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs
