"""When a lock is free after its program was ended, as the page on shutting down says. Celery: its own file."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.frameworks.common import Site, Surroundings, require
from tests.waiting import until

SOON = 3.0  # seconds, on a busy machine; a lease that is not released lasts for 30

SCRIPT = """
import signal, sys, time
from pyredisson import Redisson
from tests.frameworks.apps.shared import NAME, URL

handle = {handler}
if handle:
    signal.signal(signal.SIGTERM, handle)
with Redisson.from_url(URL) as client, client.get_lock(NAME).hold():
    time.sleep(60)
"""

ASYNC_SCRIPT = """
import asyncio
from pyredisson.asyncio import Redisson
from tests.frameworks.apps.shared import NAME, URL


async def main():
    async with Redisson.from_url(URL) as client, client.get_lock(NAME).hold():
        await asyncio.sleep(60)


asyncio.run(main())
"""

GUNICORN = ("-m", "gunicorn", "-b", "{address}", "--timeout", "60", "tests.frameworks.apps.wsgi:app")
UVICORN = ("-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "tests.frameworks.apps.fast:app")


def is_held(surroundings: Surroundings) -> bool:
    with surroundings.server.client() as redis:
        return bool(redis.exists(surroundings.name))


def until_held(surroundings: Surroundings) -> None:
    until(lambda: is_held(surroundings), 20.0, what="the lock is held")


@pytest.mark.parametrize(
    ("program", "number", "released"),
    [
        (SCRIPT.format(handler="None"), signal.SIGTERM, False),
        (SCRIPT.format(handler="None"), signal.SIGINT, True),
        (SCRIPT.format(handler="lambda *_: sys.exit(143)"), signal.SIGTERM, True),
        (ASYNC_SCRIPT, signal.SIGTERM, False),
        (ASYNC_SCRIPT, signal.SIGINT, True),
    ],
    ids=["SIGTERM", "SIGINT", "SIGTERM, handled", "asyncio, SIGTERM", "asyncio, SIGINT"],
)
def test_a_script_releases_its_lock_if_it_leaves_the_block(surroundings, program, number, released):
    script = surroundings.program("-c", program)
    until_held(surroundings)
    script.stop(number)
    assert is_held(surroundings) is not released


def serve(surroundings: Surroundings, server: str, path: str, *options: str) -> Site:
    """Start a server, and a request that holds the lock."""
    require(server)
    site = surroundings.site(*(GUNICORN if server == "gunicorn" else UVICORN), *options)
    threading.Thread(target=site.get, args=(path, 60.0)).start()
    until_held(surroundings)
    return site


@pytest.mark.parametrize(
    ("server", "path"),
    [("gunicorn", "/enter?hold=2"), ("uvicorn", "/hold/async?seconds=2"), ("uvicorn", "/hold/sync?seconds=2")],
)
def test_a_request_that_ends_in_time_releases_its_lock(surroundings, server, path):
    site = serve(surroundings, server, path)
    site.stop()
    assert not is_held(surroundings)


@pytest.mark.parametrize(
    ("server", "path", "limit", "released"),
    [
        ("gunicorn", "/enter?hold=10", "--graceful-timeout", False),
        ("uvicorn", "/hold/async?seconds=10", "--timeout-graceful-shutdown", True),
        ("uvicorn", "/hold/sync?seconds=10", "--timeout-graceful-shutdown", False),
    ],
    ids=["gunicorn", "uvicorn, async def", "uvicorn, def"],
)
def test_at_the_limit_only_a_coroutine_of_uvicorn_releases_its_lock(surroundings, server, path, limit, released):
    site = serve(surroundings, server, path, limit, "1")
    site.stop()
    assert is_held(surroundings) is not released


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_quick_stop_of_gunicorn_releases_the_lock(surroundings, number):
    site = serve(surroundings, "gunicorn", "/enter?hold=30")
    site.send(number)
    until(lambda: not is_held(surroundings), SOON, what="the lock is free")
    site.wait()


def test_a_worker_of_gunicorn_that_takes_too_long_releases_its_lock(surroundings):
    require("gunicorn")
    site = surroundings.site(*GUNICORN, "--timeout", "2")
    threading.Thread(target=site.get, args=("/enter?hold=30", 60.0)).start()
    until_held(surroundings)
    until(lambda: not is_held(surroundings), 2 + 2 * SOON, what="the lock is free")
    site.stop()
