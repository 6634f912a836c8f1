"""Where a client connects: URLs, and what can be learnt from a client that the user made."""

from __future__ import annotations

import inspect
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import redis
import redis.connection
import redis.exceptions as rx

from pyredisson._core.failures import NotSent, Unanswered
from pyredisson._net.link import CONNECTING, ServerLink, Transport
from pyredisson._net.topology import Cluster, Sentinels, cluster_of, connections_of
from pyredisson._net.wire import Address, app_in, as_redis_error, as_reply, not_opened
from pyredisson._shared.process import monotonic
from pyredisson.config import Config

if TYPE_CHECKING:
    from pyredisson._core.runtime import Ticket
    from pyredisson._net.cluster import ClusterLink

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
    # A class without an initializer of its own adds none, and it is slow to ask for its signature.
    bases = [base for base in getattr(connection_class, "__mro__", ())[:-1] if "__init__" in vars(base)]
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


def is_embedded_url(url: str, settings: dict[str, Any]) -> bool:
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

_SEVERAL_HOSTS = r"(?s)(?P<scheme>[^:]*)://(?P<login>(?:[^/?#]*@)?)(?P<hosts>[^/?#]*)(?P<path>[^?]*)(?P<query>.*)"
_HOST = r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?"


def cluster_url(url: str) -> tuple[tuple[Address, ...], str] | None:
    """Read ``redis+cluster://[user:password@]host[:port][,host[:port]...][?settings]``, or with ``rediss`` for TLS.

    Returns:
        The nodes, and the URL of the first by itself, for redis-py to read the rest of. ``None``: another kind of URL.

    Raises:
        ValueError: It names no nodes, a port that is none, or a database. What it says of a login is not repeated.
    """
    parts = re.fullmatch(_SEVERAL_HOSTS, url)
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
    parts = re.fullmatch(_SEVERAL_HOSTS, url)
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
        found = re.fullmatch(_HOST, each)
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
    """Return the client for a URL: one of redis-py, a :class:`Cluster`, or the :class:`Endpoint` that sentinels name.

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
    return _endpoint(client.connection_pool, Sentinels(sentinel.sentinels, sentinel.service, sentinel_settings))


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


# ---- endpoint --------------------------------------------------------------------------------------------------------
# Where clients lead, and the URLs of these places, for messages: passwords are masked.


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
    return client if isinstance(client, (Cluster, Endpoint)) else _endpoint(client.connection_pool)


def _endpoint(pool: Any, sentinels: Sentinels | None = None) -> Endpoint:
    return Endpoint(pool.connection_class, kept_settings(pool.connection_kwargs), sentinels)


def is_tls(connection_class: Callable[..., Any]) -> bool:
    """Whether connections of a class of redis-py's, or of the valkey package, in either form, speak TLS.

    Of those that a function makes, that is not known.
    """
    kind: Any = connection_class
    while isinstance(kind, partial):
        kind = kind.func
    return any(base.__name__ == "SSLConnection" for base in getattr(kind, "__mro__", ()))


def url_of_endpoint(place: Endpoint | Cluster, *, login: bool = True) -> str | None:
    """Return the URL that leads to a place; ``None`` if its settings do not say where it is.

    ``login``: whether with the user, and a masked password.
    """
    settings, tls = place.settings, "s" if is_tls(place.connection_class) else ""
    user, db = _login(settings) if login else "", settings.get("db") or 0
    if isinstance(place, Cluster):
        return f"redis{tls}+cluster://{user}{listed(place.seeds)}"
    if place.sentinels is not None:
        return f"redis+sentinel://{user}{listed(place.sentinels.addresses)}/{quote(place.sentinels.service)}/{db}"
    if path := settings.get("path"):
        return f"unix://{user}{path}" + (f"?db={db}" if db else "")
    host = settings.get("host")
    return f"redis{tls}://{user}{listed([(host, settings.get('port', 6379))])}/{db}" if host else None


def _login(settings: dict[str, Any]) -> str:
    user = quote(settings.get("username") or "")
    secret = ":***" if settings.get("password") else ""
    if user and not secret:
        return "***@"  # Mostly a password, whose colon was forgotten.
    return f"{user}{secret}@" if user or secret else ""


# ---- connect ---------------------------------------------------------------------------------------------------------
# Where a client connects, and the links to there: the same for threads and asyncio.


Link: TypeAlias = "ServerLink | ClusterLink"
"""The connections to one server, or to all the nodes of a cluster."""


class Form(NamedTuple):
    """What connections are made of, for threads or for asyncio.

    Attributes:
        api: ``redis`` or ``redis.asyncio``.
        own: Makes connections of a connection class of redis-py and its settings.
        as_pool: Makes connections as a pool of the user's does, whose connection class is another one.
        ticket: Makes what a caller sleeps on.
    """

    api: ModuleType
    own: Callable[[type[Any], dict[str, Any]], Transport]
    as_pool: Callable[[Any], Transport]
    ticket: Callable[[], Ticket]


class Target(NamedTuple):
    """Where a client connects.

    Attributes:
        endpoint: How to connect to there.
        link: Makes a link to there.
        app: What the user's own settings call their connections; ``None``: nothing.
        scattered: Whether it is a cluster, whose names are on several servers.
    """

    endpoint: Endpoint | Cluster
    link: Callable[[], Link]
    app: str | None
    scattered: bool


def target_of(client: object, config: Config, form: Form) -> Target:
    """Return where a client connects: one of redis-py or of valkey, or what :func:`client_at` returns.

    Raises:
        TypeError: It is no client of this form.
    """
    where: Any = as_redis_client(client, form.api)
    if isinstance(where, form.api.RedisCluster):
        kind, settings = connections_of(where)
        where = cluster_of(where, kind, kept_settings(settings))
    if isinstance(where, Cluster):
        return Target(where, partial(_link_to_cluster, where, config, form), app_in(where.settings), True)
    pool = None
    if not isinstance(where, Endpoint):
        check_client(where, form.api.Redis)
        pool, where = where.connection_pool, _endpoint(where.connection_pool)
    made: Any = where.connection_class
    ours = (form.api.Connection, form.api.UnixDomainSocketConnection, form.api.SSLConnection)
    make = partial(form.own, made, where.settings) if pool is None or made in ours else partial(form.as_pool, pool)
    return Target(where, partial(_link_to_server, make, config, where.sentinels), app_in(where.settings), False)


def _link_to_server(transport: Callable[[], Transport], config: Config, sentinels: Sentinels | None) -> ServerLink:
    return ServerLink(transport(), config.connect_timeout, sentinels)


def _link_to_cluster(cluster: Cluster, config: Config, form: Form) -> ClusterLink:
    from pyredisson._net.cluster import ClusterLink  # Most programs have one server.

    def link_to_node(address: Address) -> ServerLink:
        return ServerLink(form.own(cluster.connection_class, cluster.settings_of(address)), config.connect_timeout)

    return ClusterLink(cluster, config.sharded_subscription_mode, link_to_node, form.ticket)


# ---- valkey client ---------------------------------------------------------------------------------------------------
# A client of the ``valkey`` package that the user made: a client of redis-py with its settings, to the same server.
#
# The package is a fork of redis-py, so its settings carry the same names. It need not be installed.


#: Those that carry the same name in both packages, and that we make ourselves.
CONNECTIONS = ("Connection", "SSLConnection", "UnixDomainSocketConnection")

#: Its settings that are classes of its own, or name it.
ITS_OWN = frozenset({"encoder_class", "lib_name", "lib_version", "parser_class"})


def as_redis_client(client: Any, api: ModuleType) -> Any:
    """Return a client of ``api`` (``redis`` or ``redis.asyncio``) for one of valkey, or to what it leads.

    That is its cluster, or the server that its sentinels name.

    Anything else is returned as it is.

    Raises:
        TypeError: It is a client of valkey whose server cannot be derived from its settings; or one for
            asyncio where one for threads is wanted, and the other way round.
    """
    origin = next((base.__module__ for base in type(client).__mro__ if _is_valkey(base)), None)
    if origin is None:
        return client
    if ".asyncio" in origin and not api.__name__.endswith(".asyncio"):
        raise TypeError("redis is a client of valkey.asyncio: use pyredisson.asyncio.Redisson, or a valkey.Valkey")
    if ".asyncio" not in origin and api.__name__.endswith(".asyncio"):
        raise TypeError("redis is a client of valkey for threads: use pyredisson.Redisson, or a valkey.asyncio.Valkey")
    if hasattr(client, "nodes_manager"):
        return _cluster_of(client, api)
    pool = getattr(client, "connection_pool", None)
    if _is_valkey(type(pool)) and hasattr(pool, "sentinel_manager"):
        return _found_by_sentinels(pool, api)
    kind = getattr(pool, "connection_class", None)
    if not isinstance(kind, type) or not _is_valkey(kind) or kind.__name__ not in CONNECTIONS:
        raise TypeError(
            f"the server's address cannot be determined from a {origin}.{type(client).__name__} with connections of "
            f"{getattr(kind, '__qualname__', 'its own')}: use Redisson.from_url()"
        )
    given: dict[str, Any] = getattr(pool, "connection_kwargs", {})
    made: type[Any] = getattr(api, kind.__name__)
    settings = _settings_for(made, given)
    greet = given.get("valkey_connect_func")
    if greet is not None:
        settings["redis_connect_func"] = greet
    return api.Redis(connection_pool=api.ConnectionPool(connection_class=made, **settings))


def _settings_for(made: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of valkey's settings that a connection class of redis-py takes."""
    accepted = accepted_by(made)
    return {
        name: value
        for name, value in given.items()
        if name in accepted and name not in NOT_OURS and name not in ITS_OWN
    }


def _cluster_of(client: Any, api: ModuleType) -> Cluster:
    kind, given = connections_of(client)
    made: type[Any] = getattr(api, kind.__name__)
    return cluster_of(client, made, _settings_for(made, given))


def _found_by_sentinels(pool: Any, api: ModuleType) -> Endpoint:
    """Return the server that the same sentinels name. What is sent to it is sent past the user's client."""
    manager = pool.sentinel_manager
    if not pool.is_master:
        raise TypeError("a replica grants no locks: use the client that master_for() returns")
    if manager.min_other_sentinels:
        raise TypeError("min_other_sentinels is not supported: use a client of redis-py, or Redisson.from_url()")
    queried = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    sentinels = [(each["host"], each["port"]) for each in queried]
    made: type[Any] = api.SSLConnection if is_tls(pool.connection_class) else api.Connection
    settings = {name: value for name, value in manager.sentinel_kwargs.items() if name not in NOT_OURS}
    return Endpoint(
        made, _settings_for(made, pool.connection_kwargs), Sentinels(sentinels, pool.service_name, settings)
    )


def _is_valkey(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "valkey"


# ---- user class ------------------------------------------------------------------------------------------------------
# Connections of a class, or of a factory, that is the user's, in both forms.
#
# Anything may stand behind it: a class that tunnels, a fake in memory, redis-py's own that asks sentinels. They are
# made from the settings of the user's pool, and are ours: they are neither taken from that pool nor counted there.


#: What redis-py's own reader raises for an error reply, some of which it makes errors of the connection.
REFUSED = (rx.ResponseError, rx.BusyLoadingError, rx.AuthenticationError)


class UserWire(ABC):
    """A connection of the user's class."""

    def __init__(self, connection: Any) -> None:
        self.connection: Any = connection
        self.address: Any = place_of(connection)
        self.used: float = monotonic()

    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`Wire.call`."""
        try:
            await self._send(data)
        except (rx.RedisError, OSError) as error:
            raise NotSent(as_redis_error(error)) from None
        try:
            return await self._receive(timeout)
        except REFUSED as error:
            return as_reply(error)
        except (rx.RedisError, OSError) as error:
            raise Unanswered(as_redis_error(error)) from None

    @abstractmethod
    async def _send(self, data: bytes) -> None:
        """Send a request."""

    @abstractmethod
    async def _receive(self, timeout: float) -> Any:
        """Return the reply. Raises an error of redis-py, also for no reply in time."""

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`Wire.call_many`. One after another: redis-py reads no more than it was asked for."""
        over = monotonic() + timeout
        return [await self.call(each, max(0.001, over - monotonic())) for each in requests]

    @abstractmethod
    def usable(self) -> bool:
        """See :meth:`Wire.usable`."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""

    def retire(self) -> None:
        """Close it: nothing is in flight on it."""
        self.close()

    @abstractmethod
    def abandon(self) -> None:
        """See :meth:`Wire.abandon`."""


class UserTransport(Transport):
    """Makes connections as the pool of a client does."""

    direct = False
    #: What the connections are here.
    wire: type[UserWire]

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    async def open(self, address: Address | None, timeout: float) -> UserWire:
        """See :meth:`Transport.open`."""
        return self.wire(await self._make(timeout))

    async def _make(self, timeout: float) -> Any:
        """Make a connection as the pool does, but one that redis-py does not repeat."""
        try:
            connection = self._pool.connection_class(**kept_settings(self._pool.connection_kwargs))
            await self._connect(connection, max(timeout, CONNECTING))
        except (rx.RedisError, OSError) as error:
            raise not_opened(error) from None
        return connection

    @abstractmethod
    async def _connect(self, connection: Any, timeout: float) -> None:
        """Connect it, however long it likes to take. Raises an error of redis-py, ``OSError`` or ``Connecting``."""

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Never called: the user's connections ask who leads when they connect."""
        raise AssertionError("a connection of the user's class finds its master by itself")


def place_of(connection: Any) -> Any:
    """Return where a connection of redis-py leads, as far as it says."""
    return getattr(connection, "host", None), getattr(connection, "port", None)
