"""Where a client connects: URLs, and what can be learnt from a client that the user made."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import redis
import redis.connection

from pyredisson._net.sentinel import FoundBySentinels, Sentinels
from pyredisson._net.slots import Cluster
from pyredisson._net.wire import Address
from pyredisson.config import Config

DEFAULT_URL = "redis://localhost:6379"

#: Settings that belong to redis-py's own way of repeating, checking and announcing; our connections do that themselves.
NOT_OURS = frozenset(
    {
        "event_dispatcher",
        "health_check_interval",
        "maint_notifications_config",
        "maint_notifications_pool_handler",
        "maintenance_notification_hash",
        "maintenance_state",
        "oss_cluster_maint_notifications_handler",
        "orig_host_address",
        "orig_socket_connect_timeout",
        "orig_socket_timeout",
        "retry",
        "retry_on_error",
        "retry_on_timeout",
    }
)

#: How redis-py lets its connections say which library they are of; ours do that together with their first request.
_NAMES = frozenset({"driver_info", "lib_name", "lib_version"})
_NAMELESS: dict[str, None] = (
    {"driver_info": None} if hasattr(redis.connection, "DriverInfo") else {"lib_name": None, "lib_version": None}
)

#: What a URL may begin with.
SCHEMES = (
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "embedded",
)
#: How redis-py spells these.
_VALKEY = {"valkey": "redis", "valkeys": "rediss"}


def known_url(url: str) -> str:
    """Return a URL as it is read from here on: what ``valkey://`` and ``valkeys://`` mean has another name, too.

    Raises:
        TypeError: It is not a ``str``.
        ValueError: It begins with nothing that is known, or cannot be read. The text is not repeated: it may
            be a password.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be a str, not {type(url).__name__}")
    scheme, separator, rest = url.partition("://")
    if separator and scheme in SCHEMES:
        known = f"{_VALKEY.get(scheme, scheme)}://{rest}"
        _check_readable(known)
        return known
    if url == "embedded:":
        return url
    accepted = ", ".join(f"{each}://" for each in SCHEMES)
    begins = f"this one begins with {scheme}://" if separator and scheme.isalnum() else "this one does not"
    raise ValueError(f"a URL must begin with one of {accepted}; {begins}. An example: {DEFAULT_URL}")


@contextmanager
def url_from_env() -> Iterator[str]:
    """Give the URL that the environment names: ``PYREDISSON_URL``, else ``REDIS_URL``, else the default.

    Raises:
        ValueError: The block found it to be wrong; with the name of the variable.
    """
    variable = next((name for name in ("PYREDISSON_URL", "REDIS_URL") if os.environ.get(name)), None)
    try:
        yield os.environ[variable] if variable is not None else DEFAULT_URL
    except ValueError as error:
        if variable is None:
            raise
        raise ValueError(f"the environment variable {variable} is not a valid URL: {error}") from None


def check_settings(settings: dict[str, Any]) -> None:
    """Raise ``TypeError`` if one of the settings meant for redis-py's connections is one of ``Config``."""
    ours = [field.name for field in fields(Config) if field.name in settings]
    if isinstance(settings.get("client_name"), str):
        ours.remove("client_name")  # It is the name of redis-py's own setting, too.
    if ours:
        given = ", ".join(f"{name}={settings[name]!r}" for name in ours)
        raise TypeError(
            f"{' and '.join(ours)} {'is a setting' if len(ours) == 1 else 'are settings'} of Config: "
            f"from_url(url, config=Config({given}))"
        )


def accepted_by(connection_class: type[Any]) -> frozenset[str]:
    """Return the names of the settings that a connection class of redis-py takes."""
    bases = [base for base in getattr(connection_class, "__mro__", ()) if base is not object]
    return frozenset(name for base in bases for name in inspect.signature(base).parameters)


def check_known(pool: Any, given: Mapping[str, Any]) -> None:
    """Raise an error for a setting that the connections of a pool do not take: redis-py does so at first use.

    Args:
        pool: The pool.
        given: The settings that were given as arguments; all others are the URL's.

    Raises:
        TypeError: An argument is no setting.
        ValueError: Something in the URL is no setting.
    """
    kind, settings = pool.connection_class, pool.connection_kwargs
    if kind.__module__.partition(".")[0] != "redis":
        return  # The user's own, which may take others.
    accepted = accepted_by(kind) | NOT_OURS
    unknown = next((name for name in settings if name not in accepted), None)
    if unknown is not None:
        import difflib  # Slow to import.

        near = difflib.get_close_matches(unknown, accepted, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        text = f"{unknown!r} is not a setting of redis-py's connections{hint}"
        raise TypeError(text) if unknown in given else ValueError(text)
    for name in ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"):
        path = settings.get(name)
        if path and not os.path.exists(path):
            raise ValueError(f"{name}={path!r}: there is no such file or folder")


def asks_for_embedded(url: str, settings: dict[str, Any]) -> bool:
    """Whether a URL asks for a private server of the client's own.

    Raises:
        TypeError: There are settings for a server that takes none.
        ValueError: The URL says more than that.
    """
    if not url.startswith("embedded:"):
        return False
    if url not in ("embedded:", "embedded://"):
        raise ValueError("embedded:// takes no host, port or path: the server is private to this client")
    if settings:
        raise TypeError("embedded:// takes no connection settings")
    return True


def _check_readable(url: str) -> None:
    """Raise ``ValueError`` for a URL whose parts cannot be read. The text may be part of a password.

    redis-py drops what is not a digit from the database, or all of it.
    """
    scheme = url.partition("://")[0]
    if scheme not in ("redis", "rediss", "unix"):
        return  # Of no single host; its own parser says what is wrong with it.
    try:
        parts = urlsplit(url)
        if scheme == "unix":
            return  # It has no port, and its path is that of a socket.
        _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(
            "the URL is not valid: its port is not a number from 0 to 65535, or its host is wrong. In a user's name "
            "or password, percent-encode characters such as # / ? : @ [ ] %: urllib.parse.quote(password, safe='')"
        ) from None
    if re.fullmatch("/?[0-9]*", parts.path) is None:
        raise ValueError(f"the database in the path of the URL must be a number, such as {DEFAULT_URL}/1")


# ---- URLs of several hosts -------------------------------------------------------------------------------------------

ONE_DATABASE = "only database 0 of a cluster is used (Valkey 9 can have others, and Redis has none)"

_SEVERAL_HOSTS = re.compile(
    r"(?P<scheme>[^:]*)://(?P<login>(?:[^/?#]*@)?)(?P<hosts>[^/?#]*)(?P<path>[^?]*)(?P<query>.*)", re.DOTALL
)
_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")


def cluster_url(url: str) -> tuple[tuple[Address, ...], str] | None:
    """Read ``redis+cluster://[user:password@]host[:port][,host[:port]...][?settings]``, or with ``rediss`` for TLS.

    Returns:
        The nodes, and the URL of the first by itself, for redis-py to read the rest of. ``None``: another kind of URL.

    Raises:
        ValueError: It names no nodes, a port that is none, or a database. What it says of a login is not repeated.
    """
    parts = _SEVERAL_HOSTS.fullmatch(url)
    if parts is None or not parts["scheme"].endswith("+cluster"):
        return None
    if parts["path"] not in ("", "/", "/0"):
        raise ValueError(f"{parts['scheme']}:// takes no path: {ONE_DATABASE}")
    seeds = _hosts(parts, 6379)
    first = f"{parts['scheme'].removesuffix('+cluster')}://{parts['login']}{listed(seeds[:1])}{parts['query']}"
    _check_readable(first)
    return seeds, first


class SentinelUrl(NamedTuple):
    """What ``redis+sentinel://`` says.

    Attributes:
        sentinels: Where they are.
        service: The name under which they know the master.
        data: The URL, as redis-py reads it, of a server in the master's place; its host and port mean nothing.
    """

    sentinels: tuple[Address, ...]
    service: str
    data: str


def parse_sentinel_url(url: str) -> SentinelUrl | None:
    """Read ``redis+sentinel://[[user]:password@]host:port[,host:port]/service[/db]``; ``None`` for any other URL.

    User and password are the data servers'. What follows a ``?`` are settings, as in redis-py's URLs.

    Raises:
        ValueError: It begins like that, and goes on otherwise.
    """
    parts = _SEVERAL_HOSTS.fullmatch(url)
    if parts is None or parts["scheme"] != "redis+sentinel":
        return None
    sentinels = _hosts(parts, 26379)
    service, _, db = parts["path"].lstrip("/").partition("/")
    if not service:
        raise ValueError(
            "the service is missing, whose master the sentinels report: redis+sentinel://host:port/service"
        )
    data = f"redis://{parts['login']}sentinel:0/{db or 0}{parts['query']}"
    _check_readable(data)
    return SentinelUrl(sentinels, unquote(service), data)


def _hosts(parts: re.Match[str], default_port: int) -> tuple[Address, ...]:
    """Return the hosts of a URL and their ports."""
    addresses: list[Address] = []
    for each in parts["hosts"].split(","):
        found = _HOST.fullmatch(each)
        port = int(found["port"] or default_port) if found else 0
        if found is None or not 0 < port < 65_536:
            raise ValueError(  # Not the text itself: it may be part of a password.
                f"{parts['scheme']}:// must be followed by nodes, as host:port[,host:port]: a port must be a number "
                "from 1 to 65535, and an IPv6 address in brackets. In a user's name or password, percent-encode "
                "characters such as # / ? : @ [ ] %"
            )
        addresses.append((found["ipv6"] or found["host"], port))
    return tuple(addresses)


def listed(addresses: Iterable[Address]) -> str:
    """Return addresses as they stand in a URL."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def client_at(url: str, settings: dict[str, Any], api: ModuleType) -> Any:
    """Return the client for a URL: one of redis-py, a :class:`Cluster`, or what sentinels have to find.

    Args:
        url: As :func:`known_url` returns it.
        settings: What was given as arguments.
        api: ``redis`` or ``redis.asyncio``.

    Raises:
        TypeError: An argument is no setting.
        ValueError: The URL leads nowhere, or contains what is no setting.
    """
    cluster, sentinel = cluster_url(url), parse_sentinel_url(url)
    if cluster is not None:
        seeds, first = cluster
        remap = settings.pop("address_remap", None)
        pool = api.ConnectionPool.from_url(first, **settings)
        check_known(pool, settings)
        if pool.connection_kwargs.get("db"):
            raise ValueError(ONE_DATABASE)
        return Cluster(seeds, pool.connection_class, kept_settings(pool.connection_kwargs), remap)
    sentinel_settings = settings.pop("sentinel_kwargs", None) if sentinel else None
    client = api.Redis.from_url(sentinel.data if sentinel else url, **settings)
    check_known(client.connection_pool, settings)
    if sentinel is None:
        return client
    return FoundBySentinels(client, Sentinels(sentinel.sentinels, sentinel.service, sentinel_settings))


# ---- what a client's settings say ------------------------------------------------------------------------------------


def check_client(client: object, kind: type) -> None:
    """Raise ``TypeError`` if what the user gave is not a client of this form."""
    if isinstance(client, kind):
        return
    form, given = kind.__module__.removesuffix(".client"), f"{type(client).__module__}.{type(client).__name__}"
    instead = "Redisson.from_url() takes a URL"
    if isinstance(client, (redis.Redis, redis.RedisCluster)):
        instead = "pyredisson.Redisson takes one for threads"
    elif given.startswith("redis.asyncio."):
        instead = "pyredisson.asyncio.Redisson takes one for asyncio"
    raise TypeError(f"redis must be a {form}.{kind.__name__}, not {given}; {instead}")


def settings_of(config: object) -> Config:
    """Return the settings that the user gave, or the defaults. Raises ``TypeError`` for anything else."""
    if config is None:
        return Config()
    if not isinstance(config, Config):
        raise TypeError(f"config must be a Config, not {type(config).__name__}")
    return config


def kept_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return those of the user's settings that concern us; some of the others hold on to the user's pool.

    While a server is about to move, redis-py has others in their places, and keeps those of the user here.
    """
    kept = {key: value for key, value in settings.items() if key not in NOT_OURS}
    if settings.get("orig_host_address") is not None:
        kept["host"] = settings["orig_host_address"]
        for name in ("socket_timeout", "socket_connect_timeout"):
            kept[name] = settings.get(f"orig_{name}")
    return kept


def own_settings(settings: dict[str, Any], budget: float) -> dict[str, Any]:
    """Return the settings for a connection of our own: the user's, but for what concerns repeating.

    ``budget`` bounds the handshake, however long the user would let it take.
    """
    own = kept_settings(settings)
    for key in _NAMES:
        own.pop(key, None)
    own.update(_NAMELESS)
    for key in ("socket_timeout", "socket_connect_timeout"):
        value = own.get(key)
        own[key] = min(value, budget) if isinstance(value, (int, float)) and value > 0 else budget
    return own
