"""Pages in parts, which the server alone renders, for the first answer and for events. An event has what changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final
from urllib.parse import urlencode

from markupsafe import Markup

from pyredisson._tools.web.plot import draw_waits
from pyredisson._tools.web.seen import MAX_PARTS, PAGE, SHOWN, SORTS, Query, SeenRow, shorten
from pyredisson._tools.web.templates import render
from pyredisson._tools.web.watcher import Watcher
from pyredisson.inspection.model import shown_kinds

MAX_CLIENTS = 200  # rows
MAX_RENDERED = 100  # pages that are kept for other viewers until the next look

#: A stream says something at least that often, so that a browser knows that it is alive.
HEARTBEAT_SECONDS = 10.0

#: After how long without news a page says that it is stale.
PATIENCE_MS = int(1_500 * HEARTBEAT_SECONDS)


@final
@dataclass(frozen=True)
class Parts:
    """A rendered page.

    Attributes:
        blocks: HTML by the id of the element that it is in.
        lists: HTML of the rows of a table, in order, by their keys, by the id of the table's body.
    """

    blocks: Mapping[str, str]
    lists: Mapping[str, Mapping[str, str]]


@final
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


@final
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
        watcher = self._watcher
        rows = query.matching(watcher.seen.rows.values()) if watcher.seen else []
        clients = watcher.seen.clients if watcher.seen else []
        pages = max(1, -(-len(rows) // PAGE))
        page = min(query.page, pages)
        context: dict[str, object] = {"seen": watcher.seen, "trouble": watcher.trouble, "live": live}
        context["watcher"] = watcher
        paging = {"found": len(rows), "first": (page - 1) * PAGE + 1, "page": page, "pages": pages}
        paging["last"] = min(page * PAGE, len(rows))
        links = {number: _address(query, number) for number in (page - 1, page + 1) if 1 <= number <= pages}
        now = watcher.seen.snapshot.taken if watcher.seen else time.time()
        graph = watcher.seen.drawing if watcher.seen else None
        blocks = {
            "status": render("blocks/status.html", **context),
            "alerts": render("blocks/alerts.html", **context, graph=graph),
            "tiles": render("blocks/tiles.html", **context),
            "locks-note": render("blocks/locks_note.html", **context, paging=paging, links=links, query=query),
            "waits": render("blocks/waits.html", plot=draw_waits(watcher.waits.last_hour(now), now), watcher=watcher),
            "graph": render("blocks/graph.html", **context, graph=graph),
            "clients-note": render("blocks/clients_note.html", clients=clients, limit=MAX_CLIENTS),
        }
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

    def lock_parts(self, lock_id: str, *, live: bool) -> Parts:
        """Return the page of a lock in parts."""
        return self._once((lock_id, live), lambda: self._lock_parts(lock_id, live))

    def _lock_parts(self, lock_id: str, live: bool) -> Parts:
        watcher = self._watcher
        row: SeenRow | None = watcher.seen.rows.get(lock_id) if watcher.seen else None
        events = watcher.history.of(lock_id)
        context: dict[str, object] = {"row": row, "live": live, "limit": MAX_PARTS, "watcher": watcher}
        context.update(seen=watcher.seen, trouble=watcher.trouble, graph=None)
        blocks = {
            "status": render("blocks/status.html", **context),
            "alerts": render("blocks/alerts.html", **context),
            "facts": render("blocks/facts.html", **context),
            "holders": render("blocks/holders.html", **context, form_token=self._form_token),
            "queue": render("blocks/queue.html", **context),
            "history": render("blocks/history.html", **context, events=events),
        }
        return Parts(blocks, {})


def _address(query: Query, page: int) -> str:
    names = {"q": query.text, "kind": query.kind, "show": query.show, "sort": query.sort, "page": str(page)}
    return "/?" + urlencode({name: value for name, value in names.items() if value}, errors="replace")
