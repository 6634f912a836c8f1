"""An inspection for a client: over connections of its own, which are closed when it is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from redis.connection import AbstractConnection

from pyredisson._net.sentinel import Sentinels
from pyredisson._net.slots import Cluster
from pyredisson._net.urls import Endpoint, is_tls
from pyredisson.inspection.inspector import Inspector
from pyredisson.inspection.model import LockView

if TYPE_CHECKING:
    from pyredisson.config import Config

T = TypeVar("T")

#: How many locks a task is given at a time.
BATCH = 100

#: Settings of a connection that are made for an event loop.
_FOR_LOOPS = frozenset({"parser_class", "redis_connect_func"})


def inspector_of(place: Endpoint | Cluster, config: Config) -> Inspector:
    """Return an inspector for the locks of a client.

    Args:
        place: Where the client leads.
        config: Its settings.

    Raises:
        TypeError: Its connections are of a class that cannot be used from here.
    """
    return Inspector(_for_threads(place), prefix=config.prefix, timeout=config.timeout)


def _for_threads(place: Endpoint | Cluster) -> Endpoint | Cluster:
    if isinstance(place, Cluster):
        return place._replace(connection_class=_class_for_threads(place.connection_class))
    settings = {name: value for name, value in place.settings.items() if name not in _FOR_LOOPS}
    pool = settings.pop("connection_pool", None)
    if pool is None:
        return Endpoint(_class_for_threads(place.connection_class), settings, place.sentinels)
    # redis-py's own client of a master that sentinels report.
    manager = pool.sentinel_manager
    asked = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    sentinels = [(each["host"], each["port"]) for each in asked]
    kind = redis.SSLConnection if is_tls(place.connection_class) else redis.Connection
    return Endpoint(kind, settings, Sentinels(sentinels, pool.service_name, manager.sentinel_kwargs))


def _class_for_threads(kind: Callable[..., Any]) -> Any:
    if not isinstance(kind, type) or issubclass(kind, AbstractConnection):
        return kind
    if kind.__module__.startswith("redis.asyncio.") and hasattr(redis, kind.__name__):
        return getattr(redis, kind.__name__)
    raise TypeError(
        f"locks cannot be inspected over connections of {kind.__module__}.{kind.__qualname__}: use a client from "
        "Redisson.from_url(), or pyredisson.inspection.Inspector(url)"
    )


async def answered(inspector: Inspector, question: Callable[[Inspector], T]) -> T:
    """Ask something in a thread, and close the inspector. The event loop is not blocked."""

    def ask() -> T:
        with inspector:
            return question(inspector)

    return await asyncio.to_thread(ask)


async def found(inspector: Inspector, find: Callable[[Inspector], Iterator[LockView]]) -> AsyncIterator[LockView]:
    """Yield what is found in a thread, and close the inspector."""
    locks = find(inspector)
    try:
        while batch := await asyncio.to_thread(lambda: list(islice(locks, BATCH))):
            for each in batch:
                yield each
    finally:  # In a thread, too: one that was waited for no longer may use it still.
        _ = asyncio.get_running_loop().run_in_executor(None, inspector.close)
