"""What the library uses of redis-py beyond its documentation: each piece by name."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster

import pyredisson

SOURCES = sorted(Path(pyredisson.__file__).parent.rglob("*.py"))

#: Private attributes of connections, and why they are used.
PRIVATE = {
    (redis.Connection, "_sock"): "the socket of a connection is taken over, and the parent's is closed after a fork",
    (redis.asyncio.Connection, "_reader"): "the stream of a connection is taken over",
    (redis.asyncio.Connection, "_writer"): "the stream of a connection is taken over",
}

#: Public by name, but not documented.
UNDOCUMENTED = {
    (redis.Connection, "redis_connect_func"): "the handshake of a connection is wrapped",
    (redis.Connection, "on_connect"): "the handshake of a connection is wrapped",
    (redis.asyncio.Connection, "on_connect"): "the handshake of a connection is wrapped",
    (redis.ConnectionPool, "connection_class"): "connections are made of the client's class",
    (redis.ConnectionPool, "connection_kwargs"): "connections are made with the client's settings",
    (redis.asyncio.ConnectionPool, "connection_class"): "connections are made of the client's class",
    (redis.asyncio.ConnectionPool, "connection_kwargs"): "connections are made with the client's settings",
}

#: Parameters of methods that borrowed connections are used with.
PARAMETERS = [
    (redis.Connection.send_packed_command, "check_health"),
    (redis.Connection.read_response, "disable_decoding"),
    (redis.Connection.read_response, "push_request"),
    (redis.Connection.can_read, "timeout"),
    (redis.asyncio.Connection.send_packed_command, "check_health"),
    (redis.asyncio.Connection.read_response, "disable_decoding"),
    (redis.asyncio.Connection.read_response, "push_request"),
    (redis.asyncio.Connection.read_response, "disconnect_on_error"),
    (redis.asyncio.Connection.disconnect, "nowait"),
]

#: What is read of a cluster's client. It is made by connecting, so it is looked for in the source of its class.
OF_CLUSTERS = {
    redis.cluster.NodesManager: [
        "startup_nodes",
        "nodes_cache",
        "create_redis_node",
        "connection_kwargs",
        "address_remap",
    ],
    redis.RedisCluster: ["nodes_manager", "user_on_connect_func"],
    redis.asyncio.cluster.NodesManager: ["startup_nodes", "nodes_cache", "address_remap"],
    redis.asyncio.RedisCluster: ["nodes_manager", "connection_kwargs"],
}


def lacking(what: str, why: str = "") -> str:
    reason = f" ({why})" if why else ""
    return (
        f"redis-py {redis.__version__} has no {what}, which pyredisson needs{reason}: see the limits in pyproject.toml"
    )


@pytest.mark.parametrize(
    ("kind", "name"), [*PRIVATE, *UNDOCUMENTED], ids=lambda each: getattr(each, "__name__", str(each))
)
def test_each_attribute_is_there(kind: type[Any], name: str) -> None:
    why = {**PRIVATE, **UNDOCUMENTED}[kind, name]
    assert hasattr(kind(), name), lacking(f"{kind.__module__}.{kind.__name__}.{name}", why)


@pytest.mark.parametrize(("method", "name"), PARAMETERS, ids=lambda each: getattr(each, "__qualname__", str(each)))
def test_each_parameter_is_there(method: Any, name: str) -> None:
    parameters = inspect.signature(method).parameters
    accepted = name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    assert accepted, lacking(f"parameter {name!r} of {method.__module__}.{method.__qualname__}()")


@pytest.mark.parametrize("pool", [redis.ConnectionPool, redis.asyncio.ConnectionPool], ids=lambda pool: pool.__module__)
def test_a_pool_gives_a_connection_without_the_name_of_a_command(pool: type[Any]) -> None:
    parameters = list(inspect.signature(pool.get_connection).parameters.values())[1:]
    optional = all(each.default is not each.empty or each.kind is each.VAR_POSITIONAL for each in parameters[:1])
    assert optional, lacking(f"{pool.__module__}.ConnectionPool.get_connection() without arguments")


@pytest.mark.parametrize("kind", OF_CLUSTERS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_each_attribute_of_a_cluster_is_there(kind: type[Any]) -> None:
    source = inspect.getsource(kind)
    for name in OF_CLUSTERS[kind]:
        there = hasattr(kind, name) or re.search(rf"self\.{name}\b[^=\n]*=[^=]", source)
        assert there, lacking(f"{kind.__module__}.{kind.__name__}.{name}")


def test_no_other_private_attribute_of_a_connection_is_used() -> None:
    named = {name for _, name in PRIVATE}
    used = {
        name
        for path in SOURCES
        for name in re.findall(
            r"""\bconnection(?:\.|,\s*["'])(_[a-z]\w*)""",
            path.read_text(encoding="utf-8").replace("self._connection", ""),
        )
    }
    assert used - named == set(), "name it in PRIVATE"
    assert named - used == set(), "no longer used: remove it from PRIVATE"
