"""The application: pages, their events, and the one form that changes something."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pyredisson._tools.web.access import Access, AccessGuard, sign_in_page
from pyredisson._tools.web.history import PageEvent
from pyredisson._tools.web.pages import HEARTBEAT_SECONDS, Difference, Pages, Parts
from pyredisson._tools.web.seen import Query, shorten
from pyredisson._tools.web.watcher import Watcher
from pyredisson.inspection import LockView

MAX_STREAMS = 100
MAX_FORM = 4_096  # bytes

FIRST_LOOK_SECONDS = 1.5

#: The types of the files that pages load. Starlette's StaticFiles cannot read them from a zip.
STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@final
@dataclass(frozen=True)
class Outcome:
    """What became of an attempt to free a lock.

    Attributes:
        freed: Whether it was freed.
        status: The HTTP status that says so.
        title: The same in a word or two.
        text: The same in a sentence.
    """

    freed: bool
    status: int
    title: str
    text: str


@final
class _Events(StreamingResponse):
    """A stream of events, whether or not it is ever read.

    Args:
        events: The events.
        ended: Called when it has ended, however it does.
    """

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]) -> None:
        # nginx would collect events.
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


#: Frees a lock if it is still held by those who held it when it was looked at.
Free = Callable[[LockView], Awaitable[Outcome]]


@final
class Site:
    """The application.

    Args:
        watcher: What looks at the server.
        pages: What renders the pages.
        access: Which requests are answered.
        free: Frees a lock; ``None`` if this site only reads.
        report: Called with a line for each lock that was freed.
    """

    def __init__(
        self,
        watcher: Watcher,
        pages: Pages,
        access: Access,
        *,
        free: Free | None = None,
        report: Callable[[str], None] = print,
    ) -> None:
        self._watcher, self._pages, self._access = watcher, pages, access
        self._free, self._report = free, report
        self._streams = 0
        routes = [
            Route("/", self._overview),
            Route("/events", self._overview_events),
            Route("/lock/{lock_id}", self._lock),
            Route("/lock/{lock_id}/events", self._lock_events),
            Route("/lock/{lock_id}/free", self._free_lock, methods=["POST"]),
            Route("/sign-in", self._sign_in, methods=["POST"]),
            Route("/static/{name}", _static),
        ]
        self.asgi: ASGIApp = AccessGuard(Starlette(routes=routes, lifespan=self._lifespan), access)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.create_task(self._watcher.run())
        yield
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _overview(self, request: Request) -> Response:
        await self._watcher.look_soon(FIRST_LOOK_SECONDS)
        return HTMLResponse(self._pages.overview(Query.read(request.query_params)))

    async def _lock(self, request: Request) -> Response:
        await self._watcher.look_soon(FIRST_LOOK_SECONDS)
        page = self._pages.lock(request.path_params["lock_id"])
        if page is None and self._watcher.seen is None and self._watcher.trouble is None:
            text = "The first look at the server is in progress."
            return HTMLResponse(self._pages.message("One moment", text, refresh=True), 503)
        if page is None:
            text = "It is free, or it has another address by now. This program has not seen it since it started."
            return HTMLResponse(self._pages.message("No such lock", text), 404)
        return HTMLResponse(page)

    async def _overview_events(self, request: Request) -> Response:
        query = Query.read(request.query_params)
        return self._events(lambda: self._pages.overview_parts(query, live=True))

    async def _lock_events(self, request: Request) -> Response:
        lock_id = request.path_params["lock_id"]
        return self._events(lambda: self._pages.lock_parts(lock_id, live=True))

    def _events(self, parts: Callable[[], Parts]) -> Response:
        if self._streams >= MAX_STREAMS:
            return PlainTextResponse("Too many pages are open.\n", 503, {"retry-after": "30"})
        self._streams += 1  # Now, so that a burst of requests is not more than the limit either.
        return _Events(self._stream(parts), self._end_stream)

    def _end_stream(self) -> None:
        self._streams -= 1

    async def _stream(self, parts: Callable[[], Parts]) -> AsyncIterator[str]:
        watcher, difference = self._watcher, Difference()
        with watcher.viewing():
            yield "retry: 2000\n\n"
            while not watcher.closing:
                version = watcher.version
                if watcher.seen or watcher.trouble:
                    yield _event(difference.to(parts()))
                else:
                    yield ": the first look at the server is in progress\n\n"
                await watcher.news(version, HEARTBEAT_SECONDS)

    # ---- the token, and freeing a lock -------------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        if self._access.token is None:
            return RedirectResponse("/", 303)
        form = await _form_of(request)
        if not self._access.is_token(form.get("token", "")):
            return sign_in_page(wrong=True)
        response = RedirectResponse("/", 303)
        self._access.remember(response)
        return response

    async def _free_lock(self, request: Request) -> Response:
        lock_id = request.path_params["lock_id"]
        if self._free is None:
            return self._say(403, "Read-only", "Start with --allow-unlock to free locks here.", "/")
        form = await _form_of(request)
        if not self._access.is_form_token(form.get("form_token", "")):
            return self._say(403, "Not freed", "This form is not of this program. Open the lock's page again.", "/")
        link = f"/lock/{lock_id}"
        seen = self._watcher.seen
        row = seen.rows.get(lock_id) if seen else None
        if row is None:
            return self._say(409, "Not freed", "The lock is not held any more.", "/")
        if row.ownership is None or row.ownership != form.get("ownership"):
            return self._say(409, "Not freed", "Others hold it by now than the page showed. Look again.", link)
        outcome = await self._free(row.lock)
        address = request.client.host if request.client else "?"
        holders = ", ".join(each.label for each in row.lock.holders[:3])
        self._report(f"{address}: free {row.title}, held by {shorten(holders)}: {outcome.text}")
        if outcome.freed:
            self._watcher.history.add(row, PageEvent(time.time(), "freed", shorten(holders), 0.0))
        self._watcher.look_now()
        return self._say(outcome.status, outcome.title, outcome.text, link)

    def _say(self, status: int, title: str, text: str, link: str) -> Response:
        return HTMLResponse(self._pages.message(title, text, link=link), status)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    found = [file for file in (files("pyredisson._tools.web") / "static").iterdir() if file.name == name]
    if not found:
        return PlainTextResponse("Not Found", 404)
    content = found[0].read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"etag": etag})
    return Response(content, media_type=STATIC_TYPES[name.rpartition(".")[2]], headers={"etag": etag})


def _event(changes: dict[str, Any]) -> str:
    data = {"now": round(time.time(), 2), **changes}
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n"


async def _form_of(request: Request) -> dict[str, str]:
    """Read a form; what is too long, or has too many fields, is none."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_FORM:
            return {}
    try:
        read = parse_qs(body.decode("latin-1"), max_num_fields=10, errors="replace")
    except ValueError:
        return {}
    return {name: values[0] for name, values in read.items()}
