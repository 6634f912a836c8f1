"""A client of the ``valkey`` package that the user made: a client of redis-py with its settings, to the same server.

The package is a fork of redis-py, so its settings carry the same names. It need not be installed.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from pyredisson.net.urls import NOT_OURS

__all__ = ["as_redis_client"]

#: Those that carry the same name in both packages, and that we make ourselves.
CONNECTIONS = ("Connection", "SSLConnection", "UnixDomainSocketConnection")

#: Its settings that are classes of its own, or name it.
ITS_OWN = frozenset({"encoder_class", "lib_name", "lib_version", "parser_class"})


def as_redis_client(client: Any, api: ModuleType) -> Any:
    """Return a client of ``api`` (``redis`` or ``redis.asyncio``) for one of valkey; anything else as it is.

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
    pool = getattr(client, "connection_pool", None)
    kind = getattr(pool, "connection_class", None)
    if not isinstance(kind, type) or not _is_valkey(kind) or kind.__name__ not in CONNECTIONS:
        raise TypeError(
            f"the server's address cannot be determined from a {origin}.{type(client).__name__} with connections of "
            f"{getattr(kind, '__qualname__', 'its own')}: use Redisson.from_url(), with redis+cluster:// for a "
            "cluster and redis+sentinel:// for sentinels"
        )
    made: type[Any] = getattr(api, kind.__name__)
    accepted = {name for base in made.__mro__ if base is not object for name in inspect.signature(base).parameters}
    settings = {
        name: value
        for name, value in getattr(pool, "connection_kwargs", {}).items()
        if name in accepted and name not in NOT_OURS and name not in ITS_OWN
    }
    greet = getattr(pool, "connection_kwargs", {}).get("valkey_connect_func")
    if greet is not None:
        settings["redis_connect_func"] = greet
    return api.Redis(connection_pool=api.ConnectionPool(connection_class=made, **settings))


def _is_valkey(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "valkey"
