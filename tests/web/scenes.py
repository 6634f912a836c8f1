"""Snapshots made by hand, and a site that shows them on a real port."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from pyredisson._tools.web.app import Access, Outcome, Site, WebServer
from pyredisson._tools.web.pages import Pages
from pyredisson._tools.web.watcher import Watcher, see
from pyredisson.inspection import ClientView, LockView, Snapshot, WaiterView, Who
from tests import waiting
from tests.servers import HOST

#: Only a failing test ever waits that long; a busy machine may need some seconds for a page.
until = functools.partial(waiting.until, within=30.0)

SERVER = "redis://redis.example:6379/0"


def client_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def who(number: int, thread_id: int = 1, /, **fields: Any) -> Who:
    """An owner of the client of this number."""
    given = {"app": "web", "host": f"host-{number}", "pid": 1000 + number, "connected": True, "runtime": "pyredisson"}
    owner = f"{client_id(number)}:{thread_id}"
    return Who(**{"client_id": client_id(number), "thread_id": thread_id, "owner": owner, **given, **fields})


def lock(name: str, *holders: Who, waiters: tuple[WaiterView, ...] = (), **fields: Any) -> LockView:
    """A plain lock."""
    return LockView(
        **{"name": name, "kind": "lock", "node": "a:6379", "holders": holders, "waiters": waiters, **fields}
    )


def waiter(owner: Who, **fields: Any) -> WaiterView:
    return WaiterView(**{"who": owner, "kind": "lock", "since": None, "place": None, "expired": False, **fields})


def client(number: int, **fields: Any) -> ClientView:
    """A client with two connections."""
    given = {"app": "web", "host": f"host-{number}", "pid": 1000 + number, "connections": 2, "version": "0.2.0"}
    return ClientView(**{"client_id": client_id(number), **given, **fields})


def snapshot(*locks: LockView, **fields: Any) -> Snapshot:
    return Snapshot(**{"taken": time.time(), "locks": locks, "keys_seen": len(locks), "seconds": 0.001, **fields})


class Scene:
    """What there is to see. Change ``locks``, ``clients`` or ``error`` at any time.

    Attributes:
        looks: How often it was looked at.
        freed: Which locks were asked to be freed from whom.
        outcome: What such a request leads to.
    """

    def __init__(self, *locks: LockView) -> None:
        self.locks, self.clients = locks, (client(1), client(2))
        self.error: Exception | None = None
        self.fields: dict[str, Any] = {}
        self.looks = 0
        self.freed: list[tuple[str, ...]] = []
        self.outcome = Outcome(True, 200, "Freed", "The lock was freed.")

    def take(self) -> Snapshot:
        self.looks += 1
        if self.error is not None:
            raise self.error
        return snapshot(*self.locks, clients=self.clients, **self.fields)

    async def free(self, lock: LockView) -> Outcome:
        self.freed.append((lock.name, *(each.owner for each in lock.holders)))
        if self.outcome.freed:
            self.locks = tuple(each for each in self.locks if each.name != lock.name)
        return self.outcome


class RunningSite:
    """The site on a free port, in a thread."""

    def __init__(
        self, scene: Scene, *, token: str | None, interval: float, hosts: tuple[str, ...], always: bool, port: int = 0
    ) -> None:
        self._listener = socket.create_server((HOST, port))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        self.access = Access(token, frozenset(hosts), self.port)
        self.watcher = Watcher(lambda: scene.take(), interval=interval, always=always)
        self.pages = Pages(self.watcher, server=SERVER, form_token=self.access.form_token if token else None)
        self.reports: list[str] = []
        site = Site(
            self.watcher, self.pages, self.access, free=scene.free if token else None, report=self.reports.append
        )
        self._server = WebServer(site, self.watcher)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve([self._listener])))

    def __enter__(self) -> RunningSite:
        self._thread.start()
        until(lambda: self._server.started, what="the site has started")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it. Idempotent."""
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the site has not ended"

    def client(self, **settings: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **settings)

    def get(self, path: str, **settings: Any) -> httpx.Response:
        with self.client() as browser:
            return browser.get(path, **settings)

    def page_of(self, name: str) -> str:
        """The path of a lock's page; the site looks, if it has not yet."""
        self.get("/")
        until(lambda: self.watcher.seen is not None)
        assert self.watcher.seen is not None
        return next(f"/lock/{row.id}" for row in self.watcher.seen.rows.values() if row.lock.name == name)

    @contextmanager
    def events(self, path: str = "/events", browser: httpx.Client | None = None) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a page, as long as the block runs."""
        with browser or self.client() as opened, opened.stream("GET", path) as response:
            assert response.status_code == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            yield (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))

    def form(self, *holders: Who) -> dict[str, str]:
        """The fields of the form that frees a lock from these holders."""
        row = next(iter(see(snapshot(lock("x", *holders)), None).rows.values()))
        return {"form_token": self.access.form_token, "ownership": row.ownership or ""}
