"""Faults on demand: a hold that is taken away, a reply that is lost, a server that cannot be reached."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import Any, overload

import pyredisson
import pyredisson.asyncio
from pyredisson.testing._proxy import LostReply
from pyredisson.testing._server import proxy_of

_CAPITAL = re.compile("(?=[A-Z])")


@overload
def take_away(lock: pyredisson.Lock) -> None: ...


@overload
def take_away(lock: pyredisson.asyncio.Lock) -> Coroutine[Any, Any, None]: ...


def take_away(lock: pyredisson.Lock | pyredisson.asyncio.Lock) -> Coroutine[Any, Any, None] | None:
    """End the hold of a lock in Redis, as an eviction or another client's ``force_unlock()`` would.

    Holders of the same client as ``lock`` are notified immediately: ``lease.lost`` is true, ``Config.on_lock_lost`` is
    called, and ``LockLostError`` is raised on leaving. Holders of other clients are notified at their next renewal.

    Args:
        lock: A lock, or one side of a read-write lock. With a lock of :mod:`pyredisson.asyncio`, await the call.

    Raises:
        AssertionError: The lock is free.
        TypeError: ``lock`` is not such a lock. Of a ``MultiLock``, take away its members.
    """
    if isinstance(lock, pyredisson.Lock):
        if not any(each.force_unlock() for each in _handles_of_another_owner(lock)):
            raise _free(lock)
        return None
    if isinstance(lock, pyredisson.asyncio.Lock):
        return _take_away_async(lock)
    raise TypeError(f"take_away() needs a lock with an owner, not {type(lock).__name__}")


async def _take_away_async(lock: pyredisson.asyncio.Lock) -> None:
    for each in _handles_of_another_owner(lock):
        if await each.force_unlock():
            return
    raise _free(lock)


def _handles_of_another_owner(lock: Any) -> list[Any]:
    """Return handles of which one frees the lock. For the caller's own, ``force_unlock()`` is a release, not a loss."""
    client = lock._client
    owner = client.new_owner()
    kind = type(lock).__name__
    getter = "get" + _CAPITAL.sub("_", kind).lower()  # FairLock is made by get_fair_lock().
    handles = [getattr(client, getter)(lock.name, owner=owner)]
    if kind == "Lock":  # It may be a side of a read-write lock, which frees only what is locked as one.
        both = client.get_read_write_lock(lock.name, owner=owner)
        handles[:0] = [both.write_lock(), both.read_lock()]
    return handles


def _free(lock: pyredisson.Lock | pyredisson.asyncio.Lock) -> AssertionError:
    return AssertionError(f"lock {lock.name!r} is not held, so it cannot be taken away")


def lose_next_reply(client: pyredisson.Redisson | pyredisson.asyncio.Redisson) -> LostReply:
    """Let the server execute the client's next request, and lose the reply: its connection is closed instead.

    This applies to requests that change or renew a lock, a semaphore or a latch, also those of the client's watchdog.
    The client then determines the outcome of the request, so an ``acquire`` or ``unlock`` counts once. This is a plain
    call for sync and async clients.

    Args:
        client: A client that connects through a route of :class:`RedissonServer`, as those of the fixtures do.

    Returns:
        The lost reply; its ``happened`` says whether it was lost by now.

    Raises:
        ValueError: The client connects through no such route.
    """
    return proxy_of(client).lose_next_reply()


def partition(
    client: pyredisson.Redisson | pyredisson.asyncio.Redisson, *, silent: bool = False
) -> AbstractContextManager[None]:
    """Keep the client from reaching its server while the block runs. Use a plain ``with`` for sync and async clients.

    Example::

        with partition(client):
            ...  # Requests raise ConnectionError, and no lock is renewed.

    Args:
        client: A client that connects through a route of :class:`RedissonServer`, as those of the fixtures do.
        silent: Leave connections open without a reply, as a network that drops packets does: each request then takes
            until its timeout (``Config.timeout``), and may be executed after the block. Otherwise connections are
            closed immediately.

    Raises:
        ValueError: The client connects through no such route.
    """
    return proxy_of(client).partition(silent=silent)
