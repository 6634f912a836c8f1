"""Fixtures of the fault tests: each runtime in turn, a proxy before the shared server, and a look past it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis

from tests.proxy import Proxy
from tests.real_servers.fleets import Fleet
from tests.real_servers.observation import load_scripts
from tests.sentinels import SentinelSet
from tests.servers import DEFAULT, Server
from tests.worlds.by_runtime import WORLDS
from tests.worlds.clock import ClockWorld


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[ClockWorld]:
    """Threads, then asyncio."""
    world = WORLDS[request.param]()
    try:
        yield world
    finally:
        world.close()


@pytest.fixture
def proxy(valkey: Server) -> Iterator[Proxy]:
    """Between a test's clients and the shared server, which knows the scripts: a call is one request."""
    load_scripts(valkey)
    with Proxy(valkey.port) as proxy:
        yield proxy


@pytest.fixture
def locks(valkey: Server) -> Iterator[redis.Redis]:
    """The shared server, whose replies are bytes."""
    with valkey.client() as client:
        yield client


@pytest.fixture
def watched(fresh_server: Callable[..., Server]) -> Iterator[SentinelSet]:
    """One master, two replicas, three sentinels."""
    servers = SentinelSet(fresh_server, DEFAULT)
    yield servers
    servers.stop()


@pytest.fixture
def fleet(fresh_server: Callable[..., Server]) -> Iterator[Fleet]:
    """Five independent nodes."""
    fleet = Fleet(fresh_server)
    try:
        yield fleet
    finally:
        fleet.close()
