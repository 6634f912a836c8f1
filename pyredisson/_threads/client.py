# Generated from _asyncio/client.py by `make facade`: change that file, and run it.

"""``Redisson``, the client."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, final

import redis

from pyredisson._core.names import check_name
from pyredisson._core.runtime import run
from pyredisson._shared import process
from pyredisson._shared.arguments import refuse, settings_by_name
from pyredisson._shared.client import BaseClient
from pyredisson._threads.factory import Factory
from pyredisson._threads.runtime import ThreadsRuntime
from pyredisson._threads.sockets import FORM
from pyredisson.config import Config

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.holders import Holder
    from pyredisson.inspection import ClientView, LockView, WaitGraph


@final
class Redisson(BaseClient, Factory):
    """A client, which makes locks and synchronizers and serves them with one watchdog and one subscriber.

    It connects when a lock or synchronizer is first used. Handles keep their client alive; once the client and all its
    handles are gone, or after :meth:`close`, its threads and connections end. In the child of a fork it is a different
    client, which holds none of its parent's locks.

    Example::

        with Redisson.from_url("redis://localhost:6379") as client:
            lock = client.get_lock("orders")

    Args:
        redis: A redis-py client to copy the settings from (a ``redis.Redis`` or a
            ``redis.RedisCluster``). It remains the caller's and is not closed. ``None``:
            ``redis://localhost:6379``.
        config: The settings that differ from the defaults.
    """

    _form = FORM
    _runtime_class = ThreadsRuntime
    _runtime: ThreadsRuntime  # pyright: ignore[reportIncompatibleVariableOverride]

    @settings_by_name
    def __init__(
        self,
        redis: redis.Redis | redis.RedisCluster | None = None,
        *,
        config: Config | None = None,
        **unknown: NoReturn,
    ) -> None:
        refuse(self.__init__, unknown)
        self._start(redis, config)

    def holder_of(self, name: str) -> Holder | None:
        """Return who holds the lock of this name, as far as the server knows within a moment.

        Example::

            holder = client.holder_of("orders")

        Args:
            name: The name of a lock. The holders of a semaphore or a multi-lock cannot be determined.

        Returns:
            The holder; of a read-write lock that is read, one of them. ``None`` if there is none, or it is not known.

        Raises:
            TypeError: The name is not a ``str``.
            ValueError: The name is not valid.
            ClientClosedError: The client was closed.
        """
        self._core.check_open()
        found = run(self._core.finder.find(check_name(name), by_user=True))
        return found.holder

    def inspect(self, name: str) -> LockView | None:
        """Return what is stored under a name: its kind, who holds it, who waits. It changes nothing.

        Example::

            view = client.inspect("orders")
            if view is not None and view.held:
                print(view.holders[0].label)

        Args:
            name: The name of a lock or synchronizer.

        Returns:
            What there is; ``None`` if it is free and no one waits for it.

        Raises:
            TypeError, ValueError: The name is not valid; or the connections of the client, such as those of a fake
                server, cannot be used for this.
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server does not answer, or refuses.
        """
        check_name(name)
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.lock(name)))

    def find_locks(self, pattern: str = "*") -> Iterator[LockView]:
        """Yield the locks and synchronizers whose names match a pattern, as they are found. Raises as :meth:`inspect`.

        All keys of the server are searched (``SCAN``), unless the pattern is a name.

        Example::

            for view in client.find_locks("order:*"):
                print(view.name, view.kind, view.remaining)

        Args:
            pattern: As for ``SCAN MATCH``.
        """
        wanted = pattern if pattern != "*" else None
        yield from self._runtime.found(self._inspector(), lambda inspector: inspector.locks(wanted))

    def find_leaks(self) -> Iterator[LockView]:
        """Yield what never expires, or whose holder or queue is gone. Raises as :meth:`inspect`.

        Example::

            for view in client.find_leaks():
                print(view.name, view.problems)
        """
        yield from self._runtime.found(self._inspector(), lambda inspector: inspector.leaks())

    def count_locks(self, pattern: str = "*") -> dict[str, int]:
        """Return how many locks are held, by kind: the word of ``get_*``. Raises as :meth:`inspect`.

        Example::

            counts = client.count_locks()

        Args:
            pattern: As for :meth:`find_locks`.
        """
        wanted = pattern if pattern != "*" else None
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.counts(wanted)))

    def wait_graph(self) -> WaitGraph:
        """Return who waits for whom, and the deadlocks among them. Raises as :meth:`inspect`.

        Example::

            graph = client.wait_graph()
            for cycle in graph.cycles:
                print(" -> ".join(edge.waiter.label for edge in cycle))
        """
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.wait_graph()))

    def clients(self) -> list[ClientView]:
        """Return the clients of the server, by their connections and what they report. Raises as :meth:`inspect`.

        Example::

            for each in client.clients():
                print(each.app, each.host, len(each.holds))
        """
        return run(self._runtime.inspect(self._inspector(), lambda inspector: inspector.clients()))

    def close(self) -> None:
        """Close the client: end its threads, its connections and its embedded server. Idempotent.

        Waiters are woken with ``ClientClosedError``. Locks that are still held are renewed no longer; a block
        that is left before its lease ends releases its lock all the same.

        Example::

            client = Redisson.from_url("redis://localhost:6379")
            client.close()
        """
        process.check_forked()
        self._core.close()
        try:
            run(self._core.end())
        finally:
            run(self._runtime.close())
        self._end()

    def __enter__(self) -> Self:
        self._core.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
