"""Which server a request is for: the master that sentinels name, or the node of a cluster that serves its slot."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import redis.exceptions as rx
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from pyredisson._core.failures import NotSent
from pyredisson._core.runtime import Announce
from pyredisson._net.wire import Address, Packed, PackedCommand, as_redis_error, prepare, unexpected_reply

# ---- sentinels -------------------------------------------------------------------------------------------------------
# Where the master is: asked of sentinels, at each new connection.
#
# A sentinel is asked for the address of a service's master, one after another until one knows; the one that answered is
# asked first the next time. Whether what is found there is a master is for the new connection to see: a sentinel may be
# behind.


#: A master that was replaced goes on for seconds before it learns of that: so often, in seconds, we ask who it is.
QUERY_AGAIN = 1.0
#: And so often while no sentinel answers: each time may cost a request a quarter of a second.
QUERY_LATER = 5.0

QuerySentinel: TypeAlias = Callable[[dict[str, Any], tuple[str, ...], float], Awaitable[Any]]
"""Runs one command on a sentinel: with redis-py's settings for the connection, and within a timeout in seconds."""


@final
class Whereabouts:
    """What one link knows of where its master is, and when it has to ask. Plain: nothing blocks.

    A caller that finds it elsewhere, for a new connection or because it was time to ask, finds it for all connections:
    those to where it was are to be left, though the server there may go on for a while as if it were the master still.
    """

    def __init__(self) -> None:
        self._address: Address | None = None  # As of the last answer.
        self._heard_at: Address | None = None  # Where the subscriber is.
        self._query_at = -math.inf

    def queried(self, now: float) -> None:
        """It is being asked for, for a new connection."""
        self._query_at = now + QUERY_AGAIN

    def not_known(self, now: float) -> None:
        """No sentinel knew: do not ask again so soon."""
        self._query_at = now + QUERY_LATER

    def found(self, address: Address) -> Address | None:
        """This is where it is now. Returns where it was before, if that was elsewhere: connections there are left."""
        former, self._address = self._address, address
        return former if former != address else None

    def hears_at(self, address: Address) -> None:
        """The subscriber goes there."""
        self._heard_at = address

    def hears_elsewhere(self) -> bool:
        """Whether the subscriber is to move. True once for each place where it was."""
        if self._heard_at in (None, self._address):
            return False
        self._heard_at = None
        return True

    def has_left(self, address: Address | None) -> bool:
        """Whether it is elsewhere now: a connection to there is not to be used any more."""
        return address != self._address

    def doubtful(self, now: float) -> bool:
        """Whether it is time to ask if the master is still where we are connected. The caller then asks."""
        if self._address is None or now < self._query_at:
            return False
        self._query_at = now + QUERY_AGAIN  # One of many asks.
        return True


@final
class Sentinels:
    """The sentinels of one service.

    Args:
        addresses: Where they are.
        service: The name under which they know the master.
        settings: For the connections to them: ``username``, ``password``, ``ssl`` and the like, as redis-py has them.

    Attributes:
        addresses, service, settings: As given.
    """

    def __init__(self, addresses: Sequence[Address], service: str, settings: dict[str, Any] | None = None) -> None:
        self.addresses = addresses
        self.service = service
        self.settings: dict[str, Any] = dict(settings or {})
        self._order = list(addresses)

    def doubt(self) -> None:
        """The last answer is no master: ask another sentinel first the next time."""
        self._order = [*self._order[1:], *self._order[:1]]

    async def locate(self, query: QuerySentinel, timeout: float) -> Address:
        """Return where the master is, asked within about ``timeout`` seconds. Raises ``NotSent`` if none knows."""
        order = self._order
        service = self.service
        # All of them within the time, as far as it goes; a dead one must not cost it all.
        each = max(timeout / math.sqrt(len(order)), 0.05)
        said: list[str] = []
        for sentinel in order:
            host, port = sentinel
            settings = {
                **self.settings,
                "host": host,
                "port": port,
                "socket_timeout": each,
                "socket_connect_timeout": each,
                "decode_responses": False,
            }
            try:
                master = read_master(await query(settings, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service), each))
            except (rx.RedisError, OSError) as error:
                said.append(f"{host}:{port}: {as_redis_error(error)}")
                continue
            if master is not None:
                self._order = [sentinel, *(other for other in self._order if other != sentinel)]
                return master
            said.append(f"{host}:{port} does not know {service!r}")
        raise NotSent(rx.ConnectionError(f"no sentinel knows the master of {service!r} ({'; '.join(said)})"))


def read_master(reply: object) -> Address | None:
    """Read a sentinel's reply to ``GET-MASTER-ADDR-BY-NAME``; ``None`` if it does not know the service.

    Raises:
        redis.exceptions.InvalidResponse: It is of another type.
    """
    match reply:
        case None | []:
            return None
        case [bytes() as host, bytes() as port]:
            return host.decode(), int(port)
    raise unexpected_reply("SENTINEL GET-MASTER-ADDR-BY-NAME", reply, "a sentinel")


# ---- slots -----------------------------------------------------------------------------------------------------------
# A cluster's slots: which one a request is for, who serves it, and what a node says that does not.


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


class SlotCommand(SlotCall):
    """A command about one key of a cluster."""

    __slots__ = ()

    def __init__(self, command: tuple[str, ...]) -> None:
        self.slot = slot_of(command[1])
        self.packed = PackedCommand(command)


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
