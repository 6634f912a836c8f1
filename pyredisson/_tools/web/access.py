"""Which requests are answered: the Host header, the token, the origin of forms; and the headers of each answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from typing import final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyredisson._tools.web.templates import render

MAX_COOKIES = 10  # of our name: a browser sends one for each path
MAX_FIELDS = 100  # of an address

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


@final
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

    @staticmethod
    def new_token() -> str:
        """Return a token that cannot be guessed."""
        return secrets.token_urlsafe(32)

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


@final
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
        try:
            query = parse_qsl(
                scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS
            )
        except ValueError:
            return None
        tokens = [value for name, value in query if name == "token"]
        if scope["method"] != "GET" or not any(map(self._access.is_token, tokens)):
            return None
        rest = urlencode([each for each in query if each[0] != "token"])
        # Not a redirect: after a link of another site, a browser follows it without a cookie that is SameSite=Strict.
        target = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        response = HTMLResponse(render("signed_in.html", target=target))
        self._access.remember(response)
        return response


def sign_in_page(*, wrong: bool = False) -> Response:
    """Ask for the token."""
    return HTMLResponse(render("sign_in.html", wrong=wrong), 403)
