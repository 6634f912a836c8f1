"""The application: pages, their events, and the one form that changes something."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import uvicorn
from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyredisson._tools.common import ExitCode, Stopped, inspector_at, read_address, say
from pyredisson._tools.sampling import in_daemon_thread
from pyredisson._tools.web.pages import HEARTBEAT_SECONDS, Difference, Pages, Parts, Query, render
from pyredisson._tools.web.watcher import PageEvent, Watcher, shorten
from pyredisson.inspection import DOUBTFUL, Inspector, LockView, Unlocked, describe

MAX_STREAMS = 100
MAX_FORM = 4_096  # bytes

FIRST_LOOK_SECONDS = 1.5

#: The types of the files that pages load. Starlette's StaticFiles cannot read them from a zip.
STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Outcome(NamedTuple):
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


# ---- access ----------------------------------------------------------------------------------------------------------
# Which requests are answered: the Host header, the token, the origin of forms; and the headers of each answer.


MAX_COOKIES = 10  # of our name: a browser sends one for each path

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Access:
    """The rules. Without a token there is nothing to do but read, and nothing to prove.

    Args:
        token: What a viewer has to show, once; ``None`` if all may read.
        hosts: Names, besides ``localhost`` and addresses, by which this program may be called.
        port: Where it listens: cookies are shared by all ports of a host, so ours has the port in its name.
    """

    def __init__(self, token: str | None, hosts: frozenset[str], port: int) -> None:
        self.token = token
        self._hosts = frozenset(each.lower() for each in hosts) | {"localhost", socket.gethostname().lower()}
        self.cookie: str = f"pyredisson-web-{port}"

    def _derived(self, purpose: bytes) -> str:
        # Neither the cookie nor a form contains the token itself.
        return hmac.new((self.token or "").encode(), purpose, hashlib.sha256).hexdigest()

    @property
    def session(self) -> str:
        """The value of the cookie of a viewer that has shown the token."""
        return self._derived(b"session")

    @property
    def form_token(self) -> str:
        """What a form of our own pages contains, and one of another site cannot know."""
        return self._derived(b"form")

    def is_token(self, text: str) -> bool:
        """Whether a text is the token. The comparison takes the same time for all texts."""
        return self.token is not None and _equal(text, self.token)

    def is_form_token(self, text: str) -> bool:
        """Whether a text is the one in our forms."""
        return self.token is not None and _equal(text, self.form_token)

    def is_signed_in(self, headers: Headers) -> bool:
        """Whether a request has the cookie."""
        if self.token is None:
            return True
        # Not by Python's SimpleCookie: one cookie of another program that it cannot read makes it drop all of them.
        cookies = "; ".join(headers.getlist("cookie")).split(";")
        values = [value for name, _, value in (each.strip().partition("=") for each in cookies) if name == self.cookie]
        return any(_equal(value, self.session) for value in values[:MAX_COOKIES])

    def remember(self, response: Response) -> None:
        """Give the browser the cookie."""
        response.set_cookie(self.cookie, self.session, httponly=True, samesite="strict", path="/")

    def knows_host(self, headers: Headers) -> bool:
        """Whether a request calls this program by a name of its own.

        A page of another site whose name is made to lead here (DNS rebinding) sends that name. Addresses cannot be
        rebound.
        """
        named = headers.getlist("host")
        if len(named) != 1:
            return False
        host = _host_of(f"//{named[0]}")
        if host is None:
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host in self._hosts or host.endswith(".localhost")
        return True

    @staticmethod
    def is_same_origin(headers: Headers) -> bool:
        """Whether a form was sent by a page of ours. Browsers say so with each ``POST``."""
        origins = headers.getlist("origin")
        if len(origins) != 1 or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        scheme, separator, rest = origins[0].partition("://")
        return scheme in ("http", "https") and bool(separator) and rest.lower() == headers.get("host", "").lower()


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _host_of(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return parts.hostname


class AccessGuard:
    """An ASGI application that asks another one only what ``Access`` allows, and adds headers to its answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                is_static = scope["path"].startswith("/static/") and message["status"] in (200, 304)
                headers["cache-control"] = "no-cache" if is_static else "no-store"
            await send(message)

        await (self._refusal(scope) or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, access = Headers(scope=scope), self._access
        if not access.knows_host(headers):
            text = "This host name is not known here. Use localhost or an address, or start with --allow-host NAME.\n"
            return PlainTextResponse(text, 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET, HEAD and POST.\n", 405, {"allow": "GET, HEAD, POST"})
        if scope["method"] == "POST" and not access.is_same_origin(headers):
            return PlainTextResponse("Forms of other sites are refused.\n", 403)
        path = scope["path"]
        if access.token is None or path == "/sign-in" or path.startswith("/static/"):
            return None
        return self._with_token(scope) or (None if access.is_signed_in(headers) else sign_in_page())

    def _with_token(self, scope: Scope) -> Response | None:
        """Sign in a viewer whose address contains the token; their browser continues without it."""
        query = QueryParams(scope["query_string"])
        if scope["method"] != "GET" or not any(map(self._access.is_token, query.getlist("token"))):
            return None
        rest = urlencode([each for each in query.multi_items() if each[0] != "token"])
        # Not a redirect: after a link of another site, a browser follows it without a cookie that is SameSite=Strict.
        target = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        response = HTMLResponse(render("signed_in.html", target=target))
        self._access.remember(response)
        return response


def sign_in_page(*, wrong: bool = False) -> Response:
    """Ask for the token."""
    return HTMLResponse(render("sign_in.html", wrong=wrong), 403)


# ---- server ----------------------------------------------------------------------------------------------------------
# Running the site: the socket, the messages at the start, and an end without a trace.


#: How long open connections may take to end after Ctrl-C.
CLOSE_SECONDS = 1


def is_local(host: str) -> bool:
    """Whether only programs of this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def notified(unlocked: Unlocked) -> str:
    """Return how many processes received the message of a release, in words."""
    count = unlocked.notified
    if not count and unlocked.about_waiters:
        return unlocked.about_waiters
    return {0: "no process is known to wait for it", 1: "1 process was notified"}.get(
        count, f"{count} processes were notified"
    )


def freeing(inspector: Inspector) -> Free:
    """Return the function that frees a lock on a server."""

    async def free(lock: LockView) -> Outcome:
        try:
            unlocking = in_daemon_thread(lambda: inspector.unlock(lock.name, seen=lock), "pyredisson-web-unlock")
            unlocked = await asyncio.wrap_future(unlocking)
        except (RedisError, OSError, ValueError) as error:
            return Outcome(False, 503, "Not freed", describe(error))
        match unlocked.outcome:
            case "freed":
                return Outcome(True, 200, "Freed", f"The lock was freed; {notified(unlocked)}.")
            case "not_held":
                return Outcome(False, 409, "Not freed", "It was not held any more.")
            case "doubtful":
                return Outcome(False, 409, "Not freed", f"It is {DOUBTFUL}.")
        return Outcome(False, 409, "Not freed", "Another owner holds it by now. Look again.")

    return free


def show_address(host: str, port: int) -> str:
    """Return the address for a browser."""
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class WebServer(uvicorn.Server):
    """Uvicorn's server, which ends the streams of open pages when it is asked to end, and says nothing of its own."""

    def __init__(self, site: Site, watcher: Watcher) -> None:
        super().__init__(
            uvicorn.Config(
                site.asgi,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="critical",
                access_log=False,  # It would contain the token of the first visit.
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self._watcher = watcher
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal ends it."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, as signals ask for, and as tests do."""
        super().handle_exit(sig, frame)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._watcher.close)


def run_web(
    *,
    url: str,
    listen: str,
    prefix: str = "",
    interval: float,
    record: bool = False,
    allow_unlock: bool = False,
    hosts: tuple[str, ...] = (),
) -> int:
    """Show the locks of a server until a signal ends it. Returns the exit code."""
    host, port = read_address(listen)
    inspector = inspector_at(url, prefix)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:  # UnicodeError: it can be no host name.
        text = f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        raise Stopped(ExitCode.FAILED, text) from None
    # The inspector's connections end with this process. Closing them would wait for a look at a server that hangs.
    with listener:
        port = listener.getsockname()[1]
        access = Access(secrets.token_urlsafe(32) if allow_unlock else None, frozenset({host, *hosts}), port)
        watcher = Watcher(inspector.snapshot, interval=interval, always=record)
        pages = Pages(watcher, server=inspector.url, form_token=access.form_token if allow_unlock else None)
        site = Site(watcher, pages, access, free=freeing(inspector) if allow_unlock else None, report=say)
        _announce(host, port, access)
        # Uvicorn raises the signal that ended it once more when its own handlers are gone, and nothing is left to end.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: None)
        asyncio.run(WebServer(site, watcher).serve([listener]))
    return 0


def _announce(host: str, port: int, access: Access) -> None:
    address = show_address(host, port)
    if access.token is not None:
        say(f"open {address}?token={access.token}")
        say("this address contains the token: with it, locks can be freed")
    else:
        say(f"open {address}")
    if not is_local(host):
        say(f"warning: other machines can connect to {host}:{port}, unencrypted, and see names of locks and hosts")
    say("Ctrl-C ends it; no lock is harmed")
