"""Many who add to one counter under one lock: whoever is inside with another loses what that one wrote."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Any, Protocol

import redis

import pyredisson
from tests.waiting import until
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
