"""A client of the ``valkey`` package that the user made: a client of redis-py with its settings, to the same server.

The package is a fork of redis-py, so its settings carry the same names. It need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pyredisson._net.endpoint import is_tls
from pyredisson._net.sentinel import FoundBySentinels, Sentinels
from pyredisson._net.slots import Cluster, cluster_of, connections_of
from pyredisson._net.urls import NOT_OURS, accepted_by

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


def _found_by_sentinels(pool: Any, api: ModuleType) -> FoundBySentinels:
    """The server that the same sentinels name. What is sent to it is sent past the user's client."""
    manager = pool.sentinel_manager
    if not pool.is_master:
        raise TypeError("a replica grants no locks: use the client that master_for() returns")
    if manager.min_other_sentinels:
        raise TypeError("min_other_sentinels is not supported: use a client of redis-py, or Redisson.from_url()")
    asked = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    sentinels = [(each["host"], each["port"]) for each in asked]
    made: type[Any] = api.SSLConnection if is_tls(pool.connection_class) else api.Connection
    client = api.Redis(
        connection_pool=api.ConnectionPool(connection_class=made, **_settings_for(made, pool.connection_kwargs))
    )
    settings = {name: value for name, value in manager.sentinel_kwargs.items() if name not in NOT_OURS}
    return FoundBySentinels(client, Sentinels(sentinels, pool.service_name, settings))


def _is_valkey(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "valkey"
