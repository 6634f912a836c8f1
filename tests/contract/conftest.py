"""The world that a test of the contract runs in: each one in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import SharedServers
from tests.worlds.base import World
from tests.worlds.environments import EVERYWHERE


@pytest.fixture(params=EVERYWHERE, ids=str)
def world(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Iterator[World]:
    """A runtime over a server, fresh for this test."""
    with request.param.open(shared_servers) as world:
        yield world
