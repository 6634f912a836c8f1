"""Django: a client for each process, system checks, locks around views and transactions, commands that run on one host.

::

    INSTALLED_APPS = [..., "pyredisson.integrations.django.PyredissonApp"]
    PYREDISSON = {"URL": "redis://localhost:6379/0", "lock_watchdog_timeout": 30}

Everything but ``URL`` is a setting of :class:`pyredisson.Config`. Without a URL it is that of the environment.
"""

# Django has no types, and what is inferred from its sources is wrong.
# pyright: reportArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from weakref import WeakSet

import pyredisson.asyncio
from pyredisson import Config, Lease, Redisson, Skipped
from pyredisson._core.deadline import AT_LEAST, Seconds
from pyredisson._net.urls import url_from_env
from pyredisson._shared import process
from pyredisson._shared.arguments import Extra, check_times
from pyredisson._shared.synchronized import GuardedCalls, Guarding, WhenBusy, check_kind, check_when_busy, lock_of
from pyredisson.compat.redis_py import Lock as RedisPyLock

with Extra("django"):
    from django.apps import AppConfig
    from django.conf import settings
    from django.core import checks
    from django.core.cache.backends.redis import RedisCache
    from django.core.signals import setting_changed
    from django.db import transaction

__all__ = ["LockingRedisCache", "OneHostMixin", "PyredissonApp", "async_client", "client", "hold", "synchronized"]

_log = logging.getLogger("pyredisson.django")

Function = TypeVar("Function", bound=Callable[..., Any])
Client = TypeVar("Client", Redisson, pyredisson.asyncio.Redisson)

_making = threading.RLock()
_client: Redisson | None = None
#: A client of asyncio serves one event loop. Those of loops that are closed serve the next ones.
_async_clients: dict[asyncio.AbstractEventLoop, pyredisson.asyncio.Redisson] = {}
#: The databases for which :func:`_warn_of_the_past` has logged its line.
_warned: set[str] = set()


def _make(form: type[Client]) -> Client:
    given = dict(getattr(settings, "PYREDISSON", {}))
    url, config = given.pop("URL", None), Config(**given)
    return form.from_env(config=config) if url is None else form.from_url(url, config=config)


def client() -> Redisson:
    """Return the client of this process, for threads. It is made at first use, and the child of a fork may use it."""
    global _client
    with _making:
        _client = _client or _make(Redisson)
        return _client


def async_client() -> pyredisson.asyncio.Redisson:
    """Return the client of this process for asyncio: one for each event loop that runs at the same time.

    Raises:
        RuntimeError: No event loop is running.
    """
    loop = asyncio.get_running_loop()
    with _making:
        if loop not in _async_clients:
            closed = next((each for each in _async_clients if each.is_closed()), None)
            _async_clients[loop] = _async_clients.pop(closed) if closed else _make(pyredisson.asyncio.Redisson)
        return _async_clients[loop]


@process.on_fork
def _after_fork() -> None:
    global _making
    _making = threading.RLock()  # A thread of the parent may have held it.


def _forget_clients(*, setting: str, **_: object) -> None:
    """Make new clients after a test has overridden the settings."""
    global _client
    if setting == "PYREDISSON":
        if _client is not None:
            _client.close()
        _client = None
        _async_clients.clear()


class PyredissonApp(AppConfig):
    """The application for ``INSTALLED_APPS``: it adds system checks."""

    name = "pyredisson.integrations.django"
    label = "pyredisson"

    def ready(self) -> None:
        """Register the checks. Called by Django."""
        checks.register(_check_settings)
        checks.register(_check_server, deploy=True)
        setting_changed.connect(_forget_clients)


def _check_settings(**_: object) -> list[checks.CheckMessage]:
    try:
        client()
    except (TypeError, ValueError) as error:
        return [checks.Error(f"PYREDISSON is not valid: {error}", id="pyredisson.E001")]
    return []


def _check_server(**_: object) -> list[checks.CheckMessage]:
    """Inspect the server, as ``pyredisson doctor`` does. Only for ``manage.py check --deploy``."""
    if _check_settings():
        return []
    from pyredisson._tools.examination import Grade, judge, probe

    with url_from_env() as from_env:  # With its password, which the URL of a client does not show.
        url: str = getattr(settings, "PYREDISSON", {}).get("URL") or from_env
    return [
        checks.Error(finding.text, hint=finding.node, id="pyredisson.E002")
        if finding.grade is Grade.CRITICAL
        else checks.Warning(finding.text, hint=finding.node, id="pyredisson.W001")
        for finding in judge(probe([str(client().url) if url.startswith("embedded:") else url])).findings
    ]


class _Release:
    """The release of a lock that is held until the end of a transaction.

    Django calls it after a commit, also if an earlier hook raises: that ends the other ones. After a rollback, of a
    savepoint too, Django drops it, and has no signal for that: so it is released when it is deleted.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def register(self, using: str | None) -> None:
        """Have Django call it after the commit of the transaction that is open."""
        connection = transaction.get_connection(using)
        releases: WeakSet[_Release] = vars(connection).setdefault("_releases_at_commit", WeakSet())
        hooks = connection.run_on_commit
        for place in range(len(hooks) - 1, -1, -1):
            savepoints, hook, robust = hooks[place]
            if isinstance(hook, _Earlier):
                break  # Those before it are wrapped too.
            hooks[place] = (savepoints, _Earlier(hook, releases), robust)
        releases.add(self)
        transaction.on_commit(_Earlier(self.after_commit, releases), using, robust=True)

    def __del__(self) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock, and log what goes wrong."""
        try:
            self._stack.close()
        except Exception:  # The transaction has ended, and there is no caller.
            _log.warning("pyredisson: a lock was lost, or not released, when its transaction ended", exc_info=True)

    def after_commit(self) -> None:
        self._stack.close()


class _Earlier:
    """A hook of Django that comes before releases, and lets them happen if it raises."""

    def __init__(self, hook: Callable[[], object], releases: WeakSet[_Release]) -> None:
        functools.update_wrapper(self, hook)
        self.__qualname__ = getattr(hook, "__qualname__", repr(hook))  # Django logs it.
        self._hook, self._releases = hook, releases

    def __call__(self) -> None:
        try:
            self._hook()
        except BaseException:
            for release in list(self._releases):
                release.release()
            raise


def _warn_of_the_past(connection: Any, name: str) -> None:
    """Log once that a transaction of PostgreSQL may not see what was committed before its lock was acquired.

    With REPEATABLE READ its first statement decides what it sees. Of the level only Django's own setting is known.
    """
    level = getattr(getattr(connection, "isolation_level", None), "name", None)
    status = getattr(getattr(connection.connection, "info", None), "transaction_status", 0)
    if level == "REPEATABLE_READ" and status and connection.alias not in _warned:
        _warned.add(connection.alias)
        _log.warning(
            "pyredisson: lock %r was acquired in a transaction that had begun before, with REPEATABLE READ: it may not "
            "see what earlier holders wrote. Acquire the lock around the transaction, or use READ COMMITTED (logged "
            "once for the database %r)",
            name,
            connection.alias,
        )


@contextmanager
def hold(
    name: str,
    *,
    wait_time: Seconds | None = None,
    lease_time: Seconds | None = None,
    kind: Guarding = "lock",
    using: str | None = None,
    skip: bool = False,
) -> Iterator[Lease | None]:
    """Hold a lock while the block runs; in a transaction, until that is committed or rolled back.

    So the next holder sees what was written. The transaction may also begin inside the block.

    Args:
        name: The name of the lock.
        wait_time: Seconds to wait at most. ``None``: wait without a time limit.
        lease_time: As for :meth:`Lock.lock`.
        kind: Which lock: ``"lock"``, ``"fair"``, ``"fenced"``, ``"spin"`` or ``"token"``.
        using: The database. ``None``: the default one.
        skip: Whether the block runs with ``None`` if the lock is not acquired in time.

    Raises:
        LockTimeoutError: The lock was not acquired in time.
        LockLostError: It was lost, and no transaction was open. After a commit that is logged.
    """
    with ExitStack() as stack:
        lease = stack.enter_context(lock_of(client(), kind, name).hold(wait_time, lease_time, skip=skip))
        connection = transaction.get_connection(using)
        if connection.in_atomic_block:
            _warn_of_the_past(connection, name)
            _Release(stack.pop_all()).register(using)
        yield lease


def synchronized(
    key: str,
    *,
    wait_time: Seconds | None = None,
    lease_time: Seconds | None = None,
    kind: Guarding = "lock",
    when_busy: WhenBusy = "wait",
    using: str | None = None,
) -> Callable[[Function], Function]:
    """Return a decorator of views and other functions, as ``client.synchronized()``, that respects transactions.

    A call in a transaction (``ATOMIC_REQUESTS``) holds the lock until that ends; see :func:`hold`. It decorates ``def``
    and ``async def``.

    Args and errors: as for :meth:`Redisson.synchronized`, and ``using`` as for :func:`hold`.
    """
    check_times(wait_time, lease_time)
    check_kind(kind)
    check_when_busy(when_busy)
    wait, skip = 0 if when_busy != "wait" and wait_time is None else wait_time, when_busy == "skip"

    def block(name: str) -> Any:
        return hold(name, wait_time=wait, lease_time=lease_time, kind=kind, using=using, skip=skip)

    def async_block(name: str) -> Any:
        return lock_of(async_client(), kind, name).hold(wait, lease_time, skip=skip)

    async def skipped(name: str) -> Skipped:
        return Skipped(await async_client().holder_of(name))

    def decorate(called: Any) -> Any:
        if inspect.iscoroutinefunction(called):
            return GuardedCalls("synchronized", key, async_block, skipped).task(called)
        return GuardedCalls("synchronized", key, block, lambda name: Skipped(client().holder_of(name))).function(called)

    return decorate


class OneHostMixin:
    """A mixin of management commands that run on one host at a time; the others skip it.

    ``class Command(OneHostMixin, BaseCommand)``. See :meth:`Redisson.run_once`.
    """

    #: The name of the lock; ``None``: ``"command:"`` and the name of the command.
    lock_name: str | None = None
    at_most: Seconds | None = 3600
    at_least: Seconds = AT_LEAST

    def execute(self, *args: Any, **options: Any) -> Any:
        """Run the command, or write that it was skipped. Called by Django."""
        name = self.lock_name or f"command:{type(self).__module__.rpartition('.')[2]}"
        with client().run_once(name, at_most=self.at_most, at_least=self.at_least) as run:
            if run is not None:
                return super().execute(*args, **options)  # type: ignore[misc]
        if options.get("verbosity", 1):
            stdout: Any = options.get("stdout") or self.stdout  # type: ignore[attr-defined]
            stdout.write(f"skipped: {name!r} runs on another host, or has run recently\n")
        return None


class LockingRedisCache(RedisCache):
    """Django's cache on Redis with the method ``lock()`` of django-redis."""

    def lock(self, key: str, version: int | None = None, timeout: float | None = None, **arguments: Any) -> RedisPyLock:
        """Return a lock with the key that django-redis uses, so that both exclude each other.

        Args:
            key: The name of the lock.
            version: As for the other methods of the cache.
            timeout: The lease in seconds. ``None``: the lock is renewed until it is released.
            **arguments: The other ones of :class:`pyredisson.compat.redis_py.Lock`: ``sleep``, ``blocking_timeout``,
                ``thread_local``, ...
        """
        name = self.make_and_validate_key(key, version=version)
        return RedisPyLock(self._cache.get_client(name, write=True), name, timeout, **arguments)
