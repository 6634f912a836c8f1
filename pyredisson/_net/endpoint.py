"""Where clients lead, and the URLs of these places, for messages: passwords are masked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

import redis

from pyredisson._net.sentinel import FoundBySentinels, Sentinels
from pyredisson._net.slots import Cluster
from pyredisson._net.urls import SentinelUrl, kept_settings, listed
from pyredisson._net.wire import Address


class Endpoint(NamedTuple):
    """Where one server is, and how to reach it.

    Attributes:
        connection_class: What redis-py makes the connections of: a class as a rule, or a function.
        settings: And with what.
        sentinels: Who is asked where it is; then host and port of the settings mean nothing.
    """

    connection_class: Callable[..., Any]
    settings: dict[str, Any]
    sentinels: Sentinels | None = None


def endpoint_of(client: Any) -> Endpoint | Cluster:
    """Return where a client leads: one of redis-py, or what :func:`client_at` returns."""
    if isinstance(client, Cluster):
        return client
    client, sentinels = client if isinstance(client, FoundBySentinels) else (client, None)
    pool = client.connection_pool
    return Endpoint(pool.connection_class, kept_settings(pool.connection_kwargs), sentinels)


def is_tls(connection_class: Callable[..., Any]) -> bool:
    """Whether connections of a class of redis-py's, or of the valkey package, in either form, speak TLS.

    Of those that a function makes, that is not known.
    """
    kind: Any = connection_class
    while isinstance(kind, partial):
        kind = kind.func
    return any(base.__name__ == "SSLConnection" for base in getattr(kind, "__mro__", ()))


def url_of_endpoint(place: Endpoint | Cluster) -> str | None:
    """Return the URL, password masked, that leads to a place."""
    tls = is_tls(place.connection_class)
    if isinstance(place, Cluster):
        return url_of_cluster(place.seeds, place.settings, tls=tls)
    return url_of(place.settings, tls=tls, sentinels=place.sentinels)


def url_of_cluster(seeds: Iterable[Address], settings: dict[str, Any], *, tls: bool) -> str:
    """Return the URL, password masked, that leads to a cluster with these nodes."""
    return f"{'rediss' if tls else 'redis'}+cluster://{_login(settings)}{listed(seeds)}"


def url_of_sentinels(sentinels: Iterable[Address], service: str, settings: dict[str, Any]) -> str:
    """Return the URL, password masked, of the master that sentinels report. ``settings``: those of its clients."""
    return f"redis+sentinel://{_login(settings)}{listed(sentinels)}/{quote(service)}/{settings.get('db') or 0}"


def _login(settings: dict[str, Any]) -> str:
    user = quote(settings.get("username") or "")
    secret = ":***" if settings.get("password") else ""
    if user and not secret:
        return "***@"  # Mostly a password, whose colon was forgotten.
    return f"{user}{secret}@" if user or secret else ""


def url_of(settings: dict[str, Any], *, tls: bool = False, sentinels: Sentinels | None = None) -> str | None:
    """Return the URL, password masked, that leads where these connection settings lead, or where sentinels say."""
    if sentinels is not None:
        return url_of_sentinels(sentinels.addresses, sentinels.service, settings)
    login = _login(settings)
    db = settings.get("db") or 0
    path = settings.get("path")
    if path:
        return f"unix://{login}{path}" + (f"?db={db}" if db else "")
    host = settings.get("host")
    if not host:
        return None
    return f"{'rediss' if tls else 'redis'}://{login}{listed([(host, settings.get('port', 6379))])}/{db}"


def masked(url: SentinelUrl) -> str:
    """Return a URL of sentinels, password masked."""
    settings = redis.ConnectionPool.from_url(url.data).connection_kwargs
    return url_of_sentinels(url.sentinels, url.service, settings)
