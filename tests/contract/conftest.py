"""The world that a test of the contract runs in: each one in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.places import EVERYWHERE
from tests.contract.worlds import World
from tests.servers import SharedServers


@pytest.fixture(params=EVERYWHERE, ids=str)
def world(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Iterator[World]:
    """A runtime over a server, fresh for this test."""
    with request.param.open(shared_servers) as world:
        yield world
