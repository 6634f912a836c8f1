"""A cluster's slots: which one a request is for, who serves it, and what a node says that does not. Nothing blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from pyredisson._core.runtime import Announce
from pyredisson._net.wire import Address, Packed, prepare, unexpected_reply

SLOTS = REDIS_CLUSTER_HASH_SLOTS

Remap: TypeAlias = Callable[[Address], Address]
"""Makes the address that a client can reach of the one that the cluster tells."""


def slot_of(key: str) -> int:
    """Return the slot of a key or of a channel."""
    return key_slot(key.encode())


class Cluster(NamedTuple):
    """Where a cluster is, and how to reach it.

    Attributes:
        seeds: Nodes to ask first.
        connection_class: What redis-py makes the connections of.
        settings: And with what, but for the address.
        remap: What the user's client makes of the addresses that the nodes report.
    """

    seeds: tuple[Address, ...]
    connection_class: type[Any]
    settings: dict[str, Any]
    remap: Remap | None

    def settings_of(self, address: Address) -> dict[str, Any]:
        """The settings for the connections to one node."""
        host, port = address
        return {**self.settings, "host": host, "port": port}


def cluster_of(client: Any, connection_class: type[Any], settings: dict[str, Any]) -> Cluster:
    """Return the cluster of a client that the user made. What is sent to it is sent past that client.

    Args:
        client: One of redis-py or of valkey.
        connection_class: What redis-py makes the connections of.
        settings: And with what, but for the address and for what the user does with each new connection.
    """
    manager = client.nodes_manager
    nodes = [*manager.startup_nodes.values(), *manager.nodes_cache.values()]
    seeds = tuple(dict.fromkeys((node.host, node.port) for node in nodes))
    greet: Callable[[Any], object] | None = getattr(client, "user_on_connect_func", None)
    if greet is not None:

        def connected(connection: Any) -> None:
            connection.on_connect()
            greet(connection)

        settings = {**settings, "redis_connect_func": connected}
    return Cluster(seeds, connection_class, settings, manager.address_remap)


#: What redis-py passes to the nodes of a cluster under asyncio, and these do not pass on to their connections.
_NOT_FOR_CONNECTIONS = frozenset({"connection_class", "max_connections", "redis_connect_func", "response_callbacks"})


def connections_of(client: Any) -> tuple[type[Any], dict[str, Any]]:
    """Return what a cluster client of redis-py or valkey makes its connections of: their class and settings."""
    manager = client.nodes_manager
    create = getattr(manager, "create_redis_node", None) or getattr(manager, "create_valkey_node", None)
    if create is None:  # Under asyncio, where nodes make their connections themselves.
        given = client.connection_kwargs
        return given["connection_class"], {k: v for k, v in given.items() if k not in _NOT_FOR_CONNECTIONS}
    any_node = next(iter(manager.startup_nodes.values()))
    # As that client would make one: the library knows what becomes of each setting.
    pool = create(any_node.host, any_node.port, **manager.connection_kwargs).connection_pool
    settings = dict(pool.connection_kwargs)
    settings.pop("redis_connect_func", None)  # Its own makes connections for reading, maybe, and keeps it alive.
    return pool.connection_class, settings


class SlotCall:
    """A script's call for one slot. It is packed when it is first sent: only then is the word for publishing known.

    Attributes:
        slot: That of its first key; the others share it.
        packed: Once it has been sent, what was sent.
    """

    __slots__ = ("_parts", "packed", "slot")

    def __init__(self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> None:
        self.slot: int = slot_of(keys[0])
        self.packed: Packed | None = None
        self._parts = (script, keys, args)

    def pack(self, word: str) -> Packed:
        """Make it ready to be sent to servers to which one publishes by this word."""
        packed = self.packed
        if packed is None:
            script, keys, args = self._parts
            args = tuple([word if isinstance(arg, Announce) else arg for arg in args])
            packed = self.packed = prepare(script, keys, args)
        return packed


def prepare_call(script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> SlotCall:
    """See ``Runtime.prepare``."""
    return SlotCall(script, keys, args)


# ---- what nodes say --------------------------------------------------------------------------------------------------


def read_slots(reply: Any, reporter: Address, remap: Remap | None) -> list[tuple[int, int, Address]]:
    """Read the reply to ``CLUSTER SLOTS``: from where to where, both included, which master serves.

    Args:
        reply: The raw reply.
        asked: Who reported it; a node that does not know its own address means the one by which it was reached.
        remap: What the user's client makes of addresses.

    Raises:
        redis.exceptions.InvalidResponse: It is of another type.
    """
    ranges: list[tuple[int, int, Address]] = []
    for entry in reply if isinstance(reply, list) else [None]:
        match entry:
            case [int(), int(), [_, 0, *_], *_]:
                pass  # A node that the others have lost, and of which they no longer know the address.
            case [int(first), int(last), [bytes() | None as host, int(port), *_], *_]:
                ranges.append((first, last, _address((host or b"").decode(), port, reporter, remap)))
            case _:
                raise unexpected_reply(
                    f"CLUSTER SLOTS from {reporter[0]}:{reporter[1]}", reply, "a node of a Redis or Valkey cluster"
                )
    return ranges


class Moved(NamedTuple):
    """Another node serves the slot, for good."""

    slot: int
    address: Address


class AskRedirect(NamedTuple):
    """Another node has what is not here any more, this once: the slot is being moved."""

    slot: int
    address: Address


def read_redirection(error: BaseException, reporter: Address, remap: Remap | None) -> Moved | AskRedirect | None:
    """Read an error reply that says who serves a slot; ``None`` for any other."""
    kind, _, rest = str(error).partition(" ")
    if kind not in ("MOVED", "ASK"):
        return None
    slot, _, where = rest.partition(" ")
    host, _, port = where.strip().rpartition(":")
    return (Moved if kind == "MOVED" else AskRedirect)(int(slot), _address(host, int(port), reporter, remap))


def _address(host: str, port: int, reporter: Address, remap: Remap | None) -> Address:
    address = (reporter[0] if host in ("", "?") else host, port)
    return address if remap is None else remap(address)
