"""A WSGI application that streams under a lock, and that gives up generators under one."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection

client = pyredisson.Redisson.from_url(URL)


def rows(block: Any, pause: float = 0.0) -> Iterator[bytes]:
    """Read what is to be read under the lock."""
    with block, CriticalSection():
        for number in range(100_000):
            yield b"row %d\n" % number
            time.sleep(pause)


def stream(form: str) -> Iterator[bytes]:
    """The server closes it when its client has gone."""
    lock = client.get_lock(f"{NAME}-stream")
    return rows(lock.hold(wait_time=20) if form == "hold" else lock, pause=0.01)


def give_up() -> Any:
    """What many a view does with a generator, again and again."""
    lock = client.get_lock(f"{NAME}-rows")
    for _ in range(3):
        for _ in rows(lock):
            break
        assert len(list(itertools.islice(rows(lock.hold(wait_time=20)), 2))) == 2
        generator = rows(lock)
        next(generator)
        generator.close()  # type: ignore[attr-defined]
    return {"pid": os.getpid(), "count": lock.get_hold_count()}


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Serve ``/stream/with``, ``/stream/hold``, ``/give-up`` and ``/ready``."""
    path = environ["PATH_INFO"]
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path.startswith("/stream/"):
        return stream(path.removeprefix("/stream/"))
    return [json.dumps(give_up() if path == "/give-up" else "ready").encode()]
