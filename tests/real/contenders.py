"""Many who add to one counter under one lock: whoever is inside with another loses what that one wrote."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import Future
from typing import Any, Protocol

import pytest
import redis

import pyredisson
from pyredisson.errors import StaleTokenError
from pyredisson.fencing.redis import AsyncGuard, Guard
from tests.servers import Server
from tests.waiting import until
from tests.worlds.base import Actor
from tests.worlds.clock import ClockWorld


class HasUrl(Protocol):
    """Servers that clients can connect to."""

    @property
    def url(self) -> str:
        """Where."""
        ...


class Contenders:
    """Threads and tasks of two clients who all add to one counter, each reading, thinking and writing."""

    def __init__(
        self, servers: HasUrl, worlds: list[ClockWorld], name: str, kind: str = "get_lock", **config: Any
    ) -> None:
        self.counter = 0
        self.written = 0
        self.done = 0
        self.errors: list[BaseException] = []
        self.enough = False
        self.clients = []
        self._running: list[Future[Any]] = []
        for world in worlds:
            client = world.from_url(servers.url, **{"timeout": 15.0, "lock_watchdog_timeout": 6.0, **config})
            self.clients.append(client)
            lock = getattr(client, kind)(name)
            work = self._tasks if world.runtime == "asyncio" else self._threads
            self._running += [world.actor().start(work, lock) for _ in range(3)]

    def _threads(self, lock: Any) -> None:
        while not self.enough:
            try:
                with lock:
                    before = self.counter
                    time.sleep(0.0005)
                    self.counter = before + 1
                    self.written += 1
                self.done += 1
            except pyredisson.NoSyncedSlavesError:
                pass  # A master that has just changed has no replica yet, or not for a moment: nothing was taken.
            except (redis.RedisError, pyredisson.RedissonError) as error:
                self.errors.append(error)

    async def _tasks(self, lock: Any) -> None:
        while not self.enough:
            try:
                async with lock:
                    before = self.counter
                    await asyncio.sleep(0.0005)
                    self.counter = before + 1
                    self.written += 1
                self.done += 1
            except pyredisson.NoSyncedSlavesError:
                pass  # A master that has just changed has no replica yet, or not for a moment: nothing was taken.
            except (redis.RedisError, pyredisson.RedissonError) as error:
                self.errors.append(error)

    def progress(self, by: int = 20) -> None:
        """Wait until they have come on."""
        mark = self.counter + by
        until(lambda: self.counter >= mark, 30, what=f"they go on (errors: {self.errors[:3]})")

    def stop(self) -> None:
        self.enough = True
        for each in self._running:
            each.result(30)


class FencedContenders(Contenders):
    """The same over a counter on a server of its own, behind a guard that knows the tokens of a ``FencedLock``.

    Each shows its token before it reads: from then on nobody with an earlier one can write.

    Attributes:
        accepted: What was written, and under which token.
        refused: How often a write, or what should have led to one, came too late.
    """

    def __init__(self, servers: HasUrl, worlds: list[ClockWorld], name: str, store: Server, **config: Any) -> None:
        self.key = f"{name}-counter"
        self.accepted: list[tuple[int, int]] = []
        self.refused = 0
        self._store = store
        self._connections = [(world, world.redis_from_url(store.url)) for world in worlds]
        super().__init__(servers, worlds, name, "get_fenced_lock", **config)

    def _data(self, runtime: str) -> Any:
        return next(connection for world, connection in self._connections if world.runtime == runtime)

    def _written(self, value: int, token: int) -> None:
        self.accepted.append((value, token))
        self.counter = max(self.counter, value)

    def _threads(self, lock: Any) -> None:
        data = self._data("threads")
        guard = Guard(data)
        while not self.enough:
            try:
                with lock.hold() as lease:
                    guard.advance(self.key, token=lease.token)
                    value = int(data.get(self.key) or 0) + 1
                    time.sleep(0.0005)
                    guard.set(self.key, value, token=lease.token)
                    self._written(value, lease.token)
            except StaleTokenError:
                self.refused += 1
            except pyredisson.NoSyncedSlavesError:
                pass
            except (redis.RedisError, pyredisson.RedissonError) as error:
                self.errors.append(error)

    async def _tasks(self, lock: Any) -> None:
        data = self._data("asyncio")
        guard = AsyncGuard(data)
        while not self.enough:
            try:
                async with lock.hold() as lease:
                    await guard.advance(self.key, token=lease.token)
                    value = int(await data.get(self.key) or 0) + 1
                    await asyncio.sleep(0.0005)
                    await guard.set(self.key, value, token=lease.token)
                    self._written(value, lease.token)
            except StaleTokenError:
                self.refused += 1
            except pyredisson.NoSyncedSlavesError:
                pass
            except (redis.RedisError, pyredisson.RedissonError) as error:
                self.errors.append(error)

    def check(self) -> None:
        """No accepted write was lost, and none came under an older token than the one before it."""
        values = [value for value, _ in sorted(self.accepted)]
        tokens = [token for _, token in sorted(self.accepted)]
        assert values == list(range(1, len(values) + 1))
        assert all(earlier < later for earlier, later in itertools.pairwise(tokens)), tokens
        with self._store.client() as direct:
            assert int(direct.get(self.key) or 0) == len(values)


class Late:
    """One who took the lock with a short lease and is paused, past its end, between reading and writing."""

    def __init__(self, contenders: FencedContenders, store: Server, actor: Actor, name: str) -> None:
        self._contenders = contenders
        self._store = store
        self._actor = actor
        self._lock = contenders.clients[0].get_fenced_lock(name)
        self.token = self._take()
        with store.client() as direct:
            Guard(direct).advance(contenders.key, token=self.token)
            self._value = int(direct.get(contenders.key) or 0) + 1

    def _take(self) -> int:
        while True:
            try:
                token: int = self._actor.do(self._lock.lock_and_get_token, 1.5)
            except pyredisson.NoSyncedSlavesError:
                continue  # Nothing was taken.
            return token

    def write(self) -> None:
        """Go on at last, after others have been in: that is refused."""
        with self._store.client() as direct:
            before = int(direct.get(self._contenders.key) or 0)
            assert before >= self._value, "nobody was in meanwhile"
            with pytest.raises(StaleTokenError):
                Guard(direct).set(self._contenders.key, self._value, token=self.token)
        with pytest.raises(pyredisson.LockLostError):
            self._actor.do(self._lock.unlock)
