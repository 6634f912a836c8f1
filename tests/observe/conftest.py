"""The world of a test of the listeners, and a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from prometheus_client import CollectorRegistry

from tests.servers import SharedServers
from tests.worlds.base import World
from tests.worlds.environments import SIMULATED


@pytest.fixture(params=[SIMULATED], ids=str)
def world(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Iterator[World]:
    """A runtime over a server, fresh for this test."""
    with request.param.open(shared_servers) as world:
        yield world


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def value(registry: CollectorRegistry) -> Callable[..., float | None]:
    """``value("holds", lock="orders")``: a sample of the registry, ``None`` if it is not there."""

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"pyredisson_{name}", labels)

    return value
