"""Locks, semaphores and latches of each kind, made by the name of the kind."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson import LockLostError, LockNotOwnedError
from tests.worlds.base import Actor, Remote, World
from tests.worlds.store import Store

LOCKS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "non_reentrant_lock"]
LOCKS += ["non_reentrant_fair_lock", "read_lock", "write_lock"]


def each_of(*values: Any, ids: Any = None) -> Any:
    """Return a fixture with each of these values in turn, for the tests of a file that do not name their own."""
    return pytest.fixture(params=values, ids=ids)(lambda request: request.param)


def make(client: Remote, kind: str, name: str = "orders", **arguments: Any) -> Any:
    """Return a client's object of a kind, or a side of a read-write lock, or a multi-lock of that name and "stock"."""
    real = client.real
    if kind in ("read_lock", "write_lock"):
        return getattr(real.get_read_write_lock(name, **arguments), kind)()
    if kind == "multi_lock":
        return real.get_multi_lock(*(real.get_lock(each, **arguments) for each in (name, "stock")))
    return getattr(real, f"get_{kind}")(name, **arguments)


def handle(actor: Actor, client: Remote, kind: str, name: str = "orders", **arguments: Any) -> Remote:
    """Return the same, for an actor."""
    return Remote(make(client, kind, name, **arguments), actor)


def single(actor: Actor, client: Remote, kind: str, name: str = "orders") -> Remote:
    """Return a lock, or a semaphore with one permit."""
    return handle(actor, client, kind, name, **({"permits": 1} if "semaphore" in kind else {}))


def over(actor: Actor, locks: Sequence[Any], **options: Any) -> Remote:
    """Return a multi-lock over these locks, for an actor."""
    api = pyredisson.asyncio if "asyncio" in type(locks[0]).__module__ else pyredisson
    return Remote(api.MultiLock(*locks, **options), actor)


def members(world: World, nodes: int, **config: Any) -> tuple[list[Any], list[Store]]:
    """Return the locks of a multi-lock, and their stores: two on one server, or those of one name on several nodes."""
    if nodes == 1:
        client = world.client(**config)
        return [make(client, "lock", name) for name in ("a", "b")], [world.redis]
    clients = world.nodes(nodes, **{"quorum_node_timeout": 2.0, **config})
    return [make(client, "lock", "a") for client in clients], [world.node(index) for index in range(nodes)]


def acquired(lock: Remote, actor: Actor, lease: float | None = None, *, block: bool) -> Callable[[], Any]:
    """Acquire a lock, in a block of ``hold()`` or not. Returns the call that releases it."""
    return partial(actor.do, release_of(lock, lease, block=block))


def release_of(lock: Remote, lease: float | None = None, *, block: bool) -> Callable[[], Any]:
    """Acquire a lock in the same way. Returns what its actor calls, or starts, to release it."""
    if not block:
        lock.lock(lease)
        release: Callable[[], Any] = lock.real.unlock
        return release
    held = lock.hold(lease_time=lease)
    held.enter()
    return World.leave(held.real)


def rival(actor: Actor, client: Remote, kind: str, name: str = "orders") -> Remote:
    """Return a lock that one of that kind excludes: of a read lock, the write lock."""
    return handle(actor, client, "write_lock" if kind == "read_lock" else kind, name)


def lock_of(world: World, kind: str, **config: Any) -> Any:
    """Return a lock of a new client, or a ``red_lock`` over three servers."""
    if kind != "red_lock":
        return make(world.client(**config), kind)
    clients = world.nodes(3, quorum_node_timeout=2.0, **config)
    return clients[0].real.get_red_lock(*(client.real.get_lock("orders") for client in clients))


def wait(handle: Remote, seconds: float | timedelta | None = None) -> Callable[[], Any]:
    """Return the call that waits for it, without a limit by default."""
    method = next(name for name in ("try_lock", "try_acquire", "wait") if hasattr(handle.real, name))
    arguments = {"timeout" if method == "wait" else "wait_time": seconds}
    return partial(getattr(handle.real, method), **arguments)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the library has logged at WARNING and above."""
    levels = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [record.getMessage() for record in levels if record.name.split(".")[0] == "pyredisson"]


def not_owned(call: Callable[[], object], match: str = ".") -> None:
    """It was never this caller's own: nothing was lost."""
    with pytest.raises(LockNotOwnedError, match=match) as refusal:
        call()
    assert not isinstance(refusal.value, LockLostError)


def raises_lost(call: Callable[..., object], *arguments: object, match: str = ".") -> None:
    """The hold that a call is about was lost."""
    with pytest.raises(LockLostError, match=match):
        call(*arguments)
