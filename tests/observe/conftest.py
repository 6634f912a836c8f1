"""The world of a test of the listeners, and what the listeners measure into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.observe.meters import Meter, OpenTelemetryMeter, PrometheusMeter
from tests.servers import SharedServers
from tests.worlds.base import World
from tests.worlds.environments import SIMULATED


@pytest.fixture(params=[SIMULATED], ids=str)
def world(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Iterator[World]:
    """A runtime over a server, fresh for this test."""
    with request.param.open(shared_servers) as world:
        yield world


@pytest.fixture
def prometheus() -> PrometheusMeter:
    return PrometheusMeter()


@pytest.fixture
def telemetry() -> OpenTelemetryMeter:
    return OpenTelemetryMeter()


@pytest.fixture(params=["prometheus", "telemetry"])
def meter(request: pytest.FixtureRequest) -> Meter:
    """Each in turn."""
    found: Meter = request.getfixturevalue(request.param)
    return found
