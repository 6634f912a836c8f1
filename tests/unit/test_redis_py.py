"""What the library uses of redis-py beyond its documentation: each piece by name."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster

TAKEN_OVER = "the socket or stream of a connection is taken over"
MADE_ALIKE = "connections are made with the class and the settings of the client"
GREETED = "the handshake of a connection is wrapped"
SEEDS = "the nodes of a cluster's client are asked"

#: Attributes that are private, or not documented, and what they are used for.
ATTRIBUTES: dict[tuple[type[Any], str], str] = {
    (redis.Connection, "_sock"): TAKEN_OVER,
    (redis.asyncio.Connection, "_reader"): TAKEN_OVER,
    (redis.asyncio.Connection, "_writer"): TAKEN_OVER,
    (redis.Connection, "redis_connect_func"): GREETED,
    (redis.Connection, "on_connect"): GREETED,
    (redis.ConnectionPool, "connection_class"): MADE_ALIKE,
    (redis.ConnectionPool, "connection_kwargs"): MADE_ALIKE,
    (redis.asyncio.ConnectionPool, "connection_class"): MADE_ALIKE,
    (redis.asyncio.ConnectionPool, "connection_kwargs"): MADE_ALIKE,
    (redis.RedisCluster, "nodes_manager"): SEEDS,
    (redis.RedisCluster, "user_on_connect_func"): GREETED,
    (redis.asyncio.RedisCluster, "nodes_manager"): SEEDS,
    (redis.asyncio.RedisCluster, "connection_kwargs"): MADE_ALIKE,
    (redis.cluster.NodesManager, "startup_nodes"): SEEDS,
    (redis.cluster.NodesManager, "nodes_cache"): SEEDS,
    (redis.cluster.NodesManager, "create_redis_node"): MADE_ALIKE,
    (redis.cluster.NodesManager, "connection_kwargs"): MADE_ALIKE,
    (redis.cluster.NodesManager, "address_remap"): SEEDS,
    (redis.asyncio.cluster.NodesManager, "startup_nodes"): SEEDS,
    (redis.asyncio.cluster.NodesManager, "nodes_cache"): SEEDS,
    (redis.asyncio.cluster.NodesManager, "address_remap"): SEEDS,
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


def lacking(what: str, why: str = "") -> str:
    reason = f" ({why})" if why else ""
    return (
        f"redis-py {redis.__version__} has no {what}, which pyredisson needs{reason}: see the limits in pyproject.toml"
    )


def has(kind: type[Any], name: str) -> bool:
    """Whether its objects have an attribute: of the class, or assigned in a method."""
    assigned = re.compile(rf"\bself\.{name}\b[^=\n]*=[^=]")
    own = [base for base in kind.__mro__ if base.__module__.startswith("redis.")]
    return hasattr(kind, name) or any(assigned.search(inspect.getsource(base)) for base in own)


@pytest.mark.parametrize(("kind", "name"), ATTRIBUTES, ids=lambda each: getattr(each, "__name__", str(each)))
def test_each_attribute_is_there(kind: type[Any], name: str) -> None:
    assert has(kind, name), lacking(f"{kind.__module__}.{kind.__name__}.{name}", ATTRIBUTES[kind, name])


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
