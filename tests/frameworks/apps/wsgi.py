"""A WSGI application with locks, for any server. Its client is made when it is imported, as people do.

``PYREDISSON_TEST_USE_EARLY=1``: the client is used on import, too: before a pre-forking server forks.
``PYREDISSON_TEST_WATCHDOG_TIMEOUT``: that setting of the client's, in seconds.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")

client = pyredisson.Redisson.from_url(
    URL,
    config=pyredisson.Config(
        lock_watchdog_timeout=float(os.environ.get("PYREDISSON_TEST_WATCHDOG_TIMEOUT", "30")),
        on_lock_lost=lambda name, number: note(f"lost {name.removeprefix(NAME)}"),
    ),
)

#: Made before a fork, as most programs do.
lock = client.get_lock(NAME)

if os.environ.get("PYREDISSON_TEST_USE_EARLY"):
    with client.get_lock(f"{NAME}-early"):
        assert client.get_lock(f"{NAME}-early").is_locked()


def ready(**query: str) -> dict[str, Any]:
    """Who answers."""
    return {"pid": os.getpid()}


def enter(hold: str = "0.005", wait: str = "20", name: str = "") -> dict[str, Any]:
    """Take a lock, be inside for ``hold`` seconds."""
    with (client.get_lock(f"{NAME}{name}") if name else lock).hold(wait_time=float(wait)), CriticalSection(name):
        time.sleep(float(hold))
        return {"pid": os.getpid(), "client": client.id, "owner": pyredisson.current_thread_id()}


def keep(hold: str, name: str = "-kept") -> dict[str, Any]:
    """Hold a lock longer than its lease, and tell whether it was lost."""
    with client.get_lock(f"{NAME}{name}").hold(wait_time=0) as lease:
        until = time.monotonic() + float(hold)
        while time.monotonic() < until and not lease.lost:
            time.sleep(0.05)
        return {"lost": lease.lost, "remaining": lease.remaining()}


def attempt(name: str = "-tried", wait: str = "0") -> dict[str, Any]:
    """Try to take a lock; tell how long that took, and what became of it."""
    began = time.monotonic()
    try:
        lock = client.get_lock(f"{NAME}{name}")
        outcome = str(lock.try_lock(float(wait)))
        if outcome == "True":
            lock.unlock()
    except Exception as error:
        outcome = type(error).__name__
    return {"outcome": outcome, "seconds": time.monotonic() - began}


def begin() -> dict[str, Any]:
    """Take the lock, and leave it to another request of this thread to release it."""
    lock.lock()
    return {}


def end() -> dict[str, Any]:
    """Release it."""
    try:
        lock.unlock()
    except pyredisson.LockError as error:
        return {"outcome": type(error).__name__}
    return {"outcome": "released"}


ENDPOINTS: dict[str, Callable[..., dict[str, Any]]] = {
    endpoint.__name__: endpoint for endpoint in (ready, enter, keep, attempt, begin, end)
}


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Serve ``/name?query`` by the function of that name, whose result is sent as JSON."""
    endpoint = ENDPOINTS[environ["PATH_INFO"].removeprefix("/")]
    status = "200 OK"
    try:
        result = endpoint(**dict(parse_qsl(environ.get("QUERY_STRING", ""))))
    except Exception as error:
        status = "500 Internal Server Error"
        result = {"error": f"{type(error).__name__}: {error}"}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(result).encode()]
